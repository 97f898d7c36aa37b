"""nexus_virtual_machine: a plain VM that shares the machines with NKS nodes."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem
from nexusform.interfaces.plugins import ResourceContext, ResourceType, UnplacedVms, VmHandlers
from nexusform.placements.consequences import LOSS_WITH_DATA, ConsequenceTable
from nexusform.placements.vm_demands import OBSERVED, PlacedVm, PoolDemand, VmDemand
from nexusform.resource_types.shared_arguments import (
    AZURE_BLOCK,
    build_id_attribute,
    build_id_builder,
    build_name_attribute,
    build_optional_argument,
    build_parent_attribute,
    build_placement_number,
    build_required_argument,
    check_azure_block,
    check_whole_numbers,
)
from nexusform.resources.address import Address
from nexusform.scheduling.racks.vms import Hint, HintScope, Placement, PlacementConstraints, VmSku
from nexusform.schemas.block_schema import (
    AttributeSchema,
    BlockSchema,
    NestedBlock,
    Nesting,
    OnChange,
)
from nexusform.schemas.value_types import NUMBER, STRING, ListType

_FIXED: Final = OnChange.REPLACE
# The only pool of a plain VM.
_POOL: Final = "vm"


def _build_choice(description: str, *choices: str) -> AttributeSchema:
    return build_required_argument(STRING, description, choices=choices, on_change=_FIXED)


_RACK: Final = AttributeSchema(STRING, "Rack of the VM.", computed=True, predicted=True)

_SCHEMA: Final = BlockSchema(
    {
        "id": build_id_attribute("<site>/<name>"),
        "site_id": build_parent_attribute("nexus_site"),
        "name": build_name_attribute("VM"),
        "cpu_cores": build_placement_number("vCPUs, all pinned on the host.", 2, on_change=_FIXED),
        "memory_gib": build_placement_number("Memory in GiB.", 1, on_change=_FIXED),
        "disk_gib": build_placement_number("Disk in GiB.", 0, on_change=_FIXED),
        "numa_cells": build_placement_number("NUMA cells.", 1, 1, on_change=_FIXED),
        "machine": build_optional_argument(
            STRING,
            "Machine name. If set, the VM is pinned there; otherwise it is placed.",
            computed=True,
            predicted=True,
            on_change=_FIXED,
        ),
        "rack": _RACK,
        "availability_zone": replace(_RACK, description="Availability zone of the rack."),
        "cells": AttributeSchema(
            ListType(NUMBER), "NUMA cells, from 0.", computed=True, predicted=True
        ),
        "provenance": replace(
            _RACK, description="Source of the placement: predicted, decided or observed."
        ),
    },
    {
        "placement_hint": NestedBlock(
            BlockSchema(
                {
                    "hint_type": _build_choice(
                        "Near the resource, or away from it.", "Affinity", "AntiAffinity"
                    ),
                    "resource_id": build_required_argument(
                        STRING, "Id of a VM, cluster, machine or rack.", on_change=_FIXED
                    ),
                    "scheduling_execution": _build_choice(
                        "Hard is required; Soft is preferred.", "Hard", "Soft"
                    ),
                    "scope": _build_choice("Compare machines or racks.", "Machine", "Rack"),
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
build_id: Final = build_id_builder("site_id", "name")
# Properties of a VM's body set by its arguments.
_ARGUMENT_PROPERTIES: Final = frozenset({"cpuCores", "memorySizeGB", "placementHints"})


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Check that sizes are whole numbers, and that the azure block does not repeat them."""
    sizes = ("cpu_cores", "memory_gib", "disk_gib", "numa_cells")
    return [
        *check_whole_numbers(attributes, sizes),
        *check_azure_block(attributes, _ARGUMENT_PROPERTIES, path=()),
    ]


