"""Parser of YAML documents to plain data with positions.

A text may have several documents. `Node` is a part of the data with its position. An absent part,
or one of another kind, reads as empty. Safe by construction: only null, booleans, numbers, strings,
lists and mappings are created; size, nesting and the expansion of aliases are bounded. Plain
scalars are parsed as by the program that reads the document (`ScalarRules`); dates stay text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import cache
from math import inf, isfinite, isinf
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import join_texts
from nexusform.documents.field_lists import FieldList
from nexusform.documents.field_validation import FieldKind
from nexusform.documents.scalars import parse_integer
from nexusform.doubts.doubt import Doubt, Influence

MAX_DEPTH: Final = 512
_TOO_DEEP: Final = f"the document is nested more than {MAX_DEPTH} levels deep."


class TextPosition(Struct, frozen=True):
    """Position of a value: line and column from 1, and the positions of its keys or items.

    `source_text` is the text of a scalar that is parsed to another value ("yes" for true), else "".
    """

    line: int
    column: int
    children: dict[str | int, TextPosition] = field(default_factory=dict)
    source_text: str = ""


MAX_BYTES: Final = 16 * 1024 * 1024
# Byte order marks.
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
# Maximum number of nodes per document after expansion of aliases.
MAX_NODES: Final = 500_000

INVALID: Final = "invalid-yaml"
INVALID_JSON: Final = "invalid-json"
# A text that begins so is JSON, and no mapping of YAML such as `{{ .Values.name }}`.
_JSON_START: Final = re.compile(r'(?:\{|\[[\[\s]*\{?)\s*"')


class YamlDocument(Struct, frozen=True):
    """One document: plain data (shared for aliases; not to be changed) and its positions."""

    data: Any
    position: TextPosition

    def find_position(self, *path: str | int) -> TextPosition:
        """Return the position of the value at a path, or of its nearest existing ancestor."""
        position = self.position
        for step in path:
            child_position = position.children.get(step)
            if child_position is None:
                break
            position = child_position
        return position


class YamlStream(Struct, frozen=True):
    """Documents of a text (without empty ones) and all problems."""

    documents: tuple[YamlDocument, ...]
    findings: tuple[Problem, ...]


def build_problem(
    file: str,
    position: TextPosition | None,
    problem_id: str,
    detail: str,
    severity: Severity = Severity.ERROR,
    brief_text: str = "",
) -> Problem:
    """Build a problem at a position of a file (None: the file as a whole)."""
    line, column = (position.line, position.column) if position is not None else (0, 0)
    return Problem(
        (), problem_id, detail, severity, file=file, line=line, column=column, brief=brief_text
    )


class ScalarRules(Enum):
    """Rules for the values of plain scalars.

    KUBERNETES: those of sigs.k8s.io/yaml; `y` and `n` are booleans, `1e3` is a number. PYYAML:
    those of PyYAML, used by Heat, Tacker and OSM; these are texts, `1_000` is a number.
    """

    KUBERNETES = "kubernetes"
    PYYAML = "pyyaml"


def parse_yaml(
    file: str, content: str | bytes, rules: ScalarRules = ScalarRules.KUBERNETES
) -> YamlStream:
    """Parse all documents of a text.

    An invalid document ends the stream with a finding.
    """
    size = len(content)
    line_end: Any = b"\n" if isinstance(content, bytes) else "\n"
    # Perhaps a List of kubectl or of a hub, parsed faster.
    if MIN_LARGE < size <= MAX_LARGE or line_end not in content:
        large_list = parse_large_list(content)
        # Else the normal parser reads it, or reports the error.
        if large_list is not None:
            return YamlStream((YamlDocument(*large_list),), findings=())
    if size > MAX_BYTES:
        detail = (
            f"the text has {size:,} bytes; the limit is {MAX_BYTES:,}, and {MAX_LARGE:,} for a "
            "List in JSON (kubectl get -o json). Split it into several files."
        )
        return YamlStream(
            (), (build_problem(file, position=None, problem_id="file-too-large", detail=detail),)
        )
    try:
        text = (
            _decode_utf8_or_utf16(content)
            if isinstance(content, bytes)
            else content.removeprefix("\ufeff")
        )
    except UnicodeDecodeError as problem:
        # Before the invalid one.
        valid_bytes = problem.object[: problem.start]
        position = TextPosition(
            valid_bytes.count(b"\n") + 1, problem.start - valid_bytes.rfind(b"\n")
        )
        return YamlStream(
            documents=(),
            findings=(
                build_problem(file, position, _get_error_id(file), "this is not utf-8 text."),
            ),
        )
    return _parse_document_stream(file, text, rules)


def _get_error_id(file: str, text: str = "") -> str:
    """Return the id of errors of a text."""
    return INVALID_JSON if _is_json(file, text) else INVALID


def _is_json(file: str, text: str) -> bool:
    """Return whether a text is JSON by the name of its file, or by its start."""
    return file.lower().endswith(".json") or _JSON_START.match(text.lstrip()) is not None


def load_yaml(content: str | bytes) -> Any:
    """Return the data of the only document, without positions; None if it is empty.

    Raises yaml.YAMLError.
    """
    import yaml

    return yaml.load(content, _get_loader())  # noqa: S506 - it is a safe one


def _get_loader() -> Any:
    """Return the loader of libyaml if it is installed: it is ten times faster."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _decode_utf8_or_utf16(content: bytes) -> str:
    """Decode UTF-8, with or without BOM, or the UTF-16 of PowerShell's `>`.

    Raises UnicodeDecodeError.
    """
    return content.decode("utf-16" if content[:2] in _UTF_16 else "utf-8-sig")


