"""Objects of Kubernetes' own kinds beside their schema: what `kubectl apply` refuses of keys and of values.

An unknown key, and a value of another kind than the field holds (a number where a text belongs). Custom
resources have schemas that nobody here knows: they are let pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity, did_you_mean, nearest
from nexusform.documents.shapes import Holds
from nexusform.documents.yaml_text import ELISION, Node, YamlDocument, problem_at
from nexusform.domains.pods.importers.kubernetes_checks import CHECKS, metadata_problems
from nexusform.domains.pods.importers.kubernetes_manifests import INVALID, Manifest, is_envelope, unwrapped
from nexusform.domains.pods.importers.kubernetes_rules import (
    FORMS,
    FieldRule,
    field_rules,
    name_problem,
)
from nexusform.domains.pods.importers.manifest_corrections import CorrectionList
from nexusform.kubernetes.matching import dns_label_problems
from nexusform.kubernetes.quantity import Malformed, parse_quantity

_MOST_KNOWN: Final = 12


class _Schemas(Struct, frozen=True):
    # The type of each kind, and of each type what its fields hold, in the words of kubernetes_fields.py.
    kinds: Mapping[str, str]
    types: Mapping[str, Mapping[str, str]]


@cache
def _schemas() -> _Schemas:
    """The table, read once, where there is any object of these kinds."""
    from nexusform.domains.pods.importers import kubernetes_fields as table

    kinds = (line.rpartition(" ") for line in table.KINDS.splitlines())
    types = {}
    for line in table.TYPES.splitlines():
        name, *fields = line.split(" ")
        types[name] = dict(field.split("=", 1) for field in fields)
    return _Schemas({kind: name for kind, _, name in kinds}, types)


def schema_problems(manifest: Manifest, corrections: CorrectionList) -> Iterator[Problem]:
    """What the API refuses of an object. What is in an envelope is applied without a look at its keys: there
    it is told as a warning.
    """
    if is_envelope(manifest):
        for inner in unwrapped([manifest]).manifests:
            for problem in _problems(inner, corrections):
                text = f"{problem.detail} A hub takes it as it is, and the member drops or refuses it."
                yield problem_at(manifest.file, inner.place, INVALID, text, Severity.WARNING)
        return
    yield from _problems(manifest, corrections)


def _problems(manifest: Manifest, corrections: CorrectionList) -> Iterator[Problem]:
    """What is wrong with a manifest of a kind in the table; nothing is said of other kinds."""
    version = f"{manifest.group}/{manifest.version}" if manifest.group else manifest.version
    name = _schemas().kinds.get(f"{version} {manifest.kind}")
    if name is None:
        return
    reader = _Reader(manifest, corrections)
    root = Node.of(YamlDocument(manifest.body, manifest.place))
    yield from reader.value(root, name, "")
    yield from reader.head(root.at("metadata"))


_UNLESS: Final = "An API server refuses that, unless a webhook of the hub fills it in."


class _Reader:
    def __init__(self, manifest: Manifest, corrections: CorrectionList) -> None:
        self._manifest = manifest
        self._corrections = corrections
        self._types = _schemas().types
        self._misspelt = 0  # keys so far that there are not

    def value(self, node: Node, holds: str, path: str) -> Iterator[Problem]:
        """A value beside what its field holds; null counts as absent."""
        data = node.data
        if data is None or holds == "a" or (data == ELISION and self._corrections.allowed):
            return
        is_object = holds in self._types
        needed = Holds.OBJECT if is_object else _CONTAINERS.get(holds[0])
        if needed is None:
            yield from self._scalar(node, holds, path)
        elif not needed.fits(data):
            yield self._refuse(node, f"{path or 'the object'} must be {needed.value}.")
        elif is_object:
            yield from self._object(node, holds, path)
        else:
            inside = self._list if needed is Holds.LIST else self._mapping
            yield from inside(node, holds[1:], path)

    def _list(self, node: Node, holds: str, path: str) -> Iterator[Problem]:
        for number, item in enumerate(node.items()):
            yield from self.value(item, holds, f"{path}[{number}]")

    def _mapping(self, node: Node, holds: str, path: str) -> Iterator[Problem]:
        for key, below in node.fields():
            yield from self.value(below, holds, f"{path}.{key}")

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

    def _object(self, node: Node, holds: str, path: str) -> Iterator[Problem]:
        """A mapping: its fields first, then what they must be together."""
        before = self._misspelt
        yield from self._fields(node, holds, path)
        check = CHECKS.get(holds)
        # Of what is misspelt below nothing follows.
        if check is not None and self._misspelt == before:
            for below, end, detail in check(node):
                refuse = self._miss if below.absent else self._refuse
                yield refuse(below, f"{path}{end} {detail}")

    def _fields(self, node: Node, holds: str, path: str) -> Iterator[Problem]:
        """Unknown fields, wrong values, and fields that are missing."""
        fields, rules = self._types[holds], field_rules().get(holds, {})
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
            if key in rules and not problems and below.data is not None:
                yield from self._ruled(below, rules[key], inner)
        for key, rule in rules.items():
            if rule.required and key not in written:
                yield self._miss(node.at(key), f"{path}.{key} is missing." if path else f"{key} is missing.")

    def _ruled(self, node: Node, rule: FieldRule, path: str) -> Iterator[Problem]:
        """A value beside what the table asks of it; of a list or mapping every item."""
        if isinstance(node.data, list):
            for number, item in enumerate(node.items()):
                yield from self._ruled(item, rule, f"{path}[{number}]")
        elif isinstance(node.data, dict):
            for key, below in node.fields():
                yield from self._ruled(below, rule, f"{path}.{key}")
        elif rule.choices or rule.least is not None or rule.form:
            yield from self._scalar_rule(node, rule, path)

    def _scalar_rule(self, node: Node, rule: FieldRule, path: str) -> Iterator[Problem]:
        """A value that is of the right type, and not one of the choices, in bounds or of the right form."""
        data = node.data
        if data == "" or (data == ELISION and self._corrections.allowed):
            return
        if rule.choices and data not in rule.choices:
            near = did_you_mean(data, rule.choices) if isinstance(data, str) else ""
            listed = ", ".join(rule.choices)
            yield self._refuse(node, f'{path} is "{data}"; it must be one of {listed}.{near}')
        elif rule.least is not None and rule.most is not None and not rule.least <= data <= rule.most:
            yield self._refuse(node, f"{path} must be {rule.least} to {rule.most}, not {data}.")
        elif rule.form and data is not None:
            wrong = FORMS[rule.form](data)
            if wrong:
                yield self._refuse(node, f'{path} is "{data}": {wrong}.')

    def _scalar(self, node: Node, holds: str, path: str) -> Iterator[Problem]:
        """A value of the wrong type; leniently, a text without quotes is read as one."""
        is_right, kind = _SCALARS[holds]
        if is_right(node.data):
            return
        if self._manifest.kind == "Secret":  # what it holds is not for the screen
            yield self._refuse(node, f"{path} must be {kind}.")
            return
        plain = not isinstance(node.data, dict | list)
        if holds == "s" and plain:
            written = str(node.data).lower() if isinstance(node.data, bool) else str(node.data)
            detail = f'{path} must be a text; write "{node.place.written or written}", with quotes.'
            if self._corrections.allowed:
                read = f'{path}: {written} without quotes is read as "{written}".'
                self._corrections.made("unquoted-text", node.place, read)
                return
        elif isinstance(node.data, str) and _unquoted(node.data, is_right):
            detail = f"{path} must be {kind}; write {node.data}, without quotes."
        else:
            shown = f', not "{node.data}"' if isinstance(node.data, str) else ""
            detail = f"{path} must be {kind}{shown}."
        yield self._refuse(node, detail)

    def _refuse(self, node: Node, detail: str) -> Problem:
        return problem_at(self._manifest.file, node.place, INVALID, f"{self._manifest.title}: {detail}")

    def _miss(self, node: Node, detail: str) -> Problem:
        # What is left out may be filled in on the hub, by a webhook that the API server asks first.
        return replace(self._refuse(node, f"{detail} {_UNLESS}"), severity=Severity.WARNING)


def _is_quantity(data: Any) -> bool:
    if Holds.TEXT.fits(data):
        return not isinstance(parse_quantity(data), Malformed)
    return Holds.NUMBER.fits(data)


# By the mark of the table: what is right, and what to say it must be.
_CONTAINERS: Final = {"[": Holds.LIST, "{": Holds.OBJECT}
_MARKS: Final = {"s": Holds.TEXT, "i": Holds.WHOLE, "n": Holds.NUMBER, "b": Holds.FLAG, "x": Holds.AMOUNT}
_SCALARS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    **{mark: (holds.fits, holds.value) for mark, holds in _MARKS.items()},
    "q": (_is_quantity, "a quantity such as 500m or 2Gi"),
}


def _unquoted(text: str, is_right: Callable[[Any], bool]) -> bool:
    """Whether a text without its quotes would be right."""
    if text in ("true", "false"):
        return is_right(text == "true")
    return text.removeprefix("-").isdecimal() and is_right(0)
