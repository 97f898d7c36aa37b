"""Separation rules and their verdicts: as JSON shows them, and as lines for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nexusform.planning.plan import Plan, SeparationVerdict, SeparationViolation
from nexusform.rendering.notation.colours import PLAIN, Painter

_COLOURS: Final = {"always": "green", "sometimes": "yellow", "never": "red"}


def separation_documents(plan: Plan) -> list[dict[str, Any]]:
    """The top-level `separation_rules` of a plan's JSON, in planning order."""
    return [
        {
            "address": str(verdict.address),
            "enforcement": verdict.enforcement,
            "holds": verdict.holds,
            "violations": [_violation(violation) for violation in verdict.violations],
            "scope": verdict.scope,
            "tie_breaks": verdict.runs,
            "holds_in": verdict.held,
        }
        for verdict in plan.separation_rules
    ]


def _violation(given: SeparationViolation) -> dict[str, Any]:
    found: dict[str, Any] = {"site": given.site_id}
    if given.rack:
        found["rack"] = given.rack
    if given.machine:
        found["machine"] = given.machine
    found |= {"members": list(given.members), "joined_by": given.joined_by, "trigger": given.trigger}
    if given.reason:
        found["reason"] = given.reason
    if given.tie_break is not None:
        found["tie_break"] = given.tie_break
    return found


def separation_lines(verdicts: Sequence[SeparationVerdict], paint: Painter = PLAIN) -> list[str]:
    """`nexus_separation_rule.x (machine): holds always, in the plan and in 100 tie-breaks`; [] without
    rules.
    """
    if not verdicts:
        return []
    lines = [paint("Separation rules:", "bold")]
    for verdict in verdicts:
        word = paint(f"holds {verdict.holds}", _COLOURS[verdict.holds])
        lines.append(f"  {verdict.address} ({verdict.scope}, {verdict.enforcement}): {word}{_how(verdict)}")
    return lines


def _how(verdict: SeparationVerdict) -> str:
    shared = len(verdict.violations)
    noun = verdict.scope if shared == 1 else f"{verdict.scope}s"
    if verdict.holds == "always":
        return f", in the plan and in {verdict.runs} tie-breaks" if verdict.runs else ", in the plan"
    runs = f", in {verdict.held} of {verdict.runs} tie-breaks" if verdict.runs else ""
    return f"{runs}; {shared} {noun} shared"
