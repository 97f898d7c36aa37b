"""What a plan does on one site, in rows that are the same for sites with which the same happens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from nexusform.placement_kinds.kinds import noun_of
from nexusform.plans.impact.effects import Effect, effect_counts, verb_of
from nexusform.plans.plan import Action, PlacementAction, Plan
from nexusform.ports import Registries
from nexusform.rendering.notation.colours import harmless
from nexusform.rendering.report.object_rows import object_folds
from nexusform.rendering.report.report import schema_lookup
from nexusform.words import counted, form

HERE: Final = "SITE"  # stands for the site's name
_SYMBOLS: Final = {Action.CREATE: "+", Action.DELETE: "-"}


def site_rows(plan: Plan, site: str, registries: Registries) -> tuple[str, ...]:
    """A row for each run of alike objects, for the outputs, and for each kind of thing that is placed."""
    rows: list[str] = []
    for fold in object_folds(plan, schema_lookup(registries)):
        words = ", ".join(word for word in (fold.name, *fold.words) if word)
        rows.append(f"{fold.symbol or '>'} {fold.label}: {words}" if words else f"{fold.symbol} {fold.label}")
    rows += _output_rows(plan)
    rows += _placement_rows(plan)
    return tuple(neutral(harmless(row), site) for row in rows)


def _output_rows(plan: Plan) -> Iterable[str]:
    """Outputs by name: their values may be secret, and differ by site."""
    for output in plan.outputs:
        if output.action is not Action.NO_OP:
            yield f"{_SYMBOLS.get(output.action, '~')} output {output.name}"


def _placement_rows(plan: Plan) -> Iterable[str]:
    """What becomes of VMs, bindings and pods, in figures."""
    for each in effect_counts(plan.placements):
        if each.effect is not Effect.KEPT:
            noun = counted(each.count, noun_of(each.kind))
            yield f"{noun} {verb_of(each.effect, each.state, each.count)}"


def neutral(text: str, site: str) -> str:
    """The text with SITE in place of the site's name where that stands as a word."""
    return re.sub(rf"(?<![A-Za-z0-9_]){re.escape(site)}(?![A-Za-z0-9_])", HERE, text)


def placement_figures(plan: Plan) -> dict[str, int]:
    """How many VMs, bindings and pods are placed, move and are removed, as guard rails count: what loses its
    machine counts as moved, and what is forgotten as removed.
    """
    counts = Counter(row.action for row in plan.placements)
    lost, forgotten = counts[PlacementAction.LOSE], counts[PlacementAction.FORGET]
    return {
        "placed": counts[PlacementAction.PLACE],
        "moved": counts[PlacementAction.MOVE] + lost,
        "removed": counts[PlacementAction.REMOVE] + forgotten,
        "lost": lost,
        "forgotten": forgotten,
    }


def redundancy_lost(plan: Plan) -> tuple[str, ...]:
    """Pools whose VMs stand on several racks before the plan, and all on one after it."""
    lost: list[str] = []
    for site in plan.sites:
        for pool in site.pools:
            before = {vm.placement.rack for vm in pool.before}
            after = [vm.placement.rack for vm in pool.after]
            if len(before) > 1 and len(after) > 1 and len(set(after)) == 1:
                words = f"all {counted(len(after), 'VM')} of it {form(len(after), 'is', 'are')} on {after[0]}"
                lost.append(f"{pool.cluster}/{pool.pool}: {words}")
    return tuple(lost)
