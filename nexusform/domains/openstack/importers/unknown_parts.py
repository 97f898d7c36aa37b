"""Parts of an OpenStack that its files leave unknown: missing files, cut lists, operations."""

from itertools import chain
from typing import Final

from nexusform.diagnostics.phrases import format_first_items
from nexusform.domains.openstack.importers.capture_script import (
    COMMANDS,
    COMPUTE_NODES,
    INVENTORY,
    TRAITS,
)
from nexusform.domains.openstack.importers.nova_objects import parse_statistics
from nexusform.domains.openstack.importers.nova_servers import HOSTLESS, find_operation, get_status
from nexusform.domains.openstack.importers.openstack_fields import MISSING_COLUMN
from nexusform.domains.openstack.importers.openstack_reading import (
    NamedDoubts,
    OpenstackReading,
    add_unknown_parts,
    build_facts,
)
from nexusform.domains.openstack.importers.openstack_tables import (
    Tables,
    index_hosts,
    index_services,
    name_file,
    read_count,
    read_first_text,
    read_properties,
    split_names,
)
from nexusform.domains.openstack.scheduling.flavor_requests import TRAIT
from nexusform.domains.openstack.scheduling.nova_host_records import DISK, MEMORY
from nexusform.doubts.doubt import Influence

# Nova's default maximum of rows in an answer (max_limit).
_PAGE_LIMIT: Final = 1000
# Nova's default of max_placement_results.
_CANDIDATE_LIMIT: Final = 1000


def _find_missing_files(reading: OpenstackReading, tables: Tables) -> NamedDoubts:
    """Return the files that the export lacks. An empty list is none.

    A missing image, topology or row of compute_nodes is reported where a VM needs it.
    """
    filtering = (Influence.PLACEMENT, Influence.CAPACITY)
    hosts = index_hosts(tables)
    # Kind, name and field of the subject, its file, and the influence of the file.
    files = [
        ("site", "", "aggregates", "aggregates", filtering),
        ("site", "", "server groups", "server_groups", (Influence.PLACEMENT,)),
    ]
    for row in tables["hypervisors"]:
        kind, name = "hypervisor", str(row["hypervisor_hostname"])
        if hosts.get(name) in reading.hosts:
            file = f"hypervisor-{row['id']}"
            # It weighs hosts.
            files.append((kind, name, "hypervisor_version", file, (Influence.PLACEMENT,)))
    for row in tables["resource_providers"]:
        kind, name, uuid = "resource provider", str(row["name"]), str(row["uuid"])
        files.append((kind, name, "inventory", f"{INVENTORY}-{uuid}", filtering))
        if hosts.get(name) in reading.hosts:
            files.append((kind, name, "traits", f"{TRAITS}-{uuid}", filtering))
    missing = [item for item in files if item[3] not in tables]
    facts = [
        build_facts((kind, name), attribute, file, "the file is missing", influences)
        for kind, name, attribute, file, influences in missing
    ]
    return ([f"{item[3]}.json" for item in missing], list(chain(*facts)))


def _find_unknown_usage(reading: OpenstackReading, tables: Tables) -> NamedDoubts:
    """Return the inventories of hosts that have no used amounts.

    Placement counts more than the listed servers: resizes, migrations, and servers left out.
    """
    hosts = index_hosts(tables)
    files = []
    facts = []
    for provider in tables["resource_providers"]:
        name = str(provider["name"])
        file = f"{INVENTORY}-{provider['uuid']}"
        is_known = all(row.get("used") is not None for row in tables.get(file, []))
        if is_known or hosts.get(name) not in reading.hosts:
            continue
        files.append(f"{file}.json")
        facts += build_facts(("resource provider", name), "used", file, MISSING_COLUMN)
    return (files, facts)


