"""openstack_site: the compute hosts of an OpenStack, with the settings of Nova's scheduler."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Problem, Severity, suggest_name
from nexusform.diagnostics.phrases import format_first_items
from nexusform.domains.openstack.scheduling.hardware_fit import ALIAS_FIELDS, POLICIES
from nexusform.domains.openstack.scheduling.nova_host_records import (
    MULTIPLIER,
    NovaHost,
    NovaServer,
)
from nexusform.domains.openstack.scheduling.nova_profile import (
    BUILD_FAILURE,
    DEFAULT_FILTERS,
    DEFAULT_MULTIPLIERS,
    DEFAULT_ZONE,
    FILTERS,
    UNPREDICTED_FILTERS,
    build_machine,
    build_nova_profile,
    build_nova_settings,
    build_nova_site,
    build_server_sku,
    list_hosts_with_unread_builds,
)
from nexusform.doubts.doubt import Doubt, Influence
from nexusform.interfaces.plugins import ResourceType
from nexusform.json_data.plain_data import get_list, get_value_at_path
from nexusform.resource_types.shared_arguments import (
    build_duplicate_object_problem,
    build_id_attribute,
    build_name_attribute,
    check_whole_numbers,
    get_known_blocks,
    is_set_and_known,
    join_id_parts,
)
from nexusform.scheduling.site_inventory import (
    InventoryRack,
    OccupiedCapacity,
    PlanInventory,
    SiteSettings,
)
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import DYNAMIC, NUMBER, STRING, ListType, MapType
from nexusform.values.typed_value import UNKNOWN, Unknown

_SCHEMA: Final = BlockSchema(
    {
        "id": build_id_attribute("<site>"),
        "name": build_name_attribute("site"),
        "inventory": AttributeSchema(
            DYNAMIC,
            "The data source: data.openstack_inventory.NAME.",
            required=True,
            decides_placement=True,
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
        DEFAULT_ZONE: AttributeSchema(
            STRING,
            "[DEFAULT] default_schedule_zone of Nova: the zone of servers that request none. Set "
            '"" if nova.conf has none. Without it, hosts in several zones are uncertain.',
            optional=True,
            decides_placement=True,
        ),
        "pci_aliases": AttributeSchema(
            MapType(MapType(STRING)),
            '[pci] alias of Nova by name, for example { nic = { vendor_id = "8086", product_id = '
            '"154d" } }. Other '
            "keys: device_type, numa_policy.",
            optional=True,
            decides_placement=True,
        ),
    },
    description="Compute hosts of an OpenStack. Nova and Placement choose the host of every VM.",
)


def build_id(attributes: Mapping[str, Any]) -> str:
    """Return the id: the site's name."""
    return join_id_parts(attributes.get("name"))


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of a site.

    They concern the numbers, the filters and weighers, the PCI aliases and the inventory.
    """
    problems = check_whole_numbers(attributes, ("host_subset_size",))
    multipliers = get_known_blocks(attributes, "weight_multipliers")
    filters = get_list(attributes, "enabled_filters")
    predicted_filters = [name for name in filters if name not in UNPREDICTED_FILTERS]
    problems += _check_filter_and_weigher_names("enabled_filters", predicted_filters, FILTERS)
    problems += [
        Problem(
            ("enabled_filters",),
            "uncertain-placement",
            f"{name} is not predicted: it may reject any host. Keep it here while Nova uses it.",
            Severity.WARNING,
        )
        for name in filters
        if name in UNPREDICTED_FILTERS
    ]
    problems += _check_filter_and_weigher_names(
        "weight_multipliers", multipliers, DEFAULT_MULTIPLIERS
    )
    problems += [
        Problem(
            ("weight_multipliers", name),
            "invalid-number",
            f"Nova accepts no {name} multiplier below 0.",
        )
        for name, value in multipliers.items()
        if name.startswith("soft_") and isinstance(value, int | float) and value < 0
    ]
    problems += _check_aliases(get_known_blocks(attributes, "pci_aliases"))
    inventory = attributes.get("inventory")
    hosts = get_value_at_path(inventory, "hosts")
    if is_set_and_known(inventory) and not isinstance(hosts, Mapping | Unknown):
        detail = "The inventory has no hosts. Write inventory = data.openstack_inventory.NAME."
        problems.append(Problem(("inventory",), "invalid-openstack-inventory", detail))
    return problems


def _check_aliases(aliases: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of PCI aliases by name.

    Problems are fields for devices in Placement, unknown fields, and unknown NUMA policies.
    """
    for name, fields in aliases.items():
        if not isinstance(fields, Mapping):
            continue  # unknown
        for key in ("resource_class", "traits"):
            if key in fields:
                detail = (
                    f"PCI devices in Placement ({key}) are not predicted. Remove the alias or "
                    f"{key}."
                )
                yield Problem(("pci_aliases", name, key), "invalid-pci-alias", detail)
        for key in fields:
            if key not in (*ALIAS_FIELDS, "resource_class", "traits"):
                detail = (
                    f'An alias has no field "{key}".{suggest_name(key, ALIAS_FIELDS)} Fields: '
                    f"{', '.join(ALIAS_FIELDS)}."
                )
                yield Problem(("pci_aliases", name, key), "invalid-pci-alias", detail)
        policy = fields.get("numa_policy")
        if policy not in (*POLICIES, None, UNKNOWN):
            detail = f'"{policy}" is not a NUMA policy. Use one of {", ".join(POLICIES)}.'
            yield Problem(("pci_aliases", name, "numa_policy"), "invalid-pci-alias", detail)


