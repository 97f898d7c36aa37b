"""Hardware: a VM SKU lists the machine SKUs it runs on; machines with figures of their own pass."""

from __future__ import annotations

from nexusform.scheduling.racks.faces import Host
from nexusform.scheduling.racks.model import Demand


def refuse(demand: Demand, host: Host) -> str | None:
    """Why the hardware cannot run the SKU; None when it can."""
    listed = demand.sku.machine_skus
    if not listed or host.machine.machine_sku is None or host.machine.machine_sku in listed:
        return None
    return f"{demand.sku.name} runs on {', '.join(listed)} only, this is {host.machine.machine_sku}"
