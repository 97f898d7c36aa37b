"""Why a placement holds the clusters that it holds, every rule's verdict on every cluster; and why pods
are where they are, asked of what objects and placements bring to clusters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address, AddressPattern
from nexusform.diagnostics import Diagnostic, Severity, did_you_mean, error, warning
from nexusform.importers.kubernetes_manifests import Manifest
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.fleet.overrides import Rendered, opened
from nexusform.planning.fleet.placement import PlacementPlan
from nexusform.planning.plan import PlacementAction, PlacementChange
from nexusform.planning.planner import make_plan
from nexusform.planning.pods.reasons import PodReason, pod_reasons
from nexusform.planning.request import PlanRequest
from nexusform.planning.vms.vm_object import placed_by
from nexusform.scheduling.fleet.bindings import Binding, BindingState
from nexusform.scheduling.fleet.explanation import PlacementExplanation, PolicyDrift, drift, explain
from nexusform.scheduling.fleet.roster import Roster

MANIFEST_TYPE = "fleet_hub_manifest"
OVERRIDE_TYPES = ("fleet_cluster_resource_override", "fleet_resource_override")


class PlacementReason(Struct, frozen=True):
    """One placement, and one of its clusters or ("") all of them.

    `explanation` is the decision of this plan where it picks any cluster, else what the rules say today of
    what is held and of the others. `rows` say what the plan does, `known` what state noted of each binding
    (trigger, serial). `objects` are those of the cluster's snapshot and `rendered` what it has of them (both
    empty where values among them are sensitive); `failures` say why overriding fails, cluster by cluster.
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


def explain_member(
    request: PlanRequest, pattern: AddressPattern
) -> tuple[list[PlacementReason], list[Diagnostic]] | None:
    """What every placement says of the member clusters at an address; None when there is none."""
    planned = make_plan(replace(request, tie_breaks=0, ways_out=False, lint=False))
    attributes = [c.after for c in planned.plan.changes if pattern.matches(c.address)]
    names = [str(each["name"]) for each in attributes if each is not None and each.get("name")]
    if planned.fleet is None or not names:
        return None
    wrong = [d for d in planned.diagnostics if d.severity is Severity.ERROR]
    placements = planned.fleet.placements.values()
    if not placements and not wrong:
        text = f"No placement looks at {', '.join(names)}: there is none in the configuration."
        wrong.append(error("nothing-to-explain", text))
    roster = planned.fleet.roster
    return [_reason(p, planned, roster, name) for name in names for p in placements], wrong


def _reason(placement: PlacementPlan, planned: PlanResult, roster: Roster, cluster: str) -> PlacementReason:
    policy, namespace = placement.policy_in(roster), placement.written.namespace
    rows = {
        row.object: row
        for row in planned.plan.placements
        if row.kind == "binding" and row.address == placement.instance.address
    }
    held, then = placement.decided or (placement.held, roster)
    explanation = explain(held, then, placement.policy_in(then), placement.snapshot, namespace)
    now = {b.cluster: b for b in placement.held if b.state is not BindingState.UNSCHEDULED}
    explanation = replace(
        explanation,
        clusters=tuple(replace(c, binding=now.get(c.cluster)) for c in explanation.clusters),
    )
    private = placement.instance.prior.private if placement.instance.prior is not None else None
    noted = {name: note for name in now if (note := placed_by(private, name)) is not None}
    secret = _secret(planned)
    objects, rendered = ((), None) if secret else _on_cluster(placement, now.get(cluster), cluster)
    return PlacementReason(
        placement.instance.address,
        cluster,
        explanation,
        drift(placement.held, roster, policy, placement.snapshot, namespace),
        rows,
        noted,
        tuple(opened(objects)) if rendered is not None else (),
        tuple(opened(rendered.manifests)) if rendered is not None else (),
        {} if secret else _failures(placement, [cluster] if cluster else list(now), now),
    )


def _failures(
    placement: PlacementPlan, clusters: Sequence[str], now: Mapping[str, Binding]
) -> dict[str, str]:
    """Why overriding fails, on these clusters."""
    contents = {cluster: _on_cluster(placement, now.get(cluster), cluster)[1] for cluster in clusters}
    return {cluster: content.failure for cluster, content in contents.items() if content and content.failure}


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


NODES_UNKNOWN = "nodes-unknown"
_MOST_NAMES = 20


def explain_pods(
    request: PlanRequest, pattern: AddressPattern, name: str
) -> tuple[tuple[PodReason, ...], list[Diagnostic]] | None:
    """Explain the pods of this name at an address ("": its only one); None when it brings no pods."""
    planned = make_plan(replace(request, tie_breaks=0, ways_out=False, lint=False))
    wrong = [d for d in planned.diagnostics if d.severity is Severity.ERROR]
    rows = [r for r in planned.plan.placements if r.kind == "pod" and r.target and pattern.matches(r.address)]
    if not rows or planned.pods is None:
        return None
    names = list(dict.fromkeys(row.object for row in rows))
    if not name and len(names) > 1:
        shown = ", ".join(names[:_MOST_NAMES])
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        text = f"{pattern} has several pods; name one of them: {shown}{more}."
        return (), [*wrong, error("which-pod", text)]
    pod = name or names[0]
    if pod not in names:
        text = f'{pattern} brings no pod "{pod}".{did_you_mean(pod, names)}'
        return (), [*wrong, error("no-such-object", text)]
    addresses = list(dict.fromkeys(str(row.address) for row in rows))
    unknown = nodes_unknown(planned, pattern)
    if unknown:
        wrong.append(warning(NODES_UNKNOWN, unknown))
    return pod_reasons(planned.pods, addresses, pod), wrong


def nodes_unknown(planned: PlanResult, pattern: AddressPattern) -> str:
    """A sentence on the members that hold a placement and whose pods are not predicted; "" without any."""
    members = dict(planned.pods.members) if planned.pods is not None else {}
    for change in planned.plan.changes:
        after = change.after or {}
        if change.address.type == "fleet_member_cluster" and after.get("kubernetes_cluster_id"):
            members[str(after.get("name"))] = str(after["kubernetes_cluster_id"])
    known = planned.pods.clusters if planned.pods is not None else {}
    names = [
        row.object
        for row in planned.plan.placements
        if row.kind == "binding"
        and row.action is not PlacementAction.REMOVE
        and pattern.matches(row.address)
        and members.get(row.object, "") not in known
    ]
    if not names:
        return ""
    listed = ", ".join(names[:_MOST_NAMES]) + (" and others" if len(names) > _MOST_NAMES else "")
    return (
        f"Nodes unknown: {listed}. A member without kubernetes_cluster_id has figures, not nodes, so the "
        "pods that the placement brings there are not predicted."
    )
