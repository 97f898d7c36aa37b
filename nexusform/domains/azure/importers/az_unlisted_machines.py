"""VMs on machines that the list of an export lacks: the rack of such a machine is known from state only."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from nexusform.domains.azure.importers.az_records import AzNode, AzSite, AzVirtualMachine, AzVmLocation
from nexusform.json_data.plain_data import get_mapping

_Vm = TypeVar("_Vm", AzNode, AzVirtualMachine)


def locate_vms_on_unlisted_machines(
    sites: Iterable[AzSite], objects: Sequence[Mapping[str, Any]]
) -> tuple[AzSite, ...]:
    """Return the sites with the VMs on unlisted machines placed there, as far as their racks are in `objects` of state:
    absence in an incomplete list does not mean that a machine was removed.
    """
    locations = _collect_recorded_locations(objects)
    located_sites = []
    for site in sites:
        inventory = site.inventory
        if inventory.vms_on_unlisted_machines:
            vms = tuple(_locate_vm(vm, site.name, locations) for vm in inventory.virtual_machines)
            clusters = [
                replace(cluster, nodes=tuple(_locate_vm(node, site.name, locations) for node in cluster.nodes))
                for cluster in inventory.clusters
            ]
            inventory = replace(inventory, virtual_machines=vms, clusters=tuple(clusters))
        located_sites.append(replace(site, inventory=inventory))
    return tuple(located_sites)


def _locate_vm(vm: _Vm, site: str, locations: Mapping[tuple[str, str], AzVmLocation]) -> _Vm:
    """Return a VM with the recorded location of its unlisted machine; other VMs, and without a record, as they are."""
    location = locations.get((site, vm.unlisted_machine))
    return vm if location is None else replace(vm, placement=location, unlisted_machine="")


def _collect_recorded_locations(objects: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], AzVmLocation]:
    """Collect the location of each recorded machine, by site and name, from attributes of racks and machines."""
    rack_names: dict[tuple[str, str], str] = {}  # by site and machine
    zones: dict[str, Any] = {}  # by rack id
    for attributes in objects:
        if "slot" in attributes:  # a machine
            rack_names[str(attributes["rack_id"]).partition("/")[0], str(attributes["name"])] = str(
                attributes["rack_id"]
            ).partition("/")[2]
        elif "machine_override" in attributes:  # a rack
            site, _, rack = str(attributes["id"]).partition("/")
            zones[str(attributes["id"])] = attributes["availability_zone"]
            rack_names |= {(site, machine): rack for machine in get_mapping(attributes, "machines")}
    return {
        (site, machine): AzVmLocation(machine, rack, zones.get(f"{site}/{rack}"))
        for (site, machine), rack in rack_names.items()
    }
