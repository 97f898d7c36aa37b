"""A body that has been checked against its schema, ready to be evaluated for any number of instances."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from msgspec import Struct

from nexusform import schema as schemas
from nexusform.configuration.dynamic_blocks import DynamicBlock, iterations, label_text, unknown_iteration
from nexusform.diagnostics import Diagnostic, did_you_mean, error, has_errors
from nexusform.language.conversion import convert, describe, settled
from nexusform.language.evaluator import Scope, evaluate
from nexusform.language.references import traversals as references_in
from nexusform.language.syntax.nodes import (
    Attribute,
    Expression,
    Literal,
    ObjectCons,
    Parentheses,
    StringLiteral,
    Traversal,
    TupleCons,
)
from nexusform.language.syntax.positions import describe as place_of
from nexusform.plain_data import ConversionProblem, Path, PathStep, Refined, refined_parts, to_plain
from nexusform.schema import NestedBlock, Nesting, order_attribute
from nexusform.source import Span
from nexusform.values import UNKNOWN, Refinement


class Remarks:
    """What an evaluation has found so far besides the values."""

    __slots__ = ("problems", "refined", "sensitive")

    def __init__(self) -> None:
        self.problems: list[Diagnostic] = []
        self.sensitive: list[Path] = []
        self.refined: list[tuple[Path, Refinement]] = []

    def add(self, name: str, sensitive: Sequence[Path], refined: Refined) -> None:
        """Take in what an argument's evaluation has found."""
        if sensitive:
            self.sensitive.extend((name, *path) for path in sensitive)
        if refined:
            self.refined.extend(((name, *path), known) for path, known in refined)


class PreparedBody:
    """A checked body. `evaluate` it for every instance; it never changes.

    `template` is what stands in every instance (constants, defaults, None), `varying` the arguments
    that are evaluated each time, `secret` the names that the schema holds sensitive, `lengths` figures that
    are written beside the list that they count.
    """

    __slots__ = ("_arguments", "_blocks", "_copied", "_lengths", "_place", "_secret", "_template", "_varying")

    def __init__(
        self,
        place: Span,
        arguments: Mapping[str, Argument],
        *,
        template: dict[str, Any],
        varying: Sequence[Argument],
        blocks: Sequence[BlockType],
        secret: Sequence[str],
        lengths: Mapping[str, str],
    ) -> None:
        self._place = place
        self._lengths = lengths
        self._arguments = arguments
        self._template = template
        self._varying = tuple(varying)
        self._blocks = tuple(blocks)
        self._secret = tuple(secret)
        self._copied = tuple(n for n, v in template.items() if v.__class__ in (list, dict))

    def evaluate(self, scope: Scope) -> tuple[dict[str, Any], tuple[Path, ...], list[Diagnostic]]:
        """The values as plain data by name, the paths of sensitive parts, problems.

        Absent and null arguments read as their default or None, those that nexusform computes are
        left out; what is not known, or wrong, is UNKNOWN.
        """
        remarks = Remarks()
        values = self.fill(scope, remarks)
        return values, tuple(remarks.sensitive), remarks.problems

    def fill(self, scope: Scope, remarks: Remarks) -> dict[str, Any]:
        """As `evaluate`, adding to what an enclosing body has found; paths begin at this body."""
        values = self._template.copy()
        for name in self._copied:
            values[name] = copy_plain(values[name])
        nulls = self._vary(values, scope, remarks)
        for figure, listing in self._lengths.items():
            if figure not in nulls:
                remarks.problems.extend(self._length_problems(values, figure, listing))
        for name in self._secret:
            if values.get(name) is not None and (name,) not in remarks.sensitive:
                remarks.sensitive.append((name,))
        for block in self._blocks:
            block.fill(values, scope, remarks)
        return values

    def _vary(self, values: dict[str, Any], scope: Scope, remarks: Remarks) -> set[str]:
        """Put the arguments that are evaluated each time among the values; those that are null."""
        nulls: set[str] = set()
        for argument in self._varying:
            plain, sensitive, refined, problems = argument.evaluate(scope)
            name = argument.attribute.name
            if problems:
                remarks.problems.extend(problems)
            if plain is not None:
                values[name] = plain
            else:
                nulls.add(name)
            if plain is None and argument.schema.required:
                remarks.problems.append(missing_argument(name, argument.span))
                values[name] = UNKNOWN
            remarks.add(name, sensitive, refined)
        return nulls

    def _length_problems(self, values: Mapping[str, Any], figure: str, listing: str) -> Iterator[Diagnostic]:
        """An error where a list has another length than the figure beside it says."""
        count, elements = values[figure], values[listing]
        if isinstance(elements, list) and isinstance(count, int) and count != len(elements):
            detail = (
                f'"{listing}" lists {len(elements)} and "{figure}" says {count}. Make the two agree, '
                f'or leave "{figure}" out.'
            )
            yield error("conflicting-arguments", detail, self._arguments[listing].span)

    def locate(self, path: Path) -> Span:
        """Where a value stands: as near to the end of the path as the text goes."""
        if not path:
            return self._place
        argument = self._arguments.get(str(path[0]))
        if argument is not None:
            return inside(argument.attribute.expression, path[1:])
        for block in self._blocks:
            if path[0] == block.name:
                return block.locate(path[1:]) or self._place
        return self._place

    def traversals(self) -> Iterator[Traversal]:
        """Every reference of the body, those to iterators of its dynamic blocks left out."""
        for argument in self._arguments.values():
            yield from references_in(argument.attribute.expression)
        for block in self._blocks:
            yield from block.traversals()


