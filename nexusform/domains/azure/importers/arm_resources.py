"""Azure Resource Manager documents: ids, times and lists of resources.

`az ... list` prints a bare list with `properties` flattened into each item; the REST API returns
`{"value": [{..., "properties": {...}}], "nextLink": ...}`. Both forms are read alike. The age of an
export is its newest recorded change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, overload

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.documents.field_validation import FieldKind
from nexusform.documents.times import parse_time
from nexusform.json_data.plain_data import Path, get_text, get_value_at_path

SHAPE: Final = "unexpected-shape"
MAX_NUMBER: Final = 10**9
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_RESOURCE_GROUP: Final = re.compile(r"(?:^|/)resourcegroups/([^/]*)", re.IGNORECASE)

# Path in the finding for a document without a list.
_TOP_LEVEL: Final[Path] = ("top level",)
# Keys of lists: REST pages, Resource Graph, ARM templates, kubectl.
_LIST_KEYS: Final = ("value", "data", "resources", "items")
_NEXT_PAGE_KEYS: Final = ("nextLink", "skip_token", "$skipToken", "skipToken")
# Number of all records of a Resource Graph query, in output of `az graph query` and of REST.
_TOTAL_KEYS: Final = ("total_records", "totalRecords")
INCOMPLETE: Final = "incomplete-list"


def normalize_id(arm_id: str) -> str:
    """Return an ARM id in lower case without a trailing slash, for comparison."""
    return arm_id.strip().rstrip("/").lower()


def extract_resource_group(arm_id: str) -> str:
    """Return the resource group in an ARM id, "" if absent."""
    return find_group(_RESOURCE_GROUP, arm_id)


def find_group(pattern: re.Pattern[str], text: str) -> str:
    """Return the first capture group of a pattern's first match in a text, "" without a match."""
    match = pattern.search(text)
    return match[1] if match is not None else ""


def extract_name(arm_id: str | None) -> str:
    """Return the last segment of an ARM id, "" without one."""
    return (arm_id or "").strip().rstrip("/").rpartition("/")[2]


def extract_parent_id(arm_id: str) -> str:
    """Return the ARM id without its last type and name, "" without a parent."""
    return arm_id.strip().rstrip("/").rpartition("/")[0].rpartition("/")[0]


class Origin(Struct, frozen=True):
    """Origin of a value: its file, its path in messages, and its path in the file (`place`)."""

    file: str
    path: Path
    place: Path

    def get_part(self, *steps: str | int) -> Origin:
        """Return the origin of a part of the value."""
        return Origin(self.file, (*self.path, *steps), (*self.place, *steps))


