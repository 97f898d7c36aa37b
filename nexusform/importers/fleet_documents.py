"""A fleet object as real YAML -> the plain data that the same object has when it is written as blocks.

Led by the block schema: `resourceSelectors` is the repeated block `resource_selector`. Slips that
printed examples have are read as they were meant, each with a warning at its line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field

from nexusform.diagnostics import Problem, did_you_mean
from nexusform.importers.yaml_text import ELISION, Node, Notes, TextPlace, read_yaml
from nexusform.plain_data import Path
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting
from nexusform.value_types import BOOL, NUMBER, ListType, MapType

INVALID: Final = "invalid-fleet-manifest"
SLIP: Final = "read-with-a-correction"
LEFT_OUT: Final = "part-of-the-manifest-is-left-out"
GROUP: Final = "placement.kubernetes-fleet.io"
VERSIONS: Final = ("v1", "v1beta1")
# Kubernetes writes these as a number or as text.
_AMOUNTS: Final = frozenset({"max_unavailable", "max_surge", "min_available", "max_concurrency"})
_ALIASES: Final = {"metric_sorter": "property_sorter"}


class FleetDocument(Struct, frozen=True):
    """One object: the arguments of its spec, and where each part of them was written."""

    name: str = ""
    namespace: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[Path, TextPlace] = field(default_factory=dict)
    findings: tuple[Problem, ...] = ()

    def line(self, path: Path) -> int:
        """The line of a value, or of the nearest part above it that was written; 0 = none."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.places:
                return self.places[path[:length]].line
        return 0


def read_fleet_document(
    file: str, content: str, kind: str, schema: BlockSchema, as_json: tuple[Attribute, ...] = ()
) -> FleetDocument:
    """Read the only object of a text. `as_json` are text arguments that hold any value as JSON."""
    stream = read_yaml(file, content)
    notes = Notes(file)
    for problem in stream.findings:
        notes.take(problem)
    if not stream.documents:
        if not stream.findings:
            notes.error(TextPlace(1, 1), INVALID, f"the text holds no object; a {kind} is expected.")
        return FleetDocument(findings=notes.findings)
    root = Node.of(stream.documents[0])
    if len(stream.documents) > 1:
        more = Node.of(stream.documents[1])
        notes.error(more, INVALID, "one manifest holds one object; write a block for each.")
    if not isinstance(root.data, dict):
        notes.error(root, INVALID, f"this is no object; a {kind} is expected.")
        return FleetDocument(findings=notes.findings)
    _check_head(root, kind, notes)
    reader = _ObjectReader(notes, as_json)
    values = reader.body(root.at("spec"), schema, ())
    metadata = root.at("metadata")
    name, namespace = metadata.at("name"), metadata.at("namespace")
    if not name.text:
        notes.error(name, INVALID, "metadata.name is missing (a text).")
    return FleetDocument(name.text, namespace.text, values, reader.places, notes.findings)


def _check_head(root: Node, kind: str, notes: Notes) -> None:
    version = root.at("apiVersion")
    group, _, short = version.text.rpartition("/")
    if group != GROUP or short not in VERSIONS:
        known = " or ".join(f"{GROUP}/{v}" for v in VERSIONS)
        notes.error(version, INVALID, f'apiVersion is "{version.text}"; {known} is read here.')
    written = root.at("kind")
    if written.text != kind:
        notes.error(written, INVALID, f'kind is "{written.text}"; a {kind} is expected.')


