"""Tests of the reasons of rules for NUMA cells."""

import pytest

from nexusform.scheduling.racks.layout import FreeCapacity
from nexusform.scheduling.racks.rules.cells import VFS
from nexusform.scheduling.racks.vms import VmSku


@pytest.mark.parametrize(
    ("cells", "vfs", "free", "reason"),
    [
        (1, 4, (4, 0), None),
        (1, 4, (3, 2), "no cell with capacity has 4 VFs left (most: 3)"),
        (2, 8, (8, 3), "fewer than 2 cells with capacity have 4 VFs left (most: 8)"),
        (2, 8, (4, 4), None),
    ],
)
def test_missing_virtual_functions_are_named_per_cell(
    cells: int, vfs: int, free: tuple[int, int], reason: str | None
) -> None:
    sku = VmSku("s", 8, 0, 8, 0, numa_cells=cells, vfs=vfs)
    capacity = FreeCapacity(None, 100, (40, 40), (99_999, 99_999), free)
    assert VFS.build_check(sku)(capacity) == reason
