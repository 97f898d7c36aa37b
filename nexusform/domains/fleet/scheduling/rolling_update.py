"""Rolling update: the waves of binding, updating and deleting.

Source: KubeFleet pkg/controllers/rollout. Each wave is one pass of the controller; its resources
are ready before the next wave, unless declared as never ready, or the member is unreachable.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import format_first_items, format_list, select_word_form
from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    BindingState,
    Policy,
    index_by_cluster,
    list_active_bindings,
    select_scheduled_bindings,
    split_clusters,
)
from nexusform.json_data.plain_data import Path
from nexusform.kubernetes.quantity import IntegerOrPercent

BLOCKED_ROLLOUT: Final = "incomplete-rollout"
_MAX_NAMES: Final = 6
QUARTER = IntegerOrPercent(25, is_percent=True)
DEFAULT_PERIOD = 60


class RollingUpdate(Struct, frozen=True):
    """Rolling update strategy.

    Percentages relate to the target and round up. The period (seconds) is waited after a wave only
    if the availability of its resources is not trackable.
    """

    max_unavailable: IntegerOrPercent = QUARTER
    max_surge: IntegerOrPercent = QUARTER
    unavailable_period_seconds: int = DEFAULT_PERIOD


class Readiness(Struct, frozen=True):
    """Readiness of the clusters' resources beyond their bindings.

    In `unready_clusters` current resources are unavailable. In `never_ready_clusters` a wave's
    resources fail permanently. `failed_clusters` have failed, so they are updated outside the
    budget. `waiting_clusters` are unready, and nobody knows when they will be ready, with current
    or new resources; on `retried_clusters` resources failed, and members try again.
    `reporting_clusters` only report differences: they are ready without adding to
    the clusters that can be. `outdated_clusters` are bound with outdated overrides. In
    `unreachable_clusters` a wave's resources wait for the member. `is_trackable` means that
    availability is visible (False for Jobs and unknown kinds).
    """

    unready_clusters: frozenset[str] = frozenset()
    never_ready_clusters: frozenset[str] = frozenset()
    failed_clusters: frozenset[str] = frozenset()
    waiting_clusters: frozenset[str] = frozenset()
    retried_clusters: frozenset[str] = frozenset()
    reporting_clusters: frozenset[str] = frozenset()
    outdated_clusters: frozenset[str] = frozenset()
    unreachable_clusters: frozenset[str] = frozenset()
    is_trackable: bool = True


class RolloutWave(Struct, frozen=True):
    """Clusters with a binding deleted, updated in place or bound; then a wait in seconds.

    The clusters to bind are bound at once.
    """

    deleted_clusters: tuple[str, ...]
    updated_clusters: tuple[str, ...]
    bound_clusters: tuple[str, ...]
    wait_seconds: int = 0

    @property
    def clusters(self) -> tuple[str, ...]:
        """All clusters of the wave."""
        return (*self.deleted_clusters, *self.updated_clusters, *self.bound_clusters)


class RolloutProjection(Struct, frozen=True):
    """Waves, bindings after them, and the clusters not reached by a blocked rollout.

    Whether `conditional_clusters` are reached depends on when others are available.
    """

    waves: tuple[RolloutWave, ...]
    bindings: tuple[Binding, ...]
    blocked_clusters: tuple[str, ...] = ()
    conditional_clusters: frozenset[str] = frozenset()

    @property
    def reached_clusters(self) -> frozenset[str]:
        """Clusters with the latest resources from one of the waves."""
        return frozenset(
            name for wave in self.waves for name in (*wave.updated_clusters, *wave.bound_clusters)
        )


class BlockedRollout(Struct, frozen=True):
    """Rollout blocked before these clusters: nothing more may be removed or added."""

    placement: str
    strategy: RollingUpdate
    clusters: tuple[str, ...]

    @property
    def message(self) -> str:
        """Message for a provider waiting for the rollout."""
        names = format_first_items(self.clusters, _MAX_NAMES)
        change = "max_unavailable and max_surge allow no further change"
        return f"the rollout of {self.placement} stops before {names}: {change}"

    def build_problem(
        self,
        path: Path = (),
        failing: Sequence[str] = (),
        unreachable: Sequence[str] = (),
        waiting: Sequence[str] = (),
    ) -> Problem:
        """Build the warning about the rollout.

        Clusters in `failing`, `unreachable` and `waiting` are causes: they count as unavailable.
        """
        names = format_first_items(self.clusters, _MAX_NAMES)
        unavailable = self.strategy.max_unavailable
        surge = self.strategy.max_surge
        cause = ""
        advice = "Raise one of them."
        hint = f"raise max_unavailable ({unavailable}) or max_surge ({surge})"
        # A reason beyond the strategy.
        if failing:
            failing_text = (
                f"{format_list(failing, _MAX_NAMES)} "
                f"{select_word_form(len(failing), 'fails', 'fail')}"
            )
            cause = f" {failing_text} and counts as unavailable."
            advice = "Fix the failure there, or raise one of them."
            hint = f"{failing_text} there"
        elif unreachable:
            unreachable_text = f"{format_list(unreachable, _MAX_NAMES)} cannot be reached"
            noun = select_word_form(len(unreachable), "that member", "those members")
            cause = f" {unreachable_text}, so the rollout waits there."
            advice = f"Restore {noun}: the rollout then continues. Or raise one of the limits."
            hint = f"it waits because {unreachable_text}"
        elif waiting:
            waiting_text = (
                f"{format_list(waiting, _MAX_NAMES)} "
                f"{select_word_form(len(waiting), 'is', 'are')} not available"
            )
            pronoun = select_word_form(len(waiting), "it is", "they are")
            cause = f" {waiting_text}."
            advice = f"The rollout continues when {pronoun} available. Or raise one of the limits."
            hint = f"{waiting_text} there"
        count = len(self.clusters)
        consequence = select_word_form(
            count, "it keeps its current resources", "they keep their current resources"
        )
        limits = f"max_unavailable = {unavailable} and max_surge = {surge} allow no further change."
        text = (
            f"The rollout of {self.placement} stops before {names}; {consequence}.{cause} "
            f"{limits} {advice}"
        )
        summary = f"{self.placement}: the rollout stops before {names}; {hint}"
        return Problem(path, BLOCKED_ROLLOUT, text, Severity.WARNING, brief=summary)


class WaveBudget(Struct, frozen=True):
    """Maximum of removals and additions in a wave."""

    max_removals: int
    max_additions: int


def compute_rollout_target(policy: Policy, number: int | None, bindings: Iterable[Binding]) -> int:
    """Return the number of clusters that percentages refer to.

    It is the number of requested clusters, or else of picked ones.
    """
    requested_count = policy.count_requested_clusters(number)
    return len(select_scheduled_bindings(bindings)) if requested_count is None else requested_count


def compute_rollout_budget(
    strategy: RollingUpdate, target: int, *, ready: int, can_be_ready: int
) -> WaveBudget:
    """Return the budget of a wave, negative if already exceeded.

    Removals keep `target` - max_unavailable of the `ready` clusters; additions raise the number of
    `can_be_ready` clusters to at most `target` + max_surge.
    """
    return WaveBudget(
        max_removals=ready - (target - strategy.max_unavailable.compute(target)),
        max_additions=target + strategy.max_surge.compute(target) - can_be_ready,
    )


def simulate_rollout(
    bindings: Iterable[Binding],
    strategy: RollingUpdate,
    target: int,
    resource_snapshot: int,
    readiness: Readiness | None = None,
) -> RolloutProjection:
    """Simulate waves until all clusters have the resources, or the rollout is blocked.

    The resources are those of `resource_snapshot` (the latest). `target` is the number of clusters
    to which percentages refer. Without `readiness`, all clusters are ready. Readiness of waiting
    and retried clusters is a condition: the waves are those before it.
    """
    readiness = readiness or Readiness()
    arguments = (tuple(bindings), strategy, target, resource_snapshot)
    waiting = readiness.waiting_clusters
    projection = _simulate_waves(
        *arguments,
        replace(
            readiness,
            unready_clusters=readiness.unready_clusters | waiting,
            unreachable_clusters=readiness.unreachable_clusters | waiting,
        ),
    )
    awaited = waiting | readiness.retried_clusters
    if not awaited:
        return projection
    available = _simulate_waves(
        *arguments,
        replace(
            readiness,
            failed_clusters=readiness.failed_clusters - awaited,
            never_ready_clusters=readiness.never_ready_clusters - awaited,
        ),
    )
    conditional = {*projection.blocked_clusters} ^ {*available.blocked_clusters}
    # The first wave starts with the clusters as they are.
    first = projection.waves[0].clusters if projection.waves else ()
    return replace(projection, conditional_clusters=frozenset(conditional.difference(first)))


def _simulate_waves(
    bindings: Iterable[Binding],
    strategy: RollingUpdate,
    target: int,
    resource_snapshot: int,
    initial_readiness: Readiness,
) -> RolloutProjection:
    """Simulate the waves of `simulate_rollout`, without regard to waiting clusters."""
    outdated = set(initial_readiness.outdated_clusters)
    by_cluster = index_by_cluster(list_active_bindings(bindings))
    failed = set(initial_readiness.failed_clusters)
    unavailable = {*initial_readiness.unready_clusters, *failed}
    waves: list[RolloutWave] = []
    while True:
        pending = _group_pending_clusters(by_cluster, resource_snapshot, outdated)
        # All clusters are up to date.
        if not any(pending):
            return RolloutProjection(tuple(waves), tuple(by_cluster.values()))
        state = _WaveState(
            failed,
            unavailable,
            initial_readiness.reporting_clusters,
            initial_readiness.is_trackable,
        )
        wave = _build_next_wave(by_cluster, pending, strategy, target, state)
        changed = {*wave.updated_clusters, *wave.bound_clusters}
        # No budget left.
        if not wave.deleted_clusters and not changed:
            blocked = set().union(*pending)
            return RolloutProjection(
                tuple(waves), tuple(by_cluster.values()), tuple(sorted(blocked))
            )
        for cluster in wave.deleted_clusters:
            del by_cluster[cluster]
        for cluster in changed:
            by_cluster[cluster] = replace(
                by_cluster[cluster], state=BindingState.BOUND, resource_snapshot=resource_snapshot
            )
        outdated -= changed
        # Changed clusters are ready before the next wave, unless failing or unreachable.
        failing = changed & initial_readiness.never_ready_clusters
        failed = (failed - changed) | failing
        unavailable = (
            (unavailable - changed) | failing | (changed & initial_readiness.unreachable_clusters)
        )
        waves.append(wave)


_PendingClusters = tuple[list[str], list[str], list[str]]


class _WaveState(Struct, frozen=True):
    """Failed, unavailable and only reporting clusters before a wave."""

    failed_clusters: set[str]
    unavailable_clusters: set[str]
    reporting_clusters: frozenset[str]
    is_trackable: bool


def _group_pending_clusters(
    by_cluster: dict[str, Binding], latest: int, outdated: set[str]
) -> _PendingClusters:
    """Return (clusters to delete, to update, to bind), each in name order.

    Those to delete are unscheduled. Those to update are bound, but in `outdated` or without the
    `latest` resource snapshot.
    """
    delete: list[str] = []
    update: list[str] = []
    bind: list[str] = []
    for cluster, binding in by_cluster.items():
        if binding.state is BindingState.UNSCHEDULED:
            delete.append(cluster)
        elif binding.state is BindingState.SCHEDULED:
            bind.append(cluster)
        elif binding.resource_snapshot != latest or cluster in outdated:
            update.append(cluster)
    return delete, update, bind


def _build_next_wave(
    by_cluster: dict[str, Binding],
    pending: _PendingClusters,
    strategy: RollingUpdate,
    target: int,
    state: _WaveState,
) -> RolloutWave:
    """Build the next wave within the budgets for removals and additions.

    `target` is the number of wanted clusters.
    """
    # clusters, in name order.
    delete, update, bind = pending
    running = [cluster for cluster, binding in by_cluster.items() if binding.has_resources]
    started = [
        cluster
        for cluster, binding in by_cluster.items()
        if binding.state is not BindingState.SCHEDULED
    ]
    ready = len(set(running) - state.unavailable_clusters)
    # Now or later.
    can_be_ready = len(set(started) - state.failed_clusters - state.reporting_clusters)
    budget = compute_rollout_budget(strategy, target, ready=ready, can_be_ready=can_be_ready)
    # Failed resources serve no one: replacing them uses no budget.
    failed, working = split_clusters(update, state.failed_clusters)
    removal_budget = max(0, budget.max_removals)
    deleted = delete[:removal_budget]
    updated = (*failed, *working[: removal_budget - len(deleted)])
    bound = bind[: max(0, budget.max_additions)]
    # Objects without a visible availability count as ready after a time.
    wait_seconds = (
        strategy.unavailable_period_seconds if not state.is_trackable and (updated or bound) else 0
    )
    return RolloutWave(tuple(deleted), tuple(sorted(updated)), tuple(bound), wait_seconds)
