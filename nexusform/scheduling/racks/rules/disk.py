"""Disk: the machine's ephemeral disk must hold the VM's root disk."""

from __future__ import annotations

from nexusform.scheduling.racks.layout import Room
from nexusform.scheduling.racks.rule import RefuseRoom, RoomFilter, Scene
from nexusform.scheduling.racks.rules.zones import where
from nexusform.scheduling.racks.vms import Demand, Interval, VmSku


def opens(sku: VmSku) -> RefuseRoom:
    """How much disk is missing; None when there is enough."""
    needed = sku.disk_gib

    def refuse(room: Room) -> str | None:
        return None if room.disk >= needed else f"{room.disk} GiB of disk left, {needed} GiB needed"

    return refuse


def _count(_demand: Demand, left: Interval, before: Interval) -> str:
    return f"{left} have the disk" if left != before else ""


def _sentence(scene: Scene) -> str:
    disk = scene.demand.sku.disk_gib
    return f"No machine on the site ({where(scene.demand)}) has {disk:,} GiB of disk left."


FILTER = RoomFilter(name="disk", opens=opens, sentence=_sentence, line="1 fits", count=_count)
