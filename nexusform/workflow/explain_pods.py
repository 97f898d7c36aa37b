"""Why pods are where they are: asked of what objects and placements bring to clusters."""

from __future__ import annotations

from msgspec.structs import replace

from nexusform.address import AddressPattern
from nexusform.diagnostics import Diagnostic, Severity, did_you_mean, error, warning
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.plan import PlacementAction
from nexusform.planning.planner import make_plan
from nexusform.planning.pods.reasons import PodReason, pod_reasons
from nexusform.planning.request import PlanRequest

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
