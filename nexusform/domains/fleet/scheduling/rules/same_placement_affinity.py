"""Same placement: a bound cluster is no candidate; one bound under an earlier policy wins exact ties."""

from nexusform.domains.fleet.scheduling.bindings import PlacementRequest
from nexusform.domains.fleet.scheduling.member_list import BindingMasks, Mask, MemberList


def find_eligible(_request: PlacementRequest, member_list: MemberList, binding_masks: BindingMasks) -> Mask:
    """Return the members without a current binding."""
    return member_list.all_members & ~binding_masks.current


def explain_rejection(
    _request: PlacementRequest, _member_list: MemberList, _binding_masks: BindingMasks, _position: int
) -> str:
    """Return the reason for explanations; KubeFleet never reports it."""
    return "cluster is already selected by this placement"


def split_tied_candidates(candidates: Mask, binding_masks: BindingMasks) -> tuple[Mask, Mask]:
    """Split candidates with equal scores: first those bound under an earlier policy, then the others."""
    return candidates & binding_masks.obsolete, candidates & ~binding_masks.obsolete
