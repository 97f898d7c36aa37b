"""Tables of function tests in Go source: arguments, results and errors as values.

Only composite literals of go-cty values are read. A row with other Go code is counted and left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from msgspec import Struct

from nexusform.schemas.value_types import (
    BOOL,
    DYNAMIC,
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    SetType,
    TupleType,
    Type,
)
from nexusform.values.typed_value import (
    FALSE,
    NOT_NULL,
    TRUE,
    Refinement,
    Value,
    add_refinement,
    build_boolean,
    build_null,
    build_number,
    build_object,
    build_set,
    build_string,
    build_tuple,
    build_unknown,
    parse_number,
)

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<raw>`[^`]*`)
    |(?P<text>"(?:\\.|[^"\\\n])*")
    |(?P<number>[0-9][0-9a-fA-FxX_.]*(?:[eE][+-]?[0-9]+)?)
    |(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)
    |(?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_PRIMITIVES: Mapping[str, Type] = {
    "String": STRING,
    "Number": NUMBER,
    "Bool": BOOL,
    "DynamicPseudoType": DYNAMIC,
    "EmptyTuple": TupleType(()),
    "EmptyObject": ObjectType(()),
}
_CONSTANTS: Mapping[str, Any] = {
    "true": True,
    "false": False,
    "nil": None,
    "cty.NilVal": None,
    "math.MaxInt": (1 << 63) - 1,
    "cty.True": TRUE,
    "cty.False": FALSE,
    "cty.Zero": build_number(0),
    "cty.EmptyTupleVal": build_tuple(()),
    "cty.EmptyObjectVal": build_object({}),
    "cty.DynamicVal": build_unknown(),
}
_MARKS = {"marks.Sensitive": "sensitive", "marks.Ephemeral": "ephemeral"}
_RESULTS = ("want", "expected", "sensitive")
_LOCAL = re.compile(r"^\t(\w+) := (cty\..*?)\n(?=\t\S|\n)(?!\t[})])", re.MULTILINE | re.DOTALL)


class UnreadableCode(Exception):
    """Go code that is no literal of values."""


class GoCase(Struct):
    """Row of a table.

    `expression` calls a function with `arguments` as names. `result` is None for an error.
    """

    name: str
    expression: str
    arguments: dict[str, Value]
    result: Value | None


class _Tokens:
    """Tokens of Go code, read one by one."""

    def __init__(self, text: str, names: Mapping[str, Any] | None = None) -> None:
        self.names = {**_CONSTANTS, **_MARKS, **(names or {})}
        self.tokens = [
            (match.lastgroup or "", match[0])
            for match in _TOKEN.finditer(text)
            if match.lastgroup != "space"
        ]
        self.position = 0

    @property
    def text(self) -> str:
        """The next token; "" at the end."""
        at_end = self.position >= len(self.tokens)
        return "" if at_end else self.tokens[self.position][1]

    def take(self) -> tuple[str, str]:
        """Return the kind and text of the next token."""
        if self.position >= len(self.tokens):
            raise UnreadableCode("the end")
        self.position += 1
        return self.tokens[self.position - 1]

    def expect(self, text: str) -> None:
        """Take one token of this text."""
        if self.take()[1] != text:
            raise UnreadableCode(text)

    def skip_group(self) -> None:
        """Skip the tokens up to the end of the group of brackets that encloses this position."""
        depth = 0
        while self.text:
            if self.text in "([{":
                depth += 1
            elif self.text in ")]}":
                if depth == 0:
                    return
                depth -= 1
            elif self.text == "," and depth == 0:
                return
            self.position += 1


def parse_expression_tables(text: str) -> Iterator[tuple[str, str, Value | None]]:
    """Parse the table of internal/lang/functions_test.go.

    Yield the function, the expression and the value, which is None if it is other Go code.
    """
    tokens = _Tokens(_cut_between(text, "tests := map[string][]struct {", "\n\t}\n\n"))
    # The fields of a row.
    while tokens.text != "{":
        tokens.take()
    tokens.expect("{")
    while tokens.text != "}":
        function = json.loads(tokens.take()[1])
        tokens.expect(":")
        tokens.expect("{")
        while tokens.text != "}":
            tokens.expect("{")
            source = _read_value(tokens)
            tokens.expect(",")
            value = _read_value(tokens)
            _skip_comma(tokens)
            tokens.expect("}")
            _skip_comma(tokens)
            if isinstance(source, str):
                yield function, source, value if isinstance(value, Value) else None
        tokens.expect("}")
        _skip_comma(tokens)


def parse_function_tables(text: str) -> Iterator[GoCase | str]:
    """Parse the tables of `func TestX` in a file.

    Yield each row, or why a row or table is left out.
    """
    for match in re.finditer(
        r"^func (Test\w+)\(t \*testing\.T\) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL
    ):
        yield from _parse_test(match[1], match[2])


def _parse_test(name: str, body: str) -> Iterator[GoCase | str]:
    table = re.search(
        r"tests := (?:\[\]|map\[string\])struct \{\n(.*?)\n\t\}(\{\n.*?\n\t\})\n", body, re.DOTALL
    )
    call = re.search(r"got, err := (?:\w+\.)?(\w+)\(([^\n]*)\)\n", body)
    if table is None or call is None:
        yield f"{name}: no table"
        return
    function, arguments = call.groups()
    if ".Call([]cty.Value{" in call[0]:
        function, _, arguments = (
            call[0].partition("got, err := ")[2].partition(".Call([]cty.Value{")
        )
        arguments = arguments.rstrip().removesuffix("})")
    # Functions that a test makes have their name from it.
    if not function[0].isupper():
        function = name.removeprefix("Test")
    function = function.lower().removesuffix("func")
    wanted = [argument.strip() for argument in arguments.removeprefix('".", ').split(",")]
    fields = [
        part.strip()
        for line in table[1].splitlines()
        for part in re.sub(r"//.*", "", line).strip().rpartition(" ")[0].split(",")
        if part.strip()
    ]
    names: dict[str, Any] = {}
    for local in _LOCAL.finditer(body):
        names[local[1]] = _read_value(_Tokens(local[2], names))
    tokens = _Tokens(table[2], names)
    tokens.expect("{")
    number = 0
    while tokens.text != "}":
        number += 1
        if tokens.tokens[tokens.position + 1][1] == ":":
            tokens.take()
            tokens.take()
        tokens.expect("{")
        row = _parse_row(tokens, fields)
        tokens.expect("}")
        _skip_comma(tokens)
        case = _build_case(f"{name} {number}", function, wanted, row)
        yield case or f"{name} {number}: other code"


def parse_text_table(text: str) -> Iterator[tuple[Value, str]]:
    """Yield the values and texts of a table with both; other rows are left out."""
    table = re.search(r"tests := \[\]struct \{\n(.*?)\n\t\}(\{\n.*?\n\t\})\n", text, re.DOTALL)
    assert table is not None
    tokens = _Tokens(table[2])
    tokens.expect("{")
    while tokens.text != "}":
        tokens.expect("{")
        row = _parse_row(tokens, ["value", "text"])
        tokens.expect("}")
        _skip_comma(tokens)
        if isinstance(row["value"], Value) and isinstance(row["text"], str):
            yield row["value"], row["text"]


def _parse_row(tokens: _Tokens, fields: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    position = 0
    while tokens.text != "}":
        if tokens.tokens[tokens.position + 1][1] == ":":
            field = tokens.take()[1]
            tokens.take()
        else:
            field = fields[position]
        position += 1
        row[field] = _read_value(tokens)
        _skip_comma(tokens)
    return row


def _read_value(tokens: _Tokens) -> Any:
    """Parse a literal; return UnreadableCode behind other Go code."""
    start = tokens.position
    try:
        return _parse_value(tokens)
    except (UnreadableCode, ValueError, TypeError, IndexError, KeyError, AttributeError):
        tokens.position = start
        tokens.skip_group()
        return UnreadableCode


def _build_case(name: str, function: str, wanted: list[str], row: dict[str, Any]) -> GoCase | None:
    arguments: dict[str, Value] = {}
    texts = []
    for argument in wanted:
        field = argument.removeprefix("test.").removesuffix("...")
        found = row.get(field)
        if argument.startswith('"') or field not in row:
            return None
        values = found if argument.endswith("...") else [found]
        for value in values if isinstance(values, list) else [UnreadableCode]:
            if not isinstance(value, Value):
                return None
            key = f"a{len(texts)}"
            texts.append(key)
            arguments[key] = value
    by_name = {field.lower(): value for field, value in row.items()}
    error = by_name.get("err", by_name.get("wanterr"))
    result = next((by_name[key] for key in _RESULTS if key in by_name), None)
    if error is UnreadableCode or result is UnreadableCode:
        return None
    fails = bool(error)
    if not fails and not isinstance(result, Value):
        return None
    return GoCase(name, f"{function}({', '.join(texts)})", arguments, None if fails else result)


def _cut_between(text: str, start: str, end: str) -> str:
    begin = text.index(start) + len(start)
    return text[begin : text.index(end, begin) + len(end)]


def _skip_comma(tokens: _Tokens) -> None:
    if tokens.text == ",":
        tokens.take()


def _read_text(kind: str, text: str) -> str:
    if kind == "raw":
        return text[1:-1].replace("\r", "")
    if kind != "text":
        raise UnreadableCode(text)
    if "\\x" in text:
        parts = re.sub(r"\\x(..)", lambda match: chr(int(match[1], 16)), text)
        return json.loads(parts, strict=False).encode("latin-1").decode(errors="replace")
    text = re.sub(r"\\U([0-9a-fA-F]{8})", lambda match: chr(int(match[1], 16)), text)
    return json.loads(text.replace("\\a", "\\u0007").replace("\\v", "\\u000b"), strict=False)


def _parse_value(tokens: _Tokens) -> Any:
    """Parse a literal: a value, a type, a text, a number, a list or a dict."""
    result = _parse_operand(tokens)
    while tokens.text == ".":
        tokens.take()
        result = _apply_methods(result, tokens.take()[1], tokens)
    if tokens.text == "+":
        tokens.take()
        result += _parse_value(tokens)
    return result


def _parse_operand(tokens: _Tokens) -> Any:
    kind, text = tokens.take()
    if kind in ("raw", "text"):
        return _read_text(kind, text)
    if kind == "number":
        return Fraction(text.replace("_", "")) if "." in text or "e" in text else int(text, 0)
    if text == "-":
        return -_parse_value(tokens)
    if text in ("[", "map"):
        return _parse_composite(tokens, text)
    if kind == "name" and text in tokens.names:
        return tokens.names[text]
    if kind == "name" and text.startswith("cty."):
        return _parse_named(tokens, text)
    raise UnreadableCode(text)


def _parse_composite(tokens: _Tokens, text: str) -> Any:
    """Parse a list or a map behind its first token; types of elements are ignored."""
    if text == "[":
        tokens.expect("]")
        tokens.take()
        return _parse_elements(tokens)
    for expected in ("[", "string", "]"):
        tokens.expect(expected)
    tokens.take()
    return _parse_entries(tokens)


def _parse_named(tokens: _Tokens, text: str) -> Any:
    name, _, method = text.removeprefix("cty.").partition(".")
    if name in _PRIMITIVES and not method:
        return _PRIMITIVES[name]
    if f"cty.{name}" in _CONSTANTS and method:
        return _apply_methods(_CONSTANTS[f"cty.{name}"], method, tokens)
    if method:
        raise UnreadableCode(text)
    return _build_named(name, _parse_arguments(tokens))


def _apply_methods(value: Any, name: str, tokens: _Tokens) -> Any:
    for method in name.split("."):
        arguments = _parse_arguments(tokens)
        value = _apply_method(value, method, arguments)
    return value


def _apply_method(value: Any, method: str, arguments: list[Any]) -> Any:
    if not isinstance(value, Value):
        raise UnreadableCode(method)
    if method == "Mark":
        # Tests with a mark of their own check that it is kept.
        mark = "ephemeral" if arguments[0] == "ephemeral" else "sensitive"
        return Value(value.type, value.raw, value.marks | {mark}, value.refinement)
    if method in ("RefineNotNull", "NotNull"):
        return add_refinement(value, NOT_NULL)
    if method in ("Refine", "NewValue"):
        return value
    old = value.refinement or Refinement()
    kept = {
        field: getattr(old, field)
        for field in ("not_null", "prefix", "lowest", "highest", "shortest", "longest")
    }
    if method in ("StringPrefix", "StringPrefixFull"):
        return add_refinement(value, Refinement(**{**kept, "prefix": arguments[0]}))
    if method == "CollectionLengthLowerBound":
        return add_refinement(value, Refinement(**{**kept, "shortest": arguments[0]}))
    if method == "CollectionLengthUpperBound":
        return add_refinement(value, Refinement(**{**kept, "longest": arguments[0]}))
    if method in ("NumberRangeLowerBound", "NumberRangeUpperBound"):
        bound = "lowest" if method == "NumberRangeLowerBound" else "highest"
        return add_refinement(value, Refinement(**{**kept, bound: arguments[0].raw}))
    if method == "NumberRangeInclusive":
        bounds = {"lowest": arguments[0].raw, "highest": arguments[1].raw}
        return add_refinement(value, Refinement(**{**kept, **bounds}))
    raise UnreadableCode(method)


def _parse_arguments(tokens: _Tokens) -> list[Any]:
    tokens.expect("(")
    found = []
    while tokens.text != ")":
        found.append(_parse_value(tokens))
        _skip_comma(tokens)
    tokens.expect(")")
    return found


def _parse_elements(tokens: _Tokens) -> list[Any]:
    tokens.expect("{")
    found = []
    while tokens.text != "}":
        found.append(_parse_value(tokens))
        _skip_comma(tokens)
    tokens.expect("}")
    return found


def _parse_entries(tokens: _Tokens) -> dict[str, Any]:
    tokens.expect("{")
    found = {}
    while tokens.text != "}":
        key = _read_text(*tokens.take())
        tokens.expect(":")
        found[key] = _parse_value(tokens)
        _skip_comma(tokens)
    tokens.expect("}")
    return found


def _build_named(name: str, arguments: list[Any]) -> Any:
    """Build a value or a type of go-cty from the name of its function."""
    collection = _COLLECTIONS.get(name.removesuffix("ValEmpty"))
    if collection is not None:
        if name in _COLLECTIONS:
            return collection(arguments[0])
        return Value(collection(arguments[0]), {} if collection is MapType else ())
    build = _BUILDERS.get(name)
    if build is None:
        raise UnreadableCode(name)
    return build(arguments[0] if arguments else ())


def _build_map(entries: Mapping[str, Value]) -> Value:
    element_type = next(iter(entries.values())).type
    return Value(MapType(element_type), {key: entries[key] for key in sorted(entries)})


def _parse_number(text: str) -> Value:
    number = parse_number(text)
    if number is None:
        raise UnreadableCode(text)
    return build_number(number)


_COLLECTIONS: Mapping[str, Any] = {"List": ListType, "Set": SetType, "Map": MapType}
_BUILDERS: Mapping[str, Callable[[Any], Any]] = {
    "StringVal": build_string,
    "NumberIntVal": build_number,
    "NumberFloatVal": build_number,
    "NumberUIntVal": build_number,
    "MustParseNumberVal": _parse_number,
    "BoolVal": build_boolean,
    "NullVal": build_null,
    "UnknownVal": build_unknown,
    "ListVal": lambda items: Value(ListType(items[0].type), tuple(items)),
    "SetVal": lambda items: build_set(items, items[0].type),
    "TupleVal": build_tuple,
    "ObjectVal": build_object,
    "MapVal": _build_map,
    "Tuple": lambda items: TupleType(tuple(items)),
    "Object": lambda items: ObjectType(tuple(sorted(items.items()))),
}
