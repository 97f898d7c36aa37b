"""Answers about a position of a file: completion suggestions (types, arguments, blocks, values, references), and hover
texts in Markdown for the word there.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.phrases import join_texts
from nexusform.domains.editor import schema_lookup
from nexusform.domains.editor.module_files import ModuleText, Occurrence, Symbol, get_native_body, is_within
from nexusform.domains.editor.placement_preview import PlacementPreview, get_pool_name
from nexusform.language.syntax.syntax_nodes import Block, StringLiteral
from nexusform.schemas.block_schema import AttributeSchema, Nesting
from nexusform.schemas.value_types import describe_type


class Suggestion(Struct, frozen=True):
    """Completion suggestion: `label` is displayed, `insert` is inserted (with `$1` for the cursor);
    `typed_length` bytes before the cursor are replaced.
    """

    label: str
    kind: str  # type, argument, block, value, reference, function
    insert: str
    typed_length: int
    detail: str = ""
    text: str = ""


_LABEL: Final = re.compile(r'^\s*(resource|data)\s+"(\w*)$')
_NAME: Final = re.compile(r"^\s*([\w-]*)$")
_QUOTED: Final = re.compile(r'"([^"$%{}]*)$')
_REFERENCE: Final = re.compile(r"[\w.-]*$")
_ASSIGNED: Final = re.compile(r"^\s*([\w-]+)\s*=")
_TWO_LABELS: Final = ' "$1" "$2"'
_ONE_LABEL: Final = ' "$1"'
_LABELS: Final = {
    "resource": _TWO_LABELS,
    "data": _TWO_LABELS,
    **dict.fromkeys(("variable", "output", "module", "provider", "check"), _ONE_LABEL),
}


def list_suggestions(module: ModuleText, path: str, offset: int) -> list[Suggestion]:
    """Return suggestions at a byte of a file: types in the label of a block, names on a new line, values after `=`."""
    text = module.files[path].text.encode()
    line_prefix = text[text.rfind(b"\n", 0, offset) + 1 : offset].decode(errors="replace")
    blocks = module.find_blocks(path, offset)
    label = _LABEL.match(line_prefix)
    if label is not None:
        return list(_suggest_types(label[1], label[2]))  # kind of block, typed part of the type
    name = _NAME.match(line_prefix)  # [1]: its typed part
    # The argument of the value being typed: on this line, or in open brackets above.
    assignment = _ASSIGNED.match(line_prefix)
    argument = assignment[1] if assignment is not None else None
    enclosing_attribute = module.find_attribute(path, offset) if assignment is None else None
    if enclosing_attribute is not None and enclosing_attribute.expression.span.start.byte < offset:
        argument = enclosing_attribute.name
    if name is not None and argument is None:
        proposals = _suggest_block_content(blocks, name[1]) if blocks else _suggest_top_level_blocks(name[1])
        return list(proposals)
    if argument is None:  # neither a name nor a value is being typed
        return []
    attribute = schema_lookup.find_nested_block_schema(blocks).attributes.get(argument)
    quoted_match = _QUOTED.search(line_prefix)
    if quoted_match is not None and line_prefix.count('"') % 2:  # inside of quotes
        return list(_suggest_values(argument, attribute, module, quoted_match[1]))
    reference_match = _REFERENCE.search(line_prefix)
    assert reference_match is not None, "the pattern matches an empty text, too"
    return list(_suggest_references(module, attribute, reference_match[0]))


def _suggest_types(keyword: str, typed_text: str) -> Iterator[Suggestion]:
    for name, schema in schema_lookup.get_schemas(keyword).items():
        yield Suggestion(name, "type", name, len(typed_text.encode()), text=schema.description)


def _suggest_top_level_blocks(typed_text: str) -> Iterator[Suggestion]:
    for name, text in schema_lookup.TOP_LEVEL.items():
        insert = f"{name}{_LABELS.get(name, '')} {{\n  $0\n}}"
        yield Suggestion(name, "block", insert, len(typed_text.encode()), text=text)


def _suggest_block_content(blocks: list[Block], typed_text: str) -> Iterator[Suggestion]:
    """Yield suggestions for the arguments and blocks inside the last of the nested `blocks`, outermost first."""
    schema = schema_lookup.find_nested_block_schema(blocks)
    if schema is schema_lookup.UNKNOWN_SCHEMA:
        return  # no known block type has the names of `blocks`
    set_names = {attribute.name for attribute in get_native_body(blocks[-1]).attributes}
    length = len(typed_text.encode())  # bytes to be replaced by a suggestion
    # Suggestions for arguments not set yet, required ones first.
    arguments = sorted(schema_lookup.list_settable(schema), key=lambda name_and_schema: not name_and_schema[1].required)
    for name, attribute in arguments:
        if name not in set_names:
            detail = describe_type(attribute.type) + (", required" if attribute.required else "")
            text = schema_lookup.describe_attribute(name, attribute)
            yield Suggestion(name, "argument", f"{name} = ", length, detail, text)
    for name, nested in schema.blocks.items():
        label = ' "$1"' if nested.nesting is Nesting.MAP else ""
        insert = f"{name}{label} {{\n  $0\n}}"  # `$1` and `$0`: positions of the cursor
        yield Suggestion(name, "block", insert, length, "block", schema_lookup.describe_block(name, nested))
    if len(blocks) == 1:  # nested blocks have no meta-arguments
        for name, text in schema_lookup.META_ARGUMENTS.items():
            if name not in set_names:
                yield Suggestion(name, "argument", f"{name} = ", length, "every resource", text)
        insert = "lifecycle {\n  $0\n}"
        yield Suggestion("lifecycle", "block", insert, length, text=schema_lookup.META_BLOCKS["lifecycle"])


def _suggest_values(
    name: str, attribute: AttributeSchema | None, module: ModuleText, typed_text: str
) -> Iterator[Suggestion]:
    for choice in schema_lookup.list_argument_choices(name, attribute, module):
        yield Suggestion(choice.value, "value", choice.value, len(typed_text.encode()), choice.meaning)


def _suggest_references(module: ModuleText, attribute: AttributeSchema | None, typed_text: str) -> Iterator[Suggestion]:
    """Yield references: after `a.b.` the names inside `a.b`, else all blocks, those of the argument's type first."""
    length = len(typed_text.encode())
    parent, dot, _ = typed_text.rpartition(".")
    if dot:
        yield from (
            Suggestion(name, "reference", insert=f"{parent}.{name}", typed_length=length, detail=detail)
            for name, detail in _list_names_after_prefix(module, parent)
        )
        return
    referred_types = attribute.refers_to.types if attribute is not None and attribute.refers_to is not None else ()
    symbols = sorted(_list_referable_blocks(module), key=lambda symbol: symbol.type not in referred_types)
    for symbol in symbols:
        is_target = symbol.type in referred_types and symbol.kind == "resource"
        insert = f"{symbol.reference}.id" if is_target else symbol.reference
        yield Suggestion(insert, "reference", insert, typed_length=length, detail=symbol.kind)


