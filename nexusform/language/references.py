"""Which names an expression or a body refers to.

Only free ones: the variables of `for` expressions and directives, and the iterators of `dynamic`
blocks, are names of the expression itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from nexusform.language.json_syntax import expression_of
from nexusform.language.parser import parse_expression
from nexusform.language.syntax import (
    Attribute,
    Binary,
    Block,
    Body,
    Call,
    Conditional,
    Expression,
    ForObject,
    ForTuple,
    Index,
    JsonArray,
    JsonBody,
    JsonObject,
    JsonProperty,
    JsonScalar,
    JsonValue,
    ObjectCons,
    Parentheses,
    RelativeTraversal,
    Splat,
    StringLiteral,
    Template,
    TemplateFor,
    TemplateIf,
    TemplateWrap,
    Traversal,
    TupleCons,
    Unary,
)
from nexusform.source import SourceFile

_Names = frozenset[str]
_NONE: _Names = frozenset()


def traversals(expression: Expression) -> tuple[Traversal, ...]:
    """The free traversals of an expression, in source order, repeated ones included."""
    return tuple(_free(expression, _NONE))


def body_traversals(body: Body | JsonBody) -> tuple[Traversal, ...]:
    """The free traversals of everything in a body, in source order, without asking a schema.

    In JSON every string is taken for a template, since only a schema could tell.
    """
    if isinstance(body, JsonBody):
        free: list[Traversal] = []
        for each in body.objects:
            free.extend(_in_json(each, _NONE))
        return tuple(free)
    return tuple(_in_body(body, _NONE))


def as_traversal(expression: Expression) -> Traversal | None:
    """The traversal that an expression is, for arguments that name things (`depends_on`).

    JSON has no other way to write one than a string, so a string is read as an expression.
    """
    if isinstance(expression, StringLiteral):
        parsed, _ = parse_expression(
            SourceFile(expression.span.filename, expression.value), expression.span.start
        )
        return parsed if isinstance(parsed, Traversal) else None
    return expression if isinstance(expression, Traversal) else None


def _bound(expression: ForTuple | ForObject | TemplateFor, names: _Names) -> _Names:
    extra = {expression.value_name}
    if expression.key_name is not None:
        extra.add(expression.key_name)
    return names | extra


def _free(start: Expression, bound: _Names) -> Iterator[Traversal]:
    """Depth first in source order, with a stack of its own."""
    stack: list[tuple[Expression, _Names]] = [(start, bound)]
    while stack:
        expression, names = stack.pop()
        if isinstance(expression, Traversal):
            if expression.root.name not in names:
                yield expression
        elif isinstance(expression, (ForTuple, ForObject, TemplateFor)):
            inner = _bound(expression, names)
            stack.extend((each, inner) for each in reversed(_repeated(expression)))
            stack.append((expression.collection, names))
        else:
            stack.extend((each, names) for each in reversed(children(expression)))


def _repeated(expression: ForTuple | ForObject | TemplateFor) -> tuple[Expression, ...]:
    """The parts of a for that see its variables, in source order."""
    if isinstance(expression, TemplateFor):
        return expression.body
    condition = () if expression.condition is None else (expression.condition,)
    if isinstance(expression, ForObject):
        return (expression.key, expression.value, *condition)
    return (expression.value, *condition)


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside another, in source order. A bare object key is not one."""
    if isinstance(expression, (ForTuple, ForObject, TemplateFor)):
        return (expression.collection, *_repeated(expression))
    if isinstance(expression, Template):
        return expression.parts
    if isinstance(expression, (TupleCons, Call)):
        return expression.items if isinstance(expression, TupleCons) else expression.arguments
    if isinstance(expression, ObjectCons):
        return _keys_and_values(expression)
    if isinstance(expression, (Conditional, TemplateIf)):
        return _branches(expression)
    return _operands(expression)