def _parse_document_stream(file: str, text: str, rules: ScalarRules) -> YamlStream:
    """Parse the documents of a text, up to the first error."""
    import yaml

    documents: list[YamlDocument] = []
    findings: list[Problem] = []
    duplicate_id = "duplicate-json-key" if _is_json(file, text) else "duplicate-yaml-key"
    try:
        events = iter(yaml.parse(text, Loader=_get_loader()))
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                reader = _DocumentReader(file, events, rules, duplicate_id)
                data, position = reader.parse_node(next(events), depth=0)
                findings += reader.findings
                # None: an empty document.
                if data is not None:
                    documents.append(YamlDocument(data, position))
    except _InvalidDocument as problem:
        error_id = _get_error_id(file, text)
        findings.append(build_problem(file, problem.position, error_id, problem.detail))
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        message = getattr(problem, "problem", None) or str(problem)
        error_position = None if mark is None else TextPosition(mark.line + 1, mark.column + 1)
        detail = f"{message}. Nothing after this line was read."
        # PyYAML 6.0.4, of many brackets on one line.
        if message == "exceeded maximum nesting depth":
            detail = _TOO_DEEP
        findings.append(build_problem(file, error_position, _get_error_id(file, text), detail))
    except RecursionError:
        detail = "the document is nested too deeply to be read here."
        findings.append(build_problem(file, None, _get_error_id(file, text), detail))
    return YamlStream(tuple(documents), tuple(findings))


# `{{ .Values.name }}` is a mapping as a key.
_TEMPLATE_HINT: Final = (
    " If {{ }} is of a template, render it first, for example with `helm template`."
)


class _InvalidDocument(Exception):
    # Control flow of this file: the document is invalid.
    def __init__(self, position: TextPosition, detail: str) -> None:
        self.position = position
        self.detail = detail


