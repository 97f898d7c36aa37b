"""A fleet object as real YAML -> the plain data that the same object has when it is written as blocks.

Led by the kind's shape (fleet_shapes.py): whatever `kubectl apply`, the API's schema or its rules would
refuse is an error at its line. A lenient reading goes on where manifest_corrections.py has a correction,
and lists it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity, did_you_mean, nearest
from nexusform.documents.shapes import Fault, Holds, Objection, Shape, fault_of, size_fault
from nexusform.documents.text_places import TextPlace
from nexusform.documents.yaml_text import ELISION, Node, Notes, YamlDocument, read_yaml
from nexusform.domains.fleet.importers.fleet_shapes import METADATA, ApiKind, block_name
from nexusform.domains.fleet.importers.manifest_corrections import CorrectionList
from nexusform.domains.pods.importers.kubernetes_checks import metadata_problems
from nexusform.plain_data import Path
from nexusform.schema import BlockSchema, Nesting

INVALID: Final = "invalid-fleet-manifest"
_LONGEST_NAME: Final = 56
_LENIENTLY: Final = " lenient = true would read it."
# What stands above a condition: with one less of them, more is selected.
_CONDITIONS: Final = frozenset({"policy", "labelSelector", "clusterSelector"})
_HEAD: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
# A hub takes the old name, and finds no such property today.
OLD_NODE_COUNT: Final = "kubernetes.azure.com/node-count"
NODE_COUNT: Final = "kubernetes-fleet.io/node-count"
_TEXT: Final = Shape(Holds.TEXT)
_OTHER_NAMES: Final = {"metricSorter": "propertySorter"}


class FleetDocument(Struct, frozen=True):
    """One object: the arguments of its spec, where each part of them was written, and the parts that
    `findings` judge.
    """

    name: str = ""
    namespace: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[Path, TextPlace] = field(default_factory=dict)
    judged: frozenset[Path] = frozenset()
    findings: tuple[Problem, ...] = ()
    conditions: tuple[tuple[str, str], ...] = ()

    def is_true(self, condition: str) -> bool:
        """Whether its status has a condition of this type that is True."""
        return (condition, "True") in self.conditions

    def is_judged(self, path: Path) -> bool:
        """Whether enough is said about a part, or about something in it: who checks the arguments has nothing
        to add, as it saw no more than what was left.
        """
        if any(path[:length] in self.judged for length in range(len(path) + 1)):
            return True
        return len(path) > 1 and any(each[: len(path)] == path for each in self.judged)

    def line(self, path: Path) -> int:
        """The line of a value, or of the nearest part above it that was written; 0 = none."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.places:
                return self.places[path[:length]].line
        return 0


def read_fleet_document(
    file: str, content: str, api: ApiKind, schema: BlockSchema, *, lenient: bool = False
) -> FleetDocument:
    """Read the only object of a text. `schema` says what the arguments are called and what they are by
    default.
    """
    stream = read_yaml(file, content)
    findings = tuple(replace(problem, severity=Severity.ERROR) for problem in stream.findings)
    if len(stream.documents) == 1:
        return read_fleet_object(file, stream.documents[0], api, schema, lenient=lenient, before=findings)
    notes = Notes(file)
    if stream.documents:
        more = Node.of(stream.documents[1])
        text = (
            "one manifest holds one object; write a block for each, or read them with "
            'data "kubernetes_manifests".'
        )
        notes.error(more, INVALID, text)
    elif not findings:
        notes.error(TextPlace(1, 1), INVALID, f"the text holds no object; a {api.kind} is expected.")
    return FleetDocument(findings=(*findings, *notes.findings))


def read_fleet_object(
    file: str,
    document: YamlDocument,
    api: ApiKind,
    schema: BlockSchema,
    *,
    lenient: bool = False,
    before: tuple[Problem, ...] = (),
) -> FleetDocument:
    """Read one object of a text; `before` was found already and comes first."""
    root = Node.of(document)
    notes = Notes(file)
    if not isinstance(root.data, dict):
        notes.error(root, INVALID, f"this is no object; a {api.kind} is expected.")
        return FleetDocument(findings=(*before, *notes.findings))
    root = _as_meant(root, notes)
    version = _check_head(root, api, notes)
    reader = _ObjectReader(notes, CorrectionList(file, allowed=lenient), version)
    metadata = reader.head(root.at("metadata"))
    values: Mapping[str, Any] = {}
    if "spec" in root.data:
        values = reader.spec(root.at("spec"), api, schema)
    else:
        notes.error(root, INVALID, "spec is missing.")
        reader.judged.add(())
    return FleetDocument(
        name=metadata.get("name") or "",
        namespace=metadata.get("namespace") or "",
        values=values,
        places=reader.places,
        judged=frozenset(reader.judged),
        findings=(*before, *notes.findings, *reader.corrections.problems),
        conditions=tuple(
            (each.at("type").text, each.at("status").text) for each in root.at("status", "conditions").items()
        ),
    )


