"""Paths in `ignore_changes` at which nothing can stand: what changes there would be changed all the same."""

from __future__ import annotations

from nexusform.diagnostics import did_you_mean
from nexusform.plain_data import Path, path_text
from nexusform.schema import BlockSchema, NestedBlock, Nesting, implied_type
from nexusform.value_types import DYNAMIC, ListType, MapType, ObjectType, SetType, TupleType, Type


def never_there(of: str, schema: BlockSchema, path: Path) -> str:
    """Why nothing of a resource type stands at a path; "" where something may."""
    return _in_block(of, schema, (), path)


def _in_block(of: str, schema: BlockSchema, above: Path, path: Path) -> str:
    """`of` says what is looked into, `above` how it was come to, `path` what is still to go."""
    if not path:
        return ""
    name, rest = path[0], path[1:]
    attributes = dict(implied_type(schema).attributes)
    if not isinstance(name, str) or name not in attributes:
        hint = did_you_mean(str(name), attributes)
        return f'{of} has no argument or block "{name}" that ignore_changes could name.{hint}'
    here = (*above, name)
    nested = schema.blocks.get(name)
    return _in_value(attributes[name], here, rest) if nested is None else _in_nested(nested, here, rest)


def _in_nested(nested: NestedBlock, here: Path, rest: Path) -> str:
    """What is wrong with the step into blocks of a type, or further on."""
    step = rest[0] if rest else None
    text = path_text(here)
    match nested.nesting:
        case Nesting.SINGLE if isinstance(step, int):
            return f"{text} is one block and no list: write {path_text((*here, *rest[1:]))}."
        case Nesting.LIST if isinstance(step, str):
            return f"{text} may stand several times: write {path_text((*here, 0, *rest))}."
        case Nesting.MAP if isinstance(step, int):
            named = path_text((*here, nested.label.upper() or "LABEL", *rest[1:]))
            return f"Blocks {text} are named by their labels and not counted: write {named}."
        case Nesting.SINGLE:
            return _in_block(text, nested.schema, here, rest)
    return _in_block(path_text((*here, *rest[:1])), nested.schema, (*here, *rest[:1]), rest[1:])


def _in_value(of: Type, here: Path, rest: Path) -> str:
    """What is wrong with the steps into a value of a type."""
    if not rest or of is DYNAMIC:
        return ""
    step, text = rest[0], path_text(here)
    further = (*here, step), rest[1:]
    match of:
        case ObjectType() if step in dict(of.attributes):
            return _in_value(dict(of.attributes)[str(step)], *further)
        case ObjectType():
            return f'{text} has no attribute "{step}".{did_you_mean(str(step), dict(of.attributes))}'
        case MapType() if isinstance(step, str):
            return _in_value(of.element, *further)
        case MapType():
            return f"{text} is a map: write {path_text((*here, str(step), *rest[1:]))}."
        case ListType() if isinstance(step, int):
            return _in_value(of.element, *further)
        case ListType():
            return f"{text} is a list: write {path_text((*here, 0, *rest))}."
        case TupleType():
            return ""
        case SetType():
            return f"Elements of a set have no places: write {text}, and all of it is left as it stands."
    return f"Nothing is inside of {text}: write {text}."
