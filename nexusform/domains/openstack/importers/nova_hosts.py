"""Compute hosts of hypervisors.json, with their inventories, traits and aggregates.

NUMA cells, PCI devices, supported instances and failed builds are of the table
compute_nodes of Nova.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import asdict

from nexusform.diagnostics.phrases import enclose
from nexusform.domains.openstack.importers.capture_script import COMPUTE_NODES, INVENTORY, TRAITS
from nexusform.domains.openstack.importers.nova_objects import (
    parse_json_column,
    parse_statistics,
    unwrap_versioned_object,
)
from nexusform.domains.openstack.importers.numa_topologies import parse_host_cell
from nexusform.domains.openstack.importers.openstack_reading import (
    OpenstackReading,
    build_facts,
    build_problem,
    build_warning,
)
from nexusform.domains.openstack.importers.openstack_tables import (
    DuplicateRowError,
    Tables,
    index_hosts,
    index_resource_providers,
    index_services,
    name_file,
    read_count,
    read_first_text,
    read_properties,
    split_names,
)
from nexusform.domains.openstack.scheduling.nova_host_records import (
    PCPU,
    VCPU,
    Resource,
    build_host,
)
from nexusform.json_data.wrong_values import describe_wrong_value


def add_hosts(reading: OpenstackReading, tables: Tables) -> None:
    """Add the hosts of hypervisors; report those left out.

    Raises LookupError, TypeError, ValueError.
    """
    providers = index_resource_providers(tables)
    # A host may differ from its hostname.
    hosts = index_hosts(tables)
    services = index_services(tables)
    nodes = {str(row["hypervisor_hostname"]): row for row in tables.get(COMPUTE_NODES, [])}
    for row in tables["hypervisors"]:
        hostname = str(row["hypervisor_hostname"])
        host = hosts.get(hostname)
        uuid = providers.get(hostname)
        offered = {row["resource_class"] for row in tables.get(f"{INVENTORY}-{uuid}", [])}
        if uuid is not None and offered.isdisjoint((VCPU, PCPU)):
            detail = (
                f'Placement has no VCPU inventory of the hypervisor "{hostname}" '
                f"({INVENTORY}-{uuid}.json): it is left out."
            )
            reading.problems.append(build_warning(detail))
            continue
        if host is None or uuid is None:
            missing = "nova-compute service" if host is None else "resource provider"
            detail = f'The hypervisor "{hostname}" has no {missing}: its host is left out.'
            reading.problems.append(build_warning(detail))
            reason = f"it has no {missing}"
            reading.unread += build_facts(("hypervisor", hostname), "host", "hypervisors", reason)
            continue
        if host in reading.hosts:
            raise DuplicateRowError(f'hypervisors.json has two of the host "{host}"')
        # Of `hypervisor show`.
        file = f"hypervisor-{row['id']}"
        details = tables.get(file, [{}])[0]
        with name_file(file, hostname):
            version = read_count(details, "hypervisor_version")
            shown_name = read_first_text(details, "hypervisor_hostname") or hostname
            if shown_name != hostname:
                # Older clouds number their hypervisors, so ids of two clouds may be equal.
                raise ValueError(f'it is of the hypervisor "{shown_name}"')
        reading.hosts[host] = {
            **_build_host(uuid, services[host], host, tables),
            "hypervisor_version": version,
            "hypervisor_type": read_first_text(row, "hypervisor_type"),
            **_read_host_details(hostname, nodes),
        }
    if not reading.hosts:
        detail = "No compute host has a service and an inventory in Placement."
        reading.problems.append(build_problem(detail))


def _build_host(uuid: str, service: Mapping[str, Any], host: str, tables: Tables) -> dict[str, Any]:
    """Return the values of a host in the inventory.

    `uuid` is its resource provider in Placement.
    """
    # It takes new VMs.
    unschedulable_reason = ""
    status, state = (str(service[column]).lower() for column in ("status", "state"))
    if status != "enabled":
        note = enclose(" (", service.get("disabled_reason"), ")")
        unschedulable_reason = f"its compute service is {status}{note}"
    elif state != "up":
        unschedulable_reason = f"its compute service is {state}"
    return {
        "availability_zone": str(service.get("zone") or "nova"),
        "unschedulable_reason": unschedulable_reason,
        "resources": dict(_iterate_resources(f"{INVENTORY}-{uuid}", tables)),
        "traits": sorted(str(row["name"]) for row in tables.get(f"{TRAITS}-{uuid}", [])),
        "aggregates": {
            str(row["name"]): read_properties(row.get("properties") or row.get("metadata"))
            for row in tables.get("aggregates", [])
            if host in split_names(row.get("hosts"))
        },
    }


def _iterate_resources(file: str, tables: Tables) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield each resource class of an inventory in Placement, with its figures.

    Raises ValueError.
    """
    for row in tables.get(file, []):
        resource_class = str(row["resource_class"])
        figures = {name: row[name] for name in Resource.__struct_fields__}
        with name_file(file, resource_class):
            resource = msgspec.convert(figures, Resource, strict=False)
        yield resource_class, asdict(resource)


