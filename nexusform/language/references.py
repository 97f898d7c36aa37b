"""References of an expression or a body.

Only free references count: the variables of `for` expressions and directives, and the iterators of
`dynamic` blocks, belong to the expression itself.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.language.parser import parse_expression
from nexusform.language.syntax import syntax_nodes as syntax

_Names = frozenset[str]
_NO_NAMES: _Names = frozenset()


def list_traversals(expression: syntax.Expression) -> tuple[syntax.Traversal, ...]:
    """Return the references of an expression in source order, except to names of its `for`.

    A reference `resource.T.N` is returned as `T.N`.
    """
    return tuple(iterate_traversals(expression))


def list_body_traversals(body: syntax.Body | syntax.JsonBody) -> tuple[syntax.Traversal, ...]:
    """Return the references of a body to names other than its own, in source order.

    Its own names are those of a `for` or `dynamic`. In JSON every string is parsed as a template:
    without a schema, other texts cannot be distinguished.
    """
    if isinstance(body, syntax.JsonBody):
        return tuple(
            chain.from_iterable(
                _list_in_json(json_object, _NO_NAMES) for json_object in body.objects
            )
        )
    return tuple(_list_body_references(body, _NO_NAMES))


def parse_traversal(expression: syntax.Expression) -> syntax.Traversal | None:
    """Return the expression if it is a traversal such as `a.b`, else None.

    A string, as in JSON, is parsed first.
    """
    if isinstance(expression, syntax.StringLiteral):
        parsed, _ = parse_expression(
            SourceFile(expression.span.filename, expression.value), expression.span.start
        )
        return parsed if isinstance(parsed, syntax.Traversal) else None
    return expression if isinstance(expression, syntax.Traversal) else None


def iterate_traversals(
    start: syntax.Expression, bound_names: _Names = _NO_NAMES
) -> Iterator[syntax.Traversal]:
    """List the references of an expression (such as `var.x`) in source order.

    Omit those that begin with one of the `bound_names`, or inside of a loop with one of its
    variables. A reference to a module is a GuardedTraversal where its error may have no effect.
    """
    stack: list[tuple[syntax.Expression, _Names, bool]] = [(start, bound_names, False)]
    while stack:
        expression, names, is_guarded = stack.pop()
        if isinstance(expression, syntax.Traversal):
            if expression.root.name in names:
                continue
            if is_guarded and expression.root.name == "module":
                yield GuardedTraversal(expression.root, expression.steps, expression.span)
            else:
                yield expression.remove_resource_prefix()
        elif isinstance(expression, (syntax.ForTuple, syntax.ForObject, syntax.TemplateFor)):
            inner = names | {expression.value_name, expression.key_name or expression.value_name}
            stack.extend(
                (child, inner, is_guarded) for child in reversed(_list_repeated_parts(expression))
            )
            # Evaluated once, outside of the loop.
            stack.append((expression.collection, names, is_guarded))
        else:
            guarded = _find_guarded_children(expression)
            stack.extend(
                (child, names, is_guarded or child in guarded)
                for child in reversed(list_child_expressions(expression))
            )


class GuardedTraversal(syntax.Traversal, frozen=True):
    """Reference inside of `try`, `can` or a branch of a condition: its error may have no effect."""


_GUARDS: Final = frozenset({"try", "can"})


def _find_guarded_children(expression: syntax.Expression) -> tuple[syntax.Expression, ...]:
    """Return the child expressions with errors that may have no effect."""
    if isinstance(expression, syntax.Call) and expression.name.removeprefix("core::") in _GUARDS:
        return expression.arguments
    if isinstance(expression, syntax.Conditional):
        return (expression.then, expression.otherwise)
    return ()


def _list_repeated_parts(
    expression: syntax.ForTuple | syntax.ForObject | syntax.TemplateFor,
) -> tuple[syntax.Expression, ...]:
    """Return the parts of a `for` with access to its variables, in source order."""
    if isinstance(expression, syntax.TemplateFor):
        return expression.body
    condition = () if expression.condition is None else (expression.condition,)
    if isinstance(expression, syntax.ForObject):
        return (expression.key, expression.value, *condition)
    return (expression.value, *condition)


def _list_item_expressions(
    items: Iterable[tuple[syntax.ObjectKey, syntax.Expression]],
) -> tuple[syntax.Expression, ...]:
    """Return the keys with an expression and the values of an object, in source order."""
    expressions: list[syntax.Expression] = []
    for key, value in items:
        if not (key.bare or key.is_ambiguous):
            expressions.append(key.expression)
        expressions.append(value)
    return tuple(expressions)


def list_child_expressions(expression: syntax.Expression) -> tuple[syntax.Expression, ...]:
    """Return the direct child expressions, in source order.

    A bare object key, or one like `a.b`, is text, no child.
    """
    match expression:
        case syntax.ForTuple() | syntax.ForObject() | syntax.TemplateFor():
            return (expression.collection, *_list_repeated_parts(expression))
        case syntax.Template(parts=parts) | syntax.TupleCons(items=parts):
            return parts
        case syntax.Call():
            return expression.value_arguments
        case syntax.ObjectCons(items=items):
            return _list_item_expressions(items)
        case syntax.Conditional(condition=condition, then=then, otherwise=otherwise):
            return (condition, then, otherwise)
        case syntax.TemplateIf(condition=condition, then=then_parts, otherwise=else_parts):
            return (condition, *then_parts, *else_parts)
        case (
            syntax.TemplateWrap(wrapped=first)
            | syntax.Parentheses(inner=first)
            | syntax.Unary(operand=first)
        ):
            return (first,)
        case (
            syntax.Index(collection=first, key=second)
            | syntax.Splat(source=first, element=second)
            | syntax.Binary(left=first, right=second)
        ):
            return (first, second)
        case syntax.RelativeTraversal(source=first):
            return (first,)
    # Of a literal or a traversal.
    return ()


def _list_body_references(body: syntax.Body, bound_names: _Names) -> Iterator[syntax.Traversal]:
    """List the references of a body, except those to `bound_names` (iterators), in source order."""
    items: list[syntax.Attribute | syntax.Block] = [*body.attributes, *body.blocks]
    items.sort(key=lambda item: item.span.start.byte)
    for item in items:
        if isinstance(item, syntax.Attribute):
            yield from iterate_traversals(item.expression, bound_names)
        elif isinstance(item.body, syntax.JsonBody):
            for json_object in item.body.objects:
                yield from _list_in_json(json_object, bound_names)
        elif item.type == "dynamic" and item.labels:
            yield from _list_dynamic_references(item.body, item.labels[0].value, bound_names)
        else:
            yield from _list_body_references(item.body, bound_names)


def _list_dynamic_references(
    body: syntax.Body, label: str, bound_names: _Names
) -> Iterator[syntax.Traversal]:
    """List the references of a dynamic block, except those to names that it binds.

    Bound are `bound_names` and, outside of `for_each`, its iterator. The argument `iterator` is the
    name of the iterator, by default the block's `label`.
    """
    iterator = label
    for attribute in body.attributes:
        if attribute.name == "iterator":
            traversal = parse_traversal(attribute.expression)
            iterator = traversal.root.name if traversal else label
    inner_names = bound_names | {iterator}
    for attribute in body.attributes:
        if attribute.name != "iterator":
            names = bound_names if attribute.name == "for_each" else inner_names
            yield from iterate_traversals(attribute.expression, names)
    for block in body.blocks:
        if isinstance(block.body, syntax.Body):
            yield from _list_body_references(block.body, inner_names)


def _list_in_json(value: syntax.JsonValue, bound_names: _Names) -> Iterator[syntax.Traversal]:
    """List the references of a JSON value except those to `bound_names`.

    Its texts may be templates.
    """
    from nexusform.language.json_syntax import build_expression

    if isinstance(value, syntax.JsonObject):
        for json_property in value.properties:
            part = json_property.value
            if json_property.name == "dynamic" and isinstance(
                part, (syntax.JsonObject, syntax.JsonArray)
            ):
                yield from _list_json_dynamic_references(part, bound_names)
                continue
            # The name may be a template, too.
            if "{" in json_property.name:
                yield from _list_in_json(
                    syntax.JsonScalar(json_property.name, json_property.name_span), bound_names
                )
            yield from _list_in_json(part, bound_names)
    elif isinstance(value, syntax.JsonArray):
        for item in value.items:
            yield from _list_in_json(item, bound_names)
    elif isinstance(value.value, str) and "{" in value.value:
        expression, _ = build_expression(value)
        yield from iterate_traversals(expression, bound_names)


def _list_json_dynamic_references(
    value: syntax.JsonValue, bound_names: _Names
) -> Iterator[syntax.Traversal]:
    """List the references of `"dynamic": {"type": {"for_each": ..., "content": ...}}`.

    Any level may be an array.
    """
    for type_property in chain.from_iterable(
        json_object.properties for json_object in _list_json_objects(value)
    ):
        for generator in _list_json_objects(type_property.value):
            yield from _list_json_generator_references(generator, type_property.name, bound_names)


def _list_json_generator_references(
    generator: syntax.JsonObject, block_type: str, bound_names: _Names
) -> Iterator[syntax.Traversal]:
    """List the references of `{"for_each": ..., "content": ...}`, except those to bound names.

    Bound are `bound_names` and, outside of `for_each`, its iterator. The property `iterator` is the
    name of the iterator, by default the `block_type`.
    """
    iterator = block_type
    for part in generator.properties:
        if (
            part.name == "iterator"
            and isinstance(part.value, syntax.JsonScalar)
            and isinstance(part.value.value, str)
        ):
            iterator = part.value.value
    inner_names = bound_names | {iterator}
    for part in generator.properties:
        if part.name != "iterator":
            yield from _list_in_json(
                part.value, bound_names if part.name == "for_each" else inner_names
            )


def _list_json_objects(value: syntax.JsonValue) -> tuple[syntax.JsonObject, ...]:
    """Return the value if it is an object, or the objects of an array.

    Other values are reported when decoded.
    """
    items = value.items if isinstance(value, syntax.JsonArray) else (value,)
    return tuple(item for item in items if isinstance(item, syntax.JsonObject))
