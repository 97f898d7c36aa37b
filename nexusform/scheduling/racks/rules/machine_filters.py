"""Machines: their state, hardware and disk must allow the VM.

Their state must allow new VMs (schedulable), their hardware the SKU (hardware), and their ephemeral
disk must hold the VM's root disk (disk). A VM SKU lists its supported machine SKUs; machines with
figures of their own pass.
"""

from collections import Counter
from collections.abc import Callable

from nexusform.scheduling.racks.layout import FreeCapacity
from nexusform.scheduling.racks.rule import (
    CapacityCheck,
    CapacityFilter,
    MachineFilter,
    ShortageContext,
)
from nexusform.scheduling.racks.rules.zones import describe_zones
from nexusform.scheduling.racks.vms import Demand, Interval, VmSku
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST


def _create_remaining_description(verb_phrase: str) -> Callable[[Demand, Interval, Interval], str]:
    """Return a description of the remaining machines: `12 have the disk`.

    It is "" if the filter rejects none.
    """
    return lambda _demand, remaining, before: (
        f"{remaining} {verb_phrase}" if remaining != before else ""
    )


def _describe_schedulable_shortage(context: ShortageContext) -> str:
    """Explain why no machine is left: each reason with its number of machines, most first."""
    reason_counts = Counter(
        context.layout.machines[number].unschedulable_reason for number in context.machines
    )
    most_first = sorted(reason_counts, key=lambda reason: (-reason_counts[reason], reason))
    reasons = ", ".join(f"{reason_counts[reason]:,} {reason}" for reason in most_first)
    machines = len(context.machines)
    return (
        f"None of the {machines:,} machines on the site ({describe_zones(context.demand)}) takes "
        f"new VMs: {reasons}."
    )


SCHEDULABLE = MachineFilter(
    name="schedulable",
    # Such as "cordoned".
    find_rejection=lambda machine: (
        machine.unschedulable_reason if machine.unschedulable_reasons else None
    ),
    describe_shortage=_describe_schedulable_shortage,
    binding="not_schedulable",
    line="1 fits",
    describe_remaining=_create_remaining_description("take new VMs"),
)


def _build_hardware_check(sku: VmSku) -> CapacityCheck:
    """Build a check of a capacity.

    Why its hardware cannot run the SKU, None if it can, or has no machine SKU.
    """
    supported_hardware = sku.machine_skus

    def find_rejection(capacity: FreeCapacity) -> str | None:
        """Return why a machine with this capacity is of the wrong hardware.

        Return None if it may run the SKU.
        """
        if (
            not supported_hardware
            or capacity.hardware is None
            or capacity.hardware in supported_hardware
        ):
            return None
        return (
            f"{sku.name} runs on {', '.join(supported_hardware)} only, this is {capacity.hardware}"
        )

    return find_rejection


def _describe_hardware_shortage(context: ShortageContext) -> str:
    """Explain why no machine is left, and name the largest SKU supported by this hardware."""
    sku = context.demand.sku
    catalogue = CATALOGUES[NEWEST]
    names = {context.layout.machines[number].machine_sku for number in context.machines}
    # Without machines with figures of their own.
    hardware = sorted(filter(None, names))
    runs_on = ", ".join(sku.machine_skus)
    text = f"{sku.name} runs on {runs_on} only; the machines of the site are {', '.join(hardware)}."
    # None: it supports none.
    largest_skus = (catalogue.find_largest_sku(sku.kind, name) for name in hardware)
    supported_skus = filter(None, largest_skus)
    largest = max(
        supported_skus,
        key=lambda candidate: (candidate.host_vcpus, candidate.memory_gib),
        default=None,
    )
    if largest is None:
        return text
    return f"{text} The largest SKU of the same type for this hardware is {largest.name}."


HARDWARE = CapacityFilter(
    name="hardware",
    build_check=_build_hardware_check,
    describe_shortage=_describe_hardware_shortage,
    line="1 fits",
    describe_remaining=_create_remaining_description("have hardware for the SKU"),
)


def _build_disk_check(sku: VmSku) -> CapacityCheck:
    """Build a check of a capacity for a VM of the SKU.

    It returns a text about missing disk, or None if there is enough.
    """
    needed = sku.disk_gib

    def find_rejection(capacity: FreeCapacity) -> str | None:
        return (
            None
            if capacity.disk >= needed
            else f"{capacity.disk} GiB of disk left, {needed} GiB needed"
        )

    return find_rejection


def _describe_disk_shortage(context: ShortageContext) -> str:
    disk = context.demand.sku.disk_gib
    return (
        f"No machine on the site ({describe_zones(context.demand)}) has {disk:,} GiB of disk left."
    )


DISK = CapacityFilter(
    name="disk",
    build_check=_build_disk_check,
    describe_shortage=_describe_disk_shortage,
    line="1 fits",
    describe_remaining=_create_remaining_description("have the disk"),
)