def compute_demand(
    attributes: Mapping[str, Any], context: ResourceContext, address: Address
) -> tuple[VmDemand | None, list[Problem]]:
    """Return the demand for one VM; None with problems of its hints.

    In the placement rule, all VMs of a block are one pool of one cluster, both named by the address
    of the block. The number of a VM is its instance key, or 0.
    """
    hints, problems = _build_hints(attributes, context)
    if problems:
        return None, problems
    block = str(address.config_address)
    cpus = int(attributes["cpu_cores"])
    memory = int(attributes["memory_gib"])
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
        constraints=PlacementConstraints(hints=hints),
        pinned_machine=str(attributes.get("machine") or ""),
        rule_pool=block,
        rule_number=0 if address.key is None else address.key,
    )
    return VmDemand(
        site_id=str(attributes["site_id"]), owner=f"vm:{block}", cluster=block, pools=(pool,)
    ), []


def _build_hints(
    attributes: Mapping[str, Any], context: ResourceContext
) -> tuple[tuple[Hint, ...], list[Problem]]:
    """Build the placement hints from the current locations of their targets.

    An unknown target is a problem.
    """
    hints = []
    problems = []
    for index, hint in enumerate(attributes.get("placement_hint") or []):
        target = str(hint["resource_id"])
        target_locations = context.find_hint_targets(target)
        if target_locations is None:
            detail = (
                f'Nothing has the id "{target}". A hint names a VM, cluster, machine or rack of '
                "this configuration by its id."
            )
            problems.append(
                Problem(("placement_hint", index, "resource_id"), "unknown-resource", detail)
            )
            continue
        machines, racks = target_locations
        is_affinity = hint["hint_type"] == "Affinity"
        if is_affinity and not racks:
            # The target has no location to be near to; a rack has one, even without machines.
            continue
        hints.append(
            Hint(
                is_affinity=is_affinity,
                is_hard=hint["scheduling_execution"] == "Hard",
                scope=HintScope(hint["scope"]),
                machines=machines,
                racks=racks,
                target=target,
            )
        )
    return tuple(hints), problems


def list_existing_vms(attributes: Mapping[str, Any]) -> tuple[PlacedVm, ...]:
    """Return the VM with its placement; () if it is not placed."""
    machine = attributes.get("machine")
    if not isinstance(machine, str) or not isinstance(attributes.get("rack"), str):
        return ()
    placement = Placement(
        machine,
        attributes["rack"],
        attributes.get("availability_zone") or "",
        tuple(attributes.get("cells") or ()),
    )
    return (
        PlacedVm(
            pool=_POOL,
            number=0,
            name=str(attributes["name"]),
            sku_name=f"{attributes.get('cpu_cores')} vCPU / {attributes.get('memory_gib')} GiB",
            placement=placement,
            provenance=attributes.get("provenance") or "predicted",
        ),
    )


def list_unplaced_vms(attributes: Mapping[str, Any]) -> UnplacedVms:
    """Return the VM, by pool and number, if it exists and the platform found no machine for it."""
    if attributes.get("machine") or attributes.get("provenance") != OBSERVED:
        # It is placed, or not created.
        return {}
    return {(_POOL, 0): {"name": attributes["name"]}}


def build_computed_attributes(
    _attributes: Mapping[str, Any],
    _context: ResourceContext,
    vms: Sequence[PlacedVm],
    unplaced: UnplacedVms,
) -> dict[str, Any]:
    """Return the placement attributes; null without a placement."""
    if not vms:
        # It exists without a machine, or does not exist yet.
        provenance = OBSERVED if unplaced else None
        empty_placement: dict[str, Any] = dict.fromkeys(
            ("machine", "rack", "availability_zone", "cells")
        )
        return {**empty_placement, "provenance": provenance}
    vm = vms[0]
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
    build_id,
    check=check,
    vms=VmHandlers(
        compute_demand,
        list_existing_vms,
        build_computed_attributes,
        list_unplaced_vms=list_unplaced_vms,
    ),
    consequences=ConsequenceTable(
        noun="VM", delete=LOSS_WITH_DATA, replace=LOSS_WITH_DATA, recreate=LOSS_WITH_DATA
    ),
)
