from __future__ import annotations

import re

from nexusform.scheduling.sku_catalogue import CATALOGUES, DEFAULT_MACHINE_SKU, NEWEST

NEW = CATALOGUES[NEWEST]


def test_names_and_figures_agree() -> None:
    for name, sku in NEW.vm_skus.items():
        kind, vcpus, memory = re.fullmatch(r"NC_([GPEL])(\d+)_(\d+)_v1", name).groups()
        assert (sku.name, sku.kind, sku.vcpus, sku.memory_gib) == (
            name,
            kind,
            int(vcpus),
            int(memory),
        )
        assert sku.emulator_vcpus == (0 if kind == "G" else 2)
        assert sku.numa_cells == (2 if kind == "E" else 1)
        assert sku.disk_gib == (1638 if kind == "L" else 300)


def test_every_sku_fits_an_empty_machine_of_its_hardware() -> None:
    for sku in NEW.vm_skus.values():
        for name in sku.machine_skus:
            machine = NEW.machine_skus[name]
            assert sku.numa_cells <= machine.cells
            assert sku.cpus_in_cell <= machine.cpus_per_cell
            assert sku.memory_in_cell <= machine.memory_gib_per_cell
            assert sku.disk_gib <= machine.disk_gib


def test_exactly_the_four_named_skus_are_extra_large() -> None:
    named = {name for name, sku in NEW.vm_skus.items() if sku.extra_large}
    assert named == {"NC_G48_224_v1", "NC_P46_224_v1", "NC_G56_224_v1", "NC_P54_224_v1"}


def test_machine_skus_and_versions() -> None:
    older = NEW.machine_skus["bom-1.7.3"]
    newer = NEW.machine_skus["bom-2.0"]
    assert (older.cells, older.cpus_per_cell, older.memory_gib_per_cell, older.disk_gib) == (
        2,
        48,
        224,
        3500,
    )
    assert (newer.cells, newer.cpus_per_cell, newer.memory_gib_per_cell, newer.disk_gib) == (
        2,
        56,
        224,
        3500,
    )
    assert DEFAULT_MACHINE_SKU in NEW.machine_skus
    assert CATALOGUES["2026-03"] is NEW
    assert len(NEW.vm_skus) == 28


def test_nonexistent_skus_are_absent() -> None:
    assert "NC_P36_168_v1" not in NEW.vm_skus
    assert "NC_P34_168_v1" in NEW.vm_skus


def test_largest_sku_of_a_type_for_a_machine_sku() -> None:
    assert NEW.find_largest_sku("G", "bom-2.0").name == "NC_G56_224_v1"
    assert NEW.find_largest_sku("E", "bom-1.7.3").name == "NC_E94_448_v1"
    assert NEW.find_largest_sku("L", "bom-1.7.3") is None