def _find_missing_resources(reading: OpenstackReading, tables: Tables) -> NamedDoubts:
    """Return the inventories of hosts without memory or disk, of which every hypervisor has some.

    Such a host would take no server.
    """
    hosts = index_hosts(tables)
    names = []
    facts = []
    for provider in tables["resource_providers"]:
        name = str(provider["name"])
        file = f"{INVENTORY}-{provider['uuid']}"
        if file not in tables or hosts.get(name) not in reading.hosts:
            continue
        offered = {str(row["resource_class"]) for row in tables[file]}
        for resource_class in (MEMORY, DISK):
            if resource_class not in offered:
                names.append(f"{resource_class} ({file}.json)")
                subject = ("resource provider", name)
                facts += build_facts(subject, resource_class, file, "its inventory lacks it")
    return (names, facts)


def _find_cut_lists(_reading: OpenstackReading, tables: Tables) -> NamedDoubts:
    """Return the lists that may end at the limit of a page."""
    cut = [name for name in COMMANDS if len(tables.get(name, [])) == _PAGE_LIMIT]
    reason = f"a list of exactly {_PAGE_LIMIT:,} rows may end at the limit of a page"
    facts = [build_facts(("list", name), "next page", name, reason) for name in cut]
    return ([f"{name}.json" for name in cut], list(chain(*facts)))


def _find_unlisted_hosts(_reading: OpenstackReading, tables: Tables) -> NamedDoubts:
    """Return the hosts that take servers, without a hypervisor."""
    hosts = index_hosts(tables)
    names = {str(row["hypervisor_hostname"]) for row in tables["hypervisors"]}
    listed = names.union(hosts.values())
    enabled = {
        host
        for host, row in index_services(tables).items()
        if (str(row["status"]).lower(), str(row["state"]).lower()) == ("enabled", "up")
    }
    unlisted = sorted(enabled - listed)
    reason = "hypervisors.json does not list it"
    facts = [
        build_facts(("host", host), "hypervisor", "compute_services", reason) for host in unlisted
    ]
    return (unlisted, list(chain(*facts)))


def _find_unknown_services(_reading: OpenstackReading, tables: Tables) -> NamedDoubts:
    """Return the compute services without a known state.

    Nova reports the status UNKNOWN for services of a cell that is down.
    """
    facts = []
    for host, row in index_services(tables).items():
        for column, known in (("status", ("enabled", "disabled")), ("state", ("up", "down"))):
            value = str(row[column])
            if value.lower() not in known:
                subject = ("compute service", host)
                facts += build_facts(subject, column, "compute_services", f'it is "{value}"')
    return (list(dict.fromkeys(fact.name for fact in facts)), facts)


def _find_hostless_servers(_reading: OpenstackReading, tables: Tables) -> NamedDoubts:
    """Return the servers without a known host.

    Only administrators see hosts, and a cell that is down does not report them.
    """
    names = [
        str(row["name"])
        for row in tables["servers"]
        if not find_operation(row)
        and not read_first_text(row, "host")
        and get_status(row) not in HOSTLESS
    ]
    reason = f"servers have none: {format_first_items(names, 4)}"
    facts = build_facts(("list", "servers"), "host", "servers", reason) if names else []
    return (names, facts)


def _find_changing_servers(_reading: OpenstackReading, tables: Tables) -> NamedDoubts:
    """Return the servers in an operation.

    Nova counts operations as load, and Placement counts a server on both hosts while it moves.
    """
    names = [
        f"{row['name']} ({operation})"
        for row in tables["servers"]
        if (operation := find_operation(row))
    ]
    reason = f"operations are in progress: {format_first_items(names, 4)}"
    facts = build_facts(("list", "servers"), "task_state", "servers", reason) if names else []
    return (names, facts)


def _find_busy_hosts(_reading: OpenstackReading, tables: Tables) -> NamedDoubts:
    """Return the hosts with operations in progress in compute_nodes: Nova weighs them less."""
    facts = []
    for row in tables.get(COMPUTE_NODES, []):
        hostname = str(row["hypervisor_hostname"])
        with name_file(COMPUTE_NODES, hostname):
            count = read_count(parse_statistics(row), "io_workload")
        if count:
            reason = f"{count:,} operations on its servers were in progress"
            facts += build_facts(
                ("hypervisor", hostname),
                "stats.io_workload",
                COMPUTE_NODES,
                reason,
                (Influence.PLACEMENT,),
            )
    return ([fact.name for fact in facts], facts)


