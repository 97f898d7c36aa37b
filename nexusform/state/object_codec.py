"""One object of a state as JSON members and back: shared by the document and the journal."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics import Problem, did_you_mean
from nexusform.plain_data import Path
from nexusform.state.objects import ObjectState

INVALID: Final = "invalid-state-document"
_NAME: Final = re.compile(r"[^\W\d][\w-]*")


class MemberRule(Struct, frozen=True):
    """What a member must be: the check, and the same in words."""

    holds: Callable[[Any], bool]
    words: str
    required: bool = False


def invalid(path: Path, detail: str) -> Problem:
    """A member that is not as it must be: where, and a sentence that says what is wrong."""
    return Problem(path, INVALID, detail)


def is_text(value: Any) -> bool:
    """A string."""
    return value.__class__ is str


def is_count(value: Any) -> bool:
    """A whole number that is not negative (true and false are none)."""
    return value.__class__ is int and value >= 0


def is_flag(value: Any) -> bool:
    """The word true or false."""
    return value.__class__ is bool


def is_object(value: Any) -> bool:
    """A JSON object."""
    return value.__class__ is dict


def is_list(value: Any) -> bool:
    """A JSON list."""
    return value.__class__ is list


def is_texts(value: Any) -> bool:
    """A list of strings."""
    return value.__class__ is list and all(item.__class__ is str for item in value)


def is_objects(value: Any) -> bool:
    """A list of JSON objects."""
    return value.__class__ is list and all(item.__class__ is dict for item in value)


def is_name(value: Any) -> bool:
    """An identifier as in HCL."""
    return value.__class__ is str and _NAME.fullmatch(value) is not None


def is_key(value: Any) -> bool:
    """An instance key: a string, or a whole number from 0."""
    return value.__class__ is str or is_count(value)


def is_paths(value: Any) -> bool:
    """A list of paths, each a list of names and list positions."""
    return is_list(value) and all(is_list(path) and all(map(is_key, path)) for path in value)


def is_filled(value: Any) -> bool:
    """A string that is not empty."""
    return value.__class__ is str and value != ""


OBJECT_RULES: Final[Mapping[str, MemberRule]] = {
    "attributes": MemberRule(is_object, "an object", required=True),
    "creation": MemberRule(is_count, "a whole number from 0", required=True),
    "sensitive_attributes": MemberRule(is_paths, "a list of paths (lists of names and positions)"),
    "dependencies": MemberRule(is_texts, "a list of addresses"),
    "status": MemberRule(lambda value: value == "tainted", '"tainted", or absent'),
    "create_before_destroy": MemberRule(is_flag, "true or false"),
    "provider": MemberRule(is_text, "a string"),
    "schema_version": MemberRule(is_count, "a whole number from 0"),
    "private": MemberRule(is_object, "an object"),
}


def check_members(entry: Any, rules: Mapping[str, MemberRule], path: Path, mistakes: list[Problem]) -> bool:
    """Whether `entry` is an object whose members obey the rules; what is wrong joins `mistakes`."""
    if entry.__class__ is not dict:
        mistakes.append(invalid(path, f"An object is expected here, not {kind_of(entry)}."))
        return False
    before = len(mistakes)
    for name, value in entry.items():
        rule = rules.get(name)
        if rule is None:
            hint = did_you_mean(name, rules)
            mistakes.append(invalid((*path, name), f'There is no member "{name}" here.{hint}'))
        elif not rule.holds(value):
            mistakes.append(invalid((*path, name), f'"{name}" must be {rule.words}.'))
    for name, rule in rules.items():
        if rule.required and name not in entry:
            mistakes.append(invalid((*path, name), f'"{name}" is missing.'))
    return len(mistakes) == before


def kind_of(value: Any) -> str:
    """What a JSON value is, in words."""
    if value is None:
        return "null"
    names = {bool: "true or false", str: "a string", list: "a list", dict: "an object"}
    return names.get(value.__class__, "a number")


def object_members(object_state: ObjectState) -> dict[str, Any]:
    """The members of an object; what is at its default is left out, save the frequent ones."""
    members: dict[str, Any] = {"status": "tainted"} if object_state.tainted else {}
    members["creation"] = object_state.creation
    members["provider"] = object_state.provider
    members["schema_version"] = object_state.schema_version
    members["attributes"] = object_state.attributes
    if object_state.sensitive:
        members["sensitive_attributes"] = [list(path) for path in object_state.sensitive]
    if object_state.dependencies:
        members["dependencies"] = object_state.dependencies
    if object_state.create_before_destroy:
        members["create_before_destroy"] = True
    if object_state.private is not None:
        members["private"] = object_state.private
    return members


def object_from_members(entry: Mapping[str, Any]) -> ObjectState:
    """The object of members that obey OBJECT_RULES."""
    get = entry.get
    return ObjectState(
        entry["attributes"],
        entry["creation"],
        tuple([tuple(path) for path in get("sensitive_attributes", ())]),
        tuple(get("dependencies", ())),
        "status" in entry,
        get("create_before_destroy", False),
        get("provider", "simulated"),
        get("schema_version", 0),
        get("private"),
    )
