"""nexus_virtual_machine: a plain VM that shares the machines with NKS nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from nexusform.address import Address
from nexusform.demands import OBSERVED, PlacedVm, PoolDemand, VmDemand
from nexusform.diagnostics import Problem
from nexusform.ports import ResourceType, Surroundings, Unplaced, VmFamily
from nexusform.resource_types.shared_arguments import (
    AZURE_BLOCK,
    azure_problems,
    figure_attribute,
    id_attribute,
    joined_id,
    name_attribute,
    parent_attribute,
    whole_number_problems,
)
from nexusform.scheduling.racks.vms import Hint, HintScope, Placement, Terms, VmSku
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting, OnChange
from nexusform.value_types import NUMBER, STRING, ListType

_FIXED: Final = OnChange.REPLACE
_POOL: Final = "vm"  # the one pool of a plain VM, as its places are kept


def _choice(description: str, *choices: str) -> Attribute:
    return Attribute(
        STRING, description, required=True, choices=choices, on_change=_FIXED, decides_placement=True
    )


_PLACE: Final = Attribute(STRING, "Rack of the VM.", computed=True, predicted=True)

_SCHEMA: Final = BlockSchema(
    {
        "id": id_attribute("<site>/<name>"),
        "site_id": parent_attribute("nexus_site"),
        "name": name_attribute("VM"),
        "cpu_cores": figure_attribute("vCPUs, all pinned on the host.", 2, on_change=_FIXED),
        "memory_gib": figure_attribute("Memory in GiB.", 1, on_change=_FIXED),
        "disk_gib": figure_attribute("Disk in GiB.", 0, on_change=_FIXED),
        "numa_cells": figure_attribute("NUMA cells.", 1, 1, on_change=_FIXED),
        "machine": Attribute(
            STRING,
            "Machine name. If set, the VM is pinned there; otherwise it is placed.",
            optional=True,
            computed=True,
            predicted=True,
            on_change=_FIXED,
            decides_placement=True,
        ),
        "rack": _PLACE,
        "availability_zone": replace(_PLACE, description="Availability zone of the rack."),
        "cells": Attribute(ListType(NUMBER), "NUMA cells, from 0.", computed=True, predicted=True),
        "provenance": replace(_PLACE, description="Source of the placement: predicted, decided or observed."),
    },
    {
        "placement_hint": NestedBlock(
            BlockSchema(
                {
                    "hint_type": _choice("Near the resource, or away from it.", "Affinity", "AntiAffinity"),
                    "resource_id": Attribute(
                        STRING,
                        "Id of a VM, cluster, machine or rack.",
                        required=True,
                        on_change=_FIXED,
                        decides_placement=True,
                    ),
                    "scheduling_execution": _choice("Hard is required; Soft is preferred.", "Hard", "Soft"),
                    "scope": _choice("Compare machines or racks.", "Machine", "Rack"),
                }
            ),
            Nesting.LIST,
            "Placement relative to another resource.",
            on_change=_FIXED,
        ),
        "azure": AZURE_BLOCK,
    },
    "A virtual machine outside of NKS.",
)


# What of a VM's body its arguments say.
_SAYS: Final = frozenset({"cpuCores", "memorySizeGB", "placementHints"})


def identify(attributes: Mapping[str, Any]) -> str:
    """The id: `<site>/<name>`."""
    return joined_id(attributes.get("site_id"), attributes.get("name"))


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Sizes are whole numbers, and the azure block does not say them again."""
    sizes = ("cpu_cores", "memory_gib", "disk_gib", "numa_cells")
    return [*whole_number_problems(attributes, sizes), *azure_problems(attributes, _SAYS, ())]


