"""Tiles of the page: moves, spare capacity and risks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.levels import Impact
from nexusform.diagnostics.phrases import compute_natural_key, format_count, format_first
from nexusform.placement_kinds.kinds import VM, get_noun
from nexusform.plans.impact.effects import (
    Effect,
    count_effects,
    count_objects,
    format_effect_clauses,
    select_rows_outside_upgrades,
)
from nexusform.plans.plan import PlacementAction, Plan
from nexusform.rendering.notation.markup import Markup, Part, build_breakable_name, build_element
from nexusform.rendering.report.availability_losses import describe_lost_vms
from nexusform.rendering.report.capacity_table import SiteSummary, summarize_sites
from nexusform.rendering.report.overview import Overview, describe_destroyed
from nexusform.rendering.report.placement_rows import OUTCOMES
from nexusform.rendering.report.plan_report import Report
from nexusform.rendering.report.summary_sentences import describe_capacity

_MAX_NAMES: Final = 3
_MAX_LARGE_LENGTH: Final = 60  # letters; longer texts use the font size of sentences


class Tile(Struct, frozen=True):
    """A tile with a title, a large text and further text. `kind` is its colour."""

    title: str
    large_text: str
    text: str
    kind: str
    link: str = ""


def build_tiles(plan: Plan, report: Report, overview: Overview) -> Part:
    """Build the tiles; None for a failed or unchanged plan."""
    if report.is_errored or not report.has_changes:
        return None
    tiles = [
        _build_moves_tile(plan, report, overview),
        *_build_capacity_tiles(plan),
        _build_risk_tile(plan, report, overview),
    ]
    return build_element("div", [_render_tile(tile) for tile in tiles], class_="tiles")


def _render_tile(tile: Tile) -> Markup:
    text: Part = build_breakable_name(tile.text)
    if tile.link and tile.text:
        text = build_element("a", text, href=tile.link)
    size = "large" if len(tile.large_text) <= _MAX_LARGE_LENGTH else "large sentence"
    return build_element(
        "section",
        build_element("h2", tile.title),
        build_element("p", build_breakable_name(tile.large_text), class_=size),
        build_element("p", text) if tile.text else None,
        class_=f"tile {tile.kind}",
    )


def _build_moves_tile(plan: Plan, report: Report, overview: Overview) -> Tile:
    """Build a tile such as `24 VMs moved` over `191 VMs kept`: disruptions first, then placed objects, then
    kept ones.
    """
    # With several kinds, the first summary is the total.
    disruptive = describe_lost_vms(plan)
    placed: list[str] = []
    kept: list[str] = []
    for summary in report.summaries[1:] or report.summaries:
        noun = get_noun(summary.effects[0].kind if summary.effects else VM)
        for count, outcome in summary.outcomes:
            if count:
                texts = placed if outcome == OUTCOMES[Effect.PLACED] else kept
                texts = disruptive if outcome in summary.disruptive_outcomes else texts
                texts.append(f"{format_count(count, noun)} {outcome}")
    title = "Moves if applied" if overview.rejection else "Moves"
    cluster_note = _describe_touched(plan)
    if disruptive:
        return Tile(title, disruptive[0], ", ".join([*disruptive[1:], *placed, *kept]) + cluster_note, "look")
    if placed:
        title = "New if applied" if overview.rejection else "New"
        return Tile(title, placed[0], ", ".join([*placed[1:], *kept, "nothing moves"]) + cluster_note, "allowed")
    return Tile(title, "nothing", ", ".join(kept) + cluster_note, "allowed")


def _describe_touched(plan: Plan) -> str:
    """Return `. Affected: c37` with the clusters of changed VMs if there are very many clusters."""
    names = {pool.cluster for site in plan.sites for pool in site.pools}
    vms = [row for row in plan.placements if row.kind == VM and row.action is not PlacementAction.KEEP]
    clusters = sorted({row.cluster for row in vms}, key=compute_natural_key)
    return f". Affected: {format_first(clusters, _MAX_CLUSTERS)}." if clusters and len(names) > _MIN_CLUSTERS else ""


def _build_capacity_tiles(plan: Plan) -> list[Tile]:
    """Build a tile of the spare capacity on the site with the largest loss."""
    sites = [site for site in summarize_sites(plan.capacity) if site.after is not None]
    changed_sites = [site for site in sites if site.before != site.after] or sites
    if not changed_sites:
        return []
    site = max(changed_sites, key=_compute_loss)
    amount, _, remainder = describe_capacity(site).partition(" x ")
    other_count = len(changed_sites) - 1
    other_note = f" {format_count(other_count, 'more site')} below." if other_count else ""
    return [
        Tile(
            f"Spare capacity on {site.name}",
            amount,
            f"x {remainder}{other_note}",
            "look" if _compute_loss(site) > 0 else "allowed",
        )
    ]


def get_capacity_heading(plan: Plan) -> str:
    """Return the title of the capacity tile, or "" without one."""
    return next((tile.title for tile in _build_capacity_tiles(plan)), "")


def _compute_loss(site: SiteSummary) -> int:
    """Compute the decrease of spare capacity in VMs."""
    if site.before is None or site.after is None:
        return 0
    return site.before.largest.free_interval.minimum - site.after.largest.free_interval.minimum


_MIN_CLUSTERS: Final = 16  # clusters
_MAX_CLUSTERS: Final = 3
_IMPACT_CLASSES: Final = {Impact.NONE: "allowed", Impact.MOVES: "look", Impact.LOSES: "caution"}


def _build_risk_tile(plan: Plan, report: Report, overview: Overview) -> Tile:
    """Build a tile of the failures and the impact of the plan, the most severe first."""
    risks = [
        *overview.weakened_rules,
        *overview.availability_losses,
        *format_effect_clauses(report.summaries[0].effects, _LOSS_EFFECTS),
    ]
    risks += [overview.first_warning] if overview.first_warning else []
    findings = ", ".join(overview.finding_counts)
    link = "#diagnostics" if overview.finding_counts else ""
    kind = _IMPACT_CLASSES[overview.impact]
    if overview.rejection:
        large_text, details, kind = (
            "denied",
            [f"by {overview.rejection}", *overview.guard_rail_violations, *risks],
            "denied",
        )
    elif risks:
        large_text, details = risks[0], risks[1:]
        kind = "look" if kind == "allowed" else kind
    else:
        large_text, details = _describe_no_risk(plan), []
    return Tile("Impact", large_text, _join_texts([*details, findings]), kind, link)


_LOSS_EFFECTS: Final = (Effect.REMOVED, Effect.LOST, Effect.UNPLACED, Effect.FORGOTTEN)


def _describe_no_risk(plan: Plan) -> str:
    """Return the text of the risk tile without losses."""
    if plan.to_destroy:
        return describe_destroyed(plan)
    if count_objects(count_effects(select_rows_outside_upgrades(plan)), Effect.MOVED, Effect.RECREATED):
        return "moved VMs are down while re-created"
    if not plan.upgrades:
        return "no running workload affected"
    pools_without_surge = [
        f"{upgrade.cluster}/{pool.pool}" for upgrade in plan.upgrades for pool in upgrade.pools if not pool.surges
    ]
    if pools_without_surge:
        return f"nodes of {format_first(pools_without_surge, _MAX_NAMES)} are down while re-created"
    return "rolling surge: capacity never drops"


def _join_texts(texts: Sequence[str]) -> str:
    return "; ".join(text.rstrip(".") for text in texts if text)
