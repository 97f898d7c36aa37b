"""Member cluster watcher: placements queued by member changes.

The module also finds the triggers of binding changes in plans.

Source: KubeFleet pkg/scheduler/watchers/membercluster.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import (
    BindingAction,
    BindingChange,
    ChangeCause,
    Member,
    PlacementRequest,
    PlacementType,
)
from nexusform.domains.fleet.scheduling.member_list import BindingMasks, MemberList
from nexusform.domains.fleet.scheduling.rules import (
    cluster_affinity,
    cluster_eligibility,
    taint_toleration,
)


class Trigger(StrEnum):
    """Triggers of fleet bindings, and observations without an effect (the last four)."""

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
    CLUSTER_PROPERTY_LOST = "cluster_property_lost"
    MOVED_ON_THE_HUB = "moved_on_the_hub"


class SchedulingTriggers(Struct, frozen=True):
    """Edits of one plan that start a placement's chain of cycles.

    `member_triggers` has the trigger of each member that queued it, and `lost_bindings` that of
    each cluster with an evicted or deleted binding; `departed_clusters` are missing or leaving.
    """

    is_new: bool = False
    policy_changed: bool = False
    number_increased: bool = False
    lost_bindings: Mapping[str, Trigger] = field(default_factory=dict)
    departed_clusters: frozenset[str] = frozenset()
    member_triggers: Mapping[str, Trigger] = field(default_factory=dict)
    default_trigger: Trigger = Trigger.RESOURCES_CHANGED


_RELEASE_TRIGGERS = {
    ChangeCause.CLUSTER_LEFT: Trigger.CLUSTER_LEFT,
    ChangeCause.POLICY: Trigger.POLICY_CHANGED,
    ChangeCause.DOWNSCALE: Trigger.NUMBER_DECREASED,
    ChangeCause.DELETED: Trigger.BINDING_DELETED,
}


def find_change_trigger(change: BindingChange, triggers: SchedulingTriggers) -> Trigger:
    """Return the trigger of a binding change.

    For a release, its cause decides. For a pick, the first of these counts: a new
    placement or policy, a lost binding or change of its cluster, a trigger of the
    placement, any member's change.
    """
    if change.action in (BindingAction.UNSCHEDULED, BindingAction.DROPPED):
        return _RELEASE_TRIGGERS[change.cause]
    if triggers.is_new:
        return Trigger.PLACEMENT_CREATED
    # kept, for a new policy snapshot.
    if triggers.policy_changed or change.action is BindingAction.REPOINTED:
        return Trigger.POLICY_CHANGED
    if change.cluster in triggers.lost_bindings:
        return triggers.lost_bindings[change.cluster]
    if change.cluster in triggers.member_triggers:
        return triggers.member_triggers[change.cluster]
    if triggers.number_increased:
        return Trigger.NUMBER_INCREASED
    if triggers.lost_bindings:
        return (
            Trigger.EVICTED
            if Trigger.EVICTED in triggers.lost_bindings.values()
            else Trigger.BINDING_DELETED
        )
    if triggers.departed_clusters:
        return Trigger.CLUSTER_LEFT
    if triggers.member_triggers:
        first_member = min(triggers.member_triggers)  # by name
        return triggers.member_triggers[first_member]
    return triggers.default_trigger


class WatchedPlacement(Struct, frozen=True):
    """Placement as input of the watcher.

    `is_fulfilled` means that its Scheduled condition is True.
    """

    key: str
    placement_type: PlacementType
    is_fulfilled: bool


class MemberChange(Struct, frozen=True):
    """Change of one member that queues placements; of several at once, the first of the table."""

    member: str
    trigger: Trigger


def find_queue_trigger(old_member: Member | None, new_member: Member | None) -> Trigger | None:
    """Return the trigger of a member's change; None if it queues no placement for scheduling.

    New members do so once eligible, and members in deletion only after their removal. Added taints,
    heartbeats and lost eligibility never do.
    """
    if new_member is None:
        return Trigger.CLUSTER_LEFT
    if new_member.is_leaving:
        return None
    is_eligible = not cluster_eligibility.explain_ineligibility(new_member)
    if old_member is None:
        return Trigger.CLUSTER_JOINED if is_eligible else None
    if is_eligible and cluster_eligibility.explain_ineligibility(old_member):
        return Trigger.CLUSTER_BECAME_ELIGIBLE
    if old_member.labels != new_member.labels:
        return Trigger.CLUSTER_LABELS_CHANGED
    # added taints queue nothing.
    if not set(old_member.taints) <= set(new_member.taints):
        return Trigger.TAINT_REMOVED
    old_figures = old_member.properties, old_member.resources, old_member.namespaces
    new_figures = new_member.properties, new_member.resources, new_member.namespaces
    return Trigger.CLUSTER_PROPERTIES_CHANGED if old_figures != new_figures else None


def find_member_changes(
    old_members: Iterable[Member], new_members: Iterable[Member]
) -> tuple[MemberChange, ...]:
    """Return the changes between two member lists that queue placements, by member name."""
    old_by_name = {member.name: member for member in old_members}
    new_by_name = {member.name: member for member in new_members}
    changes: list[MemberChange] = []
    for name in sorted({*old_by_name, *new_by_name}):
        old_member = old_by_name.get(name)
        new_member = new_by_name.get(name)
        # None: no queuing.
        trigger = None if old_member is new_member else find_queue_trigger(old_member, new_member)
        if trigger is not None:
            changes.append(MemberChange(name, trigger))
    return tuple(changes)


def enqueue_placements(
    old_members: Iterable[Member],
    new_members: Iterable[Member],
    placements: Iterable[WatchedPlacement],
) -> dict[str, tuple[MemberChange, ...]]:
    """Return the changes between two member lists that queue placements for scheduling.

    The result is by key of the placement. Changes are in the order of member names. Placements not
    queued are missing.
    """
    all_changes = find_member_changes(old_members, new_members)
    departures = tuple(change for change in all_changes if change.trigger is Trigger.CLUSTER_LEFT)
    queue: dict[str, tuple[MemberChange, ...]] = {}
    for placement in placements:
        is_complete = (
            placement.is_fulfilled and placement.placement_type is not PlacementType.PICK_ALL
        )
        # No other change of a member matters to it.
        changes = departures if is_complete else all_changes
        if changes:
            queue[placement.key] = changes
    return queue


class IneffectiveMemberChange(Struct, frozen=True):
    """Change of a picked member that would prevent a new pick but moves nothing."""

    trigger: Trigger
    reason: str


def find_member_observations(
    old_member: Member, new_member: Member, request: PlacementRequest
) -> tuple[IneffectiveMemberChange, ...]:
    """Return the changes of a bound member, each sufficient to reject it in a new pick.

    Its binding stays. For a PickFixed only a loss of eligibility counts, since it ignores
    taints and labels.
    """
    results: list[IneffectiveMemberChange] = []
    ineligibility = cluster_eligibility.explain_ineligibility(new_member)
    if ineligibility and not cluster_eligibility.explain_ineligibility(old_member):
        results.append(IneffectiveMemberChange(Trigger.CLUSTER_BECAME_INELIGIBLE, ineligibility))
    if request.policy.placement_type is PlacementType.PICK_FIXED:
        return tuple(results)
    tolerations = request.policy.tolerations
    old_taint = taint_toleration.find_untolerated_taint(old_member.taints, tolerations)
    new_taint = taint_toleration.find_untolerated_taint(new_member.taints, tolerations)
    if new_taint is not None and old_taint is None:
        alone = MemberList([new_member])
        reason = taint_toleration.explain_rejection(request, alone, BindingMasks(), position=0)
        results.append(IneffectiveMemberChange(Trigger.TAINT_ADDED, reason))
    if _is_affinity_match(old_member, request) and not _is_affinity_match(new_member, request):
        # With its old labels it would still not match: the figures are the cause.
        with_old_labels = replace(new_member, labels=old_member.labels)
        trigger = (
            Trigger.LABELS_NO_LONGER_MATCH
            if _is_affinity_match(with_old_labels, request)
            else Trigger.CLUSTER_PROPERTY_LOST
        )
        results.append(IneffectiveMemberChange(trigger, cluster_affinity.REASON))
    return tuple(results)


def _is_affinity_match(member: Member, request: PlacementRequest) -> bool:
    """Return True if a member matches the required affinity of a placement."""
    # In a list of one member, the mask of the eligible members is 1 or 0.
    return cluster_affinity.find_eligible(request, MemberList([member]), BindingMasks()) == 1
