"""The syntax tree: what HCL text says, every node with its span.

Frozen, free of meaning: the evaluator gives expressions values, the decoder gives bodies meaning.
Native syntax and JSON syntax give the same tree; a JSON expression is the same nodes with
templates parsed, and JSON bodies stay `JsonBody` until a schema says what is a block.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TypeAlias

from msgspec import Struct

from nexusform.source import Span

# --- expressions -------------------------------------------------------------------------------


class Literal(Struct, frozen=True):
    """`12`, `true`, `null`. Numbers are exact decimals."""

    value: Decimal | int | bool | None
    span: Span


class StringLiteral(Struct, frozen=True):
    """A piece of literal text: escapes decoded, NFC-normalised.

    Only inside Template, or a whole template without interpolation.
    """

    value: str
    span: Span


class Template(Struct, frozen=True):
    """A quoted string or heredoc with several parts.

    A template that is exactly one interpolation is `TemplateWrap` instead; one with no
    interpolation is a `StringLiteral`.
    """

    parts: tuple[Expression, ...]
    span: Span


class TemplateWrap(Struct, frozen=True):
    """`"${expression}"`: gives the expression's own value and type."""

    wrapped: Expression
    span: Span


class TemplateIf(Struct, frozen=True):
    """`%{ if c }...%{ else }...%{ endif }` inside a Template; branches are parts."""

    condition: Expression
    then: tuple[Expression, ...]
    otherwise: tuple[Expression, ...]
    span: Span


class TemplateFor(Struct, frozen=True):
    """`%{ for k, v in c }...%{ endfor }` inside a Template; the body is parts."""

    key_name: str | None
    value_name: str
    collection: Expression
    body: tuple[Expression, ...]
    span: Span


class TraverseRoot(Struct, frozen=True):
    """The first name of a traversal: `var` in `var.a["b"]`."""

    name: str
    span: Span


class TraverseAttribute(Struct, frozen=True):
    """`.name`, also the legacy `.0` (name "0")."""

    name: str
    span: Span


class TraverseIndex(Struct, frozen=True):
    """`["key"]` or `[0]` with a literal key."""

    key: str | int | Decimal
    span: Span


Step: TypeAlias = TraverseAttribute | TraverseIndex


class Traversal(Struct, frozen=True):
    """An absolute traversal: a variable name and literal steps into it."""

    root: TraverseRoot
    steps: tuple[Step, ...]
    span: Span


class RelativeTraversal(Struct, frozen=True):
    """Literal steps into the value of any other expression: `f(x).a[0]`."""

    source: Expression
    steps: tuple[Step, ...]
    span: Span


class Index(Struct, frozen=True):
    """`collection[key]` where the key is an expression."""

    collection: Expression
    key: Expression
    span: Span


class Splat(Struct, frozen=True):
    """`source[*].a.b[0]` (full) or `source.*.a` (legacy).

    Only attribute steps belong to a legacy splat; an index after them applies to the result and
    is a RelativeTraversal or Index around the Splat.
    `each` is applied to every element, its innermost source being a SplatElement.
    """

    source: Expression
    each: Expression
    legacy: bool
    span: Span


class SplatElement(Struct, frozen=True):
    """The element at hand inside a Splat."""

    span: Span


class Unary(Struct, frozen=True):
    """`-x`, `!x`."""

    operator: str
    operand: Expression
    span: Span


class Binary(Struct, frozen=True):
    """`a + b` and the like; operator as written."""

    operator: str
    left: Expression
    right: Expression
    span: Span


class Conditional(Struct, frozen=True):
    """`c ? a : b`."""

    condition: Expression
    then: Expression
    otherwise: Expression
    span: Span


class Call(Struct, frozen=True):
    """`name(arguments...)`; `expand` when the last argument is followed by `...`."""

    name: str
    arguments: tuple[Expression, ...]
    expand: bool
    span: Span
    name_span: Span


class TupleCons(Struct, frozen=True):
    """`[a, b]`."""

    items: tuple[Expression, ...]
    span: Span


class ObjectKey(Struct, frozen=True):
    """A key of an object constructor.

    A bare name (`a = 1`) is a Traversal of one name with `bare` true and means the text itself;
    `(a) = 1` and `"${a}" = 1` are evaluated.
    """

    expression: Expression
    bare: bool
    span: Span


class ObjectCons(Struct, frozen=True):
    """`{ k = v, ... }`."""

    items: tuple[tuple[ObjectKey, Expression], ...]
    span: Span


class ForTuple(Struct, frozen=True):
    """`[for k, v in c : value if condition]`."""

    key_name: str | None
    value_name: str
    collection: Expression
    value: Expression
    condition: Expression | None
    span: Span


class ForObject(Struct, frozen=True):
    """`{for k, v in c : key => value... if condition}`; `group` for the `...`."""

    key_name: str | None
    value_name: str
    collection: Expression
    key: Expression
    value: Expression
    group: bool
    condition: Expression | None
    span: Span


class Parentheses(Struct, frozen=True):
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


class Attribute(Struct, frozen=True):
    """`name = expression`."""

    name: str
    expression: Expression
    span: Span
    name_span: Span


class Label(Struct, frozen=True):
    """A block label and where it stands."""

    value: str
    span: Span


class Block(Struct, frozen=True):
    """`type "label" { body }`. `header_span` covers type and labels; `span` all of it."""

    type: str
    labels: tuple[Label, ...]
    body: Body | JsonBody
    span: Span
    header_span: Span
    type_span: Span


class Body(Struct, frozen=True):
    """Attributes and blocks in source order.

    `end_span` is where a missing item is reported (the closing brace, or the end of the file).
    """

    attributes: tuple[Attribute, ...]
    blocks: tuple[Block, ...]
    span: Span
    end_span: Span


class JsonProperty(Struct, frozen=True):
    """One property of a JSON object: name, value, and where the name stands."""

    name: str
    value: JsonValue
    name_span: Span


class JsonObject(Struct, frozen=True):
    """A JSON object with its properties as written, repeated names included."""

    properties: tuple[JsonProperty, ...]
    span: Span


class JsonArray(Struct, frozen=True):
    """A JSON array."""

    items: tuple[JsonValue, ...]
    span: Span


class JsonScalar(Struct, frozen=True):
    """A JSON string, number (exact), boolean or null."""

    value: str | int | Decimal | bool | None
    span: Span


JsonValue: TypeAlias = JsonObject | JsonArray | JsonScalar


class JsonBody(Struct, frozen=True):
    """A JSON object (or array of objects) standing for a body.

    Which properties are attributes and which are blocks is decided by the schema (bodies.content).
    """

    objects: tuple[JsonObject, ...]
    span: Span
