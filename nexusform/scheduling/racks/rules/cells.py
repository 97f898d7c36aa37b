"""Cells: selection of the cells with capacity for a VM's share, least free memory first."""

from __future__ import annotations

from nexusform.scheduling.racks.layout import MachineCapacity, Share


def select_fitting_cells(share: Share, capacity: MachineCapacity) -> list[int]:
    """Return the cells that fit a VM's share, ascending."""
    cpus, memory = share.cpus, share.memory
    free_memory = capacity.memory
    return [cell for cell, free_cpus in enumerate(capacity.cpus) if free_cpus >= cpus and free_memory[cell] >= memory]


def select_cells_with_vfs(share: Share, capacity: MachineCapacity, fitting: list[int]) -> list[int]:
    """Return the fitting cells that also have the VFs."""
    return [cell for cell in fitting if capacity.vfs[cell] >= share.vfs]


def get_free_memory(capacity: MachineCapacity, cell: int) -> int:
    """Return the MiB free in the cell."""
    return capacity.memory[cell]
