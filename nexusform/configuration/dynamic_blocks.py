"""`dynamic` blocks: their iterations, and the names inside their content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic, build_error, has_errors, suggest_name
from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.body_decoding import BodySchema, decode_body
from nexusform.language.evaluator import Scope, evaluate_expression
from nexusform.language.for_expressions import list_key_value_pairs
from nexusform.language.syntax.syntax_nodes import (
    Attribute,
    Block,
    Body,
    Expression,
    JsonBody,
    StringLiteral,
    Traversal,
    TupleCons,
)
from nexusform.language.type_conversion import convert_value, describe_problem
from nexusform.schemas.value_types import STRING, PrimitiveType, SetType, describe_type
from nexusform.values.typed_value import Value, build_object

if TYPE_CHECKING:
    from nexusform.diagnostics.diagnostic import Span

_PARTS = BodySchema(
    attributes={"for_each": True, "iterator": False, "labels": False}, blocks={"content": ()}
)
_SUMMARY = "invalid-dynamic-for-each-value"


class DynamicBlock(Struct, frozen=True):
    """Parts of `dynamic "type" { for_each, iterator, labels, content }`.

    `lacks_label` is true if the blocks need a label, and a missing or invalid one was reported.
    """

    type: str
    for_each: Expression
    iterator: str
    label: Expression | None
    lacks_label: bool
    content: Body | JsonBody
    span: Span
    header_span: Span


class IteratorScope:
    """Scope with the iterator of a dynamic block: an object of `key` and `value`."""

    __slots__ = ("_item", "_name", "_outer")

    def __init__(self, outer: Scope, name: str, key: Value, value: Value) -> None:
        self._outer = outer
        self._name = name
        self._item = build_object({"key": key, "value": value})

    def lookup(self, traversal: Traversal) -> tuple[Value, int, Sequence[Diagnostic]]:
        """Return the value of a reference, the number of its applied steps, and problems.

        A step is for example `.key`.
        """
        if traversal.root.name == self._name:
            return self._item, 0, []
        return self._outer.lookup(traversal)

    @property
    def functions(self) -> Mapping[str, Any]:
        """Functions of the outer scope."""
        return self._outer.functions


def read_dynamic_block(
    block: Block, label_names: Mapping[str, str], problems: list[Diagnostic]
) -> DynamicBlock | None:
    """Read the parts of a `dynamic` block; None if it is unusable.

    Problems are added to `problems`. `label_names` maps the block types allowed here to the name of
    their label ("" for none).
    """
    block_type = block.labels[0].value
    if block_type not in label_names:
        detail = (
            f'Blocks of type "{block_type}" are not expected '
            f"here.{suggest_name(block_type, label_names)}"
        )
        problems.append(build_error("unsupported-block-type", detail, block.labels[0].span))
        return None
    parts, new_problems = decode_body(block.body, _PARTS)
    problems.extend(new_problems)
    content_blocks = parts.blocks
    if len(content_blocks) > 1:
        detail = "Only one nested content block is allowed for each dynamic block."
        problems.append(
            build_error("extraneous-dynamic-content-block", detail, content_blocks[1].header_span)
        )
    if not content_blocks:
        detail = (
            'A dynamic block needs a nested block of type "content" that describes each generated '
            "block."
        )
        problems.append(build_error("missing-dynamic-content-block", detail, block.header_span))
    for_each = parts.attributes.get("for_each")
    label_attribute = parts.attributes.get("labels")
    # An unknown argument may be a misspelled `labels`: do not report a missing label, too.
    is_misspelled = any(problem.id == "unsupported-argument" for problem in new_problems)
    # Expression of each generated block's label.
    label = None
    if label_attribute is not None or not is_misspelled:
        label = _decode_generated_block_label(
            label_attribute, block, label_names[block_type], problems
        )
    iterator = _decode_iterator_name(parts.attributes.get("iterator"), block_type, problems)
    if for_each is None or not content_blocks or iterator is None:
        # Each of these is reported above.
        return None
    return DynamicBlock(
        type=block_type,
        for_each=for_each.expression,
        iterator=iterator,
        label=label,
        # It needs one, but has no valid one.
        lacks_label=label is None and bool(label_names[block_type]),
        content=content_blocks[0].body,
        span=block.span,
        header_span=block.header_span,
    )


def _decode_iterator_name(
    attribute: Attribute | None, block_type: str, problems: list[Diagnostic]
) -> str | None:
    """Return the name of the iterator, by default that of the blocks.

    Report an invalid one and return None.
    """
    if attribute is None:
        return block_type
    match attribute.expression:
        case Traversal(root, ()):
            return root.name
        case StringLiteral(value) if value.isidentifier():
            # JSON has no other way to write a name.
            return value
    detail = "Dynamic iterator must be a single variable name."
    problems.append(build_error("invalid-dynamic-iterator-name", detail, attribute.expression.span))
    return None


def _decode_generated_block_label(
    attribute: Attribute | None, block: Block, label_name: str, problems: list[Diagnostic]
) -> Expression | None:
    """Return the label of the generated blocks, the only element of `labels`.

    Return None without a label, or if it is invalid. `label_name` is the name of the label, "" for
    blocks without one.
    """
    block_type = block.labels[0].value
    if attribute is None:
        if label_name:
            detail = (
                f'Blocks of type "{block_type}" have one label, its {label_name}: '
                "write labels = [...] with one element."
            )
            problems.append(
                build_error("insufficient-dynamic-block-labels", detail, block.header_span)
            )
        return None
    if not label_name:
        detail = f'Blocks of type "{block_type}" have no labels.'
        problems.append(build_error("extraneous-dynamic-block-label", detail, attribute.name_span))
        return None
    expression = attribute.expression
    labels = expression.items if isinstance(expression, TupleCons) else ()
    if len(labels) != 1:
        detail = (
            f'The "labels" argument must be a list of exactly one expression, the {label_name}: '
            "[...]."
        )
        problems.append(build_error("invalid-dynamic-block-labels", detail, expression.span))
        return None
    return labels[0]


def build_iterator_scopes(
    block: DynamicBlock, scope: Scope
) -> tuple[list[IteratorScope] | None, list[Diagnostic]]:
    """Build one scope for each block to generate, in iteration order.

    Return None if `for_each` is unknown or invalid. A scope has the iterator of the block: an
    object of the key and the value of one element.
    """
    value, problems = evaluate_expression(block.for_each, scope)
    if has_errors(problems) or not value.is_known:
        return None, problems
    reason = _explain_not_iterable(value)
    if reason:
        return None, [*problems, build_error(_SUMMARY, reason, block.for_each.span)]
    if isinstance(value.type, SetType) and not value.is_wholly_known:
        # Unknown elements may be equal, so their number is unknown.
        return None, problems
    return [
        IteratorScope(scope, block.iterator, *pair) for pair in list_key_value_pairs(value)
    ], problems


def _explain_not_iterable(value: Value) -> str:
    """Return why a value cannot be iterated; "" if it can."""
    if value.is_null:
        return "Cannot use a null value in for_each."
    if isinstance(value.type, PrimitiveType):
        kind = describe_type(value.type)
        return f"Cannot use a {kind} value in for_each. An iterable collection is required."
    if value.is_ephemeral:
        return "Cannot use an ephemeral value in for_each: the number of blocks would reveal it."
    if value.is_sensitive:
        return (
            "Cannot use a sensitive value in for_each: the number of blocks would reveal it. If "
            "the value need not be hidden, use nonsensitive(...)."
        )
    return ""


def evaluate_label(expression: Expression, scope: Scope) -> tuple[str | None, list[Diagnostic]]:
    """Evaluate the label of one generated block; None if it is unknown or invalid."""
    value, problems = evaluate_expression(expression, scope)
    if has_errors(problems) or not value.is_known:
        return None, problems
    if value.is_null:
        reason = "Cannot use a null value as a dynamic block label."
    elif value.marks:
        kind = "an ephemeral" if value.is_ephemeral else "a sensitive"
        reason = f"Cannot use {kind} value as a dynamic block label."
    else:
        try:
            return str(convert_value(value, STRING).raw), problems
        except ConversionProblem as problem:
            reason = f"Cannot use this value as a dynamic block label: {describe_problem(problem)}."
    return None, [*problems, build_error("invalid-dynamic-block-label", reason, expression.span)]
