"""Reasons for the locations of placements and pods, for `explain`."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.fleet.planning.binding_rows import explain_kept_bindings
from nexusform.domains.fleet.planning.override_rendering import RenderedResources, expand_envelopes
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.scheduling import placement_explanation as fleet_explanation
from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    index_by_cluster,
    select_scheduled_bindings,
)
from nexusform.domains.fleet.scheduling.member_list import MemberList
from nexusform.domains.fleet.scheduling.placement_explanation import (
    PlacementExplanation,
    SchedulingDrift,
)
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.domains.pods.planning.pod_phase import PlannedPod, PodPhase
from nexusform.domains.pods.scheduling import pod_explanation
from nexusform.domains.pods.scheduling.pod_explanation import NodeVerdict
from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome
from nexusform.planning.vm_planning.vm_object import find_placement_origin
from nexusform.plans.plan import PlacementChange
from nexusform.resources.address import Address


class PlacementReason(Struct, frozen=True):
    """Reasons for one placement, at one of its clusters or ("") all.

    `explanation` is this plan's decision if it picks any cluster, else the current verdicts of the
    rules. `rows` are the plan's actions, `recorded` the trigger and serial of each binding in
    state, both by cluster. `objects` are those of the cluster's snapshot, `rendered` its version of
    them (both empty if sensitive); `failures` are override errors by cluster. `unscheduled` are
    clusters with a binding to be removed; `is_fulfilled`: all requested clusters are bound.
    `kept_reason` explains a kept binding that would not be picked now.
    """

    address: Address
    cluster: str
    explanation: PlacementExplanation
    drift: SchedulingDrift
    rows: Mapping[str, PlacementChange] = field(default_factory=dict)
    recorded: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    objects: tuple[Manifest, ...] = ()
    rendered: tuple[Manifest, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
    unscheduled: tuple[str, ...] = ()
    is_fulfilled: bool = True
    kept_reason: str = ""


def build_placement_reason(
    placement: PlacementPlan,
    member_list: MemberList,
    rows: Sequence[PlacementChange],
    cluster: str,
    *,
    is_sensitive: bool,
) -> PlacementReason:
    """Build the reason of a placement at one `cluster` ("" for all), from the plan's rows.

    With `is_sensitive`, the objects of the placement are left out.
    """
    bindings = index_by_cluster(select_scheduled_bindings(placement.bindings))
    note = placement.spec.instance.prior_note
    # (trigger, state serial), None if unknown.
    origins = {name: find_placement_origin(note, name) for name in bindings}
    arguments = placement.build_scheduling_arguments(member_list)
    reason = PlacementReason(
        placement.spec.instance.address,
        cluster,
        explanation=_explain_at_decision_time(placement, bindings, member_list),
        drift=fleet_explanation.compute_policy_drift(placement.bindings, *arguments),
        rows={row.object: row for row in rows},
        recorded={name: origin for name, origin in origins.items() if origin is not None},
        unscheduled=tuple(
            binding.cluster for binding in placement.bindings if binding.cluster not in bindings
        ),
        is_fulfilled=placement.scheduling.is_fulfilled,
        kept_reason=explain_kept_bindings(placement),
    )
    if is_sensitive:
        return reason
    clusters = [cluster] if cluster else list(bindings)
    # Pairs by cluster: the objects of its snapshot, and its version of them (None:
    # an unknown cluster).
    resources = {
        name: _get_snapshot_and_cluster_resources(placement, bindings.get(name), name)
        for name in clusters
    }
    failures = {
        name: version.failure
        for name, (_, version) in resources.items()
        if version is not None and version.failure
    }
    # "" (all clusters) is no key.
    objects, rendered = resources.get(cluster, ((), None))
    # A report on all clusters, or on an unknown one.
    if rendered is None:
        return replace(reason, failures=failures)
    hub_objects = tuple(expand_envelopes(objects))
    cluster_objects = tuple(expand_envelopes(rendered.manifests))
    return replace(reason, objects=hub_objects, rendered=cluster_objects, failures=failures)


def _explain_at_decision_time(
    placement: PlacementPlan, bindings: Mapping[str, Binding], member_list: MemberList
) -> PlacementExplanation:
    """Return the explanation of this plan's last picks, or else of the present state.

    The current bindings are part of it.
    """
    decision_bindings, decision_members = placement.scheduling.cycle_start or (
        placement.bindings,
        member_list,
    )
    arguments = placement.build_scheduling_arguments(decision_members)
    explanation = fleet_explanation.explain(decision_bindings, *arguments)
    verdicts = [
        replace(verdict, binding=bindings.get(verdict.cluster)) for verdict in explanation.clusters
    ]
    return replace(explanation, clusters=tuple(verdicts))


def _get_snapshot_and_cluster_resources(
    placement: PlacementPlan, binding: Binding | None, cluster: str
) -> tuple[tuple[Manifest, ...], RenderedResources | None]:
    """Return the objects of a cluster's snapshot, and the cluster's version of them.

    Overrides are applied. Without a binding or a rollout there, return the selected objects, and
    their version for the cluster; None for an unknown cluster.
    """
    resources = (
        placement.compute_resources(binding, placement.rollout.clusters)
        if binding is not None
        else None
    )
    if binding is None or resources is None:
        store = placement.snapshot_store
        return placement.selection.manifests, store.render_cluster(store.latest_index, cluster)
    snapshot = placement.snapshot_store.find_snapshot(binding.resource_snapshot)
    return (snapshot.objects if snapshot is not None else resources.manifests), resources


class PodPlacementReason(Struct, frozen=True):
    """Reasons for one pod on one cluster.

    `nodes` are the verdicts of all nodes, best first. `is_current` means that they show the present
    state of a kept pod, not a decision. `machine` and `zone` are "" for a Pending pod.
    """

    address: str
    cluster: str
    outcome: PodOutcome
    machine: str
    zone: str
    nodes: tuple[NodeVerdict, ...]
    is_current: bool

    @property
    def prefixes(self) -> tuple[str, str, str]:
        """Texts that may precede the pod's name to select it.

        They are its cluster, its workload, or both.
        """
        return self.cluster, self.outcome.workload, f"{self.cluster}/{self.outcome.workload}"


def build_pod_reasons(
    pods: PodPhase, addresses: Sequence[str], name: str
) -> tuple[PodPlacementReason, ...]:
    """Build the reasons of every pod of this name at the addresses."""
    return tuple(
        _build_pod_reason(address, decision)
        for address in addresses
        for decision in pods.find_planned_pods(address, name)
    )


def _build_pod_reason(address: str, decision: PlannedPod) -> PodPlacementReason:
    """Build the reason of a pod.

    For a kept pod, the nodes are evaluated in the present state.
    """
    outcome = decision.outcome
    inputs = decision.inputs
    verdicts = pod_explanation.explain(
        inputs.cluster,
        inputs.existing_pods,
        inputs.workloads,
        (outcome.workload, outcome.number),
        seed=inputs.seed,
        lost_pods=inputs.lost_pods,
    )
    # This plan made no decision about the pod.
    is_current = not verdicts
    if is_current and outcome.spec is not None:
        verdicts = pod_explanation.evaluate_nodes(
            inputs.cluster, decision.other_pods, outcome.spec, outcome.number, outcome.volumes
        )
    node = decision.cluster.node_by_name.get(outcome.node)
    machine, zone = (node.machine, node.zone) if node is not None else ("", "")
    return PodPlacementReason(
        address=address,
        cluster=decision.cluster.name,
        outcome=outcome,
        machine=machine,
        zone=zone,
        nodes=verdicts,
        is_current=is_current,
    )