def _check_filter_and_weigher_names(argument: str, names: Any, known: Any) -> Iterator[Problem]:
    """Yield a problem for each filter or weigher without a prediction."""
    for name in names:
        # None and unknown are no names yet.
        if name not in (*known, None, UNKNOWN):
            detail = (
                f'"{name}" is not predicted.{suggest_name(name, list(known))} Predicted: '
                f"{', '.join(known)}. Remove "
                "it; placements that depend on it may then differ."
            )
            yield Problem((argument,), "unknown-scheduler-setting", detail)


def add_to_inventory(
    attributes: Mapping[str, Any], address: str, inventory: PlanInventory
) -> list[Problem]:
    """Add the site, its racks, its flavors, and its servers as occupied capacity.

    There is one rack per availability zone.
    """
    site_id = build_id(attributes)
    other_address = inventory.addresses_by_name.setdefault(("site", "", site_id), address)
    if other_address != address:
        return [build_duplicate_object_problem("duplicate-site", "site", site_id, other_address)]
    source = get_known_blocks(attributes, "inventory")
    if not isinstance(source.get("hosts"), Mapping):
        # No known hosts.
        return []
    try:
        site = build_nova_site(source)
    except (AttributeError, TypeError, ValueError) as problem:
        detail = f"The inventory is not one of data openstack_inventory: {problem}."
        return [Problem(("inventory",), "invalid-openstack-inventory", detail)]
    settings = build_nova_settings(attributes)
    inventory.sites[address] = SiteSettings(
        site_id, site_id, profile=build_nova_profile(site, settings)
    )
    inventory.site_skus[site_id] = site.build_skus()
    hosts = site.hosts
    hosts_with_unread_builds = list_hosts_with_unread_builds(hosts, settings)
    host_names = {host.name for host in hosts}
    stray_servers = [server for server in site.servers.values() if server.host not in host_names]
    inventory.unread.setdefault(site_id, []).extend(
        chain(
            _list_facts_of_filters(attributes, address),
            _list_facts_of_builds(hosts_with_unread_builds, address),
            _list_facts_of_stray_servers(stray_servers, address),
        )
    )
    slots = {host.name: slot for slot, host in enumerate(hosts, start=1)}
    zones = sorted({host.availability_zone for host in hosts})
    for index, zone in enumerate(zones):
        machines = tuple(
            build_machine(host, slots[host.name])
            for host in hosts
            if host.availability_zone == zone
        )
        # The first rack has the address of the site itself.
        key = f"{address}/{zone}" if index else address
        rack_id = f"{site_id}/{zone}"
        inventory.racks[key] = InventoryRack(
            rack_id, site_id, zone, zone, is_planned=False, machines=machines
        )
        inventory.addresses_by_name.update(
            {("machine", site_id, machine.name): address for machine in machines}
        )
    table = site.build_usage_table(settings.aliases)
    occupied = inventory.unmanaged.setdefault(site_id, [])
    for key, server in site.servers.items():
        sku = build_server_sku(server, table.build_record(key))
        size = (sku.vcpus, sku.memory_gib, sku.disk_gib)
        occupied.append(
            OccupiedCapacity(
                server.host,
                server.name,
                *size,
                cell_numbers=(0,),
                record=sku.record,
                platform_id=key,
            )
        )
    return [
        *_warn_of_unread_builds(hosts_with_unread_builds),
        *_warn_of_stray_servers(stray_servers),
    ]


