"""Cells: which of a machine's cells have room for a VM's share, and the least free memory first."""

from __future__ import annotations

from nexusform.scheduling.racks.layout import Room, Share


def with_room(share: Share, room: Room) -> list[int]:
    """The cells that can take a VM's share, ascending."""
    cpus, memory = share.cpus, share.memory
    free_memory = room.memory
    return [cell for cell, free in enumerate(room.cpus) if free >= cpus and free_memory[cell] >= memory]


def with_vfs(share: Share, room: Room, fitting: list[int]) -> list[int]:
    """Those of the fitting cells that have the VFs, too."""
    return [cell for cell in fitting if room.vfs[cell] >= share.vfs]


def free_memory(room: Room, cell: int) -> int:
    """GiB free in the cell."""
    return room.memory[cell]
