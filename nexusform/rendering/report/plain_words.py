"""What is sure of a plan, and what room it leaves, in words that anybody understands.

Draws, tie-breaks and shares of them are words of -details and explain.
"""

from __future__ import annotations

from typing import Final

from nexusform.plans.plan import Draws, Plan, all_decided
from nexusform.rendering.report.room_table import Moment, SiteSummary
from nexusform.scheduling.racks.uncertainty.splits import RULES
from nexusform.scheduling.racks.vms import Interval
from nexusform.words import counted, first_of, form

_MOST_NAMED: Final = 6


def sure_of(plan: Plan) -> str:
    """As `the number of VMs per rack for 168 of 215. Which machine: the platform decides`."""
    placed = sum(table.placed for table in plan.placement_tables)
    if not placed:
        return ""
    if all_decided(plan.placement_tables):
        return "every place, as it is decided here and not predicted."
    if not plan.tie_breaks:
        return "nothing: how sure places are was not computed (-tie-breaks)."
    racks = sum(table.racks_certain for table in plan.placement_tables)
    machines = sum(table.machines_certain for table in plan.placement_tables)
    if not racks:
        return "no number of VMs per rack: the platform decides where they go."
    counts = f"the number of VMs per rack for {_share(racks, placed)}"
    if not machines:
        return f"{counts}. Which machine: the platform decides."
    if machines == placed:
        return f"{counts}, and the machine of each."
    return f"{counts}, the machine for {machines:,}. The rest the platform decides."


def _share(part: int, whole: int) -> str:
    return f"all {whole:,}" if part == whole and whole > 2 else f"{part:,} of {whole:,}"


def room_of(site: SiteSummary) -> str:
    """As `46 more of your largest VM (NC_P46_224_v1), 37 if any one rack is lost (before: 46 and 37)`."""
    assert site.after is not None, "sites that stand"
    free, lost = _figures(site.after)
    largest = f"your largest VM ({site.sku})"
    if not free.most:
        text = f"not one more of {largest}"
    else:
        text = f"{_amount(free)} more of {largest}, {_amount(lost)} if any one rack is lost"
    if site.before is None or _figures(site.before) == (free, lost):
        return f"{text}."
    free_before, lost_before = _figures(site.before)
    return f"{text} (before: {_amount(free_before)} and {_amount(lost_before)})."


def _figures(moment: Moment) -> tuple[Interval, Interval]:
    return moment.largest.fitting, moment.largest.fitting_with_a_rack_lost


def _amount(count: Interval) -> str:
    """`46`; where only bounds are known, both."""
    if count.exact:
        return f"{count.least:,}"
    return f"{count.least:,} or {count.most:,}" if count.most == count.least + 1 else f"{count}"


def upgrades_of(sites: list[SiteSummary], names: str, unsure_names: str) -> str:
    """Which clusters have no room to be upgraded, and which may have none."""
    moments = [site.after for site in sites if site.after is not None]
    clusters = sum(len(moment.clusters) for moment in moments)
    without = sum(len(moment.no_surge) for moment in moments)
    unsure = sum(len(moment.unsure_surge) for moment in moments)
    if not clusters:
        return ""
    if not without and not unsure:
        return "every cluster has room for one."
    clauses: list[str] = []
    if without:
        clauses.append(f"{names} {form(without, 'has', 'have')} no room for one")
    if unsure:
        why = "the site does not tell which NUMA cells are taken"
        clauses.append(f"{unsure_names} may have no room for one ({why})")
    others = clusters - without - unsure
    if others:
        clauses.append(f"the other {counted(others, 'cluster')} {form(others, 'has', 'have')}")
    return f"{'; '.join(clauses)}."


def cells_not_told(draws: Draws | None) -> str:
    """What hangs on NUMA cells that a site does not tell."""
    if draws is None:
        return ""
    unknown = f"the site does not tell which are taken on {counted(draws.machines, 'machine')}"
    if not draws.runs:
        return f"{unknown}, and how VMs may lie there was not tried."
    rule = RULES.get(str(draws.shown))
    if rule is not None:
        return f"{unknown}. Everything fits {rule}, and in {draws.fitting:,} of {draws.runs:,} other ways."
    tried = f"of the {draws.runs:,} ways that were tried"
    ways = f"each {tried}" if draws.fitting == draws.runs else f"{draws.fitting:,} {tried}"
    return f"{unknown}. Everything fits in {ways}."


def scale_in_of(plan: Plan) -> str:
    """The worst that a platform which chooses for itself can leave of the pools that shrink."""
    worst = [
        f"{table.fewest_left_on_a_rack:,} of {table.cluster}/{table.pool}"
        for table in plan.placement_tables
        if table.fewest_left_on_a_rack is not None
    ]
    if not worst:
        return ""
    return (
        f"the platform chooses which VMs go; at worst it leaves a rack with {first_of(worst, _MOST_NAMED)}."
    )
