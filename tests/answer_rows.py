"""Rows of the sections of JSON answers."""

from __future__ import annotations

from typing import Any


def read_rows(section: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of all tables of a section."""
    return [row for table in section["tables"] for row in table["rows"]]
