"""Namespace affinity: a namespaced placement goes only where its namespace exists.

A cluster that does not collect namespaces is not asked.
"""

from __future__ import annotations

from nexusform.domains.fleet.scheduling.bindings import Ask, Member
from nexusform.domains.fleet.scheduling.roster import Mask, Roster, Standing

PLUGIN = "NamespaceAffinity"


def refusal(member: Member, namespace: str) -> str | None:
    """Why a cluster is refused; None when it is not."""
    if not namespace or member.namespaces is None or namespace in member.namespaces:
        return None
    if not member.namespaces:
        return "cluster has no namespace information available"
    return "target namespace does not exist on cluster"


def admitted(ask: Ask, roster: Roster, _standing: Standing) -> Mask:
    """The members that have the namespace; all for a cluster-scoped placement."""
    if not ask.namespace:
        return roster.everyone
    return roster.remember(
        ("namespace", ask.namespace),
        lambda: roster.where(lambda member: refusal(member, ask.namespace) is None),
    )


def reason(ask: Ask, roster: Roster, _standing: Standing, position: int) -> str:
    """Why a member is refused."""
    return refusal(roster.members[position], ask.namespace) or ""
