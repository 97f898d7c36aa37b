"""A placement's bindings during a chain of cycles: classified, then created, changed and marked."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from nexusform.scheduling.fleet.model import Binding, BindingChange, BindingState, Cause, Change
from nexusform.scheduling.fleet.roster import Mask, Roster, Standing


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
        cluster = binding.cluster
        if binding.deleting:
            self.changes.append(BindingChange(cluster, Change.DROPPED, Cause.DELETED))
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

    def hold(self, position: int, affinity: int | None, spread: int | None) -> Change:
        """Bind a picked member: keep an obsolete binding, recover an unscheduled one, or make one."""
        name = self.roster.members[position].name
        bit = 1 << position
        change, state, resources = Change.CREATED, BindingState.SCHEDULED, None
        standing = self.by_cluster.get(name)
        if standing is not None and self.obsolete & bit:
            change, state = Change.REPOINTED, standing.state
            resources = standing.resource_snapshot
        elif standing is not None and self.unscheduled & bit:
            change, state = Change.RECOVERED, standing.previous_state or BindingState.SCHEDULED
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
        self.changes.append(BindingChange(cluster, Change.UNSCHEDULED, cause))

    def bindings(self) -> tuple[Binding, ...]:
        """All bindings that remain, in name order."""
        return tuple(self.by_cluster[cluster] for cluster in sorted(self.by_cluster))
