"""Format-neutral report of the short plan: objects, outputs, placements, entries and verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import format_count, select_form
from nexusform.interfaces.plugins import Registries
from nexusform.placement_kinds.kinds import VM, format_location_briefly
from nexusform.plans.plan import Action, Mode, PlacementAction, Plan, PredictionScore
from nexusform.rendering.report import wording
from nexusform.rendering.report.conditions import describe_conditions
from nexusform.rendering.report.decision_lines import DecisionLine, build_decision_lines
from nexusform.rendering.report.difference_tree import Difference
from nexusform.rendering.report.entries import Entries, build_entries
from nexusform.rendering.report.folding import SitePools, build_site_pools, format_names
from nexusform.rendering.report.object_rows import ObjectFold, build_drift_folds, build_object_folds
from nexusform.rendering.report.overview import count_conditions, describe_inventory
from nexusform.rendering.report.placement_rows import (
    Detail,
    PlacementGroup,
    PlacementSummary,
    build_placement_groups,
    build_summaries,
)
from nexusform.rendering.report.plan_report import build_rollouts, compare_output, create_schema_lookup, select_drift
from nexusform.rendering.report.site_rows import SiteRow, build_site_rows
from nexusform.rendering.report.summary_sentences import describe_scale_in, describe_unknown_cells
from nexusform.rendering.report.upgrade_sentences import build_upgrade_sentences

if TYPE_CHECKING:  # few plans have rollouts
    from nexusform.rendering.report.rollout_rows import RolloutTable

MAX_SITES: Final = 6
INVENTORY: Final = "Inventory"  # a heading of the verdict
MAX_LISTED_VMS: Final = 12  # up to this number, new VMs are listed by machine next to the table


class ShortReport(Struct, frozen=True):
    """All data of the short plan. `notes` are (heading, sentence) pairs. `plan_line` is "" if applying
    changes no object and no output; `comparison` then has the sentence and its detail.
    """

    mode: Mode
    is_errored: bool
    objects: tuple[ObjectFold, ...]
    outputs: tuple[Difference, ...]
    drift: tuple[ObjectFold, ...]
    pools: tuple[SitePools, ...]
    groups: tuple[PlacementGroup, ...]
    summaries: tuple[PlacementSummary, ...]
    entries: Entries
    notes: tuple[tuple[str, str], ...]
    decision: tuple[DecisionLine, ...]
    plan_line: str
    is_rejected: bool
    samples: int
    placed_vms: int
    rollouts: tuple[RolloutTable, ...] = ()
    sites: tuple[SiteRow, ...] = ()
    comparison: tuple[str, str] = ("", "")
    conditions: tuple[str, ...] = ()
    provider_titles: tuple[str, ...] = ()


def build_short_report(plan: Plan, registries: Registries, detail: Detail) -> ShortReport:
    """Build the short report of a plan. Linear in the size of the changes."""
    find_schema = create_schema_lookup(registries)
    groups = build_placement_groups(plan, detail, format_location_briefly)
    tables = [group.table for group in groups if group.table is not None]
    outputs = [output for output in plan.outputs if output.action is not Action.NO_OP]
    return ShortReport(
        mode=plan.mode,
        is_errored=plan.is_failed,
        objects=build_object_folds(plan, find_schema),
        outputs=tuple(compare_output(output) for output in outputs),
        drift=build_drift_folds(select_drift(plan), find_schema),
        pools=build_site_pools(plan, tables),
        groups=_select_unlisted_lines(plan, groups, detail),
        summaries=build_summaries(plan),
        entries=build_entries(plan),
        notes=() if plan.is_failed else tuple(build_notes(plan)),
        decision=build_decision_lines(plan) if _needs_decision(plan) else (),
        plan_line=wording.format_plan_line(plan) if plan.has_changes else "",
        is_rejected=plan.is_rejected,
        comparison=wording.describe_no_changes(plan),
        conditions=describe_conditions(plan),
        samples=plan.samples,
        placed_vms=sum(table.placed for table in plan.placement_tables) if detail is not Detail.NONE else 0,
        rollouts=build_rollouts(plan) if detail is not Detail.NONE else (),
        provider_titles=plan.provider_titles,
        sites=build_site_rows(plan) if any(row.has_changes for row in build_site_rows(plan)) else (),
    )


def _needs_decision(plan: Plan) -> bool:
    """Return whether there is anything to decide: a change, or a result that was requested."""
    return bool(plan.has_changes or plan.is_rejected or plan.guard_rails or plan.since)


def _select_unlisted_lines(
    plan: Plan, groups: tuple[PlacementGroup, ...], detail: Detail
) -> tuple[PlacementGroup, ...]:
    """Return the groups without lines already in a table. Many new VMs appear in a table by pool and rack."""
    new_vms = sum(row.kind == VM and row.action is PlacementAction.PLACE for row in plan.placements)
    if new_vms <= MAX_LISTED_VMS or detail is Detail.ALL:
        return groups
    selected_groups: list[PlacementGroup] = []
    for group in groups:
        lines = group.lines
        if group.table is not None:
            lines = tuple(line for line in lines if line.trigger != "new")
        if lines:
            selected_groups.append(replace(group, lines=lines))
    return tuple(selected_groups)


# --- notes -------------------------------------------------------------------------------------


def build_notes(plan: Plan) -> list[tuple[str, str]]:
    """Return pairs of heading and sentence about upgrades, samples, rules and inputs, without empty ones."""
    sentences = [
        *build_upgrade_sentences(plan),
        ("NUMA cells", describe_unknown_cells(plan.numa_sampling)),
        ("Scale-in", describe_scale_in(plan)),
    ]
    sentences += [
        (f"Predictions on {score.site}", _describe_accuracy(score)) for score in plan.prediction_scores[:MAX_SITES]
    ]
    sentences += [("Dry run", judgement) for judgement in plan.dry_run_messages]
    sentences += _describe_separations(plan)
    sentences += [("Conditions", _describe_conditions(plan)), (INVENTORY, _describe_inventory(plan))]
    return [(heading, sentence) for heading, sentence in sentences if sentence]


_GUESSES: Final = "This site does not follow the placement rule; the locations below are guesses."


def _describe_accuracy(score: PredictionScore) -> str:
    """Return a sentence about verified predictions: hits, share, certain hits and unverified VMs."""
    prediction_text = (
        f"{wording.format_prediction_accuracy(score.predictions)}." if score.predictions is not None else ""
    )
    if score.predictions is not None and score.predictions.is_no_better_than_chance:
        prediction_text = f"{_GUESSES} {prediction_text}"
    if not (score.verified_count or score.unverified_count):
        return prediction_text
    unverified = f"{score.unverified_count:,} not verified"
    if not score.verified_count:
        return f"no VM could be verified, {unverified}. {prediction_text}".rstrip()
    share = _format_percent(score.hits / score.verified_count)
    certain_text = f"{score.certain_hits:,} of them certain, " if score.certain_hits not in {None, score.hits} else ""
    chance = (
        f"by chance {_format_percent(score.random_hits / score.verified_count)}, "
        if score.random_hits is not None
        else ""
    )
    verified = f"{score.hits:,} of {score.verified_count:,} verified VMs"
    return (f"{verified} ({share}) run where predicted, {certain_text}{chance}{unverified}. {prediction_text}").rstrip()


def _format_percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def _describe_separations(plan: Plan) -> list[tuple[str, str]]:
    """Describe each rule violated in some outcome, then the other rules together."""
    sentences = []
    satisfied = [verdict for verdict in plan.separation_verdicts if verdict.satisfied == "always"]
    for verdict in plan.separation_verdicts:
        if verdict in satisfied:
            continue
        violation_count = format_count(len(verdict.violations), verdict.scope)
        runs = f" (in {verdict.satisfied_count:,} of {verdict.sample_count:,} samples)" if verdict.sample_count else ""
        verb = "is violated" if verdict.satisfied == "never" else "may be violated"
        sentences.append(f"{verdict.address} {verb}{runs}: {violation_count} shared, {verdict.enforcement}.")
    if satisfied:
        names = format_names(f"{verdict.address.name}" for verdict in satisfied)
        maximum_runs = max(verdict.sample_count for verdict in satisfied)
        scope = f"in the plan and in {maximum_runs} samples" if maximum_runs else "in the plan"
        sentences.append(f"{names} {select_form(len(satisfied), 'holds', 'hold')}, {scope}.")
    return [("Separation", sentence) for sentence in sentences]


def _describe_inventory(plan: Plan) -> str:
    age = describe_inventory(plan)
    return f"{age}." if age else ""


def _describe_conditions(plan: Plan) -> str:
    """Describe the predicted results of conditions; "" if all hold."""
    if all(check.status == "pass" for check in plan.checks):
        return ""
    texts = [f"{count:,} {verb}" for count, verb in count_conditions(plan)]
    return f"{', '.join(texts)} (predicted)." if texts else ""
