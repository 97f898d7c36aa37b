"""VFs: cells with capacity must have as many SR-IOV virtual functions left as a VM takes of each.

Only VMs of pools that declare `sriov_vfs` take any. 30 per cell are for tenants (near-edge compute reference
of Operator Nexus: 32 per NUMA cell, 30 for tenants). It is inferred that a VM takes them of its own cells.
"""

from __future__ import annotations

from nexusform.scheduling.racks.layout import MachineCapacity, Share
from nexusform.scheduling.racks.rule import CapacityCheck, CapacityFilter, ShortageContext
from nexusform.scheduling.racks.rules import cells
from nexusform.scheduling.racks.rules.zones import describe_zones
from nexusform.scheduling.racks.vms import Demand, Interval, VmSku


def build_check(sku: VmSku) -> CapacityCheck:
    """Build a check that returns the missing VFs, or None if enough cells with capacity have them."""
    share = Share.compute(sku)

    def find_rejection(capacity: MachineCapacity) -> str | None:
        if not share.vfs:
            return None
        fitting = cells.select_fitting_cells(share, capacity)
        if len(cells.select_cells_with_vfs(share, capacity, fitting)) >= share.cells:
            return None
        maximum = max((capacity.vfs[cell] for cell in fitting), default=0)
        return f"no cell with capacity has {share.vfs} VFs left (most: {maximum})"

    return find_rejection


def _describe_remaining(demand: Demand, remaining: Interval, before: Interval) -> str:
    return f"{remaining} have the VFs" if demand.sku.vfs and remaining != before else ""


def _describe_shortage(context: ShortageContext) -> str:
    vfs = context.demand.sku.vfs_in_cell
    return f"No NUMA cell with capacity on the site ({describe_zones(context.demand)}) has {vfs} SR-IOV VFs left."


FILTER = CapacityFilter(
    name="vfs",
    build_check=build_check,
    describe_shortage=_describe_shortage,
    line="1 fits",
    describe_remaining=_describe_remaining,
)
