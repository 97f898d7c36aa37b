"""fleet_placement_eviction: evicts a placement from one cluster, once, at creation of the block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem
from nexusform.domains.fleet.importers.fleet_records import FleetEviction, FleetObject
from nexusform.domains.fleet.types.fleet_kinds import FleetKind, Values, build_fleet_type
from nexusform.domains.fleet.types.fleet_schemas import MANIFEST, PLACEMENT_NAME, make_text
from nexusform.schemas.block_schema import BlockSchema, OnChange

_SPEC: Final = BlockSchema(
    {
        "placement_name": replace(PLACEMENT_NAME, required=True, optional=False, on_change=OnChange.REPLACE),
        "cluster_name": make_text("Name of the member cluster.", required=True, on_change=OnChange.REPLACE),
    }
)


def read_eviction(attributes: Values, arguments: Values) -> FleetEviction:
    """Return the eviction."""
    return FleetEviction(
        str(attributes.get("name") or ""),
        str(arguments.get("placement_name") or ""),
        str(arguments.get("cluster_name") or ""),
    )


def _check_eviction(_eviction: FleetObject, _arguments: Values) -> Iterator[Problem]:
    return iter(())


FLEET_PLACEMENT_EVICTION: Final = build_fleet_type(
    "fleet_placement_eviction",
    FleetKind("ClusterResourcePlacementEviction", _SPEC),
    "Evicts a cluster resource placement from a cluster, once, at creation. The scheduler may pick the "
    "same cluster again. Deleting the block has no effect.",
    read=read_eviction,
    findings=_check_eviction,
    manifest=replace(MANIFEST, on_change=OnChange.REPLACE),
)
