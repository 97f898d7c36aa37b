"""Conversion of values to YAML text and back: one document, plain data only, bounded aliases."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from nexusform.language.functions.function import FixedProblem, FunctionProblem
from nexusform.language.functions.hashing import decode_base64
from nexusform.language.functions.json_encoding import (
    MAX_DEPTH,
    normalize_stored_text,
    parse_number,
    render_json,
)
from nexusform.language.value_descriptions import quote_text
from nexusform.schemas.value_types import STRING
from nexusform.values.typed_value import FALSE, NULL, TRUE, Value, build_object, build_tuple

if TYPE_CHECKING:
    from yaml import Event

# After expansion of aliases.
MAX_NODES: Final = 200_000
# Columns of a line of a quoted string.
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

# Printable characters of YAML 1.1 in the basic plane, without line breaks; all others are escaped.
# `re` caches the compiled patterns, which take milliseconds to compile.
_SPECIAL: Final = "[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]"
_NOT_IN_BLOCK: Final = "[^\n\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]"
_BREAK: Final = re.compile("[\n\r\x85\u2028\u2029]")
# A longer key, or one of several lines, follows a question mark.
_MAX_SIMPLE_KEY_BYTES: Final = 128
_TOO_DEEP: Final = f"the document is nested more than {MAX_DEPTH} levels deep"
# First characters of a text that may be something else than a string, as an empty text may be.
_NON_TEXT_BEGINNINGS: Final = frozenset({"", *"+-.0123456789yYnNtTfFoO~<"})


def render_yaml(value: Value) -> str:
    """Render a wholly known value as YAML, with strings always quoted."""
    if isinstance(value.raw, (tuple, dict)) and value.raw:
        return "\n".join(_render_lines(value, indent=0)) + "\n"
    # No collection with items: a scalar, [] or {}
    first, *further_lines = _render_value(value, indent=2, column=0)
    text = "\n".join([first, *_add_indentation(further_lines)])
    if isinstance(value.raw, (str, tuple, dict)):
        return text + "\n"
    # A plain scalar needs the mark of the document's end.
    return text + "\n...\n"


def _render_quoted(text: str) -> str:
    return re.sub(_SPECIAL, _escape_character, quote_text(text))


def _escape_character(match: re.Match[str]) -> str:
    """Return the shortest escape of a special character."""
    code = ord(match[0])
    if code in _ESCAPES:
        return _ESCAPES[code]
    if code < 0x100:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _add_indentation(lines: list[str]) -> list[str]:
    return [f"  {line}" if line else line for line in lines]


def _render_lines(value: Value, indent: int) -> list[str]:
    """Render the lines of a non-empty collection at column `indent`.

    The indentation itself is left out.
    """
    if isinstance(value.raw, tuple):
        item_lines: list[str] = []
        for item in value.raw:
            # After "- ".
            start, *rest = _render_value(item, indent=indent + 2, column=indent + 2)
            item_lines += [f"- {start}", *_add_indentation(rest)]
        return item_lines
    lines: list[str] = []
    for key, item in value.raw.items():
        lines += _render_mapping_entry(key, item, indent)
    return lines


def _render_mapping_entry(key: str, item: Value, indent: int) -> list[str]:
    """Render the lines of one entry of a mapping at column `indent`.

    The indentation up to that column is left out.
    """
    if _BREAK.search(key) or len(key.encode()) > _MAX_SIMPLE_KEY_BYTES:
        # An explicit key: `? KEY` and `: VALUE`.
        key_start, *key_rest = _render_value(
            Value(STRING, key), indent=indent + 2, column=indent + 2
        )
        item_start, *item_rest = _render_value(item, indent=indent + 2, column=indent + 2)
        return [
            f"? {key_start}",
            *_add_indentation(key_rest),
            f": {item_start}",
            *_add_indentation(item_rest),
        ]
    name = f"{_render_quoted(key)}:"
    if isinstance(item.raw, dict) and item.raw:
        return [name, *_add_indentation(_render_lines(item, indent + 2))]
    if isinstance(item.raw, tuple) and item.raw:
        # Not indented: a sequence starts at the column of its key.
        return [name, *_render_lines(item, indent)]
    start, *rest = _render_value(item, indent=indent + 2, column=indent + len(name) + 1)
    return [f"{name} {start}", *_add_indentation(rest)]


def _render_value(value: Value, indent: int, column: int) -> list[str]:
    """Render the lines of a value.

    The first begins at `column`, the caller indents the others to column `indent`. Text of several
    lines becomes a block (`|`) if YAML allows it. Other text is quoted, and wrapped if it is long.
    """
    raw = value.raw
    if isinstance(raw, (tuple, dict)) and raw:
        return _render_lines(value, indent)
    # A block scalar accepts neither control characters nor lines with trailing blanks.
    if (
        isinstance(raw, str)
        and "\n" in raw
        and not re.search(_NOT_IN_BLOCK, raw)
        and " \n" not in f"{raw}\n"
    ):
        # The block text after `|`. The header gives the number of line ends (`-` none, nothing for
        # one, `+` all), and the indent if the first line does not show it.
        body = raw.rstrip("\n")
        line_ends = len(raw) - len(body)
        chomp = "+" if not body else {0: "-", 1: ""}.get(line_ends, "+")
        # Columns by which the caller indents the text.
        lead = "2" if raw[0] in " \n" else ""
        empty_lines = [""] * max(line_ends - 1, 0)
        return [f"|{lead}{chomp}", *body.split("\n"), *empty_lines]
    if isinstance(raw, str):
        return (
            [_render_quoted(raw)]
            if column + len(raw) < _WIDTH
            else _render_long_text(raw, indent, column)
        )
    # Null, a bool, a number or an empty collection.
    return [render_json(value)]


def _render_long_text(text: str, indent: int, column: int) -> list[str]:
    """Render the lines of a quoted text longer than a line; arguments as in `_render_value`.

    A full line ends at the next single space: the line break replaces it.
    """
    lines: list[str] = []
    # Of the current line.
    pieces = ['"']
    # Of the next character, after the quote.
    column += 1
    is_after_space = False
    for position, character in enumerate(text):
        is_line_break = (
            character == " "
            and not is_after_space
            and column > _WIDTH
            and 0 < position < len(text) - 1
        )
        is_after_space = character == " "
        if is_line_break:
            lines.append("".join(pieces))
            # A backslash keeps spaces at the start of a line.
            pieces = ["\\"] if text[position + 1] == " " else []
            column = indent + len(pieces)
        else:
            piece = _render_quoted(character)[1:-1]
            pieces.append(piece)
            column += len(piece)
    return [*lines, "".join([*pieces, '"'])]


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
    """Parse the only document in a text.

    Raises FunctionProblem.
    """
    import yaml

    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        # The number of open sequences and mappings.
        depth = 0
        events: list[Event] = []
        for event in yaml.parse(text, Loader=loader):
            events.append(event)
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            # At once: reading deeper takes too long.
            if depth > MAX_DEPTH:
                raise FunctionProblem(_TOO_DEEP, argument=0)
        reader = _YamlReader(events)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        message = getattr(problem, "problem", None) or str(problem)
        # PyYAML 6.0.4, of many brackets on one line.
        if message == "exceeded maximum nesting depth":
            raise FunctionProblem(_TOO_DEEP, argument=0) from None
        if mark is None:
            raise FunctionProblem(message, argument=0) from None
        line = mark.line + 1
        column = mark.column + 1
        raise FunctionProblem(
            f"on line {line}, column {column}: {message}", argument=0, line=line
        ) from None
    except RecursionError:
        raise FixedProblem("the document is nested too deeply", argument=0) from None
    return reader.parse_document()


class _YamlReader:
    # Builds the value from the parser's events, counting every node of an alias.
    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.index = 0
        # The value of each anchor and its number of nodes.
        self.anchors: dict[str, tuple[Value, int]] = {}
        # So far, to limit them.
        self.nodes = 0

    def parse_document(self) -> Value:
        """Parse the only document.

        Raises FunctionProblem if there is none, or a second one.
        """
        import yaml

        starts = [e for e in self.events if isinstance(e, yaml.DocumentStartEvent)]
        if not starts:
            raise FixedProblem("on line 1, column 1: missing start of document", argument=0)
        if len(starts) > 1:
            mark = starts[1].start_mark
            assert mark is not None, "parsers set it"
            message = f"on line {mark.line + 1}, column 1: unexpected extra content after value"
            raise FunctionProblem(message, argument=0)
        self.index = self.events.index(starts[0]) + 1
        return self._parse_node(depth=0)

    def _count_nodes_toward_limit(self, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise FunctionProblem(
                f"the document expands to more than {MAX_NODES} nodes", argument=0
            )

    def _parse_node(self, depth: int) -> Value:
        """Parse the value at the next event, with its parts.

        The parser reports events: a scalar, an alias, or the start and the end of a
        sequence or mapping.
        """
        import yaml

        if depth > MAX_DEPTH:
            raise FunctionProblem(_TOO_DEEP, argument=0)
        event = self.events[self.index]
        self.index += 1
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                raise FunctionProblem(f'reference to undefined anchor "{event.anchor}"', argument=0)
            value, node_count = self.anchors[event.anchor]
            # Else aliases of aliases could make a huge value.
            self._count_nodes_toward_limit(node_count)
            return value
        previous_count = self.nodes
        self._count_nodes_toward_limit(1)
        if isinstance(event, yaml.ScalarEvent):
            value = _parse_scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            _require_matching_yaml_tag(event.tag, "seq")
            items: list[Value] = []
            while not isinstance(self.events[self.index], yaml.SequenceEndEvent):
                items.append(self._parse_node(depth + 1))
            self.index += 1
            value = build_tuple(items)
        else:
            assert isinstance(event, yaml.MappingStartEvent)
            value = self._parse_mapping(event, depth)
        if event.anchor:
            # With the number of its nodes.
            self.anchors[event.anchor] = (value, self.nodes - previous_count)
        return value

    def _parse_mapping(self, event: Any, depth: int) -> Value:
        """Parse the entries of a mapping after its start.

        A key `<<` (not quoted or tagged) merges other mappings.
        """
        import yaml

        _require_matching_yaml_tag(event.tag, "map")
        items: dict[str, Value] = {}
        while not isinstance(self.events[self.index], yaml.MappingEndEvent):
            key_event = self.events[self.index]
            is_merge = (
                isinstance(key_event, yaml.ScalarEvent)
                and key_event.value == "<<"
                and key_event.implicit[0]
            )
            key = self._parse_key(depth + 1)
            value = self._parse_node(depth + 1)
            if is_merge:
                # The last of equal keys counts, as in Terraform.
                items |= _collect_merged_entries(value)
            else:
                if isinstance(key.raw, (tuple, dict)) or key.raw is None:
                    raise FixedProblem(
                        "only scalar, non-null mapping keys are supported", argument=0
                    )
                items[key.raw if isinstance(key.raw, str) else render_json(key)] = value
        self.index += 1
        return build_object(items)

    def _parse_key(self, depth: int) -> Value:
        """Parse the key of a mapping's entry.

        Raises FunctionProblem for an alias.
        """
        import yaml

        anchors = dict(self.anchors)
        if isinstance(self.events[self.index], yaml.AliasEvent):
            raise FixedProblem("an alias cannot be a mapping key", argument=0)
        key = self._parse_node(depth)
        # Aliases cannot refer to an anchor of a key.
        self.anchors = anchors
        return key


def _collect_merged_entries(value: Value) -> dict[str, Value]:
    """Return the entries of the value of `<<`, a mapping or a list of mappings.

    The last of equal keys counts.
    """
    if isinstance(value.raw, dict):
        return value.raw
    if isinstance(value.raw, tuple) and all(isinstance(v.raw, dict) for v in value.raw):
        entries: dict[str, Value] = {}
        for part in value.raw:
            entries |= part.raw
        return entries
    raise FixedProblem("cannot merge a value that is not a mapping", argument=0)


def _require_matching_yaml_tag(tag: str | None, kind: str) -> None:
    """Raise FunctionProblem for an explicit tag other than `!!kind`, the one of this kind of node.

    Kinds are, for example, "map" and "seq".
    """
    if tag is not None and tag != _TAG + kind:
        raise FunctionProblem(f'unsupported tag "{tag.replace(_TAG, "!!")}"', argument=0)


def _parse_scalar(event: Any) -> Value:
    """Parse a scalar event of the YAML parser.

    Its tag decides about the type, such as `!!int 5`. Without a tag, a quoted scalar is text, and
    the text of a plain one decides by YAML's rules.
    """
    text = normalize_stored_text(event.value)
    if event.tag is None:
        # implicit[0]: not quoted.
        return _parse_plain_scalar(text) if event.implicit[0] else Value(STRING, text)
    kind = event.tag.removeprefix(_TAG)
    if kind == "binary":
        decode_base64(text)  # raises FunctionProblem
    if kind in {"str", "binary"}:
        return Value(STRING, text)
    if kind not in {"int", "float", "bool", "null", "timestamp"}:
        raise FunctionProblem(f'unsupported tag "{event.tag.replace(_TAG, "!!")}"', argument=0)
    # As in other implementations, quotes override the tag if the text begins like a value of
    # another type, such as a number, a bool or null.
    if event.style in {"'", '"'} and text[:1] in _NON_TEXT_BEGINNINGS:
        # "123" stays text even as !!int.
        return Value(STRING, text)
    resolved = _parse_plain_scalar(text)
    if resolved.type != STRING or (kind == "timestamp" and _TIMESTAMP.match(text)):
        return resolved
    # Whatever the text.
    if kind == "null":
        return NULL
    raise FunctionProblem(f'cannot parse "{text}" as !!{kind}', argument=0)


def _parse_plain_scalar(text: str) -> Value:
    """Parse an unquoted scalar by YAML 1.2's rules, with bools and timestamps of YAML 1.1.

    The result is null, a bool, a number, or text. Text of the form of a timestamp is completed.
    Raises FunctionProblem for a number that is not finite, or has too many digits.
    """
    if text in _NULLS:
        return NULL
    word = text.lower()
    # "yes", "YES" or "Yes", but not "yEs".
    is_usual_case = text in {word, word.upper(), word.capitalize()}
    if word in _TRUE | _FALSE and is_usual_case:
        return TRUE if word in _TRUE else FALSE
    # `0x` or `0o`.
    has_base_prefix = _HEXADECIMAL.match(text) or _OCTAL.match(text)
    if has_base_prefix and len(text) >= 500:
        # Fails: too many digits.
        return parse_number(text)
    if has_base_prefix:
        # The base is that of its prefix.
        return parse_number(str(int(text, base=0)))
    if _INTEGER.match(text) or _FLOAT.match(text):
        return parse_number(text)
    if _SPECIAL_FLOAT.match(text):
        raise FunctionProblem(f'the number "{text}" is not finite', argument=0)
    # Groups: date, time, zone; the last two may be missing.
    moment = _TIMESTAMP.match(text)
    # A timestamp becomes text, completed to RFC 3339: a date alone is midnight in UTC.
    if moment is not None:
        date = moment[1]
        time = moment[2] or "00:00:00"
        zone = moment[3] or "Z"
        return Value(STRING, f"{date}T{time}{zone}")
    return Value(STRING, text)
