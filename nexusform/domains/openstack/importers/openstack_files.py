"""Files of `openstack ... -f json`: compute hosts, flavors, servers and server groups.

NUMA cells, PCI devices and supported instances are of the table compute_nodes of Nova, and of
topologies of servers.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.names import escape_name
from nexusform.diagnostics.phrases import enclose, format_first_items, format_list
from nexusform.documents.scalars import escape_names
from nexusform.documents.unread_facts import Influence, UnreadFact
from nexusform.documents.yaml_documents import describe_kind
from nexusform.domains.openstack.importers.capture_script import (
    COMMANDS,
    COMPUTE_NODES,
    IMAGE,
    INVENTORY,
    TOPOLOGY,
    TRAITS,
)
from nexusform.domains.openstack.importers.nova_objects import (
    parse_json_column,
    unwrap_versioned_object,
)
from nexusform.domains.openstack.importers.openstack_fields import (
    JSON_COLUMNS,
    MISSING_COLUMN,
    list_unread_facts,
)
from nexusform.domains.openstack.scheduling.flavor_requests import (
    find_unpredicted_property,
    parse_flavor,
    select_host_properties,
    select_image_requests,
)
from nexusform.domains.openstack.scheduling.nova_host_records import (
    DISK,
    MEMORY,
    PCPU,
    VCPU,
    Flavor,
    split_list,
)
from nexusform.json_data.plain_data import get_mapping

INVALID: Final = "invalid-openstack-file"
INCOMPLETE: Final = "incomplete-openstack-inventory"

Rows = list[dict[str, Any]]
# Column that identifies a row, by file. Server groups of several projects may have one name.
_KEYS: Final = {
    "hypervisors": "hypervisor_hostname",
    "compute_services": "host",
    "aggregates": "name",
    "flavors": "name",
    "servers": "id",
    "resource_providers": "name",
    COMPUTE_NODES: "hypervisor_hostname",
    INVENTORY: "resource_class",
}
# Nova's default maximum of rows in an answer (max_limit).
_PAGE_LIMIT: Final = 1000


class OpenstackFiles(Struct):
    """Contents of the files as plain data by name, the problems found, and the unread facts."""

    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    flavors: dict[str, dict[str, Any]] = field(default_factory=dict)
    servers: dict[str, dict[str, Any]] = field(default_factory=dict)
    images: dict[str, dict[str, str]] = field(default_factory=dict)
    server_groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    other_resource_classes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unread: list[UnreadFact] = field(default_factory=list)


def parse_openstack_files(contents: Mapping[str, bytes]) -> OpenstackFiles:
    """Parse the files of a directory by name without suffix.

    If one is missing or no table, return only problems.
    """
    reading = OpenstackFiles()
    tables = {name: _parse_table(name, text, reading) for name, text in contents.items()}
    required = ("hypervisors", "compute_services", "servers", "flavors", "resource_providers")
    missing = [name for name in required if name not in tables]
    if missing:
        commands = "; ".join(f"{name}.json: openstack {COMMANDS[name]} -f json" for name in missing)
        reading.problems.append(_build_problem(f"Files are missing. {commands}."))
    if reading.problems:
        return reading
    columns = dict.fromkeys(
        f"{fact.field} ({fact.file})" for fact in reading.unread if fact.reason == MISSING_COLUMN
    )
    if columns:
        detail = (
            "Columns are missing, and their values are unknown: "
            f"{format_first_items(list(columns), 4)}. Capture the files again with the script of "
            "`nexusform inventory script -for=openstack`."
        )
        reading.problems.append(_build_problem(detail, INCOMPLETE, Severity.WARNING))
    try:
        _fill_from_tables(reading, tables)
    except _DuplicateRowError as problem:
        reading.problems.append(_build_problem(f"{problem}. Capture the files again."))
    except (LookupError, AttributeError, TypeError, ValueError, OverflowError) as problem:
        reason = f"A column is missing or has an unexpected value: {problem}"
        # A value of a wrong kind, with its position.
        wrong = next(
            (fact for fact in reading.unread if fact.reason not in ("", MISSING_COLUMN)), None
        )
        if wrong is not None:
            reason = f"{wrong.position}: {wrong.cause}"
        reading.problems.append(_build_problem(f"{reason}. Capture the files again."))
    return reading


def _build_facts(
    subject: tuple[str, str],
    column: str,
    file: str,
    reason: str,
    influences: Iterable[Influence] = (Influence.PLACEMENT, Influence.CAPACITY),
) -> list[UnreadFact]:
    """Return the facts of an unread column of a file, one per influence."""
    return [
        UnreadFact(*subject, column, f"{file}.json", 0, influence, reason)
        for influence in influences
    ]


def _build_problem(
    detail: str, kind: str = INVALID, severity: Severity = Severity.ERROR
) -> Problem:
    return Problem(("directory",), kind, detail, severity)


def _parse_table(name: str, text: bytes, reading: OpenstackFiles) -> Rows:
    """Return the rows of a table with column names such as `resource_class`.

    Add its unread facts. Report an invalid table and return [].
    """
    problems = reading.problems
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as problem:
        problems.append(_build_problem(f"{name}.json is not JSON: {problem}. Capture it again."))
        return []
    # `show` prints one object.
    rows = document if isinstance(document, list) else [document]
    # Some elements are no objects.
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            detail = (
                f"{name}.json is not a list of objects: [{index}] is {describe_kind(row)}. Print "
                "it with -f json."
            )
            problems.append(_build_problem(detail))
            return []
    normalized_rows = [
        {
            column: value if column in JSON_COLUMNS else escape_names(value)
            for column, value in zip(map(_normalize_column, row), row.values(), strict=True)
        }
        for row in rows
    ]
    columns_of_rows = [{_normalize_column(column): column for column in row} for row in rows]
    located_rows = list(zip(normalized_rows, columns_of_rows, strict=True))
    reading.unread += list_unread_facts(name, text, located_rows)
    return normalized_rows


def _normalize_column(name: str) -> str:
    return escape_name(name).lower().replace(" ", "_").replace("-", "_")


class _DuplicateRowError(Exception):
    """Two rows of one object that differ: it is unknown which of them holds."""


def _check_duplicate_rows(name: str, rows: Rows) -> None:
    """Raise _DuplicateRowError if two rows of a table have one key and differ."""
    # inventory-UUID is a file of the inventory.
    column = _KEYS.get(INVENTORY if name.startswith(f"{INVENTORY}-") else name, "")
    by_key: dict[str, dict[str, Any]] = {}
    for row in _select_nova_compute(rows):
        if column not in row:
            continue
        key = row[column]
        if by_key.setdefault(str(key), row) != row:
            raise _DuplicateRowError(f'{name}.json has two rows of {column} "{key}" that differ')


def _select_nova_compute(rows: Rows) -> Rows:
    """Return the rows without those of other services, which run on the same hosts."""
    return [row for row in rows if row.get("binary", "nova-compute") == "nova-compute"]


def _index_services(tables: Mapping[str, Rows]) -> dict[str, dict[str, Any]]:
    """Return the compute services by host."""
    return {str(row["host"]): row for row in _select_nova_compute(tables["compute_services"])}


class _UnknownParts(NamedTuple):
    """Unread facts of one kind, and the names of their subjects for a message."""

    names: Sequence[str]
    facts: Sequence[UnreadFact]


def _find_cut_lists(_reading: OpenstackFiles, tables: Mapping[str, Rows]) -> _UnknownParts:
    """Return the lists that may end at the limit of a page."""
    cut = [name for name in COMMANDS if len(tables.get(name, [])) == _PAGE_LIMIT]
    reason = f"a list of exactly {_PAGE_LIMIT:,} rows may end at the limit of a page"
    facts = [_build_facts(("list", name), "next page", name, reason) for name in cut]
    return _UnknownParts([f"{name}.json" for name in cut], list(chain(*facts)))


def _find_unlisted_hosts(_reading: OpenstackFiles, tables: Mapping[str, Rows]) -> _UnknownParts:
    """Return the hosts that take or have servers, without a hypervisor."""
    services = _index_services(tables)
    names = {str(row["hypervisor_hostname"]) for row in tables["hypervisors"]}
    listed = names | {_find_service_host(name, services) for name in names}
    files_by_host = {
        host: "compute_services"
        for host, row in services.items()
        if (str(row["status"]).lower(), str(row["state"]).lower()) == ("enabled", "up")
    }
    for row in tables["servers"]:
        if _takes_capacity(row):
            files_by_host[_read_first_text(row, "host")] = "servers"
    unlisted = sorted(files_by_host.keys() - listed)
    reason = "hypervisors.json does not list it"
    facts = [
        _build_facts(("host", host), "hypervisor", files_by_host[host], reason) for host in unlisted
    ]
    return _UnknownParts(unlisted, list(chain(*facts)))


def _takes_capacity(row: Mapping[str, Any]) -> bool:
    """Return whether a server takes capacity of a host.

    A soft-deleted one does until Nova reclaims it.
    """
    return bool(_read_first_text(row, "host")) and _get_status(row) not in _ABSENT


def _get_status(row: Mapping[str, Any]) -> str:
    return str(row.get("status")).upper()


# States of servers without a host.
_ABSENT: Final = frozenset({"DELETED", "SHELVED_OFFLOADED"})
_HOSTLESS: Final = _ABSENT | {"ERROR", "SOFT_DELETED"}
# States of an operation that loads its host, or changes the host or the size of its server.
_CHANGING: Final = frozenset({"BUILD", "REBUILD", "RESIZE", "MIGRATING", "REVERT_RESIZE"})
# Tasks of other operations: the server keeps its host and its size.
_TASKS_IN_PLACE: Final = frozenset(
    {
        *("updating_password", "pausing", "unpausing", "suspending", "resuming"),
        *("powering-off", "powering-on", "unrescuing", "image_pending_upload", "image_uploading"),
        *("rebooting", "reboot_pending", "reboot_started"),
        *("rebooting_hard", "reboot_pending_hard", "reboot_started_hard"),
    }
)


def _find_operation(row: Mapping[str, Any]) -> str:
    """Return the task or the state of a server in an operation that may change hosts, or ""."""
    task = _read_first_text(row, "task_state")
    if task not in ("", "None", *_TASKS_IN_PLACE):
        return task
    return _get_status(row) if _get_status(row) in _CHANGING else ""


def _find_hostless_servers(_reading: OpenstackFiles, tables: Mapping[str, Rows]) -> _UnknownParts:
    """Return the servers without a known host.

    Only administrators see hosts, and a cell that is down does not report them.
    """
    names = [
        str(row["name"])
        for row in tables["servers"]
        if not _find_operation(row)
        and not _read_first_text(row, "host")
        and _get_status(row) not in _HOSTLESS
    ]
    reason = f"servers have none: {format_first_items(names, 4)}"
    facts = _build_facts(("list", "servers"), "host", "servers", reason) if names else []
    return _UnknownParts(names, facts)


def _find_changing_servers(_reading: OpenstackFiles, tables: Mapping[str, Rows]) -> _UnknownParts:
    """Return the servers in an operation.

    Nova counts operations as load, and Placement counts a server on both hosts while it moves.
    """
    names = [
        f"{row['name']} ({operation})"
        for row in tables["servers"]
        if (operation := _find_operation(row))
    ]
    reason = f"operations are in progress: {format_first_items(names, 4)}"
    facts = _build_facts(("list", "servers"), "task_state", "servers", reason) if names else []
    return _UnknownParts(names, facts)


def _find_unknown_services(_reading: OpenstackFiles, tables: Mapping[str, Rows]) -> _UnknownParts:
    """Return the compute services without a known state.

    Nova reports the status UNKNOWN for services of a cell that is down.
    """
    facts = []
    for host, row in _index_services(tables).items():
        for column, known in (("status", ("enabled", "disabled")), ("state", ("up", "down"))):
            value = str(row[column])
            if value.lower() not in known:
                subject = ("compute service", host)
                facts += _build_facts(subject, column, "compute_services", f'it is "{value}"')
    return _UnknownParts(list(dict.fromkeys(fact.name for fact in facts)), facts)


# Statistics of a host in Nova's table compute_nodes that weigh it, with their meaning.
_STATISTICS: Final = {
    "failed_builds": "builds of servers failed on it",
    "io_workload": "operations on its servers were in progress",
}


def _find_weighed_hosts(_reading: OpenstackFiles, tables: Mapping[str, Rows]) -> _UnknownParts:
    """Return the hosts with failed builds or operations: Nova weighs them less.

    Their number changes with each build.
    """
    facts = []
    for row in tables.get(COMPUTE_NODES, []):
        statistics = get_mapping(parse_json_column(row.get("stats")))
        for name, meaning in _STATISTICS.items():
            count = _read_count(statistics, name)
            if count:
                subject = ("hypervisor", str(row["hypervisor_hostname"]))
                reason = f"{count:,} {meaning}"
                facts += _build_facts(
                    subject, f"stats.{name}", COMPUTE_NODES, reason, (Influence.PLACEMENT,)
                )
    return _UnknownParts(list(dict.fromkeys(fact.name for fact in facts)), facts)


def _fill_from_tables(reading: OpenstackFiles, tables: Mapping[str, Rows]) -> None:
    """Fill `reading` from tables; report hosts left out.

    Raises LookupError, AttributeError, TypeError, ValueError.
    """
    for name, rows in tables.items():
        _check_duplicate_rows(name, rows)
    reading.flavors = {str(row["name"]): _build_flavor(row) for row in tables["flavors"]}
    reading.images = _index_images(tables)
    groups = tables.get("server_groups", [])
    names_and_ids = {(str(row["name"]), str(row.get("id"))) for row in groups}
    numbers_by_name = Counter(name for name, _ in names_and_ids)
    for row in groups:
        # clients name it differently.
        policies = _split_names(row.get("policy") or row.get("policies"))
        members = sorted(_split_names(row.get("members")))
        name = str(row["name"])
        # Groups of several projects may have one name.
        key = f"{name} ({row.get('id')})" if numbers_by_name[name] > 1 else name
        reading.server_groups[key] = {"policy": next(iter(policies), ""), "members": members}
    providers = {str(row["name"]): str(row["uuid"]) for row in tables["resource_providers"]}
    # A host may differ from its hostname.
    services = _index_services(tables)
    nodes = {str(row["hypervisor_hostname"]): row for row in tables.get(COMPUTE_NODES, [])}
    for row in tables["hypervisors"]:
        hostname = str(row["hypervisor_hostname"])
        host = _find_service_host(hostname, services)
        uuid = providers.get(hostname)
        offered = {row["resource_class"] for row in tables.get(f"{INVENTORY}-{uuid}", [])}
        if uuid is not None and offered.isdisjoint((VCPU, PCPU)):
            detail = (
                f'Placement has no VCPU inventory of the hypervisor "{hostname}" '
                f"({INVENTORY}-{uuid}.json): it is left out."
            )
            reading.problems.append(_build_problem(detail, INCOMPLETE, Severity.WARNING))
            continue
        if host is None or uuid is None:
            missing = "nova-compute service" if host is None else "resource provider"
            detail = f'The hypervisor "{hostname}" has no {missing}: its host is left out.'
            reading.problems.append(_build_problem(detail, INCOMPLETE, Severity.WARNING))
            reason = f"it has no {missing}"
            reading.unread += _build_facts(("hypervisor", hostname), "host", "hypervisors", reason)
            continue
        if host in reading.hosts:
            raise _DuplicateRowError(f'hypervisors.json has two of the host "{host}"')
        # Of `hypervisor show`.
        details = tables.get(f"hypervisor-{row['id']}", [{}])[0]
        reading.hosts[host] = {
            **_build_host(uuid, services[host], host, tables),
            "hypervisor_version": _read_count(details, "hypervisor_version"),
            "hypervisor_type": _read_first_text(row, "hypervisor_type"),
            **_read_host_details(hostname, nodes),
        }
    if not reading.hosts:
        reading.problems.append(
            _build_problem("No compute host has a service and an inventory in Placement.")
        )
    for search, message in _SEARCHES:
        _add_unknown_parts(reading, search(reading, tables), message)
    reading.other_resource_classes = _list_other_classes(reading, tables, providers)
    reading.servers = dict(_iterate_servers(tables, reading))
    _add_usage_without_server(reading, tables, providers, services)


def _find_missing_files(reading: OpenstackFiles, tables: Mapping[str, Rows]) -> _UnknownParts:
    """Return the files that the export lacks. An empty list is none.

    A missing image, topology or row of compute_nodes is reported where a VM needs it.
    """
    filtering = (Influence.PLACEMENT, Influence.CAPACITY)
    services = _index_services(tables)
    # Kind, name and field of the subject, its file, and the influence of the file.
    files = [
        ("site", "", "aggregates", "aggregates", filtering),
        ("site", "", "server groups", "server_groups", (Influence.PLACEMENT,)),
    ]
    for row in tables["hypervisors"]:
        if _find_service_host(str(row["hypervisor_hostname"]), services) in reading.hosts:
            kind, name = "hypervisor", str(row["hypervisor_hostname"])
            file = f"hypervisor-{row['id']}"
            # It weighs hosts.
            files.append((kind, name, "hypervisor_version", file, (Influence.PLACEMENT,)))
    for row in tables["resource_providers"]:
        kind, name, uuid = "resource provider", str(row["name"]), str(row["uuid"])
        files.append((kind, name, "inventory", f"{INVENTORY}-{uuid}", filtering))
        if _find_service_host(name, services) in reading.hosts:
            files.append((kind, name, "traits", f"{TRAITS}-{uuid}", filtering))
    missing = [item for item in files if item[3] not in tables]
    facts = [
        _build_facts((kind, name), attribute, file, "the file is missing", influences)
        for kind, name, attribute, file, influences in missing
    ]
    return _UnknownParts([f"{item[3]}.json" for item in missing], list(chain(*facts)))


def _find_unknown_usage(reading: OpenstackFiles, tables: Mapping[str, Rows]) -> _UnknownParts:
    """Return the inventories of hosts that have no used amounts.

    Placement counts more than the listed servers: resizes, migrations, and servers left out.
    """
    services = _index_services(tables)
    files = []
    facts = []
    for provider in tables["resource_providers"]:
        name = str(provider["name"])
        file = f"{INVENTORY}-{provider['uuid']}"
        is_known = all(row.get("used") is not None for row in tables.get(file, []))
        if is_known or _find_service_host(name, services) not in reading.hosts:
            continue
        files.append(f"{file}.json")
        facts += _build_facts(("resource provider", name), "used", file, MISSING_COLUMN)
    return _UnknownParts(files, facts)


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
        _find_cut_lists,
        (
            f"Lists have exactly {_PAGE_LIMIT:,} rows, and may end at the limit of a page: "
            "{names}. Capture them again with a client that reads all pages, or with --limit -1."
        ),
    ),
    (
        _find_unlisted_hosts,
        (
            "Hosts are not in hypervisors.json, and their capacity and servers are left out: "
            "{names}. Capture the files again."
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
        _find_weighed_hosts,
        (
            "Hosts have failed builds or operations in progress, and Nova weighs them less: "
            "{names}. Capture the files again after a successful build on each."
        ),
    ),
)


def _add_unknown_parts(reading: OpenstackFiles, parts: _UnknownParts, message: str) -> None:
    """Add unread facts, and one warning about all of them."""
    reading.unread += parts.facts
    if parts.names:
        detail = message.format(names=format_first_items(parts.names, 4))
        reading.problems.append(_build_problem(detail, INCOMPLETE, Severity.WARNING))


def _list_other_classes(
    reading: OpenstackFiles, tables: Mapping[str, Rows], providers: Mapping[str, str]
) -> list[str]:
    """List the resource classes of resource providers that are no hypervisors.

    They are nested or shared. Add an unread fact for one with the resources of every server.
    """
    hypervisors = {str(row["hypervisor_hostname"]) for row in tables["hypervisors"]}
    classes: set[str] = set()
    for name in sorted(providers.keys() - hypervisors):
        file = f"{INVENTORY}-{providers[name]}"
        offered = {str(row["resource_class"]) for row in tables.get(file, [])}
        classes |= offered
        shared = sorted(offered & {VCPU, PCPU, MEMORY, DISK})
        if shared:
            reason = "no hypervisor has its name: hosts may share it"
            reading.unread += _build_facts(("resource provider", name), shared[0], file, reason)
    return sorted(classes)


_UNKNOWN: Final[Mapping[str, Any]] = {
    "has_details": False,
    "numa_cells": [],
    "device_pools": [],
    "supported_instances": [],
}


def _read_host_details(hostname: str, nodes: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the details of a host, unknown ones if its row is missing.

    Raises ValueError.
    """
    if hostname not in nodes:
        return _UNKNOWN
    try:
        return parse_host_details(nodes[hostname])
    except (KeyError, TypeError, ValueError) as problem:
        raise ValueError(f"{COMPUTE_NODES}.json, {hostname}: {problem}") from None