class _DocumentReader:
    # Builds one document from the parser's events, counting every node of an alias.
    def __init__(
        self, file: str, events: Iterator[Any], rules: ScalarRules, duplicate_id: str
    ) -> None:
        """Start to read the parse events of `file`.

        The number of nodes is limited, to stop alias bombs. Findings about duplicate keys have
        the id `duplicate_id`.
        """
        import yaml

        self.file = file
        self.events = events
        self.duplicate_id = duplicate_id
        self.parse_plain = (
            _parse_pyyaml_scalar if rules is ScalarRules.PYYAML else _parse_plain_scalar
        )
        self.findings: list[Problem] = []
        # Data, position and number of nodes.
        self.anchors: dict[str, tuple[Any, TextPosition, int]] = {}
        # So far, to limit them.
        self.nodes = 0
        # Events of nodes except mappings.
        self.kinds = (yaml.AliasEvent, yaml.ScalarEvent, yaml.SequenceStartEvent)
        self.ends = (yaml.SequenceEndEvent, yaml.MappingEndEvent)

    def parse_node(self, event: Any, depth: int) -> tuple[Any, TextPosition]:
        """Parse the value that starts with an event.

        Return it, and its position (an alias has its anchor's).
        """
        mark = event.start_mark
        position = TextPosition(mark.line + 1, mark.column + 1)
        if depth > MAX_DEPTH:
            raise _InvalidDocument(position, _TOO_DEEP)
        alias, scalar, sequence = self.kinds
        # The value of an anchor, shared.
        if isinstance(event, alias):
            anchor = event.anchor or ""
            if anchor not in self.anchors:
                detail = f'the alias "*{anchor}" is not defined; write "&{anchor}" before it.'
                raise _InvalidDocument(position, detail)
            anchored_data, anchor_position, node_count = self.anchors[anchor]
            # Else aliases of aliases could make a huge value.
            self._count_nodes_toward_limit(node_count, position)
            return anchored_data, anchor_position
        previous_count = self.nodes
        self._count_nodes_toward_limit(1, position)
        if isinstance(event, scalar):
            data = _parse_scalar(event, position, self.parse_plain)
            # The text is parsed to another value.
            if data is not None and not isinstance(data, str):
                position = TextPosition(position.line, position.column, source_text=event.value)
        elif isinstance(event, sequence):
            _require_matching_yaml_tag(event.tag, "seq", position)
            data = self._parse_sequence(position, depth)
        else:
            _require_matching_yaml_tag(event.tag, "map", position)
            data = self._parse_mapping(position, depth)
        if event.anchor:
            # With the number of its nodes.
            self.anchors[event.anchor] = (data, position, self.nodes - previous_count)
        return data, position

    def _count_nodes_toward_limit(self, nodes: int, position: TextPosition) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            detail = (
                f"the document expands to more than {MAX_NODES:,} nodes. Split it into several "
                "files."
            )
            raise _InvalidDocument(position, detail)

    def _parse_sequence(self, position: TextPosition, depth: int) -> list[Any]:
        """Parse the items up to the end of a sequence; their positions are added to `position`."""
        items: list[Any] = []
        for event in self.events:
            # The event is the end of the sequence.
            if isinstance(event, self.ends):
                break
            data, item_position = self.parse_node(event, depth + 1)
            position.children[len(items)] = item_position
            items.append(data)
        return items

    def _parse_mapping(self, position: TextPosition, depth: int) -> dict[str, Any]:
        """Parse the entries up to the end of a mapping, and add their positions to `position`.

        Merge those of `<<`.
        """
        entries: dict[str, Any] = {}
        # Mappings of `<<` entries.
        merged_sources: list[tuple[dict[str, Any], TextPosition]] = []
        for event in self.events:
            # The event is the end of the mapping.
            if isinstance(event, self.ends):
                break
            # An implicit value has no quotes and no tag.
            is_merge = getattr(event, "value", None) == "<<" and event.implicit[0]
            name, key_position = self.parse_node(event, depth + 1)
            data, value_position = self.parse_node(next(self.events), depth + 1)
            if is_merge:
                merged_sources += _list_merge_sources(data, value_position)
                continue
            # Null, a list or a mapping.
            if not isinstance(name, (str, int, float)):
                hint = _TEMPLATE_HINT if isinstance(name, dict) else ""
                raise _InvalidDocument(key_position, f"a key must be a text or a number.{hint}")
            # A key is written as in JSON: true, 1.
            key = str(name).lower() if isinstance(name, bool) else str(name)
            if key in entries:
                detail = f'the key "{key}" occurs twice in one mapping; the last value is used.'
                problem = build_problem(
                    self.file, key_position, self.duplicate_id, detail, Severity.WARNING
                )
                self.findings.append(problem)
            entries[key] = data
            # The entry has the position of its key; its parts keep their own.
            position.children[key] = replace(
                value_position, line=key_position.line, column=key_position.column
            )
        for source, source_position in merged_sources:
            for key, data in source.items():
                # Neither an own entry nor from an earlier source.
                if key not in entries:
                    entries[key] = data
                    position.children[key] = source_position.children.get(key, source_position)
        return entries


