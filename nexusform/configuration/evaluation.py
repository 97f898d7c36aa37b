"""A block's body against its schema: checked once, evaluated as often as there are instances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from nexusform.configuration.arguments import Argument
from nexusform.configuration.constants import NO_NAMES, is_constant
from nexusform.configuration.dynamic_blocks import (
    DynamicBlock,
    iterations,
    label_text,
    read_dynamic,
    unknown_iteration,
)
from nexusform.configuration.model import AnyBody
from nexusform.diagnostics import Diagnostic, error
from nexusform.language import bodies
from nexusform.language.evaluator import Scope
from nexusform.language.positions import describe as place_of
from nexusform.language.references import traversals as references_in
from nexusform.language.syntax import (
    Block,
    Expression,
    Literal,
    ObjectCons,
    Parentheses,
    StringLiteral,
    Traversal,
    TupleCons,
)
from nexusform.schema import BlockSchema, NestedBlock, Nesting, order_attribute
from nexusform.source import Position, Span
from nexusform.values import UNKNOWN, Path, PathStep


@dataclass(frozen=True, slots=True)
class _Item:
    """A nested block as written."""

    label: str
    body: PreparedBody
    span: Span


@dataclass(frozen=True, slots=True)
class _Repeated:
    """A dynamic block with its content."""

    dynamic: DynamicBlock
    body: PreparedBody

    @property
    def span(self) -> Span:
        """Where it stands."""
        return self.dynamic.header_span


class _Outcome:
    """What an evaluation has found so far besides the values."""

    __slots__ = ("problems", "sensitive")

    def __init__(self) -> None:
        self.problems: list[Diagnostic] = []
        self.sensitive: list[Path] = []


class PreparedBody:
    """A checked body, ready to be evaluated for any number of instances."""

    __slots__ = ("_arguments", "_blocks", "_copied", "_place", "_secret", "_template", "_varying")

    def __init__(self, schema: BlockSchema, place: Span) -> None:
        self._place = place
        self._arguments: dict[str, Argument] = {}
        self._varying: tuple[Argument, ...] = ()
        self._blocks: tuple[_BlockType, ...] = ()
        # What stands in every instance: constants, defaults, null; absent when nexusform fills it in.
        self._template: dict[str, Any] = {
            name: attribute.default for name, attribute in schema.attributes.items() if not attribute.computed
        }
        self._copied: tuple[str, ...] = ()
        self._secret: tuple[str, ...] = tuple(n for n, a in schema.attributes.items() if a.sensitive)

    def evaluate(self, scope: Scope) -> tuple[dict[str, Any], tuple[Path, ...], list[Diagnostic]]:
        """The values as plain data in the schema's order, the paths of sensitive parts, problems.

        Absent and null arguments read as their default or None, those that nexusform computes are
        left out; what is not known, or wrong, is UNKNOWN.
        """
        outcome = _Outcome()
        values = self._fill(scope, outcome)
        return values, tuple(outcome.sensitive), outcome.problems

    def _fill(self, scope: Scope, outcome: _Outcome) -> dict[str, Any]:
        values = self._template.copy()
        for name in self._copied:
            values[name] = copy_plain(values[name])
        for argument in self._varying:
            plain, sensitive, problems = argument.evaluate(scope)
            name = argument.attribute.name
            if problems:
                outcome.problems.extend(problems)
            if plain is not None:
                values[name] = plain
            elif argument.schema.required:
                outcome.problems.append(_required(name, argument.span))
                values[name] = UNKNOWN
            for path in sensitive:
                outcome.sensitive.append((name, *path))
        for name in self._secret:
            if values.get(name) is not None and (name,) not in outcome.sensitive:
                outcome.sensitive.append((name,))
        for block in self._blocks:
            block.fill(values, scope, outcome)
        return values

    def locate(self, path: Path) -> Span:
        """Where a value stands: as near to the end of the path as the text goes."""
        if not path:
            return self._place
        argument = self._arguments.get(str(path[0]))
        if argument is not None:
            return _inside(argument.attribute.expression, path[1:])
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


class _BlockType:
    """All nested blocks of one type in a body, in source order."""

    __slots__ = ("items", "name", "nested", "place")

    def __init__(
        self, name: str, nested: NestedBlock, items: Sequence[_Item | _Repeated], place: Span
    ) -> None:
        self.name = name
        self.nested = nested
        self.items = tuple(items)
        self.place = place

    def fill(self, values: dict[str, Any], scope: Scope, outcome: _Outcome) -> None:
        """Put the blocks' values where the nesting says."""
        if not self.items:
            self._put(values, ())
            return
        known = True
        done: list[tuple[str, dict[str, Any]]] = []
        places: list[Span] = []
        for item in self.items:
            if isinstance(item, _Item):
                self._add(done, item.label, item.body, scope, outcome)
            else:
                known = self._repeat(done, item, scope, outcome) and known
            places.extend([item.span] * (len(done) - len(places)))
        if not known:
            values[self.name] = UNKNOWN
            if self.nested.nesting is Nesting.MAP:
                values[order_attribute(self.name)] = UNKNOWN
            return
        if any(isinstance(i, _Repeated) for i in self.items):
            labels = [label for label, _ in done]
            outcome.problems.extend(_count_problems(self.name, self.nested, labels, places, self.place))
        self._put(values, done)

    def _put(self, values: dict[str, Any], done: Sequence[tuple[str, dict[str, Any]]]) -> None:
        if self.nested.nesting is Nesting.SINGLE:
            values[self.name] = done[0][1] if done else None
        elif self.nested.nesting is Nesting.LIST:
            values[self.name] = [v for _, v in done]
        else:
            values[self.name] = dict(done)
            values[order_attribute(self.name)] = list(dict.fromkeys(label for label, _ in done))

    def _repeat(
        self, done: list[tuple[str, dict[str, Any]]], item: _Repeated, scope: Scope, outcome: _Outcome
    ) -> bool:
        scopes, problems = iterations(item.dynamic, scope)
        outcome.problems.extend(problems)
        if scopes is None:
            apart = _Outcome()
            item.body._fill(unknown_iteration(item.dynamic, scope), apart)  # noqa: SLF001 - one family
            outcome.problems.extend(apart.problems)
            return False
        known = True
        for inner in scopes:
            label: str | None = ""
            if item.dynamic.label is not None:
                label, problems = label_text(item.dynamic.label, inner)
                outcome.problems.extend(problems)
            known = known and label is not None
            self._add(done, label or "", item.body, inner, outcome)
        return known

    def _add(
        self,
        done: list[tuple[str, dict[str, Any]]],
        label: str,
        body: PreparedBody,
        scope: Scope,
        outcome: _Outcome,
    ) -> None:
        start = len(outcome.sensitive)
        done.append((label, body._fill(scope, outcome)))  # noqa: SLF001 - one family
        if len(outcome.sensitive) > start:
            prefix: Path = (self.name,)
            if self.nested.nesting is not Nesting.SINGLE:
                prefix += (label if self.nested.nesting is Nesting.MAP else len(done) - 1,)
            outcome.sensitive[start:] = [(*prefix, *p) for p in outcome.sensitive[start:]]

    def locate(self, path: Path) -> Span | None:
        """Where a block, or something in it, stands; None without any block of this type."""
        if not self.items:
            return None
        if self.nested.nesting is Nesting.SINGLE:
            return self.items[0].body.locate(path)
        item = self._item_at(path[0]) if path else self.items[0]
        return item.body.locate(path[1:])

    def _item_at(self, step: PathStep) -> _Item | _Repeated:
        repeated = next((i for i in self.items if isinstance(i, _Repeated)), None)
        if isinstance(step, str):
            named = next((i for i in self.items if isinstance(i, _Item) and i.label == step), None)
            return named or repeated or self.items[0]
        first_repeated = self.items.index(repeated) if repeated else len(self.items)
        return self.items[step] if 0 <= step < first_repeated else repeated or self.items[-1]

    def traversals(self) -> Iterator[Traversal]:
        """The references of the blocks."""
        for item in self.items:
            if isinstance(item, _Item):
                yield from item.body.traversals()
                continue
            dynamic = item.dynamic
            yield from references_in(dynamic.for_each)
            inner = list(item.body.traversals())
            inner.extend(references_in(dynamic.label) if dynamic.label else ())
            yield from (t for t in inner if t.root.name != dynamic.iterator)


