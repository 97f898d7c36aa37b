"""Syntax tree of HCL text, with a span for every node.

Frozen, without semantics: the evaluator evaluates expressions, the decoder decodes bodies. Native
syntax and JSON syntax give the same tree; a JSON expression has the same nodes with parsed
templates, and JSON bodies stay `JsonBody` until a schema defines the blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Span
from nexusform.json_data.plain_data import Path

if TYPE_CHECKING:
    Scalar: TypeAlias = str | int | Decimal | bool | None
    LiteralKey: TypeAlias = str | int | Decimal
else:
    Scalar = LiteralKey = (
        # The codec of trees supports no union of texts and decimals; untyped values stay exact.
        Any
    )


class Node(Struct, frozen=True, tag=True, tag_field="node", array_like=True, gc=False):
    """Part of the tree; parser.py encodes it as an array that starts with its class's name."""


class Literal(Node, frozen=True):
    """`12`, `true`, `null`.

    Numbers are exact decimals.
    """

    value: Scalar
    span: Span


class StringLiteral(Node, frozen=True):
    """Literal text with decoded escapes, NFC-normalised.

    It is a part of a Template, or a text without any interpolation.
    """

    value: str
    span: Span


class Template(Node, frozen=True):
    """Quoted string or heredoc with several parts.

    A template that is exactly one interpolation is `TemplateWrap` instead; one with no
    interpolation is a `StringLiteral`.
    """

    parts: tuple[Expression, ...]
    span: Span


class TemplateWrap(Node, frozen=True):
    """`"${expression}"`: has the expression's own value and type."""

    wrapped: Expression
    span: Span


class TemplateIf(Node, frozen=True):
    """`%{ if c }...%{ else }...%{ endif }` inside a Template; branches are parts."""

    condition: Expression
    then: tuple[Expression, ...]
    otherwise: tuple[Expression, ...]
    span: Span


class TemplateFor(Node, frozen=True):
    """`%{ for k, v in c }...%{ endfor }` inside a Template; the body is parts."""

    key_name: str | None
    value_name: str
    collection: Expression
    body: tuple[Expression, ...]
    span: Span


class TraverseRoot(Node, frozen=True):
    """First name of a traversal: `var` in `var.a["b"]`."""

    name: str
    span: Span


class TraverseAttribute(Node, frozen=True):
    """`.name`, also the legacy `.0` (name "0")."""

    name: str
    span: Span


class TraverseIndex(Node, frozen=True):
    """`["key"]` or `[0]` with a literal key."""

    key: LiteralKey
    span: Span


Step: TypeAlias = TraverseAttribute | TraverseIndex


class Traversal(Node, frozen=True):
    """Absolute traversal: a variable name and literal steps into it."""

    root: TraverseRoot
    steps: tuple[Step, ...]
    span: Span

    @property
    def first_name(self) -> str:
        """Name in the first step after the root, "" for none."""
        step = self.steps[0] if self.steps else None
        return step.name if isinstance(step, TraverseAttribute) else ""

    def remove_resource_prefix(self) -> Traversal:
        """Return `resource.TYPE.NAME` as `TYPE.NAME`, which means the same.

        Any other traversal as it is.
        """
        if self.root.name != "resource" or not self.first_name:
            return self
        return Traversal(
            TraverseRoot(self.first_name, self.steps[0].span), self.steps[1:], self.span
        )


class RelativeTraversal(Node, frozen=True):
    """Literal steps into the value of any other expression: `f(x).a[0]`."""

    source: Expression
    steps: tuple[Step, ...]
    span: Span


class Index(Node, frozen=True):
    """`collection[key]` with an expression as key."""

    collection: Expression
    key: Expression
    span: Span


class Splat(Node, frozen=True):
    """`source[*].a.b[0]` (full) or `source.*.a` (legacy).

    Only attribute steps belong to a legacy splat; an index after them applies to the result and is
    a RelativeTraversal or Index around the Splat. `element` is applied to every element; its
    innermost source is a SplatElement.
    """

    source: Expression
    element: Expression
    legacy: bool
    span: Span


class SplatElement(Node, frozen=True):
    """Current element inside a Splat."""

    span: Span


class Unary(Node, frozen=True):
    """`-x`, `!x`."""

    operator: str
    operand: Expression
    span: Span


class Binary(Node, frozen=True):
    """`a + b` and similar; operator as in the source."""

    operator: str
    left: Expression
    right: Expression
    span: Span


class Conditional(Node, frozen=True):
    """`c ? a : b`."""

    condition: Expression
    then: Expression
    otherwise: Expression
    span: Span


class Call(Node, frozen=True):
    """`name(arguments...)`; `expand` if `...` follows the last argument."""

    name: str
    arguments: tuple[Expression, ...]
    expand: bool
    span: Span
    name_span: Span

    @property
    def value_arguments(self) -> tuple[Expression, ...]:
        """Arguments without the type of `convert(value, type)`."""
        return (
            self.arguments[:1] if self.name.removeprefix("core::") == "convert" else self.arguments
        )


class TupleCons(Node, frozen=True):
    """`[a, b]`."""

    items: tuple[Expression, ...]
    span: Span


