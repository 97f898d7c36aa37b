from __future__ import annotations

from nexusform.resource_types.machine_facts import MACHINE_BLOCK, MAXIMUM_CELLS


def test_machine_has_a_maximum_number_of_cells() -> None:
    assert MACHINE_BLOCK.schema.attributes["numa_cells"].maximum == MAXIMUM_CELLS == 64
