"""Members of a fleet in name order, indexed for rules over sets of members.

`BindingTable` has a placement's bindings as such sets.

A set of members is an integer with bits in name order: member i is `1 << i`. The highest bit is the
largest name, KubeFleet's tie-break.
"""

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
    ChangeCause,
    Member,
)
from nexusform.kubernetes.matching import (
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    NOT_IN,
    LabelSelector,
    Taint,
    validate_selector,
)

T = TypeVar("T")
Mask = int


class MemberList:
    """Members by name, with cached sets.

    Treat it as frozen.
    """

    def __init__(self, members: Iterable[Member]) -> None:
        self.members: tuple[Member, ...] = tuple(sorted(members, key=lambda member: member.name))
        # bits of members in masks.
        self.positions = {member.name: i for i, member in enumerate(self.members)}
        # A 1 bit for each member.
        self.all_members: Mask = (1 << len(self.members)) - 1
        self._cache: dict[Any, Any] = {}

    def get_cached(self, key: Any, compute: Callable[[], T]) -> T:
        """Return the cached result for a hashable key, computed on first use."""
        if key not in self._cache:
            self._cache[key] = compute()
        result: T = self._cache[key]
        return result

    def select_members(self, test: Callable[[Member], bool]) -> Mask:
        """Return the bit mask of the members passing a test: bit 2 is the third member."""
        return sum(1 << i for i, member in enumerate(self.members) if test(member))

    @cached_property
    def members_by_label(self) -> dict[str, dict[str, Mask]]:
        """Bit masks of members by label key and value: bit 2 is the third member."""
        index: dict[str, dict[str, Mask]] = {}
        for position, member in enumerate(self.members):
            for key, value in member.labels.items():
                by_value = index.setdefault(key, {})
                by_value[value] = by_value.get(value, 0) | 1 << position
        return index

    @cached_property
    def members_by_taints(self) -> dict[tuple[Taint, ...], Mask]:
        """Bit masks of members by their exact list of taints: bit 2 is the third member."""
        index: dict[tuple[Taint, ...], Mask] = {}
        for position, member in enumerate(self.members):
            index[member.taints] = index.get(member.taints, 0) | 1 << position
        return index

    def select_by_labels(self, selector: LabelSelector | None) -> Mask | str:
        """Return the bit mask of the members matching a label selector, or the selector's error.

        The selector None matches all members.
        """
        if selector is None:
            return self.all_members
        return self.get_cached(("selected", selector), lambda: self._match_selector(selector))

    def _match_selector(self, selector: LabelSelector) -> Mask | str:
        """Return the mask of the members matching a selector, or its error.

        All labels and expressions must match, so their masks are combined by "and". The operators
        NotIn and DoesNotExist match members without the key, too.
        """
        problems = validate_selector(selector)
        if problems:
            return f"failed to parse label selector: {problems[0]}"
        selected = self.all_members
        for key, value in selector.match_labels:
            selected &= self.members_by_label.get(key, {}).get(value, 0)
        for requirement in selector.match_expressions:
            by_value = self.members_by_label.get(requirement.key, {})
            accepted_values = {*requirement.values}
            with_key = 0
            with_value = 0
            for value, members in by_value.items():
                with_key |= members
                with_value |= members if value in accepted_values else 0
            members_by_operator = {
                IN: with_value,
                NOT_IN: self.all_members & ~with_value,
                EXISTS: with_key,
                DOES_NOT_EXIST: self.all_members & ~with_key,
            }
            selected &= members_by_operator[requirement.operator]
        return selected


class BindingMasks(Struct, frozen=True):
    """Bindings of a placement as sets, input of rules in one cycle.

    `current` are members scheduled or bound under the present policy snapshot, `obsolete` are those
    bound under an earlier one.
    """

    current: Mask = 0
    obsolete: Mask = 0


def build_mask(positions: Iterable[int]) -> Mask:
    """Return the bit mask with a 1 at these positions: 0b101 for 0 and 2."""
    return sum(1 << position for position in positions)


def iterate_ascending(mask: Mask) -> Iterator[int]:
    """Yield the positions of the 1 bits in a mask, the lowest first.

    Bits are members, in name order.
    """
    while mask:
        # The lowest 1 bit alone.
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def iterate_descending(mask: Mask) -> Iterator[int]:
    """Yield the positions of the 1 bits in a mask, the highest first.

    Bits are members, in name order.
    """
    while mask:
        # Of the highest 1 bit.
        position = mask.bit_length() - 1
        yield position
        mask ^= 1 << position