class ObjectKey(Node, frozen=True):
    """Key of an object constructor.

    A bare name (`a = 1`) is a Traversal of one name with `bare` true and represents the text
    itself; `(a) = 1` and `"${a}" = 1` are evaluated.
    """

    expression: Expression
    bare: bool
    span: Span

    @property
    def literal_text(self) -> str | None:
        """Text of a literal key: quoted, one bare name (`a = 1`) or a whole number.

        It is None if the key must be evaluated.
        """
        match self.expression:
            case Traversal(root, ()) if self.bare:
                return root.name
            case StringLiteral(text):
                return text
            case Literal(int(number)):
                return str(number)
        return None

    @property
    def is_ambiguous(self) -> bool:
        """True if it looks like a reference (`aws.west = ...`), which is meaningless as a key."""
        traversal = self.expression
        return isinstance(traversal, Traversal) and any(
            isinstance(step, TraverseAttribute) for step in traversal.steps
        )


class ObjectCons(Node, frozen=True):
    """`{ k = v, ... }`."""

    items: tuple[tuple[ObjectKey, Expression], ...]
    span: Span


class ForTuple(Node, frozen=True):
    """`[for k, v in c : value if condition]`."""

    key_name: str | None
    value_name: str
    collection: Expression
    value: Expression
    condition: Expression | None
    span: Span


class ForObject(Node, frozen=True):
    """`{for k, v in c : key => value... if condition}`; `group` for the `...`."""

    key_name: str | None
    value_name: str
    collection: Expression
    key: Expression
    value: Expression
    group: bool
    condition: Expression | None
    span: Span


class Parentheses(Node, frozen=True):
    """`(x)`."""

    inner: Expression
    span: Span


Expression: TypeAlias = (
    Literal
    | StringLiteral
    | Template
    | TemplateWrap
    | TemplateIf
    | TemplateFor
    | Traversal
    | RelativeTraversal
    | Index
    | Splat
    | SplatElement
    | Unary
    | Binary
    | Conditional
    | Call
    | TupleCons
    | ObjectCons
    | ForTuple
    | ForObject
    | Parentheses
)


class Attribute(Node, frozen=True):
    """`name = expression`."""

    name: str
    expression: Expression
    span: Span
    name_span: Span


class Label(Node, frozen=True):
    """Block label with its span."""

    value: str
    span: Span


class Block(Node, frozen=True):
    """`type "label" { body }`.

    `header_span` covers type and labels, and `span` the whole block.
    """

    type: str
    labels: tuple[Label, ...]
    body: Body | JsonBody
    span: Span
    header_span: Span
    type_span: Span


class Body(Node, frozen=True):
    """Attributes and blocks in source order.

    `end_span` (closing brace or end of file) is for missing items.
    """

    attributes: tuple[Attribute, ...]
    blocks: tuple[Block, ...]
    span: Span
    end_span: Span

    def list_literal_paths(self, prefix: Path = ()) -> Iterator[Path]:
        """List the paths written in the text, in its order.

        They lead to arguments with the keys inside them, and to blocks. A block with labels has two
        paths, without and with them. Parts of a list have the path of the list.
        """
        parts: list[Attribute | Block] = [*self.attributes, *self.blocks]
        for part in sorted(parts, key=lambda part: part.span.start.byte):
            if isinstance(part, Attribute):
                yield (*prefix, part.name)
                yield from _list_key_paths(part.expression, (*prefix, part.name))
            elif part.type == "dynamic":
                # Its label is the type of the blocks generated by it.
                yield (*prefix, *(label.value for label in part.labels))
            else:
                block_path = (*prefix, part.type, *(label.value for label in part.labels))
                yield (*prefix, part.type)
                # Without labels the same path again.
                yield block_path
                yield from part.body.list_literal_paths(block_path)


def _list_key_paths(expression: Expression, prefix: Path) -> Iterator[Path]:
    """List the paths of literal object keys.

    Only objects, lists, parentheses and function arguments are searched.
    """
    match expression:
        case Parentheses():
            yield from _list_key_paths(expression.inner, prefix)
        case Call(arguments=parts) | TupleCons(items=parts):
            for part in parts:
                yield from _list_key_paths(part, prefix)
        case ObjectCons():
            for key, value in expression.items:
                name = key.literal_text
                if name is not None:
                    yield (*prefix, name)
                    yield from _list_key_paths(value, (*prefix, name))


class JsonProperty(Node, frozen=True):
    """Property of a JSON object: name, value, and the span of the name."""

    name: str
    value: JsonValue
    name_span: Span


class JsonObject(Node, frozen=True):
    """JSON object with its properties in source order, including repeated names."""

    properties: tuple[JsonProperty, ...]
    span: Span


class JsonArray(Node, frozen=True):
    """A JSON array."""

    items: tuple[JsonValue, ...]
    span: Span


class JsonScalar(Node, frozen=True):
    """JSON string, number (exact), boolean or null."""

    value: Scalar
    span: Span


JsonValue: TypeAlias = JsonObject | JsonArray | JsonScalar


class JsonBody(Node, frozen=True):
    """JSON object (or array of objects) for a body.

    The schema distinguishes attributes and blocks.
    """

    objects: tuple[JsonObject, ...]
    span: Span

    def list_literal_paths(self, prefix: Path = ()) -> Iterator[Path]:
        """List the paths of the names written in the text, in its order."""
        for json_object in self.objects:
            yield from _list_json_paths(json_object, prefix)


def _list_json_paths(value: JsonValue, prefix: Path) -> Iterator[Path]:
    """List the paths of the names in a JSON value, below `prefix`.

    Items of an array have the path of the array.
    """
    if isinstance(value, JsonArray):
        for item in value.items:
            yield from _list_json_paths(item, prefix)
    elif isinstance(value, JsonObject):
        for json_property in value.properties:
            yield (*prefix, json_property.name)
            yield from _list_json_paths(json_property.value, (*prefix, json_property.name))
