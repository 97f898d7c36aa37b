"""Why a pod is where it is: its decision taken again, node by node."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from nexusform.planning.pods.phase import PodDecision, PodPhase
from nexusform.scheduling.pods.explanation import NodeVerdict, consider, explain
from nexusform.scheduling.pods.forecast import PodOutcome


class PodReason(Struct, frozen=True):
    """One pod on one cluster. `nodes` are the verdicts of all its nodes, best first; `today` says that they
    are of things as they are (the pod stays), not of the plan's decision. `machine` and `zone` are "" for
    a Pending pod.
    """

    address: str
    cluster: str
    outcome: PodOutcome
    machine: str
    zone: str
    nodes: tuple[NodeVerdict, ...]
    today: bool


def pod_reasons(pods: PodPhase, addresses: Sequence[str], name: str) -> tuple[PodReason, ...]:
    """The reasons of every pod of this name among what the addresses bring."""
    reasons: list[PodReason] = []
    for address in addresses:
        reasons += [_reason(address, decision) for decision in pods.decisions(address, name)]
    return tuple(reasons)


def _reason(address: str, decision: PodDecision) -> PodReason:
    outcome, scene = decision.outcome, decision.scene
    verdicts = explain(
        scene.model,
        scene.standing,
        scene.workloads,
        (outcome.workload, outcome.number),
        seed=scene.seed,
        recreated=scene.recreated,
    )
    today = not verdicts
    if today and outcome.spec is not None:
        own = outcome.spec, outcome.number, outcome.volumes
        verdicts = consider(scene.model, decision.others, *own)
    node = decision.cluster.node(outcome.node)
    return PodReason(
        address=address,
        cluster=decision.cluster.name,
        outcome=outcome,
        machine=node.machine if node is not None else "",
        zone=node.zone if node is not None else "",
        nodes=verdicts,
        today=today,
    )
