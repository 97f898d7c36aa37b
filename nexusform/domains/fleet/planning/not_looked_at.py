"""What a hub's scheduler has still to see of its members: it refuses one for what it is not any more, or
does not know it.
"""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.planning.placement import PlacementPlan
from nexusform.domains.fleet.scheduling.bindings import Ask, PlacementType, Policy
from nexusform.domains.fleet.scheduling.roster import Mask, Roster, Standing
from nexusform.domains.fleet.scheduling.rules import (
    cluster_affinity,
    cluster_eligibility,
    namespace_affinity,
    taint_toleration,
)
from nexusform.domains.fleet.scheduling.watcher import MemberChange, Trigger

_ALL: Final = Policy()
# The rules that ask a member alone. Which others stand where is for the cycle to say.
_RULES: Final = (
    cluster_eligibility.admitted,
    taint_toleration.admitted,
    namespace_affinity.admitted,
    cluster_affinity.admitted,
)
# What a hub says where one of them refuses a member, and the change that must have come since.
_SINCE: Final = (
    ("ClusterUnschedulable, taint &{", Trigger.TAINT_REMOVED),
    (f"ClusterUnschedulable, {cluster_affinity.REASON}", Trigger.CLUSTER_LABELS_CHANGED),
    ("ClusterUnschedulable, cluster is not connected", Trigger.CLUSTER_BECAME_ELIGIBLE),
    ("ClusterUnschedulable, cluster has left", Trigger.CLUSTER_BECAME_ELIGIBLE),
    ("ClusterUnschedulable, cluster has no namespace", Trigger.CLUSTER_PROPERTIES_CHANGED),
    ("ClusterUnschedulable, target namespace", Trigger.CLUSTER_PROPERTIES_CHANGED),
    ("Specified cluster ", Trigger.CLUSTER_JOINED),
)
_NOT_YET: Final = "is not eligible for resource placement yet"


def not_looked_at(placement: PlacementPlan, roster: Roster) -> tuple[MemberChange, ...]:
    """The members without a binding that meet today what they are shown as refused for, or that nothing is
    told of: as a hub's watcher would, they queue the placement. One that has all that it asked for is queued
    by none.
    """
    kind = placement.asked.written.kind
    picks_all = kind is PlacementType.PICK_ALL
    if not placement.asked.shown or (placement.scheduled.fulfilled and not picks_all):
        return ()
    refused = placement.asked.shown.get("refusals") or {}
    held = {binding.cluster for binding in placement.held}
    told = set(roster.position) if picks_all else set(refused)
    doubtful = sorted(told.intersection(roster.position) - held)
    met = _met(placement, roster) if doubtful else 0
    changes: list[MemberChange] = []
    for name in doubtful:
        member, trigger = roster.members[roster.position[name]], _since(refused.get(name))
        if trigger is not None and not member.leaving and met >> roster.position[name] & 1:
            changes.append(MemberChange(name, trigger))
    return tuple(changes)


def _since(reason: str | None) -> Trigger | None:
    """What has changed of a member since it was refused for this; None where the others count as well."""
    if reason is None:
        return Trigger.CLUSTER_JOINED
    if _NOT_YET in reason:
        return Trigger.CLUSTER_BECAME_ELIGIBLE
    return next((trigger for start, trigger in _SINCE if reason.startswith(start)), None)


def _met(placement: PlacementPlan, roster: Roster) -> Mask:
    """The members that no rule refuses which asks a member alone."""
    ask = Ask(placement.asked.policy_in(roster) or _ALL, placement.asked.written.namespace)
    if placement.asked.written.kind is PlacementType.PICK_FIXED:
        return cluster_eligibility.admitted(ask, roster, Standing())
    met = roster.everyone
    for rule in _RULES:
        admitted = rule(ask, roster, Standing())
        met &= admitted if isinstance(admitted, int) else 0
    return met
