"""Fields of exported resources that are not read, and values of the wrong kind.

The closed lists of fields (`azure_fields.py`) decide what is not read, the SDK's schema what
a field holds.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import enclose, format_count, group_by, join_texts
from nexusform.documents.field_lists import FieldList
from nexusform.documents.field_validation import FieldKind
from nexusform.domains.azure.importers.arm_resources import (
    SHAPE,
    ArmItem,
    Origin,
    describe_type,
    extract_name,
)
from nexusform.domains.azure.importers.azure_fields import (
    EARLIER_VERSIONS,
    ENVELOPE,
    FIELDS,
    KNOWN_VALUES,
    NEEDED_FIELDS,
    NOUNS,
    OTHER_VALUES,
    read_azure_schema,
)
from nexusform.doubts.doubt import Doubt, Influence
from nexusform.json_data.plain_data import Path

UNREAD_FIELD: Final = "not-read-for-placement"
_PROPERTIES: Final = "properties"
_VERSION: Final = "apiVersion"
_OPERATION_STATE: Final = "provisioningState"
_ENVELOPE_FIELDS: Final = ENVELOPE.read.union(ENVELOPE.without_influence, ENVELOPE.influences)
_LIST: Final = "["
# Prefixes of a list and of a mapping.
_CONTAINERS: Final = "[{"
_SCALARS: Final[Mapping[str, tuple[FieldKind, str]]] = {
    "text": (FieldKind.TEXT, "a string"),
    "number": (FieldKind.NUMBER, "a number"),
    "boolean": (FieldKind.FLAG, "true or false"),
}


class LocatedFact(Struct, frozen=True):
    """Unread fact of a resource, with its origin."""

    fact: Doubt
    origin: Origin


class WrongKind(Struct, frozen=True):
    """Value of the wrong kind, with its origin and the expected kind in words."""

    origin: Origin
    expected: str
    value: Any

    def build_problem(self, line: int) -> Problem:
        """Build the warning about the value, at a line of its file (0: unknown)."""
        detail = (
            f"expected {self.expected}, not {describe_type(self.value)}"
            f"{enclose(' (line ', str(line or ''), ')')}."
        )
        origin = self.origin
        return Problem(origin.path, SHAPE, detail, Severity.WARNING, file=origin.file)


def find_unread_facts(kind: str, items: Iterable[ArmItem]) -> Iterator[LocatedFact]:
    """Find the facts of resources of a kind that nexusform does not read, with their origins."""
    type_name = read_azure_schema()["kinds"].get(kind)
    if type_name is None:
        # Of another source than Azure, such as kubectl.
        return
    for item in items:
        name = item.read_value("name")
        arm_id = item.read_value("id")
        label = name if isinstance(name, str) else extract_name(str(arm_id or ""))
        walk = _FieldWalk(item, (NOUNS[kind], label))
        yield from walk.walk_resource(item.fields, type_name)


def find_missing_fields(kind: str, items: Iterable[ArmItem]) -> Iterator[LocatedFact]:
    """Find the fields without a value on which a decision rests."""
    for item in items:
        subject = (NOUNS[kind], str(item.read_value("name") or ""))
        for name in NEEDED_FIELDS[kind]:
            if not item.read_value(name):
                origin = item.find_origin()
                fact = Doubt(*subject, name, origin.file, 0, reason="it is missing")
                yield LocatedFact(fact, origin)


class _FieldWalk:
    """Walk over the read fields of one resource; each unread field is found once."""

    def __init__(self, item: ArmItem, subject: tuple[str, str]) -> None:
        self.item = item
        self.subject = subject
        self.found: set[tuple[str, Influence]] = set()

    def walk_resource(self, fields: Mapping[str, Any], type_name: str) -> Iterator[LocatedFact]:
        """Find the unread facts of a resource, with `properties` or flattened into it."""
        types = read_azure_schema()["types"]
        properties_type = types[type_name][_PROPERTIES]
        influences = FIELDS[properties_type].default_influences
        own = {name: part for name, part in fields.items() if name in _ENVELOPE_FIELDS}
        flattened = {name: part for name, part in fields.items() if name not in own}
        yield from self._walk_fields(own, (), "", ENVELOPE, types[type_name], influences)
        parts = ((flattened, ()), (own.get(_PROPERTIES), (_PROPERTIES,)))
        for part, part_path in parts:
            yield from self._walk_part(part, part_path, "", properties_type)
        version = own.get(_VERSION)
        known_versions = (*EARLIER_VERSIONS.split(), *read_azure_schema()["api_versions"])
        if isinstance(version, str) and version not in known_versions:
            reason = f'the version "{version}" is not known'
            yield self._build_fact(_VERSION, (_VERSION,), influences[0], reason)

    def _walk_part(self, value: Any, path: Path, name: str, kind: str) -> Iterator[LocatedFact]:
        """Find the unread facts in a value of a kind; `name` is that of its field."""
        if kind.startswith(_LIST):
            for index, item in enumerate(value if isinstance(value, list) else ()):
                yield from self._walk_part(item, (*path, index), name, kind[1:])
        elif kind in FIELDS and isinstance(value, Mapping):
            schema = read_azure_schema()["types"][kind]
            field_list = FIELDS[kind]
            yield from self._walk_fields(
                value, path, name, field_list, schema, field_list.default_influences, kind
            )

    def _walk_fields(
        self,
        fields: Mapping[str, Any],
        path: Path,
        name: str,
        field_list: FieldList,
        schema: Mapping[str, str],
        default_influences: Sequence[Influence],
        type_name: str = "",
    ) -> Iterator[LocatedFact]:
        """Find the unread facts among fields of an object, and in its read fields."""
        prefix = f"{name}." if name else ""
        present = {key: part for key, part in fields.items() if part not in (None, "", [], {})}
        for key, influence in field_list.list_unread(present):
            yield from self._add(f"{prefix}{key}", (*path, key), influence)
        for key, part in present.items():
            if key not in field_list.read:
                continue
            field_path = (*path, key)
            kind = schema.get(key, "")
            if reason := _explain_unread_value(kind, part, f"{type_name}.{key}"):
                for influence in default_influences:
                    yield from self._add(f"{prefix}{key}", field_path, influence, reason)
            elif key != _PROPERTIES:
                yield from self._walk_part(part, field_path, f"{prefix}{key}", kind)

    def _add(
        self, name: str, path: Path, influence: Influence, reason: str = ""
    ) -> Iterator[LocatedFact]:
        """Yield the fact about a field unless it was found in the resource before."""
        if (name, influence) not in self.found:
            self.found.add((name, influence))
            yield self._build_fact(name, path, influence, reason)

    def _build_fact(self, name: str, path: Path, influence: Influence, reason: str) -> LocatedFact:
        origin = self.item.find_origin(*path)
        fact = Doubt(*self.subject, name, origin.file, 0, influence, reason=reason)
        return LocatedFact(fact, origin)


def _explain_unread_value(kind: str, value: Any, full_name: str) -> str:
    """Return why the value of a read field is not read, "" if it is."""
    if wrong := next(_find_wrong_scalars(kind, value, (), is_deep=False), None):
        return f"it is {describe_type(wrong[2])}"
    if isinstance(value, list):
        reasons = (_explain_unread_value(kind[1:], part, full_name) for part in value)
        return next(filter(None, reasons), "")
    listed = read_azure_schema()["enums"].get(kind)
    known = KNOWN_VALUES.get(full_name) or listed
    if known is None or _is_one_of(value, known):
        return ""
    field = full_name.rpartition(".")[2]
    # Every state of an operation besides the final ones is one in progress.
    has_meaning = field == _OPERATION_STATE or _is_one_of(value, listed or ())
    if full_name in KNOWN_VALUES and field in OTHER_VALUES and has_meaning:
        return f'{OTHER_VALUES[field]}: "{value}"'
    return f'the effect of the value "{value}" is not known'


def _is_one_of(value: str, values: Collection[str]) -> bool:
    """Return whether a value is one of Azure's, which ignore case."""
    return value in values or value.casefold() in {known.casefold() for known in values}


