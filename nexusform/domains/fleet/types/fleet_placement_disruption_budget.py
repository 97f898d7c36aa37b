"""fleet_placement_disruption_budget: how many bindings of a placement evictions may take down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nexusform.diagnostics import Problem
from nexusform.domains.fleet.importers.fleet_model import FleetBudget, FleetObject
from nexusform.domains.fleet.scheduling.changes import check_budget
from nexusform.domains.fleet.scheduling.eviction import DisruptionBudget
from nexusform.domains.fleet.types.fleet_kinds import FleetKind, Values, fleet_type
from nexusform.domains.fleet.types.fleet_reading import amount_problems, read_amount
from nexusform.domains.fleet.types.fleet_schemas import text
from nexusform.schema import BlockSchema

_NAMES: Final = ("max_unavailable", "min_available")
_SPEC: Final = BlockSchema(
    {
        "max_unavailable": text("Clusters that may be without it: a number or percent of N."),
        "min_available": text("Clusters that must keep it: a number or percent of N."),
    }
)


def read(attributes: Values, arguments: Values) -> FleetBudget:
    """The budget; its placement has its name."""
    amounts = (read_amount(arguments.get(name)) for name in _NAMES)
    return FleetBudget(str(attributes.get("name") or ""), DisruptionBudget(*amounts))


def _findings(budget: FleetObject, arguments: Values) -> Iterator[Problem]:
    assert isinstance(budget, FleetBudget)
    wrong = amount_problems(arguments, _NAMES, ())
    yield from wrong or check_budget(budget.budget, None)


FLEET_PLACEMENT_DISRUPTION_BUDGET: Final = fleet_type(
    "fleet_placement_disruption_budget",
    FleetKind("ClusterResourcePlacementDisruptionBudget", _SPEC),
    "Limits evictions of the cluster resource placement with the same name.",
    read=read,
    findings=_findings,
)