def _find_service_host(hostname: str, services: Mapping[str, Any]) -> str | None:
    """Return the host named like a hypervisor, or None.

    Otherwise it is the only one with its first label (`a` of `a.b`).
    """
    if hostname in services:
        return hostname
    labels = [host for host in services if host.split(".")[0] == hostname.split(".", maxsplit=1)[0]]
    return labels[0] if len(labels) == 1 else None


def _build_host(
    uuid: str, service: Mapping[str, Any], host: str, tables: Mapping[str, Rows]
) -> dict[str, Any]:
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
        "resources": {
            str(row["resource_class"]): {
                name: _read_non_negative_figure(row, name)
                for name in (
                    "total",
                    "reserved",
                    "allocation_ratio",
                    "min_unit",
                    "max_unit",
                    "step_size",
                )
            }
            for row in tables.get(f"{INVENTORY}-{uuid}", [])
        },
        "traits": sorted(str(row["name"]) for row in tables.get(f"{TRAITS}-{uuid}", [])),
        "aggregates": {
            str(row["name"]): _read_properties(row.get("properties") or row.get("metadata"))
            for row in tables.get("aggregates", [])
            if host in _split_names(row.get("hosts"))
        },
    }


def _read_non_negative_figure(row: Mapping[str, Any], name: str) -> float:
    """Return a finite figure of 0 or more; only an allocation ratio keeps its fraction.

    Raises ValueError.
    """
    figure = float(row[name])
    if not math.isfinite(figure) or figure < 0:
        raise ValueError(f"{name} is {row[name]}")
    return figure if name == "allocation_ratio" else int(figure)


