"""Tests of the reasons for pod placements, in plans and in the current state."""

from __future__ import annotations

from nexusform.domains.fleet.planning.fleet_phases import find_planned_fleet
from nexusform.domains.fleet.rendering.placement_report import build_pod_report
from nexusform.domains.fleet.workflow.placement_reasons import PodPlacementReason, build_pod_reasons
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.rendering.json.report_document import build_report_document
from nexusform.rendering.text.report_text import render_report_text
from tests.answer_rows import read_rows
from tests.domains.pods.planning.test_pods import (
    HOSTNAME,
    build_deployment,
    build_manifest,
    build_workers,
)
from tests.planning.harness import RACKS, build_state_after, plan, require_success

ADDRESS = "fleet_hub_manifest.m"
TEXT = RACKS + build_workers(2) + build_manifest("m", build_deployment("web", 3, apart=HOSTNAME))


def find_reason(result: PlanResult, name: str) -> PodPlacementReason:
    fleet = find_planned_fleet(result)
    assert fleet is not None
    (only,) = build_pod_reasons(fleet.pods, [ADDRESS], name)
    return only


def test_placed_pod_has_scores_and_rejections_of_every_node() -> None:
    found = find_reason(require_success(plan(TEXT)), "web-0")
    assert not found.is_current
    assert {v.node for v in found.nodes} == {"a-control-plane-0", "a-np-0", "a-np-1"}
    chosen = next(v for v in found.nodes if v.node == found.outcome.node)
    assert chosen.total == found.nodes[0].total == sum(chosen.points.values())
    (refused,) = [v for v in found.nodes if v.rejections]
    assert refused.node == "a-control-plane-0"
    assert "taint" in refused.rejections[0].reason
    text = render_report_text(build_pod_report(found), colour=False, width=100)
    assert "web-0 (default/Deployment/web) on a" in text
    # One of two equal nodes is picked at random, but each gets a pod of this workload in every run.
    assert (
        "Certain: every run of the scheduler puts the same number of these pods on this node."
        in text
    )
    assert found.machine in text
    assert f"{found.outcome.node} (chosen)" in text


def test_pending_pod_names_rejecting_nodes() -> None:
    found = find_reason(require_success(plan(TEXT)), "web-2")
    assert found.outcome.is_pending
    assert all(v.rejections for v in found.nodes)
    outline = build_pod_report(found)
    assert outline.is_finding
    assert outline.verdict == "stays Pending"
    [rejected] = build_report_document(outline)["sections"]
    names = {name for row in read_rows(rejected) for name in row["node"].split(", ")}
    assert names == {verdict.node for verdict in found.nodes}


def test_running_pod_has_current_verdicts() -> None:
    state = build_state_after(require_success(plan(TEXT)))
    found = find_reason(require_success(plan(TEXT, state)), "web-0")
    assert found.is_current
    here = next(v for v in found.nodes if v.node == found.outcome.node)
    # Its own node is open to it; the other worker has the other replica.
    assert here.total is not None
    (other,) = [
        v for v in found.nodes if v.node.startswith("a-np") and v.node != found.outcome.node
    ]
    assert other.rejections
    assert "It runs and stays" in " ".join(build_pod_report(found).facts)


def test_pending_pod_is_not_reported_as_running() -> None:
    state = build_state_after(require_success(plan(TEXT)))
    found = find_reason(require_success(plan(TEXT, state)), "web-2")
    text = render_report_text(build_pod_report(found), colour=False, width=100)
    assert "stays Pending" in text
    assert "still" in text
    assert "while a pod runs" not in text


def test_failed_pod_is_not_reported_as_running() -> None:
    amounts = {"cpu": "4", "memory": "1Gi"}
    containers = [
        {"name": "c", "image": "c", "resources": {"requests": amounts, "limits": amounts}}
    ]
    declared = 'kubelet {\n topology_manager_policy = "single-numa-node"\n numa_nodes = 2\n}'
    text = (
        RACKS
        + build_workers(1, declared)
        + build_manifest("m", build_deployment("web", 1, spec={"containers": containers}))
    )
    state = build_state_after(require_success(plan(text)))
    report = build_pod_report(find_reason(require_success(plan(text, state)), "web-0"))
    assert report.verdict == "is Failed: kubelet rejects it"
    assert "It was Failed and still is." in report.facts
    assert "It runs" not in " ".join(report.facts)


def test_victim_and_preemptor_name_each_other() -> None:
    low = build_deployment("low", 1, cpu="3")
    high = build_deployment("high", 1, cpu="3", spec={"priorityClassName": "system-node-critical"})
    base = RACKS + build_workers(1) + build_manifest("m", low)
    state = build_state_after(require_success(plan(base)))
    result = require_success(plan(RACKS + build_workers(1) + build_manifest("m", low, high), state))
    taker = find_reason(result, "high-0")
    victim = find_reason(result, "low-0")
    assert "it evicts low-0 (priority 0)" in " ".join(build_pod_report(taker).facts)
    assert "high-0 has a higher priority and preempts it" in " ".join(
        build_pod_report(victim).facts
    )
    (row,) = [row for row in result.plan.placements if row.object == "high-0"]
    assert row.reason == "preempts low-0"
