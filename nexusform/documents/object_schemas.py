"""Check of Kubernetes objects against a schema: unread fields and values of a wrong kind.

Types are texts as in assets/kubernetes_fields.txt: a letter for a scalar, `[` before the type of a
list's items, `{` before that of a mapping's values, else the name of a type with fields.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.documents.field_lists import FieldList
from nexusform.documents.field_validation import FieldKind
from nexusform.documents.yaml_documents import describe_kind
from nexusform.doubts.doubt import Doubt, Influence
from nexusform.json_data.plain_data import Path

SCALARS: Final[Mapping[str, FieldKind]] = {
    "s": FieldKind.TEXT,
    "i": FieldKind.WHOLE,
    "n": FieldKind.NUMBER,
    "b": FieldKind.FLAG,
    "q": FieldKind.QUANTITY,
    "x": FieldKind.AMOUNT,
    "a": FieldKind.ANY,
}
CONTAINERS: Final[Mapping[str, FieldKind]] = {"[": FieldKind.LIST, "{": FieldKind.OBJECT}

ALWAYS_WRITTEN: Final = "every cluster writes it, but the file lacks it"


class FieldTable(Struct, frozen=True):
    """Table of a schema: the type of each version and kind, and the fields of each type."""

    kinds: Mapping[str, str]
    types: Mapping[str, Mapping[str, str]]


def parse_field_table(text: str) -> FieldTable:
    """Parse a table: kinds with their types, an empty line, types with fields (`name=type`)."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    separator = lines.index("")
    kinds = {}
    for line in lines[:separator]:
        kind, _, type_name = line.rpartition(" ")
        kinds[kind] = type_name
    types = {}
    for line in lines[separator + 1 :]:
        name, *fields = line.split(" ")
        types[name] = dict(field.split("=", 1) for field in fields if field)
    return FieldTable(kinds, types)


# Finding about a field or kind that the version of an object lacks.
FIELD_NOT_IN_VERSION: Final = "field-not-in-version"
# A path in an object, and the doubt about that part, without the subject.
LocatedDoubt: TypeAlias = tuple[Path, Doubt]


def locate_doubt(
    path: Path, field: str, influence: Influence = Influence.PLACEMENT, reason: str = ""
) -> LocatedDoubt:
    """Build the doubt about a part of an object that is not read: its name, and the reason."""
    return path, Doubt("", field=field, may_change=influence, reason=reason)


def _has_field(_type_name: str, _field: str) -> str:
    """Return no reason: every version has the field."""
    return ""


def _is_known_value(_type_name: str, _field: str, _kind: str, _value: Any) -> str:
    """Return no reason: every value of the right kind is read."""
    return ""


def _requires_no_field(_type_name: str) -> Collection[str]:
    """Return no field: an object may lack each."""
    return ()


class ObjectSchema(Struct, frozen=True):
    """Schema of objects: the fields of a type, and its closed list.

    A type without a list (None) may have further fields. `explain_absence` returns why the version
    of an object has no such field of a type, "" if it has one. `explain_unknown_value` returns why
    a scalar of a field and kind is not read, "" if it is. `get_required_fields` returns the fields
    that each object of a type has: one that is absent was not read.
    """

    get_fields: Callable[[str], Mapping[str, str]]
    get_list: Callable[[str], FieldList | None]
    explain_absence: Callable[[str, str], str] = _has_field
    explain_unknown_value: Callable[[str, str, str, Any], str] = _is_known_value
    get_required_fields: Callable[[str], Collection[str]] = _requires_no_field

    def list_unread_parts(
        self,
        fields: Mapping[str, Any],
        type_name: str,
        types: Mapping[str, str] | None = None,
        path: Path = (),
        prefix: str = "",
    ) -> Iterator[LocatedDoubt]:
        """List the unread parts of an object of a type; `types` replaces the fields of the type."""
        types = self.get_fields(type_name) if types is None else types
        field_list = self.get_list(type_name)
        present = {name: part for name, part in fields.items() if part not in (None, "", [], {})}
        for name in self.get_required_fields(type_name):
            if name not in present:
                yield locate_doubt(path, f"{prefix}{name}", reason=ALWAYS_WRITTEN)
        unread_names: set[str] = set()
        for name in present:
            reason = self.explain_absence(type_name, name)
            if reason:
                unread_names.add(name)
                doubt = Doubt(
                    "", field=f"{prefix}{name}", reason=reason, finding=FIELD_NOT_IN_VERSION
                )
                yield (*path, name), doubt
        present = {name: part for name, part in present.items() if name not in unread_names}
        if field_list is not None:
            for name, influence in field_list.list_unread(present):
                unread_names.add(name)
                yield locate_doubt((*path, name), f"{prefix}{name}", influence)
        for name, part in present.items():
            if name in types and name not in unread_names:
                yield from self._list_parts_of_value(
                    part, types[name], (*path, name), f"{prefix}{name}", (type_name, name)
                )

    def _list_parts_of_value(
        self, value: Any, kind: str, path: Path, name: str, field: tuple[str, str]
    ) -> Iterator[LocatedDoubt]:
        """List the unread parts of a value of a kind, or the value itself if it is of another.

        `field` is the one that holds the value, after its type.
        """
        expected = CONTAINERS.get(kind[0]) or SCALARS.get(kind, FieldKind.OBJECT)
        if value is None:
            return
        if not expected.is_valid(value):
            reason = f"it is {describe_kind(value)}, not {expected.value}"
            yield locate_doubt(path, name, reason=reason)
        elif kind[0] == "[":
            for index, item in enumerate(value):
                yield from self._list_parts_of_value(item, kind[1:], (*path, index), name, field)
        elif kind[0] == "{":
            for key, item in value.items():
                yield from self._list_parts_of_value(
                    item, kind[1:], (*path, key), f"{name}.{key}", field
                )
        elif kind not in SCALARS:
            yield from self.list_unread_parts(value, kind, path=path, prefix=f"{name}.")
        else:
            reason = self.explain_unknown_value(*field, kind, value)
            if reason:
                yield locate_doubt(path, name, reason=reason)


def build_unread_fact(body: Mapping[str, Any], doubt: Doubt, file: str, line: int) -> Doubt:
    """Return the doubt about a part of an object with its subject and position."""
    metadata = body["metadata"]
    namespace = metadata.get("namespace")
    name = f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
    return replace(doubt, kind=str(body["kind"]), name=name, file=file, line=line)
