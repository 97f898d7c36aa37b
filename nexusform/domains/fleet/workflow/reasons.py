"""Why placements and pods are where they are: what `explain` tells of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.domains.fleet.planning.overrides import Rendered, opened
from nexusform.domains.fleet.planning.placement import PlacementPlan
from nexusform.domains.fleet.planning.rows import why_kept
from nexusform.domains.fleet.scheduling import explanation as fleet_explanation
from nexusform.domains.fleet.scheduling.bindings import Binding, BindingState
from nexusform.domains.fleet.scheduling.explanation import PlacementExplanation, PolicyDrift
from nexusform.domains.fleet.scheduling.roster import Roster
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest
from nexusform.domains.pods.planning.phase import PodDecision, PodPhase
from nexusform.domains.pods.scheduling import explanation as pod_explanation
from nexusform.domains.pods.scheduling.explanation import NodeVerdict
from nexusform.domains.pods.scheduling.forecast import PodOutcome
from nexusform.planning.vms.vm_object import placed_by
from nexusform.plans.plan import PlacementChange

# --- placements ----------------------------------------------------------------------------------


class PlacementReason(Struct, frozen=True):
    """One placement, and one of its clusters or ("") all of them.

    `explanation` is the decision of this plan where it picks any cluster, else what the rules say today of
    what is held and of the others. `rows` say what the plan does, `known` what state noted of each binding
    (trigger, serial), both by cluster. `objects` are those of the cluster's snapshot and `rendered` what it
    has of them (both empty where values among them are sensitive); `failures` say why overriding fails, by
    cluster. `given_up` are the clusters whose binding is Unscheduled and still there; `fulfilled`: it has all
    the clusters that its policy asks for. `kept` is why it does not leave what it would not pick today.
    """

    address: Address
    cluster: str
    explanation: PlacementExplanation
    drift: PolicyDrift
    rows: Mapping[str, PlacementChange] = field(default_factory=dict)
    known: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    objects: tuple[Manifest, ...] = ()
    rendered: tuple[Manifest, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
    given_up: tuple[str, ...] = ()
    fulfilled: bool = True
    kept: str = ""


def placement_reason(
    placement: PlacementPlan, roster: Roster, rows: Sequence[PlacementChange], cluster: str, *, secret: bool
) -> PlacementReason:
    """The reason of a placement at one cluster, or ("") at all. `rows` are those of its bindings; objects
    that are `secret` are left out.
    """
    policy, namespace = placement.asked.policy_in(roster), placement.asked.written.namespace
    scheduled = [binding for binding in placement.held if binding.state is not BindingState.UNSCHEDULED]
    held = {binding.cluster: binding for binding in scheduled}
    private = placement.asked.instance.prior.private if placement.asked.instance.prior is not None else None
    notes = {name: placed_by(private, name) for name in held}
    reason = PlacementReason(
        placement.asked.instance.address,
        cluster,
        _as_decided(placement, held, roster),
        fleet_explanation.drift(placement.held, roster, policy, placement.asked.snapshot, namespace),
        {row.object: row for row in rows},
        {name: note for name, note in notes.items() if note is not None},
        given_up=tuple(binding.cluster for binding in placement.held if binding.cluster not in held),
        fulfilled=placement.scheduled.fulfilled,
        kept=why_kept(placement),
    )
    if secret:
        return reason
    clusters = [cluster] if cluster else list(held)
    contents = {name: _on_cluster(placement, held.get(name), name) for name in clusters}
    failures = {
        name: rendered.failure
        for name, (_, rendered) in contents.items()
        if rendered is not None and rendered.failure
    }
    objects, rendered = contents[cluster] if cluster else ((), None)
    return replace(
        reason,
        objects=tuple(opened(objects)) if rendered is not None else (),
        rendered=tuple(opened(rendered.manifests)) if rendered is not None else (),
        failures=failures,
    )


def _as_decided(
    placement: PlacementPlan, held: Mapping[str, Binding], roster: Roster
) -> PlacementExplanation:
    """The decision as it was taken, with the bindings that are held now."""
    held_then, roster_then = placement.scheduled.decided or (placement.held, roster)
    policy = placement.asked.policy_in(roster_then)
    snapshot, namespace = placement.asked.snapshot, placement.asked.written.namespace
    explanation = fleet_explanation.explain(held_then, roster_then, policy, snapshot, namespace)
    verdicts = [replace(verdict, binding=held.get(verdict.cluster)) for verdict in explanation.clusters]
    return replace(explanation, clusters=tuple(verdicts))


def _on_cluster(
    placement: PlacementPlan, binding: Binding | None, cluster: str
) -> tuple[tuple[Manifest, ...], Rendered | None]:
    """The objects of the snapshot that a cluster's binding points to, and what the cluster has of them. Of a
    cluster without a binding, and under one that brought nothing yet: what it would get.
    """
    content = placement.content(binding, placement.rolled_out.clusters) if binding is not None else None
    if binding is None or content is None:
        would_get = placement.stock.snapshots[-1].index if placement.stock.snapshots else None
        return placement.offer.selected, placement.stock.rendered(would_get, cluster)
    snapshot = placement.stock.snapshot(binding.resource_snapshot)
    return (snapshot.objects if snapshot is not None else content.manifests), content


# --- pods ----------------------------------------------------------------------------------------


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
        reasons += [_pod_reason(address, decision) for decision in pods.decisions(address, name)]
    return tuple(reasons)


def _pod_reason(address: str, decision: PodDecision) -> PodReason:
    """Why a pod is where it is. For one that stays there is no decision to explain: its nodes are asked
    what they would say today.
    """
    outcome, scene = decision.outcome, decision.scene
    verdicts = pod_explanation.explain(
        scene.model,
        scene.standing,
        scene.workloads,
        (outcome.workload, outcome.number),
        seed=scene.seed,
        lost=scene.lost,
    )
    today = not verdicts
    if today and outcome.spec is not None:
        verdicts = pod_explanation.consider(
            scene.model, decision.others, outcome.spec, outcome.number, outcome.volumes
        )
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
