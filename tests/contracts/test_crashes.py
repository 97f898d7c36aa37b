"""Tests of commands killed, or with a failing disk or network, at any durable call.

An apply still reaches the reviewed plan, an edit of the state is complete or has no effect.

The README's command tries a few points of files and of one server (tests/kill_points.py);
NEXUSFORM_CRASH_POINTS=all tries every one, `first` the first of each situation.
"""

import json
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec import Struct
from msgspec.structs import replace

from nexusform.backends.backend_definition import Directories
from nexusform.backends.registry import BACKENDS
from nexusform.interfaces.state_storage import StateBackend, VersionedBackend
from nexusform.plans.saved.plan_file import read_plan_file, write_plan_file
from nexusform.state.journal import Intent, parse_journal
from tests.contracts.crash_runner import DIED, LOCAL_KINDS, REMOTE_KINDS, CommandRunner
from tests.contracts.test_backend_contract import KINDS, LEASE, BackendKind
from tests.kill_points import select_groups, select_points, tries_all
from tests.taints import taint_in_document

# points of the local backend in one run.
MAXIMUM = 8
NOT_OURS = "already exists, and this state did not create it"
# Places of durable calls of each backend; http keeps its journal on the disk.
CALLS = {"local": ("disk",), "postgres": ("database",), "http": ("wire", "disk")}
SITE = """nexusform {
  backend "BACKEND" {}
}
provider "simulated" {
  reality = "../site.json"
}
resource "nexus_site" "lab" {
  name = "lab"
  scheduler {
    tie_break_seed = 8
  }
}
resource "nexus_rack" "r" {
  count         = 2
  site_id       = nexus_site.lab.id
  name          = "rack${count.index + 1}"
  machine_count = 8
}
resource "nexus_kubernetes_cluster" "c" {
  count      = 2
  name       = "c${count.index}"
  site_id    = nexus_site.lab.id
  depends_on = [nexus_rack.r]
  control_plane {
    count       = 1
    vm_sku_name = "NC_G12_56_v1"
  }
  agent_pool "workers" {
    count       = 3
    vm_sku_name = "NC_P46_224_v1"
  }
}
"""


