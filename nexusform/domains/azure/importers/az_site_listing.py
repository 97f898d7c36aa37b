"""Racks and machines of a captured site, as Azure lists them."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.phrases import compute_natural_sort_key, group_by
from nexusform.domains.azure.importers.az_records import AzMachine, AzRack, AzSite, AzVmSize
from nexusform.resource_types.machine_facts import list_role_names
from nexusform.scheduling.listing.site_listing import (
    ListedMachine,
    ListedVm,
    MachineSize,
    SiteListing,
    SiteMaintenance,
)
from nexusform.scheduling.racks.vms import MachineSku
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST

_UPGRADES: Final = frozenset({"Updating", "UpdatePaused"})
# Detailed statuses of a Nexus cluster that is not in normal operation.
_INTERRUPTIONS: Final = _UPGRADES | {"Disconnected", "Deploying", "Degraded", "Deleting", "Failed"}
_PROVISIONING: Final = "Provisioning"
# Standard files with the racks and machines.
_HARDWARE_KINDS: Final = frozenset({"racks", "bare_metal_machines"})


class UnmanagedAzVm(Struct, frozen=True):
    """VM on a machine without an object in state.

    `owner` is its cluster, "" for a plain VM.
    """

    name: str
    machine: str
    shape: AzVmSize
    owner: str = ""


def build_site_listing(
    site: AzSite, unmanaged_vms: Iterable[UnmanagedAzVm], managed: AbstractSet[tuple[str, str]]
) -> SiteListing:
    """Build the listing of a site.

    `managed` are type and id of the objects in state; the notes of managed machines have their
    unmanaged VMs, so the listing leaves them out.
    """
    inventory = site.inventory
    vms_by_machine = group_by(unmanaged_vms, lambda vm: vm.machine)
    machine_skus = CATALOGUES[NEWEST].machine_skus
    machines = []
    for machine in sorted(inventory.machines, key=lambda item: item.name):
        rack_id = f"{site.name}/{machine.rack}"
        machine_key = ("nexus_bare_metal_machine", f"{rack_id}/{machine.name}")
        vms = () if machine_key in managed else vms_by_machine.get(machine.name, ())
        machines.append(_build_machine(machine, machine_skus, vms))
    is_complete = inventory.listed_kinds >= _HARDWARE_KINDS and not inventory.lacks_machines
    return SiteListing(
        {rack.name: rack.availability_zone or "" for rack in inventory.racks},
        tuple(machines),
        is_complete,
        tuple(sorted(inventory.racks_without_machines)),
        _find_maintenance(site),
    )


def _build_machine(
    machine: AzMachine, machine_skus: Mapping[str, MachineSku], vms: Iterable[UnmanagedAzVm]
) -> ListedMachine:
    hardware = machine.find_hardware(machine_skus)
    size = None
    if hardware is not None:
        size = MachineSize(
            hardware.cells,
            hardware.cpus_per_cell,
            int(hardware.memory_gib_per_cell),
            hardware.disk_gib,
        )
    rows = []
    for vm in sorted(vms, key=lambda item: item.name):
        shape = vm.shape
        rows.append(
            ListedVm(vm.name, shape.cpu_cores, shape.memory_gib, shape.disk_gib, shape.numa_cells)
        )
    return ListedMachine(
        machine.name,
        machine.rack,
        machine.slot,
        machine.machine_sku_id or "",
        machine.machine_sku or "",
        size,
        list_role_names(machine.facts.get("roles")),
        tuple(rows),
    )


def _find_maintenance(site: AzSite) -> SiteMaintenance | None:
    """Return the runtime upgrade or interruption of a site, None in normal operation."""
    inventory = site.inventory
    racks = sorted(inventory.racks, key=lambda rack: rack.name.encode())
    current = [rack.name for rack in racks if rack.detailed_status == _PROVISIONING]
    if inventory.status in _UPGRADES:
        following = _list_next_racks(racks, inventory.machines, current)
        return SiteMaintenance(
            inventory.status, inventory.status_message, tuple(current), tuple(following)
        )
    if inventory.status in _INTERRUPTIONS:
        return SiteMaintenance(inventory.status, inventory.status_message, tuple(current))
    return SiteMaintenance(_PROVISIONING, "", tuple(current)) if current else None


def _list_next_racks(
    racks: Sequence[AzRack], machines: Iterable[AzMachine], current: Sequence[str]
) -> list[str]:
    """Return the racks that a runtime upgrade has not reached, in its order: by byte of the name.

    These are the racks with a machine of an older version. Without versions, they are the racks
    after the current one.
    """
    versions_by_rack = {
        rack: {machine.runtime_version for machine in members}
        for rack, members in group_by(machines, lambda machine: machine.rack).items()
    }
    versions = {version for found in versions_by_rack.values() for version in found} - {""}
    waiting = [rack.name for rack in racks if rack.name not in current]
    if len(versions) > 1:
        newest = max(versions, key=compute_natural_sort_key)
        return [name for name in waiting if versions_by_rack.get(name, set()) - {newest}]
    last = max(current, key=str.encode, default="")
    return [name for name in waiting if name.encode() > last.encode()]
