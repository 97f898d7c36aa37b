"""Why a placement has its clusters: every rule's verdict on every cluster, and what one cluster gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.importers.kubernetes.kubernetes_manifests import Manifest
from nexusform.planning.fleet.overrides import Rendered, opened
from nexusform.planning.fleet.placement import PlacementPlan
from nexusform.planning.plan import PlacementChange
from nexusform.planning.vms.vm_object import placed_by
from nexusform.scheduling.fleet.bindings import Binding, BindingState
from nexusform.scheduling.fleet.explanation import PlacementExplanation, PolicyDrift, drift, explain
from nexusform.scheduling.fleet.roster import Roster


class PlacementReason(Struct, frozen=True):
    """One placement, and one of its clusters or ("") all of them.

    `explanation` is the decision of this plan where it picks any cluster, else what the rules say today of
    what is held and of the others. `rows` say what the plan does, `known` what state noted of each binding
    (trigger, serial), both by cluster. `objects` are those of the cluster's snapshot and `rendered` what it
    has of them (both empty where values among them are sensitive); `failures` say why overriding fails, by
    cluster.
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


def placement_reason(
    placement: PlacementPlan, roster: Roster, rows: Sequence[PlacementChange], cluster: str, *, secret: bool
) -> PlacementReason:
    """The reason of a placement at one cluster, or ("") at all. `rows` are those of its bindings; objects
    that are `secret` are left out.
    """
    policy, namespace = placement.policy_in(roster), placement.written.namespace
    held = {b.cluster: b for b in placement.held if b.state is not BindingState.UNSCHEDULED}
    private = placement.instance.prior.private if placement.instance.prior is not None else None
    notes = {name: placed_by(private, name) for name in held}
    reason = PlacementReason(
        placement.instance.address,
        cluster,
        _explanation(placement, held, roster),
        drift(placement.held, roster, policy, placement.snapshot, namespace),
        {row.object: row for row in rows},
        {name: note for name, note in notes.items() if note is not None},
    )
    if secret:
        return reason
    clusters = [cluster] if cluster else list(held)
    contents = {name: _on_cluster(placement, held.get(name), name) for name in clusters}
    failures = {name: each.failure for name, (_, each) in contents.items() if each and each.failure}
    objects, rendered = contents[cluster] if cluster else ((), None)
    return replace(
        reason,
        objects=tuple(opened(objects)) if rendered is not None else (),
        rendered=tuple(opened(rendered.manifests)) if rendered is not None else (),
        failures=failures,
    )


def _explanation(
    placement: PlacementPlan, held: Mapping[str, Binding], roster: Roster
) -> PlacementExplanation:
    """The decision as it was taken, with the bindings that are held now."""
    held_then, roster_then = placement.decided or (placement.held, roster)
    policy = placement.policy_in(roster_then)
    explanation = explain(held_then, roster_then, policy, placement.snapshot, placement.written.namespace)
    clusters = tuple(replace(each, binding=held.get(each.cluster)) for each in explanation.clusters)
    return replace(explanation, clusters=clusters)


def _on_cluster(
    placement: PlacementPlan, binding: Binding | None, cluster: str
) -> tuple[tuple[Manifest, ...], Rendered | None]:
    """The objects of the snapshot that a cluster's binding points to, and what the cluster has of them. Of a
    cluster without a binding, and under one that brought nothing yet: what it would get.
    """
    content = placement.content(binding, placement.rolled) if binding is not None else None
    if binding is None or content is None:
        would_get = placement.snapshots[-1].index if placement.snapshots else None
        return placement.selected, placement.rendered(would_get, cluster)
    snapshot = placement.snapshot_of(binding.resource_snapshot)
    return (snapshot.objects if snapshot is not None else content.manifests), content
