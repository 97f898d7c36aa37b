"""VFs: cells with room must have as many SR-IOV virtual functions left as a VM takes of each.

Only VMs of pools that declare `sriov_vfs` take any. 30 per cell are for tenants (near-edge compute
reference of Operator Nexus: 32 per NUMA cell, 30 for tenants); that a VM takes them of its own cells is
inferred.
"""

from __future__ import annotations

from nexusform.scheduling.racks.layout import Room, Share
from nexusform.scheduling.racks.rule import RefuseRoom, RoomFilter, Scene
from nexusform.scheduling.racks.rules import cells
from nexusform.scheduling.racks.rules.zones import where
from nexusform.scheduling.racks.vms import Demand, Interval, VmSku


def opens(sku: VmSku) -> RefuseRoom:
    """How many VFs are missing; None when enough cells with room have them."""
    share = Share.of(sku)

    def refuse(room: Room) -> str | None:
        if not share.vfs:
            return None
        fitting = cells.with_room(share, room)
        if len(cells.with_vfs(share, room, fitting)) >= share.cells:
            return None
        most = max((room.vfs[cell] for cell in fitting), default=0)
        return f"no cell with room has {share.vfs} VFs left (most: {most})"

    return refuse


def _count(demand: Demand, left: Interval, before: Interval) -> str:
    return f"{left} have the VFs" if demand.sku.vfs and left != before else ""


def _sentence(scene: Scene) -> str:
    vfs = scene.demand.sku.vfs_in_cell
    return f"No NUMA cell with room on the site ({where(scene.demand)}) has {vfs} SR-IOV VFs left."


FILTER = RoomFilter(name="vfs", opens=opens, sentence=_sentence, line="1 fits", count=_count)