def _check_head(root: Node, api: ApiKind, notes: Notes) -> str:
    """Kind and version; the version."""
    version = root.at("apiVersion")
    group, _, short = version.text.rpartition("/")
    if group != api.group or short not in api.versions:
        known = " or ".join(f"{api.group}/{v}" for v in api.versions)
        text = f'apiVersion is "{version.text}"; a hub has {api.kind} as {known}.'
        notes.error(version, INVALID, text)
        short = api.versions[0]
    kind = root.at("kind")
    if kind.text != api.kind:
        notes.error(kind, INVALID, f'kind is "{kind.text}"; a {api.kind} is expected.')
    return short


def _as_meant(root: Node, notes: Notes) -> Node:
    """The object with its own keys as they should be spelled: nothing else is to be said because of one."""
    data: dict[str, Any] = {}
    places: dict[str | int, TextPlace] = {}
    for key, below in root.fields():
        near = "" if key in _HEAD else nearest(key, _HEAD)
        if key not in _HEAD:
            notes.error(below, INVALID, f'unknown field "{key}".{did_you_mean(key, _HEAD)}')
        if key in _HEAD or (near and near not in root.data):
            data[near or key], places[near or key] = below.data, below.place
    return Node(data, replace(root.place, children=places))


class _Part(Struct, frozen=True):
    """A node, where its value goes among the arguments, and the path to it in the API's words."""

    node: Node
    path: Path
    steps: str

    @property
    def name(self) -> str:
        """The path, or the end of it: the line is told anyway."""
        if len(self.steps) <= _LONGEST_NAME:
            return self.steps
        return ".".join(self.steps.split(".")[-2:])

    def at(self, key: str, name: str) -> _Part:
        """A field of it; `name` is that of the argument."""
        return _Part(self.node.at(key), (*self.path, name), f"{self.steps}.{key}")

    def item(self, index: int, position: int) -> _Part:
        """An item of it, which becomes the argument's item at a position."""
        return _Part(self.node.at(index), (*self.path, position), f"{self.steps}[{index}]")