def find_wrong_kinds(kind: str, items: Iterable[ArmItem]) -> Iterator[WrongKind]:
    """Find the values of a kind that the schema does not allow, also in fields without a reader."""
    type_name = read_azure_schema()["kinds"].get(kind)
    if type_name is None:
        return
    for item in items:
        for path, expected, value in _find_wrong_values(type_name, item.fields):
            yield WrongKind(item.find_origin(*path), expected, value)


def _find_wrong_values(
    type_name: str, fields: Mapping[str, Any]
) -> Iterator[tuple[Path, str, Any]]:
    """Yield path, expected kind and value of each wrong value of a resource."""
    types = read_azure_schema()["types"]
    # The fields of `properties` may be flattened into the resource.
    schema = {**types[types[type_name][_PROPERTIES]], **types[type_name]}
    for name, value in fields.items():
        yield from _find_wrong_scalars(schema.get(name, ""), value, (name,))


def _find_wrong_scalars(
    kind: str, value: Any, path: Path, *, is_deep: bool = True
) -> Iterator[tuple[Path, str, Any]]:
    """Yield path, expected kind and value of each wrong value in a value of a kind.

    A null field is absent, so null is wrong only in a list. Without `is_deep`, the parts of an
    object or a list of objects are left out.
    """
    is_in_list = bool(path) and isinstance(path[-1], int)
    if not kind or (value is None and not is_in_list):
        return
    shape, expected = _find_shape(kind)
    if not shape.is_valid(value):
        yield path, expected, value
    elif isinstance(value, str):
        # Most values are texts, which have no parts.
        return
    elif is_deep or kind.lstrip(_CONTAINERS) not in read_azure_schema()["types"]:
        for step, part_kind, part in _list_parts(kind, value):
            yield from _find_wrong_scalars(part_kind, part, (*path, step))


