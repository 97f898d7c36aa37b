"""Comparison of a saved plan with a new plan from the same inputs."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from nexusform.diagnostics.diagnostic import Diagnostic, Span
from nexusform.plans.plan import PLAN_PARTS, Mode, Plan
from nexusform.plans.saved.record_codec import write_record
from nexusform.plans.saved.tied_machines import replace_ties_by_sets
from nexusform.state import json_codec

# Fields that describe how a plan was created.
_NOT_COMPARED: Final = frozenset(
    {
        *(
            "basis",
            "diagnostics",
            "guard_rails",
            "nexusform_version",
            "timestamp",
            "variables",
            "prior_digest",
        ),
        *("providers", "provider_titles", "since", "checks_by", "start_values", "site_facts"),
    }
)


def list_different_parts(plan: Plan, new_plan: Plan) -> list[str]:
    """Return the names of the parts of a saved plan that differ from a new plan of the same inputs.

    An example is `["warnings", "steps"]`. The saved plan may have further diagnostics, of providers
    and imports, but must have all of the new plan.
    """
    different: list[str] = []
    saved_diagnostics = set(map(_serialize_diagnostic, plan.diagnostics))
    if not saved_diagnostics.issuperset(map(_serialize_diagnostic, new_plan.diagnostics)):
        different.append("warnings")
    # A plan from a file has classes, a new one has names.
    plan, new_plan = replace_ties_by_sets(plan), replace_ties_by_sets(new_plan)
    saved_fields, new_fields = _collect_fields(plan), _collect_fields(new_plan)
    different += [
        name
        for name, value in saved_fields.items()
        if name not in _NOT_COMPARED and not is_equal_record(value, new_fields[name])
    ]
    return [name.replace("_", " ") for name in different]


def _collect_fields(plan: Plan) -> dict[str, Any]:
    """Return the fields of a plan by name, those of its parts included."""
    parts = [getattr(plan, part) for part in PLAN_PARTS]
    fields = {
        name: getattr(plan, name) for name in Plan.__struct_fields__ if name not in PLAN_PARTS
    }
    for part in parts:
        fields |= asdict(part)
    return fields


def list_visible_differences(plan: Plan, new_plan: Plan) -> list[str]:
    """Return the names of the items that a reviewer would see differently in the new plan."""
    before = _collect_visible_items(plan)
    after = _collect_visible_items(new_plan)
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


def _collect_visible_items(plan: Plan) -> dict[str, list[object]]:
    """Return the visible items of a plan by name, without source lines and creation numbers."""
    items: dict[str, list[object]] = {}
    for change in plan.reported_changes:
        name = (
            f"{change.address} (deposed {change.deposed})"
            if change.deposed
            else str(change.address)
        )
        items.setdefault(name, []).append(
            replace(change, creation=0, prior_creation=0, source=None)
        )
    for row in plan.placements:
        items.setdefault(f"placement of {row.object} of {row.address}", []).append(row)
    for output in plan.root_values.outputs:
        items[f"output.{output.name}"] = [output]
    for upgrade in plan.impact.upgrades:
        items.setdefault(f"upgrade of {upgrade.cluster}", []).append(upgrade)
    if plan.options.mode is Mode.REFRESH_ONLY:
        for drift in plan.observed.drift:
            items.setdefault(str(drift.address), []).append(drift)
    # The name says all.
    items |= {f"{old} moved to {new}": [] for old, new in plan.address_moves}
    return items


def _serialize_diagnostic(diagnostic: Diagnostic) -> bytes:
    """Return a diagnostic as JSON without source spans, for a comparison."""
    return json_codec.render_json(
        _remove_source_spans(write_record(diagnostic)), sort=True, default=str
    )


def _remove_source_spans(record: Any) -> Any:
    """Return a copy without source spans.

    The plan's own configuration has another directory.
    """
    if isinstance(record, dict):
        if record.keys() == {"filename", "start", "end"}:  # a span
            return None
        return {name: _remove_source_spans(part) for name, part in record.items()}
    if isinstance(record, list):
        return [_remove_source_spans(part) for part in record]
    return record


def is_equal_record(first: Any, second: Any) -> bool:
    """Return whether two records or plain values are equal.

    Unlike in Python, 1, 1.0 and true differ, but a list equals a tuple. The source spans inside of
    records are not compared.
    """
    # A stack instead of recursion, because plain data may be nested deeper than calls of Python.
    pairs = [(first, second)]
    while pairs:
        left, right = pairs.pop()
        if left is right or (left.__class__ is right.__class__ is str and left == right):
            # A shortcut for most values.
            continue
        left_content, left_parts = _split_into_parts(left)
        right_content, right_parts = _split_into_parts(right)
        if left_content != right_content:
            return False
        pairs += zip(left_parts, right_parts, strict=True)
    return True


def _split_into_parts(value: Any) -> tuple[object, Sequence[Any]]:
    """Split a value into its own content and its parts.

    The content must be equal; parts are compared one by one. The content of a list is its length,
    of a mapping its keys; a scalar is its own content and has no parts.
    """
    if isinstance(value, str):
        # A member of an enum becomes a text in a saved plan.
        return value, ()
    if isinstance(value, list | tuple):
        return (list, len(value)), value
    if isinstance(value, Mapping):
        keys = sorted(value, key=str)
        return (dict, keys), [value[key] for key in keys]
    if isinstance(value, Struct):
        # The configuration in a saved plan has another directory, so its spans differ.
        names = () if isinstance(value, Span) else value.__struct_fields__
        return (Struct, names), [getattr(value, name) for name in names]
    return (value.__class__, value), ()
