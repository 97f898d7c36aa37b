"""The fleet's members in name order, indexed so that a rule decides on all of them at once.

A set of members is an integer, its bits numbered by name order: member i is `1 << i`. Hence the highest
bit of a set is its largest name, which is how KubeFleet breaks ties. What rules work out (who has a
label, a property's values) is remembered for as long as the roster lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, TypeVar

from msgspec import Struct

from nexusform.scheduling.fleet.model import Member
from nexusform.scheduling.matching import (
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    NOT_IN,
    LabelSelector,
    Requirement,
    Taint,
    selector_problems,
)

T = TypeVar("T")
Mask = int


class Roster:
    """Members by name, and what can be said of many of them at once. Treat it as frozen."""

    def __init__(self, members: Iterable[Member]) -> None:
        self.members: tuple[Member, ...] = tuple(sorted(members, key=lambda member: member.name))
        self.position = {member.name: i for i, member in enumerate(self.members)}
        self.everyone: Mask = (1 << len(self.members)) - 1
        self._known: dict[Any, Any] = {}

    def remember(self, what: Any, work_out: Callable[[], T]) -> T:
        """The answer to `what` (hashable), worked out the first time only."""
        if what not in self._known:
            self._known[what] = work_out()
        answer: T = self._known[what]
        return answer

    def where(self, test: Callable[[Member], bool]) -> Mask:
        """The members for which a test holds."""
        return sum(1 << i for i, member in enumerate(self.members) if test(member))

    @cached_property
    def labelled(self) -> dict[str, dict[str, Mask]]:
        """Label key -> value -> members."""
        members_by_label: dict[str, dict[str, Mask]] = {}
        for i, member in enumerate(self.members):
            for key, value in member.labels.items():
                values = members_by_label.setdefault(key, {})
                values[value] = values.get(value, 0) | 1 << i
        return members_by_label

    @cached_property
    def tainted(self) -> dict[tuple[Taint, ...], Mask]:
        """List of taints -> the members that have exactly these."""
        members_by_taints: dict[tuple[Taint, ...], Mask] = {}
        for i, member in enumerate(self.members):
            members_by_taints[member.taints] = members_by_taints.get(member.taints, 0) | 1 << i
        return members_by_taints

    def selected_by(self, selector: LabelSelector | None) -> Mask | str:
        """The members a label selector selects (None: all), or why it cannot be read."""
        if selector is None:
            return self.everyone
        return self.remember(("selected", selector), lambda: self._select(selector))

    def _select(self, selector: LabelSelector) -> Mask | str:
        problems = selector_problems(selector)
        if problems:
            return f"failed to parse label selector: {problems[0]}"
        selected = self.everyone
        for key, value in selector.match_labels:
            selected &= self.labelled.get(key, {}).get(value, 0)
        for requirement in selector.match_expressions:
            selected &= self._holding(requirement)
        return selected

    def _holding(self, requirement: Requirement) -> Mask:
        values = self.labelled.get(requirement.key, {})
        accepted = {*requirement.values}
        with_key, with_value = 0, 0
        for value, members in values.items():
            with_key |= members
            with_value |= members if value in accepted else 0
        answers = {
            IN: with_value,
            NOT_IN: self.everyone & ~with_value,
            EXISTS: with_key,
            DOES_NOT_EXIST: self.everyone & ~with_key,
        }
        return answers[requirement.operator]


class Standing(Struct, frozen=True):
    """What a placement already holds, as a rule sees it during one cycle.

    `current`: members with a scheduled or bound binding under the present policy snapshot;
    `obsolete`: members whose binding was made under an earlier one.
    """

    current: Mask = 0
    obsolete: Mask = 0


def ascending(mask: Mask) -> Iterator[int]:
    """Positions in a set, in name order."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def descending(mask: Mask) -> Iterator[int]:
    """Positions in a set, largest name first."""
    while mask:
        position = mask.bit_length() - 1
        yield position
        mask ^= 1 << position
