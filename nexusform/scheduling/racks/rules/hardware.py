"""Hardware: a VM SKU lists its supported machine SKUs; machines with figures of their own pass."""

from __future__ import annotations

from nexusform.scheduling.catalogue import CATALOGUES, NEWEST
from nexusform.scheduling.racks.layout import MachineCapacity
from nexusform.scheduling.racks.rule import CapacityCheck, CapacityFilter, ShortageContext
from nexusform.scheduling.racks.vms import Demand, Interval, VmSku


def build_check(sku: VmSku) -> CapacityCheck:
    """Build a check that returns why the hardware cannot run the SKU, or None."""
    supported_hardware = sku.machine_skus

    def find_rejection(capacity: MachineCapacity) -> str | None:
        if not supported_hardware or capacity.hardware is None or capacity.hardware in supported_hardware:
            return None
        return f"{sku.name} runs on {', '.join(supported_hardware)} only, this is {capacity.hardware}"

    return find_rejection


def _describe_remaining(_demand: Demand, remaining: Interval, before: Interval) -> str:
    return f"{remaining} have hardware for the SKU" if remaining != before else ""


def _describe_shortage(context: ShortageContext) -> str:
    """Explain why no machine is left, and name the largest SKU supported by this hardware."""
    sku = context.demand.sku
    names = {context.layout.machines[number].machine_sku for number in context.machines}
    hardware = sorted(name for name in names if name)
    runs_on = ", ".join(sku.machine_skus)
    text = f"{sku.name} runs on {runs_on} only; the machines of the site are {', '.join(hardware)}."
    supported_skus = [CATALOGUES[NEWEST].find_largest_sku(sku.kind, name) for name in hardware]
    largest = max(
        (candidate for candidate in supported_skus if candidate is not None),
        key=lambda candidate: (candidate.host_vcpus, candidate.memory_gib),
        default=None,
    )
    if largest is None:
        return text
    return f"{text} The largest SKU of the same type for this hardware is {largest.name}."


FILTER = CapacityFilter(
    name="hardware",
    build_check=build_check,
    describe_shortage=_describe_shortage,
    line="1 fits",
    describe_remaining=_describe_remaining,
)
