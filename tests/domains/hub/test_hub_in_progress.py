"""Tests of plans during unfinished changes on a hub: none of them reports "No changes"."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_front import Front, get_collection_path
from tests.domains.hub.test_fleet_provider import write_configuration

WAITS = "ClusterResourcePlacement web waits: lon1: Applied False, NotAllWorkHaveBeenApplied"


def apply_with_stuck_cluster(controller: Controller, run_command: CommandRunner) -> None:
    """Apply new content that one cluster does not complete."""
    write_configuration(timeout="1s")
    assert run_command("apply", "-auto-approve")[0] == 0
    write_configuration(timeout="1s", content="2")
    assert run_command("plan", "-out=x.nfplan")[0] == 0
    controller.stuck.add("lon1")
    code, said = run_command("apply", "x.nfplan")
    assert (code, "Apply waiting" in said) == (1, True), said


@pytest.mark.parametrize("how", [(), ("-refresh=false",), ("-out=y.nfplan",)])
def test_plan_during_stuck_step_includes_it(
    hub: Front, controller: Controller, run_command: CommandRunner, how: tuple[str, ...]
) -> None:
    apply_with_stuck_cluster(controller, run_command)
    code, said = run_command("plan", "-detailed-exitcode", *how)
    assert code == 2
    assert "No changes" not in said
    assert "~ fleet_cluster_resource_placement.web continues an earlier apply" in said
    assert f"change-in-progress {WAITS}" in said
    assert "Plan: 0 to add, 1 to change, 0 to destroy." in said
    assert hub.all("ClusterResourcePlacement")


def test_every_report_of_plan_includes_stuck_step(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    apply_with_stuck_cluster(controller, run_command)
    run_command("plan", "-out=y.nfplan", "-report=markdown:plan.md", "-report=html:plan.html")
    for name in ("plan.md", "plan.html"):
        said = Path(name).read_text()
        assert "No changes." not in said
        assert "lon1: Applied False" in said
    document = json.loads(run_command("show", "-json", "y.nfplan")[1])
    assert document["applyable"] is True
    assert hub.all("ClusterResourcePlacement")


def test_apply_continues_stuck_step_until_no_changes(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    apply_with_stuck_cluster(controller, run_command)
    code, said = run_command("apply", "-auto-approve")
    assert (code, "Apply waiting" in said) == (1, True), said
    # It records the observed state; the step is still pending.
    run_command("apply", "-refresh-only", "-auto-approve")
    assert run_command("plan", "-detailed-exitcode")[0] == 2
    controller.stuck.clear()
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "change-in-progress" in said) == (0, False), said
    assert hub.all("ClusterResourcePlacement")[0]["metadata"]["generation"] == 1


def test_step_completed_later_is_not_pending(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    apply_with_stuck_cluster(controller, run_command)
    controller.stuck.clear()
    hub.act()
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "No changes." in said, "change-in-progress" in said) == (0, True, False), said


def test_stuck_deletion_is_not_an_existing_object(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    write_configuration(timeout="1s")
    run_command("apply", "-auto-approve")
    controller.holding.add("lon1")
    assert run_command("destroy", "-auto-approve")[0] == 1
    code, said = run_command("plan", "-detailed-exitcode", "-refresh=false")
    assert (code, "No changes" in said) == (2, False), said
    assert "held by 1 finalizer" in said
    code, said = run_command(
        "plan", "-detailed-exitcode", "-destroy", "-target=fleet_cluster_resource_placement.web"
    )
    assert (code, "has been deleted" in said) == (2, False), said
    assert (
        "An earlier apply began to delete it, and the hub is not done"
        in run_command("plan", "-details")[1]
    )
    assert hub.all("ClusterResourceBinding")
    code, said = run_command("destroy", "-auto-approve")
    assert (code, "Apply waiting" in said, "held by 1 finalizer" in said) == (1, True, True), said
    controller.holding.clear()
    code, said = run_command("destroy", "-auto-approve")
    assert code == 0, said
    assert hub.all("ClusterResourceBinding") == []
    assert run_command("state", "list") == (0, "")


def test_missing_snapshots_of_placement_in_deletion_are_no_warning(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    write_configuration(timeout="1s")
    run_command("apply", "-auto-approve")
    controller.holding.add("lon1")
    assert (
        run_command("destroy", "-auto-approve", "-target=fleet_cluster_resource_placement.web")[0]
        == 1
    )
    for kind in ("ClusterSchedulingPolicySnapshot", "ClusterResourceSnapshot"):
        for snapshot in hub.all(kind):
            # The hub does this while members still remove resources.
            hub.remove(snapshot)
    assert hub.all("ClusterResourceBinding")
    assert (
        "not-captured"
        not in run_command("plan", "-exclude=fleet_cluster_resource_placement.web")[1]
    )


def test_later_failure_of_cluster_is_reported_by_every_plan(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    controller.stuck.add("lon1")
    hub.act()
    said = run_command("plan")[1]
    assert "No changes." in said
    assert (
        "incomplete-placement fleet_cluster_resource_placement.web: lon1: Applied False, "
        "NotAllWorkHaveBeenApplied" in said
    )


def test_replacement_deletes_and_creates_placement(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    write_configuration(timeout="1s")
    run_command("apply", "-auto-approve")
    (first,) = hub.all("ClusterResourcePlacement")
    which = "-replace=fleet_cluster_resource_placement.web"
    code, said = run_command("plan", which, "-out=x.nfplan")
    assert code == 0, said
    assert "ClusterResourcePlacement web (the existing object is deleted first)" in said
    controller.holding.add("lon1")
    code, said = run_command("apply", "x.nfplan")
    assert (code, "held by 1 finalizer" in said) == (1, True), said
    assert run_command("plan", "-detailed-exitcode")[0] == 2
    controller.holding.clear()
    code, said = run_command("apply", "-resume")
    assert code == 0, said
    (second,) = hub.all("ClusterResourcePlacement")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "No changes." in said) == (0, True), said


def test_object_deleted_by_others_is_reported_and_not_written(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    placement = hub.get("ClusterResourcePlacement", "web")
    assert placement is not None
    controller.asleep = True
    held = {"metadata": {"name": "web", "finalizers": ["somebody/waits"]}}
    hub.put({"apiVersion": placement["apiVersion"], "kind": placement["kind"], **held}, "somebody")
    path = f"{get_collection_path('ClusterResourcePlacement')}/web"
    assert hub.answer("DELETE", path, "admin-token", b"{}")[0] == 200
    words = (
        "fleet_cluster_resource_placement.web: ClusterResourcePlacement web is being deleted, held "
        "by "
    )
    said = run_command("plan")[1]
    assert words in said
    write_configuration(number=3)
    code, said = run_command("apply", "-auto-approve")
    assert (code, "is being deleted on the hub, held by somebody/waits" in said) == (1, True), said
    hub.remove(hub.get("ClusterResourcePlacement", "web") or {})