class ArmItem:
    """One JSON object of a document, read field by field.

    A field of the wrong type adds a finding with its JSON path and reads as absent, like an
    explicit null. `properties` take precedence over fields next to them.
    """

    __slots__ = ("_fields", "_findings", "_origin", "_origins", "_properties")

    def __init__(
        self,
        origin: Origin,
        fields: Mapping[str, Any],
        findings: list[Problem],
        origins: Mapping[str, Origin] = {},
    ) -> None:
        """Wrap the JSON object `fields` of an origin; `origins` are those of merged properties.

        Problems of its fields are added to `findings`.
        """
        self._origin = origin
        self._origins = origins
        self._fields = fields
        self._findings = findings
        # The mapping is empty while the field "properties" itself is read.
        self._properties: Mapping[str, Any] = {}
        self._properties = self._read_typed_field(
            "properties", FieldKind.OBJECT, "an object", default={}
        )

    def find_origin(self, *path: str | int) -> Origin:
        """Return the origin of the part at a path in the item."""
        if path[:1] == ("properties",) and len(path) > 1 and path[1] in self._origins:
            return self._origins[str(path[1])].get_part(*path[2:])
        return self._origin.get_part(*path)

    def find_field_origin(self, key: str) -> Origin:
        """Return the origin of a field.

        In `properties` if the field is there, else at the top level.
        """
        inside = ("properties", key) if key in self._properties else (key,)
        return self.find_origin(*inside)

    @property
    def fields(self) -> Mapping[str, Any]:
        """All fields of the object, with `properties` as a field."""
        return self._fields

    def report(self, key: str, kind: str, detail: str, severity: Severity = Severity.ERROR) -> None:
        """Add a finding about a field."""
        origin = self.find_field_origin(key)
        self._findings.append(Problem(origin.path, kind, detail, severity, file=origin.file))

    def read_value(self, key: str) -> Any:
        """Return the raw value of a field in `properties`, else at the top level, else None."""
        return self._properties[key] if key in self._properties else self._fields.get(key)

    @overload
    def read_text(self, key: str) -> str | None: ...

    @overload
    def read_text(self, key: str, default: str) -> str: ...

    def read_text(self, key: str, default: str | None = None) -> str | None:
        """Return a string field, or the default if it is absent, empty or of another type.

        Another type is also reported as a finding.
        """
        value = self.read_value(key)
        if value is None or _is_valid_unicode_string(value):
            return value or default
        self._report_wrong_type(key, "a string", value)
        return default

    def read_required_text(self, key: str) -> str | None:
        """Return a string field; None with a finding if it is absent, empty or of another type."""
        value = self.read_text(key)
        # Another type is reported above.
        if self.read_value(key) in (None, ""):
            self.report(key, "missing-field", f'"{key}" is missing.')
        return value

    @overload
    def read_number(self, key: str) -> int | None: ...

    @overload
    def read_number(self, key: str, default: int) -> int: ...

    def read_number(self, key: str, default: int | None = None) -> int | None:
        """Return a whole number from 0 to MAX_NUMBER.

        The default if it is absent, and after a finding if invalid.
        """
        value = self.read_value(key)
        if value is None:
            return default
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if FieldKind.WHOLE.is_valid(number) and 0 <= number <= MAX_NUMBER:
            return int(number)
        self._report_wrong_type(key, "a whole number, 0 or more", value)
        return default

    def read_required_number(self, key: str) -> int | None:
        """Return a whole number; None with a finding if it is absent or invalid."""
        value = self.read_number(key)
        # An invalid one is reported above.
        if self.read_value(key) is None:
            self.report(key, "missing-field", f'"{key}" is missing.')
        return value

    def read_texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings; () if it is absent, and after a finding if it is invalid."""
        value = self._read_typed_field(key, FieldKind.LIST, "a list of strings", default=[])
        if all(map(_is_valid_unicode_string, value)):
            return tuple(value)
        self._report_wrong_type(key, "a list of strings", value)
        return ()

    def read_object(self, key: str) -> ArmItem | None:
        """Return an object field as an item, None if absent."""
        value = self._read_typed_field(key, FieldKind.OBJECT, "an object")
        return (
            None if value is None else ArmItem(self.find_field_origin(key), value, self._findings)
        )

    def read_object_or_empty(self, key: str) -> ArmItem:
        """Return an object field as an item, without fields if it is absent."""
        value = self._read_typed_field(key, FieldKind.OBJECT, "an object", default={})
        return ArmItem(self.find_field_origin(key), value, self._findings)

    def read_objects(self, key: str) -> list[ArmItem]:
        """Return a list of objects as items, [] if absent."""
        value = self._read_typed_field(key, FieldKind.LIST, "a list of objects", default=[])
        return _wrap_objects(self.find_field_origin(key), enumerate(value), self._findings)

    def _read_typed_field(
        self, key: str, shape: FieldKind, expected: str, default: Any = None
    ) -> Any:
        """Return a field of the expected shape, else the default.

        A field of another shape is also reported.
        """
        value = self.read_value(key)
        if shape.is_valid(value):
            return value
        if value is not None:
            self._report_wrong_type(key, expected, value)
        return default

    def is_equal(self, other: ArmItem) -> bool:
        """Return True if both items have the same fields."""
        return self._fields == other._fields

    def merge_properties(self, properties: Mapping[str, Any], origin: Origin) -> ArmItem:
        """Return a copy with these properties, of an origin, merged over its own."""
        return ArmItem(
            self._origin,
            {**self._fields, "properties": {**self._properties, **properties}},
            self._findings,
            {**self._origins, **{name: origin.get_part(name) for name in properties}},
        )

    def _report_wrong_type(self, key: str, expected: str, value: Any) -> None:
        """Add a finding about a field of the wrong type."""
        self.report(key, SHAPE, f"expected {expected}, not {describe_type(value)}.")


def iterate_unique_items(items: Iterable[ArmItem], noun: str) -> Iterator[tuple[str, ArmItem]]:
    """Yield each item with its name.

    Add a finding for an item without a name, or with the name of an earlier item.
    """
    first_items: dict[str, ArmItem] = {}
    for name, item in iterate_named_items(items):
        first_item = first_items.setdefault(name, item)
        if first_item is item:
            yield name, item
        else:
            report_duplicate(item, first_item, noun, name)


def report_duplicate(item: ArmItem, first_item: ArmItem, noun: str, name: str) -> None:
    """Report an item with the name of an earlier one."""
    first_id, second_id = (str(entry.read_value("id") or "") for entry in (first_item, item))
    detail = f'the {noun} "{name}" is listed twice, with different values. Capture the list again.'
    if normalize_id(first_id) != normalize_id(second_id):
        detail = (
            f'two resources are the {noun} "{name}": {first_id} and {second_id}. Names must differ '
            'on a site, also in two resource groups. To plan, change the "name" of one (not its '
            f"id) in a copy of the export. Before you apply changes of this {noun}, re-create it "
            "with another name."
        )
    item.report("name", f"duplicate-{noun.lower().replace(' ', '-')}", detail)


def iterate_named_items(items: Iterable[ArmItem]) -> Iterator[tuple[str, ArmItem]]:
    """Yield the items with their required name; add a finding for an item without one."""
    for item in items:
        name = item.read_required_text("name")
        if name is not None:
            yield name, item


def read_arm_resources(
    file: str,
    document: Any,
    findings: list[Problem],
    path: Path = (),
    *,
    has_next_page: bool = False,
) -> list[ArmItem]:
    """Return the resources of a document.

    The document is a list, an object with a list, a list of pages, or one resource. Any other
    document is reported in `findings` and returns []. `path` is the place of the document in its
    file. With `has_next_page`, the document is a page in a list of pages, but not the last one.
    """
    if isinstance(document, list):
        return _flatten_paged_list(file, path, enumerate(document), findings)
    key = _find_list_key(document)
    if key is not None:
        resources = document[key]
        # The document is an element of a list of pages.
        is_joined = bool(path)
        truncation_key = _find_truncation_key(document, resources, is_joined=is_joined)
        if truncation_key and not has_next_page:
            advice = (
                "Capture the list with `az` (it reads all pages), or join all pages in one file."
            )
            detail = f"this is one page of several. {advice}"
            findings.append(
                Problem((*path, truncation_key), INCOMPLETE, detail, Severity.WARNING, file=file)
            )
        # An ARM template with symbolic names.
        if isinstance(resources, Mapping) and key == "resources":
            return _flatten_paged_list(file, (*path, key), resources.items(), findings)
        if isinstance(resources, list):
            return _flatten_paged_list(file, (*path, key), enumerate(resources), findings)
        detail = f"expected a list, not {describe_type(resources)}."
        findings.append(Problem((*path, key), SHAPE, detail, file=file))
        return []
    if isinstance(document, Mapping) and "id" in document:
        return [ArmItem(Origin(file, path, path), document, findings)]
    findings.append(
        Problem(path or _TOP_LEVEL, SHAPE, _explain_missing_resources(document), file=file)
    )
    return []


def _explain_missing_resources(document: Any) -> str:
    """Return why a document has no resources.

    It may be an error of Azure: {"error": {"code": ..., "message": ...}}.
    """
    parts = [get_value_at_path(document, "error", name) for name in ("code", "message")]
    error_message = ": ".join(part.rstrip(".") for part in parts if _is_valid_unicode_string(part))
    if error_message:
        return f"this is an Azure error, not a list of resources: {error_message}."
    return f'a list of resources or {{"value": [...]}} is needed, not {describe_type(document)}.'


def _find_truncation_key(page: Mapping[str, Any], resources: Any, *, is_joined: bool) -> str:
    """Return the name of the field marking a page of resources as one of several, else "".

    With `is_joined`, several pages are in one file. A total then counts the records of all pages,
    so it is not compared.
    """
    if str(page.get("resultTruncated")).lower() == "true":
        return "resultTruncated"
    for name in _NEXT_PAGE_KEYS:
        if page.get(name):
            return name
    if is_joined or not isinstance(resources, list):
        # There is no list to compare with a total.
        return ""
    for name in _TOTAL_KEYS:
        total: Any = page.get(name)
        if FieldKind.WHOLE.is_valid(total) and total > len(resources):
            return name
    return ""


def is_resource_list(document: Any) -> bool:
    """Return True if a document is a list of resources, not a single one (`az ... show`)."""
    return isinstance(document, list) or _find_list_key(document) is not None


def _find_list_key(document: Any) -> str | None:
    """Return the key of the resource list in a document, None if it has none."""
    if not isinstance(document, Mapping) or "id" in document:
        # No object, or a single resource.
        return None
    return next((key for key in _LIST_KEYS if key in document), None)


def _flatten_paged_list(
    file: str, path: Path, entries: Iterable[tuple[str | int, Any]], findings: list[Problem]
) -> list[ArmItem]:
    """Read the entries of a list of resources or pages, by index or symbolic name.

    A page is a list of resources, or an object with such a list.
    """
    items: list[ArmItem] = []
    all_entries = list(entries)
    for number, (step, value) in enumerate(all_entries, 1):
        if isinstance(value, list) or _find_list_key(value) is not None:
            has_next_page = number < len(all_entries)
            items += read_arm_resources(
                file, value, findings, (*path, step), has_next_page=has_next_page
            )
        else:
            items += _wrap_objects(Origin(file, path, path), [(step, value)], findings)
    return items


def _wrap_objects(
    origin: Origin, entries: Iterable[tuple[str | int, Any]], findings: list[Problem]
) -> list[ArmItem]:
    """Wrap the objects of a list as items, by their steps in the list.

    Add a finding for anything else.
    """
    items = []
    for step, value in entries:
        entry_origin = origin.get_part(step)
        if isinstance(value, Mapping):
            items.append(ArmItem(entry_origin, value, findings))
        else:
            detail = f"expected an object, not {describe_type(value)}."
            findings.append(Problem(entry_origin.path, SHAPE, detail, file=entry_origin.file))
    return items


def _is_valid_unicode_string(value: Any) -> bool:
    """Return True for a string without unpaired surrogates."""
    return isinstance(value, str) and (value.isascii() or _SURROGATE.search(value) is None)


def describe_type(value: Any) -> str:
    """Describe JSON data for messages.

    The description has the type and value of a scalar, but only the type of a list or object.
    Examples are `null`, `the text "abc"`, `the number 1.5` and `a list`. Long values are shortened.
    """
    if isinstance(value, bool | None):
        return json.dumps(value)
    if isinstance(value, str):
        if not _is_valid_unicode_string(value):
            # A lone surrogate.
            return "a string with half a character"
        text = value if len(value) <= 40 else f"{value[:40]}..."
        return f'the text "{text}"'
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a very large number"
    if isinstance(value, int | float):
        return f"the number {value!r}"
    return "a list" if isinstance(value, list) else "an object"


def find_newest_change_time(items: Iterable[ArmItem]) -> datetime | None:
    """Find the newest createdAt or lastModifiedAt of the resources, None without any."""
    # None: absent, or not a time.
    moments: list[datetime | None] = []
    for item in items:
        system_data = item.read_value("systemData")
        moments += [
            parse_time(get_text(system_data, key)) for key in ("createdAt", "lastModifiedAt")
        ]
    return max(filter(None, moments), default=None)
