"""Tests of a crash or a failing disk during an apply through provider fleet.

The apply is killed at any request before or after its execution, or at any durable call of its
disk, or its disk fails. The next apply continues, and the hub ends as after an undisturbed one.
Every run tests some points of each change; NEXUSFORM_CRASH_POINTS=first tests the first point of
each situation, and NEXUSFORM_CRASH_POINTS=all every point.
"""

from __future__ import annotations

import copy
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

pytest.importorskip("lightkube")
from nexusform.backends.local_file import LocalBackend
from tests.contracts.crash_runner import DIED, LOCAL_KINDS, CommandRunner
from tests.domains.hub.hub_controller import Controller, build_member
from tests.domains.hub.hub_server import HubServer
from tests.domains.hub.test_fleet_provider import MANY, WEB
from tests.kill_points import select_points, select_situations

pytestmark = pytest.mark.slow
# Points of each change and kind per run.
MAXIMUM = 1
CREATED = WEB.format(number=2, content="1", timeout="30m", more="")
CHANGED = WEB.format(number=3, content="2", timeout="30m", more="") + MANY.format(number=1)
EMPTY = 'provider "fleet" {}\n'
KINDS = ("Namespace", "ConfigMap", "ClusterResourcePlacement", "ClusterResourceBinding")


def send_heartbeats(hub: HubServer) -> None:
    """Send heartbeats for all members.

    Placements do not pick a member without heartbeats for minutes.
    """
    for name in ("ams1", "fra1", "lon1", "par1"):
        hub.put(build_member(name, env="prod"), "join")


class Change(Struct, frozen=True):
    """The start and the result of an apply; "" is a hub without any of its objects."""

    before: str
    after: str


CHANGES = {
    "create": Change("", CREATED),
    "change": Change(CREATED, CHANGED),
    "destroy": Change(CHANGED, EMPTY),
}


class Kill:
    """Kills the command at one request: before its execution, or before its answer."""

    def __init__(self, said: Path, hub: HubServer, point: tuple[int, str]) -> None:
        self.said = said
        self.point = point
        self.requests = 0
        self.changes = 0
        self.last_request = ("", "")
        # The last answer and the number of changes by point. All reads before the first change
        # are one situation.
        self.situations: dict[tuple[int, str], tuple[object, ...]] = {}
        self.happened = False
        hub.faults = self.before
        hub.carried_out = self.after

    def before(self, _method: str, _path: str) -> None:
        self.requests += 1
        self.kill_once("before")

    def after(self, method: str, target: str) -> None:
        self.changes += method != "GET"
        self.kill_once("after")
        self.last_request = (method, target)

    def kill_once(self, moment: str) -> None:
        answer = self.last_request if self.changes else ()
        self.situations[self.requests, moment] = (moment, *answer, self.changes)
        if self.happened or (self.requests, moment) != self.point:
            return
        self.happened = True
        os.kill(int(self.said.with_name("said.pid").read_text()), signal.SIGKILL)
        raise ConnectionAbortedError


