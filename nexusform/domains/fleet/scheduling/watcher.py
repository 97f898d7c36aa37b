"""The member cluster watcher: which change of a member queues which placements, and which queues none;
and the names that plans show for why a placement is looked at again and why a binding changed.

Source: KubeFleet pkg/scheduler/watchers/membercluster. A departure queues every placement. Other changes
queue PickAll placements, and PickFixed and PickN ones only while they are not fully scheduled: a
fulfilled PickN is never looked at again because a cluster got better or worse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct, field

from nexusform.domains.fleet.scheduling.bindings import (
    Ask,
    BindingAction,
    BindingChange,
    Cause,
    Member,
    PlacementType,
)
from nexusform.domains.fleet.scheduling.roster import Roster, Standing
from nexusform.domains.fleet.scheduling.rules import cluster_affinity, cluster_eligibility, taint_toleration


class Trigger(StrEnum):
    """Triggers of fleet bindings, and observations that move nothing (the last four)."""

    PLACEMENT_CREATED = "placement_created"
    POLICY_CHANGED = "policy_changed"
    NUMBER_INCREASED = "number_of_clusters_increased"
    NUMBER_DECREASED = "number_of_clusters_decreased"
    CLUSTER_JOINED = "cluster_joined"
    CLUSTER_BECAME_ELIGIBLE = "cluster_became_eligible"
    CLUSTER_LABELS_CHANGED = "cluster_labels_changed"
    CLUSTER_PROPERTIES_CHANGED = "cluster_properties_changed"
    TAINT_REMOVED = "taint_removed"
    CLUSTER_LEFT = "cluster_left"
    EVICTED = "evicted"
    BINDING_DELETED = "binding_deleted"
    PLACEMENT_REMOVED = "placement_removed"
    RESOURCES_CHANGED = "resources_changed"
    STRATEGY_CHANGED = "strategy_changed"
    OVERRIDES_CHANGED = "overrides_changed"
    STAGED_RUN = "staged_run"
    TAINT_ADDED = "taint_added"
    CLUSTER_BECAME_INELIGIBLE = "cluster_became_ineligible"
    LABELS_NO_LONGER_MATCH = "labels_no_longer_match"
    MOVED_ON_THE_HUB = "moved_on_the_hub"


class Occasion(Struct, frozen=True):
    """What made a placement run its chain of cycles, all edits of one plan together.

    `members` has the trigger of each member that queued it. `evicted`, `left`: clusters whose binding an
    eviction deleted, or that are gone or leaving.
    """

    created: bool = False
    policy_changed: bool = False
    number_increased: bool = False
    evicted: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()
    members: Mapping[str, Trigger] = field(default_factory=dict)
    other: Trigger = Trigger.RESOURCES_CHANGED


_RELEASED = {
    Cause.CLUSTER_LEFT: Trigger.CLUSTER_LEFT,
    Cause.POLICY: Trigger.POLICY_CHANGED,
    Cause.DOWNSCALE: Trigger.NUMBER_DECREASED,
    Cause.DELETED: Trigger.EVICTED,
}


def trigger_of(change: BindingChange, occasion: Occasion) -> Trigger:
    """The one trigger to show for a change: what concerns the cluster itself before what concerns others."""
    if change.change in (BindingAction.UNSCHEDULED, BindingAction.DROPPED):
        return _RELEASED[change.cause]
    if occasion.created:
        return Trigger.PLACEMENT_CREATED
    if occasion.policy_changed or change.change is BindingAction.REPOINTED:
        return Trigger.POLICY_CHANGED
    if change.cluster in occasion.evicted:
        return Trigger.EVICTED
    return occasion.members.get(change.cluster) or _general(occasion)


def _general(occasion: Occasion) -> Trigger:
    """The trigger of a placement that several things happen to: the first of these."""
    if occasion.number_increased:
        return Trigger.NUMBER_INCREASED
    if occasion.evicted:
        return Trigger.EVICTED
    if occasion.left:
        return Trigger.CLUSTER_LEFT
    return next((trigger for _, trigger in sorted(occasion.members.items())), occasion.other)


class Watched(Struct, frozen=True):
    """A placement as the watcher sees it. `fulfilled`: its Scheduled condition is True."""

    key: str
    placement_type: PlacementType
    fulfilled: bool


class MemberChange(Struct, frozen=True):
    """One member's change that queues placements; several at once show as the first of the table."""

    member: str
    trigger: Trigger


