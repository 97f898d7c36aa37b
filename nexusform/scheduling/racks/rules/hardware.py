"""Hardware: a VM SKU lists the machine SKUs it runs on; machines with figures of their own pass."""

from __future__ import annotations

from nexusform.scheduling.catalogue import CATALOGUES, NEWEST
from nexusform.scheduling.racks.layout import Room
from nexusform.scheduling.racks.rule import RefuseRoom, RoomFilter, Scene
from nexusform.scheduling.racks.vms import Demand, Interval, VmSku


def opens(sku: VmSku) -> RefuseRoom:
    """Why the hardware cannot run the SKU; None when it can."""
    listed = sku.machine_skus

    def refuse(room: Room) -> str | None:
        if not listed or room.hardware is None or room.hardware in listed:
            return None
        return f"{sku.name} runs on {', '.join(listed)} only, this is {room.hardware}"

    return refuse


def _count(_demand: Demand, left: Interval, before: Interval) -> str:
    return f"{left} have hardware for the SKU" if left != before else ""


def _sentence(scene: Scene) -> str:
    """Why no machine is left, and the largest SKU that the hardware here does list."""
    sku = scene.demand.sku
    names = {scene.layout.machines[number].machine_sku for number in scene.machines}
    hardware = sorted(name for name in names if name)
    runs_on = ", ".join(sku.machine_skus)
    text = f"{sku.name} runs on {runs_on} only, and the machines here are {', '.join(hardware)}."
    listed = [CATALOGUES[NEWEST].largest_listed(sku.kind, name) for name in hardware]
    largest = max(
        (other for other in listed if other is not None),
        key=lambda other: (other.host_vcpus, other.memory_gib),
        default=None,
    )
    if largest is None:
        return text
    return f"{text} The largest SKU of the same type that this hardware lists is {largest.name}."


FILTER = RoomFilter(name="hardware", opens=opens, sentence=_sentence, line="1 fits", count=_count)
