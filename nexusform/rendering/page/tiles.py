"""The three things that a reviewer asks first: what moves, what room is left, what is at risk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from nexusform.placement_kinds.kinds import VM, noun_of
from nexusform.plans.impact.effects import Effect, beside_upgrades, effect_clauses, effect_counts, number_of
from nexusform.plans.plan import PlacementAction, Plan
from nexusform.rendering.notation.markup import Markup, Part, breakable, element
from nexusform.rendering.report.overview import Overview, destroyed_clause
from nexusform.rendering.report.placement_rows import OUTCOMES
from nexusform.rendering.report.plain_words import room_of
from nexusform.rendering.report.report import Report
from nexusform.rendering.report.room_table import SiteSummary, site_rooms
from nexusform.rendering.report.stakes import lost_clauses
from nexusform.weights import Stake
from nexusform.words import counted, first_of, natural

_OF: Final = " more of "
_MOST_NAMED: Final = 3
_AT_A_GLANCE: Final = 60  # letters that are read from afar; longer texts are written as sentences are


class Tile(Struct, frozen=True):
    """A title, what is read from afar, and the words that belong to it. `kind` is its colour."""

    title: str
    large: str
    words: str
    kind: str
    link: str = ""


def tiles_part(plan: Plan, report: Report, overview: Overview) -> Part:
    """The tiles; nothing of a plan in error, of which none of this is known."""
    if report.errored or not report.has_changes:
        return None
    tiles = [_what_happens(plan, report, overview), *_room(plan), _risk(plan, report, overview)]
    return element("div", [_drawn(tile) for tile in tiles], class_="tiles")


def _drawn(tile: Tile) -> Markup:
    words: Part = breakable(tile.words)
    if tile.link and tile.words:
        words = element("a", words, href=tile.link)
    size = "large" if len(tile.large) <= _AT_A_GLANCE else "large sentence"
    return element(
        "section",
        element("h2", tile.title),
        element("p", breakable(tile.large), class_=size),
        element("p", words) if tile.words else None,
        class_=f"tile {tile.kind}",
    )


def _what_happens(plan: Plan, report: Report, overview: Overview) -> Tile:
    """`24 VMs moved` over `191 VMs kept`; where nothing leaves its place, that. What leaves its place is said
    first, then what comes, then what stays.
    """
    # The first is the total of several kinds.
    leaving = lost_clauses(plan)
    coming: list[str] = []
    staying: list[str] = []
    for summary in report.summaries[1:] or report.summaries:
        noun = noun_of(summary.effects[0].kind if summary.effects else VM)
        for count, words in summary.outcomes:
            if count:
                texts = coming if words == OUTCOMES[Effect.PLACED] else staying
                texts = leaving if words in summary.leaving else texts
                texts.append(f"{counted(count, noun)} {words}")
    title = "What would move" if overview.denied else "What moves"
    touched = _touched(plan)
    if leaving:
        return Tile(title, leaving[0], ", ".join([*leaving[1:], *coming, *staying]) + touched, "look")
    if coming:
        title = "What would come" if overview.denied else "What comes"
        return Tile(
            title, coming[0], ", ".join([*coming[1:], *staying, "nothing moves"]) + touched, "allowed"
        )
    return Tile(title, "nothing", ", ".join(staying) + touched, "allowed")


def _touched(plan: Plan) -> str:
    """`. Touched: c37`: the clusters whose VMs come, go or move, where there are very many."""
    names = {pool.cluster for site in plan.sites for pool in site.pools}
    vms = [row for row in plan.placements if row.kind == VM and row.action is not PlacementAction.KEEP]
    touched = sorted({row.cluster for row in vms}, key=natural)
    return f". Touched: {first_of(touched, _FEW)}." if touched and len(names) > _MANY else ""


def _room(plan: Plan) -> list[Tile]:
    """How many more VMs fit, on the site that loses most of its room."""
    sites = [site for site in site_rooms(plan.room) if site.after is not None]
    changed = [site for site in sites if site.before != site.after] or sites
    if not changed:
        return []
    site = max(changed, key=_loss)
    amount, is_split, words = room_of(site).partition(_OF)
    large, text = (amount, f"more of {words}") if is_split else ("0", amount)
    others = len(changed) - 1
    more = f" {counted(others, 'more site')} below." if others else ""
    return [Tile(f"Room on {site.name}", large, f"{text}{more}", "look" if _loss(site) > 0 else "allowed")]


def room_heading(plan: Plan) -> str:
    """What the tile of the room is called, which no line below it need say again; "" where there is none."""
    return next((tile.title for tile in _room(plan)), "")


def _loss(site: SiteSummary) -> int:
    """How many VMs fewer fit after the plan."""
    if site.before is None or site.after is None:
        return 0
    return site.before.largest.fitting.least - site.after.largest.fitting.least


_MANY: Final = 16  # clusters
_FEW: Final = 3
_KINDS: Final = {Stake.NOTHING: "allowed", Stake.MOVES: "look", Stake.LOSES: "caution"}


def _risk(plan: Plan, report: Report, overview: Overview) -> Tile:
    """What the plan makes fail, or what is at stake although it may be applied; what weighs most first."""
    dangers = [
        *overview.ending_rules,
        *overview.endangered,
        *effect_clauses(report.summaries[0].effects, _LOSSES),
    ]
    dangers += [overview.warned] if overview.warned else []
    findings = ", ".join(overview.findings)
    link = "#diagnostics" if overview.findings else ""
    kind = _KINDS[overview.stake]
    if overview.denied:
        large, words, kind = "denied", [f"by {overview.denied}", *overview.breaches, *dangers], "denied"
    elif dangers:
        large, words = dangers[0], dangers[1:]
        kind = "look" if kind == "allowed" else kind
    else:
        large, words = _unharmed(plan), []
    return Tile("What is at risk", large, _joined([*words, findings]), kind, link)


_LOSSES: Final = (Effect.REMOVED, Effect.LOST, Effect.UNPLACED, Effect.FORGOTTEN)


def _unharmed(plan: Plan) -> str:
    """What is to be said where nothing is lost."""
    if plan.to_destroy:
        return destroyed_clause(plan)
    if number_of(effect_counts(beside_upgrades(plan)), Effect.MOVED, Effect.AGAIN):
        return "what moves is away for a while"
    if not plan.upgrades:
        return "nothing that runs is touched"
    short = [
        f"{upgrade.cluster}/{pool.pool}"
        for upgrade in plan.upgrades
        for pool in upgrade.pools
        if not pool.surges
    ]
    if short:
        return f"nodes of {first_of(short, _MOST_NAMED)} are away for a while"
    return "no node is missing: new ones come before old ones leave"


def _joined(texts: Sequence[str]) -> str:
    return "; ".join(text.rstrip(".") for text in texts if text)
