"""Single decisions of a running kube-scheduler, each asked once more of a plan over the same cluster.

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
from tests.domains.pods.planning.test_cluster_observation import DATA, plan_observed
from tests.domains.pods.planning.test_pods import manifest
from tests.planning.harness import require_success

FOLDER = os.environ.get("NEXUSFORM_POD_CASES", "")
MEMBER = 'resource "fleet_member_cluster" "m1" {\n  resources {\n    total = { cpu = "16" }\n  }\n}\n'
NODES = DATA.format(of='"m1"')
CLASSES = {"lo": (-10, ""), "mid": (100, ""), "hi": (1000, ""), "never": (1000, "Never")}


def recorded() -> list[Any]:
    if not FOLDER:
        why = pytest.mark.skip(reason="NEXUSFORM_POD_CASES names no folder with a scheduler's decisions")
        return [pytest.param({}, marks=why, id="none")]
    cases = json.loads((Path(FOLDER) / "scheduler.json").read_bytes())["cases"]
    return [pytest.param(case, id=f"{case['id']}-{case['about']}") for case in cases]


def priority_classes() -> list[dict[str, Any]]:
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


def planned(case: dict[str, Any]) -> PlanResult:
    """A plan that brings the pod to the cluster as it stood."""
    spaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        for name, labels in (("ns1", {"team": "x"}), ("ns2", {"team": "y"}))
    ]
    stands = [{"kind": "Node", "apiVersion": "v1", **node} for node in case["nodes"]]
    for node in stands:
        node["status"] = {**node["status"], "nodeInfo": {"kubeletVersion": "v1.34.4"}}
    stands += [{"kind": "Pod", "apiVersion": "v1", **pod} for pod in case["standing"]]
    stands += [*spaces, *priority_classes(), *case.get("extra", []), *_known_here(case)]
    services = [{"apiVersion": "v1", "kind": "Service", **each} for each in case.get("services", [])]
    brought = [*services, *(each for each in case.get("extra", []) if each["kind"] == "RuntimeClass")]
    text = manifest("m", *(json.dumps(each) for each in (*brought, case["pod"])), of='"m1"')
    return require_success(plan_observed(MEMBER + NODES + text, *stands))


def _known_here(case: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", **budget} for budget in case.get("pdbs", [])]


def decision(result: PlanResult) -> PlannedPod:
    """What the plan says of the one pod that comes."""
    fleet = find_planned_fleet(result)
    assert fleet is not None
    rows = [row for row in result.plan.placements if row.kind == "pod" and row.action == "place"]
    (row,) = [row for row in rows if row.trigger in ("new", "scale_out")]
    (found,) = fleet.pods.find_planned_pods("fleet_hub_manifest.m", row.object)
    return found


def counts(message: str) -> dict[str, int]:
    """Reason -> on how many nodes, of a message as either side prints it."""
    told = message.partition("available: ")[2].partition(". no new claims")[0]
    told = re.sub(r"\.( .*)?$", "", told.replace("example.com", "example_com"))
    parts = [part.partition(" ") for part in told.replace("example_com", "example.com").split(", ")]
    return {reason: int(count) for count, _, reason in parts}


@pytest.mark.parametrize("case", recorded())
def test_a_plan_decides_as_the_scheduler_did(case: dict[str, Any]) -> None:
    result = planned(case)
    pod = decision(result)
    outcome = pod.outcome
    if case["result"] == "bound":
        assert outcome.node in case["choices"]
        # As all is known, a pod is certain where the scheduler drew no lot, unless a terminating pod matters.
        is_settled = outcome.doubt != "terminating pods"
        assert outcome.is_certain == (len(case["choices"]) == 1 and is_settled)
        totals = {verdict.node: verdict.total for verdict in points_of(pod) if verdict.total is not None}
        assert len(totals) == (case["feasible_nodes"] or len(totals))
        if "totals" in case:
            assert totals == case["totals"]
    elif case["result"] == "nominated":
        victims = {"/".join(each) for each in evicted(result)}
        assert (outcome.node, victims) == (case["nominated"], set(case["victims"]))
        assert refusals(pod) == counts(case["message"])
    else:
        assert outcome.node == ""
        assert counts(outcome.reason) == counts(case["message"])


def points_of(pod: PlannedPod) -> tuple[pod_explanation.NodeVerdict, ...]:
    scene, outcome = pod.inputs, pod.outcome
    return pod_explanation.explain(
        scene.cluster, scene.existing_pods, scene.workloads, (outcome.workload, outcome.number), seed=scene.seed
    )


def refusals(pod: PlannedPod) -> dict[str, int]:
    """The first reasons against each node before anybody left."""
    tally: dict[str, int] = {}
    for verdict in points_of(pod):
        for reason in verdict.rejections[0].reason.split(", "):
            tally[reason] = tally.get(reason, 0) + 1
    return tally


def evicted(result: PlanResult) -> set[tuple[str, str]]:
    """Namespace and name of every pod that has to leave, as the plan names them."""
    pod = decision(result)
    return {(victim.spec.namespace, victim.name) for victim in pod.outcome.victims}
