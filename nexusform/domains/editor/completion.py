"""What may stand next: types, arguments, blocks, values and references."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct

from nexusform.domains.editor import schemas
from nexusform.domains.editor.module_text import ModuleText, Symbol
from nexusform.language.syntax.nodes import Block, Body
from nexusform.resource_types.registry import registries
from nexusform.schema import Attribute, BlockSchema, Nesting
from nexusform.value_types import friendly_name


class Suggestion(Struct, frozen=True):
    """One proposal: `label` is shown, `insert` is what is written (with `$1` where the cursor goes on);
    `typed` bytes before the cursor are replaced.
    """

    label: str
    kind: str  # type, argument, block, value, reference, function
    insert: str
    typed: int
    detail: str = ""
    text: str = ""


_LABEL: Final = re.compile(r'^\s*(resource|data)\s+"(\w*)$')
_NAME: Final = re.compile(r"^\s*([\w-]*)$")
_QUOTED: Final = re.compile(r'"([^"$%{}]*)$')
_REFERENCE: Final = re.compile(r"[\w.-]*$")
_ASSIGNED: Final = re.compile(r"^\s*([\w-]+)\s*=")


def completions(module: ModuleText, path: str, at: int) -> list[Suggestion]:
    """What may stand at a byte of a file, given what is typed before it."""
    text = module.files[path].text.encode()
    before = text[text.rfind(b"\n", 0, at) + 1 : at].decode(errors="replace")
    blocks = module.blocks_at(path, at)
    label = _LABEL.match(before)
    if label is not None:
        return list(_types(label[1], label[2]))
    name = _NAME.match(before)
    argument = _argument(module, path, at, before)
    if name is not None and argument is None:
        proposals = _in_block(blocks, name[1]) if blocks else _at_top(name[1])
        return list(proposals)
    if argument is None:
        return []
    schema = schemas.schema_at(blocks)
    attribute = schema.attributes.get(argument) if schema is not None else None
    quoted = _QUOTED.search(before)
    if quoted is not None and before.count('"') % 2:
        return list(_values(argument, attribute, module, quoted[1]))
    typed = _REFERENCE.search(before)
    return list(_references(module, attribute, typed[0] if typed is not None else ""))


def _argument(module: ModuleText, path: str, at: int, before: str) -> str | None:
    """The argument whose value is being typed: on this line, or in brackets that were opened above."""
    assigned = _ASSIGNED.match(before)
    if assigned is not None:
        return assigned[1]
    around = module.attribute_at(path, at)
    return around.name if around is not None and around.expression.span.start.byte < at else None


def _types(keyword: str, typed: str) -> Iterator[Suggestion]:
    known = registries().schemas["managed" if keyword == "resource" else "data"]
    for name in known:
        text = known[name].description
        yield Suggestion(name, "type", name, len(typed.encode()), text=text)


def _at_top(typed: str) -> Iterator[Suggestion]:
    for name, text in schemas.TOP_LEVEL.items():
        labels = {"resource": ' "$1" "$2"', "data": ' "$1" "$2"'}.get(name, "")
        if name in ("variable", "output", "module", "provider", "check"):
            labels = ' "$1"'
        yield Suggestion(name, "block", f"{name}{labels} {{\n  $0\n}}", len(typed.encode()), text=text)


def _in_block(blocks: list[Block], typed: str) -> Iterator[Suggestion]:
    """Arguments and blocks that may be written in a block."""
    schema = schemas.schema_at(blocks)
    if schema is None:
        return
    body = blocks[-1].body
    written = {each.name for each in body.attributes} if isinstance(body, Body) else set()
    length = len(typed.encode())
    yield from _arguments(schema, written, length)
    for name, nested in schema.blocks.items():
        label = ' "$1"' if nested.nesting is Nesting.MAP else ""
        insert = f"{name}{label} {{\n  $0\n}}"
        yield Suggestion(name, "block", insert, length, "block", schemas.block_text(name, nested))
    if len(blocks) == 1:
        yield from _of_every_resource(written, length)


def _arguments(schema: BlockSchema, written: AbstractSet[str], length: int) -> Iterator[Suggestion]:
    """Arguments that are not written yet, those that must be first."""
    for name, attribute in sorted(schemas.settable(schema), key=lambda each: not each[1].required):
        if name not in written:
            detail = friendly_name(attribute.type) + (", required" if attribute.required else "")
            text = schemas.attribute_text(name, attribute)
            yield Suggestion(name, "argument", f"{name} = ", length, detail, text)


def _of_every_resource(written: AbstractSet[str], length: int) -> Iterator[Suggestion]:
    for name, text in schemas.META_ARGUMENTS.items():
        if name not in written:
            yield Suggestion(name, "argument", f"{name} = ", length, "every resource", text)
    insert = "lifecycle {\n  $0\n}"
    yield Suggestion("lifecycle", "block", insert, length, text=schemas.META_BLOCKS["lifecycle"])


def _values(name: str, attribute: Attribute | None, module: ModuleText, typed: str) -> Iterator[Suggestion]:
    for choice in schemas.choices(name, attribute, module):
        yield Suggestion(choice.value, "value", choice.value, len(typed.encode()), choice.meaning)


# --- references ----------------------------------------------------------------------------------


def _references(module: ModuleText, attribute: Attribute | None, typed: str) -> Iterator[Suggestion]:
    """What an expression may name, given the part of a reference that is typed: what the argument refers to
    comes first.
    """
    length = len(typed.encode())
    head, dot, _ = typed.rpartition(".")
    if dot:
        yield from (
            Suggestion(name, "reference", f"{head}.{name}", length, detail)
            for name, detail in _below(module, head)
        )
        return
    referred_types = (
        attribute.refers_to.types if attribute is not None and attribute.refers_to is not None else ()
    )
    symbols = sorted(_referable(module), key=lambda symbol: symbol.type not in referred_types)
    for symbol in symbols:
        insert = (
            f"{symbol.reference}.id"
            if symbol.type in referred_types and symbol.kind == "resource"
            else symbol.reference
        )
        yield Suggestion(insert, "reference", insert, length, symbol.kind)


def _referable(module: ModuleText) -> Iterable[Symbol]:
    kinds = ("variable", "local", "module", "resource", "data")
    return [symbol for symbol in module.symbols() if symbol.kind in kinds]


def _below(module: ModuleText, head: str) -> Iterator[tuple[str, str]]:
    """What may follow `head.`: names of a kind or a type, or the attributes of a resource."""
    for symbol in _referable(module):
        parent, _, name = symbol.reference.rpartition(".")
        if parent == head:
            yield name, symbol.kind
        elif symbol.reference == head:
            yield from _attributes(symbol)


def _attributes(symbol: Symbol) -> Iterator[tuple[str, str]]:
    """The attributes of a resource or data block, each with its type."""
    modes = {"resource": "managed", "data": "data"}
    if symbol.kind not in modes:
        return
    known = registries().schemas["managed" if symbol.kind == "resource" else "data"]
    schema: BlockSchema | None = known.get(symbol.type)
    for name, attribute in schema.attributes.items() if schema is not None else ():
        yield name, friendly_name(attribute.type)
