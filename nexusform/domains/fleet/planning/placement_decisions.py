"""Decisions of iterations, rollouts and staged runs about a placement; each new decision replaces the record
as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.fleet.planning.override_rendering import ObjectIdentity
from nexusform.domains.fleet.planning.placement_records import OwnershipConflict
from nexusform.domains.fleet.scheduling.bindings import Binding, BindingAction, ChangeCause, CycleAbort
from nexusform.domains.fleet.scheduling.decisions import SchedulingStatus
from nexusform.domains.fleet.scheduling.member_list import MemberList
from nexusform.domains.fleet.scheduling.rolling_update import RolloutWave
from nexusform.domains.fleet.scheduling.scheduling_cycle import CycleResult
from nexusform.domains.fleet.scheduling.watcher import SchedulingTriggers, Trigger, find_change_trigger
from nexusform.plans.plan import Rollout


class SchedulingResult(Struct, frozen=True):
    """Scheduling result of a placement. `has_run`: the scheduler processed it. `is_fulfilled`: all requested
    clusters are bound. `pick_triggers` and `release_triggers` give the trigger by cluster; `cycle_start`
    holds bindings and members at the start of the last cycles with a picked cluster.
    """

    is_fulfilled: bool
    has_run: bool = False
    status: SchedulingStatus | None = None
    abort: CycleAbort | None = None
    cycle_start: tuple[tuple[Binding, ...], MemberList] | None = None
    pick_triggers: Mapping[str, Trigger] = field(default_factory=dict)
    release_triggers: Mapping[str, Trigger] = field(default_factory=dict)

    def append_scheduling_cycles(
        self, result: CycleResult, occasion: SchedulingTriggers, start: tuple[Binding, ...], member_list: MemberList
    ) -> SchedulingResult:
        """Return the result extended by a chain of scheduling cycles; `start` are the bindings before it."""
        pick_triggers, release_triggers = dict(self.pick_triggers), dict(self.release_triggers)
        for change in result.changes:
            trigger = find_change_trigger(change, occasion)
            if change.action in (BindingAction.UNSCHEDULED, BindingAction.DROPPED):
                release_triggers[change.cluster] = trigger
                pick_triggers.pop(change.cluster, None)
            else:
                pick_triggers[change.cluster] = trigger
        has_picked = any(change.cause is ChangeCause.PICKED for change in result.changes)
        return SchedulingResult(
            is_fulfilled=result.status.is_fulfilled if result.status is not None else self.is_fulfilled,
            has_run=True,
            status=result.status if result.status is not None else self.status,
            abort=result.abort,
            cycle_start=(start, member_list) if has_picked else self.cycle_start,
            pick_triggers=pick_triggers,
            release_triggers=release_triggers,
        )


class ObjectOwnership(Struct, frozen=True):
    """Ownership of a placement's objects by cluster: `conflicts` with other owners, and `duplicates` recorded
    in state for another placement (an address) too.
    """

    conflicts: Mapping[str, Mapping[ObjectIdentity, OwnershipConflict]] = field(default_factory=dict)
    duplicates: Mapping[str, Mapping[ObjectIdentity, str]] = field(default_factory=dict)


class RolloutResult(Struct, frozen=True):
    """Clusters reached by rollouts and runs. `run_by_cluster` names the run that changed a cluster; `waves`
    are those of a rolling update, `blocked_clusters` the clusters it cannot reach.
    """

    clusters: frozenset[str] = frozenset()
    run_by_cluster: Mapping[str, str] = field(default_factory=dict)
    waves: tuple[RolloutWave, ...] = ()
    blocked_clusters: tuple[str, ...] = ()
    timelines: tuple[Rollout, ...] = ()

    def append_rollout_timeline(self, timeline: Rollout) -> RolloutResult:
        """Return a copy with one more rollout timeline."""
        return replace(self, timelines=(*self.timelines, timeline))
