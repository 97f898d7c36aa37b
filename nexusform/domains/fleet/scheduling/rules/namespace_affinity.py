"""Namespace affinity of a namespaced placement.

It requires its namespace on clusters that collect namespaces.
"""

from nexusform.domains.fleet.scheduling.bindings import Member, PlacementRequest
from nexusform.domains.fleet.scheduling.member_list import BindingMasks, Mask, MemberList


def _explain_missing_namespace(member: Member, namespace: str) -> str:
    """Return why a cluster is rejected; "" if it passes."""
    # None: not collected.
    if member.namespaces is None or namespace in member.namespaces:
        return ""
    if not member.namespaces:
        return "cluster has no namespace information available"
    return "target namespace does not exist on cluster"


def find_eligible(
    request: PlacementRequest, member_list: MemberList, _binding_masks: BindingMasks
) -> Mask:
    """Return the bit mask of the members with the namespace.

    For a cluster-scoped placement, it has all members.
    """
    if not request.namespace:
        return member_list.all_members
    return member_list.get_cached(
        ("namespace", request.namespace),
        lambda: member_list.select_members(
            lambda member: not _explain_missing_namespace(member, request.namespace)
        ),
    )


def explain_rejection(
    request: PlacementRequest, member_list: MemberList, _binding_masks: BindingMasks, position: int
) -> str:
    """Return why a member is rejected."""
    return _explain_missing_namespace(member_list.members[position], request.namespace)
