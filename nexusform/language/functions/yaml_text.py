"""Values as YAML text and back: one document, plain data only, aliases bounded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from nexusform.exact_numbers import number_from_decimal, number_text
from nexusform.language.functions.base64_text import decode_base64
from nexusform.language.functions.function import FixedProblem, FunctionProblem
from nexusform.language.functions.json_text import DEEPEST, clean_text
from nexusform.language.value_notes import quoted
from nexusform.value_types import NUMBER, STRING
from nexusform.values import FALSE, NULL, TRUE, Value, object_value, tuple_value

if TYPE_CHECKING:
    from yaml import Event

# What aliases may unfold to, in nodes.
MOST_NODES: Final = 200_000

# Where a quoted string is broken, in columns.
_WIDTH: Final = 80


_ESCAPES: Final = {
    0x00: "\\0",
    0x07: "\\a",
    0x08: "\\b",
    0x0B: "\\v",
    0x0C: "\\f",
    0x1B: "\\e",
    0x85: "\\N",
    0x2028: "\\L",
    0x2029: "\\P",
}


# What YAML 1.1 calls printable in the basic plane, line breaks apart; all else is escaped.
# Patterns of `re` that take milliseconds to compile: it keeps them once they are used.
_SPECIAL: Final = "[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]"
_NOT_IN_BLOCK: Final = "[^\n\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]"
_BREAK: Final = re.compile("[\n\r\x85\u2028\u2029]")
# In bytes; a longer key, or one of several lines, is written after a question mark.
_LONGEST_SIMPLE_KEY: Final = 128

# --- writing -----------------------------------------------------------------------------------


def yaml_text(value: Value) -> str:
    """A wholly known value as YAML, strings always quoted so that no one misreads them."""
    if isinstance(value.raw, (tuple, dict)) and value.raw:
        return "\n".join(_lines(value, 0)) + "\n"
    first, *rest = _item(value, 2, 0)
    text = "\n".join([first, *_shifted(rest)])
    if isinstance(value.raw, (str, tuple, dict)):
        return text + "\n"
    return text + "\n...\n"


def _scalar(value: Value) -> str:
    raw = value.raw
    if raw is None:
        return "null"
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, str):
        return _quoted(raw)
    if isinstance(raw, (tuple, dict)):
        return "[]" if isinstance(raw, tuple) else "{}"
    return number_text(raw)


def _quoted(text: str) -> str:
    return re.sub(_SPECIAL, _escaped, quoted(text))


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code in _ESCAPES:
        return _ESCAPES[code]
    if code < 0x100:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _shifted(lines: list[str]) -> list[str]:
    return [f"  {line}" if line else line for line in lines]


def _lines(value: Value, indent: int) -> list[str]:
    # The block form of a collection that is not empty, which stands at a column.
    if isinstance(value.raw, tuple):
        item_lines: list[str] = []
        for item in value.raw:
            inner = _item(item, indent + 2, indent + 2)
            item_lines += [f"- {inner[0]}", *_shifted(inner[1:])]
        return item_lines
    lines: list[str] = []
    for key, item in value.raw.items():
        lines += _entry(key, item, indent)
    return lines


def _entry(key: str, item: Value, indent: int) -> list[str]:
    # The lines of one member of a mapping.
    if _BREAK.search(key) or len(key.encode()) > _LONGEST_SIMPLE_KEY:
        first = _item(Value(STRING, key), indent + 2, indent + 2)
        second = _item(item, indent + 2, indent + 2)
        return [f"? {first[0]}", *_shifted(first[1:]), f": {second[0]}", *_shifted(second[1:])]
    name = f"{_quoted(key)}:"
    if isinstance(item.raw, dict) and item.raw:
        return [name, *_shifted(_lines(item, indent + 2))]
    if isinstance(item.raw, tuple) and item.raw:
        return [name, *_lines(item, indent)]
    inner = _item(item, indent + 2, indent + len(name) + 1)
    return [f"{name} {inner[0]}", *_shifted(inner[1:])]


def _folded(text: str, indent: int, column: int) -> list[str]:
    # A quoted string whose first character stands at `column`; beyond the width it goes on in the
    # next line, at `indent`, instead of a space. A further space there needs a backslash before it.
    if column + len(text) < _WIDTH:
        return [_quoted(text)]
    lines: list[str] = []
    pieces = ['"']
    column += 1
    spaced = False
    for position, character in enumerate(text):
        breaks = character == " " and not spaced and column > _WIDTH and 0 < position < len(text) - 1
        spaced = character == " "
        if breaks:
            lines.append("".join(pieces))
            pieces = ["\\"] if text[position + 1] == " " else []
            column = indent + len(pieces)
        else:
            piece = _quoted(character)[1:-1]
            pieces.append(piece)
            column += len(piece)
    return [*lines, "".join([*pieces, '"'])]


def _block_scalar(text: str) -> list[str]:
    # The text behind `|`, line by line. The header says how many line ends are at its end (`-` none,
    # nothing for one, `+` as many as there are), and the indent when the first line cannot show it.
    body = text.rstrip("\n")
    line_ends = len(text) - len(body)
    chomp = "+" if not body else {0: "-", 1: ""}.get(line_ends, "+")
    lead = "2" if text[0] in " \n" else ""
    empty_lines = [""] * max(line_ends - 1, 0)
    return [f"|{lead}{chomp}", *body.split("\n"), *empty_lines]


def _item(value: Value, indent: int, column: int) -> list[str]:
    # The lines of a value whose first character stands at `column`, further ones at `indent`.
    raw = value.raw
    if isinstance(raw, (tuple, dict)) and raw:
        return _lines(value, indent)
    if isinstance(raw, str) and "\n" in raw and _can_be_block(raw):
        return _block_scalar(raw)
    if isinstance(raw, str):
        return _folded(raw, indent, column)
    return [_scalar(value)]


def _can_be_block(text: str) -> bool:
    # A block scalar takes neither control characters nor lines with blanks at their end.
    return not re.search(_NOT_IN_BLOCK, text) and all(line == line.rstrip(" ") for line in text.split("\n"))


# --- reading -----------------------------------------------------------------------------------

_INTEGER: Final = re.compile(r"[-+]?[0-9]+\Z")
_OCTAL: Final = re.compile(r"0o[0-7]+\Z")
_HEXADECIMAL: Final = re.compile(r"0x[0-9a-fA-F]+\Z")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_SPECIAL_FLOAT: Final = re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")
_TIMESTAMP: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?)(Z|[-+][0-9]{2}:[0-9]{2})?)?\Z"
)
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset({"true", "yes", "on", "y"})
_FALSE: Final = frozenset({"false", "no", "off", "n"})
_TAG: Final = "tag:yaml.org,2002:"


def parse_yaml(text: str) -> Value:
    """The value of the one document in a text. Raises FunctionProblem."""
    import yaml

    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        reader = _Reader(_shallow(yaml.parse(text, Loader=loader)))
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        raise FunctionProblem(_sentence(problem), 0, mark.line + 1 if mark is not None else 0) from None
    except RecursionError:
        raise FixedProblem("the document is nested too deeply", 0) from None
    return reader.document()


def _shallow(events: Iterable[Event]) -> list[Event]:
    """All events of a document, which ends where it is nested too deeply: reading on would take for ever."""
    from yaml import CollectionEndEvent, CollectionStartEvent

    depth = 0
    kept: list[Event] = []
    for event in events:
        kept.append(event)
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > DEEPEST:
            raise FunctionProblem(f"the document is nested more than {DEEPEST} levels deep", 0)
    return kept


def _sentence(problem: Exception) -> str:
    mark = getattr(problem, "problem_mark", None)
    what = getattr(problem, "problem", None) or str(problem)
    return what if mark is None else f"on line {mark.line + 1}, column {mark.column + 1}: {what}"


class _Reader:
    # Builds the value from the parser's events, counting every node that an alias stands for.
    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.at = 0
        self.anchors: dict[str, tuple[Value, int]] = {}
        self.nodes = 0

    def document(self) -> Value:
        """The value of the only document."""
        import yaml

        starts = [e for e in self.events if isinstance(e, yaml.DocumentStartEvent)]
        if not starts:
            raise FixedProblem("on line 1, column 1: missing start of document", 0)
        if len(starts) > 1:
            place = starts[1].start_mark
            where = "at the second document" if place is None else f"on line {place.line + 1}, column 1"
            raise FunctionProblem(f"{where}: unexpected extra content after value", 0)
        self.at = self.events.index(starts[0]) + 1
        return self._node(0)

    def _count(self, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > MOST_NODES:
            raise FunctionProblem(f"the document unfolds to more than {MOST_NODES} nodes", 0)

    def _node(self, depth: int) -> Value:
        """The value at the next event, with those inside it."""
        import yaml

        if depth > DEEPEST:
            raise FunctionProblem(f"the document is nested more than {DEEPEST} levels deep", 0)
        event = self.events[self.at]
        self.at += 1
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                raise FunctionProblem(f'reference to undefined anchor "{event.anchor}"', 0)
            value, size = self.anchors[event.anchor]
            self._count(size)
            return value
        before = self.nodes
        self._count(1)
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar_value(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._sequence(event, depth)
        else:
            assert isinstance(event, yaml.MappingStartEvent)
            value = self._mapping(event, depth)
        if event.anchor:
            self.anchors[event.anchor] = (value, self.nodes - before)
        return value

    def _sequence(self, event: Any, depth: int) -> Value:
        import yaml

        _require_tag(event.tag, "seq")
        items: list[Value] = []
        while not isinstance(self.events[self.at], yaml.SequenceEndEvent):
            items.append(self._node(depth + 1))
        self.at += 1
        return tuple_value(items)

    def _mapping(self, event: Any, depth: int) -> Value:
        import yaml

        _require_tag(event.tag, "map")
        items: dict[str, Value] = {}
        merged: dict[str, Value] = {}
        while not isinstance(self.events[self.at], yaml.MappingEndEvent):
            place = self.events[self.at]
            is_merge = isinstance(place, yaml.ScalarEvent) and place.value == "<<" and place.implicit[0]
            key = self._key(depth + 1)
            value = self._node(depth + 1)
            if is_merge:
                merged = {**_mergeable(value), **merged}
            else:
                items[_key_text(key)] = value
        self.at += 1
        return object_value({**merged, **items})

    def _key(self, depth: int) -> Value:
        # An anchor of a key is not one that aliases may refer to, and a key is no alias itself.
        import yaml

        anchors = dict(self.anchors)
        if isinstance(self.events[self.at], yaml.AliasEvent):
            raise FixedProblem("an alias cannot be a mapping key", 0)
        key = self._node(depth)
        self.anchors = anchors
        return key


def _mergeable(value: Value) -> dict[str, Value]:
    """The entries that << brings: those of a mapping, or of several, of which the first counts."""
    if isinstance(value.raw, dict):
        return value.raw
    if isinstance(value.raw, tuple) and all(isinstance(v.raw, dict) for v in value.raw):
        merged: dict[str, Value] = {}
        for part in value.raw:
            merged = {**part.raw, **merged}
        return merged
    raise FixedProblem("cannot merge a value that is not a mapping", 0)


def _key_text(key: Value) -> str:
    if isinstance(key.raw, (tuple, dict)) or key.raw is None:
        raise FixedProblem("only scalar, non-null mapping keys are supported", 0)
    return str(key.raw) if isinstance(key.raw, str) else _scalar(key)


def _require_tag(tag: str | None, kind: str) -> None:
    if tag not in {None, _TAG + kind}:
        raise FunctionProblem(f'unsupported tag "{_short(tag)}"', 0)


def _short(tag: str | None) -> str:
    return (tag or "").replace(_TAG, "!!")


# How a text begins that may be something else than a string.
_HINTS: Final = frozenset("+-.0123456789yYnNtTfFoO~<")


def _scalar_value(event: Any) -> Value:
    """A value by its tag, or as YAML reads it without one."""
    text = clean_text(event.value)
    quoted_text = event.style in {"'", '"'}
    if event.tag is None:
        return _resolved(text) if event.implicit[0] else Value(STRING, text)
    kind = event.tag.removeprefix(_TAG)
    if kind in {"str", "binary"}:
        if kind == "binary":
            decode_base64(text)
        return Value(STRING, text)
    if kind not in {"int", "float", "bool", "null", "timestamp"}:
        raise FunctionProblem(f'unsupported tag "{_short(event.tag)}"', 0)
    # What others read: a tag says little about a text that looks like something, or is quoted.
    looks_like_something = not text or text[0] in _HINTS
    if looks_like_something and quoted_text:
        return Value(STRING, text)
    plain = _resolved(text)
    if plain.type != STRING or (kind == "timestamp" and _TIMESTAMP.match(text)):
        return plain
    if kind == "null":
        return NULL
    raise FunctionProblem(f'cannot parse "{text}" as !!{kind}', 0)


def _resolved(text: str) -> Value:
    # The value of a plain scalar: YAML 1.2's rules and, as others do, the bools of YAML 1.1.
    if text in _NULLS:
        return NULL
    word = text.lower()
    if word in _TRUE | _FALSE and text in {word, word.upper(), word.capitalize()}:
        return TRUE if word in _TRUE else FALSE
    if _HEXADECIMAL.match(text) or _OCTAL.match(text):
        if len(text) >= 500:
            return _number(text)
        base = 16 if text[1] == "x" else 8
        return _number(str(int(text[2:], base)))
    if _INTEGER.match(text) or _FLOAT.match(text):
        return _number(text)
    if _SPECIAL_FLOAT.match(text):
        raise FunctionProblem(f'the number "{text}" is not finite', 0)
    moment = _TIMESTAMP.match(text)
    if moment is not None:
        return Value(STRING, f"{moment[1]}T{moment[2] or '00:00:00'}{moment[3] or 'Z'}")
    return Value(STRING, text)


def _number(text: str) -> Value:
    try:
        return Value(NUMBER, number_from_decimal(text))
    except (OverflowError, ValueError):
        raise FixedProblem("a number in the document has too many digits", 0) from None
