"""Changing one literal value in the text of a configuration, everything around it left as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.address import Address
from nexusform.configuration.declared.configuration import Configuration, Module, ResourceBlock
from nexusform.language.syntax import nodes as syntax
from nexusform.source import SourceFile, Span


class TextEdit(Struct, frozen=True):
    """What stands at `span` (bytes of a file as UTF-8) and what is to stand there."""

    span: Span
    before: str
    after: str


def literal_edit(
    configuration: Configuration, address: Address, path: Sequence[str | int], value: Any
) -> TextEdit | None:
    """The edit that gives an argument of an instance another value; `value` is plain data.

    None where that would change more than this one (a block of several instances, a module called more than
    once) or is not for us to write: the argument is no literal, is not written at all, or stands in JSON.
    """
    block = _block(configuration.root, address)
    attribute = _attribute(block.body, path) if block is not None else None
    if attribute is None or not is_literal(attribute.expression):
        return None
    span = attribute.expression.span
    text = configuration.files[span.filename].text.encode()
    before = text[span.start.byte : span.end.byte].decode()
    return TextEdit(span, before, _written(value))


def edited(files: Mapping[str, SourceFile], edits: Sequence[TextEdit]) -> dict[str, str]:
    """The new texts of the files that the edits change, by name."""
    texts: dict[str, bytes] = {}
    for edit in sorted(edits, key=lambda edit: edit.span.start.byte, reverse=True):
        name, span = edit.span.filename, edit.span
        text = texts.get(name, files[name].text.encode())
        texts[name] = text[: span.start.byte] + edit.after.encode() + text[span.end.byte :]
    return {name: text.decode() for name, text in texts.items()}


def is_literal(expression: syntax.Expression) -> bool:
    """Whether an expression is a literal value: a number, a text without interpolation, a list of these."""
    if isinstance(expression, syntax.TupleCons):
        return all(is_literal(item) for item in expression.items)
    if isinstance(expression, syntax.Unary):
        return isinstance(expression.operand, syntax.Literal)
    if isinstance(expression, syntax.Template):
        return all(isinstance(part, syntax.StringLiteral) for part in expression.parts)
    return isinstance(expression, syntax.Literal | syntax.StringLiteral)


def _block(root: Module, address: Address) -> ResourceBlock | None:
    """The block of an instance, if it and the modules around it stand for a single one."""
    module = root
    for step in address.module:
        call = module.calls.get(step.name)
        if call is None or call.count is not None or call.for_each is not None:
            return None
        if sum(other.module.directory == call.module.directory for other in module.calls.values()) > 1:
            return None
        module = call.module
    block = module.resources.get((address.mode, address.type, address.name))
    repeated = block is not None and (block.count is not None or block.for_each is not None)
    return None if repeated else block


def _attribute(body: syntax.Body | syntax.JsonBody, path: Sequence[str | int]) -> syntax.Attribute | None:
    """The argument that a path leads to: through blocks by type, then by label or number if there are any."""
    if isinstance(body, syntax.JsonBody) or not path:
        return None
    name, below = path[0], path[1:]
    if not below:
        return next((each for each in body.attributes if each.name == name), None)
    blocks = [block for block in body.blocks if block.type == name]
    block, below = _nested(blocks, below)
    return _attribute(block.body, below) if block is not None else None


def _nested(
    blocks: Sequence[syntax.Block], path: Sequence[str | int]
) -> tuple[syntax.Block | None, Sequence[str | int]]:
    """Which of the blocks of a type a path goes on in, and how."""
    step = path[0]
    if isinstance(step, int):
        return (blocks[step] if step < len(blocks) else None), path[1:]
    labelled = [block for block in blocks if block.labels and block.labels[0].value == step]
    if labelled:
        return labelled[0], path[1:]
    return (blocks[0] if len(blocks) == 1 and not blocks[0].labels else None), path


_ESCAPES: Final = str.maketrans({"\u2028": "\\u2028", "\u2029": "\\u2029"})


def _written(value: Any) -> str:
    """Plain data as HCL: JSON's literals are HCL's, but for the marks of templates."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(_written(item) for item in value)}]"
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False).translate(_ESCAPES)
        return text.replace("${", "$${").replace("%{", "%%{")
    return json.dumps(value)
