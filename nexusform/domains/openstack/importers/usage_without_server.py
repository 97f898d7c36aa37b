"""Amounts that Placement counts as used beyond the servers in servers.json."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from nexusform.domains.openstack.importers.capture_script import INVENTORY
from nexusform.domains.openstack.importers.openstack_reading import (
    OpenstackReading,
    add_unknown_parts,
    build_facts,
)
from nexusform.domains.openstack.importers.openstack_tables import (
    Rows,
    Tables,
    index_hosts,
    index_resource_providers,
    read_count,
)
from nexusform.domains.openstack.scheduling.nova_host_records import DISK, MEMORY, PCPU, VCPU
from nexusform.doubts.doubt import Doubt, Influence

_CLASSES: Final = {"vcpus": VCPU, "dedicated_vcpus": PCPU, "memory_mib": MEMORY, "disk_gib": DISK}


def add_usage_without_server(reading: OpenstackReading, tables: Tables) -> None:
    """Add one server per host for the amounts used beyond its listed servers.

    Such usage is of servers absent in the files. Listed servers that use more than Placement
    counts have other requests than read.
    """
    hosts_by_name = index_hosts(tables)
    hosts: list[str] = []
    facts: list[Doubt] = []
    excess_hosts: list[str] = []
    excess_facts: list[Doubt] = []
    for hostname, uuid in index_resource_providers(tables).items():
        host = hosts_by_name.get(hostname)
        if host not in reading.hosts:
            # No compute service, or left out.
            continue
        file = f"{INVENTORY}-{uuid}"
        used = _read_used_amounts(tables.get(file, []))
        listed = _count_listed_amounts(reading, host)
        excess = next((name for name in used if listed[name] > used[name]), "")
        if excess:
            excess_hosts.append(host)
            reason = f"listed servers have {listed[excess]:,} {excess}, Placement {used[excess]:,}"
            excess_facts += build_facts(("resource provider", hostname), "used", file, reason)
        hidden = {name: amount - listed[name] for name, amount in used.items()}
        hidden = {name: amount for name, amount in hidden.items() if amount > 0}
        if hidden:
            hosts.append(host)
            # Their number and their operations weigh the host. A leaked allocation does not.
            facts += build_facts(
                ("host", host),
                "servers",
                "servers",
                "Placement counts more than the listed servers use",
                (Influence.PLACEMENT,),
            )
            server = _build_hidden_server(host, hidden)
            reading.servers[server["name"]] = server
    add_unknown_parts(
        reading,
        (excess_hosts, excess_facts),
        "Servers on these hosts use less in Placement than their flavors and images say: {names}. "
        "The image of a boot volume is not read, a flavor may have changed, or servers moved "
        "during the capture. If they moved, capture the files again.",
    )
    add_unknown_parts(
        reading,
        (hosts, facts),
        "Placement counts more on these hosts than the servers in servers.json use: {names}. The "
        "capacity is taken, but the servers that weigh them are unknown. List the servers of all "
        "projects (--all-projects) and all flavors (--all), end resizes, and capture the files "
        "again.",
    )


def _read_used_amounts(inventory: Rows) -> dict[str, int]:
    """Return the used amounts of an inventory by resource class; an unknown one is left out."""
    return {
        str(row["resource_class"]): read_count(row, "used")
        for row in inventory
        if row.get("used") is not None
    }


def _count_listed_amounts(reading: OpenstackReading, host: str) -> Counter[str]:
    """Return the amounts of the listed servers on a host by resource class."""
    amounts = Counter[str]()
    for server in reading.servers.values():
        if server["host"] == host:
            amounts.update({_CLASSES[name]: server[name] for name in _CLASSES})
            amounts.update(server.get("other_resources", {}))
    return amounts


def _build_hidden_server(host: str, amounts: Mapping[str, int]) -> dict[str, Any]:
    """Return the values of a server in the inventory with amounts by resource class."""
    others = {name: amounts[name] for name in amounts if name not in _CLASSES.values()}
    return {
        "name": f"allocations on {host}",
        "host": host,
        **{name: amounts.get(resource_class, 0) for name, resource_class in _CLASSES.items()},
        "flavor": "",
        "numa_cells": [],
        **({"other_resources": others} if others else {}),
    }
