"""Schedulable: a machine takes new VMs only when its state allows it."""

from __future__ import annotations

from nexusform.scheduling.racks.faces import Host
from nexusform.scheduling.racks.model import Demand


def refuse(_demand: Demand, host: Host) -> str | None:
    """The machine's own refusal ("cordoned", ...); None when it takes new VMs."""
    return host.machine.refusal or None
