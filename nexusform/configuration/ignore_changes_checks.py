"""Validation of `ignore_changes` paths: a path that cannot exist would ignore nothing."""

from __future__ import annotations

from nexusform.diagnostics.diagnostic import suggest_name
from nexusform.json_data.plain_data import Path, format_path
from nexusform.schemas.block_schema import BlockSchema, NestedBlock, Nesting, compute_implied_type
from nexusform.schemas.value_types import DYNAMIC, ListType, MapType, ObjectType, SetType, TupleType, Type


def find_invalid_path_reason(resource_type: str, schema: BlockSchema, path: Path) -> str:
    """Return why a path cannot exist in a resource type; "" if it may."""
    return _check_path_in_block(resource_type, schema, (), path)


def _check_path_in_block(subject: str, schema: BlockSchema, prefix: Path, path: Path) -> str:
    """Check a path inside of `subject`: `prefix` are the completed steps, `path` the remaining ones."""
    if not path:
        return ""
    name, remaining_path = path[0], path[1:]
    attributes = dict(compute_implied_type(schema).attributes)
    if not isinstance(name, str) or name not in attributes:
        hint = suggest_name(str(name), attributes)
        return f'{subject} has no argument or block "{name}" for ignore_changes.{hint}'
    current_path = (*prefix, name)
    nested = schema.blocks.get(name)
    return (
        _check_path_in_value(attributes[name], current_path, remaining_path)
        if nested is None
        else _check_path_in_nested_block(nested, current_path, remaining_path)
    )


def _check_path_in_nested_block(nested: NestedBlock, current_path: Path, remaining_path: Path) -> str:
    """Check the step into blocks of a type, and the remaining steps."""
    step = remaining_path[0] if remaining_path else None
    text = format_path(current_path)
    match nested.nesting:
        case Nesting.SINGLE if isinstance(step, int):
            return f"{text} is a single block, not a list: write {format_path((*current_path, *remaining_path[1:]))}."
        case Nesting.LIST if isinstance(step, str):
            return f"{text} is a list of blocks: write {format_path((*current_path, 0, *remaining_path))}."
        case Nesting.MAP if isinstance(step, int):
            corrected_path = format_path((*current_path, nested.label.upper() or "LABEL", *remaining_path[1:]))
            return f"Blocks {text} are selected by label, not by index: write {corrected_path}."
        case Nesting.SINGLE:
            return _check_path_in_block(text, nested.schema, current_path, remaining_path)
    return _check_path_in_block(
        format_path((*current_path, *remaining_path[:1])),
        nested.schema,
        (*current_path, *remaining_path[:1]),
        remaining_path[1:],
    )


def _check_path_in_value(value_type: Type, current_path: Path, remaining_path: Path) -> str:
    """Check the steps into a value of a type."""
    if not remaining_path or value_type is DYNAMIC:
        return ""
    step, text = remaining_path[0], format_path(current_path)
    next_step = (*current_path, step), remaining_path[1:]
    match value_type:
        case ObjectType() if step in dict(value_type.attributes):
            return _check_path_in_value(dict(value_type.attributes)[str(step)], *next_step)
        case ObjectType():
            return f'{text} has no attribute "{step}".{suggest_name(str(step), dict(value_type.attributes))}'
        case MapType() if isinstance(step, str):
            return _check_path_in_value(value_type.element, *next_step)
        case MapType():
            return f"{text} is a map: write {format_path((*current_path, str(step), *remaining_path[1:]))}."
        case ListType() if isinstance(step, int):
            return _check_path_in_value(value_type.element, *next_step)
        case ListType():
            return f"{text} is a list: write {format_path((*current_path, 0, *remaining_path))}."
        case TupleType():
            return ""
        case SetType():
            return f"Elements of a set have no index: write {text} to ignore changes of the whole set."
    return f"{text} has no parts: write {text}."
