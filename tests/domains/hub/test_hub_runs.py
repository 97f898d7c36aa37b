"""Tests of staged runs and evictions.

An apply waits for a run up to a required approval, and sends an eviction once.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_front import Front
from tests.domains.hub.test_fleet_provider import list_writes, write_configuration

EXTERNAL = 'strategy {\n    type = "External"\n  }'
STRATEGY = """
resource "fleet_cluster_staged_update_strategy" "two" {{
  provider = fleet
  name     = "two"
  stage {{
    name = "canary"
    label_selector {{ match_labels = {{ env = "canary" }} }}
    after_stage_task {{ type = "Approval" }}
  }}
  stage {{
    name = "rest"
    label_selector {{ match_labels = {{ env = "prod" }} }}
  }}
}}
"""
FIRST = """
resource "fleet_cluster_staged_update_run" "first" {{
  provider                     = fleet
  name                         = "first"
  placement_name               = "web"
  staged_rollout_strategy_name = fleet_cluster_staged_update_strategy.two.name
  state                        = "Run"
  {more}
}}
"""
RUN = STRATEGY + FIRST
REQUEST = "first-after-canary"


EVICTION = """
resource "fleet_placement_eviction" "lon1" {
  provider       = fleet
  name           = "lon1"
  placement_name = "web"
  cluster_name   = "lon1"
}
"""


def append_configuration(text: str) -> None:
    """Append to the configuration."""
    with Path("main.nf.hcl").open("a") as configuration:
        configuration.write(text)


def write_run(more: str = "", timeout: str = "30m") -> None:
    write_configuration(number=4, timeout=timeout, more=EXTERNAL)
    append_configuration(RUN.format(more=more))


def list_snapshots(hub: Front) -> dict[str, str]:
    """Return the resource snapshot of each cluster."""
    bindings = [each["spec"] for each in hub.all("ClusterResourceBinding")]
    return {each["targetCluster"]: each.get("resourceSnapshotName") or "" for each in bindings}


def test_run_waits_for_approval_and_continues(hub: Front, run_command: CommandRunner) -> None:
    write_run()
    code, said = run_command("apply", "-auto-approve")
    assert (code, "Apply waiting" in said) == (1, True), said
    assert f"waits for a person: {REQUEST} has to be approved" in said
    assert list_snapshots(hub) == {"ams1": "", "fra1": "web-0-snapshot", "lon1": "", "par1": ""}
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "No changes." in said) == (2, False), said
    request = hub.get("ClusterApprovalRequest", REQUEST)
    assert request is not None
    names = {name: request[name] for name in ("apiVersion", "kind")}
    at = "2026-11-21T02:08:43Z"
    approved = {
        "type": "Approved",
        "status": "True",
        "reason": "Reviewed",
        "message": "",
        "lastTransitionTime": at,
    }
    hub.put(
        {**names, "metadata": {"name": REQUEST}, "status": {"conditions": [approved]}}, "somebody"
    )
    hub.log.clear()
    code, said = run_command("apply", "-resume")
    assert code == 0, said
    assert set(list_snapshots(hub).values()) == {"web-0-snapshot"}
    # The run was sent earlier.
    assert list_writes(hub) == []
    code, said = run_command("plan", "-detailed-exitcode")
    assert code == 0, said


def test_configured_approval_is_granted_on_request(hub: Front, run_command: CommandRunner) -> None:
    write_run(f'approvals = ["{REQUEST}"]')
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert f"{REQUEST} is approved" in said
    assert set(list_snapshots(hub).values()) == {"web-0-snapshot"}
    hub.remove(hub.all("ClusterStagedUpdateRun")[0])
    hub.log.clear()
    # An object deleted from the hub remains as a record.
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert [path for _, path in list_writes(hub) if "updateruns" in path] == []
    assert run_command("destroy", "-auto-approve")[0] == 0


APPROVAL = f"""
resource "fleet_cluster_approval_request" "canary" {{
  provider             = fleet
  name                 = "{REQUEST}"
  parent_stage_rollout = fleet_cluster_staged_update_run.first.name
  target_stage         = "canary"
}}
"""


@pytest.mark.parametrize("saved", [False, True])
def test_approval_with_reference_to_its_run_is_granted_meanwhile(
    hub: Front, run_command: CommandRunner, *, saved: bool
) -> None:
    write_run(timeout="20s")
    append_configuration(APPROVAL)
    if saved:
        assert run_command("plan", "-out=x.nfplan")[0] == 0
    code, said = (
        run_command("apply", "x.nfplan") if saved else run_command("apply", "-auto-approve")
    )
    assert code == 0, said
    assert f"{REQUEST} is approved" in said
    assert set(list_snapshots(hub).values()) == {"web-0-snapshot"}
    assert run_command("plan", "-detailed-exitcode")[0] == 0
    assert run_command("destroy", "-auto-approve")[0] == 0


@pytest.mark.usefixtures("hub")
def test_unrequested_approval_ends_with_its_run(run_command: CommandRunner) -> None:
    write_run()
    append_configuration(
        APPROVAL.replace(REQUEST, "first-after-rest").replace('"canary"\n}', '"rest"\n}')
    )
    # It ends long before its timeout.
    code, said = run_command("apply", "-auto-approve")
    assert (code, "Apply waiting" in said) == (1, True), said
    assert f"waits for a person: {REQUEST} has to be approved" in said
    assert "first does not continue in this apply, and has not requested first-after-rest" in said


@pytest.mark.our_hub_alone
@pytest.mark.usefixtures("hub")
def test_apply_awaiting_approval_is_not_interrupted(run_command: CommandRunner) -> None:
    write_run()
    assert "Apply waiting" in run_command("apply", "-auto-approve")[1]
    for command in (["plan"], ["apply", "-resume"], ["state", "rm", "fleet_hub_manifest.web"]):
        said = run_command(*command)[1]
        assert "nterrupted" not in said, said


def test_blocked_run_names_the_cluster(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    controller.stuck.add("lon1")
    write_run(f'approvals = ["{REQUEST}"]', timeout="2s")
    code, said = run_command("apply", "-auto-approve")
    assert (code, "Apply waiting" in said) == (1, True), said
    assert "stage rest: 2 of 3 clusters done (lon1 to come)" in said
    controller.stuck.clear()
    code, said = run_command("apply", "-resume")
    assert code == 0, said
    assert set(list_snapshots(hub).values()) == {"web-0-snapshot"}


def test_changes_with_switch_to_external_are_validated(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    names = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
    }
    spec = {"policy": {"numberOfClusters": 1}}
    hub.put({**names, "metadata": {"name": "web"}, "spec": spec}, "kubectl")
    write_configuration(more=EXTERNAL)
    code, said = run_command("plan")
    assert code == 1
    assert (
        ".spec.policy.numberOfClusters belongs to kubectl (hub: 1, configuration: 2). An "
        "apply would be"
    ) in said
    code, said = run_command("apply", "-auto-approve", "-take-ownership")
    assert code == 0, said
    assert (
        ".spec.policy.numberOfClusters belongs to kubectl; -take-ownership takes that over" in said
    )
    assert run_command("plan", "-detailed-exitcode")[0] == 0


def test_eviction_is_sent_once(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    text = Path("main.nf.hcl").read_text()
    append_configuration(EVICTION)
    code, said = run_command("apply", "-auto-approve")
    # This controller does not evict, and picks replacements by its own rules.
    assert code in (0, 2), said
    evictions = [
        path
        for _, path in list_writes(hub)
        if path.endswith("/clusterresourceplacementevictions/lon1")
    ]
    assert len(evictions) == 1
    assert run_command("plan", "-detailed-exitcode")[0] == 0
    hub.remove(hub.all("ClusterResourcePlacementEviction")[0])
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "No changes." in said) == (0, True), said
    Path("main.nf.hcl").write_text(text)
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert len(hub.all("ClusterResourceBinding")) == 2


def test_evicted_cluster_leaves_predicted_status_before_any_run(
    hub: Front, run_command: CommandRunner
) -> None:
    write_run(f'approvals = ["{REQUEST}"]')
    assert run_command("apply", "-auto-approve")[0] == 0
    member = next(each for each in hub.all("MemberCluster") if each["metadata"]["name"] == "lon1")
    names = {name: member[name] for name in ("apiVersion", "kind")}
    taint = {"key": "maintenance", "value": "yes", "effect": "NoSchedule"}
    hub.put({**names, "metadata": {"name": "lon1"}, "spec": {"taints": [taint]}}, "kubectl")
    append_configuration(EVICTION)
    assert run_command("plan", "-out=p")[0] == 0
    changes = json.loads(run_command("show", "-json", "p")[1])["resource_changes"]
    after = next(
        change["change"]["after"]
        for change in changes
        if change["type"] == "fleet_cluster_resource_placement"
    )
    assert sorted(status["cluster_name"] for status in after["placement_statuses"]) == [
        "",
        "ams1",
        "fra1",
        "par1",
    ]
