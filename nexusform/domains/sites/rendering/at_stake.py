"""What the plans of all sites put at stake, and what they find, folded: as heavy here as in each plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from nexusform.domains.sites.rendering.names import names_text
from nexusform.domains.sites.rendering.site_rows import neutral
from nexusform.domains.sites.types.fleet_plan import FleetPlan, PlannedSite
from nexusform.domains.sites.types.work import Answer, Status, Trouble
from nexusform.plans.impact.effects import LEAVING, Effect, EffectCount, effect_clauses
from nexusform.rendering.answers.outline import Section
from nexusform.weights import Level, Stake
from nexusform.words import counted, form

_LOSSES: Final = (Effect.LOST, Effect.UNPLACED, Effect.REMOVED, Effect.FORGOTTEN)
_SHOWN: Final = {Level.WARNING: "!", Level.ADVICE: "i"}
_NOT_PLANNED: Final = (Status.REFUSED, Status.FAILED, Status.SKIPPED)


def fleet_stake(plan: FleetPlan) -> Stake:
    """What is at stake in the plan of all sites: as much as in the one that loses most."""
    stakes = [site_stake(site.answer) for site in plan.sites]
    if plan.undeclared:
        stakes.append(Stake.MOVES)
    return max(stakes, key=lambda stake: stake.order, default=Stake.NOTHING)


def site_stake(answer: Answer) -> Stake:
    """What is at stake on one site."""
    return Stake.LOSES if answer.redundancy_lost or answer.status in _NOT_PLANNED else answer.stake


def site_level(answer: Answer) -> Level:
    """How much a site's plan weighs: as much as the heaviest thing that it causes."""
    levels = [Level(trouble.level) for trouble in answer.troubles if not trouble.held_before]
    if answer.status in _NOT_PLANNED:
        levels.append(Level.ERROR)
    if site_stake(answer) is Stake.LOSES:
        levels.append(Level.WARNING)
    return heaviest(levels)


def heaviest(levels: Iterable[Level]) -> Level:
    """The heaviest of these weights; a note when there is none."""
    return min(levels, key=lambda level: level.order, default=Level.NOTE)


def losses(answer: Answer) -> tuple[str, ...]:
    """What one site loses, a clause each."""
    return (*effect_clauses(answer.leaving, _LOSSES), *answer.at_stake)


# --- in words ----------------------------------------------------------------------------------


def leaving_clauses(sites: Iterable[PlannedSite]) -> list[str]:
    """`4 VMs are removed on 2 sites`, for each thing that becomes of what runs, over all sites."""
    totals: Counter[tuple[Effect, str, str]] = Counter()
    touched: Counter[Effect] = Counter()
    for site in sites:
        for each in site.answer.leaving:
            totals[each.effect, each.kind, each.state] += each.count
        touched.update({each.effect for each in site.answer.leaving})
    counts = [EffectCount(kind, effect, state, count) for (effect, kind, state), count in totals.items()]
    return [
        f"{' and '.join(effect_clauses(counts, [effect]))} on {counted(touched[effect], 'site')}"
        for effect in LEAVING
        if touched[effect]
    ]


def stake_sections(sites: Sequence[PlannedSite], most: int) -> Iterable[Section]:
    """What sites lose, each once for all sites of which it is true."""
    by_loss: dict[str, list[str]] = {}
    for site in sites:
        text = "; ".join(losses(site.answer))
        if text and site.answer.status not in _NOT_PLANNED:
            by_loss.setdefault(neutral(text, site.name), []).append(site.name)
    if by_loss:
        count = sum(len(names) for names in by_loss.values())
        title = f"Warning: {counted(count, 'site')} {form(count, 'loses', 'lose')} something that runs"
        yield Section(title, _lines(by_loss, most))


def findings_sections(sites: Sequence[PlannedSite], most: int) -> Iterable[Section]:
    """Warnings and advice that plans cause; what held before is a line."""
    by_text: dict[tuple[int, str], list[str]] = {}
    held: set[str] = set()
    for site in sites:
        if site.answer.status in _NOT_PLANNED:
            continue  # its reason says why
        for trouble in site.answer.troubles:
            mark = _SHOWN.get(Level(trouble.level))
            if trouble.held_before:
                held.add(site.name)
            elif mark is not None:
                key = (Level(trouble.level).order, f"{mark} {neutral(_words(trouble), site.name)}")
                by_text.setdefault(key, []).append(site.name)
    lines = {text: list(dict.fromkeys(by_text[order, text])) for order, text in sorted(by_text)}
    told = [f"{text}: {names_text(names)}" for text, names in lines.items()]
    left = (f"{counted(len(told) - most, 'more finding')}: -json has all.",) if len(told) > most else ()
    standing = (f"{counted(len(held), 'site')}: findings that were there before.",) if held else ()
    if told or standing:
        yield Section("Warnings and advice", (*told[:most], *left, *standing))


def _words(trouble: Trouble) -> str:
    return f"{trouble.summary.removeprefix(f'{trouble.id}: ')} ({trouble.id})"


def _lines(by_text: dict[str, list[str]], most: int) -> tuple[str, ...]:
    """`lon1, par1: TEXT`, the commonest first."""
    told = sorted(by_text.items(), key=lambda pair: -len(pair[1]))
    lines = [f"{names_text(names)}: {text}" for text, names in told[:most]]
    left = len(told) - most
    return (*lines, *((f"{counted(left, 'more such row')}: -json has all.",) if left > 0 else ()))