class BindingTable:
    """Bindings by cluster and as sets of members by class.

    Classes in order of test: deleting (dropped), unscheduled, dangling (cluster missing or leaving:
    marked Unscheduled), obsolete, scheduled, bound. Health is ignored.
    """

    def __init__(
        self, prior: Iterable[Binding], member_list: MemberList, policy_snapshot: int
    ) -> None:
        """Classify the prior bindings.

        One with another `policy_snapshot` was picked under an earlier policy.
        """
        self.member_list = member_list
        self.policy_snapshot = policy_snapshot
        self.changes: list[BindingChange] = []
        self.by_cluster: dict[str, Binding] = {}
        # Bit masks: the bit 1 << position is 1 for a member with such a binding.
        self.scheduled: Mask = 0
        self.bound: Mask = 0
        # picked under an earlier policy.
        self.obsolete: Mask = 0
        # To be removed.
        self.unscheduled: Mask = 0
        for binding in prior:
            self._add_binding(binding)

    def _add_binding(self, binding: Binding) -> None:
        """Add a binding to the mask of its kind: scheduled, bound, obsolete or unscheduled.

        A binding in deletion is dropped.
        """
        cluster = binding.cluster
        # As if it were gone.
        if binding.is_deleting:
            self.changes.append(BindingChange(cluster, BindingAction.DROPPED, ChangeCause.DELETED))
            return
        self.by_cluster[cluster] = binding
        position = self.member_list.positions.get(cluster)
        if binding.state is BindingState.UNSCHEDULED:
            # None: its member has left.
            self.unscheduled |= 0 if position is None else 1 << position
        elif position is None or self.member_list.members[position].is_leaving:
            self._mark_unscheduled(cluster, ChangeCause.CLUSTER_LEFT)
        elif binding.policy_snapshot != self.policy_snapshot:
            # picked under an earlier policy.
            self.obsolete |= 1 << position
        elif binding.state is BindingState.SCHEDULED:
            self.scheduled |= 1 << position
        else:
            self.bound |= 1 << position

    @property
    def current(self) -> Mask:
        """Bit mask of members Scheduled or Bound under the present policy snapshot."""
        return self.scheduled | self.bound

    @property
    def masks(self) -> BindingMasks:
        """Bit masks used by rules: members with a current or an earlier binding.

        An earlier binding is one under an earlier policy.
        """
        return BindingMasks(self.current, self.obsolete)

    def get_binding(self, position: int) -> Binding:
        """Return the binding on the member at a position."""
        return self.by_cluster[self.member_list.members[position].name]

    def is_unrecoverable(self, position: int) -> bool:
        """Return True if a member's unscheduled binding has no previous state to return to."""
        return (
            bool(self.unscheduled >> position & 1)
            and self.get_binding(position).previous_state is None
        )

    def bind_member(self, position: int, affinity: int | None, spread: int | None) -> BindingAction:
        """Bind a picked member: reuse its obsolete or unscheduled binding, else create one.

        Return the action.
        """
        name = self.member_list.members[position].name
        bit = 1 << position
        # None: no resources yet.
        action = BindingAction.CREATED
        state = BindingState.SCHEDULED
        snapshot = None
        existing = self.by_cluster.get(name)
        if existing is not None and self.obsolete & bit:
            action = BindingAction.REPOINTED
            state = existing.state
            snapshot = existing.resource_snapshot
        elif existing is not None and self.unscheduled & bit:
            action = BindingAction.RECOVERED
            state = existing.previous_state or BindingState.SCHEDULED
            snapshot = existing.resource_snapshot
        # The member's bit moves to the set of the new state.
        self.obsolete &= ~bit
        self.unscheduled &= ~bit
        if state is BindingState.BOUND:
            self.bound |= bit
        else:
            self.scheduled |= bit
        self.by_cluster[name] = Binding(
            name, state, self.policy_snapshot, affinity, spread, resource_snapshot=snapshot
        )
        self.changes.append(BindingChange(name, action, ChangeCause.PICKED))
        return action

    def release_member(self, position: int, cause: ChangeCause) -> None:
        """Mark a member's binding Unscheduled, and move the member's bit to that set."""
        bit = 1 << position
        self.scheduled &= ~bit
        self.bound &= ~bit
        self.obsolete &= ~bit
        self.unscheduled |= bit
        self._mark_unscheduled(self.member_list.members[position].name, cause)

    def _mark_unscheduled(self, cluster: str, cause: ChangeCause) -> None:
        """Set the state of a binding to Unscheduled and record the change."""
        binding = self.by_cluster[cluster]
        self.by_cluster[cluster] = replace(
            binding, state=BindingState.UNSCHEDULED, previous_state=binding.state
        )
        self.changes.append(BindingChange(cluster, BindingAction.UNSCHEDULED, cause))

    def list_bindings(self) -> tuple[Binding, ...]:
        """Return all remaining bindings in name order."""
        return tuple(self.by_cluster[cluster] for cluster in sorted(self.by_cluster))