# --- nested blocks -----------------------------------------------------------------------------


class WrittenBlock(Struct, frozen=True):
    """A nested block as written."""

    label: str
    body: PreparedBody
    span: Span


class Repeated(Struct, frozen=True):
    """A dynamic block with its content."""

    dynamic: DynamicBlock
    body: PreparedBody

    @property
    def span(self) -> Span:
        """Where it stands."""
        return self.dynamic.header_span


class _Made(Struct, frozen=True):
    """A nested block with its values."""

    label: str
    values: dict[str, Any]
    span: Span


class BlockType:
    """All nested blocks of one type in a body, in source order; `place` is the body's."""

    __slots__ = ("items", "name", "nested", "place")

    def __init__(
        self, name: str, nested: NestedBlock, items: Sequence[WrittenBlock | Repeated], place: Span
    ) -> None:
        self.name = name
        self.nested = nested
        self.items = tuple(items)
        self.place = place

    def fill(self, values: dict[str, Any], scope: Scope, remarks: Remarks) -> None:
        """Put the blocks' values where the nesting says."""
        known = True
        repeated = False
        made: list[_Made] = []
        for item in self.items:
            if isinstance(item, WrittenBlock):
                self._make(made, item.label, item, scope, remarks)
            else:
                repeated = True
                known = self._repeat(made, item, scope, remarks) and known
        if known:
            if repeated:
                remarks.problems.extend(
                    count_problems(self.nested, self.name, [(m.label, m.span) for m in made], self.place)
                )
            self._put(values, made)
            return
        values[self.name] = UNKNOWN
        if self.nested.nesting is Nesting.MAP:
            values[order_attribute(self.name)] = UNKNOWN

    def _put(self, values: dict[str, Any], made: Sequence[_Made]) -> None:
        """Put blocks among the values as their nesting has them."""
        if self.nested.nesting is Nesting.SINGLE:
            values[self.name] = made[0].values if made else None
        elif self.nested.nesting is Nesting.LIST:
            values[self.name] = [m.values for m in made]
        else:
            by_label = {m.label: m.values for m in made}
            values[self.name] = by_label
            values[order_attribute(self.name)] = list(by_label)

    def _repeat(self, made: list[_Made], item: Repeated, scope: Scope, remarks: Remarks) -> bool:
        """Make a dynamic block's blocks; whether they are known."""
        scopes, problems = iterations(item.dynamic, scope)
        remarks.problems.extend(problems)
        if scopes is None:
            apart = Remarks()
            item.body.fill(unknown_iteration(item.dynamic, scope), apart)
            remarks.problems.extend(apart.problems)
            return False
        known = True
        for inner in scopes:
            label: str | None = ""
            if item.dynamic.label is not None:
                label, problems = label_text(item.dynamic.label, inner)
                remarks.problems.extend(problems)
            known = known and label is not None
            self._make(made, label or "", item, inner, remarks)
        return known

    def _make(
        self, made: list[_Made], label: str, item: WrittenBlock | Repeated, scope: Scope, remarks: Remarks
    ) -> None:
        """Evaluate one block; paths in its remarks begin at the body around it."""
        start, refined = len(remarks.sensitive), len(remarks.refined)
        made.append(_Made(label, item.body.fill(scope, remarks), item.span))
        if len(remarks.sensitive) > start or len(remarks.refined) > refined:
            prefix: Path = (self.name,)
            if self.nested.nesting is not Nesting.SINGLE:
                prefix += (label if self.nested.nesting is Nesting.MAP else len(made) - 1,)
            remarks.sensitive[start:] = [(*prefix, *p) for p in remarks.sensitive[start:]]
            remarks.refined[refined:] = [((*prefix, *p), known) for p, known in remarks.refined[refined:]]

    def locate(self, path: Path) -> Span | None:
        """Where a block, or something in it, stands; None without any block of this type."""
        if not self.items:
            return None
        if self.nested.nesting is Nesting.SINGLE:
            return self.items[0].body.locate(path)
        item = self._item_at(path[0]) if path else self.items[0]
        return item.body.locate(path[1:])

    def _item_at(self, step: PathStep) -> WrittenBlock | Repeated:
        """The block that a label or a position leads to."""
        for position, item in enumerate(self.items):
            if isinstance(item, WrittenBlock) and step in (item.label, position):
                return item
            if isinstance(item, Repeated) and not isinstance(step, str):
                # How many blocks it makes is not known here: the position may be one of them.
                return item
        repeated = (item for item in self.items if isinstance(item, Repeated))
        return next(repeated, self.items[0] if isinstance(step, str) else self.items[-1])

    def traversals(self) -> Iterator[Traversal]:
        """The references of the blocks."""
        for item in self.items:
            if isinstance(item, WrittenBlock):
                yield from item.body.traversals()
                continue
            dynamic = item.dynamic
            yield from references_in(dynamic.for_each)
            inner = list(item.body.traversals())
            inner.extend(references_in(dynamic.label) if dynamic.label else ())
            yield from (t for t in inner if t.root.name != dynamic.iterator)


