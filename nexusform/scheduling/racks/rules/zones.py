"""Zones: a hard filter on the rack's availability zone."""

from __future__ import annotations

from nexusform.scheduling.racks.faces import Host
from nexusform.scheduling.racks.model import Demand


def refuse(demand: Demand, host: Host) -> str | None:
    """Why the machine's zone is not asked for; None when it is, or when all are."""
    zone = host.machine.availability_zone
    if demand.zones is None or zone in demand.zones:
        return None
    return f"zone {zone} is not among {', '.join(sorted(demand.zones))}"
