"""Tests of the order of runs and evictions.

A hub evaluates them once, so they are sent after all their dependencies.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_front import Front
from tests.domains.hub.slow_writes import SlowWrite
from tests.domains.hub.test_fleet_provider import list_writes, write_configuration
from tests.domains.hub.test_hub_runs import (
    EVICTION,
    EXTERNAL,
    RUN,
    append_configuration,
    list_snapshots,
)

CONTENT = "/api/v1/namespaces/web/configmaps/settings"
_FLEET = "/apis/placement.kubernetes-fleet.io/v1beta1"
SECOND = """
resource "fleet_cluster_staged_update_run" "second" {
  provider                     = fleet
  name                         = "second"
  placement_name               = "web"
  staged_rollout_strategy_name = fleet_cluster_staged_update_strategy.two.name
  state                        = "Run"
  approvals                    = ["second-after-canary"]
}
"""
OVERRIDE = """
resource "fleet_cluster_resource_override" "web" {
  provider  = fleet
  name      = "web"
  placement {
    name = "web"
  }
  cluster_resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }
  policy {
    override_rule {
      cluster_selector {}
      json_patch_override {
        op    = "add"
        path  = "/metadata/labels/changed"
        value = jsonencode("yes")
      }
    }
  }
}
"""
# An override of the ConfigMap `settings` in the namespace `web`; NAME is replaced.
NAMESPACED_OVERRIDE = """
resource "fleet_resource_override" "NAME" {
  provider  = fleet
  name      = "NAME"
  namespace = "web"
  resource_selector {
    version = "v1"
    kind    = "ConfigMap"
    name    = "settings"
  }
  policy {
    override_rule {
      cluster_selector {}
      json_patch_override {
        op    = "add"
        path  = "/data/changed"
        value = jsonencode("yes")
      }
    }
  }
}
"""
BUDGET = """
resource "fleet_placement_disruption_budget" "web" {
  provider      = fleet
  name          = "web"
  min_available = "2"
}
"""


@pytest.mark.our_hub_alone
@pytest.mark.parametrize("saved", [False, True])
def test_run_applies_content_of_its_own_plan(
    hub: Front, run_command: CommandRunner, *, saved: bool
) -> None:
    write_configuration(number=4, more=EXTERNAL)
    append_configuration(RUN.format(more='approvals = ["first-after-canary"]'))
    assert run_command("apply", "-auto-approve")[0] == 0
    write_configuration(number=4, content="2", more=EXTERNAL)
    append_configuration(RUN.format(more='approvals = ["first-after-canary"]') + SECOND)
    if saved:
        assert run_command("plan", "-out=x.nfplan")[0] == 0
    SlowWrite(hub, CONTENT, "/clusterstagedupdateruns/second")
    code, said = (
        run_command("apply", "x.nfplan") if saved else run_command("apply", "-auto-approve")
    )
    assert code == 0, said
    assert set(list_snapshots(hub).values()) == {"web-1-snapshot"}
    assert run_command("plan", "-detailed-exitcode")[0] == 0


@pytest.mark.our_hub_alone
@pytest.mark.parametrize(
    ("text", "path"),
    [
        (OVERRIDE, "/clusterresourceoverrides/web"),
        ("", "/clusterresourceplacements/web"),
        ("", "/clusterstagedupdatestrategies/two"),
    ],
)
def test_run_is_sent_after_all_its_inputs(
    hub: Front, run_command: CommandRunner, text: str, path: str
) -> None:
    write_configuration(number=4, more=EXTERNAL)
    append_configuration(RUN.format(more='approvals = ["first-after-canary"]') + text)
    SlowWrite(hub, path, "/clusterstagedupdateruns/first")
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    paths = [each for _, each in list_writes(hub)]
    assert paths.index(f"{_FLEET}{path}") < paths.index(f"{_FLEET}/clusterstagedupdateruns/first")


@pytest.mark.our_hub_alone
@pytest.mark.usefixtures("hub")
def test_run_with_older_content_fails(controller: Controller, run_command: CommandRunner) -> None:
    write_configuration(number=4, more=EXTERNAL)
    append_configuration(RUN.format(more='approvals = ["first-after-canary"]'))
    assert run_command("apply", "-auto-approve")[0] == 0
    content = controller._content
    controller._content = lambda *_: 0  # type: ignore[method-assign]
    write_configuration(number=4, content="2", more=EXTERNAL)
    append_configuration(RUN.format(more='approvals = ["first-after-canary"]') + SECOND)
    code, said = run_command("apply", "-auto-approve")
    controller._content = content  # type: ignore[method-assign]
    assert code == 1, said
    assert (
        "The run second succeeded with other resources than planned: it used resource "
        "snapshot 0; planned: 1 (the hub takes new content about 30 seconds after this run)."
    ) in said


@pytest.mark.our_hub_alone
def test_planned_budget_blocks_an_eviction(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    controller.evicts = True
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    append_configuration(BUDGET + EVICTION)
    SlowWrite(
        hub,
        "/clusterresourceplacementdisruptionbudgets/web",
        "/clusterresourceplacementevictions/lon1",
    )
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    eviction = hub.get("ClusterResourcePlacementEviction", "lon1")
    assert eviction is not None
    conditions = {each["type"]: each["status"] for each in eviction["status"]["conditions"]}
    assert conditions == {"Valid": "True", "Executed": "False"}
    assert '"forecasts":{"eviction":{"100":[1,0,' in "".join(
        run_command("state", "pull")[1].split()
    )


@pytest.mark.our_hub_alone
def test_eviction_with_another_result_is_a_wrong_prediction(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    budget = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacementDisruptionBudget",
    }
    append_configuration(EVICTION)
    assert run_command("plan", "-out=x.nfplan")[0] == 0
    hub.put({**budget, "metadata": {"name": "web"}, "spec": {"minAvailable": 2}})
    code, said = run_command("apply", "x.nfplan")
    assert code != 0, said
    assert (
        "lon1: predicted to be executed (Eviction is allowed, no "
        "ClusterResourcePlacementDisruptionBudget"
    ) in said


def test_run_may_depend_on_its_placement(hub: Front, run_command: CommandRunner) -> None:
    write_configuration(number=4, more=EXTERNAL)
    more = (
        'approvals = ["first-after-canary"]\n  depends_on = [fleet_cluster_resource_placement.web]'
    )
    append_configuration(RUN.format(more=more))
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert set(list_snapshots(hub).values()) == {"web-0-snapshot"}


@pytest.mark.usefixtures("hub")
def test_content_depending_on_its_run_is_an_error(run_command: CommandRunner) -> None:
    write_configuration(number=4, more=EXTERNAL)
    text = Path("main.nf.hcl").read_text()
    run = "depends_on = [fleet_cluster_staged_update_run.first]\n  yaml_body"
    Path("main.nf.hcl").write_text(text.replace("yaml_body", run, 1))
    append_configuration(RUN.format(more=""))
    code, said = run_command("plan")
    assert code == 1, said
    assert (
        "must be applied after fleet_hub_manifest.web, because the hub reads that once for it"
        in said
    )
    assert "Remove the reference or depends_on, or apply them in two plans." in said


@pytest.mark.our_hub_alone
@pytest.mark.usefixtures("hub")
def test_placement_on_all_members_has_no_open_decision(run_command: CommandRunner) -> None:
    write_configuration(number=4)
    assert run_command("apply", "-auto-approve")[0] == 0
    code, said = run_command("reconcile", "-from=hub")
    assert (code, "web: no open decisions yet" in said) == (0, True), said
    assert "open_clusters" not in run_command("state", "pull")[1]
