"""Bed of Tacker for the contract of ownership."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nexusform.domains.vnf.providers import tacker_client
from nexusform.domains.vnf.providers.tacker_client import TackerProblem
from tests.contracts.ownership_contract import apply_once
from tests.domains.vnf.providers.memory_tacker import MemoryTacker
from tests.domains.vnf.providers.test_tacker_ownership import write_configuration


class TackerOwnershipBed:
    """Tacker in memory."""

    message = 'A VNF instance with the name "v" already exists in Tacker'

    def write(self, _type_name: str, _directory: Path, *, is_declared: bool = True) -> None:
        write_configuration(block="o")
        if not is_declared:
            text = Path("main.nf.hcl").read_text()
            Path("main.nf.hcl").write_text(text.partition('resource "tacker_vnf"')[0])

    def create(self, type_name: str) -> None:
        apply_once(self, type_name, 0)

    def take_snapshot(self) -> Any:
        return copy.deepcopy(MemoryTacker.instances)

    def restore(self, snapshot: Any) -> None:
        MemoryTacker.instances.clear()
        MemoryTacker.instances.update(copy.deepcopy(snapshot))

    def remove_marks(self, snapshot: Any) -> Any:
        return {key: {**row, "metadata": {}} for key, row in snapshot.items()}

    def change(self, _type_name: str) -> bool:
        write_configuration(level=1, block="o")
        return True

    def make_again(self, snapshot: Any) -> Any:
        objects = self.remove_marks(snapshot)
        return {f"again-{key}": {**row, "id": f"again-{key}"} for key, row in objects.items()}

    def run_before_creation(self, call: Callable[[], None]) -> None:
        def run_once(request: str) -> None:
            if request == "POST /vnf_instances":
                MemoryTacker.before_write.clear()
                call()

        MemoryTacker.before_write.append(run_once)

    def lose_creation(self, call: Callable[[], None]) -> None:
        def lose() -> None:
            call()
            raise TackerProblem("Tacker does not answer.")

        self.run_before_creation(lose)

    def list_changes(self) -> list[str]:
        """Return the changes, except an instance created and deleted again.

        Tacker has no conditional creation.
        """
        changes = list(MemoryTacker.changes)
        if changes[-2:-1] == ["POST /vnf_instances"] and changes[-1].startswith("DELETE"):
            return changes[:-2]
        return changes


@contextmanager
def open_bed(_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TackerOwnershipBed]:
    monkeypatch.setattr(tacker_client, "TackerClient", MemoryTacker)
    MemoryTacker.reset()
    yield TackerOwnershipBed()
    MemoryTacker.reset()
