"""What the short plan says, format-neutral: objects, outputs, places, entries and the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.placement_kinds.kinds import VM, brief_place
from nexusform.plans.plan import Action, Mode, PlacementAction, Plan, PredictionScore
from nexusform.ports import Registries
from nexusform.rendering.report import wording
from nexusform.rendering.report.difference_tree import Difference
from nexusform.rendering.report.entries import Entries, plan_entries
from nexusform.rendering.report.folding import SitePools, names_text, site_pools
from nexusform.rendering.report.object_rows import ObjectFold, drift_folds, object_folds
from nexusform.rendering.report.overview import (
    condition_counts,
    denied_by,
    inventory_text,
)
from nexusform.rendering.report.placement_rows import (
    Detail,
    PlacementGroup,
    PlacementSummary,
    placement_groups,
    summaries,
)
from nexusform.rendering.report.plain_words import cells_not_told, room_of, scale_in_of, sure_of, upgrades_of
from nexusform.rendering.report.report import output_difference, rollouts_of, schema_lookup, shown_drift
from nexusform.rendering.report.room_table import SiteSummary, site_rooms
from nexusform.rendering.report.site_rows import SiteRow, site_rows
from nexusform.rendering.report.stakes import endangered, ending_rules
from nexusform.rendering.report.upgrade_words import upgrade_sentences
from nexusform.words import counted, form

if TYPE_CHECKING:  # few plans roll out anything
    from nexusform.rendering.report.rollout_rows import RolloutTable

MOST_SITES: Final = 6
INVENTORY: Final = "Inventory"  # a heading of the verdict
FEW_VMS: Final = 12  # that many new VMs are listed by machine beside the table


class ShortReport(Struct, frozen=True):
    """Everything that the short plan says.

    `verdict` are (heading, sentence) pairs; `worst` whether something in the sentence is bad. `plan_line` is
    "" where applying would change no object and no output; `unchanged` says so then, and what was compared.
    """

    mode: Mode
    errored: bool
    objects: tuple[ObjectFold, ...]
    outputs: tuple[Difference, ...]
    drift: tuple[ObjectFold, ...]
    pools: tuple[SitePools, ...]
    groups: tuple[PlacementGroup, ...]
    summaries: tuple[PlacementSummary, ...]
    entries: Entries
    verdict: tuple[tuple[str, str], ...]
    plan_line: str
    denied: bool
    tie_breaks: int
    placed: int
    rollouts: tuple[RolloutTable, ...] = ()
    sites: tuple[SiteRow, ...] = ()
    unchanged: tuple[str, str] = ("", "")


def short_report(plan: Plan, registries: Registries, detail: Detail) -> ShortReport:
    """The short report of a plan. Linear in the size of what changes."""
    schema_of = schema_lookup(registries)
    groups = placement_groups(plan, detail, brief_place)
    tables = [group.table for group in groups if group.table is not None]
    outputs = [output for output in plan.outputs if output.action is not Action.NO_OP]
    return ShortReport(
        mode=plan.mode,
        errored=plan.errored,
        objects=object_folds(plan, schema_of),
        outputs=tuple(output_difference(output) for output in outputs),
        drift=drift_folds(shown_drift(plan), schema_of),
        pools=site_pools(plan, tables),
        groups=_beside_tables(plan, groups, detail),
        summaries=summaries(plan),
        entries=plan_entries(plan),
        verdict=() if plan.errored else tuple(verdict_sentences(plan)),
        plan_line=wording.plan_line(plan) if plan.has_changes else "",
        denied=plan.denied,
        unchanged=wording.no_changes(plan),
        tie_breaks=plan.tie_breaks,
        placed=sum(table.placed for table in plan.placement_tables) if detail is not Detail.NONE else 0,
        rollouts=rollouts_of(plan) if detail is not Detail.NONE else (),
        sites=site_rows(plan) if any(row.changes for row in site_rows(plan)) else (),
    )


def _beside_tables(
    plan: Plan, groups: tuple[PlacementGroup, ...], detail: Detail
) -> tuple[PlacementGroup, ...]:
    """The groups with the lines that no table says: many new VMs stand there by pool and rack."""
    new_vms = sum(row.kind == VM and row.action is PlacementAction.PLACE for row in plan.placements)
    if new_vms <= FEW_VMS or detail is Detail.ALL:
        return groups
    shown: list[PlacementGroup] = []
    for group in groups:
        lines = group.lines
        if group.table is not None:
            lines = tuple(line for line in lines if line.trigger != "new")
        if lines:
            shown.append(replace(group, lines=lines))
    return tuple(shown)


# --- verdict -----------------------------------------------------------------------------------


def verdict_sentences(plan: Plan) -> list[tuple[str, str]]:
    """The closing lines: a heading and a sentence each, without those that have nothing to say."""
    sites = [site for site in site_rooms(plan.room) if site.after is not None]
    sentences = [
        *_rooms(sites),
        *upgrade_sentences(plan),
        ("Upgrades", _upgrades(sites)),
        ("Sure of", sure_of(plan)),
    ]
    sentences += [("NUMA cells", cells_not_told(plan.draws)), ("Scale-in", scale_in_of(plan))]
    sentences += [(f"Predictions on {score.site}", _score(score)) for score in plan.scores[:MOST_SITES]]
    sentences += [("Judged", judgement) for judgement in plan.judgements]
    sentences += _separations(plan)
    sentences += [("At stake", f"{text}.") for text in (*ending_rules(plan), *endangered(plan))]
    sentences += [("Conditions", _conditions(plan)), (INVENTORY, _inventory(plan))]
    denied = denied_by(plan)
    sentences.append(("Denied", f"by {denied}." if denied else ""))
    return [(heading, sentence) for heading, sentence in sentences if sentence]


def _score(score: PredictionScore) -> str:
    """As `297 of 299 judged VMs (99.3 %) stood where the rule puts them, 290 for sure, 599 not judged`."""
    claims = f"{wording.claims_text(score.claims)}." if score.claims is not None else ""
    if not (score.judged or score.not_judged):
        return claims
    left = f"{score.not_judged:,} not judged"
    if not score.judged:
        return f"nothing could be judged, {left}. {claims}".rstrip()
    share = _percent(score.hits / score.judged)
    sure = f"{score.sure:,} for sure, " if score.sure not in {None, score.hits} else ""
    chance = f"by chance {_percent(score.chance / score.judged)}, " if score.chance is not None else ""
    judged = f"{score.hits:,} of {score.judged:,} judged VMs"
    return f"{judged} ({share}) stood where the rule puts them, {sure}{chance}{left}. {claims}".rstrip()


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def _rooms(sites: list[SiteSummary]) -> list[tuple[str, str]]:
    """What is left on every site; of several, on those whose room changes."""
    changed = [site for site in sites if site.before != site.after]
    told = changed or sites
    shown = [(f"Room on {site.name}", room_of(site)) for site in told[:MOST_SITES]]
    if len(told) > MOST_SITES:
        shown.append(("Room", f"{len(told) - MOST_SITES} more sites: -report=html:FILE shows them."))
    kept = len(sites) - len(told)
    if kept:
        shown.append(("Room elsewhere", f"as before on {counted(kept, 'other site')}."))
    return shown


def _upgrades(sites: list[SiteSummary]) -> str:
    """Which clusters could not be upgraded."""
    without: list[str] = []
    unsure: list[str] = []
    for site in sites:
        if site.after is not None:
            without += site.after.no_surge
            unsure += site.after.unsure_surge
    return upgrades_of(sites, names_text(without), names_text(unsure))


def _separations(plan: Plan) -> list[tuple[str, str]]:
    """Each rule that does not hold in every outcome; the others together."""
    sentences = []
    kept = [verdict for verdict in plan.separation_rules if verdict.holds == "always"]
    for verdict in plan.separation_rules:
        if verdict in kept:
            continue
        shared = counted(len(verdict.violations), verdict.scope)
        runs = f" (in {verdict.held:,} of {verdict.runs:,} tie-breaks)" if verdict.runs else ""
        word = "is broken" if verdict.holds == "never" else "may be broken"
        sentences.append(f"{verdict.address} {word}{runs}: {shared} shared, {verdict.enforcement}.")
    if kept:
        names = names_text(f"{verdict.address.name}" for verdict in kept)
        most = max(verdict.runs for verdict in kept)
        where = f"in the plan and in {most} tie-breaks" if most else "in the plan"
        sentences.append(f"{names} {form(len(kept), 'holds', 'hold')}, {where}.")
    return [("Separation", sentence) for sentence in sentences]


def _inventory(plan: Plan) -> str:
    age = inventory_text(plan)
    return f"{age}." if age else ""


def _conditions(plan: Plan) -> str:
    """Conditions of a plan are held against what it predicts; nothing is said of them where all hold."""
    if all(check.status == "pass" for check in plan.checks):
        return ""
    texts = [f"{count:,} {verb}" for count, verb in condition_counts(plan)]
    return f"{', '.join(texts)}, as far as the plan predicts." if texts else ""
