"""Tables of `openstack ... -f json`: rows with column names such as `resource_class`.

Clients of several versions name columns differently, and print lists and properties as text.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from nexusform.diagnostics.names import escape_name
from nexusform.documents.scalars import escape_names
from nexusform.documents.yaml_documents import describe_kind
from nexusform.domains.openstack.importers.capture_script import (
    COMPUTE_NODES,
    HYPERVISOR,
    IMAGE,
    INVENTORY,
    TOPOLOGY,
    TRAITS,
)
from nexusform.domains.openstack.importers.openstack_fields import JSON_COLUMNS, list_unread_facts
from nexusform.domains.openstack.importers.openstack_reading import OpenstackReading, build_problem
from nexusform.domains.openstack.scheduling.nova_host_records import split_list
from nexusform.json_data.wrong_values import describe_wrong_value

Rows = list[dict[str, Any]]
# Rows of each file by its name without suffix.
Tables = Mapping[str, Rows]
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


# Columns without which a row means nothing, by file.
_REQUIRED_COLUMNS: Final = {
    "hypervisors": ("id", "hypervisor_hostname"),
    "compute_services": ("host", "status", "state"),
    "aggregates": ("name",),
    "flavors": ("name", "vcpus", "ram", "disk"),
    "servers": ("id", "name"),
    "server_groups": ("name",),
    "resource_providers": ("uuid", "name"),
    COMPUTE_NODES: ("hypervisor_hostname",),
    INVENTORY: (
        *("resource_class", "total", "reserved", "allocation_ratio"),
        *("min_unit", "max_unit", "step_size"),
    ),
    TRAITS: ("name",),
    IMAGE: ("id",),
}
# Files of `show`: one object each. Others are lists.
_FILES_OF_OBJECTS: Final = (HYPERVISOR, IMAGE, TOPOLOGY)


class DuplicateRowError(Exception):
    """Two rows of one object that differ: it is unknown which of them holds."""


def parse_table(name: str, text: bytes, reading: OpenstackReading) -> Rows:
    """Return the rows of a table with column names such as `resource_class`.

    Add its unread facts. Report an invalid table and return [].
    """
    problems = reading.problems
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as problem:
        problems.append(build_problem(f"{name}.json is not JSON: {problem}. Capture it again."))
        return []
    shape_problem = _find_shape_problem(name, document)
    if shape_problem:
        problems.append(build_problem(f"{name}.json is {shape_problem}. Capture it again."))
        return []
    is_list = isinstance(document, list)
    rows = document if is_list else [document]
    normalized_rows = [
        {
            column: value if column in JSON_COLUMNS else escape_names(value)
            for column, value in zip(map(_normalize_column, row), row.values(), strict=True)
        }
        for row in rows
    ]
    columns_of_rows = [{_normalize_column(column): column for column in row} for row in rows]
    located_rows = list(zip(normalized_rows, columns_of_rows, strict=True))
    reading.unread += list_unread_facts(name, text, located_rows, is_list=is_list)
    missing = _find_missing_column(name, normalized_rows)
    if missing:
        problems.append(build_problem(f"{name}.json{missing}. Print it with -f json."))
        return []
    if _get_kind(name) in _FILES_OF_OBJECTS:
        object_id = str(normalized_rows[0].get("id") or "")
        file_id = name.partition("-")[2]
        if object_id not in ("", file_id):
            detail = f'{name}.json is of another object, "{object_id}". Capture the files again.'
            problems.append(build_problem(detail))
            return []
    return normalized_rows


def _find_shape_problem(name: str, document: Any) -> str:
    """Return how a document is no list of objects, or no object for a file of `show`, or "".

    A file that is not read may be an object.
    """
    kind = _get_kind(name)
    if isinstance(document, dict) and kind not in _REQUIRED_COLUMNS:
        return ""
    if kind in _FILES_OF_OBJECTS:
        is_object = isinstance(document, dict)
        return "" if is_object else f"not an object: it is {describe_kind(document)}"
    if not isinstance(document, list):
        return f"not a list of objects: it is {describe_kind(document)}"
    for index, row in enumerate(document):
        if not isinstance(row, dict):
            return f"not a list of objects: [{index}] is {describe_kind(row)}"
    return ""


def _find_missing_column(name: str, rows: Rows) -> str:
    """Return the first row without a required column, with that column, or ""."""
    for index, row in enumerate(_select_nova_compute(rows)):
        for column in _REQUIRED_COLUMNS.get(_get_kind(name), ()):
            if row.get(column) is None:
                return f": [{index}] has no column {column}"
    return ""


def _get_kind(name: str) -> str:
    """Return the kind of a file: "inventory" for inventory-UUID."""
    prefix, separator, _ = name.partition("-")
    is_prefixed = bool(separator) and prefix in {INVENTORY, TRAITS, *_FILES_OF_OBJECTS}
    return prefix if is_prefixed else name


def _normalize_column(name: str) -> str:
    return escape_name(name).lower().replace(" ", "_").replace("-", "_")


def check_duplicate_rows(name: str, rows: Rows) -> None:
    """Raise DuplicateRowError if two rows of a table have one key and differ."""
    column = _KEYS.get(_get_kind(name), "")
    by_key: dict[str, dict[str, Any]] = {}
    for row in _select_nova_compute(rows):
        if column not in row:
            continue
        key = row[column]
        if by_key.setdefault(str(key), row) != row:
            raise DuplicateRowError(f'{name}.json has two rows of {column} "{key}" that differ')


def _select_nova_compute(rows: Rows) -> Rows:
    """Return the rows without those of other services, which run on the same hosts."""
    return [row for row in rows if row.get("binary", "nova-compute") == "nova-compute"]


def index_services(tables: Tables) -> dict[str, dict[str, Any]]:
    """Return the compute services by host."""
    return {str(row["host"]): row for row in _select_nova_compute(tables["compute_services"])}


def index_resource_providers(tables: Tables) -> dict[str, str]:
    """Return the UUIDs of the resource providers by name."""
    return {str(row["name"]): str(row["uuid"]) for row in tables["resource_providers"]}


def index_hosts(tables: Tables) -> dict[str, str]:
    """Return the host of each hypervisor with a compute service, by its hostname.

    A resource provider has the hostname of its hypervisor.
    """
    services = index_services(tables)
    services_by_label: dict[str, list[str]] = {}
    for service in services:
        services_by_label.setdefault(_get_first_label(service), []).append(service)
    hosts = {}
    for row in tables["hypervisors"]:
        hostname = str(row["hypervisor_hostname"])
        details = tables.get(f"{HYPERVISOR}-{row['id']}", [{}])[0]
        similar_services = services_by_label.get(_get_first_label(hostname), [])
        host = read_first_text(details, "service_host") or _find_service_host(
            hostname, similar_services
        )
        if host in services:
            hosts[hostname] = host
    return hosts


def _get_first_label(hostname: str) -> str:
    """Return `a` of `a.b`."""
    return hostname.partition(".")[0]


def _find_service_host(hostname: str, services: Sequence[str]) -> str:
    """Return the service with the name of a hypervisor, else "".

    `services` are those with its first label. One of both may lack the domain, if there is
    no other service.
    """
    if hostname in services:
        return hostname
    label = _get_first_label(hostname)
    return services[0] if len(services) == 1 and label in (hostname, services[0]) else ""


@contextmanager
def name_file(name: str, subject: str) -> Iterator[None]:
    """Add the file and the subject to an error about a value.

    Raises ValueError.
    """
    try:
        yield
    except (LookupError, AttributeError, TypeError, ValueError, OverflowError) as problem:
        raise ValueError(f"{name}.json, {subject}: {describe_wrong_value(problem)}") from None


def read_first_text(row: Mapping[str, Any], *columns: str) -> str:
    """Return the text of the first filled column (clients name columns differently), else ""."""
    return next((str(row[column]) for column in columns if row.get(column)), "")


def read_count(row: Mapping[str, Any], column: str) -> int:
    """Return the number of a column, 0 if it is empty or absent."""
    return int(row.get(column) or 0)


def read_properties(value: Any) -> dict[str, str]:
    """Return the properties in an object, or in a text such as `a='b', c='d'` (older clients)."""
    if isinstance(value, Mapping):
        return {str(key): str(item) for key, item in sorted(value.items())}
    properties = {}
    for part in split_names(value):
        key, _, item = part.partition("=")
        properties[key.strip()] = item.strip().strip("'\"")
    return properties


def split_names(value: Any) -> Sequence[str]:
    """Return the names in a list, or in a text with commas (older clients)."""
    if isinstance(value, list):
        return list(map(str, value))
    return split_list(str(value or ""))
