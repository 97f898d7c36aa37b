"""An apply that dies, or whose disk or network fails, at any durable call: the reviewed plan is reached.

Every run tries some points of each backend; NEXUSFORM_CRASH_POINTS says how many on local (a fifth of it on
the others), `all` tries every one.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from nexusform.backends.registry import BACKENDS, Directories
from tests.contracts.crash_runner import DIED, LOCAL_KINDS, REMOTE_KINDS
from tests.contracts.test_backend_contract import KINDS, LEASE, Kind

POINTS = os.environ.get("NEXUSFORM_CRASH_POINTS", "40")
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


class Runner:
    """Commands in processes of their own (see crash_runner)."""

    def __init__(self, template: Path) -> None:
        reading, writing = os.pipe()
        command = [sys.executable, "-m", "tests.contracts.crash_runner", str(template), str(writing)]
        root = str(Path(__file__).parents[2])
        environment = {
            **os.environ,
            "PYTHONPATH": root,
            "NF_LEASE_SECONDS": str(LEASE),
            "NF_IN_AUTOMATION": "1",
        }
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd=root,
            env=environment,
            pass_fds=[writing],
            text=True,
        )
        os.close(writing)
        self.answers = os.fdopen(reading)

    def run(
        self, where: Path, *words: str, kind: str = "", call: int = 0, place: str = ""
    ) -> tuple[int, str]:
        """The exit code, and all that was said."""
        said = where.parent / "said"
        task = {
            "where": str(where),
            "words": list(words),
            "said": str(said),
            "kind": kind,
            "call": call,
            "place": place,
        }
        assert self.process.stdin is not None
        print(json.dumps(task), file=self.process.stdin, flush=True)
        code = int(self.answers.readline())
        return code, " ".join(said.read_text().replace("│", " ").split())

    def calls(self, where: Path, place: str, *words: str) -> int:
        """How many durable calls a command makes."""
        code, told = self.run(where, *words, place=place)
        assert code == 0, told
        return int((where.parent / "said.calls").read_text())

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.answers.close()


class Story:
    """A reviewed plan for one kind of backend, and places of their own to apply it at."""

    def __init__(self, name: str, server: str, folder: Path) -> None:
        self.name = name
        self.kind: Kind = KINDS[name]
        self.server = server
        self.folder = folder
        self.place = {"local": "disk", "postgres": "database"}.get(self.kind.backend, "wire")
        plain = folder / "plain" / "work"
        plain.mkdir(parents=True)
        (plain / "main.nf.hcl").write_text(SITE.replace('backend "BACKEND" {}', ""))
        self.runner = Runner(plain)
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
        """A work directory whose backend holds nothing yet."""
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
        """The configuration and its backend, as a fresh clone and `init` give them."""
        (where / "main.nf.hcl").write_text(SITE.replace("BACKEND", self.kind.backend))
        settings = json.loads((where.parent / "settings").read_text())
        given = {name: str(value).lower() if value is True else value for name, value in settings.items()}
        (where / ".nexusform").mkdir()
        memory = {"type": self.kind.backend, "settings": settings, "given": given}
        (where / ".nexusform" / "backend.json").write_text(json.dumps(memory))
        if planned:
            shutil.copy(self.template / "p", where / "p")

    def points(self) -> list[tuple[str, int]]:
        """The points to try, spread over all kinds and calls."""
        kinds = LOCAL_KINDS if self.place == "disk" else REMOTE_KINDS
        calls = self.runner.calls(self.fresh("counted"), self.place, "apply", "-parallelism=2", "p")
        points = [(kind, call) for call in range(1, calls + 1) for kind in kinds]
        return spread(points, 1 if self.place == "disk" else 5)

    def machines(self, where: Path) -> tuple[dict[str, str], list[tuple[str, str]]]:
        """Where the state says that every node stands, and which objects it holds."""
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

    def unlock(self, where: Path) -> None:
        """Break the lock of a dead holder where it does not run out."""
        if self.kind.frees_within is not None:
            return
        settings = json.loads((where.parent / "settings").read_text())
        backend = BACKENDS[self.kind.backend].open(
            settings, Directories(str(where), str(where / ".nexusform"))
        )
        holder = backend.holder()
        if holder is not None:
            backend.force_unlock(holder.id)

    def finish(self, where: Path) -> None:
        """Go on as a person would, and look whether the reviewed placements were reached."""
        self.unlock(where)
        if (where / "errored.nfstate").exists():
            self.good(where, "state", "push", "errored.nfstate")
        code, told = self.runner.run(where, "apply", "-resume", "-lock-timeout=60s")
        if code and "Nothing to resume" in told:
            # It ended before the plan was in the journal (then it still applies), or after its last step.
            code, told = self.runner.run(where, "apply", "-lock-timeout=60s", "p")
            code = 0 if "Saved plan was applied already" in told else code
        assert code == 0, told
        nodes, objects = self.machines(where)
        assert nodes == self.reviewed
        reality = json.loads((where.parent / "site.json").read_text())
        assert sorted((each["type"], each["id"]) for each in reality) == objects
        if self.kind.backend == "local":  # elsewhere it would be the same, and takes its time
            self.good(where, "plan", "-detailed-exitcode")


def spread(points: Sequence[tuple[str, int]], part: int) -> list[tuple[str, int]]:
    """As many points as are asked for, a `part`-th of them, from first to last."""
    count = len(points) if POINTS == "all" else min(int(POINTS) // part, len(points))
    return [points[number * len(points) // count] for number in range(count)]


@pytest.fixture
def story(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Story]:
    kind = KINDS[request.param]
    server = request.getfixturevalue(kind.server) if kind.server else ""
    story = Story(request.param, server, tmp_path)
    yield story
    story.runner.end()


# GitLab's dialect is the same backend.
EVERYWHERE = [name for name, kind in KINDS.items() if not kind.forgets and name != "gitlab"]


@pytest.mark.slow
@pytest.mark.parametrize("story", EVERYWHERE, indirect=True)
def test_a_reviewed_plan_is_reached_wherever_its_apply_broke_off(story: Story) -> None:
    broken: list[tuple[str, int, Path]] = []
    died = 0
    for number, (kind, call) in enumerate(story.points()):
        where = story.fresh(f"{kind}-{call}")
        code, told = story.runner.run(
            where, "apply", "-parallelism=2", "p", kind=kind, call=call, place=story.place
        )
        assert code in (0, 1, DIED), (kind, call, told)
        assert "bug of its own" not in told
        if code == DIED and number % 2 and story.kind.backend != "http":
            # The machine is gone; http alone keeps its journal there.
            shutil.rmtree(where)
            where.mkdir()
            story.prepare(where)
        died += code == DIED
        broken.append((kind, call, where))
    assert died > len(broken) // 3
    if story.kind.frees_within:
        time.sleep(story.kind.frees_within + 1)  # all locks run out side by side
    for kind, call, where in broken:
        try:
            story.finish(where)
        except AssertionError as failure:
            raise AssertionError(f"{kind} at call {call}: {failure}") from failure


EDITS = [
    ("state", "mv", "nexus_site.lab", "nexus_site.moved"),
    ("state", "rm", "nexus_kubernetes_cluster.c[1]"),
    ("taint", "nexus_rack.r[0]"),
    ("plan", "-out=again"),
]


@pytest.mark.parametrize("story", ["local"], indirect=True)
def test_an_edit_or_a_plan_that_broke_off_did_all_or_nothing(story: Story) -> None:
    """At every kind of break a fifth of the calls, each edit shifted by one."""
    applied = story.fresh("applied")
    story.good(applied, "apply", "p")
    state = applied.parent / "state" / "s.nfstate"
    before = state.read_bytes()
    for number, words in enumerate(EDITS):
        calls = story.runner.calls(applied, story.place, *words)
        after = state.read_bytes()
        for call in range(1, calls + 1):
            kind = LOCAL_KINDS[(call + number) % len(LOCAL_KINDS)]
            state.write_bytes(before)
            (applied / "again").unlink(missing_ok=True)
            code, told = story.runner.run(applied, *words, kind=kind, call=call, place=story.place)
            assert code in (0, 1, DIED), (words, kind, call, told)
            assert "bug of its own" not in told
            assert without_backup(state) in (before, after), (words, kind, call)
            if (applied / "again").exists():
                story.good(applied, "show", "again")
            assert code != 0 or words[0] == "plan" or without_backup(state) == after, (words, kind, call)
        story.good(applied, "state", "list")
        state.write_bytes(before)
        story.good(applied, "plan", "-detailed-exitcode")


def without_backup(state: Path) -> bytes:
    """The document as the next command reads it; no journal may be waiting."""
    journal = state.with_name(state.name + ".journal")
    assert not journal.exists() or journal.read_bytes().startswith(b"#compacted")
    return state.read_bytes()
