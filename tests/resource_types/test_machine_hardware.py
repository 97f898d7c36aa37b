from __future__ import annotations

from nexusform.resource_types.machine_facts import MACHINE_BLOCK, MAXIMUM_CELLS


def test_a_machine_has_no_more_cells_than_can_be_worked_with() -> None:
    assert MACHINE_BLOCK.schema.attributes["numa_cells"].maximum == MAXIMUM_CELLS == 64
