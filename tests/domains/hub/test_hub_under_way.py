"""While the hub is not done with what was asked of it, no plan says that nothing is to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.domains.hub.conftest import Told
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_front import Front, path_of_kind
from tests.domains.hub.test_fleet_provider import write

WAITS = "ClusterResourcePlacement web waits: lon1: Applied False, NotAllWorkHaveBeenApplied"


def hang(controller: Controller, told: Told) -> None:
    """An apply of new content that a cluster does not get done with."""
    write(timeout="1s")
    assert told("apply", "-auto-approve")[0] == 0
    write(timeout="1s", content="2")
    assert told("plan", "-out=x.nfplan")[0] == 0
    controller.stuck.add("lon1")
    code, said = told("apply", "x.nfplan")
    assert (code, "Apply waiting" in said) == (1, True), said


@pytest.mark.parametrize("how", [(), ("-refresh=false",), ("-out=y.nfplan",)])
def test_a_plan_while_a_step_hangs_has_it_to_do(
    hub: Front, controller: Controller, told: Told, how: tuple[str, ...]
) -> None:
    hang(controller, told)
    code, said = told("plan", "-detailed-exitcode", *how)
    assert code == 2
    assert "No changes" not in said
    assert "~ fleet_cluster_resource_placement.web continues an earlier apply" in said
    assert f"change-in-progress {WAITS}" in said
    assert "Plan: 0 to add, 1 to change, 0 to destroy." in said
    assert hub.all("ClusterResourcePlacement")


def test_every_report_of_a_plan_while_a_step_hangs_says_so(hub: Front, controller: Controller, told: Told) -> None:
    hang(controller, told)
    told("plan", "-out=y.nfplan", "-report=markdown:plan.md", "-report=html:plan.html")
    for name in ("plan.md", "plan.html"):
        said = Path(name).read_text()
        assert "No changes." not in said
        assert "lon1: Applied False" in said
    document = json.loads(told("show", "-json", "y.nfplan")[1])
    assert document["applyable"] is True
    assert hub.all("ClusterResourcePlacement")


def test_an_apply_goes_on_with_what_hangs_and_then_nothing_is_to_do(
    hub: Front, controller: Controller, told: Told
) -> None:
    hang(controller, told)
    code, said = told("apply", "-auto-approve")
    assert (code, "Apply waiting" in said) == (1, True), said
    told("apply", "-refresh-only", "-auto-approve")  # records what was found: it is due all the same
    assert told("plan", "-detailed-exitcode")[0] == 2
    controller.stuck.clear()
    code, said = told("apply", "-auto-approve")
    assert code == 0, said
    code, said = told("plan", "-detailed-exitcode")
    assert (code, "change-in-progress" in said) == (0, False), said
    assert hub.all("ClusterResourcePlacement")[0]["metadata"]["generation"] == 1


def test_what_hung_and_got_done_by_itself_is_not_due(hub: Front, controller: Controller, told: Told) -> None:
    hang(controller, told)
    controller.stuck.clear()
    hub.act()
    code, said = told("plan", "-detailed-exitcode")
    assert (code, "No changes." in said, "change-in-progress" in said) == (0, True, False), said


def test_a_deletion_that_hangs_is_no_object_that_stands(hub: Front, controller: Controller, told: Told) -> None:
    write(timeout="1s")
    told("apply", "-auto-approve")
    controller.holding.add("lon1")
    assert told("destroy", "-auto-approve")[0] == 1
    code, said = told("plan", "-detailed-exitcode", "-refresh=false")
    assert (code, "No changes" in said) == (2, False), said
    assert "held by 1 finalizer" in said
    code, said = told("plan", "-detailed-exitcode", "-destroy", "-target=fleet_cluster_resource_placement.web")
    assert (code, "has been deleted" in said) == (2, False), said
    assert "An earlier apply began to delete it, and the hub is not done" in told("plan", "-details")[1]
    assert hub.all("ClusterResourceBinding")
    code, said = told("destroy", "-auto-approve")
    assert (code, "Apply waiting" in said, "held by 1 finalizer" in said) == (1, True, True), said
    controller.holding.clear()
    code, said = told("destroy", "-auto-approve")
    assert code == 0, said
    assert hub.all("ClusterResourceBinding") == []
    assert told("state", "list") == (0, "")


def test_what_a_placement_that_goes_went_by_is_not_missed(hub: Front, controller: Controller, told: Told) -> None:
    write(timeout="1s")
    told("apply", "-auto-approve")
    controller.holding.add("lon1")
    assert told("destroy", "-auto-approve", "-target=fleet_cluster_resource_placement.web")[0] == 1
    for kind in ("ClusterSchedulingPolicySnapshot", "ClusterResourceSnapshot"):
        for snapshot in hub.all(kind):
            hub.remove(snapshot)  # as the hub does, while members still give back
    assert hub.all("ClusterResourceBinding")
    assert "not-captured" not in told("plan", "-exclude=fleet_cluster_resource_placement.web")[1]


def test_a_cluster_that_fails_later_is_told_by_every_plan(hub: Front, controller: Controller, told: Told) -> None:
    write()
    told("apply", "-auto-approve")
    controller.stuck.add("lon1")
    hub.act()
    said = told("plan")[1]
    assert "No changes." in said
    assert (
        "incomplete-placement fleet_cluster_resource_placement.web: lon1: Applied False, "
        "NotAllWorkHaveBeenApplied" in said
    )


def test_a_replacement_deletes_what_stands_and_makes_another(hub: Front, controller: Controller, told: Told) -> None:
    write(timeout="1s")
    told("apply", "-auto-approve")
    (first,) = hub.all("ClusterResourcePlacement")
    which = "-replace=fleet_cluster_resource_placement.web"
    code, said = told("plan", which, "-out=x.nfplan")
    assert code == 0, said
    assert "ClusterResourcePlacement web (the existing object is deleted first)" in said
    controller.holding.add("lon1")
    code, said = told("apply", "x.nfplan")
    assert (code, "held by 1 finalizer" in said) == (1, True), said
    assert told("plan", "-detailed-exitcode")[0] == 2
    controller.holding.clear()
    code, said = told("apply", "-resume")
    assert code == 0, said
    (second,) = hub.all("ClusterResourcePlacement")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    code, said = told("plan", "-detailed-exitcode")
    assert (code, "No changes." in said) == (0, True), said


def test_what_somebody_deletes_is_told_and_not_written_to(hub: Front, controller: Controller, told: Told) -> None:
    write()
    told("apply", "-auto-approve")
    placement = hub.get("ClusterResourcePlacement", "web")
    assert placement is not None
    controller.asleep = True
    held = {"metadata": {"name": "web", "finalizers": ["somebody/waits"]}}
    hub.put({"apiVersion": placement["apiVersion"], "kind": placement["kind"], **held}, "somebody")
    path = f"{path_of_kind('ClusterResourcePlacement')}/web"
    assert hub.answer("DELETE", path, "admin-token", b"{}")[0] == 200
    words = "fleet_cluster_resource_placement.web: ClusterResourcePlacement web is being deleted, held by "
    said = told("plan")[1]
    assert words in said
    write(number=3)
    code, said = told("apply", "-auto-approve")
    assert (code, "is being deleted on the hub, held by somebody/waits" in said) == (1, True), said
    hub.remove(hub.get("ClusterResourcePlacement", "web") or {})