class CrashScenario:
    """One change of a hub, repeated many times from its start."""

    def __init__(self, folder: Path, hub: HubServer, change: Change) -> None:
        self.folder = folder
        self.hub = hub
        self.template = folder / "template" / "work"
        self.template.mkdir(parents=True)
        configuration = self.template / "main.nf.hcl"
        configuration.write_text(change.after)
        kubeconfig = str(hub.kubeconfig(folder))
        self.runner = CommandRunner(
            self.template, {"NF_FLEET_KUBECONFIG": kubeconfig, "NO_COLOR": "1"}
        )
        if change.before:
            configuration.write_text(change.before)
            self.good(self.template, "apply", "-auto-approve")
            configuration.write_text(change.after)
        self.objects, self.version, self.events = copy.deepcopy(
            (hub.objects, hub.version, hub.happened)
        )
        where = self.begin("whole")
        count = Kill(where.parent / "said", hub, (0, ""))
        self.good(where, "apply", "-auto-approve", "-parallelism=1")
        self.points = select_situations(count.situations)
        self.result = self.read_hub()

    def good(self, where: Path, *words: str) -> str:
        code, told = self.runner.run(where, *words)
        assert code == 0, (words, told)
        return told

    def begin(self, name: str) -> Path:
        """Return a separate work directory, with the hub in its initial state."""
        where = self.folder / name / "work"
        shutil.copytree(self.template, where)
        with self.hub.lock:
            memory = copy.deepcopy((self.objects, self.version, self.events))
            self.hub.objects, self.hub.version, self.hub.happened = memory
        send_heartbeats(self.hub)
        self.hub.log.clear()
        return where

    def read_hub(self) -> list[tuple[Any, ...]]:
        """Return all objects of the fleet with their content, and the number of changes of each."""
        found = []
        for kind in KINDS:
            for body in self.hub.all(kind):
                metadata = body["metadata"]
                place = (
                    kind,
                    metadata.get("namespace", ""),
                    metadata["name"],
                    metadata["generation"],
                )
                found.append(
                    (*place, body.get("data"), body.get("spec") if kind == KINDS[2] else None)
                )
        return found

    def kill(self, point: tuple[int, str]) -> None:
        """Kill an apply at a request, and resume."""
        where = self.begin(f"{point[1]}-{point[0]}")
        kill = Kill(where.parent / "said", self.hub, point)
        code, told = self.runner.run(where, "apply", "-auto-approve", "-parallelism=1")
        self.answer_all()
        assert (code, kill.happened) in ((-signal.SIGKILL, True), (0, False)), (point, told)
        self.finish(where, point)

    def break_disk(self, point: tuple[str, int]) -> None:
        """Kill an apply at a durable call or let the call fail, and resume."""
        where = self.begin(f"disk-{point[0]}-{point[1]}")
        words = ("apply", "-auto-approve", "-parallelism=1")
        code, told = self.runner.run(where, *words, kind=point[0], call=point[1], places=("disk",))
        assert code in (0, 1, DIED), (point, told)
        assert "Internal error" not in told, (point, told)
        self.finish(where, point)

    def answer_all(self) -> None:
        self.hub.faults = lambda _method, _path: None
        self.hub.carried_out = lambda _method, _target: None

    def finish(self, where: Path, point: tuple[Any, ...]) -> None:
        """Resume as an operator would.

        The hub ends as after an undisturbed apply, and no changes are left.
        """
        if (where / "errored.nfstate").exists():
            self.good(where, "state", "push", "errored.nfstate")
        code, told = self.runner.run(where, "apply", "-resume")
        if code and "Nothing to resume" in told:
            code, told = self.runner.run(where, "apply", "-auto-approve")
        assert code == 0, (point, told)
        # The steps that were done before the kill are ours.
        assert "showed more than happens" not in told
        # The hub deletes objects asynchronously.
        end = time.monotonic() + 10
        while self.read_hub() != self.result and time.monotonic() < end:
            time.sleep(0.05)
        assert self.read_hub() == self.result, point
        # The file of an apply may remain after a crash during its removal: it has
        # no pending record.
        assert LocalBackend(str(where / "state" / "nexusform.nfstate")).read_journal() == [], point
        self.good(where, "plan", "-detailed-exitcode")


@pytest.fixture(scope="module", params=list(CHANGES))
def crash_scenario(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CrashScenario]:
    hub = HubServer()
    hub.controller = Controller()
    send_heartbeats(hub)
    crash_scenario = CrashScenario(
        tmp_path_factory.mktemp(request.param), hub, CHANGES[request.param]
    )
    yield crash_scenario
    crash_scenario.runner.end()
    hub.close()


def test_apply_killed_at_any_request_is_resumed(crash_scenario: CrashScenario) -> None:
    for point in select_points(crash_scenario.points, MAXIMUM):
        crash_scenario.kill(point)


def test_apply_interrupted_at_any_durable_call_is_resumed(crash_scenario: CrashScenario) -> None:
    where = crash_scenario.begin("disk-counted")
    calls = crash_scenario.runner.calls(
        where, ("disk",), "apply", "-auto-approve", "-parallelism=1"
    )
    for point in select_points([(kind, call) for call in calls for kind in LOCAL_KINDS], MAXIMUM):
        crash_scenario.break_disk(point)