def _list_facts_of_filters(attributes: Mapping[str, Any], address: str) -> Iterator[Doubt]:
    """List the facts of filters without a prediction."""
    for name in get_list(attributes, "enabled_filters"):
        if name in UNPREDICTED_FILTERS:
            for influence in (Influence.PLACEMENT, Influence.CAPACITY):
                yield Doubt("filter", name, "effect", address, 0, influence)


def _list_facts_of_builds(hosts: Iterable[NovaHost], address: str) -> Iterator[Doubt]:
    """List the facts of hosts that Nova may avoid because of failed builds."""
    for host in hosts:
        reason = f"{host.failed_builds:,} builds failed on it" if host.failed_builds else ""
        yield Doubt("host", host.name, "failed_builds", address, 0, reason=reason)


def _warn_of_unread_builds(hosts: Sequence[NovaHost]) -> Iterator[Problem]:
    """Warn of hosts that Nova may avoid because of failed builds."""
    unknown = [host.name for host in hosts if host.failed_builds is None]
    failed = [host.name for host in hosts if host.failed_builds]
    setting = (
        f"If {BUILD_FAILURE}{MULTIPLIER} of nova.conf is 0, set {BUILD_FAILURE} = 0 in "
        "weight_multipliers."
    )
    if unknown:
        detail = (
            "Nova avoids hosts with failed builds, and their number is unknown: "
            f"{format_first_items(unknown, 4)}. Set NOVA_DATABASE for the script of `nexusform "
            f"inventory script -for=openstack` (compute_nodes.json). {setting}"
        )
        yield Problem(("inventory",), "uncertain-placement", detail, Severity.WARNING)
    if failed:
        detail = (
            f"Nova avoids hosts with failed builds: {format_first_items(failed, 4)}. Capture the "
            f"files again after a successful build on each. {setting}"
        )
        yield Problem(("inventory",), "uncertain-placement", detail, Severity.WARNING)


def _list_facts_of_stray_servers(servers: Iterable[NovaServer], address: str) -> Iterator[Doubt]:
    """List the facts of servers on hosts that the inventory lacks."""
    for server in servers:
        for influence in (Influence.PLACEMENT, Influence.CAPACITY):
            reason = f'the inventory has no host "{server.host}"'
            yield Doubt("server", server.name, "host", address, 0, influence, reason)


def _warn_of_stray_servers(servers: Sequence[NovaServer]) -> Iterator[Problem]:
    """Warn of servers on hosts that the inventory lacks."""
    if servers:
        names = [f"{server.name} ({server.host})" for server in servers]
        detail = (
            f"Servers are on hosts that the inventory lacks: {format_first_items(names, 4)}. Their "
            "capacity is left out. Add the hosts, or capture the files again."
        )
        yield Problem(("inventory",), "uncertain-placement", detail, Severity.WARNING)


OPENSTACK_SITE: Final = ResourceType(
    "openstack_site",
    1,
    _SCHEMA,
    build_id,
    check=check,
    add_to_inventory=add_to_inventory,
    has_own_skus=True,
)
