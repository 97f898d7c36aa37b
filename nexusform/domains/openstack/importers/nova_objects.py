"""Columns of Nova's database with JSON, and its serialized objects."""

import json
from typing import Any

from nexusform.documents.scalars import escape_names
from nexusform.json_data.plain_data import get_mapping


def parse_json_column(value: Any) -> Any:
    """Parse a JSON text; return any other value (parsed before) as it is.

    Raises ValueError.
    """
    return escape_names(json.loads(value) if isinstance(value, str) and value else value)


def unwrap_versioned_object(value: Any) -> Any:
    """Return the fields of a serialized object of Nova."""
    return get_mapping(value).get("nova_object.data", value)
