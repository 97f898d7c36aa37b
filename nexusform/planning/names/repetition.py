"""count and for_each: which instances a block has."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isfinite
from typing import Any, TypeAlias

from msgspec import Struct

from nexusform.address import Key
from nexusform.diagnostics import Diagnostic, error
from nexusform.language.syntax import Expression
from nexusform.plain_data import to_plain
from nexusform.value_types import MapType, ObjectType, SetType, friendly_name, has_dynamic
from nexusform.values import Value, string


class Repetition(Struct, frozen=True):
    """One instance of a repeated block: its key, and each.value (None under count)."""

    key: Key = None
    value: Value | None = None


ONCE = Repetition()

# A bound, so that a slip cannot exhaust memory.
MOST_INSTANCES = 1_000_000

# A block's shape as a value: one object, a tuple by index, an object by key.
SINGLE, LIST, MAP = "single", "list", "map"


class Expansion(Struct, frozen=True):
    """The instances of a block, in planning order; `shape` is SINGLE, LIST or MAP.

    `unknown` names the argument ("count", "for_each") that is not known in this pass.
    """

    shape: str
    repetitions: tuple[Repetition, ...]
    unknown: str = ""


Evaluate: TypeAlias = Callable[[Expression], Value | None]


def expand(
    count: Expression | None, for_each: Expression | None, evaluate: Evaluate, header: str
) -> tuple[Expansion | None, list[Diagnostic]]:
    """The instances of a block with these meta-arguments; None when they are in error.

    `evaluate` gives None when the expression itself is in error (already reported).
    """
    if count is not None:
        value = evaluate(count)
        return _by_count(count, value, header) if value is not None else (None, [])
    if for_each is not None:
        value = evaluate(for_each)
        return _by_key(for_each, value, header) if value is not None else (None, [])
    return Expansion(SINGLE, (ONCE,)), []


def _by_count(expression: Expression, value: Value, header: str) -> tuple[Expansion | None, list[Diagnostic]]:
    def refuse(detail: str) -> tuple[None, list[Diagnostic]]:
        return None, [error("invalid-count-argument", detail, expression.span, block=header)]

    if value.has_marks:
        return refuse(
            "Sensitive values, or values derived from them, cannot be used as count: it would show them."
        )
    if not value.is_known:
        return Expansion(LIST, (), "count"), []
    if value.is_null:
        return refuse('The given "count" argument value is null. An integer is required.')
    number = _as_number(to_plain(value)[0])
    unsuitable = 'The given "count" argument value is unsuitable:'
    if number is None:
        return refuse(f"{unsuitable} a number is required.")
    if number != int(number):
        return refuse(f"{unsuitable} a whole number is required.")
    if number < 0:
        return refuse(f"{unsuitable} must be greater than or equal to zero.")
    if number > MOST_INSTANCES:
        return refuse(f"{unsuitable} a block stands for at most {MOST_INSTANCES} instances.")
    return Expansion(LIST, tuple(Repetition(index) for index in range(int(number)))), []


def _as_number(plain: Any) -> int | float | Fraction | None:
    """A finite number, also one that is written as text."""
    if isinstance(plain, str):
        try:
            plain = float(plain)
        except ValueError:
            return None
    if isinstance(plain, bool) or not isinstance(plain, int | float | Fraction):
        return None
    return None if isinstance(plain, float) and not isfinite(plain) else plain


def _by_key(expression: Expression, value: Value, header: str) -> tuple[Expansion | None, list[Diagnostic]]:
    def refuse(detail: str) -> tuple[None, list[Diagnostic]]:
        return None, [error("invalid-for-each-argument", detail, expression.span, block=header)]

    kind = value.type
    if value.is_sensitive or (isinstance(kind, SetType) and value.has_marks):
        return refuse("Sensitive values, or values derived from them, cannot be used as for_each keys.")
    if not value.is_known and (has_dynamic(kind) or isinstance(kind, MapType | ObjectType | SetType)):
        return Expansion(MAP, (), "for_each"), []
    if value.is_null:
        return refuse('The given "for_each" argument value is null. A map, or set of strings is allowed.')
    if isinstance(kind, MapType | ObjectType):
        items = sorted(value.raw.items(), key=lambda item: item[0].encode())
        return Expansion(MAP, tuple(Repetition(key, each) for key, each in items)), []
    if isinstance(kind, SetType):
        if any(not element.is_known for element in value.raw):
            return Expansion(MAP, (), "for_each"), []
        if any(element.is_null or not isinstance(element.raw, str) for element in value.raw):
            return refuse('The given "for_each" argument value is unsuitable: a set must hold strings only.')
        keys = sorted((element.raw for element in value.raw), key=str.encode)
        return Expansion(MAP, tuple(Repetition(key, string(key)) for key in keys)), []
    return refuse(
        f'The given "for_each" argument value is unsuitable: it must be a map, or set of strings, and you '
        f"have provided a value of type {friendly_name(kind)}. Use toset() to turn a list of strings into "
        "a set."
    )
