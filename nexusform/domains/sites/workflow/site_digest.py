"""What a plan does, as one digest: equal for plans that change the same and place the same."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from msgspec.structs import replace

from nexusform.plans.plan import Action, Plan
from nexusform.plans.saved.record_codec import write_record
from nexusform.state import json_text
from nexusform.values import Unknown


def plan_digest(plan: Plan) -> str:
    """SHA-256 over changes, placement rows and outputs; without serial, time, diagnostics and lines of files.

    Of a plan that changes nothing it is always the same.
    """
    digest = sha256()
    for record in _essence(plan):
        digest.update(json_text.dumps(record, sort=True, default=_plain))
        digest.update(b"\n")
    return digest.hexdigest()


def _essence(plan: Plan) -> Iterator[Any]:
    """The records that a reviewer approves. Creation numbers are bookkeeping."""
    for change in plan.changes:
        if change.action is not Action.NO_OP or change.previous_address or change.importing:
            yield write_record(replace(change, creation=0, prior_creation=0, source=None))
    for row in plan.placements:
        yield write_record(row)
    for output in plan.outputs:
        if output.action is not Action.NO_OP:
            yield write_record(output)
    for old, new in plan.moved:
        yield [str(old), str(new)]


def _plain(value: Any) -> Any:
    """What is not known, and mappings of other kinds, as plain data."""
    if isinstance(value, Unknown):
        return {"unknown": True}
    return json_text.plain_mapping(value)
