"""Tests of CSV tables: the columns of placements."""

from __future__ import annotations

import csv
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.rendering.json import placements_csv
from nexusform.rendering.json.placements_csv import render_csv
from nexusform.rendering.report.placement_rows import ShownPlacements
from nexusform.scheduling.placement_decision import ObjectLocation

USUAL = ("cluster", "state", "node", "rack", "machine", "availability_zone", "numa_cells")


class _Slice(ObjectLocation, frozen=True):
    band: str
    ports: tuple[int, ...]


def _build_location_document(place: ObjectLocation | None) -> dict[str, Any] | None:
    if not isinstance(place, _Slice):
        return None
    return {"machine": "m1", "band": place.band, "ports": list(place.ports)}


def test_other_location_kinds_have_additional_columns(
    plans: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plans.added_cluster()
    rows = made.placements
    sliced = replace(rows[0], kind="vm", source=None, target=_Slice("=low", (7, 9)))
    monkeypatch.setattr(placements_csv, "build_location_document", _build_location_document)
    table = list(
        csv.DictReader(
            render_csv(replace(made, placements=(sliced,)), ShownPlacements.CHANGED).splitlines()
        )
    )
    assert [name for name in table[0] if name.startswith("to_")] == [
        f"to_{name}" for name in (*USUAL, "band", "ports")
    ]
    assert (table[0]["to_machine"], table[0]["to_band"], table[0]["to_ports"]) == (
        "m1",
        "'=low",
        "7 9",
    )
    assert table[0]["from_band"] == ""


def test_table_of_usual_locations_has_only_usual_columns(plans: SimpleNamespace) -> None:
    head = render_csv(plans.added_cluster(), ShownPlacements.CHANGED).splitlines()[0].split(",")
    assert [name for name in head if name.startswith("from_")] == [f"from_{name}" for name in USUAL]
