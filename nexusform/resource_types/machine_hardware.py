"""Hardware of a machine: a machine SKU of the catalogue, or its own `machine` block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, suggest_name
from nexusform.resource_types.machine_facts import (
    build_machine_status,
    find_health_reasons,
    find_unschedulable_reasons,
    list_role_names,
)
from nexusform.resource_types.shared_arguments import check_whole_numbers, is_set_and_known
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST
from nexusform.scheduling.racks.vms import VFS_PER_CELL, Machine, MachineSku, VmSku
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, NestedBlock, Nesting
from nexusform.schemas.value_types import NUMBER, STRING

MAXIMUM_CELLS: Final = 64  # of one machine; each is processed separately


def _build_figure(description: str, minimum: int, maximum: int | None = None) -> AttributeSchema:
    return AttributeSchema(NUMBER, description, required=True, minimum=minimum, maximum=maximum, decides_placement=True)


MACHINE_BLOCK: Final = NestedBlock(
    BlockSchema(
        {
            "numa_cells": _build_figure("NUMA cells.", 1, MAXIMUM_CELLS),
            "cpus_per_cell": _build_figure("vCPUs for VMs per cell.", 1),
            "memory_gib_per_cell": _build_figure("Memory for VMs per cell, in GiB.", 1),
            "ephemeral_disk_gib": _build_figure("Disk for VM root disks per machine, in GiB.", 0),
            "vfs_per_cell": AttributeSchema(
                NUMBER,
                f"SR-IOV virtual functions for VMs in each cell. Default: {VFS_PER_CELL} (inferred).",
                optional=True,
                minimum=0,
                decides_placement=True,
            ),
        }
    ),
    Nesting.SINGLE,
    "Custom hardware instead of machine_sku. Every VM SKU passes the hardware check.",
    max_items=1,
)

MACHINE_SKU: Final = AttributeSchema(STRING, "Machine SKU of the catalogue.", optional=True, decides_placement=True)


VFS: Final = AttributeSchema(
    NUMBER,
    "SR-IOV virtual functions per VM, from its NUMA cells. A cell has 30 (inferred). A change moves no VM. Default: 0.",
    optional=True,
    minimum=0,
    decides_placement=True,
)
_FIGURES: Final = ("numa_cells", "cpus_per_cell", "memory_gib_per_cell", "ephemeral_disk_gib")


class Hardware(NamedTuple):
    """Hardware of a machine; without `sku` its own figures, per cell except for disk."""

    sku: str | None
    cells: int
    cpus_per_cell: int
    memory_gib_per_cell: int
    disk_gib: int
    vfs_per_cell: int = VFS_PER_CELL


def list_machine_sku_names() -> tuple[str, ...]:
    """Return the machine SKUs of the catalogue, sorted."""
    return tuple(sorted(CATALOGUES[NEWEST].machine_skus))


def read_hardware(attributes: Mapping[str, Any]) -> Hardware | None:
    """Return the hardware described by `machine_sku` or `machine`; None for neither."""
    block = attributes.get("machine")
    if isinstance(block, Mapping):
        figures = [block.get(n) for n in _FIGURES]
        known_figures = [f for f in figures if isinstance(f, int)]
        vfs = block.get("vfs_per_cell")
        vfs = vfs if isinstance(vfs, int) else VFS_PER_CELL
        return Hardware(None, *known_figures)._replace(vfs_per_cell=vfs) if len(known_figures) == len(figures) else None
    name = attributes.get("machine_sku")
    sku = CATALOGUES[NEWEST].machine_skus.get(name) if isinstance(name, str) else None
    if sku is None:
        return None
    return build_hardware(sku, sku.name)


def build_hardware(sku: MachineSku, name: str | None) -> Hardware:
    """Build the hardware of a machine SKU; `name` is None if the catalogue does not list it."""
    return Hardware(
        sku=name,
        cells=sku.cells,
        cpus_per_cell=sku.cpus_per_cell,
        memory_gib_per_cell=sku.memory_gib_per_cell,
        disk_gib=sku.disk_gib,
    )


def check_hardware(attributes: Mapping[str, Any], *, is_required: bool) -> list[Problem]:
    """Return the problems of `machine_sku` and `machine`: both set, neither set although one is
    `is_required`, or a SKU missing in the catalogue.
    """
    block, sku = attributes.get("machine"), attributes.get("machine_sku")
    if block is not None and sku is not None:
        return [
            Problem(
                ("machine_sku",),
                "conflicting-arguments",
                'A "machine" block and "machine_sku" both describe the hardware. Keep one of them.',
            )
        ]
    if is_required and block is None and sku is None:
        return [
            Problem(
                (),
                "missing-required-argument",
                'Specify the hardware of this machine: either "machine_sku" '
                f'({", ".join(list_machine_sku_names())}) or a "machine" block with its figures. For a '
                "machine of data.nexus_inventory whose machine_sku is null, map its machineSkuId in "
                '"machine_sku_by_id".',
            )
        ]
    if isinstance(block, Mapping):
        return check_whole_numbers(block, block, ("machine",))
    if is_set_and_known(sku) and sku not in list_machine_sku_names():
        names = list_machine_sku_names()
        return [
            Problem(
                ("machine_sku",),
                "unknown-machine-sku",
                f'The catalogue has no machine SKU "{sku}".{suggest_name(str(sku), names)} '
                f'It lists {", ".join(names)}; describe other hardware with a "machine" block.',
            )
        ]
    return []


def build_machine(
    hardware: Hardware, facts: Mapping[str, Any], *, name: str, rack: str, availability_zone: str, slot: int
) -> Machine:
    """Build a machine for the scheduler from its hardware and facts (machine_facts.py)."""
    reasons = find_unschedulable_reasons(facts)
    return Machine(
        name=name,
        rack=rack,
        availability_zone=availability_zone,
        slot=slot,
        machine_sku=hardware.sku,
        cells=hardware.cells,
        cpus_per_cell=hardware.cpus_per_cell,
        memory_gib_per_cell=hardware.memory_gib_per_cell,
        disk_gib=hardware.disk_gib,
        unschedulable_reason=reasons,
        vfs_per_cell=hardware.vfs_per_cell,
        status=build_machine_status(facts),
        roles=list_role_names(facts.get("roles")),
        is_healthy=not find_health_reasons(reasons),
    )


def add_vfs_to_sku(sku: VmSku, values: Mapping[str, Any]) -> VmSku:
    """Return a SKU with the VFs used by the VMs of a pool or VDU; the same object for none."""
    vfs = int(values.get("sriov_vfs") or 0)
    return replace(sku, vfs=vfs) if vfs else sku
