"""`init -migrate-state` and `workspace delete` that die, or whose disk or network fails, at any durable call,
and once more while what was left is finished: every workspace's state arrives, and none is lost.

Every run tries some points of a quarter of the backends; NEXUSFORM_CRASH_POINTS=all tries every one.
"""

from __future__ import annotations

import json
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.crash_runner import DIED, LOCAL_KINDS, REMOTE_KINDS, Runner
from tests.contracts.test_backend_contract import KINDS, LEASE, Kind
from tests.contracts.test_crashes import CALLS
from tests.kill_points import select_groups, select_points

CONFIGURATION = """BACKEND
provider "simulated" {
  reality = "../site.json"
}
resource "nexus_site" "lab" {
  name = "lab-${nexusform.workspace}"
}
"""
MIGRATE = ("init", "-migrate-state")


class Moving:
    """A project with its state on this machine, and what it becomes with another backend."""

    def __init__(self, name: str, server: str, folder: Path) -> None:
        self.kind: Kind = KINDS[name]
        self.server = server
        self.folder = folder
        self.places = tuple(dict.fromkeys((*CALLS.get(self.kind.backend, ("wire",)), "disk")))
        self.template = folder / "template" / "work"
        self.template.mkdir(parents=True)
        self.write(self.template, "")
        settings = self.kind.settings(server, uuid.uuid4().hex)
        self.runner = Runner(self.template, {"NF_LEASE_SECONDS": str(LEASE)}, self.kind.backend, settings)
        # A server of Terraform's HTTP protocol has one state at an address, here one for each workspace.
        self.workspaces = ("default", "dev")
        self.states: dict[str, str] = {}
        for workspace in self.workspaces:
            if workspace != "default":
                self.good(self.template, "workspace", "new", workspace)
            self.good(self.template, "init")
            self.good(self.template, "apply", "-auto-approve")
            self.states[workspace] = self.state_of(self.template)
        self.good(self.template, "workspace", "select", "default")
        self.reality = (folder / "template" / "site.json").read_text()

    def write(self, where: Path, backend: str) -> None:
        settings = "" if backend else ' path = "state/lab.nfstate" '
        block = f'nexusform {{\n  backend "{backend or "local"}" {{{settings}}}\n}}'
        (where / "main.nf.hcl").write_text(CONFIGURATION.replace("BACKEND", block))

    def good(self, where: Path, *words: str) -> str:
        code, told = self.runner.run(where, *words)
        assert code == 0, (words, told)
        return told

    def state_of(self, where: Path) -> str:
        self.good(where, "state", "pull")
        return (where.parent / "said").read_text()

    def about_to_move(self, name: str) -> Path:
        """A copy of the project whose configuration names the other backend, which holds nothing yet."""
        where = self.folder / name / "work"
        shutil.copytree(self.template, where)
        (where.parent / "site.json").write_text(self.reality)
        settings = self.kind.settings(self.server, uuid.uuid4().hex)
        (where.parent / "settings").write_text(json.dumps(settings))
        self.write(where, self.kind.backend)
        return where

    def migrate(self, where: Path) -> tuple[str, ...]:
        settings: dict[str, Any] = json.loads((where.parent / "settings").read_text())
        given = {name: str(value).lower() if value is True else value for name, value in settings.items()}
        return (*MIGRATE, *(f"-backend-config={name}={value}" for name, value in given.items()))

    def moved(self, name: str) -> Path:
        where = self.about_to_move(name)
        self.good(where, *self.migrate(where))
        return where

    def points(self, where: Path, words: Sequence[str]) -> list[tuple[str, int]]:
        calls = self.runner.calls(where, self.places, *words)
        kinds = LOCAL_KINDS if self.kind.backend in ("http", "local") else REMOTE_KINDS
        return [(kind, call) for call in range(1, calls + 1) for kind in kinds]

    def broken(self, where: Path, words: Sequence[str], kind: str, call: int) -> int:
        """Run a command that breaks off; its exit code."""
        code, told = self.runner.run(where, *words, kind=kind, call=call, places=self.places)
        assert code in (0, 1, DIED), (words, kind, call, told)
        assert "Internal error" not in told, (words, kind, call, told)
        return code

    def told(self, where: Path) -> None:
        """The next command says what happened, or finds that all is done."""
        code, told = self.runner.run(where, "plan")
        changed = "The backend of this configuration changed" in told
        assert code == 0 or changed or "Migration interrupted" in told, told

    def free(self, where: Path) -> tuple[int, str]:
        """Migrate, breaking the lock of a dead holder as the refusal says where none runs out."""
        words = self.migrate(where)
        for _ in range(4):
            code, told = self.runner.run(where, *words)
            found = re.search(r"`(NF_WORKSPACE=(\S+) )?nexusform force-unlock -backend-config=... (\S+)`", told)
            if found is None:
                break
            if found[2]:
                (where / ".nexusform").mkdir(exist_ok=True)
                (where / ".nexusform" / "environment").write_text(found[2])
            self.good(where, "force-unlock", "-force", *words[len(MIGRATE) :], found[3])
            (where / ".nexusform" / "environment").unlink(missing_ok=True)
        return code, told

    def check(self, where: Path) -> None:
        """Every state is whole, in the new place or, before the migration, in the old one."""
        for workspace in self.workspaces:
            self.good(where, "workspace", "select", workspace)
            assert self.state_of(where) == self.states[workspace], workspace
            assert "No changes." in self.good(where, "plan", "-detailed-exitcode")


