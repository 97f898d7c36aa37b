"""Expressions of ARM templates ("[concat('a', parameters('b'))]"), evaluated as far as literals go.

What only Azure knows (reference(), resourceGroup(), uniqueString() and the like) is a Missing value, which
says why; whatever is made of one is missing, too. Functions and their names: the reference of template
functions for Azure Resource Manager.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, Protocol

from msgspec import Struct

from nexusform.documents.leaves import leaves

_TOKEN: Final = re.compile(r"\s*(?:('(?:[^']++|'')*+')|(-?\d+)|([A-Za-z_]\w*)|([()\[\],.]))")
_FORMAT: Final = re.compile(r"\{(\d+)(?:[:,][^{}]*)?\}|\{\{|\}\}")
_DEEPEST: Final = 100
MOST_COPIES: Final = 800  # what Azure lets one loop make


class Missing(Struct, frozen=True):
    """A value that cannot be told here, and why."""

    why: str


class Scope(Protocol):
    """What names mean where an expression stands."""

    def parameter(self, name: str) -> Any:
        """The value of a parameter, or Missing."""
        ...

    def variable(self, name: str) -> Any:
        """The value of a variable, or Missing."""
        ...

    def copy_index(self, loop: str) -> Any:
        """The number of the round of a loop ("": the innermost), or Missing."""
        ...


def evaluated(value: Any, scope: Scope) -> Any:
    """A part of a template with its expressions and loops carried out."""
    if isinstance(value, str):
        return text_value(value, scope)
    if isinstance(value, list):
        return [evaluated(part, scope) for part in value]
    if not isinstance(value, Mapping):
        return value
    loops = value.get("copy")
    if not isinstance(loops, list):
        return {name: evaluated(part, scope) for name, part in value.items()}
    result = {name: evaluated(part, scope) for name, part in value.items() if name != "copy"}
    for loop in loops:
        if isinstance(loop, Mapping) and "name" in loop:
            name = str(loop["name"])
            result[name] = rounds(loop, name, scope, partial(evaluated, loop.get("input")))
    return result


def rounds(loop: Mapping[str, Any], name: str, scope: Scope, one: Callable[[Scope], Any]) -> Any:
    """What a loop makes, round by round; Missing where its count cannot be told."""
    count = evaluated(loop.get("count"), scope)
    if isinstance(count, Missing):
        return count
    if type(count) is not int or not 0 <= count <= MOST_COPIES:
        return Missing(f'the count of the loop "{name}" is no number from 0 to {MOST_COPIES}')
    return [one(Round(scope, name, number)) for number in range(count)]


class Round(Struct, frozen=True):
    """One round of a loop."""

    outer: Any
    loop: str
    number: int

    def parameter(self, name: str) -> Any:
        """As outside of the loop."""
        return self.outer.parameter(name)

    def variable(self, name: str) -> Any:
        """As outside of the loop."""
        return self.outer.variable(name)

    def copy_index(self, loop: str) -> Any:
        """The number of this round, from 0."""
        return self.number if loop in ("", self.loop) else self.outer.copy_index(loop)


def text_value(text: str, scope: Scope) -> Any:
    """The value of a text: an expression in brackets, or the text itself."""
    if not text.startswith("[") or not text.endswith("]"):
        return text
    if text.startswith("[["):
        return text[1:]
    parser = _Parser(text, text[1:-1], scope)
    return parser.whole()


class _Parser:
    """Reads an expression and evaluates it on the way."""

    def __init__(self, text: str, inside: str, scope: Scope) -> None:
        self.text = text
        self.scope = scope
        self.tokens: list[tuple[int, str]] = []
        at = 0
        while at < len(inside.rstrip()):
            match = _TOKEN.match(inside, at)
            if match is None:
                self.tokens = []
                break
            self.tokens.append((match.lastindex or 0, match[match.lastindex or 0]))
            at = match.end()
        self.at = 0
        self.depth = 0

    def whole(self) -> Any:
        """The value of the whole text; Missing when it cannot be read."""
        try:
            value = self._value()
            if self.at == len(self.tokens):
                return value
        except (IndexError, RecursionError, ValueError):
            pass
        return Missing(f"{self.text} cannot be read")

    def _value(self) -> Any:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ValueError("nested too deeply")
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == 1:
            value: Any = text[1:-1].replace("''", "'")
        elif kind == 2:
            value = int(text)
        elif kind == 3:
            value = self._call(text)
        else:
            raise ValueError(text)
        self.depth -= 1
        return self._steps(value)

    def _call(self, name: str) -> Any:
        self._take("(")
        arguments: list[Any] = []
        while self.tokens[self.at][1] != ")" or self.tokens[self.at][0] != 4:
            if arguments:
                self._take(",")
            arguments.append(self._value())
        self._take(")")
        return _called(name, arguments, self.scope)

    def _steps(self, value: Any) -> Any:
        """`.name` and `[index]` behind a value."""
        while (
            self.at < len(self.tokens)
            and self.tokens[self.at][1] in (".", "[")
            and self.tokens[self.at][0] == 4
        ):
            dot = self.tokens[self.at][1] == "."
            self.at += 1
            if dot:
                step: Any = self.tokens[self.at][1]
                self.at += 1
            else:
                step = self._value()
                self._take("]")
            value = _part(value, step)
        return value

    def _take(self, text: str) -> None:
        if self.tokens[self.at] != (4, text):
            raise ValueError(text)
        self.at += 1


def _part(value: Any, step: Any) -> Any:
    """A property or an element of a value; Missing where there is none, or where either is missing."""
    for one in (value, step):
        if isinstance(one, Missing):
            return one
    if isinstance(value, Mapping):
        # Names of properties are told apart by more than their case nowhere in ARM.
        by_name = {str(name).lower(): part for name, part in value.items()}
        return by_name.get(str(step).lower(), Missing(f'there is no property "{step}"'))
    if isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
        return value[step]
    return Missing(f"there is no part {step!r}")


# --- functions ---------------------------------------------------------------------------------


def _called(name: str, arguments: Sequence[Any], scope: Scope) -> Any:
    """What a function of templates gives; Missing for those that only Azure can answer."""
    key = name.lower()
    if key in _LAZY:
        return _LAZY[key](arguments, scope)
    missing = next((gap for one in arguments if (gap := missing_in(one)) is not None), None)
    if missing is not None:
        return missing
    function = _FUNCTIONS.get(key)
    if function is None:
        return Missing(f"{name}() is known to Azure alone")
    try:
        return function(*arguments)
    except (TypeError, ValueError, KeyError, IndexError, ZeroDivisionError, AttributeError):
        return Missing(f"{name}() cannot be carried out with these arguments")


def missing_in(value: Any) -> Missing | None:
    """The first missing part of a value."""
    return next((leaf for _, leaf in leaves(value) if isinstance(leaf, Missing)), None)


def _if(arguments: Sequence[Any], _scope: Scope) -> Any:
    if len(arguments) != 3:
        return Missing("if() takes three arguments")
    condition = arguments[0]
    return condition if isinstance(condition, Missing) else arguments[1 if condition is True else 2]


def _and(arguments: Sequence[Any], _scope: Scope) -> Any:
    if any(one is False for one in arguments):
        return False
    return next((one for one in arguments if isinstance(one, Missing)), True)


def _or(arguments: Sequence[Any], _scope: Scope) -> Any:
    if any(one is True for one in arguments):
        return True
    return next((one for one in arguments if isinstance(one, Missing)), False)


def _coalesce(arguments: Sequence[Any], _scope: Scope) -> Any:
    return next((one for one in arguments if one is not None), None)


def _named(arguments: Sequence[Any], ask: Callable[[str], Any]) -> Any:
    if len(arguments) != 1 or isinstance(arguments[0], Missing):
        return arguments[0] if arguments else Missing("no name is given")
    return ask(str(arguments[0]))


def _copy_index(arguments: Sequence[Any], scope: Scope) -> Any:
    loop = next((one for one in arguments if isinstance(one, str)), "")
    offset = next((one for one in arguments if isinstance(one, int)), 0)
    number = scope.copy_index(loop)
    return number if isinstance(number, Missing) else number + offset


_LAZY: Final[Mapping[str, Callable[[Sequence[Any], Scope], Any]]] = {
    "if": _if,
    "and": _and,
    "or": _or,
    "coalesce": _coalesce,
    "parameters": lambda arguments, scope: _named(arguments, scope.parameter),
    "variables": lambda arguments, scope: _named(arguments, scope.variable),
    "copyindex": _copy_index,
}


def resource_id(*parts: Any) -> str:
    """An id without the subscription and the group, which only a deployment knows."""
    texts = [str(part) for part in parts]
    start = next(index for index, text in enumerate(texts) if "/" in text and not text.startswith("/"))
    kinds, names = texts[start].split("/"), texts[start + 1 :]
    pairs = chain.from_iterable(zip(kinds[1:], names, strict=True))
    return "/".join(["", "subscriptions", "-", "resourceGroups", "-", "providers", kinds[0], *pairs])


def _concat(*parts: Any) -> Any:
    if parts and all(isinstance(part, list) for part in parts):
        return list(chain.from_iterable(parts))
    return "".join(_text(part) for part in parts)


def _format(form: str, *arguments: Any) -> str:
    return _FORMAT.sub(lambda match: _text(arguments[int(match[1])]) if match[1] else match[0][0], form)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, Mapping | list):
        raise TypeError("no text")
    return str(value)


def _union(*parts: Any) -> Any:
    """Lists without repetitions, or objects of which the last counts."""
    if all(isinstance(part, list) for part in parts):
        united: list[Any] = []
        for one in chain.from_iterable(parts):
            if one not in united:
                united.append(one)
        return united
    return {name: value for part in parts for name, value in part.items()}


def _contains(whole: Any, part: Any) -> bool:
    if isinstance(whole, Mapping):
        return str(part).lower() in {str(name).lower() for name in whole}
    return part in whole


def _json(text: str) -> Any:
    import json

    return json.loads(text)


def _range(start: int, count: int) -> list[int]:
    if not 0 <= count <= MOST_COPIES:
        raise ValueError(count)
    return list(range(start, start + count))


def _equals(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _many(numbers: Sequence[Any]) -> Sequence[Any]:
    return numbers[0] if len(numbers) == 1 and isinstance(numbers[0], list) else numbers


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "add": lambda one, other: one + other,
    "array": lambda value: value if isinstance(value, list) else [value],
    "bool": lambda value: str(value).lower() in ("true", "1"),
    "concat": _concat,
    "contains": _contains,
    "createarray": lambda *parts: list(parts),
    "createobject": lambda *parts: dict(zip(parts[::2], parts[1::2], strict=True)),
    "div": lambda one, other: int(one / other),
    "empty": lambda value: not value,
    "endswith": lambda text, end: text.lower().endswith(end.lower()),
    "equals": _equals,
    "false": lambda: False,
    "first": lambda value: value[0],
    "format": _format,
    "greater": lambda one, other: one > other,
    "greaterorequals": lambda one, other: one >= other,
    "int": int,
    "join": lambda parts, between: between.join(_text(part) for part in parts),
    "json": _json,
    "last": lambda value: value[-1],
    "length": len,
    "less": lambda one, other: one < other,
    "lessorequals": lambda one, other: one <= other,
    "max": lambda *numbers: max(_many(numbers)),
    "min": lambda *numbers: min(_many(numbers)),
    "mod": lambda one, other: one % other,
    "mul": lambda one, other: one * other,
    "not": lambda value: not value,
    "null": lambda: None,
    "padleft": lambda text, width, filler=" ": _text(text).rjust(min(width, 256), filler),
    "range": _range,
    "replace": lambda text, old, new: text.replace(old, new),
    "resourceid": resource_id,
    "skip": lambda value, count: value[count:],
    "split": lambda text, at: text.split(at),
    "startswith": lambda text, start: text.lower().startswith(start.lower()),
    "string": _text,
    "sub": lambda one, other: one - other,
    "substring": lambda text, start, size=None: text[start : None if size is None else start + size],
    "take": lambda value, count: value[:count],
    "tolower": lambda text: text.lower(),
    "toupper": lambda text: text.upper(),
    "trim": lambda text: text.strip(),
    "true": lambda: True,
    "union": _union,
}