def _list_merge_sources(
    data: Any, position: TextPosition
) -> Iterable[tuple[dict[str, Any], TextPosition]]:
    """Return the mappings merged by <<, with their positions: one, or those of a list.

    Raises _InvalidDocument. `data` is the value of the key `<<`, and `position` has the positions
    of its parts in `children`.
    """
    if isinstance(data, dict):
        return [(data, position)]
    if isinstance(data, list) and all(isinstance(part, dict) for part in data):
        return [(part, position.children[index]) for index, part in enumerate(data)]
    raise _InvalidDocument(
        position, "only a mapping, or a list of mappings, can be merged with <<."
    )


_TAG: Final = "tag:yaml.org,2002:"
# Classes of the values that a tag accepts.
_TAG_CLASSES: Final[dict[str, set[type]]] = {
    "int": {int},
    "float": {int, float},
    "bool": {bool},
    "null": {type(None)},
}
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_BASED: Final = re.compile(
    r"(?P<sign>[-+]?)0(?:x(?P<x>[0-9a-fA-F]+)|b(?P<b>[01]+)|o?(?P<o>[0-7]+))\Z"
)
_BASES: Final = {"x": 16, "b": 2, "o": 8}
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_SPECIAL: Final = re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS: Final = {
    form: word in {"true", "yes", "on", "y"}
    for word in ("true", "yes", "on", "y", "false", "no", "off", "n")
    for form in (word, word.upper(), word.capitalize())
}
# More digits than any number of a manifest has; Python's own limit is 4,300.
_MAX_NUMBER_LENGTH: Final = 400


def _require_matching_yaml_tag(tag: str | None, kind: str, position: TextPosition) -> None:
    """Raise _InvalidDocument for an explicit tag other than `!!kind`, the one of this kind of node.

    Kinds are, for example, "map" and "seq".
    """
    if tag not in {None, "!", _TAG + kind}:
        raise _InvalidDocument(
            position, f'the tag "{str(tag).replace(_TAG, "!!")}" is not supported.'
        )


def _parse_scalar(
    event: Any, position: TextPosition, parse_plain: Callable[[str, TextPosition], Any]
) -> Any:
    """Parse a scalar by its tag, such as `!!int 1`.

    Without a tag, it is text in quotes, else `parse_plain` decides. A text such as 1.5 is unfit for
    `!!int`. Raises _InvalidDocument for a value unfit for its tag, and for another tag.
    """
    text = event.value
    tag = event.tag
    if tag is None:
        # A value with `implicit[0]` is not quoted.
        return parse_plain(text, position) if event.implicit[0] else text
    kind = tag.removeprefix(_TAG)
    if kind in {"!", "str", "binary", "timestamp"}:
        return text
    if kind not in _TAG_CLASSES:
        raise _InvalidDocument(position, f'the tag "{tag.replace(_TAG, "!!")}" is not supported.')
    value = _parse_plain_scalar(text, position)
    # Its very class: a bool is an instance of int.
    if type(value) not in _TAG_CLASSES[kind]:
        raise _InvalidDocument(position, f'"{text[:40]}" cannot be read as !!{kind}.')
    return _convert_to_float(value, text, position) if kind == "float" else value