_UNKNOWN_DETAILS: Final[Mapping[str, Any]] = {
    "has_details": False,
    "numa_cells": [],
    "device_pools": [],
    "supported_instances": [],
    "failed_builds": None,
}


def _read_host_details(hostname: str, nodes: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the details of a host, unknown ones if its row is missing.

    Raises ValueError.
    """
    if hostname not in nodes:
        return _UNKNOWN_DETAILS
    with name_file(COMPUTE_NODES, hostname):
        details = _parse_host_details(nodes[hostname])
        # Its numbers are valid.
        build_host(hostname, {"availability_zone": "", "resources": {}, **details})
        return details


def _parse_host_details(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details of a host from its row (objects of Nova in JSON).

    Raises ValueError with the column of a wrong value.
    """
    details: dict[str, Any] = {"has_details": True}
    for name, (column, parse) in _PARSERS.items():
        try:
            details[name] = parse(parse_json_column(row[column]))
        except KeyError as problem:
            raise ValueError(f"{column}: it has no {problem}") from None
        except (LookupError, AttributeError, TypeError, ValueError, OverflowError) as problem:
            raise ValueError(f"{column}: {describe_wrong_value(problem)}") from None
    # A statistic that is absent in Nova is 0; a table without the column has none of them.
    builds = read_count(parse_statistics(row), "failed_builds") if "stats" in row else None
    return {**details, "failed_builds": builds}


def _parse_cells(stored_topology: Any) -> list[dict[str, Any]]:
    """Convert a NUMA topology; a host without one has None."""
    if stored_topology is None:
        return []
    topology = unwrap_versioned_object(stored_topology)
    return [parse_host_cell(unwrap_versioned_object(cell)) for cell in topology["cells"]]


def _parse_device_pools(stored_list: Any) -> list[dict[str, Any]]:
    """Convert a PciDevicePoolList, or a plain list."""
    stored_pools = unwrap_versioned_object(stored_list)
    if isinstance(stored_pools, Mapping):
        stored_pools = stored_pools["objects"]
    pools = map(_parse_device_pool, () if stored_pools is None else stored_pools)
    # Nova uses pools with few properties first.
    return sorted(pools, key=lambda pool: len(pool["properties"]))


def _parse_supported_instances(stored_instances: Any) -> list[list[str]]:
    """Return the architecture, hypervisor type and VM mode of each supported instance."""
    instances = msgspec.convert(stored_instances or [], list[list[str | None]])
    return [[str(part).lower() for part in instance] for instance in instances]


# Column of a detail of a host, and its parser.
_PARSERS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "numa_cells": ("numa_topology", _parse_cells),
    "device_pools": ("pci_stats", _parse_device_pools),
    "supported_instances": ("supported_instances", _parse_supported_instances),
}


def _parse_device_pool(pool: Any) -> dict[str, Any]:
    """Convert a pool of Nova's PCI devices to the form of the inventory.

    Its tags count as properties.
    """
    properties = dict(unwrap_versioned_object(pool))
    properties |= properties.pop("tags", None) or {}
    node = properties.pop("numa_node", None)
    return {
        "count": int(properties.pop("count")),
        "numa_node": None if node is None else int(node),
        "properties": {str(key): str(value) for key, value in sorted(properties.items())},
    }
