"""What comes out of a fleet's plan: rows, each placement's computed attributes, and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.diagnostics import Diagnostic, Problem, Severity
from nexusform.planning.fleet.contents import (
    availability_tracked,
    read_scheduling,
    write_bindings,
    write_conditions,
    write_eviction,
    write_snapshot,
    write_statuses,
)
from nexusform.planning.fleet.hub import write_selected
from nexusform.planning.fleet.placement import OLD_NODE_COUNT, PlacementPlan, uses_old_name
from nexusform.planning.fleet.rounds import Rounds
from nexusform.planning.fleet.rows import removed_rows
from nexusform.planning.fleet.world import FleetMemberState
from nexusform.planning.instances.instance import Instance
from nexusform.planning.plan import PlacementChange
from nexusform.ports import Kind
from nexusform.scheduling.fleet.bindings import BindingState
from nexusform.scheduling.fleet.explanation import drift
from nexusform.scheduling.fleet.roster import Roster
from nexusform.scheduling.fleet.status import (
    CLUSTER_SCOPED,
    FALSE,
    NAMESPACED,
    TRUE,
    Progress,
    placement_status,
    progress_of,
)


class FleetOutcome(Struct, frozen=True):
    """The rows of all bindings, the placements by address, and the fleet after the last round."""

    rows: tuple[PlacementChange, ...] = ()
    placements: Mapping[Address, PlacementPlan] = field(default_factory=dict)
    roster: Roster = field(default_factory=lambda: Roster(()))
    diagnostics: tuple[Diagnostic, ...] = ()


def destroyed(instances: Iterable[Instance]) -> FleetOutcome:
    """The rows of a destroy plan."""
    going = [instance for instance in instances if instance.going and instance.type.kind is Kind.PLACEMENT]
    rows = chain.from_iterable(removed_rows(instance) for instance in going)
    return FleetOutcome(tuple(rows))


def conclude_placement(placement: PlacementPlan) -> dict[str, Any]:
    """The computed attributes of a placement after the plan."""
    prior = placement.prior_attributes
    attributes: dict[str, Any] = {
        "bindings": write_bindings(placement.held, _kept_provenance(placement)),
        "policy_snapshot": write_snapshot(placement.snapshot),
        "selected_resources": write_selected(placement.selected),
        "evictions": [
            *(prior.get("evictions") or ()),
            *(write_eviction(name, eviction) for name, eviction in placement.evictions),
        ],
        "workloads": _workloads(placement),
    }
    scheduling = placement.status
    if scheduling is None and prior.get("conditions") is not None:
        # No cycle ran, or it stopped before it wrote a status.
        if not placement.moved:
            return attributes | {name: prior.get(name) for name in ("conditions", "placement_statuses")}
        scheduling = read_scheduling(prior, placement.held)
    status = placement_status(
        scheduling,
        placement.written.policy,
        placement.snapshot.number_of_clusters,
        _progress(placement),
        prefix=NAMESPACED if placement.written.namespace else CLUSTER_SCOPED,
        external=placement.external,
    )
    return attributes | {
        "conditions": write_conditions(status.conditions),
        "placement_statuses": write_statuses(status),
    }


def _workloads(placement: PlacementPlan) -> dict[str, dict[str, Any]]:
    """Where the pods of each cluster stand, by workload; clusters without pods are left out."""
    by_cluster = {}
    for cluster, workloads in sorted(placement.workloads.items()):
        if workloads:
            by_cluster[cluster] = {workload: dict(pods) for workload, pods in workloads.items()}
    return by_cluster


def _kept_provenance(placement: PlacementPlan) -> dict[str, str]:
    """How it is known where bindings are that stay as they are: what was observed stays observed."""
    prior = {binding.cluster: binding for binding in placement.prior}
    recorded = placement.prior_attributes.get("bindings") or {}
    return {
        binding.cluster: recorded[binding.cluster].get("provenance", "predicted")
        for binding in placement.held
        if prior.get(binding.cluster) == binding and binding.cluster in recorded
    }


def _progress(placement: PlacementPlan) -> dict[str, Progress]:
    """How far each cluster that holds the placement is."""
    contents = placement.contents_after()
    by_cluster = {}
    for binding in placement.held:
        # A staged run says what a cluster is to have; otherwise it is the latest.
        index = binding.resource_snapshot if placement.external else placement.snapshots[-1].index
        progress = progress_of((binding,), -1 if index is None else index).get(binding.cluster)
        if progress is None:
            continue
        content = contents.get(binding.cluster)
        failed = bool(content and content.failure)
        trackable = content is None or availability_tracked(content.manifests)
        by_cluster[binding.cluster] = replace(
            progress,
            overrides=failed or bool(content and content.digest),
            overridden=FALSE if failed else progress.overridden,
            diff_reported=TRUE if placement.written.report_diff else None,
            trackable=trackable,
        )
    return by_cluster


# --- warnings ----------------------------------------------------------------------------------


def placement_warnings(
    placements: Sequence[PlacementPlan], members: Mapping[str, FleetMemberState], rounds: Rounds
) -> Iterator[Diagnostic]:
    """All warnings, placement by placement."""
    for placement in placements:
        yield from _unfulfilled(placement)
        yield from _older_name(placement, rounds)
        yield from _not_overridden(placement)
        yield from _shared(placement, members)
        yield from _drifted(placement, members, rounds)


def _warned(placement: PlacementPlan, kind: str, text: str, path: tuple[str | int, ...] = ()) -> Diagnostic:
    return placement.instance.problem(Problem(path, kind, text, Severity.WARNING))


def _unfulfilled(placement: PlacementPlan) -> Iterator[Diagnostic]:
    if placement.abort is not None:
        at = f" at cluster {placement.abort.cluster}" if placement.abort.cluster else ""
        text = f"The scheduler stops{at}: {placement.abort.message}. What stands is kept."
        yield _warned(placement, "scheduling-stopped", text)
        return
    status = placement.status
    if status is None or status.fulfilled:
        return
    reasons = [f"  - {decision.cluster}: {decision.reason}" for decision in status.unselected]
    message = status.condition.message
    text = "\n".join([f"{message[:1].upper()}{message[1:]}.", *reasons])
    yield _warned(placement, "placement-is-not-fulfilled", text)


def _older_name(placement: PlacementPlan, rounds: Rounds) -> Iterator[Diagnostic]:
    policy = placement.written.policy
    if policy is None or not uses_old_name(policy) or placement.policy_in(rounds.roster) == policy:
        return
    manifest = (placement.instance.config or {}).get("manifest")
    lines = manifest.splitlines() if isinstance(manifest, str) else []
    numbers = [number for number, line in enumerate(lines, 1) if OLD_NODE_COUNT in line]
    at_line = f"manifest:{numbers[0]}: " if numbers else ""
    text = (
        f"{at_line}kubernetes.azure.com/node-count is the older name of kubernetes-fleet.io/node-count and "
        "is read as that: no cluster has a property of the older name. A real hub finds no such property "
        "today."
    )
    yield _warned(placement, "older-property-name", text, ("manifest",) if at_line else ("policy",))


def _not_overridden(placement: PlacementPlan) -> Iterator[Diagnostic]:
    for cluster, content in placement.contents_after().items():
        if content.failure:
            text = f"On cluster {cluster}: {content.failure}. Nothing of this version is applied there."
            yield _warned(placement, "overrides-cannot-be-applied", text)


def _shared(placement: PlacementPlan, members: Mapping[str, FleetMemberState]) -> Iterator[Diagnostic]:
    """Picked members that stand on the same machines."""
    clusters_on = _clusters_by_machine(placement, members)
    shared = {place: clusters for place, clusters in clusters_on.items() if len(clusters) > 1}
    if not shared:
        return
    (site, machine), clusters = max(sorted(shared.items(), reverse=True), key=lambda item: len(item[1]))
    listed = ", ".join(sorted(clusters))
    text = (
        f"Machines that hold nodes of more than one picked cluster: {len(shared)}. The loss of machine "
        f"{machine} (site {site}) takes nodes of {listed} down at once. Keep the clusters in different racks "
        "(availability_zones); a nexus_separation_rule makes a plan that mixes them fail."
    )
    yield _warned(placement, "members-of-a-placement-share-machines", text)


def _clusters_by_machine(
    placement: PlacementPlan, members: Mapping[str, FleetMemberState]
) -> dict[tuple[str, str], set[str]]:
    """The picked members with nodes on a machine, by site and machine."""
    clusters_on: dict[tuple[str, str], set[str]] = {}
    for binding in placement.held:
        member = members.get(binding.cluster)
        if binding.state is BindingState.UNSCHEDULED or member is None or member.cluster is None:
            continue
        for node in member.cluster.nodes:
            clusters_on.setdefault((member.cluster.site_id, node.machine), set()).add(binding.cluster)
    return clusters_on


def _drifted(
    placement: PlacementPlan, members: Mapping[str, FleetMemberState], rounds: Rounds
) -> Iterator[Diagnostic]:
    """What a fresh schedule would choose, told where this plan changes members under a placement that
    stays: information, never an action.
    """
    changed = any(member.before != member.now for member in members.values())
    if placement.created or not changed or placement.abort is not None:
        return
    roster = rounds.roster
    difference = drift(
        placement.held,
        roster,
        placement.policy_in(roster),
        placement.snapshot,
        placement.written.namespace,
    )
    if not difference.gained and not difference.lost:
        return
    verbs = []
    if difference.gained:
        verbs.append(f"hold {', '.join(difference.gained)}")
    if difference.lost:
        verbs.append(f"not hold {', '.join(difference.lost)}")
    text = (
        "With the members as this plan leaves them, a placement made anew would "
        f"{' and '.join(verbs)}. Nothing is moved "
        "for that: existing placements are kept (a fulfilled PickN is not re-evaluated). "
        f"`nexusform explain {placement.address}` shows every cluster's verdict."
    )
    yield _warned(placement, "a-fresh-schedule-would-choose-otherwise", text)
