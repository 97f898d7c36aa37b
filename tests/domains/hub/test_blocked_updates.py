"""Tests of a blocked rolling update without unavailable budget.

Every plan reports the clusters with the old content.
"""

from __future__ import annotations

import json

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_front import Front
from tests.domains.hub.test_fleet_provider import write_configuration
from tests.domains.hub.test_hub_overrides import STRICT

STOPS = "incomplete-rollout web: the rollout stops before lon1, par1"


def apply_blocked_rollout(controller: Controller, run_command: CommandRunner) -> None:
    """Apply new content that reaches no cluster."""
    write_configuration(more=STRICT)
    assert run_command("apply", "-auto-approve")[0] == 0
    controller.holds_back = True
    write_configuration(more=STRICT, content="2")
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said


def test_plans_after_blocked_rollout_name_outdated_clusters(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    apply_blocked_rollout(controller, run_command)
    code, said = run_command("plan", "-detailed-exitcode", "-out=x.nfplan")
    assert (code, "No changes." in said) == (2, True), said
    assert said.count(STOPS) == 1
    warnings = json.loads(run_command("show", "-json", "x.nfplan")[1])["diagnostics"]
    assert [each["id"] for each in warnings] == ["incomplete-rollout"]
    assert (
        "The rollout of web stops before lon1, par1; they keep their current resources"
        in warnings[0]["detail"]
    )
    names = {each["spec"]["resourceSnapshotName"] for each in hub.all("ClusterResourceBinding")}
    assert names == {"web-0-snapshot"}


@pytest.mark.parametrize("how", [("-refresh-only",), ("-target=fleet_hub_manifest.web",)])
def test_plans_without_rollout_name_outdated_clusters(
    hub: Front, controller: Controller, run_command: CommandRunner, how: tuple[str, ...]
) -> None:
    apply_blocked_rollout(controller, run_command)
    said = run_command("plan", *how)[1]
    assert said.count(STOPS) == 1, said
    assert hub.all("ClusterResourceBinding")
    assert STOPS not in run_command("plan", "-destroy")[1]


def test_unblocked_rollout_is_not_reported(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    apply_blocked_rollout(controller, run_command)
    controller.holds_back = False
    hub.act()
    said = run_command("plan", "-refresh-only")[1]
    assert "incomplete-rollout" not in said


@pytest.mark.our_hub_alone
def test_apply_with_predicted_stop_names_clusters_at_its_end(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    write_configuration(more=STRICT)
    assert run_command("apply", "-auto-approve")[0] == 0
    controller.holds_back = True
    write_configuration(more=STRICT, content="2")
    said = run_command("apply", "-auto-approve")[1]
    end = said[said.rindex("Incomplete rollout") :]
    assert (
        "fleet_cluster_resource_placement.web: as predicted, lon1 still has web-0-snapshot, par1"
        in end
    ), said
    assert hub.all("ClusterResourceBinding")
