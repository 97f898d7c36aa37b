"""Tests of killed applies with provider azure: the next apply continues.

They are killed at any request, before or after its execution by Azure. Nothing is sent twice, and
nothing is lost. Every run tries some points; with NEXUSFORM_CRASH_POINTS=first the first one of
each situation is tried, with NEXUSFORM_CRASH_POINTS=all every one.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from tests.contracts.crash_runner import CommandRunner
from tests.domains.azure.providers.arm_server import (
    ArmServer,
    ClientKilled,
    Faults,
    Site,
    build_machine_id,
)
from tests.domains.azure.providers.azure_sites import (
    FEW_SAMPLES,
    MIXED,
    NEW,
    PROVIDER_BLOCK,
    SCALED,
    build_existing_site,
    write_project,
)
from tests.kill_points import select_cases, select_share, select_situations, tries_all

# The number of a request, and whether the client is killed after its execution.
Point: TypeAlias = tuple[int, bool]
KILLED = -signal.SIGKILL


class KillAtRequest:
    """Kill the client at one request."""

    def __init__(self, said: Path, request: int, *, after: bool) -> None:
        self.said = said
        self.at = (request, after)
        self.happened = False

    def __call__(self, number: int, after: bool) -> None:
        if (number, after) != self.at:
            return
        self.happened = True
        os.kill(int(self.said.with_name("said.pid").read_text()), signal.SIGKILL)
        raise ClientKilled


class KilledChange:
    """One change of an existing site, repeated from the start for each kill.

    Tests of a file share it: its site is imported once, and applied once without a kill.
    """

    def __init__(
        self, folder: Path, server: ArmServer, runner: CommandRunner, configuration: str
    ) -> None:
        self.server = server
        self.runner = runner
        self.folder = folder
        self.site = build_existing_site()
        self.site.resources[build_machine_id("m6").lower()]["properties"]["actionStates"] = []
        server.site = copy.deepcopy(self.site)
        template = folder / "template" / "work"
        write_project(template)
        if configuration == RESTARTED:
            (template / "main.nf.hcl").write_text(
                PROVIDER_BLOCK.replace("}\n", "  act_on_machines = true\n}\n")
            )
        self.good(template, "import", "-from=azure", "-generate-config-out=site.nf.hcl")
        self.site = copy.deepcopy(server.site)
        write_project(template, configuration)
        self.template = template
        # By faults: methods of all requests of a complete apply, and the site after it.
        self._complete_applies: dict[str, tuple[list[str], Site]] = {}
        self.runner.load(self.begin("loaded", Faults()), "apply", "-auto-approve")

    def run(self, where: Path, *words: str) -> tuple[int, str]:
        """Return exit code and output.

        The server chooses machines freely: a complete apply with wrong certain predictions
        counts as successful.
        """
        code, told = self.runner.run(where, *words)
        return 0 if code == 2 and words[
            0
        ] == "apply" and "Wrong certain predictions" in told else code, told

    def good(self, where: Path, *words: str) -> str:
        code, told = self.run(where, *words)
        assert code == 0, (words, told)
        return told

    def begin(self, name: str, faults: Faults) -> Path:
        """Return a new work directory, and reset the site."""
        where = self.folder / name / "work"
        # Of an earlier test.
        shutil.rmtree(where.parent, ignore_errors=True)
        shutil.copytree(self.template, where)
        self.server.site = copy.deepcopy(self.site)
        self.server.site.faults = copy.copy(faults)
        self.server.site.asked.clear()
        self.server.requests = 0
        return where

    def requests(self, faults: Faults) -> list[str]:
        """Return the methods of all requests of an apply that is not killed.

        The server has the site after this apply.
        """
        key = repr(faults)
        if key not in self._complete_applies:
            where = self.begin("counted", faults)
            self.good(where, "apply", "-auto-approve", "-parallelism=1")
            methods = [method for method, _, _ in self.server.site.asked]
            self.check(where)
            self._complete_applies[key] = methods, copy.deepcopy(self.server.site)
        methods, site = self._complete_applies[key]
        self.server.site = copy.deepcopy(site)
        return methods

    def list_points(self, faults: Faults) -> list[Point]:
        """Return the points of an apply at which to kill it: those before and after each request.

        A situation is the last answer, without the name of the object, and the number of changes
        that Azure has accepted. All reads before the first change are one.
        """
        situations: dict[Point, tuple[object, ...]] = {}

        def record_point(number: int, after: bool) -> None:
            site = self.server.site
            method, path, status = site.asked[-1] if site.asked else ("", "", 0)
            kind = path.split("/")[1::2] if site.taken else []
            situations[number, after] = (after, method, *kind, status, len(site.taken))

        where = self.begin("recorded", faults)
        self.server.at_request = record_point
        self.good(where, "apply", "-auto-approve", "-parallelism=1")
        self.server.at_request = lambda _number, _after: None
        return select_situations(situations)

    def kill_and_resume(self, number: int, faults: Faults, *, after: bool) -> None:
        where = self.begin(f"{number}-{after}", faults)
        kill = KillAtRequest(where.parent / "said", number, after=after)
        self.server.at_request = kill
        code, told = self.runner.run(where, "apply", "-auto-approve", "-parallelism=1")
        self.server.at_request = lambda _number, _after: None
        assert (code, kill.happened) == (KILLED, True), told
        code, told = self.run(where, "apply", "-resume")
        if code and "Nothing to resume" in told:
            code, told = self.run(where, "apply", "-auto-approve")
        assert code == 0, told
        self.check(where)

    def check(self, where: Path) -> None:
        """Check that every change was accepted once, and that state and site agree.

        They agree on every node.
        """
        site = self.server.site
        twice = {change: count for change, count in Counter(site.taken).items() if count > 1}
        assert not twice
        assert read_nodes_of_state(where) == read_nodes_of_site(site)
        self.good(where, "plan", "-detailed-exitcode")


def read_nodes_of_state(where: Path) -> dict[str, str]:
    document = json.loads((where / "state" / "nexusform.nfstate").read_text())
    found: dict[str, str] = {}
    for resource in document["resources"]:
        for instance in resource["instances"]:
            attributes: dict[str, Any] = instance["attributes"]
            assert not instance.get("tainted")
            for node in (attributes.get("nodes") or {}).values():
                found[node["platform_name"]] = node["machine"]
            if resource["type"] == "nexus_virtual_machine":
                found[attributes["name"]] = attributes["machine"]
    return found


def read_nodes_of_site(site: Site) -> dict[str, str]:
    found: dict[str, str] = {}
    for body in (*site.of_type("kubernetesClusters", ""), *site.of_type("virtualMachines", "")):
        properties = body["properties"]
        nodes = properties.get("nodes") or [{**properties, "name": body["name"]}]
        found |= {node["name"]: node["bareMetalMachineId"].rsplit("/", 1)[1] for node in nodes}
    return found


@pytest.fixture(scope="module")
def runner(server: ArmServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandRunner]:
    """Yield a runner of commands for all tests.

    Loading the SDK takes most of the time of a test.
    """
    template = tmp_path_factory.mktemp("template")
    write_project(template)
    # An action that never reached Azure is requested again after this time, not after five minutes.
    constants = {
        "nexusform.domains.azure.providers.azure_actions.VISIBILITY_TIMEOUT": 2.0,
        **FEW_SAMPLES,
    }
    runner = CommandRunner(template, server.environment(), longest_wait=0.01, constants=constants)
    yield runner
    runner.end()


@pytest.fixture(scope="module")
def story(
    tmp_path_factory: pytest.TempPathFactory,
    server: ArmServer,
    runner: CommandRunner,
    request: pytest.FixtureRequest,
) -> KilledChange:
    return KilledChange(tmp_path_factory.mktemp("story"), server, runner, request.param)


RESTARTED = """resource "nexus_bare_metal_machine_action" "x" {
  provider   = azure
  machine_id = "lab/r2/m6"
  action     = "Restart"
}
"""

WORSE = Faults(polls=3, conflicts=1, throttles=1, stale=2)
# New resources show late, their operation is unknown, and polls fail.
LATE = Faults(polls=4, vanishes=1, stale=3, errors=(429, 503))
BROKEN = Faults(polls=2, resets=1, throttles=1, errors=(500,))


@pytest.mark.parametrize("story", [SCALED, NEW], ids=["scale-out", "new"], indirect=True)
def test_killed_apply_is_resumed(story: KilledChange) -> None:
    methods = story.requests(Faults())
    first_change = next(number for number, method in enumerate(methods, 1) if method != "GET")
    for number, after in select_cases(
        ((first_change, False), (first_change, True), (len(methods), True))
    ):
        story.kill_and_resume(number, Faults(), after=after)


@pytest.mark.parametrize("story", [RESTARTED], ids=["restart"], indirect=True)
def test_killed_machine_action_is_resumed(story: KilledChange) -> None:
    """Azure has the request, or its operation is in progress.

    It is awaited, and never requested again.
    """
    faults = Faults(polls=3)
    methods = story.requests(faults)
    first_change = next(number for number, method in enumerate(methods, 1) if method != "GET")
    for number in select_cases(range(first_change, len(methods) + 1)):
        story.kill_and_resume(number, faults, after=True)


STORIES = {"scale-out": SCALED, "new": NEW, "mixed": MIXED, "restart": RESTARTED}
FAULTS = {"plain": Faults(), "worse": WORSE, "late": LATE, "broken": BROKEN}


def list_stories() -> Iterator[Any]:
    """Yield two changes with two faults each, or all changes with all faults if all are tried."""
    for row, (story, configuration) in enumerate(STORIES.items()):
        for column, (name, faults) in enumerate(FAULTS.items()):
            # Two of the sixteen, with different changes and faults.
            if tries_all() or (row + column) % 4 == row % 2 == 0:
                yield pytest.param(configuration, faults, id=f"{story}-{name}")


@pytest.mark.slow
@pytest.mark.parametrize(("story", "faults"), list(list_stories()), indirect=["story"])
def test_apply_killed_at_every_request_is_resumed(story: KilledChange, faults: Faults) -> None:
    points = story.list_points(faults)
    middle = len(points) // 2
    for number, after in select_share(points) if tries_all() else points[middle : middle + 1]:
        story.kill_and_resume(number, faults, after=after)


OTHER_TAGS = {"another-state": {"nexusform-creation": "another"}, "by-hand": {}}


@pytest.mark.parametrize("is_answered", [False, True], ids=["request", "operation"])
@pytest.mark.parametrize("command", ["resume", "discard"])
@pytest.mark.parametrize("tags", OTHER_TAGS.values(), ids=OTHER_TAGS)
@pytest.mark.parametrize("story", [NEW], ids=["new"], indirect=True)
def test_equal_object_of_others_is_not_taken_over(
    story: KilledChange, command: str, tags: dict[str, str], *, is_answered: bool
) -> None:
    """It was created before the request of this state reached Azure, or again after the answer."""
    methods = story.requests(Faults())
    first_change = next(number for number, method in enumerate(methods, 1) if method != "GET")
    method, name = story.server.site.taken[0]
    assert method == "PUT"
    created = copy.deepcopy(story.server.site.resources)
    key = name.lower()
    where = story.begin("killed", Faults())
    number = first_change + is_answered
    story.server.at_request = KillAtRequest(where.parent / "said", number, after=False)
    assert story.runner.run(where, "apply", "-auto-approve", "-parallelism=1")[0] == KILLED
    story.server.at_request = lambda _number, _after: None
    site = story.server.site
    assert (key in site.resources) == is_answered
    site.resources[key] = existing = {**created[key], "tags": tags}
    if command == "resume":
        code, told = story.runner.run(where, "apply", "-resume")
        assert (code, "already exists in resource group" in " ".join(told.split())) == (1, True)
    else:
        story.runner.run(where, "apply", "-discard", "-auto-approve")
        story.runner.run(where, "destroy", "-auto-approve")
    assert site.resources[key] == existing
    assert site.taken.count((method, name)) == is_answered


@pytest.mark.parametrize("story", [NEW], ids=["new"], indirect=True)
def test_creation_of_an_earlier_version_names_the_way_out(story: KilledChange) -> None:
    """Its journal has the request without an answer, and its object has no tag."""
    methods = story.requests(Faults())
    first_change = next(number for number, method in enumerate(methods, 1) if method != "GET")
    where = story.begin("killed", Faults())
    story.server.at_request = KillAtRequest(where.parent / "said", first_change, after=True)
    assert story.runner.run(where, "apply", "-auto-approve", "-parallelism=1")[0] == KILLED
    story.server.at_request = lambda _number, _after: None
    site = story.server.site
    key = site.taken[0][1].lower()
    del site.resources[key]["tags"]["nexusform-creation"]
    code, told = story.runner.run(where, "apply", "-resume")
    text = " ".join(told.replace("│", " ").split())
    assert (code, "nexusform apply -discard`, and import the object." in text) == (1, True), text
    assert [name.lower() for _, name in site.taken].count(key) == 1
