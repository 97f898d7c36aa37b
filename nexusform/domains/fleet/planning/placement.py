"""One placement while a fleet is planned: what it holds, why it is looked at, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.fleet.importers.fleet_export import FAILED, UNOVERRIDDEN, WAITING
from nexusform.domains.fleet.planning.asked import Asked
from nexusform.domains.fleet.planning.contents import (
    ResourceSnapshot,
    availability_tracked,
    has_resources,
    read_bindings,
)
from nexusform.domains.fleet.planning.decided import Owned, RolledOut, Scheduled
from nexusform.domains.fleet.planning.offer import Offer, Standing, Stock
from nexusform.domains.fleet.planning.overrides import Rendered, identity, opened
from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    BindingState,
    PlacementType,
)
from nexusform.domains.fleet.scheduling.cycle import CycleResult
from nexusform.domains.fleet.scheduling.eviction import Eviction
from nexusform.domains.fleet.scheduling.rollout import Readiness, Rollout, roll_out, target_of
from nexusform.domains.fleet.scheduling.roster import Roster
from nexusform.domains.fleet.scheduling.watcher import Occasion, Trigger, Watched
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest
from nexusform.plans.plan import RolloutStep


class PlacementPlan(Struct):
    """What is asked (`asked`), what there is to bring (`offer`, `stock`) and what of it stands (`standing`)
    are settled before. As rounds, runs and rollouts go by `held`, what it holds, is another one, and so are
    `scheduled`, `owned` and `rolled_out`, what was decided of it. `evictions` are those of this plan by name,
    `rejoined` the members that left and come again, `workloads` what pods are foretold to run, by cluster.
    """

    asked: Final[Asked]
    offer: Final[Offer]
    standing: Final[Standing]
    stock: Final[Stock]
    held: tuple[Binding, ...]
    scheduled: Scheduled
    owned: Owned = field(default_factory=Owned)
    rolled_out: RolledOut = field(default_factory=RolledOut)
    evictions: tuple[tuple[str, Eviction], ...] = ()
    rejoined: frozenset[str] = frozenset()
    workloads: Final[dict[str, Any]] = field(default_factory=dict)
    _projection: tuple[tuple[Binding, ...], Rollout] | None = None
    _observed: tuple[Mapping[str, str], tuple[str, ...]] | None = None

    @property
    def address(self) -> str:
        """Its address as text."""
        return self.asked.address

    @property
    def key(self) -> str:
        """Its name on the hub, after its namespace where it has one."""
        return self.asked.written.key

    @property
    def evicted(self) -> frozenset[str]:
        """The clusters that an eviction of this plan let go, or whose binding a hub is removing."""
        deleting = self.asked.deleting
        if not self.evictions:
            return deleting
        return deleting | {eviction.cluster for _, eviction in self.evictions if eviction.executed}

    @property
    def given_up(self) -> frozenset[str]:
        """The clusters whose binding goes in this plan, whatever comes there anew."""
        return self.evicted | self.rejoined

    @property
    def other_trigger(self) -> Trigger:
        """What a rollout without rescheduling is put down to."""
        if self.standing.resources_changed:
            return Trigger.RESOURCES_CHANGED
        if self.vanished:
            return Trigger.BINDING_DELETED if self.deleted_by_hand else Trigger.EVICTED
        if self.standing.override_changed:
            return Trigger.OVERRIDES_CHANGED
        return Trigger.STRATEGY_CHANGED if self.asked.strategy_changed else Trigger.RESOURCES_CHANGED

    @property
    def queued_by_itself(self) -> bool:
        """Whether the plan's own edits run its scheduling cycles."""
        return (
            self.asked.first_time
            or self.asked.pending
            or self.asked.policy_changed
            or self.asked.number_changed
            or self.asked.spec_changed
            or self.standing.resources_changed
            or self.standing.override_changed
            or bool(self.evicted)
            or self.vanished
        )

    def turn_of(self, cluster: str) -> tuple[str, RolloutStep] | None:
        """When it is a cluster's turn in the last rollout that concerns it, and what rolls out."""
        for timeline in reversed(self.rolled_out.timelines):
            for step in timeline.steps:
                if cluster in step.clusters:
                    return timeline.cause, step
        return None

    @property
    def vanished(self) -> bool:
        """Whether bindings that state had are gone: somebody removed them."""
        if self.missing:
            return True
        if self.asked.created or not self.scheduled.fulfilled:
            return False
        expected = self.asked.snapshot.number_of_clusters or 0
        if self.asked.written.kind is PlacementType.PICK_FIXED and self.asked.written.policy:
            expected = len(set(self.asked.written.policy.cluster_names))
        scheduled = [binding for binding in self.asked.prior if binding.state is not BindingState.UNSCHEDULED]
        return len(scheduled) < expected

    @property
    def missing(self) -> tuple[str, ...]:
        """The members that a hub's status says it holds and of which no binding is left."""
        if not self.asked.shown or self.asked.pending:
            return ()
        standing = {binding.cluster for binding in self.asked.prior}
        said = (
            str(status.get("cluster_name") or "")
            for status in self.asked.shown.get("placement_statuses") or ()
            if _says(status, "Scheduled", "True")
        )
        members = self.offer.clusters.labels.keys() - self.offer.clusters.leaving - standing
        return tuple(sorted(members.intersection(said)))

    @property
    def deleted_by_hand(self) -> tuple[str, ...]:
        """Those of the missing that no eviction took."""
        records = self.asked.shown.get("evictions") or ()
        evicted = {each["cluster_name"] for each in records if each.get("executed")}
        return tuple(cluster for cluster in self.missing if cluster not in evicted)

    @property
    def moved(self) -> bool:
        """Whether a rollout of this plan changes what any cluster has."""
        if self.held != self.asked.prior or self.rolled_out.clusters:
            return True
        on_cluster = self.standing.contents.on_cluster
        refused_before = {cluster: content.refused for cluster, content in on_cluster.items()}
        if not self.owned.lost and not any(refused_before.values()):
            return False
        for cluster, content in self.contents_after().items():
            if content.refused != refused_before.get(cluster, ()):
                return True
        return False

    def watched(self) -> Watched:
        """As the watcher sees it."""
        return Watched(self.address, self.asked.written.kind, self.scheduled.fulfilled)

    # --- what it brings ---

    def content(self, binding: Binding, rolled: AbstractSet[str]) -> Rendered | None:
        """What stands on the cluster of a binding once the clusters `rolled` have got their resources; what
        belongs to others is left out. None when nothing is there.
        """
        content = self._brought(binding, rolled)
        lost = self.owned.lost.get(binding.cluster, {})
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
        rendered = self.stock.rendered(binding.resource_snapshot, binding.cluster)
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
        content_before = None if cluster in self.given_up else self.standing.contents.on_cluster.get(cluster)
        if cluster not in rolled and not self.asked.applied_at_last:
            return content_before
        rendered = self.stock.rendered(binding.resource_snapshot, cluster)
        if rendered is None:
            return content_before
        if rendered.failure or self.asked.written.report_diff:
            return replace(rendered, manifests=content_before.manifests if content_before is not None else ())
        return rendered

    def roll_out(self) -> Rollout:
        """How a rolling update of what it holds goes."""
        if self.offer.refused is not None:
            return Rollout((), self.held)
        if self._projection is None or self._projection[0] is not self.held:
            written, latest = self.asked.written, self.stock.snapshots[-1]
            target = target_of(written.policy, self.asked.snapshot.number_of_clusters, self.held)
            outcome = roll_out(self.held, written.rolling, target, latest.index, self._readiness(latest))
            self._projection = (self.held, outcome)
        return self._projection[1]

    @property
    def left_members(self) -> frozenset[str]:
        """The clusters of it that are no members any more, or are leaving: what was there went with them."""
        held = {binding.cluster for binding in self.held}
        return frozenset(held - self.offer.clusters.labels.keys() | held & self.offer.clusters.leaving)

    @property
    def failed_before(self) -> frozenset[str]:
        """The clusters on which what it brought before this plan failed for good. Where another way of
        applying comes, which it does before all else, it is what fails then.
        """
        asked = self.asked
        applied_as = asked.written if asked.reapplied or asked.before is None else asked.before
        counts = {FAILED, UNOVERRIDDEN}
        if applied_as.report_diff and asked.reapplied:
            counts.remove(FAILED)
        shown = asked.shown.get("bindings") or {}
        on_the_hub = {cluster for cluster, each in shown.items() if each.get("standing") in counts}
        by_overriding = {c for c, content in self.standing.contents.on_cluster.items() if content.failure}
        by_applying = frozenset() if applied_as.report_diff else self.offer.clusters.failing
        return frozenset(on_the_hub | by_overriding | by_applying)

    @property
    def unsure(self) -> frozenset[str]:
        """The bound clusters whose bindings the scheduler changed since a staged run brought what they have:
        a hub does not know then whether the rollout started, until another run says so.
        """
        before = {binding.cluster: binding for binding in self.asked.prior if has_resources(binding)}
        told = self.asked.prior_attributes.get("placement_statuses") or ()
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
        shown = self.asked.shown.get("bindings") or {}
        waiting = {cluster for cluster, each in shown.items() if each.get("standing") == WAITING}
        return self.left_members | waiting

    @property
    def fails_to_apply(self) -> frozenset[str]:
        """The clusters of it on which applying fails, as the configuration says or a hub shows."""
        # Where overriding or an envelope failed before, nothing tells that applying fails.
        before = {c for c in self.failed_before if not self._overriding_failed(c)}
        refusing = frozenset() if self.asked.written.report_diff else self.offer.clusters.failing
        return frozenset(before | refusing) & {binding.cluster for binding in self.held}

    @property
    def fails_now(self) -> frozenset[str]:
        """The clusters on which what it brings now fails: overrides, envelopes, or applying."""
        latest = self.stock.snapshots[-1].index if self.stock.snapshots else None
        overriding = set()
        for binding in self.held:
            rendered = self.stock.rendered(latest, binding.cluster)
            if rendered is not None and rendered.failure:
                overriding.add(binding.cluster)
        return self.fails_to_apply | overriding

    def _overriding_failed(self, cluster: str) -> bool:
        content = self.standing.contents.on_cluster.get(cluster)
        return content is not None and bool(content.failure)

    def _readiness(self, latest: ResourceSnapshot) -> Readiness:
        """What is known of its clusters when a rolling update begins. What waits becomes available."""
        outdated = self.standing.outdated if self._begins(latest.index) else frozenset()
        return Readiness(
            unready=self.left_members,
            never_ready=self.fails_now,
            failed=self.failed_before,
            outdated=outdated,
            trackable=availability_tracked(latest.objects),
        )

    @property
    def _held_up(self) -> bool:
        """Whether a rollout that began earlier is held up: a hub looks at it again and again."""
        statuses = self.asked.prior_attributes.get("placement_statuses") or ()
        return any(_says(status, "RolloutStarted", "False") for status in statuses)

    def _begins(self, latest: int) -> bool:
        """Whether anything begins a rollout: new content, a binding that comes or goes, the strategy, or an
        override that names the placement. A rollout then brings all overrides.
        """
        if self.standing.override_changed or self.asked.reapplied or self.evicted or self._held_up:
            return True
        if self.asked.before is not None and self.asked.before.strategy != self.asked.written.strategy:
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
        if self._observed is None:
            self._observed = self._look()
        return self._observed

    def _look(self) -> tuple[Mapping[str, str], tuple[str, ...]]:
        instance = self.asked.instance
        if not self.asked.shown or instance.prior is None or instance.before is None:
            return {}, ()
        foretold = _clusters_in(read_bindings(instance.before))
        shown = _clusters_in(self.asked.prior)
        gone, came = sorted(foretold - shown), sorted(shown - foretold)
        went = [*gone, *([""] * len(came))]
        return dict(zip(came, went, strict=False)), tuple(gone[len(came) :])

    @property
    def overrides_wait(self) -> tuple[str, ...]:
        """The clusters that overrides reach only with the next change."""
        if self.asked.external or not self.standing.otherwise:
            return ()
        # What a rollout takes along is not left to the next change, even where it is held up.
        rolling = self.standing.outdated if self._begins(self.stock.snapshots[-1].index) else frozenset()
        return tuple(sorted(self.standing.otherwise - rolling - self.rolled_out.clusters))

    def contents_after(self) -> dict[str, Rendered]:
        """What stands on each cluster after the plan."""
        contents = {binding.cluster: self.content(binding, self.rolled_out.clusters) for binding in self.held}
        return {cluster: content for cluster, content in contents.items() if content is not None}

    def reoverridden(self, binding: Binding) -> bool:
        """Whether the plan gives the cluster of a binding what other overrides make of its objects."""
        before = self.standing.contents.on_cluster.get(binding.cluster)
        after = self.content(binding, self.rolled_out.clusters)
        if before is None or after is None:
            return False
        return not before.reads_like(after)

    def take(
        self, result: CycleResult, occasion: Occasion, start: tuple[Binding, ...], roster: Roster
    ) -> bool:
        """Note what a chain of cycles did that started from these bindings; whether any of them changed."""
        held_before = self.held
        self.held = result.bindings
        self.scheduled = self.scheduled.after(result, occasion, start, roster)
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


def begin(asked: Asked, offer: Offer, standing: Standing, stock: Stock) -> PlacementPlan:
    """A placement before its first round."""
    return PlacementPlan(asked, offer, standing, stock, asked.prior, Scheduled(asked.fulfilled))
