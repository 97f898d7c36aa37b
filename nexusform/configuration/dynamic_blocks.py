"""`dynamic` blocks: what they repeat over, and the names that stand inside their content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from nexusform.diagnostics import Diagnostic, did_you_mean, error, has_errors
from nexusform.language.bodies import BodySchema, content
from nexusform.language.conversion import convert, describe
from nexusform.language.evaluator import Scope, evaluate
from nexusform.language.syntax.nodes import (
    Attribute,
    Block,
    Body,
    Expression,
    JsonBody,
    StringLiteral,
    Traversal,
    TupleCons,
)
from nexusform.plain_data import ConversionProblem
from nexusform.value_types import (
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    SetType,
    TupleType,
    friendly_name,
)
from nexusform.values import DYNAMIC_UNKNOWN, Value, object_value

if TYPE_CHECKING:
    from nexusform.source import Span

_PARTS = BodySchema(attributes={"for_each": True, "iterator": False, "labels": False}, blocks={"content": ()})
_SUMMARY = "invalid-dynamic-for-each-value"


class DynamicBlock(Struct, frozen=True):
    """`dynamic "type" { for_each, iterator, labels, content }` as written."""

    type: str
    for_each: Expression
    iterator: str
    label: Expression | None
    content: Body | JsonBody
    span: Span
    header_span: Span


class IteratorScope:
    """A scope with the iterator of a dynamic block: an object of `key` and `value`."""

    __slots__ = ("_item", "_name", "_outer")

    def __init__(self, outer: Scope, name: str, key: Value, value: Value) -> None:
        self._outer = outer
        self._name = name
        self._item = object_value({"key": key, "value": value})

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        """The iterator, or what the outer scope knows."""
        if traversal.root.name == self._name:
            return self._item, 0, []
        return self._outer.lookup(traversal)

    @property
    def functions(self) -> Mapping[str, Any]:
        """The functions of the outer scope."""
        return self._outer.functions


def read_dynamic(block: Block, known: Mapping[str, str], problems: list[Diagnostic]) -> DynamicBlock | None:
    """The parts of a `dynamic` block; None when it cannot be used. Adds to `problems`.

    `known` maps the block types allowed here to the name of their label ("" for none).
    """
    kind = block.labels[0].value
    if kind not in known:
        problems.append(
            error(
                "unsupported-block-type",
                f'Blocks of type "{kind}" are not expected here.{did_you_mean(kind, known)}',
                block.labels[0].span,
            )
        )
        return None
    parts, wrong = content(block.body, _PARTS)
    problems.extend(wrong)
    bodies = [b for b in parts.blocks if b.type == "content"]
    if len(bodies) > 1:
        problems.append(
            error(
                "extraneous-dynamic-content-block",
                "Only one nested content block is allowed for each dynamic block.",
                bodies[1].header_span,
            )
        )
    if not bodies:
        problems.append(
            error(
                "missing-dynamic-content-block",
                'A dynamic block needs a nested block of type "content" that describes each generated block.',
                block.header_span,
            )
        )
    for_each = parts.attributes.get("for_each")
    label = _label(parts.attributes.get("labels"), block, known[kind], problems)
    iterator = _iterator(parts.attributes.get("iterator"), kind, problems)
    if for_each is None or not bodies or iterator is None:
        return None
    return DynamicBlock(
        type=kind,
        for_each=for_each.expression,
        iterator=iterator,
        label=label,
        content=bodies[0].body,
        span=block.span,
        header_span=block.header_span,
    )


def _iterator(attribute: Attribute | None, kind: str, problems: list[Diagnostic]) -> str | None:
    """The name of the iterator: that of the blocks unless another is written; None when it is wrong."""
    if attribute is None:
        return kind
    match attribute.expression:
        case Traversal(root, ()):
            return root.name
        case StringLiteral(value) if value.isidentifier():
            return value  # JSON has no other way to write a name
    problems.append(
        error(
            "invalid-dynamic-iterator-name",
            "Dynamic iterator must be a single variable name.",
            attribute.expression.span,
        )
    )
    return None


def _label(
    attribute: Attribute | None, block: Block, label_name: str, problems: list[Diagnostic]
) -> Expression | None:
    """The label of the blocks that are made, the only element of `labels`; None where they have none, or it
    is wrong. `label_name` is what the label says, "" for blocks without one.
    """
    block_type = block.labels[0].value
    if attribute is None:
        if label_name:
            detail = (
                f'Blocks of type "{block_type}" have one label, its {label_name}: '
                "write labels = [...] with one element."
            )
            problems.append(error("insufficient-dynamic-block-labels", detail, block.header_span))
        return None
    if not label_name:
        detail = f'Blocks of type "{block_type}" have no labels.'
        problems.append(error("extraneous-dynamic-block-label", detail, attribute.name_span))
        return None
    expression = attribute.expression
    labels = expression.items if isinstance(expression, TupleCons) else ()
    if len(labels) != 1:
        detail = f'The "labels" argument must be a list of exactly one expression, the {label_name}: [...].'
        problems.append(error("invalid-dynamic-block-labels", detail, expression.span))
        return None
    return labels[0]


def iterations(block: DynamicBlock, scope: Scope) -> tuple[list[IteratorScope] | None, list[Diagnostic]]:
    """One scope for each block to generate, in iteration order; None when that is not known."""
    value, problems = evaluate(block.for_each, scope)
    if has_errors(problems) or not value.is_known:
        return None, problems
    wrong = _not_iterable(value)
    if wrong:
        return None, [*problems, error(_SUMMARY, wrong, block.for_each.span)]
    if isinstance(value.raw, dict):
        pairs = [(Value(STRING, k), v) for k, v in value.raw.items()]
    elif isinstance(value.type, SetType):
        if not value.is_wholly_known:
            return None, problems
        pairs = [(v, v) for v in value.raw]
    else:
        pairs = [(Value(NUMBER, i), v) for i, v in enumerate(value.raw)]
    return [IteratorScope(scope, block.iterator, k, v) for k, v in pairs], problems


def _not_iterable(value: Value) -> str:
    """Why a value cannot be repeated over; "" when it can."""
    if value.is_null:
        return "Cannot use a null value in for_each."
    if not isinstance(value.type, (ListType, SetType, MapType, TupleType, ObjectType)):
        kind = friendly_name(value.type)
        return f"Cannot use a {kind} value in for_each. An iterable collection is required."
    if value.is_sensitive:
        return (
            "Cannot use a sensitive value in for_each: how many blocks there are would show. "
            "If the value need not be hidden, use nonsensitive(...)."
        )
    return ""


def unknown_iteration(block: DynamicBlock, scope: Scope) -> IteratorScope:
    """A scope in which the iterator is not known, to find mistakes in content all the same."""
    return IteratorScope(scope, block.iterator, DYNAMIC_UNKNOWN, DYNAMIC_UNKNOWN)


def label_text(expression: Expression, scope: Scope) -> tuple[str | None, list[Diagnostic]]:
    """The label of one generated block; None when it is unknown or wrong."""
    value, problems = evaluate(expression, scope)
    if has_errors(problems) or not value.is_known:
        return None, problems
    fault = ""
    if value.is_null:
        fault = "Cannot use a null value as a dynamic block label."
    elif value.is_sensitive:
        fault = "Cannot use a sensitive value as a dynamic block label."
    else:
        try:
            return str(convert(value, STRING).raw), problems
        except ConversionProblem as problem:
            fault = f"Cannot use this value as a dynamic block label: {describe(problem)}."
    return None, [*problems, error("invalid-dynamic-block-label", fault, expression.span)]