def _list_referable_blocks(module: ModuleText) -> Iterable[Symbol]:
    kinds = ("variable", "local", "module", "resource", "data")
    return [symbol for symbol in module.list_symbols() if symbol.kind in kinds]


def _list_names_after_prefix(module: ModuleText, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield (name, description) after `prefix.`: names of a kind (`var`) or of a type, or attributes of a resource."""
    for symbol in _list_referable_blocks(module):
        symbol_parent, _, name = symbol.reference.rpartition(".")
        if symbol_parent == prefix:
            yield name, symbol.kind
        elif symbol.reference == prefix:
            schema = schema_lookup.get_schemas(symbol.kind).get(symbol.type, schema_lookup.UNKNOWN_SCHEMA)
            for attribute_name, attribute in schema.attributes.items():
                yield attribute_name, describe_type(attribute.type)


def build_hover_text(module: ModuleText, preview: PlacementPreview, path: str, offset: int) -> str:
    """Return the documentation at a byte of a file; "" if there is none."""
    occurrence = module.find_occurrence(path, offset)
    if occurrence is not None:
        return _describe_declared_symbol(module, preview, occurrence)
    attribute = module.find_attribute(path, offset)
    blocks = module.find_blocks(path, offset)
    if attribute is not None:
        # The documentation of an argument, or of its selected value.
        schema_attribute = schema_lookup.find_nested_block_schema(blocks).attributes.get(attribute.name)
        expression = attribute.expression
        if isinstance(expression, StringLiteral) and is_within(expression.span, offset):
            choices = schema_lookup.list_argument_choices(attribute.name, schema_attribute, module)
            meaning = {choice.value: choice.meaning for choice in choices}.get(expression.value)
            if meaning:
                return f"**`{expression.value}`** {meaning}"
        if schema_attribute is not None:
            return schema_lookup.describe_attribute(attribute.name, schema_attribute)
        # Only top-level blocks have meta-arguments.
        return schema_lookup.META_ARGUMENTS.get(attribute.name, "") if len(blocks) == 1 else ""
    if blocks and is_within(blocks[-1].header_span, offset):  # the type and the labels of a block
        return _describe_block(preview, blocks)
    return ""


def _describe_declared_symbol(module: ModuleText, preview: PlacementPreview, occurrence: Occurrence) -> str:
    """Return documentation and placement of VMs of a resource or data source, or the type of another name."""
    symbol = occurrence.symbol
    block = module.find_declaration_block(symbol)
    parts = [f"**`{symbol.reference}`**"]
    if block is None:
        parts.append("Not declared in this module.")
    elif symbol.kind in ("resource", "data"):
        schema = schema_lookup.get_schemas(symbol.kind).get(symbol.type, schema_lookup.UNKNOWN_SCHEMA)
        parts.append(schema_lookup.escape_description(schema.description))
        parts += [text for (address, _), text in preview.texts.items() if address == symbol.reference]  # of all pools
        hint = preview.hints.get((symbol.reference, ""))  # "": objects of no pool
        if hint:
            parts.append(f"on {hint} (predicted)")
    else:
        parts += _quote_argument_source(block, ("description", "type", "source"), module)
    return join_texts(parts, "\n\n")


def _quote_argument_source(block: Block, names: tuple[str, ...], module: ModuleText) -> list[str]:
    """Return the configured source text of these arguments."""
    text = module.files[block.span.filename].text.encode()
    return [
        f"`{text[attribute.span.start.byte : attribute.span.end.byte].decode()}`"
        for attribute in get_native_body(block).attributes
        if attribute.name in names
    ]


def _describe_block(preview: PlacementPreview, blocks: list[Block]) -> str:
    """Return the predicted placement of a pool's VMs if any, else the documentation of the last block ("" for none)."""
    block = blocks[-1]  # inside the block before it, and so on
    if len(blocks) == 1:  # at the top level of a file
        return schema_lookup.TOP_LEVEL.get(block.type, "")
    address = ".".join(label.value for label in blocks[0].labels)
    text = preview.texts.get((address, get_pool_name(block)))
    if text:
        return text
    nested = schema_lookup.find_nested_block_schema(blocks[:-1]).blocks.get(block.type)
    if nested is not None:
        return schema_lookup.describe_block(block.type, nested)
    return schema_lookup.META_BLOCKS.get(block.type, "")  # `lifecycle` and `dynamic` are in no schema