class _ObjectReader:
    def __init__(self, notes: Notes, corrections: CorrectionList, version: str) -> None:
        self.notes = notes
        self.corrections = corrections
        self.version = version
        self.places: dict[Path, TextPlace] = {}
        self.judged: set[Path] = set()

    def head(self, metadata: Node) -> dict[str, Any]:
        """The metadata, as far as it is used."""
        part = _Part(metadata, ("metadata",), "metadata")
        values: dict[str, Any] = self._fields(part, METADATA, None)
        for node, path, detail in metadata_problems(metadata):
            self._refuse(_Part(node, ("metadata", *path), "metadata"), detail)
        return values

    def spec(self, node: Node, api: ApiKind, schema: BlockSchema) -> dict[str, Any]:
        """The arguments."""
        part = _Part(node, (), "spec")
        for key in api.needed_in.get(self.version, ()):
            if node.at(key).data is None:
                self._refuse(part, f"spec.{key} is missing, which {self.version} requires.")
        values = self._object(part, api.spec, schema)
        return values if isinstance(values, dict) else _absent(schema)

    # --- what is said ---

    def _refuse(self, part: _Part, detail: str) -> None:
        self.judged.add(part.path)
        self.notes.error(part.node, INVALID, detail)

    def _correct(self, correction: str, part: _Part, wrong: str, read: str) -> bool:
        """Whether the reading goes on; else what is wrong is an error."""
        if self.corrections.allowed:
            self.judged.add(part.path)
            self.corrections.made(correction, part.node.place, read)
            return True
        self._refuse(part, wrong + _LENIENTLY)
        return False

    def _is_left_out(self, part: _Part) -> bool:
        """Whether "..." stands in place of a value; it is said, as a correction where those are allowed."""
        if part.node.data != ELISION:
            return False
        wrong = f'{part.name} is "{ELISION}", which stands for something left out; write it out.'
        condition = any(step in _CONDITIONS for step in re.split(r"[.\[]", part.steps))
        correction = "left-out-condition" if condition else "left-out"
        self._correct(correction, part, wrong, f'{part.name}: "{ELISION}" counts as absent.')
        return True

    # --- values ---

    def _value(self, part: _Part, shape: Shape, schema: BlockSchema | None) -> Any:
        """The value of one part by its shape; None for what is absent or refused."""
        if shape.holds is Holds.ANY:
            return json.dumps(part.node.data, separators=(",", ":"), ensure_ascii=False)
        if part.node.data is None:
            if not shape.defaulted:
                self._refuse(part, f"{part.name} is null; give it a value or take the key out.")
            return None
        if self._is_left_out(part):
            return [] if shape.holds is Holds.LIST else None
        match shape.holds:
            case Holds.OBJECT:
                return self._object(part, shape, schema)
            case Holds.LIST:
                return self._list(part, shape, schema)
            case Holds.TEXTS:
                return self._texts(part)
        return self._scalar(part, shape)

    def _object(self, part: _Part, shape: Shape, schema: BlockSchema | None) -> Any:
        """A mapping by its shape; leniently, a list of one is read as it."""
        node = part.node
        if node.data == [ELISION]:
            self._is_left_out(_Part(node.at(0), part.path, part.steps))
            return None
        if isinstance(node.data, list) and len(node.data) == 1 and isinstance(node.data[0], dict):
            wrong = f"{part.name} must be a mapping, and a list stands here; take the dash away."
            read = f"{part.name}: the list of one is read as its mapping."
            self._correct("list-for-a-mapping", part, wrong, read)
            part = _Part(node.at(0), part.path, part.steps)
        elif not isinstance(node.data, dict):
            self._refuse(part, f"{part.name} must be a mapping.")
            return None
        return self._fields(part, shape, schema)

    def _fields(self, part: _Part, shape: Shape, schema: BlockSchema | None) -> dict[str, Any]:
        """The values of a mapping by our names; unknown keys, missing ones and broken rules are said."""
        self.places[part.path] = part.node.place
        values = _absent(schema) if schema is not None else {}
        written: dict[str, Any] = {}
        for key, node in part.node.fields():
            meant = self._meant(key, _Part(node, part.path, part.steps), shape)
            if meant is None and key not in shape.fields:
                # What is misspelt is there: nothing else is to be said because of it.
                near = nearest(key, shape.fields)
                meant = near if near and near not in part.node.data else None
            if meant is None:
                continue
            written[meant] = node.data
            name = block_name(meant, shape.fields[meant])
            below = _Part(node, (*part.path, name), f"{part.steps}.{key}")
            self.places[below.path] = node.place
            value = self._value(below, shape.fields[meant], _schema_below(schema, name))
            if value is not None:
                values[name] = value
        self._check_together(part, shape, written)
        return values

    def _check_together(self, part: _Part, shape: Shape, written: Mapping[str, Any]) -> None:
        """Say which keys of a mapping are missing, and what its rules object to."""
        for key, needed in shape.fields.items():
            if needed.required and key not in written:
                here = replace(part, path=(*part.path, block_name(key, needed)))
                self._refuse(here, f"{part.name}.{key} is missing.")
        for rule in shape.rules:
            for objection in rule(written):
                self._object_to(part, shape, objection)

    def _object_to(self, part: _Part, shape: Shape, objection: Objection) -> None:
        """Say what a rule of the shape objects to, at the key it names."""
        text = f"{part.name}: {objection.detail}"
        if objection.correction == "no-number-of-clusters":
            here = replace(part, path=(*part.path, "number_of_clusters"))
            read = f"{part.name}: PickN without a number asks for every eligible cluster."
            self._correct(objection.correction, here, text, read)
            return
        key = objection.key
        written = key in (part.node.data or ())
        where = part.at(key, block_name(key, shape.fields[key])) if written else part
        if where.path not in self.judged:
            self._refuse(where, text)

    def _meant(self, key: str, part: _Part, shape: Shape) -> str | None:
        """The field that a key stands for; None when there is none, which is said."""
        field_shape = shape.fields.get(key)
        if field_shape is not None:
            if field_shape.versions and self.version not in field_shape.versions:
                has = " and ".join(field_shape.versions)
                text = f'unknown field "{part.name}.{key}": {self.version} has none, {has} has it.'
                self.notes.error(part.node, INVALID, text)
                return None
            return key
        meant = _OTHER_NAMES.get(key, "")
        if meant in shape.fields:
            wrong = f'unknown field "{part.name}.{key}"; write {meant}.'
            known = replace(part, path=(*part.path, block_name(meant, shape.fields[meant])))
            return (
                meant
                if self._correct("metric-sorter", known, wrong, f'"{key}" is read as {meant}.')
                else None
            )
        near = did_you_mean(key, shape.fields) or f" Known here: {', '.join(shape.fields)}."
        self.notes.error(part.node, INVALID, f'unknown field "{part.name}.{key}".{near}')
        return None

    def _list(self, part: _Part, shape: Shape, schema: BlockSchema | None) -> list[Any]:
        """The items of a list; leniently, a mapping is read as its only item."""
        items_shape = shape.items
        assert items_shape is not None
        if isinstance(part.node.data, dict) and items_shape.holds is Holds.OBJECT:
            wrong = f'{part.name} must be a list, and a mapping stands here; put "- " before its first key.'
            read = f"{part.name}: the mapping is read as the only item of a list."
            self._correct("mapping-for-a-list", part, wrong, read)
            only = replace(part, path=(*part.path, 0))
            return [self._fields(only, items_shape, schema)]
        if not isinstance(part.node.data, list):
            self._refuse(part, f"{part.name} must be a list.")
            return []
        items: list[Any] = []
        for index in range(len(part.node.data)):
            item = part.item(index, len(items))
            self.places[item.path] = item.node.place
            value = self._value(item, items_shape, schema)
            if value is not None:
                items.append(value)
        too_many = size_fault(part.node.data, shape)
        if too_many:
            self._refuse(part, f"{part.name} {too_many}")
        return items

    def _texts(self, part: _Part) -> dict[str, str] | None:
        """A mapping of texts, such as labels."""
        if not isinstance(part.node.data, dict):
            self._refuse(part, f"{part.name} must be a mapping of texts.")
            return None
        entries = {}
        for key in part.node.data:
            below = part.at(key, key)
            self.places[below.path] = below.node.place
            value = None if self._is_left_out(below) else self._scalar(below, _TEXT)
            if value is not None:
                entries[key] = value
        return entries

    def _scalar(self, part: _Part, shape: Shape) -> Any:
        """A flag, a number or a text by its shape; leniently, a number or a boolean is read as the text that
        it is written as.
        """
        data = part.node.data
        fault = fault_of(data, shape, part.node.place.written)
        if fault is not None and fault.meant and self._reads_as_text(part, fault):
            data = fault.meant
            fault = fault_of(data, shape)
        if fault is not None:
            if not fault.meant:
                self._refuse(part, f"{part.name} {fault.detail}")
            if shape.choices:
                # What goes with a choice cannot be judged when there is none.
                self.judged.add(part.path[:-1])
            return None
        if data == OLD_NODE_COUNT and self.corrections.allowed:
            read = f"{data} is read as {NODE_COUNT} where no cluster has it."
            self.corrections.made("old-property-name", part.node.place, read)
        return str(data) if shape.holds is Holds.AMOUNT else data

    def _reads_as_text(self, part: _Part, fault: Fault) -> bool:
        """Whether the reading goes on with the text that is meant; else what is wrong is an error."""
        written = part.node.place.written or fault.meant
        read = f'{part.name}: {written} without quotes is read as "{fault.meant}".'
        return self._correct("unquoted-text", part, f"{part.name} {fault.detail}", read)


def _absent(schema: BlockSchema) -> dict[str, Any]:
    """The arguments of which nothing is written."""
    values: dict[str, Any] = {n: a.default for n, a in schema.attributes.items() if not a.computed}
    for name, block in schema.blocks.items():
        values[name] = None if block.nesting is Nesting.SINGLE else []
    return values


def _schema_below(schema: BlockSchema | None, name: str) -> BlockSchema | None:
    block = schema.blocks.get(name) if schema is not None else None
    return block.schema if block is not None else None
