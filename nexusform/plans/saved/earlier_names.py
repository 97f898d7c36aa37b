"""Names in plan files of earlier versions, with the present names of the same things.

A plan file that was saved before a field or value was renamed is read as if it had the present
name (docs/decisions/0029-names-and-size.md). Nothing writes an earlier name.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from nexusform.plans.plan import PlacementAction, PlacementTotal

# Present names of fields by record and earlier name.
EARLIER_FIELDS: Final[Mapping[type[Any], Mapping[str, str]]] = {
    PlacementTotal: {
        "stays": "unchanged",
        "moves": "moved",
        "leaves": "removed",
        "loses_machine": "host_lost",
        "comes": "added",
    }
}

# Members of enums by earlier value.
EARLIER_VALUES: Final[Mapping[type[Enum], Mapping[str, Enum]]] = {
    PlacementAction: {"lose_machine": PlacementAction.LOSE}
}
