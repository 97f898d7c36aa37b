"""A rolling update: in which waves bindings are bound, updated and deleted.

Source: KubeFleet pkg/controllers/rollout. Each wave is one look of the controller at what is up; what a
wave starts is ready before the next one, unless the caller says that it never will be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity
from nexusform.domains.fleet.scheduling.bindings import Binding, BindingState, PlacementType, Policy
from nexusform.kubernetes.quantity import Amount
from nexusform.plain_data import Path
from nexusform.words import first_of, form, listed

STOPPED: Final = "rollout-does-not-complete"
_MOST_NAMED: Final = 6
QUARTER = Amount(25, percent=True)
DEFAULT_PERIOD = 60


class RollingUpdate(Struct, frozen=True):
    """Percentages are of the target and round up. The period (seconds) is waited after a wave only where
    the availability of what it placed cannot be tracked.
    """

    max_unavailable: Amount = QUARTER
    max_surge: Amount = QUARTER
    unavailable_period_seconds: int = DEFAULT_PERIOD


class Readiness(Struct, frozen=True):
    """What is known of the clusters' resources, beyond their bindings.

    `unready`: what is there now is not available. `never_ready`: what a wave places there fails for good.
    `failed`: it failed for good, so that it is updated outside the budget. `outdated`: bound
    there with other overrides than today's. `trackable`: availability can be seen (false for Jobs and
    unknown kinds).
    """

    unready: frozenset[str] = frozenset()
    never_ready: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    outdated: frozenset[str] = frozenset()
    trackable: bool = True


class Wave(Struct, frozen=True):
    """Clusters whose binding is deleted, updated in place and bound at once; then a wait in seconds."""

    deleted: tuple[str, ...]
    updated: tuple[str, ...]
    bound: tuple[str, ...]
    wait_seconds: int = 0


class Rollout(Struct, frozen=True):
    """The waves, the bindings after them, and the clusters that stayed behind (a stalled rollout)."""

    waves: tuple[Wave, ...]
    bindings: tuple[Binding, ...]
    stalled: tuple[str, ...] = ()

    @property
    def reached(self) -> frozenset[str]:
        """The clusters that got the latest resources in one of the waves."""
        return frozenset(chain.from_iterable((*wave.updated, *wave.bound) for wave in self.waves))


class Stop(Struct, frozen=True):
    """A rollout of a placement that may take nothing more down and add nothing, before it reached these
    clusters.
    """

    placement: str
    rolling: RollingUpdate
    clusters: tuple[str, ...]

    @property
    def words(self) -> str:
        """What whoever waits for it is told."""
        return f"the rollout of {self._what}: nothing more may be taken down or added"

    @property
    def _what(self) -> str:
        return f"{self.placement} stops before {first_of(self.clusters, _MOST_NAMED)}"

    def problem(self, path: Path = (), failing: Sequence[str] = ()) -> Problem:
        """The warning: what stops it, and what to do. Clusters that fail count as taken down."""
        unavailable, surge = self.rolling.max_unavailable, self.rolling.max_surge
        down = f"{listed(failing, _MOST_NAMED)} {form(len(failing), 'fails', 'fail')}" if failing else ""
        why = f" {down}, which counts as taken down;" if failing else ""
        keep = form(len(self.clusters), "keeps what it has", "keep what they have")
        advice = "Mend what fails there, or raise one of them." if failing else "Raise one of them."
        text = (
            f"The rollout of {self._what}, which {keep}:{why} with max_unavailable = {unavailable} and "
            f"max_surge = {surge} nothing more may be taken down or added. {advice}"
        )
        what = (
            f", as {down}" if failing else f"; raise max_unavailable ({unavailable}) or max_surge ({surge})"
        )
        brief = f"{self.placement}: the rollout stops before {first_of(self.clusters, _MOST_NAMED)}{what}"
        return Problem(path, STOPPED, text, Severity.WARNING, brief=brief)


class Budget(Struct, frozen=True):
    """How many bindings a wave may take down, and how many it may add."""

    to_remove: int
    to_add: int


def target_of(policy: Policy | None, number: int | None, bindings: Iterable[Binding]) -> int:
    """The number that percentages are of: N, the names, or for PickAll (and a PickN without a number) the
    clusters scheduled and bound.
    """
    kind = policy.placement_type if policy else PlacementType.PICK_ALL
    if policy and kind is PlacementType.PICK_FIXED:
        return len(policy.cluster_names)
    if kind is PlacementType.PICK_N and number is not None:
        return number
    return sum(binding.state is not BindingState.UNSCHEDULED for binding in bindings)


def budget_of(strategy: RollingUpdate, target: int, *, ready: int, can_be_ready: int) -> Budget:
    """Ready ones above target less max_unavailable may go; target plus max_surge less those up may come."""
    return Budget(
        ready - (target - strategy.max_unavailable.of(target)),
        target + strategy.max_surge.of(target) - can_be_ready,
    )


def roll_out(
    bindings: Iterable[Binding],
    strategy: RollingUpdate,
    target: int,
    resource_snapshot: int,
    readiness: Readiness | None = None,
) -> Rollout:
    """Wave by wave until everything has the latest resources, or nothing more may move."""
    ready_state = readiness or Readiness()
    stale = set(ready_state.outdated)
    held = {b.cluster: b for b in sorted(bindings, key=lambda b: b.cluster) if not b.deleting}
    failed, down = set(ready_state.failed), {*ready_state.unready, *ready_state.failed}
    waves: list[Wave] = []
    while True:
        pending = _pending(held, resource_snapshot, stale)
        if not any(pending):
            return Rollout(tuple(waves), tuple(held.values()))
        wave = _next_wave(held, pending, strategy, target, _Now(failed, down, ready_state.trackable))
        touched = {*wave.updated, *wave.bound}
        if not wave.deleted and not touched:
            stalled = set().union(*pending)
            return Rollout(tuple(waves), tuple(held.values()), tuple(sorted(stalled)))
        _carry_out(wave, held, resource_snapshot)
        stale -= touched
        failed = (failed - touched) | (touched & ready_state.never_ready)
        down = (down - touched) | (touched & ready_state.never_ready)
        waves.append(wave)


_Pending = tuple[list[str], list[str], list[str]]


class _Now(Struct, frozen=True):
    """Clusters that failed for good and those that are not available, before a wave."""

    failed: set[str]
    down: set[str]
    trackable: bool


def _pending(held: dict[str, Binding], resources: int, stale: set[str]) -> _Pending:
    """Clusters to delete, to update and to bind, in name order."""
    delete: list[str] = []
    update: list[str] = []
    bind: list[str] = []
    for cluster, binding in held.items():
        if binding.state is BindingState.UNSCHEDULED:
            delete.append(cluster)
        elif binding.state is BindingState.SCHEDULED:
            bind.append(cluster)
        elif binding.resource_snapshot != resources or cluster in stale:
            update.append(cluster)
    return delete, update, bind


def _next_wave(
    held: dict[str, Binding],
    pending: _Pending,
    strategy: RollingUpdate,
    target: int,
    now: _Now,
) -> Wave:
    """What may happen at once now, within the budgets for removing and adding."""
    delete, update, bind = pending
    up = [cluster for cluster, binding in held.items() if _rolled_out(binding)]
    started = [cluster for cluster, binding in held.items() if binding.state is not BindingState.SCHEDULED]
    ready = sum(cluster not in now.down for cluster in up)
    can_be_ready = sum(cluster not in now.failed for cluster in started)
    budget = budget_of(strategy, target, ready=ready, can_be_ready=can_be_ready)
    # What failed serves nobody: replacing it takes nothing from the budget.
    failed = [cluster for cluster in update if cluster in now.failed]
    update = [cluster for cluster in update if cluster not in now.failed]
    room = max(0, budget.to_remove)
    deleted = delete[:room]
    updated = (*failed, *update[: room - len(deleted)])
    bound = bind[: max(0, budget.to_add)]
    waits = strategy.unavailable_period_seconds if not now.trackable and (updated or bound) else 0
    return Wave(tuple(deleted), tuple(sorted(updated)), tuple(bound), waits)


def _rolled_out(binding: Binding) -> bool:
    """Whether resources are up: bound, or unscheduled after having been bound."""
    if binding.state is BindingState.UNSCHEDULED:
        return binding.previous_state is BindingState.BOUND
    return binding.state is BindingState.BOUND


def _carry_out(wave: Wave, held: dict[str, Binding], resources: int) -> None:
    """Change the bindings as a wave does."""
    for cluster in wave.deleted:
        del held[cluster]
    for cluster in (*wave.updated, *wave.bound):
        held[cluster] = replace(held[cluster], state=BindingState.BOUND, resource_snapshot=resources)
