"""The syntax tree: what HCL text says, every node with its span.

Frozen, free of meaning: the evaluator gives expressions values, the decoder gives bodies meaning.
Native syntax and JSON syntax give the same tree; a JSON expression is the same nodes with
templates parsed, and JSON bodies stay `JsonBody` until a schema says what is a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from nexusform.plain_data import Path
from nexusform.source import Span

if TYPE_CHECKING:
    Scalar: TypeAlias = str | int | Decimal | bool | None
    LiteralKey: TypeAlias = str | int | Decimal
else:
    Scalar = LiteralKey = (
        Any  # the codec of trees takes no union of texts and decimals; untyped they come back exact
    )


class Node(Struct, frozen=True, tag=True, tag_field="node", array_like=True, gc=False):
    """A part of the tree; parser.py writes it as an array that begins with its class's name."""


# --- expressions -------------------------------------------------------------------------------


class Literal(Node, frozen=True):
    """`12`, `true`, `null`. Numbers are exact decimals."""

    value: Scalar
    span: Span


class StringLiteral(Node, frozen=True):
    """A piece of literal text: escapes decoded, NFC-normalised.

    Only inside Template, or a whole template without interpolation.
    """

    value: str
    span: Span


class Template(Node, frozen=True):
    """A quoted string or heredoc with several parts.

    A template that is exactly one interpolation is `TemplateWrap` instead; one with no
    interpolation is a `StringLiteral`.
    """

    parts: tuple[Expression, ...]
    span: Span


class TemplateWrap(Node, frozen=True):
    """`"${expression}"`: gives the expression's own value and type."""

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
    """The first name of a traversal: `var` in `var.a["b"]`."""

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
    """An absolute traversal: a variable name and literal steps into it."""

    root: TraverseRoot
    steps: tuple[Step, ...]
    span: Span


class RelativeTraversal(Node, frozen=True):
    """Literal steps into the value of any other expression: `f(x).a[0]`."""

    source: Expression
    steps: tuple[Step, ...]
    span: Span


class Index(Node, frozen=True):
    """`collection[key]` where the key is an expression."""

    collection: Expression
    key: Expression
    span: Span


class Splat(Node, frozen=True):
    """`source[*].a.b[0]` (full) or `source.*.a` (legacy).

    Only attribute steps belong to a legacy splat; an index after them applies to the result and
    is a RelativeTraversal or Index around the Splat.
    `each` is applied to every element, its innermost source being a SplatElement.
    """

    source: Expression
    each: Expression
    legacy: bool
    span: Span


class SplatElement(Node, frozen=True):
    """The element at hand inside a Splat."""

    span: Span


class Unary(Node, frozen=True):
    """`-x`, `!x`."""

    operator: str
    operand: Expression
    span: Span


class Binary(Node, frozen=True):
    """`a + b` and the like; operator as written."""

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
    """`name(arguments...)`; `expand` when the last argument is followed by `...`."""

    name: str
    arguments: tuple[Expression, ...]
    expand: bool
    span: Span
    name_span: Span


class TupleCons(Node, frozen=True):
    """`[a, b]`."""

    items: tuple[Expression, ...]
    span: Span


class ObjectKey(Node, frozen=True):
    """A key of an object constructor.

    A bare name (`a = 1`) is a Traversal of one name with `bare` true and means the text itself;
    `(a) = 1` and `"${a}" = 1` are evaluated.
    """

    expression: Expression
    bare: bool
    span: Span

    @property
    def is_ambiguous(self) -> bool:
        """Whether it is written like a reference (`aws.west = ...`), which means nothing as a key."""
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


# --- structure ---------------------------------------------------------------------------------


class Attribute(Node, frozen=True):
    """`name = expression`."""

    name: str
    expression: Expression
    span: Span
    name_span: Span


class Label(Node, frozen=True):
    """A block label and where it stands."""

    value: str
    span: Span


class Block(Node, frozen=True):
    """`type "label" { body }`. `header_span` covers type and labels; `span` all of it."""

    type: str
    labels: tuple[Label, ...]
    body: Body | JsonBody
    span: Span
    header_span: Span
    type_span: Span


class Body(Node, frozen=True):
    """Attributes and blocks in source order.

    `end_span` is where a missing item is reported (the closing brace, or the end of the file).
    """

    attributes: tuple[Attribute, ...]
    blocks: tuple[Block, ...]
    span: Span
    end_span: Span

    def places(self, front: Path = ()) -> Iterator[Path]:
        """The places that are written out, in the order of the text: arguments, blocks (by labels, too),
        and keys inside of arguments. What stands in a list has the place of the list.
        """
        parts: list[Attribute | Block] = [*self.attributes, *self.blocks]
        for part in sorted(parts, key=lambda part: part.span.start.byte):
            if isinstance(part, Attribute):
                yield (*front, part.name)
                yield from _keys(part.expression, (*front, part.name))
            elif part.type == "dynamic":
                yield (*front, *(label.value for label in part.labels))
            else:
                place = (*front, part.type, *(label.value for label in part.labels))
                yield (*front, part.type)
                yield place
                yield from part.body.places(place)


def _keys(expression: Expression, front: Path) -> Iterator[Path]:
    """The keys that an expression writes out, also where they are handed to a function."""
    match expression:
        case Parentheses():
            yield from _keys(expression.inner, front)
        case Call(arguments=parts) | TupleCons(items=parts):
            for part in parts:
                yield from _keys(part, front)
        case ObjectCons():
            for key, value in expression.items:
                name = _literal_key(key)
                if name is not None:
                    yield (*front, name)
                    yield from _keys(value, (*front, name))


def _literal_key(key: ObjectKey) -> str | None:
    """The key, where it needs no evaluation."""
    if isinstance(key.expression, StringLiteral):
        return key.expression.value
    return key.expression.root.name if key.bare and isinstance(key.expression, Traversal) else None


class JsonProperty(Node, frozen=True):
    """One property of a JSON object: name, value, and where the name stands."""

    name: str
    value: JsonValue
    name_span: Span


class JsonObject(Node, frozen=True):
    """A JSON object with its properties as written, repeated names included."""

    properties: tuple[JsonProperty, ...]
    span: Span


class JsonArray(Node, frozen=True):
    """A JSON array."""

    items: tuple[JsonValue, ...]
    span: Span


class JsonScalar(Node, frozen=True):
    """A JSON string, number (exact), boolean or null."""

    value: Scalar
    span: Span


JsonValue: TypeAlias = JsonObject | JsonArray | JsonScalar


class JsonBody(Node, frozen=True):
    """A JSON object (or array of objects) standing for a body.

    Which properties are attributes and which are blocks is decided by the schema (bodies.content).
    """

    objects: tuple[JsonObject, ...]
    span: Span

    def places(self, front: Path = ()) -> Iterator[Path]:
        """The places that are written out, in the order of the text."""
        for each in self.objects:
            yield from _json_places(each, front)


def _json_places(value: JsonValue, front: Path) -> Iterator[Path]:
    if isinstance(value, JsonArray):
        for item in value.items:
            yield from _json_places(item, front)
    elif isinstance(value, JsonObject):
        for each in value.properties:
            yield (*front, each.name)
            yield from _json_places(each.value, (*front, each.name))
