"""Bed of a simulated site for the contract of ownership."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nexusform.interfaces.plugins import ObjectKey
from nexusform.providers.simulated_reality import Attributes, Reality
from tests.contracts.ownership_contract import apply_once

_PROVIDER = 'provider "simulated" {\n  reality = "../site.json"\n}\n'
_SITE = 'resource "nexus_site" "o" {\n  name = "o"\n}\n'


class SimulatedOwnershipBed:
    """Site in a reality file."""

    # The file is changed by another process, or before this one reads it.
    message = "already exists|Another process changed the reality file"

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = directory / "site.json"
        self._monkeypatch = monkeypatch

    def write(self, _type_name: str, directory: Path, *, is_declared: bool = True) -> None:
        text = _PROVIDER + (_SITE if is_declared else "")
        (directory / "main.nf.hcl").write_text(text)

    def create(self, type_name: str) -> None:
        apply_once(self, type_name, 0)

    def take_snapshot(self) -> Any:
        return json.loads(self._path.read_text()) if self._path.exists() else []

    def restore(self, snapshot: Any) -> None:
        self._path.write_text(json.dumps(snapshot))

    def remove_marks(self, snapshot: Any) -> Any:
        return [{**row, "creation": 0} for row in snapshot]

    def change(self, _type_name: str) -> bool:
        path = Path("main.nf.hcl")
        path.write_text(path.read_text().replace('name = "o"', 'name = "o"\n  scheduler {}'))
        return True

    def make_again(self, snapshot: Any) -> Any:
        return [{**row, "creation": row["creation"] + 7} for row in snapshot]

    def run_before_creation(self, call: Callable[[], None]) -> None:
        set_attributes = Reality.set_attributes

        def intervene(reality: Reality, key: ObjectKey, attributes: Attributes | None) -> None:
            self._monkeypatch.setattr(Reality, "set_attributes", set_attributes)
            call()
            set_attributes(reality, key, attributes)

        self._monkeypatch.setattr(Reality, "set_attributes", intervene)

    def lose_creation(self, call: Callable[[], None]) -> None:
        raise NotImplementedError

    def list_changes(self) -> list[str]:
        """Return no requests: the snapshot has all effects."""
        return []


@contextmanager
def open_bed(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedOwnershipBed]:
    yield SimulatedOwnershipBed(directory, monkeypatch)
