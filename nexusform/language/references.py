"""Which names an expression or a body refers to.

Only free ones: the variables of `for` expressions and directives, and the iterators of `dynamic`
blocks, are names of the expression itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from nexusform.language.json_syntax import expression_of
from nexusform.language.parser import parse_expression
from nexusform.language.syntax import nodes as syntax
from nexusform.source import SourceFile

_Names = frozenset[str]
_NONE: _Names = frozenset()


def traversals(expression: syntax.Expression) -> tuple[syntax.Traversal, ...]:
    """The free traversals of an expression, in source order, repeated ones included."""
    return tuple(_free(expression, _NONE))


def body_traversals(body: syntax.Body | syntax.JsonBody) -> tuple[syntax.Traversal, ...]:
    """The free traversals of everything in a body, in source order, without asking a schema.

    In JSON every string is taken for a template, since only a schema could tell.
    """
    if isinstance(body, syntax.JsonBody):
        free: list[syntax.Traversal] = []
        for each in body.objects:
            free.extend(_in_json(each, _NONE))
        return tuple(free)
    return tuple(_in_body(body, _NONE))


def as_traversal(expression: syntax.Expression) -> syntax.Traversal | None:
    """The traversal that an expression is, for arguments that name things (`depends_on`).

    JSON has no other way to write one than a string, so a string is read as an expression.
    """
    if isinstance(expression, syntax.StringLiteral):
        parsed, _ = parse_expression(
            SourceFile(expression.span.filename, expression.value), expression.span.start
        )
        return parsed if isinstance(parsed, syntax.Traversal) else None
    return expression if isinstance(expression, syntax.Traversal) else None


def _bound(expression: syntax.ForTuple | syntax.ForObject | syntax.TemplateFor, names: _Names) -> _Names:
    extra = {expression.value_name}
    if expression.key_name is not None:
        extra.add(expression.key_name)
    return names | extra


def _free(start: syntax.Expression, bound: _Names) -> Iterator[syntax.Traversal]:
    """Depth first in source order, with a stack of its own."""
    stack: list[tuple[syntax.Expression, _Names]] = [(start, bound)]
    while stack:
        expression, names = stack.pop()
        if isinstance(expression, syntax.Traversal):
            if expression.root.name not in names:
                yield expression
        elif isinstance(expression, (syntax.ForTuple, syntax.ForObject, syntax.TemplateFor)):
            inner = _bound(expression, names)
            stack.extend((each, inner) for each in reversed(_repeated(expression)))
            stack.append((expression.collection, names))
        else:
            stack.extend((each, names) for each in reversed(children(expression)))


def _repeated(
    expression: syntax.ForTuple | syntax.ForObject | syntax.TemplateFor,
) -> tuple[syntax.Expression, ...]:
    """The parts of a for that see its variables, in source order."""
    if isinstance(expression, syntax.TemplateFor):
        return expression.body
    condition = () if expression.condition is None else (expression.condition,)
    if isinstance(expression, syntax.ForObject):
        return (expression.key, expression.value, *condition)
    return (expression.value, *condition)


def children(expression: syntax.Expression) -> tuple[syntax.Expression, ...]:
    """The expressions directly inside another, in source order. A bare object key is not one."""
    if isinstance(expression, (syntax.ForTuple, syntax.ForObject, syntax.TemplateFor)):
        return (expression.collection, *_repeated(expression))
    if isinstance(expression, syntax.Template):
        return expression.parts
    if isinstance(expression, syntax.TupleCons):
        return expression.items
    if isinstance(expression, syntax.Call):
        return expression.arguments
    if isinstance(expression, syntax.ObjectCons):
        return _keys_and_values(expression)
    if isinstance(expression, (syntax.Conditional, syntax.TemplateIf)):
        return _branches(expression)
    return _operands(expression)


def _keys_and_values(expression: syntax.ObjectCons) -> tuple[syntax.Expression, ...]:
    parts: list[syntax.Expression] = []
    for key, value in expression.items:
        if not key.bare and not key.is_ambiguous:
            parts.append(key.expression)
        parts.append(value)
    return tuple(parts)


def _branches(expression: syntax.Conditional | syntax.TemplateIf) -> tuple[syntax.Expression, ...]:
    if isinstance(expression, syntax.Conditional):
        return (expression.condition, expression.then, expression.otherwise)
    return (expression.condition, *expression.then, *expression.otherwise)


def _operands(expression: syntax.Expression) -> tuple[syntax.Expression, ...]:
    """The parts of an expression that binds no names, in source order."""
    match expression:
        case (
            syntax.TemplateWrap(wrapped=inner) | syntax.Parentheses(inner=inner) | syntax.Unary(operand=inner)
        ):
            return (inner,)
        case syntax.RelativeTraversal(source=source):
            return (source,)
        case syntax.Index(collection=collection, key=key):
            return (collection, key)
        case syntax.Splat(source=source, each=each):
            return (source, each)
        case syntax.Binary(left=left, right=right):
            return (left, right)
        case _:
            return ()


# --- bodies ------------------------------------------------------------------------------------


def _in_body(body: syntax.Body, bound: _Names) -> Iterator[syntax.Traversal]:
    """The references of a body whose names are not bound, in source order."""
    items: list[syntax.Attribute | syntax.Block] = [*body.attributes, *body.blocks]
    items.sort(key=lambda item: item.span.start.byte)
    for item in items:
        if isinstance(item, syntax.Attribute):
            yield from _free(item.expression, bound)
        elif isinstance(item.body, syntax.JsonBody):
            for each in item.body.objects:
                yield from _in_json(each, bound)
        elif item.type == "dynamic" and item.labels:
            yield from _in_dynamic(item.body, item.labels[0].value, bound)
        else:
            yield from _in_body(item.body, bound)


def _in_dynamic(body: syntax.Body, label: str, bound: _Names) -> Iterator[syntax.Traversal]:
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
        if isinstance(block.body, syntax.Body):
            yield from _in_body(block.body, inner)


def _in_json(value: syntax.JsonValue, bound: _Names) -> Iterator[syntax.Traversal]:
    """The same of a value in JSON; texts may be templates."""
    if isinstance(value, syntax.JsonObject):
        for each in value.properties:
            if each.name == "dynamic" and isinstance(each.value, (syntax.JsonObject, syntax.JsonArray)):
                yield from _in_json_dynamic(each.value, bound)
                continue
            if "{" in each.name:
                yield from _in_json(syntax.JsonScalar(each.name, each.name_span), bound)
            yield from _in_json(each.value, bound)
    elif isinstance(value, syntax.JsonArray):
        for item in value.items:
            yield from _in_json(item, bound)
    elif isinstance(value.value, str) and "{" in value.value:
        expression, _ = expression_of(value)
        yield from _free(expression, bound)


def _in_json_dynamic(value: syntax.JsonValue, bound: _Names) -> Iterator[syntax.Traversal]:
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


def _objects(value: syntax.JsonValue) -> tuple[syntax.JsonObject, ...]:
    if isinstance(value, syntax.JsonObject):
        return (value,)
    items = value.items if isinstance(value, syntax.JsonArray) else ()
    return tuple(item for item in items if isinstance(item, syntax.JsonObject))


def _properties(value: syntax.JsonValue) -> tuple[syntax.JsonProperty, ...]:
    properties: list[syntax.JsonProperty] = []
    for holder in _objects(value):
        properties += holder.properties
    return tuple(properties)
