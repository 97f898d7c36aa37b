"""Tests of disruption budgets of others on a hub: predictions of evictions respect them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_front import Front
from tests.domains.hub.test_fleet_provider import write_configuration

EVICTION = """
resource "fleet_placement_eviction" "lon1" {
  provider       = fleet
  name           = "lon1"
  placement_name = "web"
  cluster_name   = "lon1"
}
"""
OURS = """
resource "fleet_placement_disruption_budget" "web" {{
  provider      = fleet
  name          = "web"
  min_available = "{}"
}}
"""
PLACEMENT = "fleet_cluster_resource_placement.web"
BLOCKED = "eviction-not-executed fleet_placement_eviction.lon1: Eviction is blocked by specified"


def build_budget(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacementDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": spec,
    }


@pytest.fixture
def placed_hub(hub: Front, run_command: CommandRunner) -> Front:
    """Return a hub with a placement on two clusters."""
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    return hub


@pytest.mark.parametrize(("least", "blocked"), [(2, True), (1, False)])
def test_budget_of_another_manager_decides(
    placed_hub: Front, run_command: CommandRunner, least: int, *, blocked: bool
) -> None:
    placed_hub.put(build_budget(minAvailable=least), "kubectl")
    with Path("main.nf.hcl").open("a") as configuration:
        configuration.write(EVICTION)
    code, said = run_command("plan")
    assert code == 0, said
    assert (BLOCKED in said) is blocked


@pytest.mark.our_hub_alone("what is planned is the same")
@pytest.mark.usefixtures("placed_hub")
def test_budget_counts_as_planned_after_change_or_deletion(run_command: CommandRunner) -> None:
    text = Path("main.nf.hcl").read_text()
    Path("main.nf.hcl").write_text(text + OURS.format(2))
    assert run_command("apply", "-auto-approve")[0] == 0
    Path("main.nf.hcl").write_text(text + OURS.format(2) + EVICTION)
    assert BLOCKED in run_command("plan")[1]
    # -target keeps the current budget.
    aimed = [f"-target={each}" for each in ("fleet_placement_eviction.lon1", PLACEMENT)]
    assert BLOCKED in run_command("plan", *aimed)[1]
    for after in (OURS.format(1), ""):
        Path("main.nf.hcl").write_text(text + after + EVICTION)
        code, said = run_command("plan")
        assert (code, "eviction-not-executed" in said) == (0, False), said
