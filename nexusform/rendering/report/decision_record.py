"""Record of the decision block of one plan, to add up with the records of other sites."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.levels import PlacementImpact
from nexusform.placements.consequence_record import Consequence
from nexusform.plans.impact.decision_figures import PlanDecisionSummary, build_decision
from nexusform.plans.impact.guard_rails import GuardRailMeasurement, measure_limit
from nexusform.plans.impact.object_effects import sum_effects
from nexusform.plans.plan import OutsideChange, Plan
from nexusform.rendering.report.decision_lines import (
    DecisionLine,
    ImpactParts,
    collect_impact,
    list_named_lines,
)
from nexusform.rendering.report.plan_sentences import count_resource_changes
from nexusform.rendering.report.plan_verdict import compute_impact


class DecisionRecord(Struct, frozen=True):
    """Decision block of one plan as data.

    `figures` and `parts` add up over plans, `named_lines` do not: they name objects of the plan.
    `resource_counts` are imports, adds, changes, destroys and forgets. `measurements` are those of
    the requested limits by name.
    """

    impact: PlacementImpact = PlacementImpact.NONE
    figures: PlanDecisionSummary = PlanDecisionSummary()
    parts: ImpactParts = ImpactParts()
    named_lines: tuple[DecisionLine, ...] = ()
    consequences: tuple[Consequence, ...] = ()
    outside_changes: tuple[OutsideChange, ...] = ()
    resource_counts: tuple[int, ...] = ()
    measurements: Mapping[str, tuple[GuardRailMeasurement, ...]] = field(default_factory=dict)


def build_decision_record(plan: Plan, limit_names: Iterable[str] = ()) -> DecisionRecord:
    """Build the record of a plan; of a failed plan, it has no figures."""
    measurements = {name: measure_limit(plan, name) for name in limit_names}
    record = DecisionRecord(
        impact=compute_impact(plan),
        named_lines=list_named_lines(plan),
        consequences=plan.impact.consequences,
        outside_changes=plan.impact.outside_changes,
        measurements=measurements,
    )
    if plan.errored:
        return record
    return replace(
        record,
        figures=build_decision(plan),
        parts=collect_impact(plan),
        resource_counts=count_resource_changes(plan),
    )


def sum_impact_parts(parts: Sequence[ImpactParts]) -> ImpactParts:
    """Return the numbers of several plans; clauses with names are lines of their own."""
    return ImpactParts(
        counts=sum_effects(chain.from_iterable(part.counts for part in parts)),
        waiting=sum_effects(chain.from_iterable(part.waiting for part in parts)),
        unpredicted=sum(part.unpredicted for part in parts),
        clusters=sum(part.clusters for part in parts),
        has_upgrades=any(part.has_upgrades for part in parts),
    )
