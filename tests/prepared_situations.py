"""Situations that tests start from: each is made once per process, and copied for later tests."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, Protocol

_SITUATIONS: dict[Hashable, tuple[dict[Path, bytes], Any]] = {}


class System(Protocol):
    """System of a provider, in the process of the test."""

    def take_snapshot(self) -> Any:
        """Return a copy of the content of the system."""

    def restore(self, snapshot: Any) -> None:
        """Replace the content of the system by a copy."""


def prepare_situation(name: Hashable, system: System, make: Callable[[], None]) -> None:
    """Make a situation in the working directory and a system, or copy it from an earlier test.

    Equal names and equal files before mean equal situations.
    """
    before = _read_files()
    key = name, frozenset(before.items())
    if key not in _SITUATIONS:
        make()
        _SITUATIONS[key] = _read_files(), system.take_snapshot()
        return
    after, snapshot = _SITUATIONS[key]
    for path in before.keys() - after.keys():
        path.unlink()
    for path, content in after.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    system.restore(snapshot)


def _read_files() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
