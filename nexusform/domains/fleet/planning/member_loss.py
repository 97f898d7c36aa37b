"""Loss of a member cluster in a hypothetical plan."""

from collections.abc import Mapping, Sequence
from typing import Final

from nexusform.domains.fleet.scheduling.bindings import Health
from nexusform.json_data.plain_data import get_text
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.edits import Edit
from nexusform.planning.hypothesis.losses import LossKind
from nexusform.planning.plan_request import ArgumentAdjustment

_TYPE: Final = "fleet_member_cluster"


def _list_member_edits(before: PlanResult) -> Mapping[str, Sequence[Edit]]:
    """Return the loss of each member cluster, by its name: its agent no longer reports."""
    edits: dict[str, Sequence[Edit]] = {}
    for change in before.plan.changes:
        if change.address.type == _TYPE and change.after is not None:
            health = ArgumentAdjustment(change.address, ("health",), str(Health.NO_HEARTBEAT))
            edits[get_text(change.after, "name")] = (health,)
    return edits


MEMBER: Final = LossKind("member cluster", "NAME", _list_member_edits)
