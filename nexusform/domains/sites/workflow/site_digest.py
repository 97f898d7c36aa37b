"""Digest of a plan's effects: equal for plans with equal changes and placements."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from msgspec.structs import replace

from nexusform.plans.plan import Action, Plan
from nexusform.plans.saved.record_codec import write_record
from nexusform.state import json_codec
from nexusform.values.typed_value import Unknown


def compute_plan_digest(plan: Plan) -> str:
    """Compute the SHA-256 of changes, placements and outputs, without serial, time, diagnostics and source
    lines. All plans without changes have the same digest.
    """
    digest = sha256()
    for record in _list_approved_records(plan):
        digest.update(json_codec.render_json(record, sort=True, default=_convert_to_plain))
        digest.update(b"\n")
    return digest.hexdigest()


def _list_approved_records(plan: Plan) -> Iterator[Any]:
    """List the records approved by a reviewer, without creation numbers."""
    for change in plan.changes:
        if change.action is not Action.NO_OP or change.previous_address or change.importing:
            yield write_record(replace(change, creation=0, prior_creation=0, source=None))
    for row in plan.placements:
        yield write_record(row)
    for output in plan.outputs:
        if output.action is not Action.NO_OP:
            yield write_record(output)
    for old, new in plan.address_moves:
        yield [str(old), str(new)]


def _convert_to_plain(value: Any) -> Any:
    """Convert unknown values and other mappings to plain data."""
    if isinstance(value, Unknown):
        return {"unknown": True}
    return json_codec.convert_mapping(value)
