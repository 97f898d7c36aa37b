"""Tests that each field of KubeFleet's definitions is read or has a reason why it is not."""

from __future__ import annotations

import random
import re
from pathlib import Path

from nexusform.domains.fleet.importers.hub_dump_fields import WITHOUT_INFLUENCE, read_fleet_schema

ROOT = Path(__file__).parents[4]
LISTS = ROOT / "nexusform" / "domains" / "fleet" / "importers" / "hub_dump_fields.py"
SEED = 84


def list_fields() -> list[str]:
    """Return the full names of all fields without their API versions, sorted."""
    types = read_fleet_schema().types.items()
    return sorted(
        {f"{name.partition('.')[2]}.{field}" for name, fields in types for field in fields}
    )


def has_influence(field: str) -> bool:
    """Return whether neither a field nor one around it is listed."""
    steps = field.split(".")
    prefixes = {".".join(steps[:length]) for length in range(1, len(steps) + 1)}
    return prefixes.isdisjoint(WITHOUT_INFLUENCE)


def test_names_without_influence_are_fields() -> None:
    assert set(WITHOUT_INFLUENCE) <= set(list_fields())


def test_every_other_field_has_a_reader() -> None:
    folders = [ROOT / "nexusform" / "domains" / name for name in ("fleet", "hub", "pods")]
    paths = [path for folder in folders for path in folder.rglob("*.py") if path != LISTS]
    words = set(re.findall(r"\w+", "\n".join(path.read_text() for path in paths)))
    names = {field.rpartition(".")[2] for field in list_fields() if has_influence(field)}
    assert names - words == set()


def test_page_has_thirty_drawn_fields() -> None:
    print("seed", SEED)
    fields = list_fields()
    drawn = random.Random(SEED).sample(fields, 30)
    page = (ROOT / "docs" / "unread-facts.md").read_text()
    for field in drawn:
        outcome = "read" if has_influence(field) else "without influence"
        assert f"| `{field}` | {outcome} |" in page, field
    assert f"30 of {len(fields):,}" in page