class CrashScenario:
    """A reviewed plan for one kind of backend, and separate locations for its applies."""

    def __init__(
        self, name: str, server: str, folder: Path, variables: Mapping[str, str] = {}
    ) -> None:
        self.name = name
        self.kind: BackendKind = KINDS[name]
        self.server = server
        self.folder = folder
        self.places = CALLS.get(self.kind.backend, ("wire",))
        plain = folder / "plain" / "work"
        plain.mkdir(parents=True)
        (plain / "main.nf.hcl").write_text(SITE.replace('backend "BACKEND" {}', ""))
        settings = self.settings(plain)
        self.runner = CommandRunner(
            plain, {"NF_LEASE_SECONDS": str(LEASE), **variables}, self.kind.backend, settings
        )
        self.template = self.fresh("template", planned=False)
        self.good(self.template, "plan", "-out=p")
        self.good(self.template, "show", "-report=json:p.json", "p")
        rows = json.loads((self.template / "p.json").read_text())["placement_changes"]
        self.reviewed = {row["object"]: row["to"]["machine"] for row in rows if row["kind"] == "vm"}

    def good(self, where: Path, *words: str) -> str:
        code, told = self.runner.run(where, *words)
        assert code == 0, (words, told)
        return told

    def fresh(self, name: str, *, planned: bool = True) -> Path:
        """Create a work directory with an empty backend."""
        where = self.folder / name / "work"
        where.mkdir(parents=True)
        (where.parent / "settings").write_text(json.dumps(self.settings(where)))
        self.prepare(where, planned=planned)
        return where

    def settings(self, where: Path) -> dict[str, Any]:
        if self.kind.backend == "local":
            return {"path": str(where.parent / "state" / "s.nfstate")}
        return self.kind.settings(self.server, uuid.uuid4().hex)

    def prepare(self, where: Path, *, planned: bool = True) -> None:
        """Write the configuration and its backend as in a fresh clone after `init`."""
        (where / "main.nf.hcl").write_text(SITE.replace("BACKEND", self.kind.backend))
        settings = json.loads((where.parent / "settings").read_text())
        given = {
            name: str(value).lower() if value is True else value for name, value in settings.items()
        }
        (where / ".nexusform").mkdir()
        memory = {"type": self.kind.backend, "settings": settings, "given": given}
        (where / ".nexusform" / "backend.json").write_text(json.dumps(memory))
        if planned:
            self.copy_plan(where)

    def copy_plan(self, where: Path) -> None:
        """Copy the reviewed plan as if it was made here: it belongs to the place of its state."""
        saved, _ = read_plan_file((self.template / "p").read_bytes())
        assert saved is not None
        basis = saved.plan.basis
        assert basis.origin is not None
        origin = replace(basis.origin, location=self.backend(where).describe())
        plan = replace(saved.plan, basis=replace(basis, origin=origin))
        (where / "p").write_bytes(
            write_plan_file(plan, saved.configuration_files, saved.prior_state)
        )

    def points(self, where: Path, *words: str) -> list[tuple[str, int]]:
        """Return every possible fault of a command: its kind, and the number of the call.

        Kind by kind: each share of the points has some of all kinds.
        """
        places = self.select_places(words)
        kinds = LOCAL_KINDS if "disk" in places else REMOTE_KINDS
        calls = self.runner.calls(where, places, *words)
        return [(kind, call) for kind in kinds for call in calls]

    def select_places(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the places of durable calls of a command.

        A plan file is on the disk for every backend.
        """
        return tuple(dict.fromkeys((*self.places, "disk"))) if words[0] == "plan" else self.places

    def backend(self, where: Path) -> StateBackend:
        """Open the backend as a command in this directory does."""
        settings = json.loads((where.parent / "settings").read_text())
        return BACKENDS[self.kind.backend].open_backend(
            settings, Directories(str(where), str(where / ".nexusform"))
        )

    def broken(self, where: Path, words: Sequence[str], kind: str, call: int) -> int:
        """Run a command with a fault; return its exit code."""
        code, told = self.runner.run(
            where, *words, kind=kind, call=call, places=self.select_places(words)
        )
        assert code in (0, 1, DIED), (words, kind, call, told)
        assert "Internal error" not in told, (words, kind, call)
        return code

    def import_objects(self, where: Path, told: str) -> tuple[int, str]:
        """Import the objects that no journal lists as ours, as the error says, and apply again."""
        code = 1
        while code and NOT_OURS in told:
            imports = re.findall(r"nexusform import (\S+) (\S+)", told)
            assert imports, told
            for address, object_id in dict.fromkeys(imports):
                self.good(where, "import", address, object_id)
            code, told = self.runner.run(where, "apply", "-auto-approve", "-lock-timeout=60s")
        return code, told

    def machines(self, where: Path) -> tuple[dict[str, str], list[tuple[str, str]]]:
        """Return the machine of every node in the state, and the objects of the state."""
        self.good(where, "state", "pull")
        document = json.loads((where.parent / "said").read_text())
        nodes: dict[str, str] = {}
        objects: list[tuple[str, str]] = []
        for resource in document["resources"]:
            for instance in resource["instances"]:
                attributes = instance["attributes"]
                objects.append((resource["type"], attributes["id"]))
                if resource["type"] == "nexus_kubernetes_cluster":
                    nodes |= {name: node["machine"] for name, node in attributes["nodes"].items()}
        return nodes, sorted(objects)

    def check_journal(self, where: Path) -> None:
        """Check that a killed apply recorded every object of the site before it created it."""
        reality = where.parent / "site.json"
        created = json.loads(reality.read_text()) if reality.exists() else []
        backend = self.backend(where)
        records, problems = parse_journal(backend.read_journal())
        assert problems == []
        recorded = {
            (record.key_type, record.key_id) for record in records if isinstance(record, Intent)
        }
        # At its end an apply writes the state and removes the journal.
        document = json.loads(backend.read() or b"{}")
        recorded |= {
            (resource["type"], instance["attributes"]["id"])
            for resource in document.get("resources", ())
            for instance in resource["instances"]
        }
        lost = {(item["type"], item["id"]) for item in created} - recorded
        assert lost == set(), "the apply created objects without an intent in its journal"

    def unlock(self, where: Path) -> None:
        """Break the lock of a dead holder if it does not expire."""
        if self.kind.frees_within is not None:
            return
        backend = self.backend(where)
        holder = backend.read_lock()
        if holder is not None:
            backend.force_unlock(holder.id)

    def finish(self, where: Path, *, is_journal_lost: bool = False) -> None:
        """Recover as an operator would, and check for the reviewed placements."""
        self.unlock(where)
        if (where / "errored.nfstate").exists():
            self.good(where, "state", "push", "errored.nfstate")
        code, told = self.runner.run(where, "apply", "-resume", "-lock-timeout=60s")
        if code and "Nothing to resume" in told:
            # It ended before its first step (then the plan still applies), or after its last one.
            reality = where.parent / "site.json"
            started = reality.exists() and json.loads(reality.read_text()) != []
            code, told = self.runner.run(where, "apply", "-lock-timeout=60s", "p")
            is_done = (
                "Saved plan already applied" in told
                or "All steps of this plan were complete" in told
            )
            assert is_done or not started or is_journal_lost, (
                "the journal lost the steps of the apply"
            )
            code = 0 if "Saved plan already applied" in told else code
            if is_journal_lost and NOT_OURS in told:
                code, told = self.import_objects(where, told)
        assert code == 0, told
        nodes, objects = self.machines(where)
        assert nodes == self.reviewed
        reality = json.loads((where.parent / "site.json").read_text())
        assert sorted((each["type"], each["id"]) for each in reality) == objects
        # The same for other backends, so save the time.
        if self.kind.backend == "local":
            self.good(where, "plan", "-detailed-exitcode")


Point = TypeVar("Point")


@pytest.fixture
def story(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CrashScenario]:
    kind = KINDS[request.param]
    server = request.getfixturevalue(kind.server) if kind.server else ""
    story = CrashScenario(request.param, server, tmp_path)
    yield story
    story.runner.end()


# GitLab's dialect is the same backend.
REMOTE = [
    name for name, kind in KINDS.items() if not kind.forgets and name not in ("gitlab", "local")
]


class InterruptedCommand(Struct):
    """A command interrupted at one point, and the check after its lock is free."""

    point: str
    finish: Callable[[], None]


@pytest.mark.slow
@pytest.mark.parametrize("story", ["local", *select_groups(REMOTE)], indirect=True)
def test_interrupted_command_can_be_completed(story: CrashScenario) -> None:
    part = 1 if story.kind.backend == "local" else 5
    broken = [*interrupt_applies(story, part), *interrupt_edits(story, part)]
    if story.kind.frees_within:
        # All locks expire at the same time.
        time.sleep(story.kind.frees_within + 1)
    for each in broken:
        try:
            each.finish()
        except AssertionError as failure:
            raise AssertionError(f"{each.point}: {failure}") from failure


def interrupt_applies(story: CrashScenario, part: int) -> list[InterruptedCommand]:
    """Interrupt applies of the reviewed plan.

    For every other killed apply, the work directory is lost, too.
    """
    broken: list[InterruptedCommand] = []
    died = 0
    words = ("apply", "-parallelism=2", "p")
    for number, (kind, call) in enumerate(
        select_points(story.points(story.fresh("counted"), *words), max(MAXIMUM // part, 2))
    ):
        where = story.fresh(f"{kind}-{call}")
        code = story.broken(where, words, kind, call)
        if code == DIED:
            story.check_journal(where)
        is_directory_lost = code == DIED and number % 2 == 1
        if is_directory_lost:
            shutil.rmtree(where)
            where.mkdir()
            story.prepare(where)
        died += code == DIED
        # The backend http keeps its journal in the work directory.
        is_journal_lost = is_directory_lost and story.kind.backend == "http"
        finish = partial(story.finish, where, is_journal_lost=is_journal_lost)
        broken.append(InterruptedCommand(f"{kind} at call {call} of apply", finish))
    # The few points of the short selection may all be full disks.
    if tries_all():
        assert died > len(broken) // 3
    return broken


CLUSTER = "nexus_kubernetes_cluster.c[1]"
# The states before an edit, oldest first, named by their commands; and the edit.
APPLIED: tuple[str, ...] = ("apply", "p")
FORGOTTEN = ("state", "rm", CLUSTER)
ROLLBACK = ("state", "rollback", "1")
# No command: as after a failed apply.
TAINTED = ("tainted", "nexus_rack.r[0]")
EDITS: list[tuple[list[tuple[str, ...]], tuple[str, ...]]] = [
    ([APPLIED], ("state", "mv", "nexus_site.lab", "nexus_site.moved")),
    ([APPLIED], FORGOTTEN),
    ([APPLIED, TAINTED], ("untaint", "nexus_rack.r[0]")),
    ([APPLIED], ("state", "push", "../forgotten.nfstate")),
    ([APPLIED, FORGOTTEN], ROLLBACK),
    ([APPLIED, FORGOTTEN], ("import", CLUSTER, "lab/c1")),
    ([APPLIED], ("plan", "-out=again")),
]


class StateEdits:
    """Locations with a state, and the result of each edit."""

    def __init__(self, story: CrashScenario) -> None:
        self.story = story
        self.documents: dict[tuple[str, ...], bytes] = {}
        self.reality = ""
        for before in (APPLIED, FORGOTTEN):
            where = (
                story.fresh(f"made-{before[0]}-{before[1]}")
                if not self.documents
                else self.at(before[1])
            )
            story.good(where, *before)
            self.documents[before] = story.backend(where).read() or b""
            self.reality = (where.parent / "site.json").read_text()
        self.documents[TAINTED] = taint_in_document(self.documents[APPLIED], TAINTED[1])

    def at(self, name: str, states: Sequence[tuple[str, ...]] = (APPLIED,)) -> Path:
        """Create a location with these states, one after the other."""
        where = self.story.fresh(f"edited-{name}", planned=False)
        (where.parent / "site.json").write_text(self.reality)
        if FORGOTTEN in self.documents:
            (where.parent / "forgotten.nfstate").write_bytes(self.documents[FORGOTTEN])
        backend = self.story.backend(where)
        for state in states:
            backend.write(self.documents[state])
        return where

    def check(
        self, where: Path, code: int, words: tuple[str, ...], before: bytes, after: bytes
    ) -> None:
        """Check that an edit is complete or without effect, and succeeds if repeated.

        It leaves nothing behind.
        """
        story = self.story
        story.unlock(where)
        document = story.backend(where).read()
        assert document in (before, after)
        assert story.backend(where).read_journal() == []
        assert code or document == after
        if (where / "again").exists():
            story.good(where, "show", "again")
        if document == before:
            story.good(where, *words, "-lock-timeout=60s")
        assert story.backend(where).read() == after


def interrupt_edits(story: CrashScenario, part: int) -> list[InterruptedCommand]:
    """Interrupt every kind of edit of a state, and a saved plan."""
    edits = StateEdits(story)
    points: list[tuple[tuple[str, ...], str, int]] = []
    states = {words: states for states, words in EDITS}
    if not isinstance(story.backend(story.template), VersionedBackend):
        del states[ROLLBACK]
    afters: dict[tuple[str, ...], bytes] = {}
    for words, before in states.items():
        where = edits.at(f"counted-{len(afters)}", before)
        points += [(words, *point) for point in story.points(where, *words)]
        afters[words] = story.backend(where).read() or b""
    broken: list[InterruptedCommand] = []
    for number, (words, kind, call) in enumerate(select_points(points, max(MAXIMUM // part, 2))):
        where = edits.at(str(number), states[words])
        code = story.broken(where, words, kind, call)
        before = edits.documents[states[words][-1]]
        finish = partial(edits.check, where, code, words, before, afters[words])
        broken.append(InterruptedCommand(f"{kind} at call {call} of {' '.join(words)}", finish))
    return broken
