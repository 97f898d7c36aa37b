"""Changes made outside of nexusform since the last apply that a plan reverts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from nexusform.interfaces.plugins import ResourceType
from nexusform.plans.plan import Action, Change, Drift, OutsideChange, Plan, Reversal

Types: TypeAlias = Mapping[str, ResourceType]
_Leaf: TypeAlias = tuple[str, ...]


def find_outside_changes(plan: Plan, types: Types) -> tuple[OutsideChange, ...]:
    """Return the changes made outside that a plan reverts, of a failed plan too.

    Changes of computed attributes, and those that the configuration has now, are not reverted.
    `types` are the resource types by name.
    """
    new_addresses = dict(plan.address_moves)
    changes = {change.address: change for change in plan.changes if not change.deposed}
    outside_changes: list[OutsideChange] = []
    for drift in plan.observed.drift:
        change = changes.get(new_addresses.get(drift.address, drift.address))
        if change is None or change.after is None:
            continue
        name = str(drift.before.get("name") or drift.address)
        if drift.after is None:
            if change.action is Action.CREATE:
                outside_changes.append(OutsideChange(change.address, name, Reversal.CREATES))
            continue
        arguments = tuple(_describe_reverted_arguments(drift, drift.after, change, types))
        if arguments:
            outside_changes.append(
                OutsideChange(change.address, name, Reversal.SETS_BACK, arguments)
            )
    return tuple(outside_changes)


def _describe_reverted_arguments(
    drift: Drift, observed: Mapping[str, Any], change: Change, types: Types
) -> Iterator[str]:
    """Yield the arguments that others set, and the plan sets to another known value."""
    recorded_leaves = dict(_iterate_leaves(drift.before))
    observed_leaves = dict(_iterate_leaves(observed))
    attributes = types[change.address.type].schema.attributes
    hidden = [tuple(map(str, path)) for path in drift.sensitive]
    for path, planned in _iterate_leaves(change.after or {}):
        attribute = attributes.get(path[0])
        is_computed = attribute is not None and attribute.computed
        if is_computed or any(path[: len(prefix)] == prefix for prefix in hidden):
            continue
        current = observed_leaves.get(path)
        # The same value as in state: only someone else can have changed it since.
        if path in recorded_leaves and recorded_leaves[path] == planned != current:
            yield f"{' '.join(_name_argument(path))} {_format(planned)} -> {_format(current)}"


def _name_argument(path: _Leaf) -> Sequence[str]:
    """Return the words that name an argument: `pool1 count` of a pool, else its last parts."""
    return path[-2:] if len(path) > 1 else path


def _iterate_leaves(value: Any, path: _Leaf = ()) -> Iterator[tuple[_Leaf, Any]]:
    """Yield the texts, numbers and lists of an object by path."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _iterate_leaves(item, (*path, str(key)))
    elif isinstance(value, str | int | float | list | tuple) or value is None:
        yield path, value


def _format(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
