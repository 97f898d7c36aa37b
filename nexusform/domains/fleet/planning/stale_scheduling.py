"""Members not processed yet by a hub's scheduler: rejected for an obsolete reason, or unknown to it."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.scheduling.bindings import PlacementRequest, PlacementType, Policy
from nexusform.domains.fleet.scheduling.member_list import BindingMasks, Mask, MemberList
from nexusform.domains.fleet.scheduling.rules import (
    cluster_affinity,
    cluster_eligibility,
    namespace_affinity,
    taint_toleration,
)
from nexusform.domains.fleet.scheduling.watcher import MemberChange, Trigger

_ALL: Final = Policy()
# Rules about a member alone. Rules about other bindings belong to the scheduling cycle.
_MEMBER_RULES: Final = (
    cluster_eligibility.find_eligible,
    taint_toleration.find_eligible,
    namespace_affinity.find_eligible,
    cluster_affinity.find_eligible,
)
# Start of the hub's message for a rejected member, and the change that makes it obsolete.
_OBSOLETE_REASONS: Final = (
    ("ClusterUnschedulable, taint &{", Trigger.TAINT_REMOVED),
    (f"ClusterUnschedulable, {cluster_affinity.REASON}", Trigger.CLUSTER_LABELS_CHANGED),
    ("ClusterUnschedulable, cluster is not connected", Trigger.CLUSTER_BECAME_ELIGIBLE),
    ("ClusterUnschedulable, cluster has left", Trigger.CLUSTER_BECAME_ELIGIBLE),
    ("ClusterUnschedulable, cluster has no namespace", Trigger.CLUSTER_PROPERTIES_CHANGED),
    ("ClusterUnschedulable, target namespace", Trigger.CLUSTER_PROPERTIES_CHANGED),
    ("Specified cluster ", Trigger.CLUSTER_JOINED),
)
_NOT_ELIGIBLE_YET: Final = "is not eligible for resource placement yet"


def find_stale_members(placement: PlacementPlan, member_list: MemberList) -> tuple[MemberChange, ...]:
    """Return the members that now meet the reason for which a hub rejected them, or without any report, if no
    binding exists. A hub's watcher would queue the placement for them. A fulfilled placement is never queued.
    """
    kind = placement.spec.configuration.placement_type
    picks_all = kind is PlacementType.PICK_ALL
    if not placement.spec.observed_attributes or (placement.scheduling.is_fulfilled and not picks_all):
        return ()
    rejections = placement.spec.observed_attributes.get("rejections") or {}
    bound_clusters = {binding.cluster for binding in placement.bindings}
    candidates = set(member_list.positions) if picks_all else set(rejections)
    stale_names = sorted(candidates.intersection(member_list.positions) - bound_clusters)
    eligible = _select_individually_eligible_members(placement, member_list) if stale_names else 0
    changes: list[MemberChange] = []
    for name in stale_names:
        member, trigger = (member_list.members[member_list.positions[name]], _find_trigger(rejections.get(name)))
        if trigger is not None and not member.is_leaving and eligible >> member_list.positions[name] & 1:
            changes.append(MemberChange(name, trigger))
    return tuple(changes)


def _find_trigger(reason: str | None) -> Trigger | None:
    """Return the change that makes a rejection reason obsolete; None for reasons about other members."""
    if reason is None:
        return Trigger.CLUSTER_JOINED
    if _NOT_ELIGIBLE_YET in reason:
        return Trigger.CLUSTER_BECAME_ELIGIBLE
    return next((trigger for start, trigger in _OBSOLETE_REASONS if reason.startswith(start)), None)


def _select_individually_eligible_members(placement: PlacementPlan, member_list: MemberList) -> Mask:
    """Return the members accepted by every rule about a member alone."""
    request = PlacementRequest(
        placement.spec.resolve_policy(member_list) or _ALL, placement.spec.configuration.namespace
    )
    if placement.spec.configuration.placement_type is PlacementType.PICK_FIXED:
        return cluster_eligibility.find_eligible(request, member_list, BindingMasks())
    eligible = member_list.all_members
    for rule in _MEMBER_RULES:
        mask = rule(request, member_list, BindingMasks())
        eligible &= mask if isinstance(mask, int) else 0
    return eligible
