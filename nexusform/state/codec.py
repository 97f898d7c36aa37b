"""The state document: State to bytes and back.

The shape is that of OpenTofu's state version 4 with names of its own at the top. Equal states give equal
bytes: resources by module, mode, type and name, instances by key, values sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from nexusform.address import (
    Address,
    AddressProblem,
    ModulePath,
    address_order,
    key_order,
    module_text,
    parse_pattern,
)
from nexusform.diagnostics import Diagnostic, Problem, development_file, error
from nexusform.plain_data import ConversionProblem, Path, from_plain
from nexusform.schema import BlockSchema
from nexusform.state import json_text
from nexusform.state.conformity import misfits
from nexusform.state.json_text import in_order
from nexusform.state.object_codec import (
    INVALID,
    OBJECT_RULES,
    MemberRule,
    check_members,
    invalid,
    is_count,
    is_filled,
    is_flag,
    is_key,
    is_list,
    is_name,
    is_object,
    is_objects,
    is_text,
    is_texts,
    object_from_members,
    object_members,
)
from nexusform.state.objects import InstanceState, ObjectState, OutputState, State
from nexusform.value_types import Type, type_from_json, type_to_json

FORMAT: Final = "nexusform"
KIND: Final = "state"
_SHOWN: Final = 20
_MANY: Final = 50  # objects of a resource

_DOCUMENT_RULES: Final[Mapping[str, MemberRule]] = {
    "format": MemberRule(is_text, "a string", required=True),
    "kind": MemberRule(is_text, "a string", required=True),
    "version": MemberRule(is_count, "a whole number", required=True),
    "nexusform_version": MemberRule(is_text, "a string"),
    "serial": MemberRule(is_count, "a whole number from 0", required=True),
    "lineage": MemberRule(is_text, "a string", required=True),
    "catalogue": MemberRule(is_text, "a string"),
    "last_creation": MemberRule(is_count, "a whole number from 0"),
    "outputs": MemberRule(is_object, "an object"),
    "resources": MemberRule(is_list, "a list", required=True),
    "applied_plans": MemberRule(is_texts, "a list of digests"),
    "check_results": MemberRule(is_objects, "a list of objects"),
}
_RESOURCE_RULES: Final[Mapping[str, MemberRule]] = {
    "module": MemberRule(is_text, "the address of a module instance"),
    "mode": MemberRule(lambda value: value in ("managed", "data"), '"managed" or "data"', required=True),
    "type": MemberRule(is_name, "the name of a resource type", required=True),
    "name": MemberRule(is_name, "a resource's name", required=True),
    "instances": MemberRule(is_list, "a list", required=True),
}
_INSTANCE_RULES: Final[Mapping[str, MemberRule]] = {
    **OBJECT_RULES,
    "index_key": MemberRule(is_key, "a string or a whole number from 0"),
    "deposed": MemberRule(is_filled, "the key of a deposed object"),
}
_OUTPUT_RULES: Final[Mapping[str, MemberRule]] = {
    "value": MemberRule(lambda _: True, "a value", required=True),
    "type": MemberRule(lambda _: True, "a type", required=True),
    "sensitive": MemberRule(is_flag, "true or false"),
}


# --- writing -----------------------------------------------------------------------------------
_Conforms: TypeAlias = Callable[[BlockSchema, Mapping[str, Any]], bool]
Arranging: TypeAlias = Callable[[Mapping[str, Any]], Any]  # members to what is written as an object
CURRENT: Final = 1


def encode(state: State) -> bytes:
    """The state as an indented JSON document, the same bytes for equal states."""
    with json_text.collector_paused():
        return json_text.dumps_document(in_order(_document(state, in_order)))


def plain_document(state: State) -> dict[str, Any]:
    """The state's document as plain data. It holds the attributes of the state's objects, not copies."""
    return _document(state, dict)


def _document(state: State, arranged: Arranging) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "kind": KIND,
        "version": CURRENT,
        "nexusform_version": state.nexusform_version,
        "serial": state.serial,
        "lineage": state.lineage,
        "catalogue": state.catalogue,
        "last_creation": state.last_creation,
        "outputs": {name: output_members(output) for name, output in state.outputs.items()},
        "resources": _resources(state.instances, arranged),
        "applied_plans": state.applied_plans,
        "check_results": state.check_results,
    }


def output_members(output: OutputState) -> dict[str, Any]:
    """The members of an output."""
    members = {"value": output.value, "type": type_to_json(output.type)}
    return members | {"sensitive": True} if output.sensitive else members


def _resources(instances: Mapping[Address, InstanceState], arranged: Arranging) -> list[Any]:
    groups: dict[tuple[ModulePath, str, str, str], list[Address]] = {}
    for address in instances:
        group = (address.module, address.mode, address.type, address.name)
        if group in groups:
            groups[group].append(address)
        else:
            groups[group] = [address]
    resources = []
    for addresses in sorted(groups.values(), key=lambda addresses: address_order(addresses[0])[:-1]):
        first = addresses[0]
        entry: dict[str, Any] = {"module": module_text(first.module)} if first.module else {}
        entry |= {"mode": first.mode, "type": first.type, "name": first.name}
        if len(addresses) > 1:
            addresses.sort(key=lambda address: key_order(address.key))
        entry["instances"] = []
        for address in addresses:
            entry["instances"] += _instances(address, instances[address], arranged)
        resources.append(arranged(entry))
    return resources


def _instances(address: Address, instance: InstanceState, arranged: Arranging) -> list[Any]:
    head: dict[str, Any] = {} if address.key is None else {"index_key": address.key}
    entries = []
    if instance.current is not None:
        entries.append(arranged(head | object_members(instance.current)))
    if instance.deposed:
        entries += [
            arranged(head | {"deposed": key} | object_members(instance.deposed[key]))
            for key in sorted(instance.deposed)
        ]
    return entries


# --- reading -----------------------------------------------------------------------------------


def decode(
    data: bytes, name: str, schemas: Mapping[str, BlockSchema] | None = None
) -> tuple[State | None, list[Diagnostic]]:
    """The state of a document, or None and what is wrong with it; `name` is what to call it.

    With `schemas` (by resource type) the attributes of resources are looked at too.
    """
    with json_text.collector_paused():
        try:
            document = json_text.loads(data)
        except json_text.JsonProblem as problem:
            return None, [_not_json(problem, data, name)]
        state, problems = _read(document, name, schemas or {}, lambda: data)
        is_ours = state is not None or problems[0].id == INVALID
        twice = json_text.keys_written_twice(data, document) if schemas and is_ours else []
    return (None, [_twice(twice, name), *problems]) if twice else (state, problems)


def from_plain_document(document: Any, name: str) -> tuple[State | None, list[Diagnostic]]:
    """The state of a document that is plain data already, or None and what is wrong with it."""
    with json_text.collector_paused():
        return _read(document, name, {}, lambda: json_text.dumps(document, indent=True))


def _read(
    document: Any, name: str, schemas: Mapping[str, BlockSchema], text: Callable[[], bytes]
) -> tuple[State | None, list[Diagnostic]]:
    """The state of a document; `text` is asked for where mistakes are to be placed in it."""
    refusal = _refuse_foreign(document, name)
    if refusal is not None:
        return None, [refusal]
    reader = _StateReader(schemas)
    state = reader.state(document)
    return state, _explain(reader.mistakes, text(), name) if reader.mistakes else []


def _twice(keys: Sequence[str], name: str) -> Diagnostic:
    listed = ", ".join(f'"{key}"' for key in keys)
    detail = (
        f"In {name} keys stand twice in one object: {listed}. Which of the two counts is not said: take one "
        "out, or bring an earlier state back (`nexusform state history`)."
    )
    return error("the-state-contradicts-itself", detail)


def _refuse_foreign(document: Any, name: str) -> Diagnostic | None:
    """Why the document is not a state that this nexusform reads, or None."""
    if not is_object(document):
        return _foreign(name, "It holds no JSON object.")
    if "format" not in document and ("terraform_version" in document or document.get("version") in (3, 4)):
        return _foreign(
            name,
            "It is a state of Terraform or OpenTofu. nexusform keeps a state of its own; leave that file to "
            "the tool that wrote it and give nexusform another path.",
        )
    if document.get("format") != FORMAT:
        format_name = document.get("format")
        said = f'Its "format" is "{format_name}"' if is_text(format_name) else 'It has no "format"'
        return _foreign(name, f'{said}, where a state says "{FORMAT}".')
    if "kind" not in document:
        return development_file(name, "import the resources again")
    if document["kind"] != KIND:
        return _foreign(name, f'Its "kind" is not "{KIND}".')
    version = document.get("version")
    if not is_count(version) or version == 0:
        return _foreign(name, 'Its "version" is not a whole number from 1.')
    if version > CURRENT:
        by = document.get("nexusform_version")
        writer = f" by nexusform {by}" if is_filled(by) else ""
        return error(
            "state-of-a-newer-version",
            f"{name} was written{writer} as version {version} of the format; this nexusform reads up to "
            f"version {CURRENT}. Use the newer nexusform, or one that is newer still.",
        )
    return None


def _foreign(name: str, why: str) -> Diagnostic:
    return error("not-a-nexusform-state", f"{name} cannot be used. {why}")


def _way_out(name: str) -> str:
    return (
        "Nothing was changed. Mend the document, or go back to a backup: the local backend keeps the "
        f'previous version as "{name}.backup", other backends keep versions of their own.'
    )


def _not_json(problem: json_text.JsonProblem, data: bytes, name: str) -> Diagnostic:
    from nexusform.language.syntax.positions import Positions

    text = json_text.as_text(data)
    offset = min(problem.offset, len(text))
    span = Positions(name, text).span(offset, min(offset + 1, len(text)))
    where = f"line {span.start.line}, column {span.start.column}"
    torn = " It looks cut off there." if offset >= len(text.rstrip()) else ""
    detail = f"{name} is not valid JSON: {problem.message}, at {where}.{torn} {_way_out(name)}"
    return error("state-is-not-valid-json", detail, span)


def _explain(mistakes: list[Problem], data: bytes, name: str) -> list[Diagnostic]:
    from nexusform.language.syntax.positions import Positions

    text = json_text.as_text(data)
    shown = mistakes[:_SHOWN]
    offsets = json_text.locate(text, [mistake.path for mistake in shown])
    positions = Positions(name, text)
    diagnostics = []
    for mistake in shown:
        offset = offsets[mistake.path]
        span = positions.span(offset, min(offset + 1, len(text)))
        where = f"line {span.start.line}, column {span.start.column} ({path_text(mistake.path)})"
        detail = f"{name}, {where}: {mistake.detail} {_way_out(name)}"
        diagnostics.append(error(INVALID, detail, span))
    if len(mistakes) > len(shown):
        rest = f"{name} has {len(mistakes) - len(shown)} more mistakes of this kind."
        diagnostics.append(error(INVALID, rest))
    return diagnostics


def path_text(path: Path) -> str:
    """A JSON path as people write it: `resources[0].instances[2].creation`."""
    parts = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "".join(parts).removeprefix(".") or "the document"


def _conforms(number: int) -> _Conforms:
    """What looks at so many objects of a type before `misfits` does: it pays for many."""
    if number < _MANY:
        return lambda _schema, _attributes: False
    from nexusform.state.quick_conformity import conforms_at_once

    return conforms_at_once


class _StateReader:
    """Reads a document of the current version and collects what is wrong with it."""

    def __init__(self, schemas: Mapping[str, BlockSchema]) -> None:
        self.mistakes: list[Problem] = []
        self._schemas = schemas
        self._modules: dict[str, ModulePath] = {}
        self._objects: dict[Address, ObjectState] = {}
        self._deposed: dict[Address, dict[str, ObjectState]] = {}
        self._highest = 0

    def state(self, document: dict[str, Any]) -> State | None:
        """The whole state; None when there are mistakes."""
        check_members(document, _DOCUMENT_RULES, (), self.mistakes)
        entries = document.get("outputs", {})
        outputs = {}
        if is_object(entries):
            for name, entry in entries.items():
                output = read_output(entry, ("outputs", name), self.mistakes)
                if output is not None:
                    outputs[name] = output
        resources = document.get("resources", [])
        if is_list(resources):
            for index, entry in enumerate(resources):
                self._resource(entry, ("resources", index))
        if self.mistakes:
            return None
        return State(
            lineage=document["lineage"],
            serial=document["serial"],
            nexusform_version=document.get("nexusform_version", ""),
            catalogue=document.get("catalogue", ""),
            instances=self._instances(),
            outputs=outputs,
            applied_plans=tuple(document.get("applied_plans", ())),
            # A number below one that is taken would be given twice; an edited document must not.
            last_creation=max(document.get("last_creation", 0), self._highest),
            check_results=tuple(document.get("check_results", ())),
        )

    def _instances(self) -> dict[Address, InstanceState]:
        instances = {address: InstanceState(current) for address, current in self._objects.items()}
        for address, deposed in self._deposed.items():
            instances[address] = InstanceState(self._objects.get(address), deposed)
        return instances

    def _resource(self, entry: Any, path: Path) -> None:
        good = check_members(entry, _RESOURCE_RULES, path, self.mistakes)
        if not is_object(entry) or not is_list(entry.get("instances")):
            return
        module = self._module(entry.get("module", ""), (*path, "module"))
        good = good and module is not None
        inside = (*path, "instances")
        fits = _conforms(len(entry["instances"]))
        for index, instance in enumerate(entry["instances"]):
            if not check_members(instance, _INSTANCE_RULES, (*inside, index), self.mistakes) or not good:
                continue
            address = Address(
                module or (), entry["mode"], entry["type"], entry["name"], instance.get("index_key")
            )
            self._add(address, instance, (*inside, index), fits)

    def _add(self, address: Address, entry: dict[str, Any], path: Path, fits: _Conforms) -> None:
        object_state = object_from_members(entry)
        schema = self._schemas.get(address.type) if address.mode == "managed" else None
        if schema is not None and not fits(schema, object_state.attributes):
            for wrong in misfits(schema, object_state.attributes):
                self.mistakes.append(invalid((*path, "attributes", *wrong.path), wrong.detail))
        self._highest = max(self._highest, object_state.creation)
        key = entry.get("deposed")
        if key is None:
            if address in self._objects:
                self.mistakes.append(invalid(path, f"A second object stands at {address}."))
            self._objects[address] = object_state
            return
        deposed = self._deposed.setdefault(address, {})
        if key in deposed:
            message = f'A second deposed object stands at {address} under the key "{key}".'
            self.mistakes.append(invalid((*path, "deposed"), message))
        deposed[key] = object_state

    def _module(self, text: Any, path: Path) -> ModulePath | None:
        if text == "":
            return ()
        if not is_text(text):
            return None  # the rule has said so
        known = self._modules.get(text)
        if known is not None:
            return known
        try:
            pattern = parse_pattern(text)
        except AddressProblem as problem:
            self.mistakes.append(invalid(path, str(problem)))
            return None
        if pattern.type:
            self.mistakes.append(invalid(path, f'"{text}" is not the address of a module instance.'))
            return None
        self._modules[text] = pattern.module
        return pattern.module


def read_output(entry: Any, path: Path, mistakes: list[Problem]) -> OutputState | None:
    """The output of its members; None when they are wrong, which joins `mistakes`."""
    if not check_members(entry, _OUTPUT_RULES, path, mistakes):
        return None
    kind = read_type(entry["type"])
    if kind is None:
        mistakes.append(invalid((*path, "type"), "This is not a type."))
        return None
    try:
        from_plain(entry["value"], kind)
    except ConversionProblem as problem:
        message = f"The value is not of the output's type: {problem.message}."
        mistakes.append(invalid((*path, "value", *problem.path), message))
        return None
    except (ValueError, OverflowError, RecursionError):
        mistakes.append(invalid((*path, "value"), "The value is not of the output's type."))
        return None
    return OutputState(entry["value"], kind, entry.get("sensitive", False))


def read_type(data: Any) -> Type | None:
    """The type that JSON data stands for, or None when it stands for none."""
    try:
        return type_from_json(data)
    except (ValueError, TypeError, RecursionError):
        return None
