"""nexus_vm_sku: a VM size beyond the built-in catalogue."""

from collections.abc import Mapping
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Problem
from nexusform.interfaces.plugins import PlanningKind, ResourceType
from nexusform.placements.consequences import ConsequenceTable
from nexusform.resource_types.kubelet_block import (
    EXTENDED,
    check_extended_resources,
    parse_extended_resources,
)
from nexusform.resource_types.shared_arguments import (
    build_duplicate_object_problem,
    build_id_attribute,
    build_id_builder,
    build_name_attribute,
    build_optional_argument,
    build_placement_number,
    check_memory,
    check_whole_numbers,
)
from nexusform.scheduling.racks.vms import VmSku, round_up_to_mib
from nexusform.scheduling.site_inventory import PlanInventory
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST
from nexusform.schemas.block_schema import BlockSchema
from nexusform.schemas.value_types import BOOL

_SCHEMA: Final = BlockSchema(
    {
        "id": build_id_attribute("<name>"),
        "name": build_name_attribute("VM SKU"),
        "vcpus": build_placement_number("vCPUs of the guest.", 1),
        "emulator_vcpus": build_placement_number("Host vCPUs for emulator threads.", 0, 0),
        "memory_gib": build_placement_number(
            "Memory in GiB, counted in MiB: 0.5 is 512 MiB.", 0, allows_fractions=True
        ),
        "disk_gib": build_placement_number("Root disk in GiB.", 0, 300),
        "numa_cells": build_placement_number("NUMA cells per VM.", 1, 1),
        "extra_large": build_optional_argument(
            BOOL, "Prefer machines with extra-large VMs of other clusters.", default=False
        ),
        "extended_resources": EXTENDED,
    },
    description="A custom VM SKU. It fits any hardware with enough capacity.",
)
build_id: Final = build_id_builder("name")
_FIGURES: Final = ("vcpus", "emulator_vcpus", "disk_gib", "numa_cells")


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of figures, extended resources, and a name of the built-in catalogue.

    Problems of figures include fractions and the memory.
    """
    problems = [*check_whole_numbers(attributes, _FIGURES), *check_memory(attributes)]
    problems += check_extended_resources(
        attributes.get("extended_resources"), ("extended_resources",)
    )
    name = attributes.get("name")
    if isinstance(name, str) and name in CATALOGUES[NEWEST].vm_skus:
        reason = (
            f'The built-in catalogue has a VM SKU "{name}" already; clusters can use it directly.'
        )
        problems.append(Problem(("name",), "duplicate-vm-sku", f"{reason} Rename your own SKU."))
    return problems


def add_to_inventory(
    attributes: Mapping[str, Any], address: str, inventory: PlanInventory
) -> list[Problem]:
    """Add the SKU to the inventory; a second SKU with one name is a problem."""
    # For the scheduler; any hardware is accepted.
    sku = VmSku(
        name=str(attributes["name"]),
        vcpus=int(attributes["vcpus"]),
        emulator_vcpus=int(attributes.get("emulator_vcpus") or 0),
        memory_gib=round_up_to_mib(attributes["memory_gib"]),
        disk_gib=int(attributes.get("disk_gib", 300)),
        numa_cells=int(attributes.get("numa_cells") or 1),
        extra_large=bool(attributes.get("extra_large")),
        extended=tuple(parse_extended_resources(attributes.get("extended_resources")).items()),
    )
    # Kind, no scope, name.
    other_address = inventory.addresses_by_name.setdefault(("vm_sku", "", sku.name), address)
    if other_address != address:
        return [
            build_duplicate_object_problem("duplicate-vm-sku", "VM SKU", sku.name, other_address)
        ]
    inventory.skus[address] = sku
    return []


NEXUS_VM_SKU: Final = ResourceType(
    "nexus_vm_sku",
    1,
    _SCHEMA,
    build_id,
    check=check,
    add_to_inventory=add_to_inventory,
    kind=PlanningKind.VM_SKU,
    consequences=ConsequenceTable(noun="VM SKU"),
)
