"""Azure Resource Manager documents: ids, times, and the two forms in which lists of resources come.

`az ... list` prints a bare list with `properties` flattened into each item; the REST API gives
`{"value": [{..., "properties": {...}}], "nextLink": ...}`. Both read the same here. How old an export is
follows from the newest change that it knows of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from nexusform.diagnostics import Problem, Severity
from nexusform.documents.shapes import Holds, text_at, value_at
from nexusform.documents.times import parse_time
from nexusform.plain_data import Path

SHAPE: Final = "unexpected-shape"
MAX_NUMBER: Final = 10**9
# What people are told of a document that is no list at all.
_TOP: Final[Path] = ("top level",)


def id_key(arm_id: str) -> str:
    """What two ARM ids have in common when they name one resource: their case does not matter."""
    return arm_id.strip().rstrip("/").lower()


def name_of(arm_id: str) -> str:
    """The last segment of an ARM id, as written."""
    return arm_id.strip().rstrip("/").rpartition("/")[2]


class Item:
    """One JSON object of a document, read field by field.

    A field of the wrong type becomes a finding that names its JSON path, and reads as absent; an
    explicit null reads as absent too. `properties` win over the fields around them.
    """

    __slots__ = ("_fields", "_findings", "_properties", "file", "path")

    def __init__(self, file: str, path: Path, fields: Mapping[str, Any], findings: list[Problem]) -> None:
        self.file = file
        self.path = path
        self._fields = fields
        self._findings = findings
        self._properties: Mapping[str, Any] = {}
        properties = fields.get("properties")
        if isinstance(properties, Mapping):
            self._properties = properties
        elif properties is not None:
            self._wrong("properties", "an object", properties)

    def path_of(self, key: str) -> Path:
        """Where in the document a field stands."""
        inside = ("properties", key) if key in self._properties else (key,)
        return (*self.path, *inside)

    def report(self, key: str, kind: str, detail: str, severity: Severity = Severity.ERROR) -> None:
        """Add a finding about a field."""
        self._findings.append(Problem(self.path_of(key), kind, detail, severity, file=self.file))

    def value(self, key: str) -> Any:
        """The field as it stands; None when absent."""
        if key in self._properties:
            return self._properties[key]
        return self._fields.get(key)

    def text(self, key: str) -> str | None:
        """A string; None when absent or empty."""
        value = self.value(key)
        if value is None or _is_text(value):
            return value or None
        self._wrong(key, "a string", value)
        return None

    def needed_text(self, key: str) -> str | None:
        """A string that must be there."""
        value = self.text(key)
        if value is None and (self.value(key) is None or self.value(key) == ""):
            self.report(key, "missing-field", f'"{key}" is missing.')
        return value

    def whole(self, key: str) -> int | None:
        """A whole number from 0 on; None when absent."""
        value = self.value(key)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_NUMBER:
            value = int(value)
        if not Holds.WHOLE.fits(value) or not 0 <= value <= MAX_NUMBER:
            self._wrong(key, "a whole number from 0 on", value)
            return None
        return int(value)

    def needed_whole(self, key: str) -> int | None:
        """A whole number that must be there."""
        value = self.whole(key)
        if value is None and self.value(key) is None:
            self.report(key, "missing-field", f'"{key}" is missing.')
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings; () when absent."""
        value = self.value(key)
        if value is None:
            return ()
        if not Holds.LIST.fits(value) or not all(_is_text(part) for part in value):
            self._wrong(key, "a list of strings", value)
            return ()
        return tuple(value)

    def item(self, key: str) -> Item | None:
        """An object; None when absent."""
        value = self._held(key, Holds.OBJECT, "an object")
        return None if value is None else Item(self.file, self.path_of(key), value, self._findings)

    def items(self, key: str) -> list[Item]:
        """A list of objects; empty when absent."""
        value = self._held(key, Holds.LIST, "a list of objects")
        return _items(self.file, self.path_of(key), value or [], self._findings)

    def _held(self, key: str, holds: Holds, needed: str) -> Any:
        """A field; None, and a finding, where it is of another shape."""
        value = self.value(key)
        if value is None or holds.fits(value):
            return value
        self._wrong(key, needed, value)
        return None

    def is_alike(self, other: Item) -> bool:
        """Whether two say the same."""
        return self._fields == other._fields

    def over(self, file: str, path: Path, properties: Mapping[str, Any]) -> Item:
        """The object with these properties over its own, said of another place."""
        merged = {**self._fields, "properties": {**self._properties, **properties}}
        return Item(file, path, merged, self._findings)

    def _wrong(self, key: str, needed: str, got: Any) -> None:
        self.report(key, SHAPE, f"{needed} is needed here, not {kind_of(got)}.")