# --- preparing ---------------------------------------------------------------------------------


def prepare_body(
    body: AnyBody, schema: BlockSchema, header: Span | None = None
) -> tuple[PreparedBody, list[Diagnostic]]:
    """Check what does not depend on values, once per block.

    `header` is where a missing argument is reported; without it, where the body begins.
    """
    problems: list[Diagnostic] = []
    prepared = _prepare(body, schema, header or _beginning(body), problems)
    return prepared, problems


def _beginning(body: AnyBody) -> Span:
    start = body.span.start
    return Span(body.span.filename, start, Position(start.line, start.column + 1, start.byte + 1))


def _prepare(body: AnyBody, schema: BlockSchema, place: Span, problems: list[Diagnostic]) -> PreparedBody:
    prepared = PreparedBody(schema, place)
    content, found = bodies.content(body, _face(schema))
    problems.extend(found)
    _prepare_arguments(prepared, content.attributes, schema, problems)
    items: dict[str, list[_Item | _Repeated]] = {name: [] for name in schema.blocks}
    for block in content.blocks:
        _prepare_block(block, schema, items, problems)
    for name, nested in schema.blocks.items():
        written = [i for i in items[name] if isinstance(i, _Item)]
        if len(written) == len(items[name]):
            labels, spans = [i.label for i in written], [i.span for i in written]
            problems.extend(_count_problems(name, nested, labels, spans, place))
    prepared._blocks = tuple(  # noqa: SLF001 - one family
        _BlockType(name, nested, items[name], place) for name, nested in schema.blocks.items()
    )
    return prepared