def _convert_to_float(number: Any, text: str, position: TextPosition) -> float:
    """Convert a number or its decimal text; `text` is its text in the document.

    Raises _InvalidDocument.
    """
    try:
        result = float(number)
    except OverflowError:
        result = inf
    if isinf(result):
        raise _InvalidDocument(position, f"the number {text[:40]} is too large.")
    return result


def _parse_plain_scalar(text: str, position: TextPosition) -> Any:
    """Parse a scalar without quotes: null, a boolean, a number, else its text.

    Integers may have a base: `0x1f`, `0b11`, and `0o17` or `017` in octal. Raises _InvalidDocument
    for infinity, NaN and numbers too large for a float.
    """
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    # "" is null.
    starts_like_number = text[0].isdigit() or text[0] in "+-."
    if not starts_like_number or len(text) > _MAX_NUMBER_LENGTH:
        return text
    if _INTEGER.match(text):
        return int(text)
    based = _BASED.match(text)
    if based:
        # The digits are in the last group, named after their prefix.
        prefix = str(based.lastgroup)
        return int(based["sign"] + based[prefix], _BASES[prefix])
    if _FLOAT.match(text):
        return _convert_to_float(text, text, position)
    if _SPECIAL.match(text):
        raise _InvalidDocument(position, f"the number {text} is not finite.")
    return text


@cache
def _get_pyyaml_loader() -> Any:
    """Return a loader of PyYAML for single scalars."""
    import yaml

    return yaml.SafeLoader("")


def _parse_pyyaml_scalar(text: str, position: TextPosition) -> Any:
    """Parse a scalar without quotes as PyYAML does; dates stay text.

    Raises _InvalidDocument for infinity, NaN and numbers too large for a float.
    """
    import yaml

    loader = _get_pyyaml_loader()
    tag = loader.resolve(yaml.ScalarNode, text, (True, False))
    if tag.removeprefix(_TAG) not in _TAG_CLASSES or len(text) > _MAX_NUMBER_LENGTH:
        return text
    try:
        # Without construct_object, which keeps every node.
        value = loader.yaml_constructors[tag](loader, yaml.ScalarNode(tag, text))
    except ValueError:
        # Such as 0x_; PyYAML rejects it.
        return text
    if isinstance(value, float) and not isfinite(value):
        raise _InvalidDocument(position, f"the number {text[:40]} is not finite.")
    return value


# Mark of omitted parts in printed excerpts.
ELISION: Final = "..."


class KindReads:
    """Reads of the values of a document, by their kind.

    A reader may try several kinds for one value. A value that each read took for absent is of
    a wrong kind.
    """

    def __init__(self) -> None:
        self._read: set[int] = set()
        # By the id of a position: the node, and the kinds that were tried.
        self._rejected: dict[int, tuple[Node, dict[str, None]]] = {}

    def add_read(self, node: Node, kind: str, *, is_kind: bool) -> None:
        """Add a read of a value as a kind, such as "a text"."""
        if is_kind:
            self._read.add(id(node.position))
        elif not node.is_absent:
            _, kinds = self._rejected.setdefault(id(node.position), (node, {}))
            kinds.setdefault(kind)

    def list_wrong_kinds(self) -> Iterator[tuple[Node, str]]:
        """List each value of a wrong kind with the reason, in order of the reads."""
        for key, (node, kinds) in self._rejected.items():
            if key not in self._read:
                expected = join_texts(list(kinds), " or ")
                yield node, f"it is {describe_kind(node.data)}, not {expected}"


def describe_kind(data: Any) -> str:
    """Return the kind of plain data as a noun with its article."""
    for kind in (FieldKind.FLAG, FieldKind.NUMBER, FieldKind.TEXT, FieldKind.LIST):
        if kind.is_valid(data):
            return "a boolean" if kind is FieldKind.FLAG else kind.value
    return FieldKind.OBJECT.value


