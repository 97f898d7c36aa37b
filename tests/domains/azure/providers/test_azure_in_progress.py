"""What a killed apply began in Azure: while it goes on nothing says that there is nothing to do, and what it
comes to is told, and sent once more only where it failed.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from tests.contracts.crash_runner import Runner
from tests.domains.azure.providers.arm_server import ArmServer, Faults, Killed
from tests.domains.azure.providers.azure_sites import CLUSTER, NEW, SCALED, project, standing_site

UPGRADED = 'resource "nexus_kubernetes_cluster" "c" {\n  kubernetes_version = "v1.30"\n}\n'
FOREVER = 10_000  # looks that an operation takes
GOES_ON = "continues an earlier apply"
VM = NEW[NEW.index('resource "nexus_virtual_machine"') :]


class PredictionScenario:
    """A site that was taken over, where applies are killed once Azure took their first change."""

    def __init__(self, folder: Path, server: ArmServer) -> None:
        self.server = server
        self.template = self.where = folder / "template" / "work"
        server.site = standing_site()
        project(self.template)
        self.runner = Runner(self.template, server.environment())
        code, told = self.run("import", "-from=azure", "-generate-config-out=site.nf.hcl")
        assert code == 0, told
        self.site = copy.deepcopy(server.site)

    def kill(self, folder: Path, configuration: str, *words: str) -> None:
        """An apply that is killed when Azure has taken its first change, which goes on."""
        self.where = folder / "work"
        shutil.copytree(self.template, self.where)
        self.server.site = copy.deepcopy(self.site)
        self.server.site.faults = Faults(polls=FOREVER)
        project(self.where, configuration)
        self.server.at_request = self.kill_at_look
        code, told = self.run(*(words or ("apply", "-auto-approve", "-parallelism=1")))
        self.server.at_request = lambda _number, _after: None
        assert code == -signal.SIGKILL, told

    def kill_at_look(self, _number: int, after: bool) -> None:
        if self.server.site.taken and not after:
            os.kill(int((self.where.parent / "said.pid").read_text()), signal.SIGKILL)
            raise Killed

    def end(self, outcome: str, *, rollback: bool = False) -> None:
        """What goes on ends so; later changes succeed."""
        site = self.server.site
        site.faults = Faults(outcome=outcome, rollback=rollback)
        for operation in site.operations.values():
            operation.fails, operation.polls = outcome != "Succeeded", 0
            if not operation.over:
                site.end(operation)

    def run(self, *words: str) -> tuple[int, str]:
        return self.runner.run(self.where, *words)

    def good(self, *words: str) -> str:
        code, told = self.run(*words)
        assert code == 0 or (words[0] == "apply" and "Wrong certain predictions" in told), told
        return told

    def due(self, *words: str) -> str:
        """What a plan says that has something to do."""
        code, told = self.run("plan", "-detailed-exitcode", *words)
        assert (code, "No changes" in told) == (2, False), told
        return told

    def taken(self, method: str) -> int:
        return sum(each == method for each, _ in self.server.site.taken)


@pytest.fixture(scope="module")
def scene(server: ArmServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PredictionScenario]:
    scene = PredictionScenario(tmp_path_factory.mktemp("scene"), server)
    yield scene
    scene.runner.end()


@pytest.mark.parametrize(
    ("configuration", "words", "shown"),
    [
        (UPGRADED, (), "nexus_kubernetes_cluster.c: c is Updating"),
        (SCALED, (), "nexus_kubernetes_cluster.c: c/np1 is Updating"),
        (NEW, (), "nexus_kubernetes_cluster.d: d is Accepted"),
        (VM, (), "nexus_virtual_machine.v: v is Accepted"),
        ("", ("destroy", "-auto-approve", "-parallelism=1"), "nexus_kubernetes_cluster.c: c is Deleting"),
    ],
    ids=["upgrade", "scale-out", "creation", "vm", "deletion"],
)
def test_while_it_goes_on_nothing_says_that_nothing_is_to_do(
    configuration: str, words: tuple[str, ...], shown: str, scene: PredictionScenario, tmp_path: Path
) -> None:
    scene.kill(tmp_path, configuration, *words)
    before = list(scene.server.site.taken)
    for flags in ((), ("-refresh=false",)):
        assert f"change-in-progress {shown}" in scene.due(*flags)
    code, told = scene.run("reconcile", "-from=azure")
    assert (code, "1 change in progress" in told) == (2, True), told
    assert "An earlier apply started to" in told
    told = scene.good("apply", "-refresh-only", "-auto-approve")
    assert ("No changes" in told, f"change-in-progress {shown}" in told) == (False, True), told
    scene.good("apply", "-discard")
    assert f"change-in-progress {shown}" in scene.due()
    assert f"change-in-progress {shown}" in scene.due("-refresh=false")
    assert scene.server.site.taken == before


@pytest.mark.parametrize("rollback", [False, True])
@pytest.mark.parametrize("outcome", ["Succeeded", "Failed", "Canceled"])
def test_what_was_dropped_while_it_went_on_is_sent_again_only_where_it_failed(
    outcome: str, rollback: bool, scene: PredictionScenario, tmp_path: Path
) -> None:
    scene.kill(tmp_path, UPGRADED)
    scene.good("apply", "-discard")
    assert GOES_ON in scene.due()
    scene.end(outcome, rollback=rollback)
    if outcome == "Succeeded":
        assert "No changes." in scene.good("plan", "-detailed-exitcode")
        assert "Every VM is where the state records it." in scene.good("reconcile", "-from=azure")
    else:
        told = scene.due()
        assert f"A change from an earlier apply of c ended {outcome}: no machine has room." in told
        assert f"ended {outcome}" in scene.run("reconcile", "-from=azure")[1]
    scene.good("apply", "-auto-approve")
    assert scene.taken("PATCH") == (1 if outcome == "Succeeded" else 2)
    properties = scene.server.site.resources[CLUSTER]["properties"]
    assert (properties["kubernetesVersion"], properties["provisioningState"]) == ("v1.30", "Succeeded")
    assert "No changes." in scene.good("plan", "-detailed-exitcode")


@pytest.mark.parametrize("configuration", [UPGRADED, SCALED], ids=["upgrade", "scale-out"])
def test_what_failed_before_anybody_looked_is_due(
    configuration: str, scene: PredictionScenario, tmp_path: Path
) -> None:
    scene.kill(tmp_path, configuration)
    scene.end("Failed")
    assert "ended Failed: no machine has room" in scene.due()
    code, told = scene.run("apply", "-resume")
    assert (code, "InsufficientResources: no machine has room" in told) == (1, True), told
    assert "It is pending: apply sends it again" in scene.due("-details")
    scene.good("apply", "-auto-approve")
    assert scene.taken("PATCH") == 2
    assert "No changes." in scene.good("plan", "-detailed-exitcode")


def test_an_apply_waits_for_what_goes_on_and_sends_nothing_of_its_own(
    scene: PredictionScenario, tmp_path: Path
) -> None:
    scene.kill(tmp_path, UPGRADED)
    scene.good("apply", "-discard")
    scene.server.site.faults = Faults()
    for operation in scene.server.site.operations.values():
        operation.polls = 3
    scene.good("apply", "-auto-approve")
    assert scene.taken("PATCH") == 1
    assert "No changes." in scene.good("plan", "-detailed-exitcode")


def test_a_creation_that_failed_before_anybody_looked_never_stood(scene: PredictionScenario, tmp_path: Path) -> None:
    scene.kill(tmp_path, NEW)
    scene.end("Failed")
    assert "nexus_kubernetes_cluster.d is tainted" in scene.due("-details")
    code, told = scene.run("apply", "-resume")
    assert (code, "Azure could not make d (Failed)" in told) == (1, True), told
    assert [path.rpartition("/")[2] for _, path in scene.server.site.taken].count("d") == 1


def test_what_vanished_while_it_was_made_is_made(scene: PredictionScenario, tmp_path: Path) -> None:
    scene.kill(tmp_path, VM)
    scene.good("apply", "-discard")
    site = scene.server.site
    site.faults = Faults()
    for path in [path for path in site.resources if path.endswith("/virtualmachines/v")]:
        del site.resources[path]
    site.operations.clear()
    assert "+ nexus_virtual_machine.v" in scene.due()
    scene.good("apply", "-auto-approve")
    assert scene.taken("PUT") == 2
    assert "No changes." in scene.good("plan", "-detailed-exitcode")


def test_nodes_that_never_came_of_what_was_dropped_are_due(scene: PredictionScenario, tmp_path: Path) -> None:
    scene.kill(tmp_path, SCALED)
    scene.good("apply", "-discard")
    assert "c/np1 is Updating" in scene.due()
    site = scene.server.site
    site.faults = Faults(short=2)
    for operation in site.operations.values():
        operation.polls = 0
        site.end(operation)
    site.faults = Faults()
    told = scene.due("-details")
    assert "A change from an earlier apply of c/np1 has ended, and Azure shows 2 of 4 nodes." in told
    assert "change-in-progress" not in told
    scene.good("apply", "-auto-approve")
    assert scene.taken("PATCH") == 2
    assert "No changes." in scene.good("plan", "-detailed-exitcode")


def test_what_was_to_go_and_stands_is_not_changed_for_that(scene: PredictionScenario, tmp_path: Path) -> None:
    scene.kill(tmp_path, "", "destroy", "-auto-approve", "-parallelism=1")
    scene.good("apply", "-discard")
    assert "c is Deleting" in scene.due()
    scene.end("Failed")
    told = scene.good("plan", "-detailed-exitcode")
    assert "platform-reports-failure" in told
    assert scene.due("-destroy")
    assert "done nexus_kubernetes_cluster.c delete" in scene.run("destroy", "-auto-approve")[1]
    assert scene.taken("DELETE") == 2


def test_a_pool_that_was_to_go_and_is_gone_is_not_due(scene: PredictionScenario, tmp_path: Path) -> None:
    start = SCALED.index('  agent_pool "web"')
    scene.kill(tmp_path, f"{SCALED[:start].replace('4', '2')}}}\n")
    scene.good("apply", "-discard")
    assert "change-in-progress nexus_kubernetes_cluster.c: c/web is Deleting" in scene.due()
    scene.end("Succeeded")
    told = scene.run("plan")[1]
    assert ("node_count 5 -> 3, -web" in told, "change-in-progress" in told) == (True, False), told
    scene.good("apply", "-auto-approve")
    assert "No changes." in scene.good("plan", "-detailed-exitcode")
    assert scene.taken("DELETE") == 1


def test_notes_of_what_goes_on_hold_no_values(scene: PredictionScenario, tmp_path: Path) -> None:
    scene.kill(tmp_path, SCALED)
    scene.good("apply", "-discard")
    document = json.loads((scene.where / "state" / "nexusform.nfstate").read_text())
    of_cluster = next(one for one in document["resources"] if one["type"] == "nexus_kubernetes_cluster")
    noted = of_cluster["instances"][0]["private"]["unfinished"]
    assert noted["parts"] == ["count"]
    assert noted["in_progress"] is True
