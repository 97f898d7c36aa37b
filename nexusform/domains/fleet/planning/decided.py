"""What rounds, rollouts and runs decided of a placement: the later stages of its plan. Each is replaced as a
whole when another round, rollout or run has decided more.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.fleet.planning.contents import Loss
from nexusform.domains.fleet.planning.overrides import Identity
from nexusform.domains.fleet.scheduling.bindings import Abort, Binding, BindingAction, Cause
from nexusform.domains.fleet.scheduling.cycle import CycleResult
from nexusform.domains.fleet.scheduling.decisions import SchedulingStatus
from nexusform.domains.fleet.scheduling.rollout import Wave
from nexusform.domains.fleet.scheduling.roster import Roster
from nexusform.domains.fleet.scheduling.watcher import Occasion, Trigger, trigger_of
from nexusform.plans.plan import Rollout


class Scheduled(Struct, frozen=True):
    """What the scheduler made of a placement. `ran`: it looked at it at all. `fulfilled`: it has all clusters
    that it asks for. `picked` and `released` are why clusters came and went; `decided` is what the last chain
    of cycles that picked any cluster started from.
    """

    fulfilled: bool
    ran: bool = False
    status: SchedulingStatus | None = None
    abort: Abort | None = None
    decided: tuple[tuple[Binding, ...], Roster] | None = None
    picked: Mapping[str, Trigger] = field(default_factory=dict)
    released: Mapping[str, Trigger] = field(default_factory=dict)

    def after(
        self, result: CycleResult, occasion: Occasion, start: tuple[Binding, ...], roster: Roster
    ) -> Scheduled:
        """The same after a chain of cycles that started from these bindings."""
        picked, released = dict(self.picked), dict(self.released)
        for change in result.changes:
            trigger = trigger_of(change, occasion)
            if change.change in (BindingAction.UNSCHEDULED, BindingAction.DROPPED):
                released[change.cluster] = trigger
                picked.pop(change.cluster, None)
            else:
                picked[change.cluster] = trigger
        has_picked = any(change.cause is Cause.PICKED for change in result.changes)
        return Scheduled(
            fulfilled=result.status.fulfilled if result.status is not None else self.fulfilled,
            ran=True,
            status=result.status if result.status is not None else self.status,
            abort=result.abort,
            decided=(start, roster) if has_picked else self.decided,
            picked=picked,
            released=released,
        )


class Owned(Struct, frozen=True):
    """By cluster, what others have of what a placement would bring (`lost`), and what state says that another
    (an address) has there, too (`doubled`).
    """

    lost: Mapping[str, Mapping[Identity, Loss]] = field(default_factory=dict)
    doubled: Mapping[str, Mapping[Identity, str]] = field(default_factory=dict)


class RolledOut(Struct, frozen=True):
    """The clusters that rollouts and runs reached. `brought_by` says of those that a run changed which one;
    `waves` are those of a rolling update, `stalled` the clusters that it cannot go on to.
    """

    clusters: frozenset[str] = frozenset()
    brought_by: Mapping[str, str] = field(default_factory=dict)
    waves: tuple[Wave, ...] = ()
    stalled: tuple[str, ...] = ()
    timelines: tuple[Rollout, ...] = ()

    def with_timeline(self, timeline: Rollout) -> RolledOut:
        """One rollout more."""
        return replace(self, timelines=(*self.timelines, timeline))
