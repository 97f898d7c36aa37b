"""Disk: the machine's ephemeral disk must hold the VM's root disk."""

from __future__ import annotations

from nexusform.scheduling.racks.faces import Host
from nexusform.scheduling.racks.model import Demand


def refuse(demand: Demand, host: Host) -> str | None:
    """How much disk is missing; None when there is enough."""
    if host.free_disk >= demand.sku.disk_gib:
        return None
    return f"{host.free_disk} GiB of disk left, {demand.sku.disk_gib} GiB needed"
