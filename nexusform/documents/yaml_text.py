"""Text of one or more YAML documents -> plain data that remembers where each part was written, and `Node`, a
part of it with its place: what is absent or of another kind reads as empty.

Safe by construction: nothing but null, booleans, numbers, strings, lists and mappings is made, and
size, nesting and what aliases unfold to are bounded. Plain scalars are read as Kubernetes reads them
(YAML 1.1's booleans, dates stay text).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics import Problem, Severity
from nexusform.documents.json_lists import LARGE, MOST, read_large_list
from nexusform.documents.text_places import MAX_DEPTH, TextPlace

MAX_BYTES: Final = 16 * 1024 * 1024
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")  # its marks, in either byte order
# What aliases may unfold to, in nodes per document.
MAX_NODES: Final = 500_000

INVALID: Final = "invalid-yaml"
DUPLICATE: Final = "duplicate-yaml-key"


class YamlDocument(Struct, frozen=True):
    """One document: plain data (shared where aliases share it; not to be changed) and its places."""

    data: Any
    place: TextPlace

    def find(self, *path: str | int) -> TextPlace:
        """The place of the value at a path, or of the nearest part above it that was written."""
        place = self.place
        for step in path:
            below = place.children.get(step)
            if below is None:
                break
            place = below
        return place


class YamlStream(Struct, frozen=True):
    """The documents of a text (empty ones left out) and everything that is wrong with it."""

    documents: tuple[YamlDocument, ...]
    findings: tuple[Problem, ...]


def problem_at(
    file: str,
    place: TextPlace | None,
    kind: str,
    detail: str,
    severity: Severity = Severity.ERROR,
    brief: str = "",
) -> Problem:
    """A problem at a place of a file (None: of the file as a whole)."""
    line, column = (place.line, place.column) if place is not None else (0, 0)
    return Problem((), kind, detail, severity, file=file, line=line, column=column, brief=brief)


def read_yaml(file: str, content: str | bytes) -> YamlStream:
    """All documents of a text. A document that cannot be read ends the stream with a finding."""
    size = len(content)
    if LARGE < size <= MOST:
        whole = _large_list(content)
        if whole is not None:
            return YamlStream((whole,), ())
    if size > MAX_BYTES:
        detail = (
            f"the text has {size:,} bytes; at most {MAX_BYTES:,} are read, and {MOST:,} of a List in JSON "
            "(kubectl get -o json). Put it into several files."
        )
        return YamlStream((), (problem_at(file, None, "file-too-large", detail),))
    try:
        text = _decoded(content) if isinstance(content, bytes) else content.removeprefix("\ufeff")
    except UnicodeDecodeError as problem:
        before = content[: problem.start] if isinstance(content, bytes) else b""
        place = TextPlace(before.count(b"\n") + 1, problem.start - before.rfind(b"\n"))
        return YamlStream((), (problem_at(file, place, INVALID, "this is not utf-8 text."),))
    return _read(file, text)


def _large_list(content: str | bytes) -> YamlDocument | None:
    """A large List in JSON; None for anything else."""
    try:
        text = _decoded(content) if isinstance(content, bytes) else content
    except UnicodeDecodeError:
        return None
    read = read_large_list(text) if text[:100].lstrip()[:1] == "{" else None
    return None if read is None else YamlDocument(*read)


def _decoded(content: bytes) -> str:
    """UTF-8, with or without a mark, or the UTF-16 of PowerShell's `>`. Raises UnicodeDecodeError."""
    return content.decode("utf-16" if content[:2] in _UTF_16 else "utf-8-sig")


def _read(file: str, text: str) -> YamlStream:
    """The documents of a text, up to what breaks it."""
    import yaml

    documents: list[YamlDocument] = []
    findings: list[Problem] = []
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        events = iter(yaml.parse(text, Loader=loader))
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                reader = _DocumentReader(file, events)
                data, place = reader.node(next(events), 0)
                findings += reader.findings
                if data is not None:
                    documents.append(YamlDocument(data, place))
    except _Broken as problem:
        findings.append(problem_at(file, problem.place, INVALID, problem.detail))
    except yaml.YAMLError as problem:
        findings.append(_syntax(file, problem))
    except RecursionError:
        findings.append(problem_at(file, None, INVALID, "the document is nested too deeply to be read here."))
    return YamlStream(tuple(documents), tuple(findings))


def _syntax(file: str, problem: Exception) -> Problem:
    mark = getattr(problem, "problem_mark", None)
    what = getattr(problem, "problem", None) or str(problem)
    place = None if mark is None else TextPlace(mark.line + 1, mark.column + 1)
    return problem_at(file, place, INVALID, f"{what}. Nothing after this line was read.")


class _Broken(Exception):
    # Control flow of this file: the document cannot be read.
    def __init__(self, place: TextPlace, detail: str) -> None:
        self.place = place
        self.detail = detail


