"""Tables of `openstack ... -f json`: rows with column names such as `resource_class`.

Clients of several versions name columns differently, and print lists and properties as text.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nexusform.diagnostics.names import escape_name
from nexusform.documents.scalars import escape_names
from nexusform.documents.yaml_documents import describe_kind
from nexusform.domains.openstack.importers.capture_script import COMPUTE_NODES, INVENTORY
from nexusform.domains.openstack.importers.openstack_fields import JSON_COLUMNS, list_unread_facts
from nexusform.domains.openstack.importers.openstack_reading import OpenstackReading, build_problem
from nexusform.domains.openstack.scheduling.nova_host_records import split_list

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
    # `show` prints one object.
    rows = document if isinstance(document, list) else [document]
    # Some elements are no objects.
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            detail = (
                f"{name}.json is not a list of objects: [{index}] is {describe_kind(row)}. Print "
                "it with -f json."
            )
            problems.append(build_problem(detail))
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


def check_duplicate_rows(name: str, rows: Rows) -> None:
    """Raise DuplicateRowError if two rows of a table have one key and differ."""
    # inventory-UUID is a file of the inventory.
    column = _KEYS.get(INVENTORY if name.startswith(f"{INVENTORY}-") else name, "")
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


def find_service_host(hostname: str, services: Mapping[str, Any]) -> str | None:
    """Return the host named like a hypervisor, or None.

    Otherwise it is the only one with its first label (`a` of `a.b`).
    """
    if hostname in services:
        return hostname
    labels = [host for host in services if host.split(".")[0] == hostname.split(".", maxsplit=1)[0]]
    return labels[0] if len(labels) == 1 else None


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