def _read_count(row: Mapping[str, Any], column: str) -> int:
    """Return the number of a column, 0 if it is empty or absent."""
    return int(row.get(column) or 0)


def _read_first_text(row: Mapping[str, Any], *columns: str) -> str:
    """Return the text of the first filled column (clients name columns differently), else ""."""
    return next((str(row[column]) for column in columns if row.get(column)), "")


def _build_flavor(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a flavor in the inventory.

    Its disk includes the ephemeral one and the swap.
    """
    swap = _read_count(row, "swap")
    return {
        "vcpus": int(row["vcpus"]),
        "memory_mib": int(row["ram"]),
        # MiB of swap, rounded up.
        "disk_gib": int(row["disk"]) + _read_count(row, "ephemeral") + -(-swap // 1024),
        "root_disk_gib": int(row["disk"]),
        "properties": _read_properties(row.get("properties") or row.get("extra_specs")),
    }


def _index_images(tables: Mapping[str, Rows]) -> dict[str, dict[str, str]]:
    """Return the properties of each image by its id, and by its name.

    Images of several projects may have one name. If they differ in what decides a host, the name
    is left out: it is unknown which of them a VM has.
    """
    by_id: dict[str, dict[str, str]] = {}
    ids_by_name: dict[str, list[str]] = {}
    for name, rows in sorted(tables.items()):
        if name.startswith(f"{IMAGE}-") and rows:
            image_id = str(rows[0]["id"])
            properties = _read_properties(rows[0].get("properties"))
            if by_id.setdefault(image_id, properties) != properties:
                detail = f'Two files {IMAGE}-ID.json of the image "{image_id}" differ'
                raise _DuplicateRowError(detail)
            ids_by_name.setdefault(str(rows[0]["name"]), []).append(image_id)
    images = dict(by_id)
    for name, ids in ids_by_name.items():
        first, *others = (_select_requirements(by_id[image_id]) for image_id in ids)
        if all(other == first for other in others):
            images.setdefault(name, by_id[ids[0]])
    return images


def _select_requirements(properties: Mapping[str, str]) -> tuple[Any, ...]:
    """Return all that decides the hosts of an image."""
    return (
        select_image_requests(properties),
        select_host_properties(properties),
        find_unpredicted_property(properties),
    )


def _iterate_servers(
    tables: Mapping[str, Rows], reading: OpenstackFiles
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the id and values of each server with capacity on a host.

    Report unknown flavors and NUMA cells.
    """
    flavors = {name: Flavor(name=name, **values) for name, values in reading.flavors.items()}
    unknown_cells = []
    for row in tables["servers"]:
        host = _read_first_text(row, "host")
        if not _takes_capacity(row):
            continue
        flavor = _read_first_text(row, "flavor_name", "flavor")
        key = str(row["id"])
        if flavor not in reading.flavors:
            detail = (
                f'The flavor "{flavor}" of the server "{row["name"]}" is not in flavors.json. It '
                "counts as 0."
            )
            reading.problems.append(_build_problem(detail, INCOMPLETE, Severity.WARNING))
        # unknown: 0
        form = flavors.get(flavor, Flavor("", 0, 0, 0))
        if _is_volume(row):
            form = form.volume_form
        image = _read_first_text(row, "image_id", "image")
        properties = reading.images.get(image, {})
        request = parse_flavor(form, aliases={}, image=properties)
        unallocated = request.unallocated._asdict()
        amounts = {name: getattr(form, name) - amount for name, amount in unallocated.items()}
        # Without dedicated CPUs in Placement, all CPUs of a server are VCPU.
        has_dedicated = PCPU in reading.hosts.get(host, {}).get("resources", {})
        dedicated, emulator = (
            (request.dedicated_vcpus, request.emulator_vcpus) if has_dedicated else (0, 0)
        )
        topology = tables.get(f"{TOPOLOGY}-{key}")
        if request.numa.cells and not topology:
            unknown_cells.append(str(row["name"]))
        yield (
            key,
            {
                "name": str(row["name"]),
                "host": host,
                **amounts,
                # Without dedicated vCPUs. `dedicated` also has CPUs of emulator threads, beyond the
                # flavor's vCPUs.
                "vcpus": amounts["vcpus"] - (dedicated - emulator),
                "dedicated_vcpus": dedicated,
                "flavor": flavor,
                "numa_cells": parse_server_topology(topology[0]) if topology else [],
                **({"emulator_vcpus": emulator} if emulator else {}),
                **({"unallocated": unallocated} if any(request.unallocated) else {}),
                **(
                    {"other_resources": dict(request.other_resources)}
                    if request.other_resources
                    else {}
                ),
                # If it requests anything.
                **({"image": image} if select_image_requests(properties) else {}),
            },
        )
    if unknown_cells:
        detail = (
            f"The NUMA cells of {format_list(unknown_cells)} are unknown (topology-ID.json). They "
            "stay occupied after "
            "a server that nexusform manages is removed."
        )
        reading.problems.append(_build_problem(detail, INCOMPLETE, Severity.WARNING))


def _is_volume(row: Mapping[str, Any]) -> bool:
    """Return whether a server boots from a volume: its host has no root disk of it.

    The command line prints no image, or a note in its place.
    """
    columns = [row[name] for name in ("image_id", "image", "image_name") if name in row]
    texts = [str(value or "") for value in columns]
    return bool(texts) and all(text == "" or text.startswith("N/A (booted") for text in texts)


def _add_usage_without_server(
    reading: OpenstackFiles,
    tables: Mapping[str, Rows],
    providers: Mapping[str, str],
    services: Mapping[str, Any],
) -> None:
    """Add one server per host for the amounts used beyond its listed servers.

    The amounts are those used in Placement. Such usage is of servers absent in the files.
    `providers` are the uuids of resource providers by host name; the table of a provider's
    inventory has the used amounts. Listed servers that use more have other requests than read.
    """
    excesses = []
    excess_facts: list[UnreadFact] = []
    hosts = []
    facts = []
    classes = {"vcpus": VCPU, "dedicated_vcpus": PCPU, "memory_mib": MEMORY, "disk_gib": DISK}
    for hostname, uuid in providers.items():
        host = _find_service_host(hostname, services)
        if host not in reading.hosts:
            # No compute service, or left out.
            continue
        used = {
            str(row["resource_class"]): _read_count(row, "used")
            for row in tables.get(f"{INVENTORY}-{uuid}", [])
            if row.get("used") is not None
        }
        listed = [server for server in reading.servers.values() if server["host"] == host]
        listed_amounts = Counter[str]()
        for server in listed:
            listed_amounts.update({classes[name]: server[name] for name in classes})
            listed_amounts.update(server.get("other_resources", {}))
        hidden = {
            name: max(used.get(resource_class, 0) - listed_amounts[resource_class], 0)
            for name, resource_class in classes.items()
        }
        excess = next((name for name in used if listed_amounts[name] > used[name]), "")
        if excess:
            excesses.append(host)
            listed_amount = f"{listed_amounts[excess]:,} {excess}"
            reason = f"listed servers have {listed_amount}, Placement {used[excess]:,}"
            subject = ("resource provider", hostname)
            excess_facts += _build_facts(subject, "used", f"{INVENTORY}-{uuid}", reason)
        other_resources = {
            name: amount - listed_amounts[name]
            for name, amount in used.items()
            if name not in classes.values() and amount > listed_amounts[name]
        }
        if any(hidden.values()) or other_resources:
            hosts.append(host)
            # Their number and their operations weigh the host. A leaked allocation does not.
            facts += _build_facts(
                ("host", host),
                "servers",
                "servers",
                "Placement counts more than the listed servers use",
                (Influence.PLACEMENT,),
            )
            name = f"allocations on {host}"
            reading.servers[name] = {
                "name": name,
                "host": host,
                **hidden,
                "flavor": "",
                "numa_cells": [],
                **({"other_resources": other_resources} if other_resources else {}),
            }
    _add_unknown_parts(
        reading,
        _UnknownParts(excesses, excess_facts),
        "Servers on these hosts use less in Placement than their flavors and images say: {names}. "
        "The image of a boot volume is not read, a flavor may have changed, or servers moved "
        "during the capture. If they moved, capture the files again.",
    )
    _add_unknown_parts(
        reading,
        _UnknownParts(hosts, facts),
        "Placement counts more on these hosts than the servers in servers.json use: {names}. The "
        "capacity is taken, but the servers that weigh them are unknown. List the servers of all "
        "projects (--all-projects) and all flavors (--all), end resizes, and capture the files "
        "again.",
    )


def _split_names(value: Any) -> Sequence[str]:
    """Return the names in a list, or in a text with commas (older clients)."""
    if isinstance(value, list):
        return list(map(str, value))
    return split_list(str(value or ""))


def _read_properties(value: Any) -> dict[str, str]:
    """Return the properties in an object, or in a text such as `a='b', c='d'` (older clients)."""
    if isinstance(value, Mapping):
        return {str(key): str(item) for key, item in sorted(value.items())}
    properties = {}
    for part in _split_names(value):
        key, _, item = part.partition("=")
        properties[key.strip()] = item.strip().strip("'\"")
    return properties


def parse_host_details(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details of a host from its row (objects of Nova in JSON).

    Raises KeyError, TypeError, ValueError.
    """
    topology = unwrap_versioned_object(parse_json_column(row["numa_topology"]))
    stored_pools = unwrap_versioned_object(parse_json_column(row["pci_stats"])) or []
    # Of a PciDevicePoolList, or a plain list.
    pools = get_mapping(stored_pools).get("objects", stored_pools)
    return {
        "has_details": True,
        "numa_cells": [_parse_cell(unwrap_versioned_object(cell)) for cell in topology["cells"]]
        if topology
        else [],
        # Nova uses pools with few properties first.
        "device_pools": sorted(
            map(_parse_device_pool, pools), key=lambda pool: len(pool["properties"])
        ),
        # architecture, hypervisor type and VM mode.
        "supported_instances": [
            [str(part).lower() for part in instance]
            for instance in parse_json_column(row["supported_instances"]) or ()
        ],
    }


def parse_server_topology(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the use of each NUMA cell of its host by a server.

    Raises KeyError, TypeError, ValueError.
    """
    topology = parse_json_column(row.get("topology")) or {}
    page_size = topology.get("pagesize_kb")
    return [
        {
            "id": int(node["host_node"]),
            "vcpus": len(node["vcpu_set"]),
            "memory_mib": int(node["memory_mb"]),
            "page_size": None if page_size is None else int(page_size),
            "pins": format_cpus(map(int, get_mapping(node, "cpu_pinning").values())),
        }
        for node in topology.get("nodes") or ()
        if node.get("host_node") is not None
    ]


def format_cpus(numbers: Iterable[int]) -> str:
    """Return CPUs as text, such as "0-3,8"."""
    ordered = sorted(set(numbers))
    ranges: list[str] = []
    # index of the first number of the current range.
    start = 0
    for end in range(1, len(ordered) + 1):
        # A gap ends the range.
        if end == len(ordered) or ordered[end] != ordered[end - 1] + 1:
            first = ordered[start]
            last = ordered[end - 1]
            ranges.append(f"{first}" if first == last else f"{first}-{last}")
            start = end
    return ",".join(ranges)


def _parse_cell(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a cell of Nova's NUMA topology to the form of the inventory."""
    shared = cell["cpuset"]
    pages = []
    for item in cell.get("mempages") or ():
        row = unwrap_versioned_object(item)
        counts = {name: _read_count(row, name) for name in ("total", "used", "reserved")}
        pages.append({"size_kib": int(row["size_kb"]), **counts})
    return {
        "id": int(cell["id"]),
        "shared": format_cpus(shared),
        # Nova before 20.0 has one set for both.
        "dedicated": format_cpus(cell.get("pcpuset", shared)),
        "pinned": format_cpus(cell.get("pinned_cpus") or ()),
        "siblings": list(map(format_cpus, cell.get("siblings") or ())),
        "memory_mib": int(cell["memory"]),
        "used_memory_mib": _read_count(cell, "memory_usage"),
        "used_vcpus": _read_count(cell, "cpu_usage"),
        "pages": pages,
        "socket": cell.get("socket"),
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
