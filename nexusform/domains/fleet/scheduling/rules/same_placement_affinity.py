"""Same placement: a bound cluster is no candidate.

Ties: see `MemberRanking` in scheduling_cycle.py.
"""

from nexusform.domains.fleet.scheduling.bindings import PlacementRequest
from nexusform.domains.fleet.scheduling.member_list import BindingMasks, Mask, MemberList


def find_eligible(
    _request: PlacementRequest, member_list: MemberList, binding_masks: BindingMasks
) -> Mask:
    """Return the members without a current binding."""
    return member_list.all_members & ~binding_masks.current


def explain_rejection(
    _request: PlacementRequest,
    _member_list: MemberList,
    _binding_masks: BindingMasks,
    _position: int,
) -> str:
    """Return the reason for explanations; KubeFleet never reports it."""
    return "cluster is already selected by this placement"
