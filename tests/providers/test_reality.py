"""A reality file on a disk that fails: what was answered for is there, and nothing else."""

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


def key(number: int) -> ObjectKey:
    return ObjectKey("nexus_rack", f"lab/r{number}", number)


class Disk:
    """Fails the calls whose turn it is, of those that change a disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failing: range, number: int = errno.ENOSPC) -> None:
        self.calls = 0
        self.failing = failing
        self.number = number
        for owner, name in ((os, "write"), (Path, "replace"), (os, "ftruncate")):
            monkeypatch.setattr(owner, name, self._or_fail(getattr(owner, name)))
        monkeypatch.setattr(os, "fsync", self._or_fail(lambda _descriptor: None))

    def _or_fail(self, whole: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*arguments: Any) -> Any:
            self.calls += 1
            if self.calls in self.failing:
                raise OSError(self.number, os.strerror(self.number))
            return whole(*arguments)

        return instead


@pytest.fixture(params=["rewritten", "logged"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "logged":
        monkeypatch.setattr(reality_module, "REWRITE_LIMIT", 0)
    return tmp_path / "site.json"


def changes(reality: Reality) -> dict[ObjectKey, dict[str, int]]:
    """Make changes, some of which fail; what must stand after those that did not."""
    standing: dict[ObjectKey, dict[str, int]] = {}
    for turn in range(12):
        number, gone = turn % 4, turn % 5 == 4
        try:
            if gone:
                reality.remove_object(key(number))
                standing.pop(key(number), None)
            else:
                reality.set_attributes(key(number), {"turn": turn})
                standing[key(number)] = {"turn": turn}
        except ProviderProblem:
            continue
    return standing


def stands(reality: Reality) -> dict[ObjectKey, Any]:
    return {key(n): found for n in range(4) if (found := reality.get_attributes(key(n))) is not None}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("length", [1, 3])
def test_a_failed_write_is_undone(path: Path, monkeypatch: pytest.MonkeyPatch, number: int, length: int) -> None:
    for first in range(1, 60):
        with monkeypatch.context() as patch:
            disk = Disk(patch, range(first, first + length), number)
            reality = Reality(path)
            expected = changes(reality)
            assert stands(reality) == expected, first
            reached = disk.calls
            torn = reality._is_log_damaged
            reality.close()
        again = Reality(path)
        if not torn:  # nobody can say what a log holds that can neither be written nor cut
            assert stands(again) == expected, first
        again.close()
        for file in path.parent.iterdir():
            file.unlink()
        if first > reached:
            break
    assert first > 12


def test_others_that_waited_for_the_failed_write_are_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reality = Reality(path)
    reality.set_attributes(key(0), {})
    told: list[str] = []

    def change(number: int) -> None:
        try:
            reality.set_attributes(key(number), {"a": 1})
        except ProviderProblem as problem:
            told.append(str(problem))

    with monkeypatch.context() as patch:
        Disk(patch, range(1, 10**6))
        threads = [threading.Thread(target=change, args=(number,)) for number in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(told) == 8
    assert list(stands(reality)) == [key(0)]


def test_it_is_for_its_owner_alone(path: Path) -> None:
    reality = Reality(path)
    reality.set_attributes(key(0), {})
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    reality.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_dead_processes_had_begun_to_write_is_removed(path: Path) -> None:
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


def test_a_run_that_wakes_up_writes_over_nothing_that_others_made(path: Path) -> None:
    """Its lock was broken while it slept, and another run came and went."""
    sleeper, other = Reality(path), Reality(path)
    sleeper.set_attributes(key(901), {"n": 1})
    other.set_attributes(key(902), {"n": 2})
    other.close()
    with pytest.raises(ProviderProblem, match="Another process changed the reality file"):
        sleeper.set_attributes(key(903), {"n": 3})
    sleeper.close()
    standing = Reality(path)
    assert standing.get_attributes(key(902)) == {"n": 2}
    assert standing.get_attributes(key(901)) == {"n": 1}
    assert standing.get_attributes(key(903)) is None
