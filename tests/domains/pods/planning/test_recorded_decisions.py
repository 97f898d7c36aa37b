"""Replays of recorded decisions of a running kube-scheduler, each planned on the same cluster.

NEXUSFORM_POD_CASES names the folder of scheduler.json. Without it these tests skip.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from nexusform.domains.fleet.planning.fleet_phases import find_planned_fleet
from nexusform.domains.pods.planning.pod_phase import PlannedPod
from nexusform.domains.pods.scheduling import pod_explanation
from nexusform.planning.conclusion.plan_result import PlanResult
from tests.domains.pods.importers.cluster_objects import PLATFORM_LABELS, build_namespace
from tests.domains.pods.planning.test_cluster_observation import DATA, plan_observed
from tests.domains.pods.planning.test_pods import build_manifest
from tests.planning.harness import require_success

FOLDER = os.environ.get("NEXUSFORM_POD_CASES", "")
MEMBER = (
    'resource "fleet_member_cluster" "m1" {\n  resources {\n    total = { cpu = "16" }\n  }\n}\n'
)
NODES = DATA.format(of='"m1"')
CLASSES = {"lo": (-10, ""), "mid": (100, ""), "hi": (1000, ""), "never": (1000, "Never")}


def load_recorded_cases() -> list[Any]:
    if not FOLDER:
        why = pytest.mark.skip(
            reason="NEXUSFORM_POD_CASES names no folder with a scheduler's decisions"
        )
        return [pytest.param({}, marks=why, id="none")]
    cases = json.loads((Path(FOLDER) / "scheduler.json").read_bytes())["cases"]
    return [pytest.param(case, id=f"{case['id']}-{case['about']}") for case in cases]


def build_priority_classes() -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            **({"preemptionPolicy": policy} if policy else {}),
        }
        for name, (value, policy) in CLASSES.items()
    ]


def plan_case(case: dict[str, Any]) -> PlanResult:
    """Plan the pod on the recorded cluster."""
    spaces = [
        build_namespace(name, labels)
        for name, labels in (("ns1", {"team": "x"}), ("ns2", {"team": "y"}))
    ]
    stands = [{"kind": "Node", "apiVersion": "v1", **node} for node in case["nodes"]]
    for node in stands:
        # The recorded nodes had no kubelet.
        host = {"kubernetes.io/hostname": node["metadata"]["name"]}
        labels = {**host, **PLATFORM_LABELS, **node["metadata"].get("labels", {})}
        node["metadata"] = {**node["metadata"], "labels": labels}
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
        node["status"] = {
            **node["status"],
            "nodeInfo": {"kubeletVersion": "v1.34.4"},
            "conditions": [ready],
        }
    stands += [{"kind": "Pod", "apiVersion": "v1", **pod} for pod in case["standing"]]
    stands += [
        *spaces,
        *build_priority_classes(),
        *case.get("extra", []),
        *_build_disruption_budgets(case),
    ]
    services = [
        {"apiVersion": "v1", "kind": "Service", **each} for each in case.get("services", [])
    ]
    brought = [
        *services,
        *(each for each in case.get("extra", []) if each["kind"] == "RuntimeClass"),
    ]
    text = build_manifest("m", *(json.dumps(each) for each in (*brought, case["pod"])), of='"m1"')
    return require_success(plan_observed(MEMBER + NODES + text, *stands))


def _build_disruption_budgets(case: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", **budget}
        for budget in case.get("pdbs", [])
    ]


def find_planned_pod(result: PlanResult) -> PlannedPod:
    """Return the planned pod of the only new pod."""
    fleet = find_planned_fleet(result)
    assert fleet is not None
    rows = [row for row in result.plan.placements if row.kind == "pod" and row.action == "place"]
    (row,) = [row for row in rows if row.trigger in ("new", "scale_out")]
    (found,) = fleet.pods.find_planned_pods("fleet_hub_manifest.m", row.object)
    return found


def parse_rejection_counts(message: str) -> dict[str, int]:
    """Return reason -> number of nodes, parsed from a message of nexusform or kube-scheduler."""
    told = message.partition("available: ")[2].partition(". no new claims")[0]
    told = re.sub(r"\.( .*)?$", "", told.replace("example.com", "example_com"))
    parts = [part.partition(" ") for part in told.replace("example_com", "example.com").split(", ")]
    return {reason: int(count) for count, _, reason in parts}


@pytest.mark.parametrize("case", load_recorded_cases())
def test_plan_matches_decision_of_scheduler(case: dict[str, Any]) -> None:
    result = plan_case(case)
    pod = find_planned_pod(result)
    outcome = pod.outcome
    if case["result"] == "bound":
        assert outcome.node in case["choices"]
        # All inputs are known, so a pod is certain unless the scheduler sampled or a
        # terminating pod matters.
        is_settled = outcome.doubt != "terminating pods"
        assert outcome.is_certain == (len(case["choices"]) == 1 and is_settled)
        totals = {
            verdict.node: verdict.total for verdict in explain_pod(pod) if verdict.total is not None
        }
        assert len(totals) == (case["feasible_nodes"] or len(totals))
        if "totals" in case:
            assert totals == case["totals"]
    elif case["result"] == "nominated":
        victims = {"/".join(each) for each in list_evicted_pods(result)}
        assert (outcome.node, victims) == (case["nominated"], set(case["victims"]))
        assert count_rejections(pod) == parse_rejection_counts(case["message"])
    else:
        assert outcome.node == ""
        assert parse_rejection_counts(outcome.reason) == parse_rejection_counts(case["message"])


def explain_pod(pod: PlannedPod) -> tuple[pod_explanation.NodeVerdict, ...]:
    scene = pod.inputs
    outcome = pod.outcome
    return pod_explanation.explain(
        scene.cluster,
        scene.existing_pods,
        scene.workloads,
        (outcome.workload, outcome.number),
        seed=scene.seed,
    )


def count_rejections(pod: PlannedPod) -> dict[str, int]:
    """Return reason -> number of nodes, of the first rejection of each node before preemption."""
    tally: dict[str, int] = {}
    for verdict in explain_pod(pod):
        for reason in verdict.rejections[0].reason.split(", "):
            tally[reason] = tally.get(reason, 0) + 1
    return tally


def list_evicted_pods(result: PlanResult) -> set[tuple[str, str]]:
    """Return namespace and name of each evicted pod in the plan."""
    pod = find_planned_pod(result)
    return {(victim.spec.namespace, victim.name) for victim in pod.outcome.victims}
