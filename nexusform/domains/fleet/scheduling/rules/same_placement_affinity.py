"""Same placement: a cluster that the placement already holds is no candidate, and one that it held under
an earlier policy wins exact ties.
"""

from __future__ import annotations

from nexusform.domains.fleet.scheduling.bindings import Ask
from nexusform.domains.fleet.scheduling.roster import Mask, Roster, Standing

PLUGIN = "SamePlacementAffinity"


def admitted(_ask: Ask, roster: Roster, standing: Standing) -> Mask:
    """The members without a current binding."""
    return roster.everyone & ~standing.current


def reason(_ask: Ask, _roster: Roster, _standing: Standing, _position: int) -> str:
    """Never reported as a refusal by KubeFleet; said in explanations."""
    return "cluster is already selected by this placement"


def preferred(candidates: Mask, standing: Standing) -> tuple[Mask, Mask]:
    """Candidates that tie, better ones first: those with an obsolete binding, then the others."""
    return candidates & standing.obsolete, candidates & ~standing.obsolete
