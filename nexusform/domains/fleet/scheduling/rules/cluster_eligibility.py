"""Cluster eligibility: departed, disconnected and long unhealthy clusters are rejected.

Two reasons with minutes on a real hub read "more than 5" here: a configuration declares a state,
not a time.
"""

from nexusform.domains.fleet.scheduling.bindings import Health, Member, PlacementRequest
from nexusform.domains.fleet.scheduling.member_list import BindingMasks, Mask, MemberList

_DISCONNECTED = "cluster is not connected to the fleet"
_REASONS = {
    Health.LEAVING: "cluster has left the fleet",
    Health.NO_AGENT: f"{_DISCONNECTED}: member agent not online yet",
    Health.NO_HEARTBEAT: (
        f"{_DISCONNECTED}: no recent heartbeat signals (last received more than 5 minutes ago)"
    ),
    Health.NOT_JOINED: f"{_DISCONNECTED}: member agent not joined yet",
    Health.NO_HEALTH: f"{_DISCONNECTED}: health condition from member agent is not available",
    Health.UNHEALTHY: (
        f"{_DISCONNECTED}: unhealthy for a prolonged period of time (last transitioned more "
        "than 5 minutes ago)"
    ),
}


def explain_ineligibility(member: Member) -> str:
    """Return why a cluster is ineligible; "" if it is eligible."""
    return _REASONS.get(member.health, "")


def find_eligible(
    _request: PlacementRequest, member_list: MemberList, _binding_masks: BindingMasks
) -> Mask:
    """Return the bit mask of the eligible members."""
    return member_list.get_cached(
        "eligible",
        lambda: member_list.select_members(lambda member: not explain_ineligibility(member)),
    )


def explain_rejection(
    _request: PlacementRequest, member_list: MemberList, _binding_masks: BindingMasks, position: int
) -> str:
    """Return why a member is rejected."""
    return explain_ineligibility(member_list.members[position])