class _DocumentReader:
    # Builds one document from the parser's events, counting every node that an alias stands for.
    def __init__(self, file: str, events: Iterator[Any]) -> None:
        import yaml

        self.file = file
        self.events = events
        self.findings: list[Problem] = []
        self.anchors: dict[str, tuple[Any, TextPlace, int]] = {}
        self.nodes = 0
        self.kinds = (yaml.AliasEvent, yaml.ScalarEvent, yaml.SequenceStartEvent)
        self.ends = (yaml.SequenceEndEvent, yaml.MappingEndEvent)

    def node(self, event: Any, depth: int) -> tuple[Any, TextPlace]:
        """The value that begins with an event, and its place."""
        mark = event.start_mark
        place = TextPlace(mark.line + 1, mark.column + 1)
        if depth > MAX_DEPTH:
            raise _Broken(place, f"the document is nested more than {MAX_DEPTH} levels deep.")
        alias, scalar, sequence = self.kinds
        if isinstance(event, alias):
            return self._alias(event.anchor or "", place)
        before = self.nodes
        self._count(1, place)
        data: Any
        if isinstance(event, scalar):
            data = _scalar(event, place)
            if data is not None and not isinstance(data, str):
                place = TextPlace(place.line, place.column, written=event.value)
        elif isinstance(event, sequence):
            _require_tag(event.tag, "seq", place)
            data = self._sequence(place, depth)
        else:
            _require_tag(event.tag, "map", place)
            data = self._mapping(place, depth)
        if event.anchor:
            self.anchors[event.anchor] = (data, place, self.nodes - before)
        return data, place

    def _count(self, nodes: int, place: TextPlace) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise _Broken(
                place, f"the document unfolds to more than {MAX_NODES:,} nodes. Put it into several files."
            )

    def _alias(self, anchor: str, place: TextPlace) -> tuple[Any, TextPlace]:
        if anchor not in self.anchors:
            raise _Broken(place, f'the alias "*{anchor}" stands for nothing; write "&{anchor}" before it.')
        data, written, size = self.anchors[anchor]
        self._count(size, place)
        return data, written

    def _sequence(self, place: TextPlace, depth: int) -> list[Any]:
        """The items up to the end of a sequence; their places go below `place`."""
        items: list[Any] = []
        for event in self.events:
            if isinstance(event, self.ends):
                break
            data, where = self.node(event, depth + 1)
            place.children[len(items)] = where
            items.append(data)
        return items

    def _mapping(self, place: TextPlace, depth: int) -> dict[str, Any]:
        """The entries up to the end of a mapping; merged ones (<<) give way to its own."""
        items: dict[str, Any] = {}
        merged: list[tuple[dict[str, Any], TextPlace]] = []
        for event in self.events:
            if isinstance(event, self.ends):
                break
            is_merge = getattr(event, "value", None) == "<<" and event.implicit[0]
            name, where = self.node(event, depth + 1)
            data, below = self.node(next(self.events), depth + 1)
            if is_merge:
                merged += _mergeable(data, below)
                continue
            key = _key(name, where)
            if key in items:
                detail = f'the key "{key}" stands twice in one mapping; the last one counts.'
                self.findings.append(problem_at(self.file, where, DUPLICATE, detail, Severity.WARNING))
            items[key] = data
            # The key's place is where people look; what is below it keeps its own.
            place.children[key] = TextPlace(where.line, where.column, below.children, below.written)
        for source, written in merged:
            for key, data in source.items():
                if key not in items:
                    items[key] = data
                    place.children[key] = written.children.get(key, written)
        return items


def _mergeable(data: Any, place: TextPlace) -> Iterable[tuple[dict[str, Any], TextPlace]]:
    if isinstance(data, dict):
        return [(data, place)]
    if isinstance(data, list) and all(isinstance(part, dict) for part in data):
        return [(part, place.children[at]) for at, part in enumerate(data)]
    raise _Broken(place, "only a mapping, or a list of mappings, can be merged with <<.")


def _key(name: Any, place: TextPlace) -> str:
    """A key of a mapping as text."""
    if isinstance(name, str):
        return name
    if isinstance(name, bool):
        return "true" if name else "false"
    if isinstance(name, (int, float)):
        return str(name)
    raise _Broken(place, "a key must be a text or a number.")


_TAG: Final = "tag:yaml.org,2002:"
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_BASED: Final = re.compile(r"([-+]?)0(?:(x)([0-9a-fA-F]+)|(b)([01]+)|o?()([0-7]+))\Z")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_SPECIAL: Final = re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS: Final = {
    form: word in {"true", "yes", "on", "y"}
    for word in ("true", "yes", "on", "y", "false", "no", "off", "n")
    for form in (word, word.upper(), word.capitalize())
}
# More digits than any number of a manifest has; Python's own limit is 4,300.
_LONGEST_NUMBER: Final = 400


