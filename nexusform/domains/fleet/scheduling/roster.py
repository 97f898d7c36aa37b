"""The fleet's members in name order, indexed so that a rule decides on all of them at once; and a
placement's bindings (`Holdings`) as sets of these members.

A set of members is an integer, its bits numbered by name order: member i is `1 << i`. Hence the highest
bit of a set is its largest name, which is how KubeFleet breaks ties. What rules work out (who has a
label, a property's values) is remembered for as long as the roster lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    BindingAction,
    BindingChange,
    BindingState,
    Cause,
    Member,
)
from nexusform.kubernetes.matching import (
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

    def remember(self, question: Any, work_out: Callable[[], T]) -> T:
        """The answer to `what` (hashable), worked out the first time only."""
        if question not in self._known:
            self._known[question] = work_out()
        answer: T = self._known[question]
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
                by_value = members_by_label.setdefault(key, {})
                by_value[value] = by_value.get(value, 0) | 1 << i
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
        """The members that a selector selects, or why it cannot be read."""
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
        """The members that fulfil one requirement."""
        by_value = self.labelled.get(requirement.key, {})
        accepted = {*requirement.values}
        with_key, with_value = 0, 0
        for value, members in by_value.items():
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


class Holdings:
    """Bindings by cluster, and as sets of members by class.

    The classes, in the order of the test: deleting (dropped), unscheduled, dangling (its cluster is gone
    or leaving: marked Unscheduled at once), obsolete, scheduled, bound. Health is not looked at.
    """

    def __init__(self, prior: Iterable[Binding], roster: Roster, snapshot: int) -> None:
        self.roster = roster
        self.snapshot = snapshot
        self.changes: list[BindingChange] = []
        self.by_cluster: dict[str, Binding] = {}
        self.scheduled: Mask = 0
        self.bound: Mask = 0
        self.obsolete: Mask = 0
        self.unscheduled: Mask = 0
        for binding in prior:
            self._classify(binding)

    def _classify(self, binding: Binding) -> None:
        """Sort a binding by its state, its snapshot and whether its cluster is still there."""
        cluster = binding.cluster
        if binding.deleting:
            self.changes.append(BindingChange(cluster, BindingAction.DROPPED, Cause.DELETED))
            return
        self.by_cluster[cluster] = binding
        position = self.roster.position.get(cluster)
        if binding.state is BindingState.UNSCHEDULED:
            self.unscheduled |= 0 if position is None else 1 << position
        elif position is None or self.roster.members[position].leaving:
            self._mark_unscheduled(cluster, Cause.CLUSTER_LEFT)
        elif binding.policy_snapshot != self.snapshot:
            self.obsolete |= 1 << position
        elif binding.state is BindingState.SCHEDULED:
            self.scheduled |= 1 << position
        else:
            self.bound |= 1 << position

    @property
    def current(self) -> Mask:
        """Members held under the present policy snapshot."""
        return self.scheduled | self.bound

    @property
    def standing(self) -> Standing:
        """What rules may look at."""
        return Standing(self.current, self.obsolete)

    def at(self, position: int) -> Binding:
        """The binding on a member."""
        return self.by_cluster[self.roster.members[position].name]

    def missing_previous_state(self, position: int) -> bool:
        """Whether an unscheduled binding there cannot be recovered."""
        return bool(self.unscheduled >> position & 1) and self.at(position).previous_state is None

    def hold(self, position: int, affinity: int | None, spread: int | None) -> BindingAction:
        """Bind a picked member: keep an obsolete binding, recover an unscheduled one, or make one."""
        name = self.roster.members[position].name
        bit = 1 << position
        change, state, resources = BindingAction.CREATED, BindingState.SCHEDULED, None
        standing = self.by_cluster.get(name)
        if standing is not None and self.obsolete & bit:
            change, state = BindingAction.REPOINTED, standing.state
            resources = standing.resource_snapshot
        elif standing is not None and self.unscheduled & bit:
            change, state = BindingAction.RECOVERED, standing.previous_state or BindingState.SCHEDULED
            resources = standing.resource_snapshot
        self.obsolete &= ~bit
        self.unscheduled &= ~bit
        if state is BindingState.BOUND:
            self.bound |= bit
        else:
            self.scheduled |= bit
        self.by_cluster[name] = Binding(name, state, self.snapshot, affinity, spread, None, resources)
        self.changes.append(BindingChange(name, change, Cause.PICKED))
        return change

    def release(self, position: int, cause: Cause) -> None:
        """Mark a member's binding Unscheduled."""
        bit = 1 << position
        self.scheduled &= ~bit
        self.bound &= ~bit
        self.obsolete &= ~bit
        self.unscheduled |= bit
        self._mark_unscheduled(self.roster.members[position].name, cause)

    def _mark_unscheduled(self, cluster: str, cause: Cause) -> None:
        binding = self.by_cluster[cluster]
        self.by_cluster[cluster] = replace(
            binding, state=BindingState.UNSCHEDULED, previous_state=binding.state
        )
        self.changes.append(BindingChange(cluster, BindingAction.UNSCHEDULED, cause))

    def bindings(self) -> tuple[Binding, ...]:
        """All bindings that remain, in name order."""
        return tuple(self.by_cluster[cluster] for cluster in sorted(self.by_cluster))
