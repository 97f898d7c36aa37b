"""Why pods are where they are: asked of what objects and placements bring to clusters."""

from __future__ import annotations

from dataclasses import replace

from nexusform.address import AddressPattern
from nexusform.diagnostics import Diagnostic, Severity, did_you_mean, error
from nexusform.planning.planner import make_plan
from nexusform.planning.pods.reasons import PodReason, pod_reasons
from nexusform.planning.request import PlanRequest

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
        return (), [*wrong, error("Which pod?", text)]
    wanted = name or names[0]
    if wanted not in names:
        text = f'{pattern} brings no pod "{wanted}".{did_you_mean(wanted, names)}'
        return (), [*wrong, error("No such object", text)]
    addresses = list(dict.fromkeys(str(row.address) for row in rows))
    return pod_reasons(planned.pods, addresses, wanted), wrong