def _require_tag(tag: str | None, kind: str, place: TextPlace) -> None:
    if tag not in {None, "!", _TAG + kind}:
        raise _Broken(place, f'the tag "{(tag or "").replace(_TAG, "!!")}" is not supported.')


def _scalar(event: Any, place: TextPlace) -> Any:
    """A value by its tag, or as YAML reads it without one."""
    text, tag = event.value, event.tag
    if tag is None:
        return _resolved(text, place) if event.implicit[0] else text
    kind = tag.removeprefix(_TAG)
    if tag == "!" or kind in {"str", "binary", "timestamp"}:
        return text
    if kind not in {"int", "float", "bool", "null"}:
        raise _Broken(place, f'the tag "{tag.replace(_TAG, "!!")}" is not supported.')
    value = _resolved(text, place)
    expected = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}[kind]
    if not isinstance(value, expected) or (isinstance(value, bool) and kind != "bool"):
        raise _Broken(place, f'"{text[:40]}" cannot be read as !!{kind}.')
    return float(text) if kind == "float" else value


def _resolved(text: str, place: TextPlace) -> Any:
    # The value of a plain scalar.
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    first = text[0]
    if not (first.isdigit() or first in "+-."):
        return text
    if len(text) > _LONGEST_NUMBER:
        return text
    if _INTEGER.match(text):
        return int(text)
    based = _BASED.match(text)
    if based:
        sign, hexadecimal, sixteen, binary, two, _, eight = based.groups()
        base = 16 if hexadecimal else 2 if binary else 8
        return int(f"{sign}{sixteen or two or eight}", base)
    if _FLOAT.match(text):
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise _Broken(place, f"the number {text[:40]} is too large.")
        return number
    if _SPECIAL.match(text):
        raise _Broken(place, f"the number {text} is not finite.")
    return text


# How printed excerpts mark what they leave out.
ELISION: Final = "..."


class Node(Struct, frozen=True):
    """Plain data and where it was written (the nearest part that was written, when it is absent)."""

    data: Any
    place: TextPlace

    @staticmethod
    def of(document: YamlDocument) -> Node:
        """The whole document."""
        return Node(document.data, document.place)

    @property
    def line(self) -> int:
        """Its line, from 1."""
        return self.place.line

    @property
    def absent(self) -> bool:
        """Nothing is there: no value, null, or the "..." of an excerpt."""
        return self.data is None or self.data == ELISION

    def at(self, *path: str | int) -> Node:
        """The part at a path."""
        node = self
        for step in path:
            node = node._below(step)
        return node

    def _below(self, step: str | int) -> Node:
        """The part at a key or index; where there is none an empty node at the same place."""
        data = self.data
        place = self.place.children.get(step, self.place)
        if isinstance(data, dict):
            return Node(data.get(step), place)
        if isinstance(data, list) and isinstance(step, int) and 0 <= step < len(data):
            return Node(data[step], place)
        return Node(None, self.place)

    def fields(self) -> Iterator[tuple[str, Node]]:
        """The parts of a mapping by key, in order; nothing for any other kind."""
        if isinstance(self.data, dict):
            for key in self.data:
                yield key, self._below(key)

    def items(self) -> Iterator[Node]:
        """The parts of a list, in order; nothing for any other kind."""
        if isinstance(self.data, list):
            for index in range(len(self.data)):
                yield self._below(index)

    @property
    def text(self) -> str:
        """A text, "" for any other kind."""
        return self.data if isinstance(self.data, str) and self.data != ELISION else ""

    def texts(self) -> list[tuple[str, Node]]:
        """The texts of a list, or the one text that stands in a list's place."""
        if self.text:
            return [(self.text, self)]
        return [(item.text, item) for item in self.items() if item.text]

    @property
    def number(self) -> int | None:
        """A whole number, also when it is written as text; None for anything else."""
        return whole_number(self.data)


def whole_number(value: Any) -> int | None:
    """A whole number, also one written as text; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:
        return int(value)
    return None


class Notes:
    """The findings about one document, in the order in which they were made, each once."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._problems: dict[Problem, None] = {}

    @property
    def findings(self) -> tuple[Problem, ...]:
        """All findings, by line."""
        return tuple(sorted(self._problems, key=lambda problem: problem.line))

    def warn(self, at: Node | TextPlace | None, kind: str, detail: str) -> None:
        """Something was read with a correction, or not at all."""
        self._add(at, kind, detail, Severity.WARNING)

    def error(self, at: Node | TextPlace | None, kind: str, detail: str) -> None:
        """Something that cannot be used."""
        self._add(at, kind, detail, Severity.ERROR)

    def take(self, problem: Problem) -> None:
        """A finding of somebody else about the same document."""
        self._problems.setdefault(problem)

    def _add(self, at: Node | TextPlace | None, kind: str, detail: str, severity: Severity) -> None:
        place = at.place if isinstance(at, Node) else at
        self._problems.setdefault(problem_at(self.file, place, kind, detail, severity))
