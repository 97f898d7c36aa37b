"""The syntax tree: what HCL text says, every node with its span.

Frozen, free of meaning: the evaluator gives expressions values, the decoder gives bodies meaning.
Native syntax and JSON syntax give the same tree; a JSON expression is the same nodes with
templates parsed, and JSON bodies stay `JsonBody` until a schema says what is a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from nexusform.source import Span

# --- expressions -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal:
    """`12`, `true`, `null`. Numbers are exact decimals."""

    value: Decimal | int | bool | None
    span: Span


@dataclass(frozen=True, slots=True)
class StringLiteral:
    """A piece of literal text: escapes decoded, NFC-normalised.

    Only inside Template, or a whole template without interpolation.
    """

    value: str
    span: Span


@dataclass(frozen=True, slots=True)
class Template:
    """A quoted string or heredoc with several parts.

    A template that is exactly one interpolation is `TemplateWrap` instead; one with no
    interpolation is a `StringLiteral`.
    """

    parts: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class TemplateWrap:
    """`"${expression}"`: gives the expression's own value and type."""

    wrapped: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class TemplateIf:
    """`%{ if c }...%{ else }...%{ endif }` inside a Template; branches are parts."""

    condition: Expression
    then: tuple[Expression, ...]
    otherwise: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class TemplateFor:
    """`%{ for k, v in c }...%{ endfor }` inside a Template; the body is parts."""

    key_name: str | None
    value_name: str
    collection: Expression
    body: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class TraverseRoot:
    """The first name of a traversal: `var` in `var.a["b"]`."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class TraverseAttribute:
    """`.name`, also the legacy `.0` (name "0")."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class TraverseIndex:
    """`["key"]` or `[0]` with a literal key."""

    key: str | int | Decimal
    span: Span


Step: TypeAlias = TraverseAttribute | TraverseIndex


@dataclass(frozen=True, slots=True)
class Traversal:
    """An absolute traversal: a variable name and literal steps into it."""

    root: TraverseRoot
    steps: tuple[Step, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class RelativeTraversal:
    """Literal steps into the value of any other expression: `f(x).a[0]`."""

    source: Expression
    steps: tuple[Step, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Index:
    """`collection[key]` where the key is an expression."""

    collection: Expression
    key: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Splat:
    """`source[*].a.b[0]` (full) or `source.*.a` (legacy).

    Only attribute steps belong to a legacy splat; an index after them applies to the result and
    is a RelativeTraversal or Index around the Splat.
    `each` is applied to every element, its innermost source being a SplatElement.
    """

    source: Expression
    each: Expression
    legacy: bool
    span: Span


@dataclass(frozen=True, slots=True)
class SplatElement:
    """The element at hand inside a Splat."""

    span: Span


@dataclass(frozen=True, slots=True)
class Unary:
    """`-x`, `!x`."""

    operator: str
    operand: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Binary:
    """`a + b` and the like; operator as written."""

    operator: str
    left: Expression
    right: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Conditional:
    """`c ? a : b`."""

    condition: Expression
    then: Expression
    otherwise: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Call:
    """`name(arguments...)`; `expand` when the last argument is followed by `...`."""

    name: str
    arguments: tuple[Expression, ...]
    expand: bool
    span: Span
    name_span: Span


@dataclass(frozen=True, slots=True)
class TupleCons:
    """`[a, b]`."""

    items: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """A key of an object constructor.

    A bare name (`a = 1`) is a Traversal of one name with `bare` true and means the text itself;
    `(a) = 1` and `"${a}" = 1` are evaluated.
    """

    expression: Expression
    bare: bool
    span: Span


@dataclass(frozen=True, slots=True)
class ObjectCons:
    """`{ k = v, ... }`."""

    items: tuple[tuple[ObjectKey, Expression], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ForTuple:
    """`[for k, v in c : value if condition]`."""

    key_name: str | None
    value_name: str
    collection: Expression
    value: Expression
    condition: Expression | None
    span: Span


@dataclass(frozen=True, slots=True)
class ForObject:
    """`{for k, v in c : key => value... if condition}`; `group` for the `...`."""

    key_name: str | None
    value_name: str
    collection: Expression
    key: Expression
    value: Expression
    group: bool
    condition: Expression | None
    span: Span


@dataclass(frozen=True, slots=True)
class Parentheses:
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


@dataclass(frozen=True, slots=True)
class Attribute:
    """`name = expression`."""

    name: str
    expression: Expression
    span: Span
    name_span: Span


@dataclass(frozen=True, slots=True)
class Label:
    """A block label and where it stands."""

    value: str
    span: Span


@dataclass(frozen=True, slots=True)
class Block:
    """`type "label" { body }`. `header_span` covers type and labels; `span` all of it."""

    type: str
    labels: tuple[Label, ...]
    body: Body | JsonBody
    span: Span
    header_span: Span
    type_span: Span


@dataclass(frozen=True, slots=True)
class Body:
    """Attributes and blocks in source order.

    `end_span` is where a missing item is reported (the closing brace, or the end of the file).
    """

    attributes: tuple[Attribute, ...]
    blocks: tuple[Block, ...]
    span: Span
    end_span: Span


@dataclass(frozen=True, slots=True)
class JsonProperty:
    """One property of a JSON object: name, value, and where the name stands."""

    name: str
    value: JsonValue
    name_span: Span


@dataclass(frozen=True, slots=True)
class JsonObject:
    """A JSON object with its properties as written, repeated names included."""

    properties: tuple[JsonProperty, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class JsonArray:
    """A JSON array."""

    items: tuple[JsonValue, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class JsonScalar:
    """A JSON string, number (exact), boolean or null."""

    value: str | int | Decimal | bool | None
    span: Span


JsonValue: TypeAlias = JsonObject | JsonArray | JsonScalar


@dataclass(frozen=True, slots=True)
class JsonBody:
    """A JSON object (or array of objects) standing for a body.

    Which properties are attributes and which are blocks is decided by the schema (bodies.content).
    """

    objects: tuple[JsonObject, ...]
    span: Span