@lru_cache(maxsize=1024)
def _face(schema: BlockSchema) -> bodies.BodySchema:
    """What the syntax must know of a schema: names, and which have labels."""
    blocks: dict[str, tuple[str, ...]] = {
        name: (nested.label or "name",) if nested.nesting is Nesting.MAP else ()
        for name, nested in schema.blocks.items()
    }
    if blocks:
        blocks["dynamic"] = ("type",)
    return bodies.BodySchema(attributes=dict.fromkeys(schema.attributes, False), blocks=blocks)


def _prepare_arguments(
    prepared: PreparedBody,
    attributes: Mapping[str, Any],
    schema: BlockSchema,
    problems: list[Diagnostic],
) -> None:
    varying: list[Argument] = []
    for name, attribute_schema in schema.attributes.items():
        attribute = attributes.get(name)
        if attribute is None:
            if attribute_schema.required:
                problems.append(_required(name, prepared._place))  # noqa: SLF001 - one family
                prepared._template[name] = UNKNOWN  # noqa: SLF001 - one family
            continue
        if not attribute_schema.configurable:
            problems.append(
                error(
                    "Value for unconfigurable attribute",
                    f'Can\'t configure a value for "{name}": nexusform decides it. Remove the argument.',
                    attribute.name_span,
                )
            )
            continue
        argument = Argument(attribute, attribute_schema)
        prepared._arguments[name] = argument  # noqa: SLF001 - one family
        if not is_constant(attribute.expression):
            varying.append(argument)
        else:
            _settle(prepared._template, argument, problems)  # noqa: SLF001 - one family
    prepared._varying = tuple(varying)  # noqa: SLF001 - one family
    prepared._copied = tuple(  # noqa: SLF001 - one family
        name
        for name, value in prepared._template.items()  # noqa: SLF001 - one family
        if value.__class__ in (list, dict)
    )


