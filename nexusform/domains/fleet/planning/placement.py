"""One placement while a fleet is planned: what it holds, why it is looked at, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct, field, json
from msgspec.structs import replace

from nexusform.domains.fleet.importers.fleet_export import FAILED, UNOVERRIDDEN, WAITING
from nexusform.domains.fleet.importers.fleet_model import (
    EXTERNAL,
    REPORT_DIFF,
    ApplyStrategy,
    FleetOverride,
    FleetPlacement,
)
from nexusform.domains.fleet.planning.contents import (
    Contents,
    Loss,
    ResourceSnapshot,
    availability_tracked,
    has_resources,
    is_fulfilled,
    read_bindings,
    read_snapshot,
    with_snapshot,
)
from nexusform.domains.fleet.planning.older_names import in_fleet
from nexusform.domains.fleet.planning.overrides import Identity, Rendered, Renders, identity, opened
from nexusform.domains.fleet.planning.selecting import SelectorProblem
from nexusform.domains.fleet.planning.world import Clusters
from nexusform.domains.fleet.scheduling.bindings import (
    Abort,
    Binding,
    BindingAction,
    BindingState,
    Cause,
    PlacementType,
    Policy,
    PolicySnapshot,
)
from nexusform.domains.fleet.scheduling.cycle import CycleResult
from nexusform.domains.fleet.scheduling.decisions import SchedulingStatus
from nexusform.domains.fleet.scheduling.eviction import Eviction
from nexusform.domains.fleet.scheduling.rollout import Readiness, Rollout, Wave, roll_out, target_of
from nexusform.domains.fleet.scheduling.roster import Roster
from nexusform.domains.fleet.scheduling.snapshots import next_snapshot
from nexusform.domains.fleet.scheduling.watcher import Occasion, Trigger, Watched, trigger_of
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest
from nexusform.planning.instances.instance import Instance
from nexusform.plans.plan import Rollout as RolloutTimeline
from nexusform.plans.plan import RolloutStep

_NEWEST: Final = 1 << 62
NOT_SHOWN: Final[Mapping[str, Any]] = {}


class PlacementPlan(Struct):
    """`prior` is what state holds (empty when the object is new or replaced), `held` what it holds as
    rounds go by, `picked` and `released` why clusters came and went. `contents` is what stood before the
    plan, `snapshots` those that are there after it; `labels` are those of the members, by name. `idle`
    are the numbers of selectors that select nothing; `refused` is what a hub has against the selectors:
    such a placement is left as it is. `doubled` are objects that state says another (an address) has on a
    cluster, too. `left_to_runs` is what this plan changes of what only staged runs bring, `fixed` what a run
    brings to each cluster (the number of the snapshot, with the overrides of when it began). `looked_at`:
    a hub looks at it, as the plan changes what it selects. `decided` is what the last chain of cycles that
    picked any cluster started from. `shown` is what a real hub shows of it, attributes that go before those
    of state. `outdated` are clusters whose bindings name other override snapshots than are for them today,
    `otherwise` those for which overrides make something else of the objects than they have;
    `override_changed`: one that names the placement is another, which begins a rollout. `clusters` are the
    members.
    """

    instance: Instance
    written: FleetPlacement
    before: FleetPlacement | None
    prior: tuple[Binding, ...]
    snapshot: PolicySnapshot
    policy_changed: bool
    number_changed: bool
    number_increased: bool
    held: tuple[Binding, ...]
    fulfilled: bool
    selected: tuple[Manifest, ...] = ()
    idle: Sequence[int] = ()
    refused: SelectorProblem | None = None
    resources_changed: bool = False
    left_to_runs: Trigger | None = None
    looked_at: bool = False
    overrides: tuple[FleetOverride, ...] = ()
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    contents: Contents = Contents()
    snapshots: tuple[ResourceSnapshot, ...] = ()
    renders: dict[int, Renders] = field(default_factory=dict)
    fixed: dict[str, tuple[int, Renders]] = field(default_factory=dict)
    outdated: frozenset[str] = frozenset()
    otherwise: frozenset[str] = frozenset()
    override_changed: bool = False
    clusters: Clusters = Clusters()
    rolled: set[str] = field(default_factory=set)
    brought_by: dict[str, str] = field(default_factory=dict)
    lost: dict[str, dict[Identity, Loss]] = field(default_factory=dict)
    doubled: dict[str, dict[Identity, str]] = field(default_factory=dict)
    projection: tuple[tuple[Binding, ...], Rollout] | None = None
    evictions: list[tuple[str, Eviction]] = field(default_factory=list)
    status: SchedulingStatus | None = None
    abort: Abort | None = None
    ran: bool = False
    decided: tuple[tuple[Binding, ...], Roster] | None = None
    picked: dict[str, Trigger] = field(default_factory=dict)
    released: dict[str, Trigger] = field(default_factory=dict)
    waves: tuple[Wave, ...] = ()
    stalled: tuple[str, ...] = ()
    rejoined: frozenset[str] = frozenset()
    rollouts: list[RolloutTimeline] = field(default_factory=list)
    workloads: dict[str, Any] = field(default_factory=dict)
    shown: Mapping[str, Any] = field(default_factory=dict)
    observed: tuple[Mapping[str, str], tuple[str, ...]] | None = None

    @property
    def address(self) -> str:
        """Its address as text."""
        return str(self.instance.address)

    @property
    def creation(self) -> int:
        """Its place in the order in which objects came; what is new comes last."""
        return _NEWEST if self.created or self.instance.prior is None else self.instance.prior.creation

    @property
    def created(self) -> bool:
        """Whether a new object is made in this plan: one that neither state has nor a hub shows."""
        return not self.shown and (self.instance.prior is None or self.instance.replaced)

    @property
    def first_time(self) -> bool:
        """Whether the scheduler looks at it for the first time."""
        return self.created or (not self.prior and (self.pending or not self._was_scheduled))

    @property
    def pending(self) -> bool:
        """Whether a hub shows that its scheduler has still to look at the placement."""
        return self.shown.get("pending") is True

    @property
    def _was_scheduled(self) -> bool:
        return read_snapshot(self.prior_attributes) is not None

    @property
    def prior_attributes(self) -> Mapping[str, Any]:
        """What state holds, or a hub shows, of the object that stays; empty for a new one."""
        return {} if self.created else {**(self.instance.before or {}), **self.shown}

    @property
    def external(self) -> bool:
        """Whether staged runs roll it out."""
        return self.written.strategy == EXTERNAL

    @property
    def strategy_changed(self) -> bool:
        """Whether only the way of rolling out changed."""
        return self.before is not None and _rollout_of(self.before) != _rollout_of(self.written)

    @property
    def reapplied(self) -> bool:
        """Whether the way of applying changed, which reaches all clusters at once; staged runs bring it
        where they roll out.
        """
        if self.external:
            return False
        shown = (self.applied_as(cluster) for cluster in self.shown.get("bindings") or ())
        if any(apply is not None and apply != self.written.apply for apply in shown):
            return True
        return self.before is not None and self.before.apply != self.written.apply

    def applied_as(self, cluster: str) -> ApplyStrategy | None:
        """How what a cluster has is applied there before the plan; None where nothing tells."""
        if not self.shown:
            return None if self.before is None else self.before.apply
        binding = (self.shown.get("bindings") or {}).get(cluster) or {}
        if binding.get("deleting") or not binding.get("apply"):
            return None
        return json.decode(binding["apply"], type=ApplyStrategy)

    @property
    def spec_changed(self) -> bool:
        """Whether anything that was written changed."""
        return self.before is not None and self.before != self.written

    @property
    def evicted(self) -> frozenset[str]:
        """The clusters that an eviction of this plan let go, or whose binding a hub is removing."""
        executed = (eviction.cluster for _, eviction in self.evictions if eviction.executed)
        deleting = (binding.cluster for binding in self.prior if binding.deleting)
        return frozenset((*executed, *deleting))

    @property
    def given_up(self) -> frozenset[str]:
        """The clusters whose binding goes in this plan, whatever comes there anew."""
        return self.evicted | self.rejoined

    @property
    def other_trigger(self) -> Trigger:
        """What a rollout without rescheduling is put down to."""
        if self.resources_changed:
            return Trigger.RESOURCES_CHANGED
        if self.vanished:
            return Trigger.BINDING_DELETED if self.deleted_by_hand else Trigger.EVICTED
        if self.override_changed:
            return Trigger.OVERRIDES_CHANGED
        return Trigger.STRATEGY_CHANGED if self.strategy_changed else Trigger.RESOURCES_CHANGED

    @property
    def queued_by_itself(self) -> bool:
        """Whether the plan's own edits run its scheduling cycles."""
        return (
            self.first_time
            or self.pending
            or self.policy_changed
            or self.number_changed
            or self.spec_changed
            or self.resources_changed
            or self.override_changed
            or bool(self.evicted)
            or self.vanished
        )

    def turn_of(self, cluster: str) -> tuple[str, RolloutStep] | None:
        """When it is a cluster's turn in the last rollout that concerns it, and what rolls out."""
        for timeline in reversed(self.rollouts):
            for step in timeline.steps:
                if cluster in step.clusters:
                    return timeline.cause, step
        return None

    @property
    def vanished(self) -> bool:
        """Whether bindings that state had are gone: somebody removed them."""
        if self.missing:
            return True
        if self.created or not self.fulfilled:
            return False
        expected = self.snapshot.number_of_clusters or 0
        if self.written.kind is PlacementType.PICK_FIXED and self.written.policy:
            expected = len(set(self.written.policy.cluster_names))
        scheduled = [binding for binding in self.prior if binding.state is not BindingState.UNSCHEDULED]
        return len(scheduled) < expected

    @property
    def missing(self) -> tuple[str, ...]:
        """The members that a hub's status says it holds and of which no binding is left."""
        if not self.shown or self.pending:
            return ()
        standing = {binding.cluster for binding in self.prior}
        said = (
            str(status.get("cluster_name") or "")
            for status in self.shown.get("placement_statuses") or ()
            if _says(status, "Scheduled", "True")
        )
        members = self.clusters.labels.keys() - self.clusters.leaving - standing
        return tuple(sorted(members.intersection(said)))

    @property
    def deleted_by_hand(self) -> tuple[str, ...]:
        """Those of the missing that no eviction took."""
        records = self.shown.get("evictions") or ()
        evicted = {each["cluster_name"] for each in records if each.get("executed")}
        return tuple(cluster for cluster in self.missing if cluster not in evicted)

    @property
    def moved(self) -> bool:
        """Whether a rollout of this plan changes what any cluster has."""
        if self.held != self.prior or self.rolled:
            return True
        refused_before = {cluster: content.refused for cluster, content in self.contents.on_cluster.items()}
        if not self.lost and not any(refused_before.values()):
            return False
        for cluster, content in self.contents_after().items():
            if content.refused != refused_before.get(cluster, ()):
                return True
        return False

    def watched(self) -> Watched:
        """As the watcher sees it."""
        return Watched(self.address, self.written.kind, self.fulfilled)

    def policy_in(self, roster: Roster) -> Policy | None:
        """The policy with the older name of node-count read as today's where no member has the older, unless
        it is read strictly.
        """
        written = self.written
        return in_fleet(written.policy, roster) if written.old_names else written.policy

    # --- what it brings ---

    def take_snapshot(self) -> ResourceSnapshot:
        """The snapshot of what is selected now: the newest one where nothing changed, else one more."""
        limit = self.written.revision_history_limit
        self.snapshots = with_snapshot(self.snapshots, self.selected, limit)
        return self.snapshots[-1]

    def snapshot_of(self, index: int | None) -> ResourceSnapshot | None:
        """The snapshot with a number, as long as it is there."""
        return Contents(self.snapshots).snapshot(index)

    def rendered(self, index: int | None, cluster: str) -> Rendered | None:
        """What a cluster gets of a snapshot; None when there is no such snapshot or member."""
        if index is None:
            return None
        if self.fixed.get(cluster, (None,))[0] == index:
            return self.fixed[cluster][1].get(cluster)
        if index not in self.renders:
            snapshot = self.snapshot_of(index)
            if snapshot is None:
                return None
            self.renders[index] = Renders(snapshot.objects, self.overrides, self.labels)
        return self.renders[index].get(cluster)

    def content(self, binding: Binding, rolled: AbstractSet[str]) -> Rendered | None:
        """What stands on the cluster of a binding once the clusters `rolled` have got their resources; what
        belongs to others is left out. None when nothing is there.
        """
        content = self._brought(binding, rolled)
        lost = self.lost.get(binding.cluster, {})
        if content is None or not (lost or content.refused):
            return content
        claimed = self.claimed(binding, rolled)
        manifests = tuple(manifest for manifest in claimed if identity(manifest) not in lost)
        refused = tuple(identity(manifest) for manifest in claimed if identity(manifest) in lost)
        return replace(content, manifests=manifests, refused=refused)

    def claimed(self, binding: Binding, rolled: AbstractSet[str]) -> tuple[Manifest, ...]:
        """What the placement would have on the cluster if nobody else had any of it: what it has, and what
        it was refused before.
        """
        content = self._brought(binding, rolled)
        if content is None:
            return ()
        manifests = tuple(opened(content.manifests))
        rendered = self.rendered(binding.resource_snapshot, binding.cluster)
        if not content.refused or rendered is None:
            return manifests
        offered = opened(rendered.manifests)
        refused = [manifest for manifest in offered if identity(manifest) in content.refused]
        return (*manifests, *refused)

    def _brought(self, binding: Binding, rolled: AbstractSet[str]) -> Rendered | None:
        """The content of a cluster as far as this placement alone decides. Where overriding fails, and where
        differences are only reported, what was there stays.
        """
        if not has_resources(binding):
            return None
        cluster = binding.cluster
        content_before = None if cluster in self.given_up else self.contents.on_cluster.get(cluster)
        if cluster not in rolled and not self._applied_at_last:
            return content_before
        rendered = self.rendered(binding.resource_snapshot, cluster)
        if rendered is None:
            return content_before
        if rendered.failure or self.written.report_diff:
            return replace(rendered, manifests=content_before.manifests if content_before is not None else ())
        return rendered

    @property
    def _applied_at_last(self) -> bool:
        """Whether differences were only reported, and from now on what stands in the Works is applied."""
        return self.reapplied and not self.written.report_diff and self._reported_before

    @property
    def _reported_before(self) -> bool:
        """Whether differences were only reported before the plan."""
        before = [self.applied_as(cluster) for cluster in self.shown.get("bindings") or ()]
        if self.before is not None:
            before.append(self.before.apply)
        return any(apply is not None and apply.type == REPORT_DIFF for apply in before)

    def roll_out(self) -> Rollout:
        """How a rolling update of what it holds goes."""
        if self.refused is not None:
            return Rollout((), self.held)
        if self.projection is None or self.projection[0] is not self.held:
            written, latest = self.written, self.snapshots[-1]
            target = target_of(written.policy, self.snapshot.number_of_clusters, self.held)
            outcome = roll_out(self.held, written.rolling, target, latest.index, self._readiness(latest))
            self.projection = (self.held, outcome)
        return self.projection[1]

    @property
    def left(self) -> frozenset[str]:
        """The clusters of it that are no members any more, or are leaving: what was there went with them."""
        held = {binding.cluster for binding in self.held}
        return frozenset(held - self.clusters.labels.keys() | held & self.clusters.leaving)

    @property
    def failed(self) -> frozenset[str]:
        """The clusters on which what it brought before this plan failed for good. Where another way of
        applying comes, which it does before all else, it is what fails then.
        """
        shown = self.shown.get("bindings") or {}
        before = self.written if self.reapplied or self.before is None else self.before
        of_apply = () if before.report_diff and self.reapplied else (FAILED,)
        of_hub = {c for c, each in shown.items() if each.get("standing") in (*of_apply, UNOVERRIDDEN)}
        overriding = {c for c, content in self.contents.on_cluster.items() if content.failure}
        refusing = frozenset() if before.report_diff else self.clusters.failing
        return frozenset(of_hub | overriding | refusing)

    @property
    def unsure(self) -> frozenset[str]:
        """The bound clusters whose bindings the scheduler changed since a staged run brought what they have:
        a hub does not know then whether the rollout started, until another run says so.
        """
        before = {binding.cluster: binding for binding in self.prior if has_resources(binding)}
        told = self.prior_attributes.get("placement_statuses") or ()
        unknown = [status for status in told if _says(status, "RolloutStarted", "Unknown")]
        said = {str(status.get("cluster_name") or "") for status in unknown}
        return frozenset(
            binding.cluster
            for binding in self.held
            if binding.state is BindingState.BOUND
            and binding.cluster in before
            and (binding.cluster in said or _is_repointed(before[binding.cluster], binding))
        )

    @property
    def not_ready(self) -> frozenset[str]:
        """The clusters on which what it brought is not available, now or ever."""
        shown = self.shown.get("bindings") or {}
        return self.left | {cluster for cluster, each in shown.items() if each.get("standing") == WAITING}

    @property
    def refusing(self) -> frozenset[str]:
        """The clusters of it on which applying fails, as the configuration says or a hub shows."""
        # Where overriding or an envelope failed before, nothing tells that applying fails.
        before = {c for c in self.failed if not self._overriding_failed(c)}
        refusing = frozenset() if self.written.report_diff else self.clusters.failing
        return frozenset(before | refusing) & {binding.cluster for binding in self.held}

    @property
    def failing(self) -> frozenset[str]:
        """The clusters on which what it brings now fails: overrides, envelopes, or applying."""
        latest = self.snapshots[-1].index if self.snapshots else None
        overriding = set()
        for binding in self.held:
            rendered = self.rendered(latest, binding.cluster)
            if rendered is not None and rendered.failure:
                overriding.add(binding.cluster)
        return self.refusing | overriding

    def _overriding_failed(self, cluster: str) -> bool:
        content = self.contents.on_cluster.get(cluster)
        return content is not None and bool(content.failure)

    def _readiness(self, latest: ResourceSnapshot) -> Readiness:
        """What is known of its clusters when a rolling update begins. What waits becomes available."""
        outdated = self.outdated if self._begins(latest.index) else frozenset()
        return Readiness(
            unready=self.left,
            never_ready=self.failing,
            failed=self.failed,
            outdated=outdated,
            trackable=availability_tracked(latest.objects),
        )

    @property
    def _held_up(self) -> bool:
        """Whether a rollout that began earlier is held up: a hub looks at it again and again."""
        statuses = self.prior_attributes.get("placement_statuses") or ()
        return any(_says(status, "RolloutStarted", "False") for status in statuses)

    def _begins(self, latest: int) -> bool:
        """Whether anything begins a rollout: new content, a binding that comes or goes, the strategy, or an
        override that names the placement. A rollout then brings all overrides.
        """
        if self.override_changed or self.reapplied or self.evicted or self._held_up:
            return True
        if self.before is not None and self.before.strategy != self.written.strategy:
            return True
        return any(
            binding.state is not BindingState.BOUND or binding.resource_snapshot != latest
            for binding in self.held
        )

    @property
    def moved_on_the_hub(self) -> tuple[Mapping[str, str], tuple[str, ...]]:
        """Where a hub shows it otherwise than it was foretold: by cluster that came there the one that went
        for it ("" = none did), and the clusters that went without another. Nothing where state has none.
        """
        if self.observed is None:
            self.observed = self._observed()
        return self.observed

    def _observed(self) -> tuple[Mapping[str, str], tuple[str, ...]]:
        instance = self.instance
        if not self.shown or instance.prior is None or instance.before is None:
            return {}, ()
        foretold = _clusters_in(read_bindings(instance.before))
        shown = _clusters_in(self.prior)
        gone, came = sorted(foretold - shown), sorted(shown - foretold)
        went = [*gone, *([""] * len(came))]
        return dict(zip(came, went, strict=False)), tuple(gone[len(came) :])

    @property
    def overrides_wait(self) -> tuple[str, ...]:
        """The clusters that overrides reach only with the next change."""
        if self.external or not self.otherwise:
            return ()
        # What a rollout takes along is not left to the next change, even where it is held up.
        rolling = self.outdated if self._begins(self.snapshots[-1].index) else frozenset()
        return tuple(sorted(self.otherwise - rolling - self.rolled))

    def contents_after(self) -> dict[str, Rendered]:
        """What stands on each cluster after the plan."""
        contents = {binding.cluster: self.content(binding, self.rolled) for binding in self.held}
        return {cluster: content for cluster, content in contents.items() if content is not None}

    def reoverridden(self, binding: Binding) -> bool:
        """Whether the plan gives the cluster of a binding what other overrides make of its objects."""
        before = self.contents.on_cluster.get(binding.cluster)
        after = self.content(binding, self.rolled)
        if before is None or after is None:
            return False
        return not before.reads_like(after)

    def take(
        self, result: CycleResult, occasion: Occasion, start: tuple[Binding, ...], roster: Roster
    ) -> bool:
        """Note what a chain of cycles did that started from these bindings; whether any of them changed."""
        held_before = self.held
        if any(change.cause is Cause.PICKED for change in result.changes):
            self.decided = (start, roster)
        self.held = result.bindings
        self.abort = result.abort
        self.ran = True
        if result.status is not None:
            self.status = result.status
            self.fulfilled = result.status.fulfilled
        for change in result.changes:
            trigger = trigger_of(change, occasion)
            if change.change in (BindingAction.UNSCHEDULED, BindingAction.DROPPED):
                self.released[change.cluster] = trigger
                self.picked.pop(change.cluster, None)
            else:
                self.picked[change.cluster] = trigger
        return held_before != self.held