class Node(Struct, frozen=True):
    """Plain data and its position (that of the nearest existing ancestor, if it is absent).

    `name` is its key, that of the list for an item. `reads` are the reads of its document.
    """

    data: Any
    position: TextPosition
    name: str = ""
    reads: KindReads | None = None

    @staticmethod
    def create_document_node(document: YamlDocument, reads: KindReads | None = None) -> Node:
        """Create the node of a whole document."""
        return Node(document.data, document.position, reads=reads)

    def _check_kind(self, kind: FieldKind, *, is_kind: bool) -> bool:
        """Add a read to those of the document, and return whether the value is of the kind."""
        if self.reads is not None:
            self.reads.add_read(self, kind.value, is_kind=is_kind)
        return is_kind

    @property
    def line(self) -> int:
        """Line, from 1."""
        return self.position.line

    @property
    def is_absent(self) -> bool:
        """True without a value: absent, null, or the "..." of an excerpt."""
        return self.data is None or self.data == ELISION

    def get_node(self, *path: str | int) -> Node:
        """Return the part at a path; an empty node if there is none."""
        node = self
        for step in path:
            node = node._get_child(step)
        return node

    def _get_child(self, step: str | int) -> Node:
        """Return the part at a key or index; without one, an empty node at the same position."""
        data = self.data
        position = self.position.children.get(step, self.position)
        if isinstance(step, int):
            is_list = self._check_kind(FieldKind.LIST, is_kind=isinstance(data, list))
            if is_list and 0 <= step < len(data):
                return Node(data[step], position, self.name, self.reads)
        elif self._check_kind(FieldKind.OBJECT, is_kind=isinstance(data, dict)):
            return Node(data.get(step), position, step, self.reads)
        return Node(None, self.position, str(step), self.reads)

    def list_fields(self) -> Iterator[tuple[str, Node]]:
        """List the parts of a mapping by key, in order; none for any other kind."""
        if self._check_kind(FieldKind.OBJECT, is_kind=isinstance(self.data, dict)):
            for key in self.data:
                yield (
                    key,
                    Node(
                        self.data[key],
                        self.position.children.get(key, self.position),
                        str(key),
                        self.reads,
                    ),
                )

    def list_items(self) -> Iterator[Node]:
        """List the parts of a list, in order; none for any other kind."""
        if self._check_kind(FieldKind.LIST, is_kind=isinstance(self.data, list)):
            for index in range(len(self.data)):
                yield self._get_child(index)

    @property
    def text(self) -> str:
        """Text, "" for any other kind."""
        is_text = self._check_kind(FieldKind.TEXT, is_kind=isinstance(self.data, str))
        return self.data if is_text and self.data != ELISION else ""

    def list_texts(self) -> list[tuple[str, Node]]:
        """Return each text with its node: those of a list, or a single text in place of a list."""
        if self.text:
            return [(self.text, self)]
        return [(item.text, item) for item in self.list_items() if item.text]

    @property
    def number(self) -> int | None:
        """Whole number, also from text; None for anything else."""
        number = parse_whole_number(self.data)
        self._check_kind(FieldKind.WHOLE, is_kind=number is not None)
        return number


def parse_whole_number(value: Any) -> int | None:
    """Parse a whole number, also from text; None for anything else."""
    if isinstance(value, bool):
        # A bool is an int in Python.
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return parse_integer(value.strip()) if isinstance(value, str) else None


