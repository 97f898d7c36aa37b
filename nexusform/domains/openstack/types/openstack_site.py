"""openstack_site: the compute hosts of an OpenStack, with the settings of Nova's scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from nexusform.diagnostics.diagnostic import Problem, suggest_name
from nexusform.domains.openstack.scheduling.nova_hosts import Flavor, NovaHost
from nexusform.domains.openstack.scheduling.nova_profile import (
    DEFAULT_FILTERS,
    DEFAULT_MULTIPLIERS,
    FILTERS,
    build_machine,
    build_nova_profile,
    build_sku,
)
from nexusform.interfaces.plugins import ResourceType
from nexusform.resource_types.shared_arguments import (
    build_duplicate_problem,
    build_id_attribute,
    build_name_attribute,
    check_whole_numbers,
    is_set_and_known,
    join_id,
)
from nexusform.scheduling.racks.vms import convert_to_gib
from nexusform.scheduling.site_inventory import Inventory, InventoryRack, InventorySite, OccupiedCapacity
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import DYNAMIC, NUMBER, STRING, ListType, MapType
from nexusform.values.value import Unknown

_SCHEMA: Final = BlockSchema(
    {
        "id": build_id_attribute("<site>"),
        "name": build_name_attribute("site"),
        "inventory": AttributeSchema(
            DYNAMIC, "The data source: data.openstack_inventory.NAME.", required=True, decides_placement=True
        ),
        "enabled_filters": AttributeSchema(
            ListType(STRING),
            f"[filter_scheduler] enabled_filters of Nova. Default: {', '.join(DEFAULT_FILTERS)}.",
            optional=True,
            decides_placement=True,
        ),
        "weight_multipliers": AttributeSchema(
            MapType(NUMBER),
            "[filter_scheduler] multipliers by weigher, for example { ram = 2 }. Weighers: "
            f"{', '.join(DEFAULT_MULTIPLIERS)}.",
            optional=True,
            decides_placement=True,
        ),
        "host_subset_size": AttributeSchema(
            NUMBER,
            "[filter_scheduler] host_subset_size: Nova draws among this many of the best hosts.",
            optional=True,
            default=1,
            minimum=1,
            decides_placement=True,
        ),
    },
    description="Compute hosts of an OpenStack. Nova and Placement choose the host of every VM.",
)


def build_id(attributes: Mapping[str, Any]) -> str:
    """Return the id: the site's name."""
    return join_id(attributes.get("name"))


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Check the names of filters and weighers, and the inventory."""
    problems = check_whole_numbers(attributes, ("host_subset_size",))
    filters, multipliers = attributes.get("enabled_filters"), attributes.get("weight_multipliers")
    if isinstance(filters, list):
        problems += _check_names("enabled_filters", filters, FILTERS)
    if isinstance(multipliers, Mapping):
        problems += _check_names("weight_multipliers", multipliers, DEFAULT_MULTIPLIERS)
        problems += [
            Problem(("weight_multipliers", name), "invalid-number", f"Nova accepts no {name} multiplier below 0.")
            for name, value in multipliers.items()
            if name.startswith("soft_") and isinstance(value, int | float) and value < 0
        ]
    inventory = attributes.get("inventory")
    if is_set_and_known(inventory) and not (isinstance(inventory, Mapping) and _has_hosts(inventory)):
        problems.append(_build_inventory_problem())
    return problems


def _has_hosts(inventory: Mapping[str, Any]) -> bool:
    return isinstance(inventory.get("hosts"), Mapping | Unknown)


def _build_inventory_problem() -> Problem:
    detail = "The inventory has no hosts. Write inventory = data.openstack_inventory.NAME."
    return Problem(("inventory",), "invalid-openstack-inventory", detail)


def _check_names(argument: str, names: Any, known: Any) -> Iterator[Problem]:
    for name in names:
        if isinstance(name, str) and name not in known:
            detail = (
                f'"{name}" is not predicted.{suggest_name(name, list(known))} Predicted: {", ".join(known)}. Remove '
                "it; placements that depend on it may then differ."
            )
            yield Problem((argument,), "unknown-scheduler-setting", detail)


def add_to_inventory(attributes: Mapping[str, Any], address: str, inventory: Inventory) -> list[Problem]:
    """Add the site, one rack per availability zone, the flavors, and the servers as occupied capacity."""
    site_id = build_id(attributes)
    other_address = inventory.addresses_by_name.setdefault(("site", "", site_id), address)
    if other_address != address:
        return [build_duplicate_problem("duplicate-site", "name", "site", site_id, other_address)]
    source = attributes.get("inventory")
    if not isinstance(source, Mapping) or not isinstance(source.get("hosts"), Mapping):
        return []
    try:
        hosts = _convert_entries(source["hosts"], NovaHost)
        flavors = _convert_entries(source.get("flavors") or {}, Flavor)
    except msgspec.ValidationError as problem:
        detail = f"The inventory is not one of data openstack_inventory: {problem}."
        return [Problem(("inventory",), "invalid-openstack-inventory", detail)]
    profile = build_nova_profile(
        hosts,
        flavors,
        attributes.get("enabled_filters") or DEFAULT_FILTERS,
        {name: float(value) for name, value in (attributes.get("weight_multipliers") or {}).items()},
        int(attributes.get("host_subset_size") or 1),
    )
    inventory.sites[address] = InventorySite(site_id, site_id, profile=profile)
    for flavor in flavors:
        inventory.skus[f"{address} {flavor.name}"] = build_sku(flavor)
    _add_racks(hosts, site_id, address, inventory)
    inventory.unmanaged.setdefault(site_id, []).extend(_list_occupied(source.get("servers") or {}))
    return []


def _convert_entries(entries: Mapping[str, Any], kind: Any) -> list[Any]:
    return [msgspec.convert({**values, "name": name}, kind, strict=False) for name, values in sorted(entries.items())]


def _add_racks(hosts: list[NovaHost], site_id: str, address: str, inventory: Inventory) -> None:
    slots = {host.name: slot for slot, host in enumerate(hosts, start=1)}
    zones = sorted({host.availability_zone for host in hosts})
    for index, zone in enumerate(zones):
        machines = tuple(build_machine(host, slots[host.name]) for host in hosts if host.availability_zone == zone)
        key = f"{address}/{zone}" if index else address
        inventory.racks[key] = InventoryRack(f"{site_id}/{zone}", site_id, zone, zone, False, machines)
        inventory.addresses_by_name.update({("machine", site_id, machine.name): address for machine in machines})


def _list_occupied(servers: Mapping[str, Any]) -> Iterator[OccupiedCapacity]:
    for server in servers.values():
        memory = convert_to_gib(int(server["memory_mib"]))
        vcpus, disk = int(server["vcpus"]), int(server["disk_gib"])
        yield OccupiedCapacity(server["host"], server["name"], vcpus, memory, disk, cell_numbers=(0,))


OPENSTACK_SITE: Final = ResourceType(
    "openstack_site", 1, _SCHEMA, build_id, check=check, add_to_inventory=add_to_inventory
)
