"""Edits of one literal value in the text of a configuration, without other changes."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.configuration.declarations.configuration import (
    Configuration,
    Module,
    ResourceBlock,
    get_repetition_argument,
)
from nexusform.configuration.reference_graph import list_modules
from nexusform.diagnostics.diagnostic import SourceFile, Span
from nexusform.language.syntax import syntax_nodes as syntax
from nexusform.resources.address import Address


class TextEdit(Struct, frozen=True):
    """Old and new text at `span` (bytes of a file as UTF-8)."""

    span: Span
    before: str
    after: str


def build_literal_edit(
    configuration: Configuration, address: Address, path: Sequence[str | int], value: Any
) -> TextEdit | None:
    """Build the edit that sets an argument of an instance to another value; `value` is plain data.

    Return None for an argument without a literal to replace: an expression, not set, or in JSON.
    Also return None for a block or a module with several instances, since the edit would change all
    of them, and for a downloaded module.
    """
    block = _find_block_of_single_instance(configuration.root, address)
    attribute = _find_argument_at_path(block.body, path) if block is not None else None
    if attribute is None or not is_literal_expression(attribute.expression):
        return None
    span = attribute.expression.span
    text = configuration.files[span.filename].text.encode()
    before = text[span.start.byte : span.end.byte].decode()
    return TextEdit(span, before, after=_format_hcl_literal(value))


def apply_literal_edits(
    files: Mapping[str, SourceFile], edits: Sequence[TextEdit]
) -> dict[str, str]:
    """Return the new texts of the files changed by the edits, by name."""
    texts: dict[str, bytes] = {}
    # The order from the end keeps earlier offsets valid.
    for edit in sorted(edits, key=lambda edit: edit.span.start.byte, reverse=True):
        name = edit.span.filename
        span = edit.span
        text = texts.get(name, files[name].text.encode())
        texts[name] = text[: span.start.byte] + edit.after.encode() + text[span.end.byte :]
    return {name: text.decode() for name, text in texts.items()}


def is_literal_expression(expression: syntax.Expression) -> bool:
    """Check whether an expression is a literal.

    A number, bool, null, text without interpolation, a list of these.
    """
    if isinstance(expression, syntax.TupleCons):
        return all(map(is_literal_expression, expression.items))
    if isinstance(expression, syntax.Unary):
        # A negative number.
        return isinstance(expression.operand, syntax.Literal)
    if isinstance(expression, syntax.Template):
        # Such as a heredoc.
        return all(isinstance(part, syntax.StringLiteral) for part in expression.parts)
    return isinstance(expression, syntax.Literal | syntax.StringLiteral)


def _find_block_of_single_instance(root: Module, address: Address) -> ResourceBlock | None:
    """Find the block of an instance, if it and its modules have a single instance and are local."""
    from nexusform.configuration.remote_modules.module_sources import is_local_path

    module = root
    for step in address.module:
        call = module.calls.get(step.name)
        if call is None or get_repetition_argument(call.count, call.for_each):
            # A missing module, or one with several instances.
            return None
        if not is_local_path(call.source):
            # A downloaded module must stay as the lock file names it.
            return None
        # One for each call.
        directories = [called.directory for called in list_modules(root)]
        if directories.count(call.module.directory) > 1:
            # An edit would change the files of another call, too.
            return None
        module = call.module
    block = module.resources.get((address.mode, address.type, address.name))
    return None if block is None or get_repetition_argument(block.count, block.for_each) else block


def _find_argument_at_path(
    body: syntax.Body | syntax.JsonBody, path: Sequence[str | int]
) -> syntax.Attribute | None:
    """Find the argument at a path of block types and a name.

    An example is the path "agent_pool", "core", "count". A label or number follows a block type,
    unless there is only one block of this type, without a label. Return None without such an
    argument, and for a block in JSON.
    """
    if isinstance(body, syntax.JsonBody) or not path:
        # JSON is not edited; a path needs a name.
        return None
    name = path[0]
    remaining_path = path[1:]
    if not remaining_path:
        return next((attribute for attribute in body.attributes if attribute.name == name), None)
    blocks = [block for block in body.blocks if block.type == name]
    block, remaining_path = _find_nested_block(blocks, remaining_path)
    if block is None:
        return None
    return _find_argument_at_path(block.body, remaining_path)


def _find_nested_block(
    blocks: Sequence[syntax.Block], path: Sequence[str | int]
) -> tuple[syntax.Block | None, Sequence[str | int]]:
    """Find one of the blocks of a type by the first step of a path: its number or its label.

    Return the block (None if there is none) and the remaining path. A single block without
    labels needs no step of its own: text as first step is then a name inside the block, and the
    whole path remains.
    """
    step = path[0]
    if isinstance(step, int):
        return (blocks[step] if step < len(blocks) else None), path[1:]
    for block in blocks:
        if block.labels and block.labels[0].value == step:
            return block, path[1:]
    has_single_block = len(blocks) == 1 and not blocks[0].labels
    return (blocks[0] if has_single_block else None), path


_ESCAPES: Final = str.maketrans({"\u2028": "\\u2028", "\u2029": "\\u2029"})


def _format_hcl_literal(value: Any) -> str:
    """Format plain data as HCL: JSON's literals are valid, except for the marks of templates."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_format_hcl_literal, value))}]"
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False).translate(_ESCAPES)
        return text.replace("${", "$${").replace("%{", "%%{")
    return json.dumps(value)
