"""Comparison of a saved plan with a new plan from the same inputs."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Span
from nexusform.plans.plan import Plan
from nexusform.plans.saved.record_codec import write_record
from nexusform.state import json_codec

# Fields that describe how a plan was created.
_NOT_COMPARED: Final = frozenset(
    {
        *("basis", "diagnostics", "guard_rails", "nexusform_version", "timestamp", "variables", "prior_digest"),
        *("providers", "provider_titles", "since", "checks_by"),
    }
)


def list_different_parts(plan: Plan, new_plan: Plan) -> list[str]:
    """Return the parts of a plan that differ from a new plan of the same inputs."""
    # The saved plan may have more diagnostics, those of providers and imports, but none missing.
    saved_diagnostics = set(map(_serialize_diagnostic, plan.diagnostics))
    different = [] if saved_diagnostics.issuperset(map(_serialize_diagnostic, new_plan.diagnostics)) else ["warnings"]
    compared = [name for name in plan.__struct_fields__ if name not in _NOT_COMPARED]
    different += [name for name in compared if not is_equal_record(getattr(plan, name), getattr(new_plan, name))]
    return [name.replace("_", " ") for name in different]


def has_sampled_verdicts(plan: Plan) -> bool:
    """Return whether results of a plan besides its certainty depend on samples: limits, separation or NUMA cells."""
    has_limit = any(result.name == "certainty" for result in plan.guard_rails)
    return has_limit or bool(plan.separation_verdicts) or plan.numa_sampling is not None


def remove_confidence(plan: Plan) -> Plan:
    """Return the plan without the figures of its samples."""
    rows = [replace(row, certainty=None) if row.kind == "vm" else row for row in plan.placements]
    tables = [
        replace(table, racks_certain=0, machines_certain=0, certain_racks=(), tied_machines=(), is_tie_certain=False)
        for table in plan.placement_tables
    ]
    return replace(plan, samples=0, placements=tuple(rows), placement_tables=tuple(tables))


def list_visible_differences(plan: Plan, new_plan: Plan) -> list[str]:
    """Return the names of the items in a plan that a reviewer would see differently in the new plan."""
    before, after = _collect_visible_items(plan), _collect_visible_items(new_plan)
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


def _collect_visible_items(plan: Plan) -> dict[str, list[object]]:
    """Return the visible items of a plan by name, without source lines and creation numbers (bookkeeping)."""
    items: dict[str, list[object]] = {}
    for change in plan.reported_changes:
        name = f"{change.address} (deposed {change.deposed})" if change.deposed else str(change.address)
        items.setdefault(name, []).append(replace(change, creation=0, prior_creation=0, source=None))
    for row in plan.placements:
        items.setdefault(f"placement of {row.object} of {row.address}", []).append(row)
    for output in plan.outputs:
        items[f"output.{output.name}"] = [output]
    for upgrade in plan.upgrades:
        items.setdefault(f"upgrade of {upgrade.cluster}", []).append(upgrade)
    items |= {f"{old} moved to {new}": [] for old, new in plan.address_moves}  # the name says all
    return items


def _serialize_diagnostic(diagnostic: Diagnostic) -> bytes:
    return json_codec.render_json(_remove_source_spans(write_record(diagnostic)), sort=True, default=str)


def _remove_source_spans(record: Any) -> Any:
    """Return a copy without source spans, because the plan's own configuration has another directory."""
    if isinstance(record, dict):
        is_span = record.keys() == {"filename", "start", "end"}
        return None if is_span else {name: _remove_source_spans(part) for name, part in record.items()}
    if isinstance(record, list):
        return [_remove_source_spans(part) for part in record]
    return record


def is_equal_record(first: Any, second: Any) -> bool:
    """Return whether both values are equal; 1, 1.0 and true are not."""
    pairs_to_compare = [(first, second)]
    while pairs_to_compare:
        left, right = pairs_to_compare.pop()
        pairs = _pair_compared_parts(left, right)  # of their members; none for equal values without members
        if pairs is None:  # the values differ
            return False
        pairs_to_compare += [pair for pair in pairs if not _is_equal_scalar(*pair)]  # a shortcut
    return True


_SCALARS: Final = frozenset({str, int, float, bool})


def _is_equal_scalar(left: Any, right: Any) -> bool:
    """Return whether two values need no further comparison: one object, or equal scalars of one class."""
    if left is right:
        return True
    kind = left.__class__
    return kind in _SCALARS and kind is right.__class__ and bool(left == right)


def _pair_compared_parts(left: Any, right: Any) -> Iterable[tuple[Any, Any]] | None:
    """Return the pairs of parts left to compare of two values: () for equal values, None for different ones."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return zip(left, right, strict=True) if len(left) == len(right) else None
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        if left.keys() != right.keys():
            return None
        return [(value, right[name]) for name, value in left.items()]
    if isinstance(left, Struct):
        if not isinstance(left, right.__class__) and not isinstance(right, left.__class__):
            return None  # of different classes
        # Spans are not compared: the configuration in a saved plan has another directory.
        names = () if isinstance(left, Span) else left.__struct_fields__
        return [(getattr(left, name), getattr(right, name)) for name in names]
    is_text = isinstance(left, str) and isinstance(right, str)  # a member of an enum is read as a text
    has_same_class = is_text or left.__class__ is right.__class__  # true equals 1
    return () if has_same_class and left == right else None
