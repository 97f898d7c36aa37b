"""Tests of killed migrations: every workspace's state arrives, and none is lost.

`init -migrate-state` and `workspace delete` are killed, or meet a failing disk or network, at any
durable call, and again during recovery. Every run tries some points of one backend;
NEXUSFORM_CRASH_POINTS=all tries every one, `first` the first of each situation.
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

from tests.contracts.crash_runner import DIED, LOCAL_KINDS, REMOTE_KINDS, CommandRunner
from tests.contracts.test_backend_contract import KINDS, LEASE, BackendKind
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


class MigrationScenario:
    """A project with local state, and its migration to another backend."""

    def __init__(self, name: str, server: str, folder: Path) -> None:
        self.kind: BackendKind = KINDS[name]
        self.server = server
        self.folder = folder
        self.places = tuple(dict.fromkeys((*CALLS.get(self.kind.backend, ("wire",)), "disk")))
        self.template = folder / "template" / "work"
        self.template.mkdir(parents=True)
        self.write(self.template, "")
        settings = self.kind.settings(server, uuid.uuid4().hex)
        self.runner = CommandRunner(
            self.template, {"NF_LEASE_SECONDS": str(LEASE)}, self.kind.backend, settings
        )
        # A server of Terraform's HTTP protocol has one state per address, here one
        # for each workspace.
        self.workspaces = ("default", "dev")
        self.states: dict[str, str] = {}
        for workspace in self.workspaces:
            if workspace != "default":
                self.good(self.template, "workspace", "new", workspace)
            self.good(self.template, "init")
            self.good(self.template, "apply", "-auto-approve")
            self.states[workspace] = self.read_state(self.template)
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

    def read_state(self, where: Path) -> str:
        self.good(where, "state", "pull")
        return (where.parent / "said").read_text()

    def prepare_migration(self, name: str) -> Path:
        """Copy the project, and configure the other backend, still empty."""
        where = self.folder / name / "work"
        shutil.copytree(self.template, where)
        (where.parent / "site.json").write_text(self.reality)
        settings = self.kind.settings(self.server, uuid.uuid4().hex)
        (where.parent / "settings").write_text(json.dumps(settings))
        self.write(where, self.kind.backend)
        return where

    def migrate(self, where: Path) -> tuple[str, ...]:
        settings: dict[str, Any] = json.loads((where.parent / "settings").read_text())
        given = {
            name: str(value).lower() if value is True else value for name, value in settings.items()
        }
        return (*MIGRATE, *(f"-backend-config={name}={value}" for name, value in given.items()))

    def moved(self, name: str) -> Path:
        where = self.prepare_migration(name)
        self.good(where, *self.migrate(where))
        return where

    def points(self, where: Path, words: Sequence[str]) -> list[tuple[str, int]]:
        calls = self.runner.calls(where, self.places, *words)
        kinds = LOCAL_KINDS if self.kind.backend in ("http", "local") else REMOTE_KINDS
        return [(kind, call) for call in calls for kind in kinds]

    def broken(self, where: Path, words: Sequence[str], kind: str, call: int) -> int:
        """Run a command with a fault; return its exit code."""
        code, told = self.runner.run(where, *words, kind=kind, call=call, places=self.places)
        assert code in (0, 1, DIED), (words, kind, call, told)
        assert "Internal error" not in told, (words, kind, call, told)
        return code

    def told(self, where: Path) -> None:
        """Check that the next command reports the interruption, or that all is complete."""
        code, told = self.runner.run(where, "plan")
        changed = "The backend of this configuration changed" in told
        assert code == 0 or changed or "Migration interrupted" in told, told

    def free(self, where: Path) -> tuple[int, str]:
        """Migrate, and break the lock of a dead holder if it does not expire.

        The suggested command breaks it.
        """
        words = self.migrate(where)
        for _ in range(4):
            code, told = self.runner.run(where, *words)
            found = re.search(
                r"`(NF_WORKSPACE=(\S+) )?nexusform force-unlock -backend-config=... (\S+)`", told
            )
            if found is None:
                break
            if found[2]:
                (where / ".nexusform").mkdir(exist_ok=True)
                (where / ".nexusform" / "environment").write_text(found[2])
            self.good(where, "force-unlock", "-force", *words[len(MIGRATE) :], found[3])
            (where / ".nexusform" / "environment").unlink(missing_ok=True)
        return code, told

    def check(self, where: Path) -> None:
        """Check that every state is complete, in the new location or in the old one.

        The old location is right only before the migration.
        """
        for workspace in self.workspaces:
            self.good(where, "workspace", "select", workspace)
            assert self.read_state(where) == self.states[workspace], workspace
            assert "No changes." in self.good(where, "plan", "-detailed-exitcode")


# A commit tries one or two backends, and `.ci/crashes` all.
@pytest.fixture(
    params=select_groups(
        [name for name in ("local", "azurerm", "http", "s3", "postgres") if name in KINDS]
    )
)
def migration_scenario(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[MigrationScenario]:
    server = KINDS[request.param].server
    migration_scenario = MigrationScenario(
        request.param, request.getfixturevalue(server) if server else "", tmp_path
    )
    yield migration_scenario
    migration_scenario.runner.end()


@pytest.mark.slow
def test_interrupted_migration_can_be_completed(migration_scenario: MigrationScenario) -> None:
    counted = migration_scenario.prepare_migration("counted")
    points = migration_scenario.points(counted, migration_scenario.migrate(counted))
    migration_scenario.check(counted)
    broken: list[tuple[Path, str]] = []
    for number, (kind, call) in enumerate(select_points(points, 2)):
        where = migration_scenario.prepare_migration(f"at-{number}")
        migration_scenario.broken(where, migration_scenario.migrate(where), kind, call)
        migration_scenario.told(where)
        broken.append((where, f"{kind} at call {call} of {len(points)}"))
    time.sleep((migration_scenario.kind.frees_within or 0) + 1)
    for number, (where, point) in enumerate(broken):
        # The second run is interrupted, too, at a later point each time; the third one is not.
        kind, call = points[number * len(points) // max(len(broken), 1)]
        migration_scenario.broken(where, migration_scenario.migrate(where), kind, call)
        broken[number] = (where, f"{point}, then {kind} at call {call}")
    time.sleep((migration_scenario.kind.frees_within or 0) + 1)
    for where, point in broken:
        code, told = migration_scenario.free(where)
        assert code == 0, (point, told)
        try:
            migration_scenario.check(where)
        except AssertionError as failure:
            raise AssertionError(f"{point}: {failure}") from failure


@pytest.mark.slow
def test_interrupted_deletion_keeps_or_removes_whole_workspace(
    migration_scenario: MigrationScenario,
) -> None:
    if migration_scenario.kind.backend == "http":
        pytest.skip("an http backend has the workspaces of its addresses")
    words = ("workspace", "delete", "-force", "dev")
    points = migration_scenario.points(migration_scenario.moved("counted"), words)
    broken: list[tuple[Path, str]] = []
    for number, (kind, call) in enumerate(select_points(points, 2)):
        where = migration_scenario.moved(f"at-{number}")
        migration_scenario.broken(where, words, kind, call)
        broken.append((where, f"{kind} at call {call} of {len(points)}"))
    time.sleep((migration_scenario.kind.frees_within or 0) + 1)
    for where, point in broken:
        there = "dev" in migration_scenario.good(where, "workspace", "list")
        if there:
            migration_scenario.good(where, "workspace", "select", "dev")
            assert migration_scenario.read_state(where) in (migration_scenario.states["dev"], ""), (
                point
            )
            migration_scenario.good(where, "workspace", "select", "default")
            migration_scenario.good(where, *words)
        assert "dev" not in migration_scenario.good(where, "workspace", "list"), point
        assert migration_scenario.read_state(where) == migration_scenario.states["default"], point
