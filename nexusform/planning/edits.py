"""Edits of a plan request: assumptions of hypothetical plans, and trials of remedies."""

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import Configuration
from nexusform.planning.plan_request import ArgumentAdjustment, PlanRequest
from nexusform.resources.address import Address


class LostMachines(Struct, frozen=True):
    """Machines of a site that are down; their VMs are re-created elsewhere."""

    site_id: str
    machines: tuple[str, ...]


class MachineOutage(Struct, frozen=True):
    """Machines of a site that are down for some time, and return with their VMs.

    `name` is the name of the outage in reports. A plan places nothing again.
    """

    site_id: str
    machines: tuple[str, ...]
    name: str


class VmReplacement(Struct, frozen=True):
    """Resource to replace, or one of its VMs to place again: ADDR or ADDR:OBJECT."""

    address: str


class RemovedInstance(Struct, frozen=True):
    """Instance that its block no longer creates."""

    address: Address


class AddedBlocks(Struct, frozen=True):
    """The configuration with blocks added or removed."""

    configuration: Configuration


class PlacementOrder(Struct, frozen=True):
    """Blocks with new VMs to place before all others, in this order."""

    addresses: tuple[Address, ...]


Edit: TypeAlias = (
    ArgumentAdjustment
    | LostMachines
    | MachineOutage
    | VmReplacement
    | RemovedInstance
    | AddedBlocks
    | PlacementOrder
)


def apply_edits(request: PlanRequest, edits: Iterable[Edit]) -> PlanRequest:
    """Return the request after the edits, in their order."""
    for edit in edits:
        match edit:
            case ArgumentAdjustment():
                request = replace(request, adjustments=(*request.adjustments, edit))
            case LostMachines():
                lost_machines = {(edit.site_id, machine) for machine in edit.machines}
                request = replace(request, lost_machines=request.lost_machines | lost_machines)
            case VmReplacement():
                request = replace(request, replaces=(*request.replaces, edit.address))
            case RemovedInstance():
                removed_addresses = request.removed_addresses | {edit.address}
                request = replace(request, removed_addresses=removed_addresses)
            case AddedBlocks():
                request = replace(request, configuration=edit.configuration)
            case PlacementOrder():
                request = replace(request, first_addresses=edit.addresses)
    return request
