"""Which sites wait for which: a site that reads the state of another comes after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nexusform.diagnostics import Diagnostic, error
from nexusform.domains.sites.types.definition import FleetDefinition
from nexusform.domains.sites.types.work import Answer


def sites_before(answers: Sequence[Answer]) -> dict[str, tuple[str, ...]]:
    """For each site the others whose states its plan was made from."""
    owners = {answer.state: answer.site for answer in answers if answer.state}
    before: dict[str, tuple[str, ...]] = {}
    for answer in answers:
        others = {owners[state] for state in answer.reads if state in owners} - {answer.site}
        if others:
            before[answer.site] = tuple(sorted(others))
    return before


def order_problems(definition: FleetDefinition, before: Mapping[str, Sequence[str]]) -> list[Diagnostic]:
    """One error for sites that wait for each other, and one for each that waits for a later wave."""
    spans = {site.name: site.span for site in definition.sites}
    waves = {site.name: site.wave for site in definition.sites}
    turns = {wave.name: turn for turn, wave in enumerate(definition.waves)}
    cycle = _cycle(before)
    if cycle:
        chain = " -> ".join(f'"{name}"' for name in (*cycle, cycle[0]))
        detail = f"These sites read each other's states, so that none can come first: {chain}."
        return [error("cycle", detail, spans[cycle[0]])]
    return [
        error(
            "site-waits-for-a-later-wave",
            f'The site "{name}" (wave "{waves[name]}") reads the state of "{other}", which is applied later, '
            f'in the wave "{waves[other]}". Put it into that wave or a later one.',
            spans[name],
        )
        for name, others in before.items()
        for other in others
        if turns[waves[other]] > turns[waves[name]]
    ]


def _cycle(before: Mapping[str, Sequence[str]]) -> list[str]:
    """Sites that wait for each other in a ring, the first by name first; [] when there are none."""
    waiting = {name: set(others) for name, others in before.items()}
    while True:
        free = [name for name, others in waiting.items() if not others & waiting.keys()]
        if not free:
            break
        for name in free:
            del waiting[name]
    if not waiting:
        return []
    ring = [min(waiting)]
    while True:
        following = min(waiting[ring[-1]] & waiting.keys())
        if following in ring:
            return ring[ring.index(following) :]
        ring.append(following)


def rounds(names: Sequence[str], before: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The sites of a wave in rounds: each after those of the wave that it waits for."""
    left = list(names)
    ordered: list[list[str]] = []
    while left:
        ready = [name for name in left if not set(before.get(name, ())) & set(left)]
        ordered.append(ready or left)  # a ring was refused when it was planned
        left = [name for name in left if name not in set(ordered[-1])]
    return ordered
