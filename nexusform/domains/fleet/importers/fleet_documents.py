"""Conversion of fleet objects from YAML to the arguments of their blocks.

The shape of a kind guides the conversion (fleet_shapes.py). A lenient reading applies the
corrections of a closed table and lists them; other mistakes stay errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity, find_nearest_name, suggest_name
from nexusform.documents.field_validation import (
    FieldKind,
    FieldShape,
    RuleViolation,
    validate_value,
    validate_value_size,
)
from nexusform.documents.yaml_documents import (
    ELISION,
    DocumentFindings,
    Node,
    TextPosition,
    YamlDocument,
    build_problem,
    parse_yaml,
)
from nexusform.domains.fleet.importers.fleet_shapes import METADATA, ApiKind, get_block_name
from nexusform.domains.pods.importers.kubernetes_cross_field_checks import list_metadata_problems
from nexusform.json_data.plain_data import Path, get_text
from nexusform.schemas.block_schema import BlockSchema, Nesting

CORRECTED: Final = "corrected-manifest"


class Correction(Struct, frozen=True):
    """Correction of one kind of mistake.

    `widens` means that the corrected manifest may select more than its author intended.
    """

    id: str
    description: str
    widens: bool = False


CORRECTIONS: Final[Mapping[str, Correction]] = {
    correction.id: correction
    for correction in (
        Correction(
            "left-out-condition",
            '"..." (placeholder) in a policy or a selector is ignored, so a condition is missing.',
            widens=True,
        ),
        Correction(
            "no-number-of-clusters",
            "PickN without numberOfClusters selects every eligible cluster.",
            widens=True,
        ),
        Correction(
            "old-property-name",
            (
                "kubernetes.azure.com/node-count is read as kubernetes-fleet.io/node-count if no "
                "cluster has the old name."
            ),
            widens=True,
        ),
        Correction("left-out", '"..." (placeholder) elsewhere is ignored.'),
        Correction("mapping-for-a-list", "A mapping in place of a list is used as its only item."),
        Correction(
            "list-for-a-mapping", "A list with one item in place of a mapping: the item is used."
        ),
        Correction(
            "unquoted-text", "A number or a boolean in place of a string is read as written."
        ),
        Correction("metric-sorter", "metricSorter is read as propertySorter."),
    )
}


class ManifestCorrections:
    """Corrections of one text that was read leniently, as warnings."""

    def __init__(self, file: str, *, allowed: bool) -> None:
        self.file = file
        # whether to correct mistakes with a warning, instead of an error.
        self.allowed = allowed
        # True: corrections widening a selection.
        self._problems: dict[bool, list[Problem]] = {True: [], False: []}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """A warning for each correction, first for those that widen a selection."""
        return (*self._problems[True], *self._problems[False])

    def add_correction(self, correction: str, place: TextPosition, detail: str) -> None:
        """Add a warning of a correction (id in CORRECTIONS).

        `detail` is the corrected meaning, as a sentence.
        """
        entry = CORRECTIONS[correction]
        wider = "; this widens the selection" if entry.widens else ""
        text = f"{detail.removesuffix('.')}{wider} [{correction}]."
        problem = build_problem(self.file, place, CORRECTED, text, Severity.WARNING)
        # Those widening a selection apart.
        self._problems[entry.widens].append(problem)


INVALID: Final = "invalid-fleet-manifest"
# Fields that contain conditions: a missing condition selects more.
_CONDITION_FIELDS: Final = frozenset({"policy", "labelSelector", "clusterSelector"})
_TOP_LEVEL_KEYS: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
# A hub accepts the old name, but no member has such a property today.
OLD_NODE_COUNT: Final = "kubernetes.azure.com/node-count"
NODE_COUNT: Final = "kubernetes-fleet.io/node-count"
_NO_SCHEMA: Final = BlockSchema({})
_ALIASES: Final = {"metricSorter": "propertySorter"}


class FleetDocument(Struct, frozen=True):
    """Fleet object: the arguments of its spec, with their locations and findings.

    It has the text locations of the parts of the arguments, and the parts covered by `findings`.
    """

    name: str = ""
    namespace: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    locations: Mapping[Path, TextPosition] = field(default_factory=dict)
    reported_paths: frozenset[Path] = frozenset()
    findings: tuple[Problem, ...] = ()
    conditions: tuple[tuple[str, str], ...] = ()

    def is_part_reported(self, path: Path) -> bool:
        """Return True if a finding already covers the argument at a path.

        No other check reports it again. A finding about a parent covers it; below the top level,
        also one about a value inside.
        """
        # From the whole spec, (), to the argument itself.
        parents = [path[:length] for length in range(len(path) + 1)]
        if not self.reported_paths.isdisjoint(parents):
            return True
        # rules about a top-level argument are checked in spite of errors inside.
        if len(path) <= 1:
            return False
        return any(reported[: len(path)] == path for reported in self.reported_paths)

    def find_line(self, path: Path) -> int:
        """Return the line of a value or of its nearest configured parent; 0 if there is none."""
        # The path itself, its parents, and last the whole spec: ().
        for length in range(len(path), -1, -1):
            location = self.locations.get(path[:length])
            if location is not None:
                return location.line
        return 0


def read_fleet_document(
    file: str, content: str, api: ApiKind, schema: BlockSchema, *, lenient: bool = False
) -> FleetDocument:
    """Read the only object of a text; no object, or several, are errors in the result.

    `schema` gives the names and defaults of the arguments. With `lenient`, common mistakes are
    corrected with a warning.
    """
    stream = parse_yaml(file, content)
    findings = tuple(replace(problem, severity=Severity.ERROR) for problem in stream.findings)
    if len(stream.documents) == 1:
        return read_fleet_object(
            file, stream.documents[0], api, schema, lenient=lenient, earlier_findings=findings
        )
    notes = DocumentFindings(file)
    if stream.documents:
        second = Node.create_document_node(stream.documents[1])
        advice = 'Use a block for each object, or read them with data "kubernetes_manifests".'
        notes.add_error(second, INVALID, f"a manifest contains one object. {advice}")
    elif not findings:
        notes.add_error(
            TextPosition(1, 1), INVALID, f"the text contains no object; expected a {api.kind}."
        )
    return FleetDocument(findings=(*findings, *notes.findings))


def read_fleet_object(
    file: str,
    document: YamlDocument,
    api: ApiKind,
    schema: BlockSchema,
    *,
    lenient: bool = False,
    earlier_findings: tuple[Problem, ...] = (),
) -> FleetDocument:
    """Read one object of the kind `api`.

    The result has its findings, after `earlier_findings` about the YAML text. `schema` gives the
    names and defaults of its arguments. With `lenient`, common mistakes are only warnings.
    """
    root = Node.create_document_node(document)
    notes = DocumentFindings(file)
    if not isinstance(root.data, dict):
        notes.add_error(root, INVALID, f"this is not an object; expected a {api.kind}.")
        return FleetDocument(findings=(*earlier_findings, *notes.findings))
    root = _fix_misspelled_keys(root, notes)
    version = _check_kind_and_version(root, api, notes)
    reader = _FleetObjectReader(notes, ManifestCorrections(file, allowed=lenient), version)
    metadata = reader.read_metadata(root.get_node("metadata"))
    values: Mapping[str, Any] = {}
    if "spec" in root.data:
        values = reader.read_spec(root.get_node("spec"), api, schema)
    else:
        notes.add_error(root, INVALID, "spec is missing.")
        # (): the whole spec, so nothing else in it is reported.
        reader.reported_paths.add(())
    return FleetDocument(
        name=get_text(metadata, "name"),
        namespace=get_text(metadata, "namespace"),
        values=values,
        locations=reader.locations,
        reported_paths=frozenset(reader.reported_paths),
        findings=(*earlier_findings, *notes.findings, *reader.corrections.problems),
        conditions=tuple(
            (condition.get_node("type").text, condition.get_node("status").text)
            for condition in root.get_node("status", "conditions").list_items()
        ),
    )


def _check_kind_and_version(root: Node, api: ApiKind, notes: DocumentFindings) -> str:
    """Report a wrong kind or version.

    Return the version of the object, or the newest one if it is not supported.
    """
    version = root.get_node("apiVersion")
    group, _, version_name = version.text.rpartition("/")
    if group != api.group or version_name not in api.versions:
        supported = " or ".join(f"{api.group}/{v}" for v in api.versions)
        text = f'apiVersion "{version.text}" is not supported; a hub has {api.kind} as {supported}.'
        notes.add_error(version, INVALID, text)
        version_name = api.versions[0]
    kind = root.get_node("kind")
    if kind.text != api.kind:
        notes.add_error(kind, INVALID, f'kind is "{kind.text}"; expected {api.kind}.')
    return version_name


def _fix_misspelled_keys(root: Node, notes: DocumentFindings) -> Node:
    """Report unknown top-level keys.

    Return the object with the misspelled ones renamed, and without the others. So a misspelled
    `spec` is not also reported as missing.
    """
    data: dict[str, Any] = {}
    locations: dict[str | int, TextPosition] = {}
    for key, node in root.list_fields():
        name = key
        if key not in _TOP_LEVEL_KEYS:
            notes.add_error(
                node, INVALID, f'unknown field "{key}".{suggest_name(key, _TOP_LEVEL_KEYS)}'
            )
            name = find_nearest_name(key, _TOP_LEVEL_KEYS)
            # No known name is similar, or that key exists, too.
            if not name or name in root.data:
                continue
        data[name] = node.data
        locations[name] = node.position
    return Node(data, replace(root.position, children=locations))


class _DocumentPart(Struct, frozen=True):
    """Node with the path of its argument and its API path."""

    node: Node
    path: Path
    api_path: str

    @property
    def display_path(self) -> str:
        """API path, or the end of a long one; the line is reported separately."""
        # readable at the start of a sentence.
        if len(self.api_path) <= 56:
            return self.api_path
        return ".".join(self.api_path.split(".")[-2:])

    def get_field(self, key: str, name: str) -> _DocumentPart:
        """Return the part of the field `key`.

        `name` is its argument in the configuration.
        """
        return _DocumentPart(self.node.get_node(key), (*self.path, name), f"{self.api_path}.{key}")

    def get_item(self, index: int, position: int) -> _DocumentPart:
        """Return the part of the item at `index`.

        `position` is its index in the argument, without rejected items.
        """
        return _DocumentPart(
            self.node.get_node(index), (*self.path, position), f"{self.api_path}[{index}]"
        )


class _FleetObjectReader:
    def __init__(
        self, notes: DocumentFindings, corrections: ManifestCorrections, version: str
    ) -> None:
        """Start without locations.

        `notes` receives errors, `corrections` the warnings about corrected mistakes.
        """
        # receives the errors.
        self.notes = notes
        # receives the warnings about corrected mistakes.
        self.corrections = corrections
        # Of the API, such as v1.
        self.version = version
        # By path of the argument.
        self.locations: dict[Path, TextPosition] = {}
        # Of arguments with a finding, for one finding per value.
        self.reported_paths: set[Path] = set()

    def read_metadata(self, metadata: Node) -> dict[str, Any]:
        """Return the supported metadata by argument name, and report invalid metadata."""
        part = _DocumentPart(metadata, ("metadata",), "metadata")
        values: dict[str, Any] = self._read_fields(part, METADATA, _NO_SCHEMA)
        for node, path, detail in list_metadata_problems(metadata):
            self._reject(_DocumentPart(node, ("metadata", *path), "metadata"), detail)
        return values

    def read_spec(self, node: Node, api: ApiKind, schema: BlockSchema) -> dict[str, Any]:
        """Return the arguments of the spec by name.

        If the spec is rejected, return those of an empty spec.
        """
        part = _DocumentPart(node, path=(), api_path="spec")
        for key in api.required_by_version.get(self.version, ()):
            if node.get_node(key).data is None:
                self._reject(part, f"spec.{key} is required in {self.version}.")
        return self._read_mapping(part, api.spec, schema) or _build_empty_spec_arguments(schema)

    def _reject(self, part: _DocumentPart, detail: str) -> None:
        """Report an error of a part at its path, and note the path as reported."""
        self.reported_paths.add(part.path)
        problem = build_problem(self.notes.file, part.node.position, INVALID, detail)
        self.notes.add_problem(replace(problem, path=part.path))

    def _apply_correction(
        self, correction: str, part: _DocumentPart, error: str, notice: str
    ) -> bool:
        """Return True if a mistake may be corrected, with the warning `notice`.

        Else report `error`, return False.
        """
        if self.corrections.allowed:
            self.reported_paths.add(part.path)
            self.corrections.add_correction(correction, part.node.position, notice)
            return True
        self._reject(part, error + " Set lenient = true to accept it.")
        return False

    def _report_ellipsis(self, part: _DocumentPart) -> bool:
        """Return True if the value is the placeholder "...".

        Report it: as corrected if allowed, else as an error.
        """
        if part.node.data != ELISION:
            return False
        wrong = f'{part.display_path} is "{ELISION}", a placeholder. Replace it with the value.'
        is_condition = not _CONDITION_FIELDS.isdisjoint(re.split(r"[.\[]", part.api_path))
        # Without a condition, more is selected.
        correction = "left-out-condition" if is_condition else "left-out"
        self._apply_correction(
            correction, part, wrong, f'{part.display_path}: ignored "{ELISION}" (placeholder).'
        )
        return True

    def _read_value(self, part: _DocumentPart, shape: FieldShape, schema: BlockSchema) -> Any:
        """Return the value of a part by its shape; None if absent or rejected.

        "..." in place of a list is [].
        """
        # Any value, as JSON text.
        if shape.kind is FieldKind.ANY:
            return json.dumps(part.node.data, separators=(",", ":"), ensure_ascii=False)
        if part.node.data is None:
            # Else the server replaces null by the default.
            if not shape.is_defaulted:
                self._reject(part, f"{part.display_path} is null. Set a value or remove the key.")
            return None
        if self._report_ellipsis(part):
            return [] if shape.kind is FieldKind.LIST else None
        match shape.kind:
            case FieldKind.OBJECT:
                return self._read_mapping(part, shape, schema)
            case FieldKind.LIST:
                return self._read_list(part, shape, schema)
            case FieldKind.TEXTS:
                return self._read_string_map(part)
        return self._read_scalar(part, shape)

    def _read_mapping(
        self, part: _DocumentPart, shape: FieldShape, schema: BlockSchema
    ) -> dict[str, Any] | None:
        """Return the arguments of a mapping, None if rejected.

        A list of one mapping is reported, but read as well.
        """
        node = part.node
        # "..." as the only item.
        if node.data == [ELISION]:
            self._report_ellipsis(_DocumentPart(node.get_node(0), part.path, part.api_path))
            return None
        if isinstance(node.data, list) and len(node.data) == 1 and isinstance(node.data[0], dict):
            error = f"{part.display_path} must be a mapping, not a list. Remove the dash."
            notice = f"{part.display_path}: expected a mapping; used the only item of its list."
            # read the item even if it is an error.
            self._apply_correction("list-for-a-mapping", part, error, notice)
            part = _DocumentPart(node.get_node(0), part.path, part.api_path)
        elif not isinstance(node.data, dict):
            self._reject(part, f"{part.display_path} must be a mapping.")
            return None
        return self._read_fields(part, shape, schema)

    def _read_fields(
        self, part: _DocumentPart, shape: FieldShape, schema: BlockSchema
    ) -> dict[str, Any]:
        """Return the values of a mapping by argument name.

        Report unknown and missing keys and violated rules. `shape` has the fields of the API,
        `schema` the names and defaults of the arguments.
        """
        self.locations[part.path] = part.node.position
        values = _build_empty_spec_arguments(schema)
        # raw data by field name, for the rules.
        found_fields: dict[str, Any] = {}
        for key, node in part.node.list_fields():
            field_name = self._find_field_of_key(key, part, shape)
            if not field_name:
                # An unknown key, reported already.
                continue
            found_fields[field_name] = node.data
            name = get_block_name(field_name, shape.fields[field_name])
            field_part = _DocumentPart(node, (*part.path, name), f"{part.api_path}.{key}")
            self.locations[field_part.path] = node.position
            block = schema.blocks.get(name)
            block_schema = block.schema if block is not None else _NO_SCHEMA
            value = self._read_value(field_part, shape.fields[field_name], block_schema)
            # None: absent or rejected.
            if value is not None:
                values[name] = value
        for key, field_shape in shape.fields.items():
            if field_shape.is_required and key not in found_fields:
                field_part = replace(part, path=(*part.path, get_block_name(key, field_shape)))
                self._reject(field_part, f"{part.display_path}.{key} is missing.")
        for rule in shape.rules:
            for violation in rule(found_fields):
                self._report_violation(part, shape, violation)
        return values

    def _report_violation(
        self, part: _DocumentPart, shape: FieldShape, violation: RuleViolation
    ) -> None:
        """Report a violation of a rule at its key.

        Only a missing number of clusters has a correction.
        """
        text = f"{part.display_path}: {violation.detail}"
        if violation.correction == "no-number-of-clusters":
            number_part = replace(part, path=(*part.path, "number_of_clusters"))
            notice = f"{part.display_path}: PickN without a number selects every eligible cluster."
            self._apply_correction(violation.correction, number_part, text, notice)
            return
        key = violation.key
        # A violation of a missing key, or with key "", is reported at the whole mapping.
        has_key = key in part.node.data.keys() & shape.fields.keys()
        location = part.get_field(key, get_block_name(key, shape.fields[key])) if has_key else part
        # One finding per value is enough.
        if location.path not in self.reported_paths:
            self._reject(location, text)

    def _find_field_of_key(self, key: str, part: _DocumentPart, shape: FieldShape) -> str:
        """Return the name of the API field for a key of a mapping; "" to ignore the key.

        Old names are corrected if allowed. Other unknown keys are errors, but count as the
        field with the nearest name, if the mapping lacks it: then this field is not also
        reported as missing.
        """
        value = part.node.get_node(key)
        path = f"{part.display_path}.{key}"
        field_shape = shape.fields.get(key)
        if field_shape is not None:
            if not field_shape.versions or self.version in field_shape.versions:
                return key
            versions = " and ".join(field_shape.versions)
            text = f'unknown field "{path}": {self.version} does not have it, {versions} has it.'
            self.notes.add_error(value, INVALID, text)
            return ""
        field_name = _ALIASES.get(key, "")
        if field_name in shape.fields:
            error = f'unknown field "{path}"; use {field_name}.'
            field_path = (*part.path, get_block_name(field_name, shape.fields[field_name]))
            field_part = _DocumentPart(value, field_path, part.api_path)
            if self._apply_correction(
                "metric-sorter", field_part, error, f'"{key}" is read as {field_name}.'
            ):
                return field_name
        else:
            hint = suggest_name(key, shape.fields) or f" Known fields: {', '.join(shape.fields)}."
            self.notes.add_error(value, INVALID, f'unknown field "{path}".{hint}')
        intended_name = find_nearest_name(key, shape.fields)
        return "" if intended_name in part.node.data else intended_name

    def _read_list(self, part: _DocumentPart, shape: FieldShape, schema: BlockSchema) -> list[Any]:
        """Return the items of a list, or a mapping as its only item; [] if rejected.

        A mapping in place of a list is a correction.
        """
        items_shape = shape.items
        assert items_shape is not None
        if isinstance(part.node.data, dict) and items_shape.kind is FieldKind.OBJECT:
            error = (
                f'{part.display_path} must be a list, not a mapping. Put "- " before its first key.'
            )
            notice = f"{part.display_path}: expected a list; used the mapping as its only item."
            # read it even if it is an error.
            self._apply_correction("mapping-for-a-list", part, error, notice)
            item_part = replace(part, path=(*part.path, 0))
            return [self._read_fields(item_part, items_shape, schema)]
        if not isinstance(part.node.data, list):
            self._reject(part, f"{part.display_path} must be a list.")
            return []
        items: list[Any] = []
        for index in range(len(part.node.data)):
            # position in the document, and in the result.
            item = part.get_item(index, len(items))
            self.locations[item.path] = item.node.position
            value = self._read_value(item, items_shape, schema)
            if value is not None:
                items.append(value)
        size_error = validate_value_size(part.node.data, shape)
        if size_error:
            self._reject(part, f"{part.display_path} {size_error}")
        return items

    def _read_string_map(self, part: _DocumentPart) -> dict[str, str] | None:
        """Return a mapping of texts, such as labels; None if it is no mapping.

        Rejected entries are left out, also those with the placeholder "..." as their value.
        """
        if not isinstance(part.node.data, dict):
            self._reject(part, f"{part.display_path} must be a mapping of strings.")
            return None
        entries = {}
        for key in part.node.data:
            entry = part.get_field(key, name=key)
            self.locations[entry.path] = entry.node.position
            value = (
                None
                if self._report_ellipsis(entry)
                else self._read_scalar(entry, FieldShape(FieldKind.TEXT))
            )
            if value is not None:
                entries[key] = value
        return entries

    def _read_scalar(self, part: _DocumentPart, shape: FieldShape) -> Any:
        """Return a flag, number or text; None if rejected.

        A correction turns an unquoted number or flag into text: a YAML reader gives 1.30 as the
        number 1.3, and its source text is "1.30".
        """
        data = part.node.data
        fault = validate_value(data, shape, part.node.position.source_text)
        # A number or flag in place of a text.
        if fault is not None and fault.intended_text:
            notice = f'{part.display_path}: expected a string; used "{fault.intended_text}".'
            if self._apply_correction(
                "unquoted-text", part, f"{part.display_path} {fault.detail}", notice
            ):
                data = fault.intended_text
                fault = validate_value(data, shape)
        if fault is not None:
            # Else _apply_correction has rejected it.
            if not fault.intended_text:
                self._reject(part, f"{part.display_path} {fault.detail}")
            if shape.choices:
                # Other fields depend on this choice, so no further error of its
                # mapping is reported.
                self.reported_paths.add(part.path[:-1])
            return None
        # renamed in planning, once the members are known.
        if data == OLD_NODE_COUNT and self.corrections.allowed:
            notice = f"{data} is read as {NODE_COUNT} if no cluster has it."
            self.corrections.add_correction("old-property-name", part.node.position, notice)
        # AMOUNT: a number or a text.
        return str(data) if shape.kind is FieldKind.AMOUNT else data


def _build_empty_spec_arguments(schema: BlockSchema) -> dict[str, Any]:
    """Return the arguments of an empty spec.

    Defaults of attributes, None for a block, and [] for repeated blocks.
    """
    values: dict[str, Any] = {}
    for name, attribute in schema.attributes.items():
        if not attribute.computed:
            values[name] = attribute.default
    for name, block in schema.blocks.items():
        values[name] = None if block.nesting is Nesting.SINGLE else []
    return values