def demand(
    attributes: Mapping[str, Any], surroundings: Surroundings, address: Address
) -> tuple[VmDemand | None, list[Problem]]:
    """One VM; in the placement rule its cluster and pool are the block's address without any index,
    its number the instance key or 0.
    """
    hints, problems = _hints(attributes, surroundings)
    if problems:
        return None, problems
    block = str(address.config)
    cpus, memory = int(attributes["cpu_cores"]), int(attributes["memory_gib"])
    sku = VmSku(
        name=f"{cpus} vCPU / {memory} GiB",
        vcpus=cpus,
        emulator_vcpus=0,
        memory_gib=memory,
        disk_gib=int(attributes["disk_gib"]),
        numa_cells=int(attributes.get("numa_cells") or 1),
    )
    pool = PoolDemand(
        pool=_POOL,
        numbers=(0,),
        names=(str(attributes["name"]),),
        sku=sku,
        terms=Terms(hints=hints),
        pinned=str(attributes.get("machine") or ""),
        rule_pool=block,
        rule_number=0 if address.key is None else address.key,
    )
    return VmDemand(str(attributes["site_id"]), f"vm:{block}", block, (pool,)), []


def _hints(
    attributes: Mapping[str, Any], surroundings: Surroundings
) -> tuple[tuple[Hint, ...], list[Problem]]:
    """The placement hints by the places that their targets stand for now."""
    hints, problems = [], []
    for index, hint in enumerate(attributes.get("placement_hint") or []):
        target = str(hint["resource_id"])
        places = surroundings.hint_targets(target)
        if places is None:
            problems.append(
                Problem(
                    ("placement_hint", index, "resource_id"),
                    "unknown-resource",
                    f'Nothing has the id "{target}". A hint names a VM, cluster, machine or rack of this '
                    "configuration by its id.",
                )
            )
            continue
        machines, racks = places
        affinity = hint["hint_type"] == "Affinity"
        if affinity and not machines:
            continue
        scope = HintScope(hint["scope"])
        hints.append(
            Hint(
                affinity=affinity,
                hard=hint["scheduling_execution"] == "Hard",
                scope=scope,
                machines=machines,
                racks=racks,
                target=target,
            )
        )
    return tuple(hints), problems


def standing(attributes: Mapping[str, Any]) -> tuple[PlacedVm, ...]:
    """The VM where it stands."""
    machine = attributes.get("machine")
    if not isinstance(machine, str) or not isinstance(attributes.get("rack"), str):
        return ()
    place = Placement(
        machine,
        attributes["rack"],
        attributes.get("availability_zone") or "",
        tuple(attributes.get("cells") or ()),
    )
    sku = f"{attributes.get('cpu_cores')} vCPU / {attributes.get('memory_gib')} GiB"
    return (
        PlacedVm(
            pool=_POOL,
            number=0,
            name=str(attributes["name"]),
            sku_name=sku,
            placement=place,
            provenance=attributes.get("provenance") or "predicted",
        ),
    )


def unplaced(attributes: Mapping[str, Any]) -> Unplaced:
    """The VM where it is there and the platform found no machine for it."""
    if attributes.get("machine") or attributes.get("provenance") != OBSERVED:
        return {}
    return {(_POOL, 0): {"name": attributes["name"]}}


def assemble(
    _attributes: Mapping[str, Any],
    _surroundings: Surroundings,
    placed: Sequence[PlacedVm],
    unplaced: Unplaced,
) -> dict[str, Any]:
    """Where it stands; nothing while it has no place."""
    if not placed:
        provenance = OBSERVED if unplaced else None
        nowhere: dict[str, Any] = dict.fromkeys(("machine", "rack", "availability_zone", "cells"))
        return {**nowhere, "provenance": provenance}
    vm = placed[0]
    return {
        "machine": vm.placement.machine,
        "rack": vm.placement.rack,
        "availability_zone": vm.placement.availability_zone,
        "cells": list(vm.placement.cells) or None,
        "provenance": vm.provenance,
    }


NEXUS_VIRTUAL_MACHINE: Final = ResourceType(
    "nexus_virtual_machine",
    4,
    _SCHEMA,
    identify,
    check=check,
    vms=VmFamily(demand, standing, assemble, unplaced=unplaced),
)