def _find_shape(kind: str) -> tuple[FieldKind, str]:
    """Find the kind of a value for its check, and its name for messages."""
    if kind.startswith(_LIST):
        return FieldKind.LIST, "a list"
    if kind[0] in _CONTAINERS or kind in read_azure_schema()["types"]:
        return FieldKind.OBJECT, "an object"
    # An enumeration is a text.
    return _SCALARS.get(kind, _SCALARS["text"])


def _list_parts(kind: str, value: Any) -> Iterator[tuple[str | int, str, Any]]:
    """List key or index, kind and value of the parts of a list or object; none of a scalar."""
    if isinstance(value, list):
        for index, part in enumerate(value):
            yield index, kind[1:], part
    elif isinstance(value, Mapping):
        # The parts of a mapping are of one kind, those of an object by its schema.
        fields = read_azure_schema()["types"].get(kind)
        for name, part in value.items():
            yield name, kind[1:] if fields is None else fields.get(name, ""), part


def build_unread_warnings(facts: Iterable[Doubt]) -> Iterator[Problem]:
    """Build one warning for each field that is not read, at the first resource with it."""
    for group in group_by(facts, lambda fact: (fact.kind, fact.field)).values():
        first = group[0]
        others = len({(fact.site_id, fact.name) for fact in group}) - 1
        consequences = dict.fromkeys(fact.consequence for fact in group)
        rest = f" Also in {format_count(others, 'other resource')}." if others else ""
        yield Problem(
            (),
            UNREAD_FIELD,
            f"{first.cause}: {join_texts(consequences, ' and ')}.{rest}",
            Severity.WARNING,
            file=first.file,
            line=first.line,
            column=1,
        )
