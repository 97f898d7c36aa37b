"""Cells: which of a machine's cells have room for a VM's share, and the least free memory first."""

from __future__ import annotations

from nexusform.scheduling.racks.rooms import Room


def with_room(room: Room, cpus: int, memory: int) -> list[int]:
    """The cells that can take a VM's share of this size, ascending."""
    free_cpus, free_memory = room.cpus, room.memory
    return [cell for cell in range(len(free_cpus)) if free_cpus[cell] >= cpus and free_memory[cell] >= memory]


def free_memory(room: Room, cell: int) -> int:
    """GiB free in the cell."""
    return room.memory[cell]
