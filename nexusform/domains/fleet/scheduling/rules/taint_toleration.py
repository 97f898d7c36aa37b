"""Taints and tolerations: every taint of a cluster must be tolerated, when it is picked."""

from __future__ import annotations

from collections.abc import Iterable

from nexusform.domains.fleet.scheduling.bindings import Ask
from nexusform.domains.fleet.scheduling.roster import Mask, Roster, Standing
from nexusform.kubernetes.matching import EQUAL, EXISTS, Taint, Toleration

PLUGIN = "TaintToleration"


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """KubeFleet's rule: as for pods, except that Equal compares an empty key too."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == EXISTS:
        return not toleration.key or toleration.key == taint.key
    return toleration.operator == EQUAL and (toleration.key, toleration.value) == (taint.key, taint.value)


def untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """The first taint that no toleration covers."""
    for taint in taints:
        if not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def admitted(ask: Ask, roster: Roster, _standing: Standing) -> Mask:
    """The members all of whose taints are tolerated."""
    tolerations = ask.policy.tolerations
    return roster.remember(
        ("tolerated", tolerations),
        lambda: sum(
            mask for taints, mask in roster.tainted.items() if untolerated(taints, tolerations) is None
        ),
    )


def reason(ask: Ask, roster: Roster, _standing: Standing, position: int) -> str:
    """The first taint in the way, written as KubeFleet does."""
    taint = untolerated(roster.members[position].taints, ask.policy.tolerations)
    if taint is None:
        return ""
    return f"taint &{{Key:{taint.key} Value:{taint.value} Effect:{taint.effect}}} cannot be tolerated"
