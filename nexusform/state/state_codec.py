"""State document: conversion of State to bytes and back.

The shape follows OpenTofu's state version 4, with different names at the top level. Equal states
give equal bytes: resources by module, mode, type and name, instances by key, values sorted.

Version 2 has folded attributes. A document without them has version 1, so that an earlier nexusform
reads it. Documents of newer versions, and those of versions before the first release (without
"kind"), are rejected. To change the format: raise CURRENT, and convert documents of the previous
version before they are read.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Problem,
    build_development_file_error,
    build_error,
)
from nexusform.documents.times import parse_time
from nexusform.doubts.doubt import build_doubt_rows, is_doubt_row, read_doubt_rows
from nexusform.json_data.plain_data import (
    ConversionProblem,
    Path,
    convert_to_value,
    get_list,
    get_mapping,
    get_text,
)
from nexusform.json_data.secret_paths import add_secret_paths, find_secret_paths
from nexusform.resources.address import (
    Address,
    AddressProblem,
    ModulePath,
    compute_address_order,
    compute_key_sort_key,
    format_module,
    parse_pattern,
)
from nexusform.schemas.block_schema import BlockSchema
from nexusform.schemas.value_types import build_type_json, parse_type_json
from nexusform.state import json_codec, object_codec
from nexusform.state.attribute_validation import (
    NEWER_STATE,
    validate_attributes,
    validate_private_data,
    validate_schema_version,
)
from nexusform.state.earlier_keys import rename_earlier_keys
from nexusform.state.json_codec import build_ordered_object
from nexusform.state.objects import InstanceState, ObjectState, OutputState, State

FORMAT: Final = "nexusform"
KIND: Final = "state"
_MAX_ERRORS: Final = 20
_FIX_DOCUMENT: Final = "No changes were made. Fix the document."

_DOCUMENT_RULES: Final[Mapping[str, object_codec.MemberRule]] = {
    "format": object_codec.MemberRule(object_codec.is_text, "a string", is_required=True),
    "kind": object_codec.MemberRule(object_codec.is_text, "a string", is_required=True),
    "version": object_codec.MemberRule(object_codec.is_count, "a whole number", is_required=True),
    "nexusform_version": object_codec.MemberRule(object_codec.is_text, "a string"),
    "serial": object_codec.MemberRule(
        object_codec.is_count, "a whole number from 0", is_required=True
    ),
    "lineage": object_codec.MemberRule(object_codec.is_text, "a string", is_required=True),
    "catalogue": object_codec.MemberRule(object_codec.is_text, "a string"),
    "last_creation": object_codec.MemberRule(object_codec.is_count, "a whole number from 0"),
    "outputs": object_codec.MemberRule(object_codec.is_object, "an object"),
    "resources": object_codec.MemberRule(object_codec.is_list, "a list", is_required=True),
    "applied_plans": object_codec.MemberRule(object_codec.is_list_of_texts, "a list of digests"),
    "check_results": object_codec.MemberRule(object_codec.is_list_of_objects, "a list of objects"),
    "providers": object_codec.MemberRule(object_codec.is_object, "an object"),
    # Without a time, an older export would not be noticed.
    "exports": object_codec.MemberRule(
        lambda value: (
            object_codec.is_object_of_texts(value) and None not in map(parse_time, value.values())
        ),
        "an object of times, such as 2026-01-31T12:00:00Z",
    ),
    "unread": object_codec.MemberRule(
        lambda value: object_codec.is_list(value) and all(map(is_doubt_row, value)),
        "a list of unread facts: kind, name, field, file, line, influence, reason",
    ),
}
_RESOURCE_RULES: Final[Mapping[str, object_codec.MemberRule]] = {
    "module": object_codec.MemberRule(object_codec.is_text, "the address of a module instance"),
    "mode": object_codec.MemberRule(
        lambda value: value in ("managed", "data"), '"managed" or "data"', is_required=True
    ),
    "type": object_codec.MemberRule(
        object_codec.is_hcl_identifier, "the name of a resource type", is_required=True
    ),
    "name": object_codec.MemberRule(
        object_codec.is_hcl_identifier, "a resource's name", is_required=True
    ),
    "instances": object_codec.MemberRule(object_codec.is_list, "a list", is_required=True),
}
_INSTANCE_RULES: Final[Mapping[str, object_codec.MemberRule]] = {
    **object_codec.OBJECT_RULES,
    "index_key": object_codec.MemberRule(object_codec.is_key, "a string or a whole number from 0"),
    "deposed": object_codec.MemberRule(
        object_codec.is_nonempty_text, "the key of a deposed object"
    ),
}
_OUTPUT_RULES: Final[Mapping[str, object_codec.MemberRule]] = {
    "value": object_codec.MemberRule(lambda _: True, "a value", is_required=True),
    "type": object_codec.MemberRule(lambda _: True, "a type", is_required=True),
    "sensitive": object_codec.MemberRule(object_codec.is_flag, "true or false"),
}


# Converts members to the written form of an object.
ObjectBuilder: TypeAlias = Callable[[Mapping[str, Any]], Any]
# Builds the members of an object of a resource.
_MemberBuilder: TypeAlias = Callable[[ObjectState], dict[str, Any]]
CURRENT: Final = 2
_UNFOLDED: Final = 1


def encode_state(state: State) -> bytes:
    """Encode the state as an indented JSON document, with the same bytes for equal states."""
    return json_codec.render_document(
        build_ordered_object(
            _build_document(state, build_ordered_object, object_codec.build_folded_object_members)
        )
    )


def build_plain_document(state: State) -> dict[str, Any]:
    """Build the state's document as plain data.

    It shares the attributes of the state's objects.
    """
    return _build_document(state, dict, object_codec.build_object_members)


def _build_document(
    state: State, build_object: ObjectBuilder, build_members: _MemberBuilder
) -> dict[str, Any]:
    """Build the document of a state.

    It has one entry for each resource, in order of addresses, with all of its instances.
    """
    # Instances by resource.
    groups: dict[tuple[ModulePath, str, str, str], list[Address]] = {}
    for address in state.instances:
        groups.setdefault((address.module, address.mode, address.type, address.name), []).append(
            address
        )
    resources = []
    version = _UNFOLDED
    # All addresses of a group have the same order without the last part, the key.
    for addresses in sorted(
        groups.values(), key=lambda addresses: compute_address_order(addresses[0])[:-1]
    ):
        first = addresses[0]
        entry: dict[str, Any] = {"module": format_module(first.module)} if first.module else {}
        entry |= {"mode": first.mode, "type": first.type, "name": first.name}
        if len(addresses) > 1:
            addresses.sort(key=lambda address: compute_key_sort_key(address.key))
        entry["instances"] = []
        for address in addresses:
            for members in _build_instances(address, state.instances[address], build_members):
                if "folded_attributes" in members:
                    version = CURRENT
                entry["instances"].append(build_object(members))
        resources.append(build_object(entry))
    return {
        "format": FORMAT,
        "kind": KIND,
        "version": version,
        "nexusform_version": state.nexusform_version,
        "serial": state.serial,
        "lineage": state.lineage,
        "catalogue": state.catalogue,
        "last_creation": state.last_creation,
        "outputs": {name: build_output_members(output) for name, output in state.outputs.items()},
        "resources": resources,
        "applied_plans": state.applied_plans,
        "check_results": state.check_results,
        **(
            {"providers": {name: dict(entry) for name, entry in state.providers.items()}}
            if state.providers
            else {}
        ),
        **({"exports": dict(state.exports)} if state.exports else {}),
        **({"unread": build_doubt_rows(state.unread)} if state.unread else {}),
    }


def build_output_members(output: OutputState) -> dict[str, Any]:
    """Build the members of an output."""
    members = {"value": output.value, "type": build_type_json(output.type)}
    return members | {"sensitive": True} if output.sensitive else members


def _build_instances(
    address: Address, instance: InstanceState, build_members: _MemberBuilder
) -> list[dict[str, Any]]:
    """Build the members of an instance: its current object, then the deposed ones by key."""
    key_members: dict[str, Any] = {} if address.key is None else {"index_key": address.key}
    entries = []
    if instance.current is not None:
        entries.append(key_members | build_members(instance.current))
    for key, deposed in sorted(instance.deposed.items()):
        entries.append(key_members | {"deposed": key} | build_members(deposed))
    return entries


def decode_state(
    data: bytes,
    name: str,
    schemas: Mapping[str, BlockSchema] | None = None,
    remedy: str = _FIX_DOCUMENT,
) -> tuple[State | None, list[Diagnostic]]:
    """Decode a state document.

    Return the state, or None, and the diagnostics; `name` is its name in messages, and `remedy` is
    what to do about a damaged one. With `schemas` (by resource type) the attributes of resources
    are validated. Duplicate keys are an error: only one of their values would be read.
    """
    try:
        document = json_codec.parse_json(data)
    except json_codec.JsonProblem as problem:
        from nexusform.language.syntax.scanner import CharacterPositions

        text = json_codec.decode_text_for_display(data)
        offset = min(problem.offset, len(text))
        span = CharacterPositions(name, text).build_span(offset, min(offset + 1, len(text)))
        position = f"line {span.start.line}, column {span.start.column}"
        truncation_hint = " It looks cut off there." if offset >= len(text.rstrip()) else ""
        mistake = f"{problem.message}, at {position}.{truncation_hint}"
        detail = f"{name} is not valid JSON: {mistake} {remedy}"
        return None, [build_error("state-is-not-valid-json", detail, span)]
    state, problems = _decode_document(document, name, schemas or {}, lambda: data, remedy)
    # Without a state, INVALID means a wrong part. Other errors mean a foreign file or
    # a newer version.
    is_ours = state is not None or problems[0].id == object_codec.INVALID
    duplicate_keys = json_codec.find_duplicate_keys(data, document) if is_ours else []
    if not duplicate_keys:
        return state, problems
    key_list = ", ".join(f'"{key}"' for key in duplicate_keys)
    detail = (
        f"{name} contains duplicate keys in one object: {key_list}. Remove one of each. {remedy}"
    )
    return None, [build_error("inconsistent-state", detail), *problems]


def decode_plain_document(
    document: Any, name: str, remedy: str
) -> tuple[State | None, list[Diagnostic]]:
    """Decode a state document given as plain data, `name` and `remedy` in messages.

    Return the state (or None), and the problems.
    """
    # Without schemas, no attributes are validated; the text only locates problems.
    return _decode_document(
        document, name, {}, lambda: json_codec.render_json(document, indent=True), remedy
    )


def _decode_document(
    document: Any,
    name: str,
    schemas: Mapping[str, BlockSchema],
    get_text: Callable[[], bytes],
    remedy: str,
) -> tuple[State | None, list[Diagnostic]]:
    """Decode a document if its format is readable.

    `get_text` is called only to locate errors in the text.
    """
    rejection = _check_document_format(document, name)
    if rejection is not None:
        return None, [rejection]
    newer_objects = _list_newer_objects(document, schemas)
    if newer_objects:
        return None, _build_diagnostics_with_positions(
            newer_objects, get_text(), name, "No changes were made. Use a newer nexusform."
        )
    reader = _StateReader(schemas)
    state = reader.read_state(document)
    problems = (
        _build_diagnostics_with_positions(reader.problems, get_text(), name, remedy)
        if reader.problems
        else []
    )
    return state, problems


def _list_newer_objects(
    document: Mapping[str, Any], schemas: Mapping[str, BlockSchema]
) -> list[Problem]:
    """List the errors of objects with a newer schema; other invalid members are skipped.

    Their attributes are not validated: the schemas here do not fit them.
    """
    problems: list[Problem] = []
    for number, resource in enumerate(get_list(document, "resources")):
        entry = get_mapping(resource)
        # Data sources are read again.
        if entry.get("mode") != "managed" or get_text(entry, "type") not in schemas:
            continue
        for index, instance in enumerate(get_list(entry, "instances")):
            for problem in validate_schema_version(get_mapping(instance).get("schema_version")):
                path = ("resources", number, "instances", index, *problem.path)
                problems.append(replace(problem, path=path))
    return problems


def _check_document_format(document: Any, name: str) -> Diagnostic | None:
    """Return an error with the reason if this nexusform cannot read the document, else None."""
    if not object_codec.is_object(document):
        return _build_foreign_document_error(name, "It holds no JSON object.")
    if "format" not in document and (
        "terraform_version" in document or document.get("version") in (3, 4)
    ):
        remedy = "nexusform has its own state format; give nexusform another path."
        return _build_foreign_document_error(
            name, f"It is a state of Terraform or OpenTofu. {remedy}"
        )
    if document.get("format") != FORMAT:
        format_name = document.get("format")
        format_text = (
            f'Its "format" is "{format_name}"'
            if object_codec.is_text(format_name)
            else 'It has no "format"'
        )
        return _build_foreign_document_error(name, f'{format_text}; expected "{FORMAT}".')
    # Written by a version before the first release.
    if "kind" not in document:
        return build_development_file_error(name, "import the resources again")
    if document["kind"] != KIND:
        return _build_foreign_document_error(name, f'Its "kind" is not "{KIND}".')
    version = document.get("version")
    if not object_codec.is_count(version) or version == 0:
        return _build_foreign_document_error(name, 'Its "version" is not a whole number from 1.')
    if version > CURRENT:
        writer_version = document.get("nexusform_version")
        writer = (
            f" by nexusform {writer_version}"
            if object_codec.is_nonempty_text(writer_version)
            else ""
        )
        return build_error(
            NEWER_STATE,
            f"{name} was written{writer} as version {version} of the format; this nexusform reads "
            f"up to version {CURRENT}. Use a newer nexusform.",
        )
    return None


def _build_foreign_document_error(name: str, reason: str) -> Diagnostic:
    return build_error("not-a-nexusform-state", f"{name} cannot be used. {reason}")


def _build_diagnostics_with_positions(
    problems: list[Problem], data: bytes, name: str, remedy: str
) -> list[Diagnostic]:
    """Build diagnostics at the lines of the first problems.

    One more diagnostic has the number of the others.
    """
    from nexusform.language.syntax.scanner import CharacterPositions

    text = json_codec.decode_text_for_display(data)
    reported = problems[:_MAX_ERRORS]
    offsets = json_codec.locate_json_values(text, [problem.path for problem in reported])
    positions = CharacterPositions(name, text)
    diagnostics = []
    for problem in reported:
        offset = offsets[problem.path]
        span = positions.build_span(offset, min(offset + 1, len(text)))
        position = (
            f"line {span.start.line}, column {span.start.column} ({format_json_path(problem.path)})"
        )
        detail = f"{name}, {position}: {problem.detail} {remedy}"
        diagnostics.append(build_error(problem.id, detail, span))
    if len(problems) > len(reported):
        summary = f"{name} has {len(problems) - len(reported)} more errors of this kind."
        diagnostics.append(build_error(reported[0].id, summary))
    return diagnostics


def format_json_path(path: Path) -> str:
    """Format a JSON path: `resources[0].instances[2].creation`."""
    parts = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "".join(parts).removeprefix(".") or "the document"


class _StateReader:
    """Reader of a document of the current version; collects its errors."""

    def __init__(self, schemas: Mapping[str, BlockSchema]) -> None:
        """Start without objects.

        `schemas`, by resource type, validate the attributes of managed objects.
        """
        self.problems: list[Problem] = []
        self._schemas = schemas
        # Parsed addresses of module instances, by text.
        self._modules: dict[str, ModulePath] = {}
        self._objects: dict[Address, ObjectState] = {}  # current objects
        # Deposed objects, then by deposed key.
        self._deposed: dict[Address, dict[str, ObjectState]] = {}
        # Highest creation number so far.
        self._highest = 0

    def read_state(self, document: dict[str, Any]) -> State | None:
        """Return the whole state; None if there are errors (then in `problems`)."""
        object_codec.check_members(document, _DOCUMENT_RULES, path=(), problems=self.problems)
        entries = document.get("outputs", {})
        outputs = {}
        # Anything else was reported above.
        if object_codec.is_object(entries):
            for name, entry in entries.items():
                output = parse_output(entry, ("outputs", name), self.problems)
                if output is not None:
                    outputs[name] = output
        resources = document.get("resources", [])
        if object_codec.is_list(resources):
            for index, entry in enumerate(resources):
                self._add_resource_objects(entry, ("resources", index))
        if document.get("lineage") == "" and (outputs or self._objects or self._deposed):
            # A plan for an empty state would be accepted.
            message = (
                "A state with resources or outputs needs a lineage, and this one is empty. Write "
                "that of its backup, or a new UUID."
            )
            self.problems.append(object_codec.build_invalid_member_problem(("lineage",), message))
        if self.problems:
            # Each is reported.
            return None
        return State(
            lineage=document["lineage"],
            serial=document["serial"],
            nexusform_version=document.get("nexusform_version", ""),
            catalogue=document.get("catalogue", ""),
            instances=self._build_instances(),
            outputs=outputs,
            applied_plans=tuple(document.get("applied_plans", ())),
            # A number below a used one would be assigned twice; an edited document must
            # not cause that.
            last_creation=max(document.get("last_creation", 0), self._highest),
            check_results=tuple(document.get("check_results", ())),
            providers=document.get("providers", {}),
            exports=document.get("exports", {}),
            unread=tuple(read_doubt_rows(document.get("unread", ()))),
        )

    def _build_instances(self) -> dict[Address, InstanceState]:
        """Combine the objects read so far; an instance may have deposed objects alone."""
        instances = {address: InstanceState(current) for address, current in self._objects.items()}
        for address, deposed in self._deposed.items():
            instances[address] = InstanceState(self._objects.get(address), deposed)
        return instances

    def _add_resource_objects(self, entry: Any, path: Path) -> None:
        """Add the objects of one resource.

        The members of all of its instances are checked even after an error.
        """
        is_valid = object_codec.check_members(entry, _RESOURCE_RULES, path, self.problems)
        if not object_codec.is_object(entry) or not object_codec.is_list(entry.get("instances")):
            # `check_members` reports it.
            return
        module = self._parse_module(entry.get("module", ""), (*path, "module"))
        is_valid = is_valid and module is not None
        instances_path = (*path, "instances")
        for index, instance in enumerate(entry["instances"]):
            instance_path = (*instances_path, index)
            has_valid_members = object_codec.check_members(
                instance, _INSTANCE_RULES, instance_path, self.problems
            )
            if not has_valid_members or not is_valid:
                # Reported; without a valid resource there is no address.
                continue
            address = Address(
                module or (), entry["mode"], entry["type"], entry["name"], instance.get("index_key")
            )
            self._add_object(address, instance, instance_path)

    def _add_object(self, address: Address, entry: dict[str, Any], path: Path) -> None:
        """Add the object of an entry: deposed if it has a deposed key, else current.

        Report errors and duplicates.
        """
        for name in entry["attributes"].keys() & entry.get("folded_attributes", {}).keys():
            message = f'"{name}" is also a folded attribute.'
            self.problems.append(
                object_codec.build_invalid_member_problem((*path, "attributes", name), message)
            )
        object_state = object_codec.parse_object(entry)
        schema = self._schemas.get(address.type) if address.mode == "managed" else None
        if schema is not None:
            object_state = rename_earlier_keys(schema, object_state)
            for problem in validate_attributes(schema, object_state.attributes):
                location = (*path, "attributes", *problem.path)
                self.problems.append(
                    object_codec.build_invalid_member_problem(location, problem.detail)
                )
            for problem in validate_private_data(schema, object_state.private):
                self.problems.append(
                    object_codec.build_invalid_member_problem(
                        (*path, *problem.path), problem.detail
                    )
                )
            # A state of an earlier version has no marks of them.
            secrets = find_secret_paths(schema, object_state.attributes)
            sensitive = add_secret_paths(object_state.sensitive, secrets)
            if sensitive != object_state.sensitive:
                object_state = replace(object_state, sensitive=sensitive)
        self._highest = max(self._highest, object_state.creation)
        key = entry.get("deposed")
        # The current object.
        if key is None:
            if address in self._objects:
                self.problems.append(
                    object_codec.build_invalid_member_problem(
                        path, f"Duplicate object at {address}."
                    )
                )
            self._objects[address] = object_state
            return
        deposed = self._deposed.setdefault(address, {})
        if key in deposed:
            message = f'Duplicate deposed object at {address} with key "{key}".'
            self.problems.append(
                object_codec.build_invalid_member_problem((*path, "deposed"), message)
            )
        deposed[key] = object_state

    def _parse_module(self, text: Any, path: Path) -> ModulePath | None:
        """Parse the address of a module instance, "" for the root module; None after an error."""
        if text == "":
            return ()
        if not object_codec.is_text(text):
            # Already reported by the rule.
            return None
        cached = self._modules.get(text)
        if cached is not None:
            return cached
        try:
            pattern = parse_pattern(text)
        except AddressProblem as problem:
            self.problems.append(object_codec.build_invalid_member_problem(path, str(problem)))
            return None
        # The address of a resource.
        if pattern.type:
            message = f'"{text}" is not the address of a module instance.'
            self.problems.append(object_codec.build_invalid_member_problem(path, message))
            return None
        self._modules[text] = pattern.module
        return pattern.module


def parse_output(entry: Any, path: Path, problems: list[Problem]) -> OutputState | None:
    """Parse an output from its members; None if they are invalid.

    Errors are added to `problems`.
    """
    if not object_codec.check_members(entry, _OUTPUT_RULES, path, problems):
        return None  # reported
    try:
        output_type = parse_type_json(entry["type"])
    except (ValueError, TypeError, RecursionError):
        problems.append(
            object_codec.build_invalid_member_problem((*path, "type"), "This is not a type.")
        )
        return None
    try:
        # The value is converted only to check it.
        convert_to_value(entry["value"], output_type)
    except ConversionProblem as problem:
        message = f"The value is not of the output's type: {problem.message}."
        problems.append(
            object_codec.build_invalid_member_problem((*path, "value", *problem.path), message)
        )
        return None
    except (ValueError, OverflowError, RecursionError):
        message = "The value is not of the output's type."
        problems.append(object_codec.build_invalid_member_problem((*path, "value"), message))
        return None
    return OutputState(entry["value"], output_type, entry.get("sensitive", False))
