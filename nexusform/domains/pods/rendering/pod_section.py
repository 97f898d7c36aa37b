"""Pods of a plan as a table, with their nodes."""

from typing import Final

from nexusform.diagnostics.phrases import join_texts
from nexusform.domains.pods.pod_kind import POD
from nexusform.placement_kinds.registry import format_location_text
from nexusform.plans.impact.object_effects import (
    Effect,
    compute_effect,
    describe_state,
    format_effect_verb,
)
from nexusform.plans.plan import PlacementChange, Plan
from nexusform.rendering.report.domain_sections import ACTION_SIGNS, limit_rows
from nexusform.rendering.report.plan_sentences import format_uncertainty_mark
from nexusform.rendering.report.report_tree import Row, Section, Table

# Effects that the action alone would report as placed, moved or kept.
_SPECIAL_EFFECTS: Final = frozenset(
    {Effect.RECREATED, Effect.UNPLACED, Effect.WAITING, Effect.STILL_WAITING}
)


def build_pod_section(plan: Plan) -> Section:
    """Build the section of the pods affected by the plan.

    The pods are those of fleets and of sites without one.
    """
    pods = [row for row in plan.placements if row.kind == POD]
    rows, limit = limit_rows(list(map(_build_row, pods)))
    table = Table(
        ("Pod", "Workload", "Action", "From", "To", "Trigger"),
        rows,
        caption="Pods and their nodes",
        is_unwrapped=True,
    )
    return Section("Pods", lines=limit, table=table, name="pods")


def _build_row(row: PlacementChange) -> Row:
    effect = compute_effect(row)
    # More exact than the action.
    is_special = effect in _SPECIAL_EFFECTS
    verb = format_effect_verb(effect, describe_state(row), 1) if is_special else row.action.value
    origin = format_location_text(row.source) if row.source else ""
    target = format_location_text(row.target) if row.target else ""
    action = f"{ACTION_SIGNS[row.action]} {verb}".strip()
    trigger = join_texts((row.trigger, format_uncertainty_mark(row)), "; ")
    return Row((row.object, row.pool, action, origin, target, trigger))
