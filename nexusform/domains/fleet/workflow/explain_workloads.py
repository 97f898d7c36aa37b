"""Why a placement holds the clusters that it holds, every rule's verdict on every cluster; and why pods
are where they are, asked of what objects and placements bring to clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

from msgspec.structs import replace

from nexusform.address import Address, AddressPattern
from nexusform.diagnostics import Diagnostic, Severity, did_you_mean, error, warning
from nexusform.domains.fleet.binding_kind import BINDING
from nexusform.domains.fleet.planning.fleet_phases import fleet_of
from nexusform.domains.fleet.planning.placement import PlacementPlan
from nexusform.domains.fleet.rendering.placement_outline import placement_document, placement_outline
from nexusform.domains.fleet.rendering.pod_outline import POD_ANSWER, pod_outline
from nexusform.domains.fleet.scheduling.roster import Roster
from nexusform.domains.fleet.workflow.reasons import PlacementReason, PodReason, placement_reason, pod_reasons
from nexusform.domains.pods.pod_kind import POD
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.planner import make_plan
from nexusform.planning.request import PlanRequest
from nexusform.plans.impact.effects import Effect, effect_of
from nexusform.plans.plan import PlacementAction, PlacementChange
from nexusform.ports import Kind
from nexusform.rendering.answers.domain_answer import DomainAnswer
from nexusform.words import first_of

MANIFEST_TYPE = "fleet_hub_manifest"
OVERRIDE_TYPES = ("fleet_cluster_resource_override", "fleet_resource_override")


def explain_placements(
    planned: PlanResult, pattern: AddressPattern, name: str
) -> tuple[list[PlacementReason], list[Diagnostic]] | None:
    """Explain the placements at an address; None when no placement stands there, or when the name is not
    that of a cluster while the placement has pods.
    """
    fleet = fleet_of(planned)
    if fleet is None:
        return None
    roster = fleet.outcome.roster
    placements = [p for a, p in fleet.outcome.placements.items() if pattern.matches(a)]
    if not placements:
        return None
    known = {m.name for m in roster.members}
    named: set[str] = set()
    for placement in placements:
        if placement.asked.written.policy:
            named.update(placement.asked.written.policy.cluster_names)
    if name and name not in known | named:
        pod = name.rpartition("/")[2]
        if any(row.kind == POD and row.object == pod for row in planned.plan.placements):
            return None
        near = did_you_mean(name, sorted(known))
        unknown = nodes_unknown(planned, pattern)
        text = f'The fleet has no member cluster "{name}".{near}' + (f" {unknown}" if unknown else "")
        return [], [error("no-such-object", text)]
    wrong = [d for d in planned.diagnostics if d.severity is Severity.ERROR]
    return _reasons(planned, placements, roster, [name]), wrong


def explain_member(
    planned: PlanResult, pattern: AddressPattern
) -> tuple[list[PlacementReason], list[Diagnostic]] | None:
    """What every placement says of the member clusters at an address; None when there is none."""
    attributes = [c.after for c in planned.plan.changes if pattern.matches(c.address)]
    names = [str(each["name"]) for each in attributes if each is not None and each.get("name")]
    fleet = fleet_of(planned)
    if fleet is None or not names:
        return None
    wrong = [d for d in planned.diagnostics if d.severity is Severity.ERROR]
    placements = fleet.outcome.placements.values()
    if not placements and not wrong:
        text = f"No placement looks at {', '.join(names)}: there is none in the configuration."
        wrong.append(error("nothing-to-explain", text))
    roster = fleet.outcome.roster
    return _reasons(planned, placements, roster, names), wrong


def _reasons(
    planned: PlanResult, placements: Iterable[PlacementPlan], roster: Roster, clusters: Sequence[str]
) -> list[PlacementReason]:
    """The reasons of these placements, cluster by cluster; the cluster "" stands for all of them."""
    secret = _secret(planned)
    rows: dict[Address, list[PlacementChange]] = {}
    for row in planned.plan.placements:
        if row.kind == BINDING:
            rows.setdefault(row.address, []).append(row)
    reasons = []
    for cluster, placement in product(clusters, placements):
        own_rows = rows.get(placement.asked.instance.address, ())
        reasons.append(placement_reason(placement, roster, own_rows, cluster, secret=secret))
    return reasons


def _secret(planned: PlanResult) -> bool:
    """Whether objects on the hub, or what changes them, hold values that must not be shown."""
    return any(
        c.sensitive_after for c in planned.plan.changes if c.address.type in (MANIFEST_TYPE, *OVERRIDE_TYPES)
    )


_BRING_PODS = (Kind.PLACEMENT, Kind.MANIFEST)
NODES_UNKNOWN = "nodes-unknown"
_MOST_NAMES = 20


def explain_pods(
    planned: PlanResult, pattern: AddressPattern, name: str
) -> tuple[tuple[PodReason, ...], list[Diagnostic]] | None:
    """Explain the pods of this name at an address ("": its only one), on every cluster or, as plans head
    their lines (`east/web/Deployment/shop/shop-0`, `east/shop-0`), on one; None when it brings no pods.
    """
    wrong = [d for d in planned.diagnostics if d.severity is Severity.ERROR]
    own = [r for r in planned.plan.placements if r.kind == POD and pattern.matches(r.address)]
    rows = [row for row in own if row.target]
    refused = {row.object: row.reason for row in own if effect_of(row) is Effect.NOT_MADE}
    fleet = fleet_of(planned)
    if fleet is None or not (rows or refused):
        return None
    names = list(dict.fromkeys([*(row.object for row in rows), *refused]))
    if not name and len(names) > 1:
        shown = ", ".join(names[:_MOST_NAMES])
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        text = f"{pattern} has several pods; name one of them: {shown}{more}."
        return (), [*wrong, error("which-pod", text)]
    front, _, pod = (name or names[0]).rpartition("/")
    if pod in refused:
        text = f'The pod "{pod}" of {pattern} is not made: {refused[pod]}.'
        return (), [*wrong, error("no-such-object", text)]
    if pod not in names:
        text = f'{pattern} brings no pod "{pod}".{did_you_mean(pod, names)}'
        return (), [*wrong, error("no-such-object", text)]
    addresses = list(dict.fromkeys(str(row.address) for row in rows))
    unknown = nodes_unknown(planned, pattern)
    if unknown:
        wrong.append(warning(NODES_UNKNOWN, unknown))
    reasons = pod_reasons(fleet.pods, addresses, pod)
    meant = [reason for reason in reasons if not front or front in _fronts(reason)]
    if not meant:
        known = list(dict.fromkeys(f"{reason.cluster}/{pod}" for reason in reasons))
        text = f'{pattern} brings no pod "{name}". It brings {first_of(known, _MOST_NAMES)}.'
        return (), [*wrong, error("no-such-object", text)]
    return tuple(meant), wrong


def _fronts(reason: PodReason) -> tuple[str, ...]:
    """What may stand before the name of a pod: its cluster, its workload, or both."""
    workload = reason.outcome.workload
    return reason.cluster, workload, f"{reason.cluster}/{workload}"


def nodes_unknown(planned: PlanResult, pattern: AddressPattern) -> str:
    """A sentence on the members that hold a placement and whose pods are not predicted; "" without any."""
    fleet = fleet_of(planned)
    members = dict(fleet.pods.members) if fleet is not None else {}
    for change in planned.plan.changes:
        after = change.after or {}
        if change.address.type == "fleet_member_cluster" and after.get("kubernetes_cluster_id"):
            members[str(after.get("name"))] = str(after["kubernetes_cluster_id"])
    known = fleet.pods.clusters if fleet is not None else {}
    names = [
        row.object
        for row in planned.plan.placements
        if row.kind == BINDING
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


def explain_fleet(request: PlanRequest, pattern: AddressPattern, name: str) -> DomainAnswer | None:
    """Placements, members, and the pods that placements and manifests bring."""
    kind = request.registries.kind_of(pattern.type)
    if kind not in (Kind.MEMBER, *_BRING_PODS):
        return None
    planned = make_plan(replace(request, tie_breaks=0, ways_out=False, lint=False))
    placements = explain_placements(planned, pattern, name) if kind is Kind.PLACEMENT else None
    placements = explain_member(planned, pattern) if kind is Kind.MEMBER else placements
    if placements is not None:
        reasons, wrong = placements
        answers = tuple((placement_outline(each), placement_document(each)) for each in reasons)
        return DomainAnswer(answers, tuple(wrong), goes_far=True)
    pods = explain_pods(planned, pattern, name) if kind in _BRING_PODS else None
    if pods is None:
        return None
    pod_answers, wrong = pods
    answers = tuple((pod_outline(each), POD_ANSWER(each)) for each in pod_answers)
    notes = tuple(each for each in wrong if each.id == NODES_UNKNOWN)
    return DomainAnswer(answers, tuple(wrong), notes)