def _keys_and_values(expression: ObjectCons) -> tuple[Expression, ...]:
    parts: list[Expression] = []
    for key, value in expression.items:
        if not key.bare and not key.is_ambiguous:
            parts.append(key.expression)
        parts.append(value)
    return tuple(parts)


def _branches(expression: Conditional | TemplateIf) -> tuple[Expression, ...]:
    if isinstance(expression, Conditional):
        return (expression.condition, expression.then, expression.otherwise)
    return (expression.condition, *expression.then, *expression.otherwise)


def _operands(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case TemplateWrap(wrapped=inner) | Parentheses(inner=inner) | Unary(operand=inner):
            return (inner,)
        case RelativeTraversal(source=source):
            return (source,)
        case Index(collection=collection, key=key):
            return (collection, key)
        case Splat(source=source, each=each):
            return (source, each)
        case Binary(left=left, right=right):
            return (left, right)
        case _:
            return ()


# --- bodies ------------------------------------------------------------------------------------


def _in_body(body: Body, bound: _Names) -> Iterator[Traversal]:
    items: list[Attribute | Block] = [*body.attributes, *body.blocks]
    items.sort(key=lambda item: item.span.start.byte)
    for item in items:
        if isinstance(item, Attribute):
            yield from _free(item.expression, bound)
        elif isinstance(item.body, JsonBody):
            for each in item.body.objects:
                yield from _in_json(each, bound)
        elif item.type == "dynamic" and item.labels:
            yield from _in_dynamic(item.body, item.labels[0].value, bound)
        else:
            yield from _in_body(item.body, bound)


def _in_dynamic(body: Body, label: str, bound: _Names) -> Iterator[Traversal]:
    """`for_each` does not see the iterator; `labels` and `content` do; `iterator` is its name."""
    iterator = label
    for attribute in body.attributes:
        if attribute.name == "iterator":
            named = as_traversal(attribute.expression)
            iterator = named.root.name if named else label
    inner = bound | {iterator}
    for attribute in body.attributes:
        if attribute.name != "iterator":
            yield from _free(attribute.expression, bound if attribute.name == "for_each" else inner)
    for block in body.blocks:
        if isinstance(block.body, Body):
            yield from _in_body(block.body, inner)


def _in_json(value: JsonValue, bound: _Names) -> Iterator[Traversal]:
    if isinstance(value, JsonObject):
        for each in value.properties:
            if each.name == "dynamic" and isinstance(each.value, (JsonObject, JsonArray)):
                yield from _in_json_dynamic(each.value, bound)
                continue
            if "{" in each.name:
                yield from _in_json(JsonScalar(each.name, each.name_span), bound)
            yield from _in_json(each.value, bound)
    elif isinstance(value, JsonArray):
        for item in value.items:
            yield from _in_json(item, bound)
    elif isinstance(value.value, str) and "{" in value.value:
        expression, _ = expression_of(value)
        yield from _free(expression, bound)


def _in_json_dynamic(value: JsonValue, bound: _Names) -> Iterator[Traversal]:
    """`"dynamic": {"type": {"for_each": ..., "content": ...}}`, each level possibly an array."""
    for each in _properties(value):
        for generator in _objects(each.value):
            iterator = each.name
            for part in generator.properties:
                if part.name == "iterator":
                    name = getattr(part.value, "value", None)
                    iterator = name if isinstance(name, str) else iterator
            inner = bound | {iterator}
            for part in generator.properties:
                if part.name != "iterator":
                    yield from _in_json(part.value, bound if part.name == "for_each" else inner)


def _objects(value: JsonValue) -> tuple[JsonObject, ...]:
    if isinstance(value, JsonObject):
        return (value,)
    items = value.items if isinstance(value, JsonArray) else ()
    return tuple(item for item in items if isinstance(item, JsonObject))


def _properties(value: JsonValue) -> tuple[JsonProperty, ...]:
    properties: list[JsonProperty] = []
    for holder in _objects(value):
        properties += holder.properties
    return tuple(properties)
