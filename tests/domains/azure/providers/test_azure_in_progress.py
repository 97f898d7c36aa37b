"""Tests of changes started in Azure by a killed apply.

No command reports "nothing to do" while they are in progress; their result is reported, and only
failed ones are sent again.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from tests.contracts.crash_runner import CommandRunner
from tests.domains.azure.providers.arm_server import ArmServer, ClientKilled, Faults
from tests.domains.azure.providers.azure_sites import (
    CLUSTER,
    FEW_SAMPLES,
    NEW,
    SCALED,
    build_existing_site,
    write_project,
)
from tests.kill_points import select_cases

UPGRADED = 'resource "nexus_kubernetes_cluster" "c" {\n  kubernetes_version = "v1.30"\n}\n'
# polls until the end of an operation.
FOREVER = 10_000
DESTROY = ("destroy", "-auto-approve", "-parallelism=1")
GOES_ON = "continues an earlier apply"
VM = NEW[NEW.index('resource "nexus_virtual_machine"') :]


class KilledApplyScenario:
    """Imported site with applies killed after Azure accepted their first change."""

    def __init__(self, folder: Path, server: ArmServer) -> None:
        self.server = server
        self.template = self.where = folder / "template" / "work"
        server.site = build_existing_site()
        write_project(self.template)
        self.runner = CommandRunner(self.template, server.environment(), constants=FEW_SAMPLES)
        code, told = self.run("import", "-from=azure", "-generate-config-out=site.nf.hcl")
        assert code == 0, told
        self.site = copy.deepcopy(server.site)

    def kill(self, folder: Path, configuration: str, *words: str) -> None:
        """Run an apply and kill it after Azure has accepted its first change.

        The change continues.
        """
        self.where = folder / "work"
        shutil.copytree(self.template, self.where)
        self.server.site = copy.deepcopy(self.site)
        self.server.site.faults = Faults(polls=FOREVER)
        write_project(self.where, configuration)
        self.server.at_request = self.kill_at_poll
        code, told = self.run(*(words or ("apply", "-auto-approve", "-parallelism=1")))
        self.server.at_request = lambda _number, _after: None
        assert code == -signal.SIGKILL, told

    def kill_at_poll(self, _number: int, after: bool) -> None:
        if self.server.site.taken and not after:
            os.kill(int((self.where.parent / "said.pid").read_text()), signal.SIGKILL)
            raise ClientKilled

    def end(self, outcome: str, *, rollback: bool = False) -> None:
        """End the operations in progress with this outcome; later changes succeed."""
        site = self.server.site
        site.faults = Faults(outcome=outcome, rollback=rollback)
        for operation in site.operations.values():
            operation.fails = outcome != "Succeeded"
            operation.polls = 0
            if not operation.over:
                site.end(operation)

    def run(self, *words: str) -> tuple[int, str]:
        return self.runner.run(self.where, *words)

    def good(self, *words: str) -> str:
        code, told = self.run(*words)
        assert code == 0 or (words[0] == "apply" and "Wrong certain predictions" in told), told
        return told

    def due(self, *words: str) -> str:
        """Return the output of a plan with changes."""
        code, told = self.run("plan", "-detailed-exitcode", *words)
        assert (code, "No changes" in told) == (2, False), told
        return told

    def taken(self, method: str) -> int:
        return sum(each == method for each, _ in self.server.site.taken)


@pytest.fixture(scope="module")
def scenario(
    server: ArmServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KilledApplyScenario]:
    scenario = KilledApplyScenario(tmp_path_factory.mktemp("scene"), server)
    yield scenario
    scenario.runner.end()


@pytest.mark.parametrize(
    ("configuration", "words", "shown"),
    select_cases(
        [
            pytest.param(UPGRADED, (), "nexus_kubernetes_cluster.c: c is Updating", id="upgrade"),
            pytest.param(
                SCALED, (), "nexus_kubernetes_cluster.c: c/np1 is Updating", id="scale-out"
            ),
            pytest.param(NEW, (), "nexus_kubernetes_cluster.d: d is Accepted", id="creation"),
            pytest.param(VM, (), "nexus_virtual_machine.v: v is Accepted", id="vm"),
            pytest.param("", DESTROY, "nexus_kubernetes_cluster.c: c is Deleting", id="deletion"),
        ]
    ),
)
def test_change_in_progress_is_shown_by_every_command(
    configuration: str,
    words: tuple[str, ...],
    shown: str,
    scenario: KilledApplyScenario,
    tmp_path: Path,
) -> None:
    scenario.kill(tmp_path, configuration, *words)
    before = list(scenario.server.site.taken)
    for flags in ((), ("-refresh=false",)):
        assert f"change-in-progress {shown}" in scenario.due(*flags)
    code, told = scenario.run("reconcile", "-from=azure")
    assert (code, "1 change in progress" in told) == (2, True), told
    assert "An earlier apply started to" in told
    told = scenario.good("apply", "-refresh-only", "-auto-approve")
    assert ("No changes" in told, f"change-in-progress {shown}" in told) == (False, True), told
    scenario.good("apply", "-discard")
    assert f"change-in-progress {shown}" in scenario.due()
    assert f"change-in-progress {shown}" in scenario.due("-refresh=false")
    assert scenario.server.site.taken == before


@pytest.mark.parametrize(
    ("outcome", "rollback"),
    select_cases(list(product(["Succeeded", "Failed", "Canceled"], [False, True]))),
)
def test_discarded_change_is_sent_again_only_if_it_failed(
    outcome: str, rollback: bool, scenario: KilledApplyScenario, tmp_path: Path
) -> None:
    scenario.kill(tmp_path, UPGRADED)
    scenario.good("apply", "-discard")
    assert GOES_ON in scenario.due()
    scenario.end(outcome, rollback=rollback)
    if outcome == "Succeeded":
        assert "No changes." in scenario.good("plan", "-detailed-exitcode")
        assert "Every VM is where the state records it." in scenario.good(
            "reconcile", "-from=azure"
        )
    else:
        told = scenario.due()
        assert f"A change from an earlier apply of c ended {outcome}: no machine has room." in told
        assert f"ended {outcome}" in scenario.run("reconcile", "-from=azure")[1]
    scenario.good("apply", "-auto-approve")
    assert scenario.taken("PATCH") == (1 if outcome == "Succeeded" else 2)
    properties = scenario.server.site.resources[CLUSTER]["properties"]
    assert (properties["kubernetesVersion"], properties["provisioningState"]) == (
        "v1.30",
        "Succeeded",
    )
    assert "No changes." in scenario.good("plan", "-detailed-exitcode")


@pytest.mark.parametrize("configuration", [UPGRADED, SCALED], ids=["upgrade", "scale-out"])
def test_change_failed_before_next_command_is_pending(
    configuration: str, scenario: KilledApplyScenario, tmp_path: Path
) -> None:
    scenario.kill(tmp_path, configuration)
    scenario.end("Failed")
    assert "ended Failed: no machine has room" in scenario.due()
    code, told = scenario.run("apply", "-resume")
    assert (code, "InsufficientResources: no machine has room" in told) == (1, True), told
    assert "It is pending: apply sends it again" in scenario.due("-details")
    scenario.good("apply", "-auto-approve")
    assert scenario.taken("PATCH") == 2
    assert "No changes." in scenario.good("plan", "-detailed-exitcode")


def test_apply_waits_for_change_in_progress_without_sending(
    scenario: KilledApplyScenario, tmp_path: Path
) -> None:
    scenario.kill(tmp_path, UPGRADED)
    scenario.good("apply", "-discard")
    scenario.server.site.faults = Faults()
    for operation in scenario.server.site.operations.values():
        operation.polls = 3
    scenario.good("apply", "-auto-approve")
    assert scenario.taken("PATCH") == 1
    assert "No changes." in scenario.good("plan", "-detailed-exitcode")


def test_creation_failed_before_next_command_is_tainted(
    scenario: KilledApplyScenario, tmp_path: Path
) -> None:
    scenario.kill(tmp_path, NEW)
    scenario.end("Failed")
    assert "nexus_kubernetes_cluster.d is tainted" in scenario.due("-details")
    code, told = scenario.run("apply", "-resume")
    assert (code, "Azure could not make d (Failed)" in told) == (1, True), told
    assert [path.rpartition("/")[2] for _, path in scenario.server.site.taken].count("d") == 1


def test_vm_missing_after_interrupted_creation_is_created(
    scenario: KilledApplyScenario, tmp_path: Path
) -> None:
    scenario.kill(tmp_path, VM)
    scenario.good("apply", "-discard")
    site = scenario.server.site
    site.faults = Faults()
    for path in [path for path in site.resources if path.endswith("/virtualmachines/v")]:
        del site.resources[path]
    site.operations.clear()
    assert "+ nexus_virtual_machine.v" in scenario.due()
    scenario.good("apply", "-auto-approve")
    assert scenario.taken("PUT") == 2
    assert "No changes." in scenario.good("plan", "-detailed-exitcode")


def test_missing_nodes_of_discarded_change_are_pending(
    scenario: KilledApplyScenario, tmp_path: Path
) -> None:
    scenario.kill(tmp_path, SCALED)
    scenario.good("apply", "-discard")
    assert "c/np1 is Updating" in scenario.due()
    site = scenario.server.site
    site.faults = Faults(short=2)
    for operation in site.operations.values():
        operation.polls = 0
        site.end(operation)
    site.faults = Faults()
    told = scenario.due("-details")
    assert (
        "A change from an earlier apply of c/np1 has ended, and Azure shows 2 of 4 nodes." in told
    )
    assert "change-in-progress" not in told
    scenario.good("apply", "-auto-approve")
    assert scenario.taken("PATCH") == 2
    assert "No changes." in scenario.good("plan", "-detailed-exitcode")


def test_failed_deletion_causes_no_further_change(
    scenario: KilledApplyScenario, tmp_path: Path
) -> None:
    scenario.kill(tmp_path, "", *DESTROY)
    scenario.good("apply", "-discard")
    assert "c is Deleting" in scenario.due()
    scenario.end("Failed")
    told = scenario.good("plan", "-detailed-exitcode")
    assert "platform-reports-failure" in told
    assert scenario.due("-destroy")
    assert "done nexus_kubernetes_cluster.c delete" in scenario.run("destroy", "-auto-approve")[1]
    assert scenario.taken("DELETE") == 2


def test_deleted_pool_is_not_pending(scenario: KilledApplyScenario, tmp_path: Path) -> None:
    start = SCALED.index('  agent_pool "web"')
    scenario.kill(tmp_path, f"{SCALED[:start].replace('4', '2')}}}\n")
    scenario.good("apply", "-discard")
    assert "change-in-progress nexus_kubernetes_cluster.c: c/web is Deleting" in scenario.due()
    scenario.end("Succeeded")
    told = scenario.run("plan")[1]
    assert ("node_count 5 -> 3, -web" in told, "change-in-progress" in told) == (True, False), told
    scenario.good("apply", "-auto-approve")
    assert "No changes." in scenario.good("plan", "-detailed-exitcode")
    assert scenario.taken("DELETE") == 1


def test_record_of_change_in_progress_has_no_values(
    scenario: KilledApplyScenario, tmp_path: Path
) -> None:
    scenario.kill(tmp_path, SCALED)
    scenario.good("apply", "-discard")
    document = json.loads((scenario.where / "state" / "nexusform.nfstate").read_text())
    of_cluster = next(
        one for one in document["resources"] if one["type"] == "nexus_kubernetes_cluster"
    )
    noted = of_cluster["instances"][0]["private"]["unfinished"]
    assert noted["parts"] == ["count"]
    assert noted["in_progress"] is True
