"""Filters, one after the other: who passes, and which rule refused each of the others first."""

from __future__ import annotations

from itertools import takewhile

from msgspec import Struct

from nexusform.scheduling.fleet import profile
from nexusform.scheduling.fleet.model import Abort, Ask
from nexusform.scheduling.fleet.profile import Filter
from nexusform.scheduling.fleet.roster import Mask, Roster, Standing
from nexusform.scheduling.fleet.rules import same_placement_affinity


class Screening(Struct, frozen=True):
    """The members that pass, and by rule those that it was the first to refuse.

    A member that the placement already holds is neither, when nothing before that rule refuses it.
    """

    passing: Mask
    refused: tuple[tuple[Filter, Mask], ...]

    @property
    def filtered(self) -> Mask:
        """The members that KubeFleet calls filtered out."""
        return sum(members for rule, members in self.refused if rule.plugin != same_placement_affinity.PLUGIN)

    def first_refusal(self, position: int) -> Filter | None:
        """The rule that refused a member first."""
        return next((rule for rule, members in self.refused if members >> position & 1), None)


def screen(ask: Ask, roster: Roster, standing: Standing) -> Screening | Abort:
    """Run every filter. What the rules that look at members alone say is worked out once per question."""
    steady = tuple(takewhile(lambda rule: rule.steady, profile.FILTERS))
    moving = profile.FILTERS[len(steady) :]
    start = roster.remember(
        ("screened", ask), lambda: _run(steady, Screening(roster.everyone, ()), ask, roster, Standing())
    )
    return start if isinstance(start, Abort) else _run(moving, start, ask, roster, standing)


def _run(
    rules: tuple[Filter, ...], start: Screening, ask: Ask, roster: Roster, standing: Standing
) -> Screening | Abort:
    passing, refused = start.passing, list(start.refused)
    for rule in rules:
        admitted = rule.admitted(ask, roster, standing)
        if isinstance(admitted, Abort):
            return admitted
        out = passing & ~admitted
        if out:
            refused.append((rule, out))
            passing &= admitted
    return Screening(passing, tuple(refused))