class DocumentFindings:
    """Findings about one document and its unread facts, in the order of creation, each once."""

    def __init__(self, file: str) -> None:
        self.file = file
        # Those of the nodes of this document.
        self.reads = KindReads()
        # Ordered sets.
        self._problems: dict[Problem, None] = {}
        self._unread: dict[Doubt, None] = {}

    @property
    def findings(self) -> tuple[Problem, ...]:
        """All findings, by line."""
        return tuple(sorted(self._problems, key=lambda problem: problem.line))

    @property
    def unread(self) -> tuple[Doubt, ...]:
        """Facts of the document that are not read."""
        return tuple(self._unread)

    def list_wrong_kinds(self) -> Iterator[Doubt]:
        """List the values of a wrong kind, which are not read, as facts of the document.

        A line with a finding of its reader, or with an unread fact, is left out.
        """
        lines = {problem.line for problem in self._problems}
        lines |= {fact.line for fact in self._unread}
        for node, reason in self.reads.list_wrong_kinds():
            if node.line not in lines:
                yield Doubt(
                    "document",
                    "",
                    node.name,
                    self.file,
                    node.line,
                    Influence.PLACEMENT,
                    reason=reason,
                )

    def add_unread_fact(
        self,
        location: Node,
        subject: tuple[str, str],
        field_name: str,
        influence: Influence,
        *,
        reason: str = "",
        pool: str = "",
        reading_platform: str = "",
    ) -> None:
        """Add a fact of the document that is not read.

        `subject` is a kind and a name ("" without one), `reason` a clause on why it is not
        read, and `pool` the pool of VMs concerned ("": all). A `reading_platform` reads it on
        its own sites.
        """
        fact = Doubt(
            *subject,
            field_name,
            self.file,
            location.line,
            influence,
            reason=reason,
            pool=pool,
            reading_platform=reading_platform,
        )
        self._unread.setdefault(fact)

    def add_unread_fields(
        self, node: Node, fields: FieldList, subject: tuple[str, str], *, pool: str = ""
    ) -> None:
        """Add the present fields of an object that are neither read nor without influence."""
        present = {name: part for name, part in node.list_fields() if not part.is_absent}
        for name, influence in fields.list_unread(present):
            self.add_unread_fact(present[name], subject, name, influence, pool=pool)

    def add_warning(
        self, location: Node | TextPosition | None, problem_id: str, detail: str
    ) -> None:
        """Add a warning about something that was corrected or skipped."""
        self._add(location, problem_id, detail, Severity.WARNING)

    def add_error(self, location: Node | TextPosition | None, problem_id: str, detail: str) -> None:
        """Add an error about something unusable."""
        self._add(location, problem_id, detail, Severity.ERROR)

    def add_problem(self, problem: Problem) -> None:
        """Add a finding of another reader about the same document."""
        self._problems.setdefault(problem)

    def _add(
        self, location: Node | TextPosition | None, problem_id: str, detail: str, severity: Severity
    ) -> None:
        position = location.position if isinstance(location, Node) else location
        self._problems.setdefault(build_problem(self.file, position, problem_id, detail, severity))


# --- large lists in JSON (`kubectl get -o json`), and those on one line --------------------------
#
# They get the position of each item only: a million positions take more memory than the data.

# Minimum and maximum size of texts for this parser.
MIN_LARGE: Final = 4 * 1024 * 1024
MAX_LARGE: Final = 256 * 1024 * 1024
_ITEMS: Final = "items"
_SPACE: Final = re.compile(r"[ \t\r\n]*")


class _UnsupportedJson(ValueError):
    """Control flow of this file: the text needs the normal parser; it reports the errors."""


def parse_large_list(content: str | bytes) -> tuple[dict[str, Any], TextPosition] | None:
    """Parse a Kubernetes List in JSON, with the position of each item.

    Return None for any other, invalid or deep content.
    """
    try:
        text = _decode_utf8_or_utf16(content) if isinstance(content, bytes) else content
        data, position = _JsonListReader(text).parse()
    except (ValueError, RecursionError, IndexError):
        # A UnicodeDecodeError is a ValueError.
        # The normal parser reports the error.
        return None
    return None if _is_nested_too_deep(data) else (data, position)