# Metadata of an aggregate that Nova reads with settings of nova.conf, which no file has, by prefix.
_RESTRICTIONS: Final = {
    TRAIT: "enable_isolated_aggregate_filtering",
    "filter_tenant_id": "limit_tenants_to_placement_aggregate",
}


def _find_restricted_aggregates(_reading: OpenstackReading, tables: Tables) -> NamedDoubts:
    """Return the aggregates whose hosts may take only some servers.

    Their metadata name traits or projects.
    """
    facts = []
    for row in tables.get("aggregates", []):
        name = str(row["name"])
        properties = read_properties(row.get("properties") or row.get("metadata"))
        for key, value in properties.items():
            if key.startswith(TRAIT) and value != "required":
                continue
            setting = next(
                (_RESTRICTIONS[text] for text in _RESTRICTIONS if key.startswith(text)), ""
            )
            if setting and split_names(row.get("hosts")):
                reason = f"{setting} of nova.conf decides whether its hosts take other servers"
                facts += build_facts(("aggregate", name), key, "aggregates", reason)
    return (list(dict.fromkeys(fact.name for fact in facts)), facts)


def _find_hosts_beyond_limit(_reading: OpenstackReading, tables: Tables) -> NamedDoubts:
    """Return the list of hosts if Nova reads only some of them from Placement."""
    count = len(tables["hypervisors"])
    if count <= _CANDIDATE_LIMIT:
        return ([], [])
    reason = f"max_placement_results of nova.conf may limit them to {_CANDIDATE_LIMIT:,}"
    facts = build_facts(("list", "hypervisors"), "allocation candidates", "hypervisors", reason)
    return ([f"{count:,} hosts"], facts)


# Each search for unknown parts, with its message for their names.
_SEARCHES: Final = (
    (
        _find_missing_files,
        "Files are missing, and their content is unknown: {names}. Capture them again.",
    ),
    (
        _find_unknown_usage,
        (
            "Files have no column used, and the use of their hosts is unknown: {names}. Upgrade "
            "osc-placement, and capture the files again."
        ),
    ),
    (
        _find_missing_resources,
        (
            "Inventories of hosts lack a resource of every hypervisor: {names}. Capture the files "
            "again."
        ),
    ),
    (
        _find_cut_lists,
        (
            f"Lists have exactly {_PAGE_LIMIT:,} rows, and may end at the limit of a page: "
            "{names}. Capture them again with a client that reads all pages, or with --limit -1."
        ),
    ),
    (
        _find_unlisted_hosts,
        (
            "Hosts are not in hypervisors.json, and their capacity is left out: {names}. Capture "
            "the files again."
        ),
    ),
    (
        _find_unknown_services,
        (
            "The state of compute services is unknown: {names}. Capture the files again while all "
            "cells of Nova are up."
        ),
    ),
    (
        _find_hostless_servers,
        (
            "Servers have no host in servers.json: {names}. List the servers as an administrator, "
            "while all cells of Nova are up."
        ),
    ),
    (
        _find_changing_servers,
        (
            "Operations on servers are in progress: {names}. Hosts and capacity change with them. "
            "Capture the files again after their end."
        ),
    ),
    (
        _find_restricted_aggregates,
        (
            "Metadata of aggregates name traits or projects, and Nova may reserve their hosts for "
            "these: {names}. Settings of nova.conf decide this, and are not read."
        ),
    ),
    (
        _find_hosts_beyond_limit,
        (
            "Nova reads up to max_placement_results hosts from Placement for each server, "
            f"{_CANDIDATE_LIMIT:,} by default, and may ignore others: {{names}}."
        ),
    ),
    (
        _find_busy_hosts,
        (
            "Operations on servers of hosts were in progress, and Nova weighs these hosts less: "
            "{names}. Capture the files again after their end."
        ),
    ),
)


def add_all_unknown_parts(reading: OpenstackReading, tables: Tables) -> None:
    """Add the unread facts of each search, and a warning where one has any."""
    for search, message in _SEARCHES:
        add_unknown_parts(reading, search(reading, tables), message)
