"""What two plans have in common: a saved one, and the one that planning gives now."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic
from nexusform.plans.plan import Action, Plan
from nexusform.plans.saved.record_codec import write_record
from nexusform.plans.saved.sameness import same
from nexusform.state import json_text

# What a plan says of how it was made.
_NOT_COMPARED: Final = frozenset(
    {"basis", "diagnostics", "nexusform_version", "timestamp", "variables", "prior_digest"}
)


def parts_made_otherwise(plan: Plan, again: Plan) -> list[str]:
    """The parts of a plan that are not those of the one that is made again of the same."""
    # Providers and imports may have said more; what planning says must be there.
    said = set(map(_text, plan.diagnostics))
    names = [] if said.issuperset(map(_text, again.diagnostics)) else ["warnings"]
    parts = [name for name in plan.__struct_fields__ if name not in _NOT_COMPARED]
    names += [name for name in parts if not same(getattr(plan, name), getattr(again, name))]
    return [name.replace("_", " ") for name in names]


def things_seen_otherwise(plan: Plan, again: Plan) -> list[str]:
    """The names of what a reviewer of a plan saw, and would see otherwise in the one of today."""
    before, now = _seen(plan), _seen(again)
    return [name for name in {**before, **now} if before.get(name) != now.get(name)]


def _seen(plan: Plan) -> dict[str, list[object]]:
    """What a reviewer sees, by the name of each thing; creation numbers are bookkeeping."""
    seen: dict[str, list[object]] = {}
    for change in plan.changes:
        if change.action is not Action.NO_OP or change.previous_address or change.importing:
            key = f"{change.address} (deposed {change.deposed})" if change.deposed else str(change.address)
            seen.setdefault(key, []).append(replace(change, creation=0, prior_creation=0, source=None))
    for row in plan.placements:
        seen.setdefault(f"where {row.object} of {row.address} is", []).append(row)
    for output in plan.outputs:
        seen[f"output.{output.name}"] = [output]
    for upgrade in plan.upgrades:
        seen.setdefault(f"how {upgrade.cluster} is made anew", []).append(upgrade)
    seen |= {f"{old} moved to {new}": [] for old, new in plan.moved}
    return seen


def _text(diagnostic: Diagnostic) -> bytes:
    return json_text.dumps(_without_places(write_record(diagnostic)), sort=True, default=str)


def _without_places(record: Any) -> Any:
    """The same without places in files, which stand in another directory for the plan's own configuration."""
    if isinstance(record, dict):
        is_place = record.keys() == {"filename", "start", "end"}
        return None if is_place else {name: _without_places(part) for name, part in record.items()}
    if isinstance(record, list):
        return [_without_places(part) for part in record]
    return record
