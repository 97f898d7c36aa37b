"""Cluster eligibility: a cluster that left, lost its agent or was unhealthy for long takes nothing new.

The two reasons that name minutes on a real hub say "more than 5" here: a configuration states a
standing, not an instant.
"""

from __future__ import annotations

from nexusform.domains.fleet.scheduling.bindings import Ask, Health, Member
from nexusform.domains.fleet.scheduling.roster import Mask, Roster, Standing

PLUGIN = "ClusterEligibility"

_APART = "cluster is not connected to the fleet"
_REFUSALS = {
    Health.LEAVING: "cluster has left the fleet",
    Health.NO_AGENT: f"{_APART}: member agent not online yet",
    Health.NO_HEARTBEAT: f"{_APART}: no recent heartbeat signals (last received more than 5 minutes ago)",
    Health.NOT_JOINED: f"{_APART}: member agent not joined yet",
    Health.NO_HEALTH: f"{_APART}: health condition from member agent is not available",
    Health.UNHEALTHY: (
        f"{_APART}: unhealthy for a prolonged period of time (last transitioned more than 5 minutes ago)"
    ),
}


def ineligible(member: Member) -> str | None:
    """Why a cluster takes no placement; None when it does."""
    return _REFUSALS.get(member.health)


def admitted(_ask: Ask, roster: Roster, _standing: Standing) -> Mask:
    """The eligible members."""
    return roster.remember("eligible", lambda: roster.where(lambda member: ineligible(member) is None))


def reason(_ask: Ask, roster: Roster, _standing: Standing, position: int) -> str:
    """Why a member is refused."""
    return ineligible(roster.members[position]) or ""
