"""Cells: which of a machine's cells have room for a VM's share, and the least free memory first."""

from __future__ import annotations

from nexusform.scheduling.racks.rooms import Room, Share


def with_room(share: Share, room: Room) -> list[int]:
    """The cells that can take a VM's share, ascending."""
    _, _, cpus, memory = share
    free_memory = room.memory
    return [cell for cell, free in enumerate(room.cpus) if free >= cpus and free_memory[cell] >= memory]


def free_memory(room: Room, cell: int) -> int:
    """GiB free in the cell."""
    return room.memory[cell]
