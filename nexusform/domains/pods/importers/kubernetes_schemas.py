"""Objects of Kubernetes' own kinds beside their schema: what `kubectl apply` refuses of keys and of values.

An unknown key, and a value of another kind than the field holds (a number where a text belongs). Custom
resources have schemas that nobody here knows: they are let pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity, did_you_mean, nearest
from nexusform.documents.shapes import Holds, Shape, fault_of
from nexusform.documents.yaml_text import Node, YamlDocument, problem_at
from nexusform.domains.pods.importers.kubernetes_checks import CHECKS, metadata_problems
from nexusform.domains.pods.importers.kubernetes_manifests import INVALID, Manifest, is_envelope, unwrapped
from nexusform.domains.pods.importers.kubernetes_rules import (
    field_rules,
    name_problem,
    quantity_form,
)
from nexusform.kubernetes.matching import dns_label_problems

_MOST_KNOWN: Final = 12


_SCALARS: Final = {
    "s": Holds.TEXT,
    "i": Holds.WHOLE,
    "n": Holds.NUMBER,
    "b": Holds.FLAG,
    "q": Holds.QUANTITY,
    "x": Holds.AMOUNT,
    "a": Holds.ANY,
}
_CONTAINERS: Final = {"[": Holds.LIST, "{": Holds.OBJECT}
_NO_RULE: Final = Shape(Holds.ANY)
_QUANTITY: Final = Shape(Holds.QUANTITY, form=quantity_form)


class _Schemas(Struct, frozen=True):
    # The shape of each kind, and of each type what its fields hold, in the words of kubernetes_fields.py.
    kinds: Mapping[str, Shape]
    types: Mapping[str, Mapping[str, str]]


@cache
def _schemas() -> _Schemas:
    """The table, read once, where there is any object of these kinds."""
    from nexusform.domains.pods.importers import kubernetes_fields as table

    kinds = {}
    for line in table.KINDS.splitlines():
        kind, _, type_name = line.rpartition(" ")
        kinds[kind] = Shape(Holds.OBJECT, type=type_name)
    types = {}
    for line in table.TYPES.splitlines():
        name, *fields = line.split(" ")
        types[name] = dict(field.split("=", 1) for field in fields)
    return _Schemas(kinds, types)


@cache
def _fields_of(type_name: str) -> Mapping[str, Shape]:
    """The fields of a type, when it is first met."""
    rules = field_rules().get(type_name, {})
    fields = _schemas().types[type_name]
    return {name: _shape_of(holds, rules.get(name, _NO_RULE)) for name, holds in fields.items()}


def _shape_of(holds: str, rule: Shape) -> Shape:
    """The shape of a field: what it holds, in the words of the table, and what is asked of it beyond that,
    or of its items.
    """
    mark = holds[0]
    if mark in _CONTAINERS:
        return Shape(_CONTAINERS[mark], items=_shape_of(holds[1:], rule))
    if holds not in _SCALARS:
        return Shape(Holds.OBJECT, type=holds)
    if holds == "q" and rule.form is None:
        return _QUANTITY
    return replace(rule, holds=_SCALARS[holds])


def schema_problems(manifest: Manifest) -> Iterator[Problem]:
    """What the API refuses of an object. What is in an envelope is applied without a look at its keys: there
    it is told as a warning.
    """
    if is_envelope(manifest):
        for inner in unwrapped([manifest]).manifests:
            for problem in _problems(inner):
                text = f"{problem.detail} A hub takes it as it is, and the member drops or refuses it."
                yield problem_at(manifest.file, inner.place, INVALID, text, Severity.WARNING)
        return
    yield from _problems(manifest)


def _problems(manifest: Manifest) -> Iterator[Problem]:
    """What is wrong with a manifest of a kind in the table; nothing is said of other kinds."""
    version = f"{manifest.group}/{manifest.version}" if manifest.group else manifest.version
    shape = _schemas().kinds.get(f"{version} {manifest.kind}")
    if shape is None:
        return
    reader = _Reader(manifest)
    root = Node.of(YamlDocument(manifest.body, manifest.place))
    yield from reader.value(root, shape, "")
    yield from reader.head(root.at("metadata"))


_UNLESS: Final = "An API server refuses that, unless a webhook of the hub fills it in."


class _Reader:
    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._misspelt = 0  # keys so far that there are not

    def value(self, node: Node, shape: Shape, path: str) -> Iterator[Problem]:
        """A value beside its shape; null counts as absent."""
        data = node.data
        if data is None or shape.holds is Holds.ANY:
            return
        if shape.items is None and not shape.type:
            yield from self._scalar(node, shape, path)
        elif not shape.holds.fits(data):
            yield self._refuse(node, f"{path or 'the object'} must be {shape.holds.value}.")
        elif shape.type:
            yield from self._object(node, shape.type, path)
        else:
            yield from self._items(node, shape, path)

    def _items(self, node: Node, shape: Shape, path: str) -> Iterator[Problem]:
        """The items of a list, or of a mapping whose keys are free."""
        assert shape.items is not None
        if shape.holds is Holds.LIST:
            for number, item in enumerate(node.items()):
                # One that is null is nothing: of a list of words it is none of them.
                is_word = item.data is None and bool(shape.items.choices)
                read = self._scalar if is_word else self.value
                yield from read(item, shape.items, f"{path}[{number}]")
        for key, below in node.fields():
            yield from self.value(below, shape.items, f"{path}.{key}")

    def head(self, metadata: Node) -> Iterator[Problem]:
        """The object's own names and labels."""
        kind, name = self._manifest.kind, self._manifest.name
        wrong = name_problem(kind, name)
        if wrong:
            yield self._refuse(metadata.at("name"), f'metadata.name is "{name}": {wrong}.')
        namespace = self._manifest.namespace
        for problem in dns_label_problems(namespace) if namespace else ():
            yield self._refuse(metadata.at("namespace"), f'metadata.namespace is "{namespace}": {problem}.')
        for node, _, detail in metadata_problems(metadata):
            yield self._refuse(node, detail)

    def _object(self, node: Node, type_name: str, path: str) -> Iterator[Problem]:
        """A mapping: its fields first, then what they must be together."""
        before = self._misspelt
        yield from self._fields(node, type_name, path)
        check = CHECKS.get(type_name)
        # Of what is misspelt below nothing follows.
        if check is not None and self._misspelt == before:
            for below, end, detail in check(node):
                refuse = self._miss if below.absent else self._refuse
                yield refuse(below, f"{path}{end} {detail}")

    def _fields(self, node: Node, type_name: str, path: str) -> Iterator[Problem]:
        """Unknown fields, wrong values, and fields that are missing."""
        fields = _fields_of(type_name)
        written: set[str] = set()
        for key, below in node.fields():
            inner = f"{path}.{key}" if path else key
            if key not in fields:
                known = f" Known here: {', '.join(fields)}." if len(fields) <= _MOST_KNOWN else ""
                near = did_you_mean(key, fields) or known
                # What is misspelt is there: nothing else is to be said because of it.
                written.add(nearest(key, fields) or "")
                self._misspelt += 1
                yield self._refuse(below, f'unknown field "{inner}".{near}')
                continue
            problems = [*self.value(below, fields[key], inner)]
            yield from problems
            if problems or below.data not in (None, "", [], {}):
                written.add(key)
        for key, rule in field_rules().get(type_name, {}).items():
            if rule.required and key not in written:
                yield self._miss(node.at(key), f"{path}.{key} is missing." if path else f"{key} is missing.")

    def _scalar(self, node: Node, shape: Shape, path: str) -> Iterator[Problem]:
        """A value that is no mapping and no list."""
        data = node.data
        if data == "" and shape.holds in (Holds.TEXT, Holds.AMOUNT):
            return
        fault = fault_of(data, shape, node.place.written)
        is_secret = self._manifest.kind == "Secret"  # what it holds is not for the screen
        if fault is not None:
            detail = f"must be {shape.holds.value}." if is_secret else fault.detail
            yield self._refuse(node, f"{path} {detail}")

    def _refuse(self, node: Node, detail: str) -> Problem:
        return problem_at(self._manifest.file, node.place, INVALID, f"{self._manifest.title}: {detail}")

    def _miss(self, node: Node, detail: str) -> Problem:
        # What is left out may be filled in on the hub, by a webhook that the API server asks first.
        return replace(self._refuse(node, f"{detail} {_UNLESS}"), severity=Severity.WARNING)
