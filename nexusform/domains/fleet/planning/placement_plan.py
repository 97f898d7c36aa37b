"""Plan of one placement: spec, resources, bindings and decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import zip_longest
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.phrases import format_first_items
from nexusform.domains.fleet.importers.fleet_export import (
    DIFF_REPORTED,
    FAILED,
    OVERRIDE_FAILED,
    UNAVAILABLE,
    WAITING,
)
from nexusform.domains.fleet.planning.override_rendering import (
    ObjectIdentity,
    RenderedResources,
    expand_envelopes,
    get_object_identity,
)
from nexusform.domains.fleet.planning.placement_records import (
    CLEARED_LATER,
    OwnershipConflict,
    is_availability_tracked,
    read_policy_snapshot,
)
from nexusform.domains.fleet.planning.placement_spec import PlacementSpec
from nexusform.domains.fleet.planning.resource_selection import (
    CurrentResources,
    PlacementResources,
    ResourceSelection,
    SnapshotStore,
)
from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    BindingAction,
    BindingState,
    ChangeCause,
    CycleAbort,
    Policy,
    PolicySnapshot,
    SchedulingStatus,
    collect_clusters,
    collect_clusters_with_resources,
    collect_lasting_clusters,
    select_scheduled_bindings,
    split_clusters,
)
from nexusform.domains.fleet.scheduling.eviction import EvictionResult
from nexusform.domains.fleet.scheduling.member_list import MemberList
from nexusform.domains.fleet.scheduling.placement_status import UNKNOWN
from nexusform.domains.fleet.scheduling.rolling_update import (
    Readiness,
    RolloutProjection,
    RolloutWave,
    compute_rollout_target,
    simulate_rollout,
)
from nexusform.domains.fleet.scheduling.scheduling_cycle import CycleResult
from nexusform.domains.fleet.scheduling.watcher import (
    SchedulingTriggers,
    Trigger,
    find_change_trigger,
)
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.json_data.plain_data import get_list, get_mapping, get_text
from nexusform.plans.plan import Rollout, RolloutStep

_MAX_NAMES: Final = 4
# Of a cluster without a rollout: group 0.
NO_ROLLOUT_STEP: Final = ("", RolloutStep(kind="", stage="", group=0))


class SchedulingResult(Struct, frozen=True):
    """Scheduling result of a placement.

    `has_run` means that the scheduler processed it, `is_fulfilled` that all requested clusters are
    bound. `pick_triggers` and `release_triggers` give the trigger by cluster; `cycle_start` holds
    bindings and members at the start of the last cycles with a picked cluster.
    """

    is_fulfilled: bool
    has_run: bool = False
    status: SchedulingStatus | None = None
    abort: CycleAbort | None = None
    cycle_start: tuple[tuple[Binding, ...], MemberList] | None = None
    pick_triggers: Mapping[str, Trigger] = field(default_factory=dict)
    release_triggers: Mapping[str, Trigger] = field(default_factory=dict)

    def append_scheduling_cycles(
        self,
        result: CycleResult,
        triggers: SchedulingTriggers,
        start: tuple[Binding, ...],
        member_list: MemberList,
    ) -> SchedulingResult:
        """Return this result extended by further cycles.

        If they pick a cluster, `cycle_start` has the bindings before them (`start`) and the
        members, to explain the picks later.
        """
        pick_triggers = dict(self.pick_triggers)
        release_triggers = dict(self.release_triggers)
        for change in result.changes:
            trigger = find_change_trigger(change, triggers)
            if change.action in (BindingAction.UNSCHEDULED, BindingAction.DROPPED):
                release_triggers[change.cluster] = trigger
                # released after a pick.
                pick_triggers.pop(change.cluster, None)
            else:
                pick_triggers[change.cluster] = trigger
        has_picked = any(change.cause is ChangeCause.PICKED for change in result.changes)
        status = self.status
        is_fulfilled = self.is_fulfilled
        # None: a cycle stopped before it wrote a status.
        if result.status is not None:
            status = result.status
            is_fulfilled = result.status.is_fulfilled
        return SchedulingResult(
            is_fulfilled=is_fulfilled,
            has_run=True,
            status=status,
            abort=result.abort,
            cycle_start=(start, member_list) if has_picked else self.cycle_start,
            pick_triggers=pick_triggers,
            release_triggers=release_triggers,
        )


class ObjectOwnership(Struct, frozen=True):
    """Ownership of a placement's objects by cluster.

    `conflicts` are those with other owners. `duplicates` are objects recorded in state for another
    placement (an address), too.
    """

    conflicts: dict[str, dict[ObjectIdentity, OwnershipConflict]] = field(default_factory=dict)
    duplicates: dict[str, dict[ObjectIdentity, str]] = field(default_factory=dict)


class RolloutResult(Struct, frozen=True):
    """Clusters reached by rollouts and runs.

    `run_by_cluster` names the run that changed a cluster; `previous_snapshots` are those that a run
    may use instead of the planned one, by cluster. `waves` are those of a rolling update,
    `blocked_clusters` the clusters it cannot reach; whether it reaches `conditional_clusters`
    depends on when others are available.
    """

    clusters: frozenset[str] = frozenset()
    run_by_cluster: Mapping[str, str] = field(default_factory=dict)
    previous_snapshots: Mapping[str, int] = field(default_factory=dict)
    waves: tuple[RolloutWave, ...] = ()
    blocked_clusters: tuple[str, ...] = ()
    conditional_clusters: frozenset[str] = frozenset()
    timelines: tuple[Rollout, ...] = ()


class HubMoves(Struct, frozen=True):
    """Changes by the hub since the last apply.

    `replaced_clusters` has the replaced cluster of each new cluster ("": none); `removed_clusters`
    have no replacement.
    """

    replaced_clusters: Mapping[str, str] = {}
    removed_clusters: tuple[str, ...] = ()


class PlacementPlan(Struct):
    """Plan of one placement.

    `spec` is final before the iterations. So are `selection`, `snapshot_store` and `current`,
    unless new scheduling decisions make the hub take `unnoticed` content. Iterations, runs and
    rollouts replace `bindings`, `scheduling`, `ownership` and `rollout`. `evictions` are those of
    this plan by name, `rejoining_members` leave and join again, `workloads` are the predicted
    pods by cluster.
    """

    spec: Final[PlacementSpec]
    selection: ResourceSelection
    current: CurrentResources
    snapshot_store: SnapshotStore
    bindings: tuple[Binding, ...]
    scheduling: SchedulingResult
    ownership: ObjectOwnership = field(default_factory=ObjectOwnership)
    rollout: RolloutResult = field(default_factory=RolloutResult)
    evictions: tuple[tuple[str, EvictionResult], ...] = ()
    rejoining_members: frozenset[str] = frozenset()
    workloads: Final[dict[str, Any]] = field(default_factory=dict)
    _projection: tuple[tuple[Binding, ...], RolloutProjection] | None = None
    hub_moves: Final[HubMoves] = HubMoves()
    unnoticed: PlacementResources | None = None

    @property
    def address(self) -> str:
        """Address as text."""
        return self.spec.address

    @property
    def key(self) -> str:
        """Name on the hub, `namespace/name` if namespaced."""
        return self.spec.configuration.key

    @property
    def is_left_unchanged(self) -> bool:
        """Whether the hub leaves the placement unchanged: invalid selectors, or in deletion."""
        return self.selection.selector_problem is not None or self.spec.is_being_deleted

    @property
    def evicted_clusters(self) -> frozenset[str]:
        """Clusters released by an eviction of this plan, or with a binding in deletion on a hub."""
        return self.spec.deleting_clusters | {
            item.cluster for _, item in self.evictions if item.is_executed
        }

    @property
    def released_clusters(self) -> frozenset[str]:
        """Clusters with a binding removed in this plan, even if a new one follows."""
        return self.evicted_clusters | self.rejoining_members

    @property
    def rollout_trigger(self) -> Trigger:
        """Trigger of a rollout without rescheduling: the first of several.

        Without any, it is RESOURCES_CHANGED.
        """
        if self.current.resources_changed:
            return Trigger.RESOURCES_CHANGED
        if self.has_missing_bindings:
            return self._missing_binding_trigger
        if self.current.has_override_change:
            return Trigger.OVERRIDES_CHANGED
        return Trigger.STRATEGY_CHANGED if self.spec.strategy_changed else Trigger.RESOURCES_CHANGED

    @property
    def _missing_binding_trigger(self) -> Trigger:
        """Trigger of missing bindings: an eviction only if the hub has an executed one.

        Their member left if the status names a cluster that is no member.
        """
        if self.manually_deleted_clusters:
            return Trigger.BINDING_DELETED
        if self.find_reported_clusters("Scheduled", "True") - self.selection.clusters.labels.keys():
            return Trigger.CLUSTER_LEFT
        return Trigger.EVICTED if self._observed_evicted_clusters else Trigger.BINDING_DELETED

    @property
    def needs_scheduling(self) -> bool:
        """Whether changes of the placement require scheduling cycles.

        Changes of members are queued separately.
        """
        has_changed_spec = (
            self.spec.policy_changed or self.spec.number_changed or self.spec.spec_changed
        )
        has_changed_content = self.current.resources_changed or self.current.has_override_change
        return (
            self.spec.is_first_scheduling
            or self.spec.is_pending
            or has_changed_spec
            or has_changed_content
            or bool(self.evicted_clusters)
            or self.has_missing_bindings
        )

    def find_rollout_step(self, cluster: str) -> tuple[str, RolloutStep]:
        """Return the cause and step of the last rollout with this cluster, if any.

        Rolling update or staged run.
        """
        for timeline in reversed(self.rollout.timelines):
            for step in timeline.steps:
                if cluster in step.clusters:
                    return timeline.cause, step
        return NO_ROLLOUT_STEP

    @property
    def has_missing_bindings(self) -> bool:
        """Whether bindings are missing, removed by another process.

        The hub reported this, or there are fewer bindings than expected.
        """
        if self.missing_clusters:
            return True
        # It never had all.
        if self.spec.is_new or not self.scheduling.is_fulfilled:
            return False
        # None is missing because this plan requests more.
        numbers = [self.spec.policy_snapshot.number_of_clusters]
        previous_snapshot = read_policy_snapshot(self.spec.prior_attributes)
        if previous_snapshot is not None:
            numbers.append(previous_snapshot.number_of_clusters)
        count_clusters = self.spec.configuration.effective_policy.count_requested_clusters
        # PickAll: 0
        expected_count = min(count_clusters(number) or 0 for number in numbers)
        return len(select_scheduled_bindings(self.spec.prior_bindings)) < expected_count

    @property
    def missing_clusters(self) -> tuple[str, ...]:
        """Members scheduled in a hub's status but without a binding."""
        # No status, or an outdated one.
        if not self.spec.observed_attributes or self.spec.is_pending:
            return ()
        bound = collect_clusters(self.spec.prior_bindings)
        members = self.selection.clusters.labels.keys() - self.selection.clusters.leaving - bound
        return tuple(sorted(members & self.find_reported_clusters("Scheduled", "True")))

    def find_reported_clusters(self, condition: str, value: str) -> set[str]:
        """Return the clusters with this value of a condition in the status before the plan."""
        return {
            cluster
            for cluster, item in self.list_prior_conditions(condition)
            if item["status"] == value
        }

    def list_prior_conditions(self, kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the conditions of a type in the status before the plan, each with its cluster."""
        for status in get_list(self.spec.prior_attributes, "placement_statuses"):
            for condition in get_list(status, "conditions"):
                if condition["type"] == kind:
                    yield get_text(status, "cluster_name"), condition

    @property
    def manually_deleted_clusters(self) -> tuple[str, ...]:
        """Clusters with a binding deleted by other means than an eviction."""
        _evicted, others = split_clusters(self.missing_clusters, self._observed_evicted_clusters)
        return others

    @property
    def _observed_evicted_clusters(self) -> frozenset[str]:
        """Clusters with an executed eviction on the hub."""
        records = get_list(self.spec.observed_attributes, "evictions")
        return frozenset(record["cluster_name"] for record in records if record.get("executed"))

    @property
    def lost_bindings(self) -> dict[str, Trigger]:
        """Trigger of each lost binding by cluster.

        The eviction if one was executed, else a deletion of the binding.
        """
        evicted_now = {eviction.cluster for _, eviction in self.evictions if eviction.is_executed}
        known_evictions = self._observed_evicted_clusters | evicted_now
        return {
            cluster: Trigger.EVICTED if cluster in known_evictions else Trigger.BINDING_DELETED
            for cluster in sorted(self.evicted_clusters)
        }

    @property
    def has_changes(self) -> bool:
        """Whether this plan changes a binding or the resources of a cluster.

        Changes by other owners of objects count, too.
        """
        if self.bindings != self.spec.prior_bindings or self.rollout.clusters:
            return True
        nothing = RenderedResources(())
        for cluster, content in self.compute_final_resources().items():
            previous = self.current.applied.on_cluster.get(cluster, nothing)
            if content.conflicting_objects != previous.conflicting_objects:
                return True
        return False

    def build_scheduling_arguments(
        self, member_list: MemberList
    ) -> tuple[MemberList, Policy, PolicySnapshot, str]:
        """Return members, policy, policy snapshot and namespace.

        They are the arguments of a scheduling cycle after the bindings.
        """
        policy = self.spec.resolve_policy(member_list)
        return member_list, policy, self.spec.policy_snapshot, self.spec.configuration.namespace

    def compute_resources(
        self, binding: Binding, reached: AbstractSet[str]
    ) -> RenderedResources | None:
        """Return the resources of a binding's cluster after a rollout to the clusters in `reached`.

        The result is None if there are none. Objects with another owner on the cluster are not
        among its manifests, but in `conflicting_objects`.
        """
        resources = self._compute_own_resources(binding, reached)
        # By object with another owner.
        conflicts = self.ownership.conflicts.get(binding.cluster, {})
        if resources is None or not (conflicts or resources.conflicting_objects):
            # No resources, or no conflict now or before.
            return resources
        manifests: list[Manifest] = []
        conflicting_objects: list[ObjectIdentity] = []
        for manifest in self.list_wanted_objects(binding, reached):
            identity = get_object_identity(manifest)
            if identity in conflicts:
                conflicting_objects.append(identity)
            else:
                manifests.append(manifest)
        return replace(
            resources, manifests=tuple(manifests), conflicting_objects=tuple(conflicting_objects)
        )

    def list_wanted_objects(
        self, binding: Binding, reached: AbstractSet[str]
    ) -> tuple[Manifest, ...]:
        """Return the objects on a cluster as if there were no other owners.

        These are the placement's objects, and those in conflict.
        """
        resources = self._compute_own_resources(binding, reached)
        # Nothing is applied there.
        if resources is None:
            return ()
        manifests = tuple(expand_envelopes(resources.manifests))
        rendered = self.snapshot_store.render_cluster(binding.resource_snapshot, binding.cluster)
        if not resources.conflicting_objects or rendered is None:
            return manifests
        # includes those left out as conflicts before.
        objects = expand_envelopes(rendered.manifests)
        conflicting = [
            item for item in objects if get_object_identity(item) in resources.conflicting_objects
        ]
        return (*manifests, *conflicting)

    def _compute_own_resources(
        self, binding: Binding, reached: AbstractSet[str]
    ) -> RenderedResources | None:
        """Return a cluster's resources after the plan, None without any.

        They are new if the cluster is in `reached` (by the rollout), else those applied before
        (`previous`). Conflicts found in this plan are not considered.
        """
        if not binding.has_resources:
            return None
        cluster = binding.cluster
        previous = self._get_previous_resources(cluster)
        is_pending = previous is not None and previous.is_pending
        # A switch from ReportDiff needs no rollout, and an earlier one left the pending changes.
        if cluster not in reached and not self.spec.switches_to_applying and not is_pending:
            return previous
        rendered = self.snapshot_store.render_cluster(binding.resource_snapshot, cluster)
        # No such snapshot or member.
        if rendered is None:
            return previous
        # Nothing new is applied.
        if rendered.failure or self.spec.configuration.is_report_only:
            return replace(rendered, manifests=previous.manifests if previous is not None else ())
        return rendered

    def _get_previous_resources(self, cluster: str) -> RenderedResources | None:
        """Return the resources on a cluster before the plan, None without any."""
        if cluster in self.released_clusters:
            return None
        return self.current.applied.on_cluster.get(cluster)

    def compute_present_resources(
        self, binding: Binding, reached: AbstractSet[str]
    ) -> RenderedResources | None:
        """Return the resources like `compute_resources`, but those from before if unreachable.

        An unreachable member applies the changes once it is reachable: until then they are pending.
        """
        resources = self.compute_resources(binding, reached)
        previous = self._get_previous_resources(binding.cluster)
        is_unreachable = binding.cluster in self.selection.clusters.unreachable
        if resources is None or resources is previous or not is_unreachable:
            return resources
        return replace(
            resources,
            manifests=previous.manifests if previous is not None else (),
            is_pending=not resources.failure and not self.spec.configuration.is_report_only,
        )

    def take_unnoticed_content(self) -> None:
        """Replace the selected and current resources by those with unnoticed content."""
        if self.unnoticed is not None:
            self.selection = self.unnoticed.selection
            self.current = self.unnoticed.current
            self.snapshot_store = self.unnoticed.snapshot_store
            self.unnoticed = None
            self._projection = None

    def project_rollout(self) -> RolloutProjection:
        """Return the projected rolling update of the current bindings.

        Compute it again only for changed bindings.
        """
        if self.is_left_unchanged:
            return RolloutProjection(waves=(), bindings=self.bindings)
        if (
            self._projection is None or self._projection[0] is not self.bindings
        ):  # (bindings, projection)
            configuration = self.spec.configuration
            latest = self.snapshot_store.snapshots[-1]
            number = self.spec.policy_snapshot.number_of_clusters
            target = compute_rollout_target(configuration.effective_policy, number, self.bindings)
            readiness = Readiness(
                unready_clusters=self.departed_clusters | self._pending_unreachable_clusters,
                unreachable_clusters=frozenset(self.selection.clusters.unreachable),
                never_ready_clusters=self.failing_clusters,
                failed_clusters=self.find_clusters_failed_for_hub(),
                waiting_clusters=self.waiting_clusters,
                retried_clusters=self.retried_clusters,
                reporting_clusters=self.reporting_clusters,
                outdated_clusters=self._find_outdated_clusters(latest.index),
                is_trackable=is_availability_tracked(latest.objects),
            )
            outcome = simulate_rollout(
                self._bind_evicted_clusters(target, readiness),
                configuration.rolling_update,
                target,
                latest.index,
                readiness,
            )
            self._projection = (self.bindings, outcome)
        return self._projection[1]

    def _bind_evicted_clusters(self, target: int, readiness: Readiness) -> tuple[Binding, ...]:
        """Return the bindings before the rollout of new content.

        Evictions come first, so an evicted cluster that is picked again gets the earlier content.
        """
        evicted = self.evicted_clusters
        earlier_snapshots = self.current.applied.snapshots
        is_new_content = (
            bool(earlier_snapshots)
            and earlier_snapshots[-1].index != self.snapshot_store.latest_index
        )
        if not evicted or not is_new_content:
            return self.bindings
        bindings_before = [
            binding
            for binding in self.bindings
            if binding.state is not BindingState.SCHEDULED or binding.cluster in evicted
        ]
        outcome = simulate_rollout(
            bindings_before,
            self.spec.configuration.rolling_update,
            target,
            earlier_snapshots[-1].index,
            readiness,
        )
        bound = {
            binding.cluster: binding
            for binding in outcome.bindings
            if binding.cluster in evicted and binding.state is BindingState.BOUND
        }
        return tuple(
            bound.get(binding.cluster, binding)
            if binding.state is BindingState.SCHEDULED
            else binding
            for binding in self.bindings
        )

    @property
    def departed_clusters(self) -> frozenset[str]:
        """Bound clusters that left or are leaving the fleet: no binding changes them any more."""
        bound = collect_clusters(self.bindings)
        members = self.selection.clusters.labels.keys()
        leaving = self.selection.clusters.leaving
        return frozenset((bound - members) | (bound & leaving))

    @property
    def previously_failed_clusters(self) -> frozenset[str]:
        """Clusters with permanent failures before this plan.

        They are failures of overrides or of applying, observed or configured. A changed apply
        strategy takes effect at once, and ends apply failures if it only reports differences.
        """
        previous = self.spec.previous_configuration
        is_changed = self.spec.apply_strategy_changed
        effective = self.spec.configuration if is_changed or previous is None else previous
        failed = self.current.applied.failed_clusters | self._find_observed_clusters(
            {OVERRIDE_FAILED}
        )
        if not (is_changed and effective.is_report_only):
            failed |= self._find_observed_clusters({FAILED})
        if not effective.is_report_only:
            failed |= self.selection.clusters.failing  # as configured
        return failed

    @property
    def clusters_with_unknown_rollout(self) -> frozenset[str]:
        """Bound clusters with the condition RolloutStarted Unknown.

        A hub reported it before, or the scheduler changed their binding since their run. A change
        is another state or policy snapshot than before the plan.
        """
        prior = {
            binding.cluster: binding
            for binding in self.spec.prior_bindings
            if binding.has_resources
        }
        reported = self.find_reported_clusters("RolloutStarted", "Unknown")
        unknown: set[str] = set()
        for binding in self.bindings:
            previous = prior.get(binding.cluster)
            if previous is None or binding.state is not BindingState.BOUND:
                # Not rolled out before, or not any more.
                continue
            is_changed = (previous.state, previous.policy_snapshot) != (
                binding.state,
                binding.policy_snapshot,
            )
            if is_changed or binding.cluster in reported:
                unknown.add(binding.cluster)
        return frozenset(unknown)

    @property
    def waiting_clusters(self) -> frozenset[str]:
        """Clusters that a hub reports as not ready: when they will be is unknown.

        Their readiness is a condition of rollouts, evictions and staged runs. Clusters that failed
        permanently or left the fleet are not among them.
        """
        waiting = self._find_observed_clusters({WAITING, UNAVAILABLE}) - self.departed_clusters
        return frozenset(waiting & collect_clusters_with_resources(self.spec.prior_bindings))

    @property
    def retried_clusters(self) -> frozenset[str]:
        """Clusters on which applying failed as a hub reports: the member tries again and again.

        The failure may end at any time, also by new content. One in the configuration lasts.
        """
        failed = self._find_observed_clusters({FAILED}) - self.departed_clusters
        return frozenset(failed - self.selection.clusters.failing)

    def format_awaited_clusters(self) -> str:
        """Return the clusters whose availability is a condition, as text: `m1, m2`."""
        return format_first_items(sorted(self.waiting_clusters | self.retried_clusters), _MAX_NAMES)

    @property
    def reporting_clusters(self) -> frozenset[str]:
        """Clusters on which differences are only reported, before the plan."""
        previous = self.spec.previous_configuration
        if self.spec.observed_attributes:
            return frozenset(self._find_observed_clusters({DIFF_REPORTED}))
        if previous is None or not previous.is_report_only:
            return frozenset()
        return frozenset(collect_clusters_with_resources(self.spec.prior_bindings))

    @property
    def unready_clusters(self) -> frozenset[str]:
        """Clusters with unavailable resources, temporarily or permanently."""
        return self.departed_clusters | self._pending_unreachable_clusters | self.waiting_clusters

    def find_clusters_failed_for_hub(self) -> frozenset[str]:
        """Return the clusters whose binding a hub counts as failed, before the plan.

        Permanently, or only not available: neither the budget of a rollout nor that of an eviction
        protects them.
        """
        return frozenset(
            self.previously_failed_clusters | self._find_observed_clusters({UNAVAILABLE})
        )

    def _find_observed_clusters(self, readiness: AbstractSet[str]) -> set[str]:
        """Return the clusters with one of these states of readiness on a hub."""
        bindings = get_mapping(self.spec.observed_attributes, "bindings")
        return {
            cluster
            for cluster, binding in bindings.items()
            if binding.get("readiness") in readiness
        }

    @property
    def clusters_failing_apply(self) -> frozenset[str]:
        """Clusters with a binding and a failure to apply.

        The failure is configured, or reported by a hub.
        """
        # No evidence of an apply failure.
        failed_overrides = self.current.applied.failed_clusters
        failing = (
            frozenset()
            if self.spec.configuration.is_report_only
            else self.selection.clusters.failing
        )
        failing_clusters = (self.previously_failed_clusters - failed_overrides) | failing
        return failing_clusters & collect_clusters(self.bindings)

    @property
    def clusters_applied_later(self) -> frozenset[str]:
        """Clusters that a rollout reaches while they are unreachable, in this plan or before it.

        The hub has the new content for them. It is unknown when they apply it.
        """
        changed = self.rollout.clusters & self.selection.clusters.unreachable.keys()
        return self._pending_unreachable_clusters | changed

    @property
    def _pending_unreachable_clusters(self) -> frozenset[str]:
        """Unreachable clusters that have not applied an earlier change."""
        pending = self.clusters_with_unknown_result | self.current.applied.pending_clusters
        return pending & self.selection.clusters.unreachable.keys()

    @property
    def clusters_cleared_later(self) -> frozenset[str]:
        """Unreachable clusters without a binding that may still have the objects of an earlier one.

        Removed by this plan, or by one before it as recorded in state. A hub lists such bindings.
        """
        left = collect_clusters_with_resources(self.spec.prior_bindings)
        if not self.spec.is_new and not self.spec.observed_attributes:
            left.update(get_list(self.spec.instance.prior_note, CLEARED_LATER))
        left -= collect_clusters_with_resources(self.bindings)
        return frozenset(left & self.selection.clusters.unreachable.keys())

    @property
    def clusters_with_unknown_result(self) -> frozenset[str]:
        """Clusters whose status before the plan has no result of applying, or of reporting."""
        applied = self.find_reported_clusters("Applied", UNKNOWN)
        return frozenset(applied | self.find_reported_clusters("DiffReported", UNKNOWN))

    @property
    def failing_clusters(self) -> frozenset[str]:
        """Clusters with current failures.

        Applying fails, or overrides and envelopes in the newest snapshot fail.
        """
        latest = self.snapshot_store.latest_index
        failed: set[str] = set()
        for binding in self.bindings:
            resources = self.snapshot_store.render_cluster(latest, binding.cluster)
            # None: no snapshot, or the member left.
            if resources is not None and resources.failure:
                failed.add(binding.cluster)
        return self.clusters_failing_apply | failed

    def _find_outdated_clusters(self, latest: int) -> frozenset[str]:
        """Return the clusters with outdated override snapshots.

        There are none if no rollout to the `latest` resource snapshot starts. It starts for an
        override naming the placement, a changed strategy, an eviction, a retry by the hub, a new or
        removed binding, or new resources. Other overrides start no rollout.
        """
        previous = self.spec.previous_configuration
        has_other_type = (
            previous is not None and previous.strategy != self.spec.configuration.strategy
        )
        has_changed_strategy = self.spec.apply_strategy_changed or has_other_type
        # A hub retries a blocked rollout.
        is_retried = bool(self.find_reported_clusters("RolloutStarted", "False"))
        if (
            self.current.has_override_change
            or has_changed_strategy
            or self.evicted_clusters
            or is_retried
        ):
            return self.current.outdated_clusters
        for binding in self.bindings:
            is_new_or_removed = binding.state is not BindingState.BOUND
            has_other_resources = binding.resource_snapshot != latest
            if is_new_or_removed or has_other_resources:
                return self.current.outdated_clusters
        return frozenset()

    @property
    def override_pending_clusters(self) -> tuple[str, ...]:
        """Clusters with a changed result of overrides.

        Only a rollout after this plan applies it.
        """
        # staged runs have a warning of their own.
        if self.spec.is_external or not self.current.differing_clusters:
            return ()
        # A rollout includes outdated overrides, even if it is blocked.
        outdated_clusters = self._find_outdated_clusters(self.snapshot_store.snapshots[-1].index)
        return tuple(
            sorted(self.current.differing_clusters - outdated_clusters - self.rollout.clusters)
        )

    def compute_final_resources(self, *, is_present: bool = False) -> dict[str, RenderedResources]:
        """Return the resources on each cluster after the plan.

        With `is_present`, those of unreachable members are the ones from before a pending change.
        """
        compute = self.compute_present_resources if is_present else self.compute_resources
        resources: dict[str, RenderedResources] = {}
        for binding in self.bindings:
            content = compute(binding, self.rollout.clusters)
            if content is not None:
                resources[binding.cluster] = content
        return resources

    def has_override_change(self, binding: Binding) -> bool:
        """Return True if the plan gives the objects on a binding's cluster another override result.

        A cluster without objects before or after the plan has none to compare.
        """
        before = self.current.applied.on_cluster.get(binding.cluster)
        after = self.compute_resources(binding, self.rollout.clusters)
        return before is not None and after is not None and not before.has_same_result(after)


def _find_hub_moves(spec: PlacementSpec) -> HubMoves:
    """Return the differences between predicted and observed clusters.

    The result is None if not in state or not on a hub.
    """
    if not spec.observed_attributes or spec.instance.prior is None:
        return HubMoves()
    predicted = collect_lasting_clusters(spec.recorded_bindings)
    observed = collect_lasting_clusters(spec.prior_bindings)
    removed = sorted(predicted - observed)
    added = sorted(observed - predicted)
    # In name order, each added cluster replaces a removed one, or none ("") after the last. With
    # [a, b, c] added and [x, y] removed, these are a: x, b: y and c: "". Removed clusters beyond
    # the added ones have no replacement.
    replaced = zip_longest(added, removed[: len(added)], fillvalue="")
    unreplaced = removed[len(added) :]
    return HubMoves(dict(replaced), tuple(unreplaced))


def create_placement_plan(spec: PlacementSpec, resources: PlacementResources) -> PlacementPlan:
    """Create the plan of a placement before its first iteration."""
    return PlacementPlan(
        spec,
        resources.selection,
        resources.current,
        resources.snapshot_store,
        spec.prior_bindings,
        SchedulingResult(spec.was_fulfilled),
        hub_moves=_find_hub_moves(spec),
        unnoticed=resources.unnoticed,
    )