def _settle(template: dict[str, Any], argument: Argument, problems: list[Diagnostic]) -> None:
    """Evaluate a constant now; its mistakes are told once, not per instance."""
    plain, _, found = argument.evaluate(NO_NAMES)
    problems.extend(found)
    name = argument.attribute.name
    if plain is not None:
        template[name] = plain
    elif argument.schema.required:
        problems.append(_required(name, argument.span))
        template[name] = UNKNOWN


def _required(name: str, span: Span) -> Diagnostic:
    return error(
        "Missing required argument",
        f'The argument "{name}" is required, but no definition was found.',
        span,
    )


def _prepare_block(
    block: Block,
    schema: BlockSchema,
    items: dict[str, list[_Item | _Repeated]],
    problems: list[Diagnostic],
) -> None:
    if block.type != "dynamic":
        nested = schema.blocks[block.type]
        label = block.labels[0].value if block.labels else ""
        body = _prepare(block.body, nested.schema, block.header_span, problems)
        items[block.type].append(_Item(label, body, block.header_span))
        return
    labels = {n: b.label or "name" if b.nesting is Nesting.MAP else "" for n, b in schema.blocks.items()}
    dynamic = read_dynamic(block, labels, problems)
    if dynamic is not None:
        inner = schema.blocks[dynamic.type].schema
        body = _prepare(dynamic.content, inner, block.header_span, problems)
        items[dynamic.type].append(_Repeated(dynamic, body))


def _count_problems(
    name: str, nested: NestedBlock, labels: Sequence[str], spans: Sequence[Span], place: Span
) -> Iterator[Diagnostic]:
    """Too few or too many blocks of a type, or two with one label."""
    single = nested.nesting is Nesting.SINGLE
    most = 1 if single else nested.max_items
    if len(labels) < nested.min_items:
        if single:
            yield error(f"Missing {name} block", f'A block of type "{name}" is required here.', place)
        else:
            need = f'At least {nested.min_items} "{name}" blocks are required.'
            yield error(f"Insufficient {name} blocks", need, place)
    if most is not None and len(labels) > most:
        yield _surplus(name, most, spans)
    if nested.nesting is Nesting.MAP:
        first: dict[str, Span] = {}
        for label, span in zip(labels, spans, strict=True):
            if label in first:
                yield error(
                    f"Duplicate {name} block",
                    f'A {name} block "{label}" was already given at {place_of(first[label])}; '
                    "each needs a label of its own.",
                    span,
                )
            first.setdefault(label, span)


def _surplus(name: str, most: int, spans: Sequence[Span]) -> Diagnostic:
    if most == 1:
        detail = f"Only one {name} block is allowed. Another was given at {place_of(spans[0])}."
        return error(f"Duplicate {name} block", detail, spans[1])
    return error(f"Too many {name} blocks", f'No more than {most} "{name}" blocks are allowed.', spans[most])


# --- plain data and places ---------------------------------------------------------------------


def copy_plain(plain: Any) -> Any:
    """A copy that shares no list or mapping with the original."""
    if plain.__class__ is dict:
        return {k: copy_plain(v) for k, v in plain.items()}
    if plain.__class__ is list:
        return [copy_plain(v) for v in plain]
    return plain


def _inside(expression: Expression, path: Path) -> Span:
    """The span of the part of a written collection that a path leads to."""
    for step in path:
        while isinstance(expression, Parentheses):
            expression = expression.inner
        part = _part(expression, step)
        if part is None:
            break
        expression = part
    return expression.span


def _part(expression: Expression, step: PathStep) -> Expression | None:
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