class Queued(Struct, frozen=True):
    """A placement to be scheduled again, and the changes that ask for it, by member name."""

    placement: str
    changes: tuple[MemberChange, ...]


def trigger_for(before: Member | None, after: Member | None) -> Trigger | None:
    """What a member's change queues placements for; None when it queues none.

    A member that appears queues them only once it is eligible; one that is being deleted, only when it
    is gone; taints that are added, heartbeats and a loss of eligibility never do.
    """
    if after is None:
        return Trigger.CLUSTER_LEFT if before is not None else None
    if after.leaving:
        return None
    eligible = cluster_eligibility.ineligible(after) is None
    if before is None:
        return Trigger.CLUSTER_JOINED if eligible else None
    if eligible and cluster_eligibility.ineligible(before) is not None:
        return Trigger.CLUSTER_BECAME_ELIGIBLE
    if before.labels != after.labels:
        return Trigger.CLUSTER_LABELS_CHANGED
    if not set(before.taints) <= set(after.taints):
        return Trigger.TAINT_REMOVED
    if _properties_changed(before, after):
        return Trigger.CLUSTER_PROPERTIES_CHANGED
    return None


def _properties_changed(before: Member, after: Member) -> bool:
    """Properties (the values or the set of them), resource usage or namespaces."""
    return (
        before.properties != after.properties
        or before.resources != after.resources
        or before.namespaces != after.namespaces
    )


def member_changes(before: Iterable[Member], after: Iterable[Member]) -> tuple[MemberChange, ...]:
    """The changes between two states of the fleet that queue placements, by member name."""
    old = {member.name: member for member in before}
    new = {member.name: member for member in after}
    changes: list[MemberChange] = []
    for name in sorted({*old, *new}):
        old_member, new_member = old.get(name), new.get(name)
        trigger = None if old_member is new_member else trigger_for(old_member, new_member)
        if trigger is not None:
            changes.append(MemberChange(name, trigger))
    return tuple(changes)


def queued(
    before: Iterable[Member], after: Iterable[Member], placements: Iterable[Watched]
) -> tuple[Queued, ...]:
    """The placements that the changes between two states of the fleet queue, in the order given."""
    all_changes = member_changes(before, after)
    departures = tuple(change for change in all_changes if change.trigger is Trigger.CLUSTER_LEFT)
    queue: list[Queued] = []
    for placement in placements:
        idle = placement.fulfilled and placement.placement_type is not PlacementType.PICK_ALL
        changes = departures if idle else all_changes
        if changes:
            queue.append(Queued(placement.key, changes))
    return tuple(queue)


class Observation(Struct, frozen=True):
    """A change of a picked member that would keep it from being picked today, and moves nothing."""

    trigger: Trigger
    reason: str


def observations(before: Member | None, after: Member, ask: Ask) -> tuple[Observation, ...]:
    """What a placement that holds `after` would refuse in it now and did not before."""
    observed: list[Observation] = []
    ineligible = cluster_eligibility.ineligible(after)
    if ineligible is not None and (before is None or cluster_eligibility.ineligible(before) is None):
        observed.append(Observation(Trigger.CLUSTER_BECAME_INELIGIBLE, ineligible))
    if ask.policy.placement_type is PlacementType.PICK_FIXED:
        return tuple(observed)
    tolerations = ask.policy.tolerations
    taint = taint_toleration.untolerated(after.taints, tolerations)
    if taint is not None and (
        before is None or taint_toleration.untolerated(before.taints, tolerations) is None
    ):
        reason = taint_toleration.reason(ask, Roster([after]), Standing(), 0)
        observed.append(Observation(Trigger.TAINT_ADDED, reason))
    if not _matches(after, ask) and (before is None or _matches(before, ask)):
        observed.append(Observation(Trigger.LABELS_NO_LONGER_MATCH, cluster_affinity.REASON))
    return tuple(observed)


def _matches(member: Member, ask: Ask) -> bool:
    """Whether a member matches the required affinity of a placement."""
    return cluster_affinity.admitted(ask, Roster([member]), Standing()) == 1
