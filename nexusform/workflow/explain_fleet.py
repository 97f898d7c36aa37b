"""Why a placement holds the clusters that it holds: every rule's verdict on every cluster."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address, AddressPattern
from nexusform.diagnostics import Diagnostic, Severity, did_you_mean, error
from nexusform.importers.kubernetes_manifests import Manifest
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.fleet.overrides import Rendered
from nexusform.planning.fleet.placement import PlacementPlan
from nexusform.planning.plan import PlacementAction, PlacementChange
from nexusform.planning.planner import make_plan
from nexusform.planning.request import PlanRequest
from nexusform.planning.vms.placed_note import placed_by
from nexusform.scheduling.fleet.bindings import Binding, BindingState
from nexusform.scheduling.fleet.explanation import Drift, Explanation, drift, explain
from nexusform.scheduling.fleet.roster import Roster
from nexusform.workflow.explain_pods import nodes_unknown

MANIFEST_TYPE = "fleet_hub_manifest"
OVERRIDE_TYPES = ("fleet_cluster_resource_override", "fleet_resource_override")


class PlacementReason(Struct, frozen=True):
    """One placement, and one of its clusters or ("") all of them.

    `explanation` is of the clusters as they are: against what the placement held before the plan where
    the plan picks any, else as if it were made anew today (`anew`). `rows` say what the plan does, `known`
    what state noted of each binding (trigger, serial). `objects` are the selected ones and `rendered` what
    the cluster gets of them (both empty where values among them are sensitive).
    """

    address: Address
    cluster: str
    explanation: Explanation
    anew: bool
    drift: Drift
    rows: Mapping[str, PlacementChange] = field(default_factory=dict)
    known: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    objects: tuple[Manifest, ...] = ()
    rendered: tuple[Manifest, ...] = ()
    failure: str = ""


def explain_placements(
    request: PlanRequest, pattern: AddressPattern, name: str
) -> tuple[list[PlacementReason], list[Diagnostic]] | None:
    """Explain the placements at an address; None when no placement stands there, or when the name is not
    that of a cluster while the placement has pods.
    """
    quiet = replace(request, tie_breaks=0, ways_out=False, lint=False)
    planned = make_plan(quiet)
    if planned.fleet is None:
        return None
    roster = planned.fleet.roster
    placements = [p for a, p in planned.fleet.placements.items() if pattern.matches(a)]
    if not placements:
        return None
    known = {m.name for m in roster.members}
    named: set[str] = set()
    for placement in placements:
        if placement.written.policy:
            named.update(placement.written.policy.cluster_names)
    if name and name not in known | named:
        if any(row.kind == "pod" and row.object == name for row in planned.plan.placements):
            return None
        near = did_you_mean(name, sorted(known))
        unknown = nodes_unknown(planned, pattern)
        text = f'The fleet has no member cluster "{name}".{near}' + (f" {unknown}" if unknown else "")
        return [], [error("no-such-object", text)]
    wrong = [d for d in planned.diagnostics if d.severity is Severity.ERROR]
    return [_reason(p, planned, roster, name) for p in placements], wrong


def _reason(placement: PlacementPlan, planned: PlanResult, roster: Roster, cluster: str) -> PlacementReason:
    policy, namespace = placement.policy_in(roster), placement.written.namespace
    rows = {
        row.object: row
        for row in planned.plan.placements
        if row.kind == "binding" and row.address == placement.instance.address
    }
    picks = any(row.action is PlacementAction.PLACE for row in rows.values())
    held = tuple(b for b in placement.prior if b.cluster not in placement.evicted) if picks else ()
    explanation = explain(held, roster, policy, placement.snapshot, namespace)
    now = {b.cluster: b for b in placement.held if b.state is not BindingState.UNSCHEDULED}
    explanation = replace(
        explanation,
        clusters=tuple(replace(c, binding=now.get(c.cluster)) for c in explanation.clusters),
    )
    private = placement.instance.prior.private if placement.instance.prior is not None else None
    noted = {name: note for name in now if (note := placed_by(private, name)) is not None}
    objects, rendered = ((), None) if _secret(planned) else _on_cluster(placement, now.get(cluster), cluster)
    return PlacementReason(
        placement.instance.address,
        cluster,
        explanation,
        not picks,
        drift(placement.held, roster, policy, placement.snapshot, namespace),
        rows,
        noted,
        objects if rendered is not None else (),
        rendered.manifests if rendered is not None else (),
        rendered.failure if rendered is not None else "",
    )


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


def _secret(planned: PlanResult) -> bool:
    """Whether objects on the hub, or what changes them, hold values that must not be shown."""
    return any(
        c.sensitive_after for c in planned.plan.changes if c.address.type in (MANIFEST_TYPE, *OVERRIDE_TYPES)
    )
