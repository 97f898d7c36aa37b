"""nexus_vm_sku: a VM size beyond the built-in catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nexusform.diagnostics import Problem
from nexusform.ports import Kind, ResourceType
from nexusform.resource_types.kubelet import EXTENDED, extended_of, extended_problems
from nexusform.resource_types.shared_arguments import (
    duplicate_problem,
    figure_attribute,
    id_attribute,
    joined_id,
    memory_problems,
    name_attribute,
    whole_number_problems,
)
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST
from nexusform.scheduling.racks.vms import VmSku, whole_mib
from nexusform.scheduling.world import Inventory
from nexusform.schema import Attribute, BlockSchema
from nexusform.value_types import BOOL

_SCHEMA: Final = BlockSchema(
    {
        "id": id_attribute("<name>"),
        "name": name_attribute("VM SKU"),
        "vcpus": figure_attribute("vCPUs of the guest.", 1),
        "emulator_vcpus": figure_attribute("Host vCPUs for emulator threads.", 0, 0),
        "memory_gib": figure_attribute("Memory in GiB, counted in MiB: 0.5 is 512 MiB.", 0, fractions=True),
        "disk_gib": figure_attribute("Root disk in GiB.", 0, 300),
        "numa_cells": figure_attribute("NUMA cells per VM.", 1, 1),
        "extra_large": Attribute(
            BOOL,
            "Prefer machines with extra-large VMs of other clusters.",
            optional=True,
            default=False,
            decides_placement=True,
        ),
        "extended_resources": EXTENDED,
    },
    description="A custom VM SKU. It fits any hardware with enough capacity.",
)
_FIGURES: Final = ("vcpus", "emulator_vcpus", "disk_gib", "numa_cells")


def identify(attributes: Mapping[str, Any]) -> str:
    """The id: the SKU's name."""
    return joined_id(attributes.get("name"))


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Figures with a fraction, and a name that the catalogue has already."""
    problems = [*whole_number_problems(attributes, _FIGURES), *memory_problems(attributes)]
    problems += extended_problems(attributes.get("extended_resources"), ("extended_resources",))
    name = attributes.get("name")
    if isinstance(name, str) and name in CATALOGUES[NEWEST].vm_skus:
        problems.append(
            Problem(
                ("name",),
                "duplicate-vm-sku",
                f'The built-in catalogue has a VM SKU "{name}" already; clusters may use it as it is. '
                "Give a SKU of your own another name.",
            )
        )
    return problems


def sku_of(attributes: Mapping[str, Any]) -> VmSku:
    """The SKU as the scheduler knows it; any hardware passes."""
    return VmSku(
        name=str(attributes["name"]),
        vcpus=int(attributes["vcpus"]),
        emulator_vcpus=int(attributes.get("emulator_vcpus") or 0),
        memory_gib=whole_mib(attributes["memory_gib"]),
        disk_gib=int(attributes.get("disk_gib", 300)),
        numa_cells=int(attributes.get("numa_cells") or 1),
        extra_large=bool(attributes.get("extra_large")),
        extended=tuple(extended_of(attributes.get("extended_resources")).items()),
    )


def offer(attributes: Mapping[str, Any], address: str, inventory: Inventory) -> list[Problem]:
    """Put the SKU into the inventory; a second SKU of one name is a problem."""
    sku = sku_of(attributes)
    other = inventory.taken.setdefault(("vm_sku", "", sku.name), address)
    if other != address:
        return [duplicate_problem("duplicate-vm-sku", "name", "VM SKU", sku.name, other)]
    inventory.skus[address] = sku
    return []


NEXUS_VM_SKU: Final = ResourceType(
    "nexus_vm_sku", 1, _SCHEMA, identify, check=check, offer=offer, kind=Kind.VM_SKU
)
