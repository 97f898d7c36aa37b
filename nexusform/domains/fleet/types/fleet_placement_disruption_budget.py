"""fleet_placement_disruption_budget: limits evictions of a placement's bindings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nexusform.diagnostics.diagnostic import Problem
from nexusform.domains.fleet.importers.fleet_records import FleetDisruptionBudget, FleetObject
from nexusform.domains.fleet.scheduling.eviction import PlacementDisruptionBudget
from nexusform.domains.fleet.scheduling.update_validation import check_disruption_budget
from nexusform.domains.fleet.types.fleet_arguments import check_integers_or_percentages, read_integer_or_percentage
from nexusform.domains.fleet.types.fleet_kinds import FleetKind, Values, build_fleet_type
from nexusform.domains.fleet.types.fleet_schemas import make_text
from nexusform.schemas.block_schema import BlockSchema

_NAMES: Final = ("max_unavailable", "min_available")
_SPEC: Final = BlockSchema(
    {
        "max_unavailable": make_text("Clusters that may be without it: a number or percent of N."),
        "min_available": make_text("Clusters that must keep it: a number or percent of N."),
    }
)


def read_budget(attributes: Values, arguments: Values) -> FleetDisruptionBudget:
    """Return the budget; its placement has the same name."""
    amounts = (read_integer_or_percentage(arguments.get(name)) for name in _NAMES)
    return FleetDisruptionBudget(str(attributes.get("name") or ""), PlacementDisruptionBudget(*amounts))


def _check_budget(budget: FleetObject, arguments: Values) -> Iterator[Problem]:
    assert isinstance(budget, FleetDisruptionBudget)
    amount_errors = check_integers_or_percentages(arguments, _NAMES, ())
    yield from amount_errors or check_disruption_budget(budget.budget, None)


FLEET_PLACEMENT_DISRUPTION_BUDGET: Final = build_fleet_type(
    "fleet_placement_disruption_budget",
    FleetKind("ClusterResourcePlacementDisruptionBudget", _SPEC),
    "Limits evictions of the cluster resource placement with the same name.",
    read=read_budget,
    findings=_check_budget,
)
