"""The hardware of a machine: a machine SKU of the catalogue, or a `machine` block of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from nexusform.diagnostics import Problem, did_you_mean
from nexusform.resource_types.machine_facts import refusal_of
from nexusform.resource_types.shared_arguments import is_known, whole_number_problems
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST
from nexusform.scheduling.racks.vms import VFS_PER_CELL, Machine, MachineSku, VmSku
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting
from nexusform.value_types import NUMBER, STRING

MOST_CELLS: Final = 64  # of one machine; each is worked with on its own


def _figure(description: str, minimum: int, maximum: int | None = None) -> Attribute:
    return Attribute(
        NUMBER, description, required=True, minimum=minimum, maximum=maximum, decides_placement=True
    )


MACHINE_BLOCK: Final = NestedBlock(
    BlockSchema(
        {
            "numa_cells": _figure("NUMA cells.", 1, MOST_CELLS),
            "cpus_per_cell": _figure("vCPUs for VMs per cell.", 1),
            "memory_gib_per_cell": _figure("Memory for VMs per cell, in GiB.", 1),
            "ephemeral_disk_gib": _figure("Disk for VM root disks per machine, in GiB.", 0),
            "vfs_per_cell": Attribute(
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

MACHINE_SKU: Final = Attribute(
    STRING,
    "Machine SKU of the catalogue.",
    optional=True,
    decides_placement=True,
)


VFS: Final = Attribute(
    NUMBER,
    "SR-IOV virtual functions per VM, from its NUMA cells. A cell has 30 (inferred). A change moves no VM."
    " Default: 0.",
    optional=True,
    minimum=0,
    decides_placement=True,
)
_FIGURES: Final = ("numa_cells", "cpus_per_cell", "memory_gib_per_cell", "ephemeral_disk_gib")


class Hardware(NamedTuple):
    """What a machine has: `sku` None for figures of its own; cells, vCPUs and GiB per cell, GiB of disk, VFs
    per cell.
    """

    sku: str | None
    cells: int
    cpus_per_cell: int
    memory_gib_per_cell: int
    disk_gib: int
    vfs_per_cell: int = VFS_PER_CELL


def machine_sku_names() -> tuple[str, ...]:
    """The machine SKUs of the catalogue, sorted."""
    return tuple(sorted(CATALOGUES[NEWEST].machine_skus))


def hardware_of(attributes: Mapping[str, Any]) -> Hardware | None:
    """The hardware that `machine_sku` or `machine` describes; None when neither does."""
    block = attributes.get("machine")
    if isinstance(block, Mapping):
        figures = [block.get(n) for n in _FIGURES]
        whole = [f for f in figures if isinstance(f, int)]
        vfs = block.get("vfs_per_cell")
        vfs = vfs if isinstance(vfs, int) else VFS_PER_CELL
        return Hardware(None, *whole)._replace(vfs_per_cell=vfs) if len(whole) == len(figures) else None
    name = attributes.get("machine_sku")
    sku = CATALOGUES[NEWEST].machine_skus.get(name) if isinstance(name, str) else None
    if sku is None:
        return None
    return hardware_of_sku(sku, sku.name)


def hardware_of_sku(sku: MachineSku, name: str | None) -> Hardware:
    """The hardware that a machine SKU stands for; `name` None where the catalogue does not list it."""
    return Hardware(
        sku=name,
        cells=sku.cells,
        cpus_per_cell=sku.cpus_per_cell,
        memory_gib_per_cell=sku.memory_gib_per_cell,
        disk_gib=sku.disk_gib,
    )


def hardware_problems(attributes: Mapping[str, Any], *, required: bool) -> list[Problem]:
    """What is wrong with `machine_sku` and `machine`.

    Both given, neither given where one is `required`, or a SKU that the catalogue does not list.
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
    if required and block is None and sku is None:
        return [
            Problem(
                (),
                "missing-required-argument",
                'Say what hardware this machine is: either "machine_sku" '
                f'({", ".join(machine_sku_names())}) or a "machine" block with its figures. '
                "For a machine of data.nexus_inventory whose machine_sku is null, map its machineSkuId in "
                '"machine_sku_by_id".',
            )
        ]
    if isinstance(block, Mapping):
        return whole_number_problems(block, block, ("machine",))
    if is_known(sku) and sku not in machine_sku_names():
        names = machine_sku_names()
        return [
            Problem(
                ("machine_sku",),
                "unknown-machine-sku",
                f'The catalogue has no machine SKU "{sku}".{did_you_mean(str(sku), names)} '
                f'It lists {", ".join(names)}; describe other hardware with a "machine" block.',
            )
        ]
    return []


def machine_with(
    hardware: Hardware, facts: Mapping[str, Any], *, name: str, rack: str, availability_zone: str, slot: int
) -> Machine:
    """A machine as the scheduler sees it: its hardware, and what is known of it (machine_facts.py)."""
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
        refusal=refusal_of(facts),
        vfs_per_cell=hardware.vfs_per_cell,
    )


def with_vfs(sku: VmSku, values: Mapping[str, Any]) -> VmSku:
    """A SKU with the VFs that the VMs of a pool or VDU take; the same object where there are none."""
    vfs = int(values.get("sriov_vfs") or 0)
    return replace(sku, vfs=vfs) if vfs else sku
