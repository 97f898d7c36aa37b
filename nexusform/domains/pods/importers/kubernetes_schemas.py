"""Validation of objects of Kubernetes' own kinds against their schemas, like `kubectl apply`. Reports unknown
keys and values of the wrong type. Custom resources have unknown schemas and are accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity, find_nearest_name, suggest_name
from nexusform.documents.field_validation import FieldKind, FieldShape, validate_value
from nexusform.documents.yaml_documents import Node, YamlDocument, build_problem
from nexusform.domains.pods.importers.kubernetes_cross_field_checks import CHECKS, list_metadata_problems
from nexusform.domains.pods.importers.kubernetes_field_rules import check_name, check_quantity, parse_field_rules
from nexusform.domains.pods.importers.manifest_parser import INVALID, Manifest, is_envelope, unwrap_envelopes
from nexusform.kubernetes.matching import validate_dns_label

_MAX_LISTED_FIELDS: Final = 12


_SCALARS: Final = {
    "s": FieldKind.TEXT,
    "i": FieldKind.WHOLE,
    "n": FieldKind.NUMBER,
    "b": FieldKind.FLAG,
    "q": FieldKind.QUANTITY,
    "x": FieldKind.AMOUNT,
    "a": FieldKind.ANY,
}
_CONTAINERS: Final = {"[": FieldKind.LIST, "{": FieldKind.OBJECT}
_NO_RULE: Final = FieldShape(FieldKind.ANY)
_QUANTITY: Final = FieldShape(FieldKind.QUANTITY, check_form=check_quantity)


class _KubernetesSchemas(Struct, frozen=True):
    # Shape of each kind, and the field types of each type as in assets/kubernetes_fields.txt.
    kinds: Mapping[str, FieldShape]
    types: Mapping[str, Mapping[str, str]]


@cache
def _load_schemas() -> _KubernetesSchemas:
    file = resources.files("nexusform.domains.pods.importers").joinpath("assets", "kubernetes_fields.txt")
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    separator = lines.index("")
    kinds = {}
    for line in lines[:separator]:
        kind, _, type_name = line.rpartition(" ")
        kinds[kind] = FieldShape(FieldKind.OBJECT, type=type_name)
    types = {}
    for line in lines[separator + 1 :]:
        name, *fields = line.split(" ")
        types[name] = dict(field.split("=", 1) for field in fields)
    return _KubernetesSchemas(kinds, types)


@cache
def _get_fields(type_name: str) -> Mapping[str, FieldShape]:
    rules = parse_field_rules().get(type_name, {})
    fields = _load_schemas().types[type_name]
    return {name: _build_shape(holds, rules.get(name, _NO_RULE)) for name, holds in fields.items()}


def _build_shape(type_text: str, rule: FieldShape) -> FieldShape:
    prefix = type_text[0]
    if prefix in _CONTAINERS:
        return FieldShape(_CONTAINERS[prefix], items=_build_shape(type_text[1:], rule))
    if type_text not in _SCALARS:
        return FieldShape(FieldKind.OBJECT, type=type_text)
    if type_text == "q" and rule.check_form is None:
        return _QUANTITY
    return replace(rule, kind=_SCALARS[type_text])


def list_schema_problems(manifest: Manifest) -> Iterator[Problem]:
    """Yield the problems of an object by the rules of the API. Objects in envelopes are applied without
    validation of their keys: there they are warnings.
    """
    if is_envelope(manifest):
        for content in unwrap_envelopes([manifest]).manifests:
            for problem in _list_known_kind_problems(content):
                text = f"{problem.detail} The hub accepts it unchanged; the member cluster drops or rejects it."
                yield build_problem(manifest.file, content.position, INVALID, text, Severity.WARNING)
        return
    yield from _list_known_kind_problems(manifest)


def _list_known_kind_problems(manifest: Manifest) -> Iterator[Problem]:
    """Yield the problems of a manifest of a kind in the table; none for other kinds."""
    version = f"{manifest.group}/{manifest.version}" if manifest.group else manifest.version
    shape = _load_schemas().kinds.get(f"{version} {manifest.kind}")
    if shape is None:
        return
    reader = _SchemaValidator(manifest)
    root = Node.create_document_node(YamlDocument(manifest.body, manifest.position))
    yield from reader.check_value(root, shape, "")
    yield from reader.check_metadata(root.get_node("metadata"))


_UNLESS: Final = "An API server rejects it, unless a webhook of the hub sets it."


class _SchemaValidator:
    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._unknown_key_count = 0  # number of unknown keys so far

    def check_value(self, node: Node, shape: FieldShape, path: str) -> Iterator[Problem]:
        """Check a value against its shape; null counts as absent."""
        data = node.data
        if data is None or shape.kind is FieldKind.ANY:
            return
        if shape.items is None and not shape.type:
            yield from self._check_scalar(node, shape, path)
        elif not shape.kind.is_valid(data):
            yield self._build_problem(node, f"{path or 'the object'} must be {shape.kind.value}.")
        elif shape.type:
            count_before = self._unknown_key_count
            yield from self._check_fields(node, shape.type, path)
            check = CHECKS.get(shape.type)
            # Skip the check if keys below are unknown.
            if check is not None and self._unknown_key_count == count_before:
                for part, end, detail in check(node):
                    build_problem = self._build_missing_field_warning if part.is_absent else self._build_problem
                    yield build_problem(part, f"{path}{end} {detail}")
        else:
            yield from self._check_items(node, shape, path)

    def _check_items(self, node: Node, shape: FieldShape, path: str) -> Iterator[Problem]:
        """Check the items of a list, or of a mapping with free keys."""
        assert shape.items is not None
        if shape.kind is FieldKind.LIST:
            for number, item in enumerate(node.list_items()):
                # A null item is not one of the allowed values of a list.
                is_word = item.data is None and bool(shape.items.choices)
                check = self._check_scalar if is_word else self.check_value
                yield from check(item, shape.items, f"{path}[{number}]")
        for key, item_node in node.list_fields():
            yield from self.check_value(item_node, shape.items, f"{path}.{key}")

    def check_metadata(self, metadata: Node) -> Iterator[Problem]:
        """Check the name, namespace and labels of the object."""
        kind, name = self._manifest.kind, self._manifest.name
        problem_text = check_name(kind, name)
        if problem_text:
            yield self._build_problem(metadata.get_node("name"), f'metadata.name is "{name}": {problem_text}.')
        namespace = self._manifest.namespace
        for problem in validate_dns_label(namespace) if namespace else ():
            yield self._build_problem(
                metadata.get_node("namespace"), f'metadata.namespace is "{namespace}": {problem}.'
            )
        for node, _, detail in list_metadata_problems(metadata):
            yield self._build_problem(node, detail)

    def _check_fields(self, node: Node, type_name: str, path: str) -> Iterator[Problem]:
        """Check for unknown fields, wrong values, and missing fields."""
        fields = _get_fields(type_name)
        set_keys: set[str] = set()
        for key, field_node in node.list_fields():
            inner_path = f"{path}.{key}" if path else key
            if key not in fields:
                known_text = f" Known here: {', '.join(fields)}." if len(fields) <= _MAX_LISTED_FIELDS else ""
                hint = suggest_name(key, fields) or known_text
                # A misspelt key counts as set, so it is not also reported as missing.
                set_keys.add(find_nearest_name(key, fields) or "")
                self._unknown_key_count += 1
                yield self._build_problem(field_node, f'unknown field "{inner_path}".{hint}')
                continue
            problems = [*self.check_value(field_node, fields[key], inner_path)]
            yield from problems
            if problems or field_node.data not in (None, "", [], {}):
                set_keys.add(key)
        for key, rule in parse_field_rules().get(type_name, {}).items():
            if rule.is_required and key not in set_keys:
                yield self._build_missing_field_warning(
                    node.get_node(key), f"{path}.{key} is missing." if path else f"{key} is missing."
                )

    def _check_scalar(self, node: Node, shape: FieldShape, path: str) -> Iterator[Problem]:
        """Check a value other than a mapping or list; leniently, an unquoted text is accepted."""
        data = node.data
        if data == "" and shape.kind in (FieldKind.TEXT, FieldKind.AMOUNT):
            return
        violation = validate_value(data, shape, node.position.source_text)
        is_secret = self._manifest.kind == "Secret"  # what it holds is not for the screen
        if violation is not None:
            detail = f"must be {shape.kind.value}." if is_secret else violation.detail
            yield self._build_problem(node, f"{path} {detail}")

    def _build_problem(self, node: Node, detail: str) -> Problem:
        return build_problem(self._manifest.file, node.position, INVALID, f"{self._manifest.title}: {detail}")

    def _build_missing_field_warning(self, node: Node, detail: str) -> Problem:
        # A missing field may be set on the hub by a mutating webhook.
        return replace(self._build_problem(node, f"{detail} {_UNLESS}"), severity=Severity.WARNING)