class _JsonListReader:
    # Reads a List item by item.
    def __init__(self, text: str) -> None:
        """Start at line 1; duplicate keys and special numbers such as NaN are rejected."""
        self.text = text
        self.offset = 0
        self.line = 1
        # Lines are counted up to this offset.
        self.counted_offset = 0
        self.decode = json.JSONDecoder(
            object_pairs_hook=_build_object, parse_constant=_reject_number
        ).raw_decode

    def parse(self) -> tuple[dict[str, Any], TextPosition]:
        """Parse the whole text, an object with a list `items`.

        Raises ValueError, IndexError or RecursionError.
        """
        data: dict[str, Any] = {}
        self._skip_blanks()
        root_position = self._compute_current_position()
        self._require_and_skip_character("{")
        while True:
            key_position = self._compute_current_position()
            key = self._parse_value()
            self._require_and_skip_character(":")
            if not isinstance(key, str) or key in data:
                # The YAML parser reads the text instead, and reports duplicate keys.
                raise _UnsupportedJson
            if key == _ITEMS and self.text[self.offset] == "[":
                data[key], root_position.children[key] = self._parse_items(key_position)
            else:
                data[key] = self._parse_value()
                root_position.children[key] = key_position
            if not self._has_next_item("}"):
                break
        if self.offset != len(self.text) or not isinstance(data.get(_ITEMS), list):
            raise _UnsupportedJson
        return data, root_position

    def _parse_items(self, list_position: TextPosition) -> tuple[list[Any], TextPosition]:
        """Parse the items up to the end of the list.

        Return them, and `list_position` with their positions added.
        """
        items: list[Any] = []
        self._require_and_skip_character("[")
        if self.text[self.offset] == "]":
            self._require_and_skip_character("]")
            return items, list_position
        while True:
            list_position.children[len(items)] = self._compute_current_position()
            items.append(self._parse_value())
            if not self._has_next_item("]"):
                return items, list_position

    def _has_next_item(self, end: str) -> bool:
        """Skip a comma, or the mark `end`; return whether it was a comma.

        Raises _UnsupportedJson for another mark.
        """
        has_comma = self.text[self.offset] == ","
        self._require_and_skip_character("," if has_comma else end)
        return has_comma

    def _parse_value(self) -> Any:
        value, self.offset = self.decode(self.text, self.offset)
        self._skip_blanks()
        return value

    def _require_and_skip_character(self, sign: str) -> None:
        """Read one character and the blanks after it.

        Raises _UnsupportedJson for another one.
        """
        if self.text[self.offset] != sign:
            raise _UnsupportedJson
        self.offset += 1
        self._skip_blanks()

    def _skip_blanks(self) -> None:
        blanks = _SPACE.match(self.text, self.offset)
        assert blanks is not None, "the pattern matches no blanks, too"
        self.offset = blanks.end()

    def _compute_current_position(self) -> TextPosition:
        """Return the position of `offset`.

        Count only the lines since the last call, so that all text is read once.
        """
        self.line += self.text.count("\n", self.counted_offset, self.offset)
        self.counted_offset = self.offset
        return TextPosition(self.line, self.offset - self.text.rfind("\n", 0, self.offset))


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; raise _UnsupportedJson for duplicate keys."""
    data = dict(pairs)
    if len(data) != len(pairs):
        raise _UnsupportedJson
    return data


def _reject_number(_constant: str) -> Any:
    """Reject the text of NaN or an infinite number."""
    raise _UnsupportedJson


def _is_nested_too_deep(data: dict[str, Any]) -> bool:
    """Check whether data has more than MAX_DEPTH levels of mappings and lists.

    The check goes level by level and without recursion.
    """
    # The mappings and lists at one depth.
    level: list[Any] = [data]
    for _ in range(MAX_DEPTH):
        next_level: list[Any] = []
        for part in level:
            next_level.extend(part.values() if isinstance(part, dict) else part)
        level = [part for part in next_level if isinstance(part, (dict, list))]
        if not level:
            return False
    return True
