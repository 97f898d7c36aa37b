"""Taints and tolerations: a pick requires a toleration for every taint of the cluster."""

from collections.abc import Iterable

from nexusform.domains.fleet.scheduling.bindings import PlacementRequest
from nexusform.domains.fleet.scheduling.member_list import BindingMasks, Mask, MemberList
from nexusform.kubernetes.matching import EQUAL, EXISTS, Taint, Toleration


def is_tolerated(toleration: Toleration, taint: Taint) -> bool:
    """Return True if a toleration covers a taint.

    The rules are those for pods, but Equal compares an empty key too.
    """
    # "" matches all effects.
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.operator == EXISTS:
        # "" matches all keys.
        return toleration.key in ("", taint.key)
    is_equal = (toleration.key, toleration.value) == (taint.key, taint.value)
    # No taint has another operator.
    return is_equal and toleration.operator == EQUAL


def find_untolerated_taint(
    taints: Iterable[Taint], tolerations: tuple[Toleration, ...]
) -> Taint | None:
    """Return the first taint without a toleration; None if all are tolerated."""
    for taint in taints:
        if not any(is_tolerated(toleration, taint) for toleration in tolerations):
            return taint
    return None


def find_eligible(
    request: PlacementRequest, member_list: MemberList, _binding_masks: BindingMasks
) -> Mask:
    """Return the members with all taints tolerated.

    Masks of different lists of taints are disjoint, so add them.
    """
    tolerations = request.policy.tolerations
    return member_list.get_cached(
        ("tolerated", tolerations),
        lambda: sum(
            mask
            for taints, mask in member_list.members_by_taints.items()
            if find_untolerated_taint(taints, tolerations) is None
        ),
    )


def explain_rejection(
    request: PlacementRequest, member_list: MemberList, _binding_masks: BindingMasks, position: int
) -> str:
    """Return KubeFleet's text for the first untolerated taint of the member at `position`.

    This rule rejects it.
    """
    taint = find_untolerated_taint(member_list.members[position].taints, request.policy.tolerations)
    assert taint is not None, "a rejected member has one"
    return (
        f"taint &{{Key:{taint.key} Value:{taint.value} Effect:{taint.effect}}} cannot be tolerated"
    )
