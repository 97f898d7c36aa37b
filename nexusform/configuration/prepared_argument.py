"""One argument of a body: its expression, made ready to be evaluated many times."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Any

from nexusform import schema as schemas
from nexusform.diagnostics import Diagnostic, did_you_mean, error, has_errors
from nexusform.language.conversion import convert, describe, settled
from nexusform.language.evaluator import Scope, evaluate
from nexusform.language.syntax import Attribute
from nexusform.plain_data import ConversionProblem, Path, Refined, refined_parts, to_plain
from nexusform.source import Span
from nexusform.values import UNKNOWN

_NO_PATHS: tuple[Path, ...] = ()


class Argument:
    """An argument as written, with what the schema asks of its value."""

    __slots__ = ("_checked", "_settled", "attribute", "schema", "type")

    def __init__(self, attribute: Attribute, schema: schemas.Attribute) -> None:
        self.attribute = attribute
        self.schema = schema
        self.type = schema.type
        self._settled = settled(schema.type)
        self._checked = bool(
            schema.choices or schema.pattern or schema.minimum is not None or schema.maximum is not None
        )

    @property
    def span(self) -> Span:
        """Where the value stands."""
        return self.attribute.expression.span

    def evaluate(self, scope: Scope) -> tuple[Any, tuple[Path, ...], Refined, list[Diagnostic]]:
        """The value as plain data of the schema's type, the paths of sensitive parts, what is known of
        unknown ones, problems.

        A value that is wrong reads as UNKNOWN, so that what depends on it brings no second message.
        """
        value, problems = evaluate(self.attribute.expression, scope)
        if problems and has_errors(problems):
            return UNKNOWN, _NO_PATHS, (), problems
        if value.type is not self._settled:
            try:
                value = convert(value, self.type)
            except ConversionProblem as problem:
                return UNKNOWN, _NO_PATHS, (), [*problems, self._wrong_type(problem)]
        plain, sensitive = to_plain(value)
        if self._checked and plain is not None and plain is not UNKNOWN:
            wrong = check(self.schema, self.attribute.name, plain, self.span, hidden=bool(sensitive))
            if wrong:
                return UNKNOWN, sensitive, (), [*problems, *wrong]
        return plain, sensitive, refined_parts(value), problems

    def _wrong_type(self, problem: ConversionProblem) -> Diagnostic:
        return error(
            "incorrect-attribute-value-type",
            f'Inappropriate value for attribute "{self.attribute.name}": {describe(problem)}.',
            self.span,
        )


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def check(schema: schemas.Attribute, name: str, plain: Any, span: Span, *, hidden: bool) -> list[Diagnostic]:
    """What is wrong with a known value by the schema's choices, bounds and pattern.

    Of a list each element is looked at. `hidden` keeps the value itself out of the message.
    """
    parts = plain if plain.__class__ is list else (plain,)
    diagnostics: list[Diagnostic] = []
    for part in parts:
        if part is None or part is UNKNOWN:
            continue
        fault = _fault(schema, part, hidden=hidden)
        if fault:
            where = f'An element of "{name}"' if plain.__class__ is list else f'"{name}"'
            diagnostics.append(error("invalid-value-for-argument", f"{where} {fault}", span))
    return diagnostics


def _fault(schema: schemas.Attribute, part: Any, *, hidden: bool) -> str:
    """What is wrong with a part of an argument by its schema, to end a sentence; "" when nothing is."""
    shown = "" if hidden else f", not {_shown(part)}"
    if schema.choices and part not in schema.choices:
        hint = "" if hidden or not isinstance(part, str) else did_you_mean(part, schema.choices)
        return f"must be {_alternatives(schema.choices)}{shown}.{hint}"
    is_number = isinstance(part, (int, float, Fraction)) and not isinstance(part, bool)
    if is_number and not _in_range(part, schema.minimum, schema.maximum):
        return f"must be {_range_words(schema.minimum, schema.maximum)}{shown}."
    if schema.pattern and isinstance(part, str) and not _compiled(schema.pattern).fullmatch(part):
        return f"must be {schema.pattern_hint or f'text that matches {schema.pattern}'}{shown}."
    return ""


def _in_range(number: float | Fraction, low: int | None, high: int | None) -> bool:
    return (low is None or number >= low) and (high is None or number <= high)


def _range_words(low: int | None, high: int | None) -> str:
    if low is not None and high is not None:
        return f"between {low} and {high}"
    return f"at least {low}" if low is not None else f"at most {high}"


def _shown(part: Any) -> str:
    if isinstance(part, bool):
        return "true" if part else "false"
    return f'"{part}"' if isinstance(part, str) else str(part)


def _alternatives(names: Iterable[str]) -> str:
    """`"a", "b" or "c"`."""
    quoted = [f'"{name}"' for name in names]
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} or {quoted[-1]}"
