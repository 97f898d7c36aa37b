"""fleet_placement_eviction and fleet_placement_disruption_budget.

Evict a placement once, and limit evictions.
"""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem
from nexusform.diagnostics.phrases import enclose, format_list
from nexusform.domains.fleet.importers.fleet_records import (
    FleetDisruptionBudget,
    FleetEviction,
    FleetObject,
)
from nexusform.domains.fleet.scheduling.eviction import PlacementDisruptionBudget
from nexusform.domains.fleet.scheduling.fleet_api_validation import check_disruption_budget
from nexusform.domains.fleet.types.fleet_arguments import (
    check_integers_or_percentages,
    read_integer_or_percentage,
    read_text,
)
from nexusform.domains.fleet.types.fleet_kinds import FleetKind, Values, build_fleet_type
from nexusform.domains.fleet.types.fleet_schemas import MANIFEST, PLACEMENT_NAME, make_text
from nexusform.kubernetes.quantity import find_weaker_amount
from nexusform.placements.consequences import LASTING_LOSS, ConsequenceTable, ObjectChange
from nexusform.schemas.block_schema import BlockSchema, OnChange

_EVICTION_SPEC: Final = BlockSchema(
    {
        "placement_name": replace(
            PLACEMENT_NAME, required=True, optional=False, on_change=OnChange.REPLACE
        ),
        "cluster_name": make_text(
            "Name of the member cluster.", required=True, on_change=OnChange.REPLACE
        ),
    }
)


def read_eviction(attributes: Values, arguments: Values) -> FleetEviction:
    """Return the eviction.

    The `attributes` have its name; `arguments` are from the manifest or the blocks.
    """
    return FleetEviction(
        read_text(attributes, "name"),
        read_text(arguments, "placement_name"),
        read_text(arguments, "cluster_name"),
    )


FLEET_PLACEMENT_EVICTION: Final = build_fleet_type(
    "fleet_placement_eviction",
    FleetKind("ClusterResourcePlacementEviction", _EVICTION_SPEC),
    "Evicts a cluster resource placement from a cluster, once, at creation. The scheduler may "
    "pick the "
    "same cluster again. Deleting the block has no effect.",
    read=read_eviction,
    consequences=ConsequenceTable(noun="eviction"),
    findings=lambda _eviction, _arguments: (),
    manifest=replace(MANIFEST, on_change=OnChange.REPLACE),
)


_BUDGET_AMOUNTS: Final = ("max_unavailable", "min_available")
_BUDGET_SPEC: Final = BlockSchema(
    {
        "max_unavailable": make_text("Clusters that may be without it: a number or percent of N."),
        "min_available": make_text("Clusters that must keep it: a number or percent of N."),
    }
)


def read_budget(attributes: Values, arguments: Values) -> FleetDisruptionBudget:
    """Return the budget; its placement has the same name."""
    amounts = {
        name: read_integer_or_percentage(arguments.get(name), default=None)
        for name in _BUDGET_AMOUNTS
    }
    return FleetDisruptionBudget(
        read_text(attributes, "name"), PlacementDisruptionBudget(**amounts)
    )


def _check_budget(budget: FleetObject, arguments: Values) -> Iterator[Problem]:
    """Yield the errors of invalid amounts; without any, the problems of the budget."""
    assert isinstance(budget, FleetDisruptionBudget)
    amount_errors = check_integers_or_percentages(arguments, _BUDGET_AMOUNTS, path=())
    yield from amount_errors or check_disruption_budget(budget.budget, placement_type=None)


_BUDGET_KIND: Final = FleetKind("ClusterResourcePlacementDisruptionBudget", _BUDGET_SPEC)


def _find_weaker_budget(change: ObjectChange) -> str:
    """Return `changes from max_unavailable 1 to 2`, or "" for an equal or stricter budget."""
    old, new = (
        read_budget(values, _BUDGET_KIND.read_arguments(values)).budget
        for values in (change.before, change.after)
    )
    changes = (
        find_weaker_amount("max_unavailable", old.max_unavailable, new.max_unavailable),
        find_weaker_amount("min_available", old.min_available, new.min_available, is_minimum=True),
    )
    return enclose("changes from ", format_list(filter(None, changes)))


FLEET_PLACEMENT_DISRUPTION_BUDGET: Final = build_fleet_type(
    "fleet_placement_disruption_budget",
    _BUDGET_KIND,
    "Limits evictions of the cluster resource placement with the same name.",
    read=read_budget,
    findings=_check_budget,
    consequences=ConsequenceTable(
        noun="disruption budget", delete=LASTING_LOSS, find_weakening=_find_weaker_budget
    ),
)