# --- what is asked of their number -------------------------------------------------------------


def missing_argument(name: str, span: Span) -> Diagnostic:
    """The complaint about a required argument that is absent or null."""
    detail = f'The argument "{name}" is required, but no definition was found.'
    return error("missing-required-argument", detail, span)


def count_problems(
    nested: NestedBlock, name: str, blocks: Sequence[tuple[str, Span]], place: Span
) -> Iterator[Diagnostic]:
    """Too few or too many blocks of a type, or two with one label. `blocks`: label and place of each."""
    single = nested.nesting is Nesting.SINGLE
    most = 1 if single else nested.max_items
    if len(blocks) < nested.min_items:
        if single:
            yield error(
                "missing-block",
                f'A block of type "{name}" is required here.',
                place,
                headline=f"Missing {name} block",
            )
        else:
            need = f'At least {nested.min_items} "{name}" blocks are required.'
            yield error("insufficient-blocks", need, place, headline=f"Insufficient {name} blocks")
    if most is not None and len(blocks) > most:
        yield _surplus(name, most, [span for _, span in blocks])
    if nested.nesting is Nesting.MAP and len(blocks) > 1:
        yield from _same_labels(name, blocks)


def _same_labels(name: str, blocks: Sequence[tuple[str, Span]]) -> Iterator[Diagnostic]:
    """Blocks whose label another one has."""
    first: dict[str, Span] = {}
    for label, span in blocks:
        if label in first:
            yield error(
                "duplicate-block",
                f'A block {name} "{label}" was already given at {place_of(first[label])}; each needs a label '
                "of its own.",
                span,
                headline=f"Duplicate {name} block",
            )
        first.setdefault(label, span)


def _surplus(name: str, most: int, spans: Sequence[Span]) -> Diagnostic:
    if most == 1:
        detail = f"Only one {name} block is allowed. Another was given at {place_of(spans[0])}."
        return error("duplicate-block", detail, spans[1], headline=f"Duplicate {name} block")
    return error(
        "too-many-blocks",
        f'No more than {most} "{name}" blocks are allowed.',
        spans[most],
        headline=f"Too many {name} blocks",
    )


def copy_plain(plain: Any) -> Any:
    """A copy that shares no list or mapping with the original."""
    if plain.__class__ is dict:
        return {k: copy_plain(v) for k, v in plain.items()}
    if plain.__class__ is list:
        return [copy_plain(v) for v in plain]
    return plain


# --- where a part of a value is written ------------------------------------------------------


def inside(expression: Expression, path: Path) -> Span:
    """The span of the part of a written collection that a path leads to, as far as it is written."""
    for step in path:
        while isinstance(expression, Parentheses):
            expression = expression.inner
        part = _part(expression, step)
        if part is None:
            break
        expression = part
    return expression.span


def _part(expression: Expression, step: PathStep) -> Expression | None:
    """The expression of one part of a tuple or object that is written out."""
    if isinstance(expression, TupleCons) and isinstance(step, int) and step < len(expression.items):
        return expression.items[step]
    if isinstance(expression, ObjectCons):
        for key, value in expression.items:
            if _key_text(key.expression, bare=key.bare) == step:
                return value
    return None


def _key_text(expression: Expression, *, bare: bool) -> str | None:
    match expression:
        case Traversal(root, ()) if bare:
            return root.name
        case StringLiteral(text):
            return text
        case Literal(value) if isinstance(value, int):
            return str(value)
    return None


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
