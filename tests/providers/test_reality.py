"""Tests of a reality file on a failing disk.

It contains every confirmed change and nothing else.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nexusform.files import regular_files
from nexusform.interfaces.plugins import ObjectKey, ProviderProblem
from nexusform.providers import simulated_reality as reality_module
from nexusform.providers.simulated_reality import Reality


def build_key(number: int) -> ObjectKey:
    return ObjectKey("nexus_rack", f"lab/r{number}", number)


class FailingDisk:
    """Fails a given range of the calls changing a disk."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, failing: range, number: int = errno.ENOSPC
    ) -> None:
        self.calls = 0
        self.failing = failing
        self.number = number
        for owner, name in ((os, "write"), (Path, "replace"), (os, "ftruncate")):
            monkeypatch.setattr(owner, name, self._wrap(getattr(owner, name)))
        monkeypatch.setattr(os, "fsync", self._wrap(lambda _descriptor: None))

    def _wrap(self, whole: Callable[..., Any]) -> Callable[..., Any]:
        def fail_or_call(*arguments: Any) -> Any:
            self.calls += 1
            if self.calls in self.failing:
                raise OSError(self.number, os.strerror(self.number))
            return whole(*arguments)

        return fail_or_call


@pytest.fixture(params=["rewritten", "logged"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "logged":
        monkeypatch.setattr(reality_module, "REWRITE_LIMIT", 0)
    return tmp_path / "site.json"


def make_changes(reality: Reality) -> dict[ObjectKey, dict[str, int]]:
    """Make changes, some of them failing; return the objects expected afterwards."""
    standing: dict[ObjectKey, dict[str, int]] = {}
    for turn in range(12):
        number = turn % 4
        gone = turn % 5 == 4
        try:
            if gone:
                reality.set_attributes(build_key(number), None)
                standing.pop(build_key(number), None)
            else:
                reality.set_attributes(build_key(number), {"turn": turn})
                standing[build_key(number)] = {"turn": turn}
        except ProviderProblem:
            continue
    return standing


def list_objects(reality: Reality) -> dict[ObjectKey, Any]:
    return {
        build_key(n): found
        for n in range(4)
        if (found := reality.get_attributes(build_key(n))) is not None
    }


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("length", [1, 3])
def test_failed_write_is_undone(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int, length: int
) -> None:
    for first in range(1, 60):
        with monkeypatch.context() as patch:
            disk = FailingDisk(patch, range(first, first + length), number)
            reality = Reality(path)
            expected = make_changes(reality)
            assert list_objects(reality) == expected, first
            reached = disk.calls
            torn = reality._is_log_damaged
            reality.close()
        again = Reality(path)
        # The content of a log is unknown if it can be neither written nor truncated.
        if not torn:
            assert list_objects(again) == expected, first
        again.close()
        for file in path.parent.iterdir():
            file.unlink()
        if first > reached:
            break
    assert first > 12


def test_failed_write_is_reported_to_all_waiting_writers(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reality = Reality(path)
    reality.set_attributes(build_key(0), {})
    told: list[str] = []

    def try_to_set(number: int) -> None:
        try:
            reality.set_attributes(build_key(number), {"a": 1})
        except ProviderProblem as problem:
            told.append(str(problem))

    with monkeypatch.context() as patch:
        FailingDisk(patch, range(1, 10**6))
        threads = [threading.Thread(target=try_to_set, args=(number,)) for number in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(told) == 8
    assert list(list_objects(reality)) == [build_key(0)]


def test_reality_file_is_readable_only_by_its_owner(path: Path) -> None:
    reality = Reality(path)
    reality.set_attributes(build_key(0), {})
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    reality.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_temporary_files_of_dead_processes_are_removed(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    dead = path.with_name(f".site.json.{2**22 + 1}-{'0' * 16}.tmp")
    living = path.with_name(f".site.json.{os.getpid()}-{'0' * 16}.tmp")
    young = path.with_name(f".site.json.{2**22 + 1}-{'1' * 16}.tmp")
    foreign = path.with_name(".site.json.mine.tmp")
    for file in (dead, living, young, foreign):
        file.write_text("half")
        os.utime(file, (0, 0))
    os.utime(young)
    regular_files.write_file_atomically(path, b"[]", 0o600)
    assert not dead.exists()
    assert all(file.exists() for file in (living, young, foreign))


def test_suspended_run_does_not_overwrite_changes_of_others(path: Path) -> None:
    """Its lock was broken while it was suspended, and another run started and ended."""
    sleeper = Reality(path)
    other = Reality(path)
    sleeper.set_attributes(build_key(901), {"n": 1})
    other.set_attributes(build_key(902), {"n": 2})
    other.close()
    with pytest.raises(ProviderProblem, match="Another process changed the reality file"):
        sleeper.set_attributes(build_key(903), {"n": 3})
    sleeper.close()
    standing = Reality(path)
    assert standing.get_attributes(build_key(902)) == {"n": 2}
    assert standing.get_attributes(build_key(901)) == {"n": 1}
    assert standing.get_attributes(build_key(903)) is None


@pytest.mark.parametrize(
    "line", ["5", "null", '"text"', "[1]", '[["a"], "b", 1, {}]', '["a", "b", 1, 2]', "{"]
)
def test_a_log_line_that_is_no_change_is_reported(tmp_path: Path, line: str) -> None:
    reality = Reality(tmp_path / "site.json")
    reality._log_path.write_text(f"{line}\n")
    with pytest.raises(ProviderProblem, match="is damaged: a line is not a change record"):
        reality.load()