class _ObjectReader:
    def __init__(self, notes: Notes, as_json: tuple[Attribute, ...]) -> None:
        self.notes = notes
        self.as_json = as_json
        self.places: dict[Path, TextPlace] = {}

    def body(self, node: Node, schema: BlockSchema, path: Path) -> dict[str, Any]:
        self.places[path] = node.place
        values: dict[str, Any] = {n: a.default for n, a in schema.attributes.items() if not a.computed}
        for name, block in schema.blocks.items():
            values[name] = None if block.nesting is Nesting.SINGLE else []
        if node.data == ELISION:
            self._elided(node)
        elif node.data is not None and not isinstance(node.data, dict):
            self.notes.error(node, INVALID, "a mapping is expected here.")
        for key, below in node.fields():
            self._field(key, below, schema, path, values)
        for name, attribute in schema.attributes.items():
            if attribute.required and values[name] is None:
                self.notes.error(node, INVALID, f"{_camel(name)} is missing.")
        return values

    def _field(self, key: str, node: Node, schema: BlockSchema, path: Path, values: dict[str, Any]) -> None:
        name = _known_name(key, schema)
        if name is None:
            near = did_you_mean(key, [_camel(n) for n in (*schema.attributes, *schema.blocks)])
            self.notes.warn(node, LEFT_OUT, f'"{key}" is not known here and is left out.{near}')
            return
        if node.data is None:
            return
        meant = _ALIASES.get(name, name)
        if meant != name:
            self.notes.warn(node, SLIP, f'"{key}" is read as "{_camel(meant)}".')
        here = (*path, meant)
        self.places[here] = node.place
        if name in schema.attributes:
            value = self._value(node, meant, schema.attributes[name], here)
            if value is not None:
                values[meant] = value
        else:
            values[meant] = self._block(node, key, schema.blocks[meant], here)

    # --- blocks ---

    def _block(self, node: Node, key: str, block: NestedBlock, path: Path) -> Any:
        if block.nesting is Nesting.SINGLE:
            return self._single(node, key, block, path)
        if node.data == ELISION:
            self._elided(node)
            return []
        if isinstance(node.data, dict):
            self.notes.warn(node, SLIP, f'"{key}" is a list; the mapping here is read as its only item.')
            return [self.body(node, block.schema, (*path, 0))]
        if not isinstance(node.data, list):
            self.notes.error(node, INVALID, f'"{key}" must be a list.')
            return []
        blocks: list[Any] = []
        for item in node.items():
            if item.absent:
                self._elided(item)
                continue
            blocks.append(self.body(item, block.schema, (*path, len(blocks))))
        return blocks

    def _single(self, node: Node, key: str, block: NestedBlock, path: Path) -> Any:
        if node.data in (ELISION, [ELISION]):
            self._elided(node)
            return None
        if isinstance(node.data, list):
            if len(node.data) != 1:
                self.notes.error(node, INVALID, f'"{key}" is one mapping, and a list stands here.')
                return None
            self.notes.warn(node, SLIP, f'"{key}" is one mapping; the list of one here is read as that.')
            node = node.at(0)
            if node.absent:
                self._elided(node)
                return None
        return self.body(node, block.schema, path)
        # An empty mapping is a written one: an empty selector selects everything.

    def _elided(self, node: Node) -> None:
        self.notes.warn(node, LEFT_OUT, f'"{ELISION}" stands for something left out; it counts as absent.')

    # --- values ---

    def _value(self, node: Node, name: str, attribute: Attribute, path: Path) -> Any:
        if any(attribute is known for known in self.as_json):
            return json.dumps(node.data, separators=(",", ":"), ensure_ascii=False)
        if node.data == ELISION:
            self._elided(node)
            return None
        kind = attribute.type
        if isinstance(kind, ListType):
            return self._texts(node, name, path)
        if isinstance(kind, MapType):
            return self._map(node, name, path)
        if kind is NUMBER:
            return self._number(node, name, attribute)
        if kind is BOOL:
            if not isinstance(node.data, bool):
                self.notes.error(node, INVALID, f"{_camel(name)} must be true or false.")
                return None
            return node.data
        value = self._text(node, name)
        if value is not None and attribute.choices and value not in attribute.choices:
            listed = ", ".join(attribute.choices)
            near = did_you_mean(value, attribute.choices)
            self.notes.error(node, INVALID, f'{_camel(name)} is "{value}"; it must be one of {listed}.{near}')
            return None
        return value

    def _text(self, node: Node, name: str, key: str = "") -> str | None:
        data, shown = node.data, key or _camel(name)
        if isinstance(data, str):
            return data
        if isinstance(data, (dict, list)) or data is None:
            self.notes.error(node, INVALID, f"{shown} must be a text.")
            return None
        written = json.dumps(data)
        if name not in _AMOUNTS:
            self.notes.warn(node, SLIP, f'{shown} is {written} without quotes; read as "{written}".')
        return written

    def _texts(self, node: Node, name: str, path: Path) -> list[str]:
        if not isinstance(node.data, list):
            self.notes.error(node, INVALID, f"{_camel(name)} must be a list of texts.")
            return []
        texts: list[str] = []
        for item in node.items():
            if item.absent:
                self._elided(item)
                continue
            value = self._text(item, name)
            if value is not None:
                self.places[*path, len(texts)] = item.place
                texts.append(value)
        return texts

    def _map(self, node: Node, name: str, path: Path) -> dict[str, str] | None:
        if not isinstance(node.data, dict):
            self.notes.error(node, INVALID, f"{_camel(name)} must be a mapping of texts.")
            return None
        entries = {}
        for key, below in node.fields():
            value = self._text(below, name, key) if below.data is not None else ""
            if value is not None:
                self.places[*path, key] = below.place
                entries[key] = value
        return entries

    def _number(self, node: Node, name: str, attribute: Attribute) -> int | None:
        number = node.number
        if number is None and isinstance(node.data, str) and re.fullmatch(r"-[0-9]{1,18}", node.data):
            number = int(node.data)
        if number is None:
            self.notes.error(node, INVALID, f"{_camel(name)} must be a whole number.")
            return None
        if isinstance(node.data, str):
            self.notes.warn(node, SLIP, f"{_camel(name)} is a text; read as the number {number}.")
        low, high = attribute.minimum, attribute.maximum
        if (low is not None and number < low) or (high is not None and number > high):
            bounds = f"{low} or more" if high is None else f"from {low} to {high}"
            self.notes.error(node, INVALID, f"{_camel(name)} must be {bounds}, not {number}.")
            return None
        return number


def _known_name(key: str, schema: BlockSchema) -> str | None:
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", key).lower()
    for name in _forms(snake):
        if name in schema.blocks or (name in schema.attributes and schema.attributes[name].configurable):
            return name
    return None


def _forms(snake: str) -> Iterator[str]:
    yield snake
    if snake.endswith("s"):
        yield snake[:-1]


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
