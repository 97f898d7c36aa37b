"""Conversion of one object of a state to JSON members and back.

The document and the journal use it.
"""

import re
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Problem, suggest_name
from nexusform.json_data.plain_data import Path
from nexusform.state.folded_attributes import fold_attributes, is_folded, unfold_attributes
from nexusform.state.objects import ObjectState

INVALID: Final = "invalid-state-document"
_NAME: Final = re.compile(r"[^\W\d][\w-]*")


class MemberRule(Struct, frozen=True):
    """Rule of a member: the check, and its description."""

    is_valid: Callable[[Any], bool]
    description: str
    is_required: bool = False


def build_invalid_member_problem(path: Path, detail: str) -> Problem:
    """Return the problem of an invalid member: its path, and a sentence."""
    return Problem(path, INVALID, detail)


def is_text(value: Any) -> bool:
    """Check for a string."""
    return value.__class__ is str


def is_count(value: Any) -> bool:
    """Check for a whole number from 0 (true and false are not numbers)."""
    return value.__class__ is int and value >= 0


def is_flag(value: Any) -> bool:
    """Check for true or false."""
    return value.__class__ is bool


def is_object(value: Any) -> bool:
    """Check for a JSON object."""
    return value.__class__ is dict


def is_object_of_texts(value: Any) -> bool:
    """Check for a JSON object of strings."""
    return is_object(value) and all(map(is_text, value.values()))


def is_list(value: Any) -> bool:
    """Check for a JSON list."""
    return value.__class__ is list


def is_list_of_texts(value: Any) -> bool:
    """Check for a list of strings."""
    return value.__class__ is list and all(map(is_text, value))


def is_list_of_objects(value: Any) -> bool:
    """Check for a list of JSON objects."""
    return value.__class__ is list and all(map(is_object, value))


def is_hcl_identifier(value: Any) -> bool:
    """Check for an identifier as in HCL."""
    return value.__class__ is str and _NAME.fullmatch(value) is not None


def is_key(value: Any) -> bool:
    """Check for an instance key: a string, or a whole number from 0."""
    return value.__class__ is str or is_count(value)


def is_list_of_paths(value: Any) -> bool:
    """Check for a list of paths, each a list of names and list positions."""
    return is_list(value) and all(is_list(path) and all(map(is_key, path)) for path in value)


def is_nonempty_text(value: Any) -> bool:
    """Check for a string that is not empty."""
    return value.__class__ is str and value != ""


OBJECT_RULES: Final[Mapping[str, MemberRule]] = {
    "attributes": MemberRule(is_object, "an object", is_required=True),
    "folded_attributes": MemberRule(is_folded, "folded attributes as nexusform writes them"),
    "creation": MemberRule(is_count, "a whole number from 0", is_required=True),
    "sensitive_attributes": MemberRule(
        is_list_of_paths, "a list of paths (lists of names and positions)"
    ),
    "dependencies": MemberRule(is_list_of_texts, "a list of addresses"),
    "status": MemberRule(lambda value: value == "tainted", '"tainted", or absent'),
    "create_before_destroy": MemberRule(is_flag, "true or false"),
    "skip_destroy": MemberRule(is_flag, "true or false"),
    "provider": MemberRule(is_text, "a string"),
    "schema_version": MemberRule(is_count, "a whole number from 0"),
    "private": MemberRule(is_object, "an object"),
}


def check_members(
    entry: Any, rules: Mapping[str, MemberRule], path: Path, problems: list[Problem]
) -> bool:
    """Check whether `entry` is an object with all required and no unknown members.

    Add the errors to `problems`.
    """
    if entry.__class__ is not dict:
        detail = f"An object is expected here, not {describe_json_kind(entry)}."
        problems.append(build_invalid_member_problem(path, detail))
        return False
    previous_count = len(problems)
    for name, value in entry.items():
        rule = rules.get(name)
        if rule is None:
            hint = suggest_name(name, rules)
            problems.append(
                build_invalid_member_problem(
                    (*path, name), f'There is no member "{name}" here.{hint}'
                )
            )
        elif not rule.is_valid(value):
            problems.append(
                build_invalid_member_problem((*path, name), f'"{name}" must be {rule.description}.')
            )
    for name, rule in rules.items():
        if rule.is_required and name not in entry:
            problems.append(build_invalid_member_problem((*path, name), f'"{name}" is missing.'))
    return len(problems) == previous_count


def describe_json_kind(value: Any) -> str:
    """Return the kind of a JSON value as text."""
    names = {
        NoneType: "null",
        bool: "true or false",
        str: "a string",
        list: "a list",
        dict: "an object",
    }
    return names.get(value.__class__, "a number")


def build_object_members(object_state: ObjectState) -> dict[str, Any]:
    """Build the members of an object's JSON form.

    Members that usually are empty or false are written only if not.
    """
    members: dict[str, Any] = {"status": "tainted"} if object_state.tainted else {}
    members["creation"] = object_state.creation
    members["provider"] = object_state.provider
    members["schema_version"] = object_state.schema_version
    members["attributes"] = object_state.attributes
    often_empty = {
        "sensitive_attributes": [list(path) for path in object_state.sensitive],
        "dependencies": object_state.dependencies,
        "create_before_destroy": object_state.create_before_destroy,
        "skip_destroy": object_state.skip_destroy,
    }
    members |= {name: value for name, value in often_empty.items() if value}
    if object_state.private is not None:
        members["private"] = object_state.private
    return members


def build_folded_object_members(object_state: ObjectState) -> dict[str, Any]:
    """Build the members of an object's JSON form, with its long attributes folded."""
    members = build_object_members(object_state)
    attributes, folded = fold_attributes(object_state.attributes)
    if not folded:
        return members
    return members | {"attributes": attributes, "folded_attributes": folded}


def parse_object(entry: Mapping[str, Any]) -> ObjectState:
    """Parse the object of members that follow OBJECT_RULES."""
    attributes = entry["attributes"]
    folded = entry.get("folded_attributes")
    if folded:
        # In the order of a document.
        attributes = dict(sorted((attributes | unfold_attributes(folded)).items()))
    return ObjectState(
        attributes=attributes,
        creation=entry["creation"],
        sensitive=tuple([tuple(path) for path in entry.get("sensitive_attributes", ())]),
        dependencies=tuple(entry.get("dependencies", ())),
        # Its only value.
        tainted="status" in entry,
        create_before_destroy=entry.get("create_before_destroy", False),
        provider=entry.get("provider", "simulated"),
        schema_version=entry.get("schema_version", 0),
        private=entry.get("private"),
        skip_destroy=entry.get("skip_destroy", False),
    )
