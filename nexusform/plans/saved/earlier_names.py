"""Names in plan files of earlier versions, with the present names of the same things.

A plan file that was saved before a field or value changed is read as if it had the present form
(docs/decisions/0029-names-and-size.md). Nothing writes an earlier form.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from nexusform.plans.plan import PlacementAction, PlacementTotal
from nexusform.scheduling.racks.vms import Machine


class EarlierField(NamedTuple):
    """Field of a record in plan files of earlier versions.

    `name` is the present name, None if the field is computed now. `convert` returns the JSON data
    of the present field from that of the earlier one; None if it is the same.
    """

    name: str | None
    convert: Callable[[Any], Any] | None = None


def _build_reasons(text: Any) -> list[dict[str, str]]:
    """Build the data of the reasons against new VMs from their joined text."""
    reasons = []
    for part in str(text).split(", ") if text else ():
        fact = ""
        if part.startswith(("not a compute-plane machine", "without the role compute-plane")):
            fact = "roles"
        elif part == "cordoned":
            fact = "cordoned"
        reasons.append({"text": part, "fact": fact})
    return reasons


# Earlier fields by record and name.
EARLIER_FIELDS: Final[Mapping[type[Any], Mapping[str, EarlierField]]] = {
    PlacementTotal: {
        "stays": EarlierField("unchanged"),
        "moves": EarlierField("moved"),
        "leaves": EarlierField("removed"),
        "loses_machine": EarlierField("host_lost"),
        "comes": EarlierField("added"),
    },
    Machine: {
        "unschedulable_reason": EarlierField("unschedulable_reasons", _build_reasons),
        "is_healthy": EarlierField(None),
    },
}

# Members of enums by earlier value.
EARLIER_VALUES: Final[Mapping[type[Enum], Mapping[str, Enum]]] = {
    PlacementAction: {"lose_machine": PlacementAction.LOSE}
}
