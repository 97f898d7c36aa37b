"""Why a placement is looked at again and why a binding changed: the names that plans show."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from nexusform.scheduling.fleet.model import BindingChange, Cause, Change


class Trigger(StrEnum):
    """Triggers of fleet bindings, and observations that move nothing (the last three)."""

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
    PLACEMENT_REMOVED = "placement_removed"
    RESOURCES_CHANGED = "resources_changed"
    STRATEGY_CHANGED = "strategy_changed"
    OVERRIDES_CHANGED = "overrides_changed"
    TAINT_ADDED = "taint_added"
    CLUSTER_BECAME_INELIGIBLE = "cluster_became_ineligible"
    LABELS_NO_LONGER_MATCH = "labels_no_longer_match"


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
    if change.change in (Change.UNSCHEDULED, Change.DROPPED):
        return _RELEASED[change.cause]
    if occasion.created:
        return Trigger.PLACEMENT_CREATED
    if occasion.policy_changed or change.change is Change.REPOINTED:
        return Trigger.POLICY_CHANGED
    if change.cluster in occasion.evicted:
        return Trigger.EVICTED
    return occasion.members.get(change.cluster) or _general(occasion)


def _general(occasion: Occasion) -> Trigger:
    if occasion.number_increased:
        return Trigger.NUMBER_INCREASED
    if occasion.evicted:
        return Trigger.EVICTED
    if occasion.left:
        return Trigger.CLUSTER_LEFT
    return next((trigger for _, trigger in sorted(occasion.members.items())), occasion.other)