# A commit tries one or two backends, and `.ci/crashes` all.
@pytest.fixture(
    params=select_groups([name for name in ("local", "azurerm", "http", "s3", "postgres") if name in KINDS])
)
def moving(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Moving]:
    server = KINDS[request.param].server
    moving = Moving(request.param, request.getfixturevalue(server) if server else "", tmp_path)
    yield moving
    moving.runner.end()


@pytest.mark.slow
def test_a_migration_that_breaks_off_anywhere_can_be_finished(moving: Moving) -> None:
    counted = moving.about_to_move("counted")
    points = moving.points(counted, moving.migrate(counted))
    moving.check(counted)
    broken: list[tuple[Path, str]] = []
    for number, (kind, call) in enumerate(select_points(points, 2)):
        where = moving.about_to_move(f"at-{number}")
        moving.broken(where, moving.migrate(where), kind, call)
        moving.told(where)
        broken.append((where, f"{kind} at call {call} of {len(points)}"))
    time.sleep((moving.kind.frees_within or 0) + 1)
    for number, (where, point) in enumerate(broken):
        # The second run breaks off, too, ever later; the third one is let through.
        kind, call = points[number * len(points) // max(len(broken), 1)]
        moving.broken(where, moving.migrate(where), kind, call)
        broken[number] = (where, f"{point}, then {kind} at call {call}")
    time.sleep((moving.kind.frees_within or 0) + 1)
    for where, point in broken:
        code, told = moving.free(where)
        assert code == 0, (point, told)
        try:
            moving.check(where)
        except AssertionError as failure:
            raise AssertionError(f"{point}: {failure}") from failure


@pytest.mark.slow
def test_a_workspace_whose_deletion_breaks_off_is_whole_or_gone(moving: Moving) -> None:
    if moving.kind.backend == "http":
        pytest.skip("an http backend has the workspaces of its addresses")
    words = ("workspace", "delete", "-force", "dev")
    points = moving.points(moving.moved("counted"), words)
    broken: list[tuple[Path, str]] = []
    for number, (kind, call) in enumerate(select_points(points, 2)):
        where = moving.moved(f"at-{number}")
        moving.broken(where, words, kind, call)
        broken.append((where, f"{kind} at call {call} of {len(points)}"))
    time.sleep((moving.kind.frees_within or 0) + 1)
    for where, point in broken:
        there = "dev" in moving.good(where, "workspace", "list")
        if there:
            moving.good(where, "workspace", "select", "dev")
            assert moving.state_of(where) in (moving.states["dev"], ""), point
            moving.good(where, "workspace", "select", "default")
            moving.good(where, *words)
        assert "dev" not in moving.good(where, "workspace", "list"), point
        assert moving.state_of(where) == moving.states["default"], point
