from __future__ import annotations

from nexusform.resource_types.hardware import MACHINE_BLOCK, MOST_CELLS


def test_a_machine_has_no_more_cells_than_can_be_worked_with() -> None:
    assert MACHINE_BLOCK.schema.attributes["numa_cells"].maximum == MOST_CELLS == 64
