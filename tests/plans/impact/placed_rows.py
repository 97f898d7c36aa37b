"""Placement rows of VMs for hand-written plans."""

from __future__ import annotations

from nexusform.plans.plan import ObjectLocation, PlacementAction, PlacementChange
from nexusform.resources.address import parse_address
from nexusform.scheduling.racks.vms import Placement

HERE = Placement("rack1-bm01", "rack1", "1", (0,))
OTHER_CELL = Placement("rack1-bm01", "rack1", "1", (1,))
THERE = Placement("rack2-bm01", "rack2", "2", (0,))


def build_row(
    kind: str,
    action: str,
    source: ObjectLocation | None,
    target: ObjectLocation | None,
    pool: str = "",
) -> PlacementChange:
    address = parse_address("nexus_kubernetes_cluster.east")
    return PlacementChange(
        address, kind, "x", PlacementAction(action), source, target, "new", pool=pool
    )
