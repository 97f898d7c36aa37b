"""Columns of Nova's database with JSON, and its serialized objects."""

import json
from collections.abc import Mapping
from typing import Any

from nexusform.documents.scalars import escape_names
from nexusform.documents.yaml_documents import describe_kind
from nexusform.json_data.plain_data import get_mapping


def parse_json_column(value: Any) -> Any:
    """Parse a JSON text; return any other value (parsed before) as it is.

    Raises ValueError.
    """
    return escape_names(json.loads(value) if isinstance(value, str) and value else value)


def unwrap_versioned_object(value: Any) -> Any:
    """Return the fields of a serialized object of Nova."""
    return get_mapping(value).get("nova_object.data", value)


def parse_statistics(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the statistics of a host in a row of compute_nodes, {} if Nova has none of it.

    Raises ValueError and TypeError.
    """
    statistics = parse_json_column(row.get("stats"))
    if statistics is None:
        return {}
    if not isinstance(statistics, Mapping):
        raise TypeError(f"stats is {describe_kind(statistics)}, not a mapping")
    return statistics