# Where lists stand: REST pages, answers of Resource Graph, ARM templates, what kubectl prints.
_LISTS: Final = ("value", "data", "resources", "items")
_MORE: Final = ("nextLink", "skip_token", "$skipToken", "skipToken")
INCOMPLETE: Final = "incomplete-list"


def resources(
    file: str, document: Any, findings: list[Problem], path: Path = (), *, followed: bool = False
) -> list[Item]:
    """The resources of a document in any form; a single resource (`az ... show`) counts as one.

    Pages that were joined to one list are read one after the other; `followed`: the next one is there.
    """
    if isinstance(document, list):
        return _listed(file, path, document, findings)
    key = _list_of(document)
    if key is not None:
        if not followed:
            _warn_of_more_pages(file, document, findings, path)
        inside = document[key]
        if isinstance(inside, Mapping) and key == "resources":  # an ARM template with symbolic names
            inside = list(inside.values())
        if isinstance(inside, list):
            return _listed(file, (*path, key), inside, findings)
        detail = f"a list is needed here, not {kind_of(inside)}."
        findings.append(Problem((*path, key), SHAPE, detail, file=file))
        return []
    if isinstance(document, Mapping) and "id" in document:
        return [Item(file, path, document, findings)]
    said = _refusal_in(document)
    detail = (
        f"this is no list of resources, but what Azure answered instead: {said}."
        if said
        else f'a list of resources or {{"value": [...]}} is needed, not {kind_of(document)}.'
    )
    findings.append(Problem(path or _TOP, SHAPE, detail, file=file))
    return []


def _refusal_in(document: Any) -> str:
    """What the REST API answers where it refuses a request, "" for anything else."""
    words = [value_at(document, "error", key) for key in ("code", "message")]
    return ": ".join(word.rstrip(".") for word in words if _is_text(word))


def is_list(document: Any) -> bool:
    """Whether a document lists resources: what such a list lacks is not there. A resource of its own
    (`az ... show`) says nothing of others.
    """
    return isinstance(document, list) or _list_of(document) is not None


def _list_of(document: Any) -> str | None:
    """Under which key a document holds its resources; None for what is a resource itself, or neither."""
    if not isinstance(document, Mapping) or "id" in document:
        return None
    return next((key for key in _LISTS if key in document), None)


def _listed(file: str, path: Path, values: list[Any], findings: list[Problem]) -> list[Item]:
    """The resources of a list, whose entries may be pages."""
    items: list[Item] = []
    for index, value in enumerate(values):
        at = (*path, index)
        if isinstance(value, list) or _list_of(value) is not None:
            items += resources(file, value, findings, at, followed=index + 1 < len(values))
        else:
            items += _items(file, path, [value], findings, index)
    return items


def _warn_of_more_pages(file: str, document: Mapping[str, Any], findings: list[Problem], path: Path) -> None:
    """Say that a list is one page of several, where it names the next one."""
    key = next((key for key in _MORE if document.get(key)), None)
    if key is not None:
        detail = (
            "this is one page of several. Capture the list with `az`, which follows the pages, or join all "
            "pages in one file."
        )
        findings.append(Problem((*path, key), INCOMPLETE, detail, Severity.WARNING, file=file))


def _items(file: str, path: Path, values: list[Any], findings: list[Problem], first: int = 0) -> list[Item]:
    """The objects of a list as items, numbered from `first`; anything else in it is said."""
    items = []
    for index, value in enumerate(values, first):
        at = (*path, index)
        if isinstance(value, Mapping):
            items.append(Item(file, at, value, findings))
        else:
            detail = f"an object is needed here, not {kind_of(value)}."
            findings.append(Problem(at, SHAPE, detail, file=file))
    return items


def _is_text(value: Any) -> bool:
    """Whether it is a string that can be written out again (JSON may hold halves of a character)."""
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)


def kind_of(value: Any) -> str:
    """What a JSON value is, for people."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        if not _is_text(value):
            return "a text with half a character"
        shown = value if len(value) <= 40 else f"{value[:40]}..."
        return f'the text "{shown}"'
    if isinstance(value, int | float):
        shown = repr(value) if not isinstance(value, int) or abs(value) < 10**40 else "a very large one"
        return f"the number {shown}"
    return "a list" if isinstance(value, list) else "an object"


def newest_change(items: Iterable[Item]) -> datetime | None:
    """The newest createdAt or lastModifiedAt among resources."""
    newest: datetime | None = None
    for item in items:
        for key in ("createdAt", "lastModifiedAt"):
            moment = parse_time(text_at(item.value("systemData"), key))
            if moment is not None and (newest is None or moment > newest):
                newest = moment
    return newest
