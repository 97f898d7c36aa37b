"""Disk: the machine's ephemeral disk must hold the VM's root disk."""

from __future__ import annotations

from nexusform.scheduling.racks.layout import MachineCapacity
from nexusform.scheduling.racks.rule import CapacityCheck, CapacityFilter, ShortageContext
from nexusform.scheduling.racks.rules.zones import describe_zones
from nexusform.scheduling.racks.vms import Demand, Interval, VmSku


def build_check(sku: VmSku) -> CapacityCheck:
    """Build a check that returns the missing disk, or None if there is enough."""
    needed = sku.disk_gib

    def find_rejection(capacity: MachineCapacity) -> str | None:
        return None if capacity.disk >= needed else f"{capacity.disk} GiB of disk left, {needed} GiB needed"

    return find_rejection


def _describe_remaining(_demand: Demand, remaining: Interval, before: Interval) -> str:
    return f"{remaining} have the disk" if remaining != before else ""


def _describe_shortage(context: ShortageContext) -> str:
    disk = context.demand.sku.disk_gib
    return f"No machine on the site ({describe_zones(context.demand)}) has {disk:,} GiB of disk left."


FILTER = CapacityFilter(
    name="disk",
    build_check=build_check,
    describe_shortage=_describe_shortage,
    line="1 fits",
    describe_remaining=_describe_remaining,
)
