"""Placements as data: the parts that nexusform adds to a plan document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nexusform.planning.plan import PlacementAction, PlacementChange, PlacementTable, Plan
from nexusform.rendering.notation.json_values import known_part
from nexusform.rendering.report.placement_rows import Detail


def placement_changes(plan: Plan, detail: Detail) -> Iterator[dict[str, Any]]:
    """One object per row. Kept rows only with `all`, save observations, which are always told."""
    for row in plan.placements:
        if row.action is not PlacementAction.KEEP or row.trigger or detail is Detail.ALL:
            yield _row(row, detail)


def _row(row: PlacementChange, detail: Detail) -> dict[str, Any]:
    document: dict[str, Any] = {
        "address": str(row.address),
        "kind": row.kind,
        "object": row.object,
        "action": row.action.value,
        "from": known_part(row.source),
        "to": known_part(row.target),
        "trigger": row.trigger,
        "reason": row.reason,
        "scores": known_part(row.scores),
        "certainty": None,
        "provenance": row.provenance,
    }
    if row.certainty is not None:
        document["certainty"] = {"rack": row.certainty.rack, "machine": row.certainty.machine}
    if detail is Detail.ALL:
        document["rejected"] = [
            {"candidate": r.candidate, "rule": r.rule, "reason": r.reason} for r in row.rejected
        ]
    return document


def placement_tables(plan: Plan) -> list[dict[str, Any]]:
    """One object per pool, in the plan's order."""
    return [table_document(table) for table in plan.placement_tables]


def table_document(table: PlacementTable) -> dict[str, Any]:
    """One pool and how it is spread."""
    return {
        "cluster": table.cluster,
        "pool": table.pool,
        "vm_sku_name": table.vm_sku_name,
        "total_count": table.total_count,
        "expected_racks": table.expected_racks,
        "actual_racks": table.actual_racks,
        "expected_vms_per_rack": list(table.expected_vms_per_rack),
        "actual_vms_per_rack": dict(table.actual_vms_per_rack),
    }