def _says(status: Mapping[str, Any], condition: str, answer: str) -> bool:
    """Whether the status of a cluster has a condition with this answer."""
    conditions = status.get("conditions") or ()
    return any(each.get("type") == condition and each.get("status") == answer for each in conditions)


def _is_repointed(before: Binding, now: Binding) -> bool:
    """Whether the scheduler changed a binding that stays."""
    return (before.state, before.policy_snapshot) != (now.state, now.policy_snapshot)


def _clusters_in(bindings: Iterable[Binding]) -> set[str]:
    """The clusters that bindings hold and do not give up."""
    return {b.cluster for b in bindings if b.state is not BindingState.UNSCHEDULED and not b.deleting}


def begin(instance: Instance, written: FleetPlacement, shown: Mapping[str, Any] = NOT_SHOWN) -> PlacementPlan:
    """A placement before its first round; `shown` is what a hub shows of it."""
    stays = instance.prior is not None and not instance.replaced
    remembered = instance.before if stays and instance.before is not None else {}
    attributes = {**remembered, **shown}
    read_object = instance.type.fleet
    before = read_object(attributes) if attributes and read_object is not None else None
    bindings = read_bindings(attributes)
    last_snapshot = read_snapshot(attributes)
    snapshot = next_snapshot(last_snapshot, written.policy)
    return PlacementPlan(
        instance=instance,
        written=written,
        before=before if isinstance(before, FleetPlacement) else None,
        prior=bindings,
        snapshot=snapshot,
        policy_changed=last_snapshot is not None and last_snapshot.index != snapshot.index,
        number_changed=last_snapshot is not None and last_snapshot.number_of_clusters != written.number,
        number_increased=_asks_for_more(last_snapshot, written.number),
        held=bindings,
        fulfilled=is_fulfilled(attributes),
        shown=shown,
    )


def _asks_for_more(last: PolicySnapshot | None, number: int | None) -> bool:
    """Whether number_of_clusters was raised."""
    if last is None or last.number_of_clusters is None or number is None:
        return False
    return number > last.number_of_clusters


def _rollout_of(placement: FleetPlacement) -> tuple[object, ...]:
    """What says how changes reach the clusters."""
    return placement.strategy, placement.rolling, placement.apply
