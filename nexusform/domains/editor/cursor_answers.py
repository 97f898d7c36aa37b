"""Answers about a position of a file.

The answers are completion suggestions (types, arguments, blocks, values, references), and hover
texts in Markdown for the word there. Both use the schemas and allowed values at the position.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.phrases import join_texts
from nexusform.domains.editor.module_files import (
    ModuleText,
    Occurrence,
    Symbol,
    get_native_body,
    is_within,
)
from nexusform.domains.editor.placement_preview import PlacementPreview, get_pool_name
from nexusform.language.syntax.syntax_nodes import Block, StringLiteral
from nexusform.resource_types.registry import build_registries
from nexusform.resources.address import MODES
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST, compute_size_key
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, NestedBlock, Nesting
from nexusform.schemas.value_types import describe_type

# Meta-arguments and blocks of every resource, with descriptions.
META_ARGUMENTS: Final[Mapping[str, str]] = {
    "count": "Number of instances; `count.index` is the index.",
    "for_each": (
        "A map or set of strings; one instance per element, with `each.key` and `each.value`."
    ),
    "depends_on": "Dependencies in addition to references.",
    "provider": "Provider configuration other than the default.",
}
META_BLOCKS: Final[Mapping[str, str]] = {
    "lifecycle": "prevent_destroy, ignore_changes, create_before_destroy, conditions.",
    "dynamic": "Blocks of one type, one per element of a collection.",
}
TOP_LEVEL: Final[Mapping[str, str]] = {
    "resource": "A managed object.",
    "data": "A data source.",
    "variable": "An input of the module.",
    "locals": "Named expressions.",
    "output": "An output of the module.",
    "module": "A call of a module in another directory.",
    "provider": "Settings of a provider.",
    "moved": "A changed address of an object.",
    "removed": "An object to forget or destroy.",
    "import": "An existing object to import.",
    "check": "Assertions that warn.",
    "nexusform": "The backend, encryption, lint and versions.",
}


# Schema of blocks without one: unknown types, and blocks outside of resources and data sources.
UNKNOWN_SCHEMA: Final = BlockSchema({})
_UNKNOWN_BLOCK: Final = NestedBlock(UNKNOWN_SCHEMA, Nesting.SINGLE, description="")


def get_schemas(block_type: str) -> Mapping[str, BlockSchema]:
    """Return the schemas of resources ("resource") or data sources ("data") by type.

    The result is empty for other blocks.
    """
    return build_registries().schemas[MODES[block_type]] if block_type in MODES else {}


def find_nested_block_schema(blocks: Sequence[Block]) -> BlockSchema:
    """Return the schema of the innermost block, the last of `blocks`, or UNKNOWN_SCHEMA.

    The first block is at the top level, and each other one is inside the block before it. A block
    `dynamic "taint"` and the block `content` in it have the schema of `taint`.
    """
    # No resource, or one without its type yet.
    if not blocks or not blocks[0].labels:
        return UNKNOWN_SCHEMA
    resource = blocks[0]
    schema = get_schemas(resource.type).get(resource.labels[0].value, UNKNOWN_SCHEMA)
    for block in blocks[1:]:
        block_type = (
            block.labels[0].value if block.type == "dynamic" and block.labels else block.type
        )
        # The schema of a content block is already found.
        if block_type != "content":
            schema = schema.blocks.get(block_type, _UNKNOWN_BLOCK).schema
    return schema


def describe_attribute(name: str, attribute: AttributeSchema) -> str:
    """Describe an argument in Markdown.

    Its type, whether it is required, its description and choices.
    """
    kind = "required" if attribute.required else "optional" if attribute.optional else "computed"
    lines = [
        f"**`{name}`** {describe_type(attribute.type)}, {kind}",
        "",
        escape_description(attribute.description),
    ]
    if attribute.choices:
        lines.append(f"\nOne of {', '.join(f'`{choice}`' for choice in attribute.choices)}.")
    if attribute.default is not None:
        lines.append(f"\nDefault: `{attribute.default}`.")
    return "\n".join(lines)


def describe_block(name: str, nested: NestedBlock) -> str:
    """Describe a nested block in Markdown."""
    label = f' "{nested.label.upper()}"' if nested.nesting is Nesting.MAP and nested.label else ""
    return f"**`{name}{label} {{ }}`**\n\n{escape_description(nested.description)}"


def escape_description(text: str) -> str:
    """Escape a description for Markdown: placeholders such as <rack> are not HTML.

    Code in backticks is unchanged.
    """
    # Every second part is code.
    parts = text.split("`")
    parts[::2] = [part.replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)


class Choice(Struct, frozen=True):
    """Value of an argument with its meaning."""

    value: str
    meaning: str = ""


def list_argument_choices(
    name: str, attribute: AttributeSchema | None, module: ModuleText
) -> Iterator[Choice]:
    """Yield the known values of the argument `name`: names of SKUs, or the choices of its schema.

    Many arguments have none.
    """
    if name == "vm_sku_name":
        yield from list_vm_skus(module)
    elif name == "machine_sku":
        yield from map(Choice, CATALOGUES[NEWEST].machine_skus)
    elif attribute is not None:
        yield from map(Choice, attribute.choices)


def list_vm_skus(module: ModuleText) -> Iterator[Choice]:
    """Yield the VM SKUs of the module and of the catalogue, largest first."""
    for symbol in module.list_symbols():
        if symbol.kind == "resource" and symbol.type == "nexus_vm_sku":
            yield Choice(symbol.name, "declared here")
    for sku in sorted(CATALOGUES[NEWEST].vm_skus.values(), key=compute_size_key, reverse=True):
        cells = "1 cell" if sku.numa_cells == 1 else f"{sku.numa_cells} cells"
        yield Choice(
            sku.name,
            f"{sku.vcpus} vCPUs ({sku.host_vcpus} of the host), {sku.memory_gib} GiB, {cells}",
        )


class Suggestion(Struct, frozen=True):
    """Completion suggestion: `label` is displayed, `insert` is inserted (with `$1` for the cursor).

    `typed_length` bytes before the cursor are replaced.
    """

    label: str
    # One of type, argument, block, value, reference and function.
    kind: str
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
    """Return suggestions at a byte of a file.

    Types in the label of a block, names on a new line, values after `=`.
    """
    text = module.files[path].text.encode()
    line_prefix = text[text.rfind(b"\n", 0, offset) + 1 : offset].decode(errors="replace")
    blocks = module.find_blocks(path, offset)
    # The groups are the kind of block and the typed part of its type.
    label_match = _LABEL.match(line_prefix)
    if label_match is not None:
        keyword = label_match[1]
        typed_length = len(label_match[2].encode())
        return [
            Suggestion(name, "type", name, typed_length, text=schema.description)
            for name, schema in get_schemas(keyword).items()
        ]
    # Group 1 is the typed part of a name.
    name_match = _NAME.match(line_prefix)
    # The argument of the value being typed: on this line, or in open brackets above.
    assignment = _ASSIGNED.match(line_prefix)
    argument = assignment[1] if assignment is not None else None
    if argument is None:
        attribute_at_cursor = module.find_attribute(path, offset)
        if (
            attribute_at_cursor is not None
            and attribute_at_cursor.expression.span.start.byte < offset
        ):
            argument = attribute_at_cursor.name
    if name_match is not None and argument is None:
        typed_name = name_match[1]
        return list(
            _suggest_block_content(blocks, typed_name)
            if blocks
            else _suggest_top_level_blocks(typed_name)
        )
    # Neither a name nor a value is being typed.
    if argument is None:
        return []
    attribute = find_nested_block_schema(blocks).attributes.get(argument)
    quoted_match = _QUOTED.search(line_prefix)
    # The cursor is inside of quotes.
    if quoted_match is not None and line_prefix.count('"') % 2:
        typed_length = len(quoted_match[1].encode())
        return [
            Suggestion(choice.value, "value", choice.value, typed_length, choice.meaning)
            for choice in list_argument_choices(argument, attribute, module)
        ]
    reference_match = _REFERENCE.search(line_prefix)
    assert reference_match is not None, "the pattern matches an empty text, too"
    return list(_suggest_references(module, attribute, reference_match[0]))


def _suggest_top_level_blocks(typed_text: str) -> Iterator[Suggestion]:
    """Yield a suggestion for each top-level block.

    It replaces `typed_text`; `$0` is the cursor in the new block.
    """
    for name, text in TOP_LEVEL.items():
        insert = f"{name}{_LABELS.get(name, '')} {{\n  $0\n}}"
        yield Suggestion(name, "block", insert, len(typed_text.encode()), text=text)


def _suggest_block_content(blocks: list[Block], typed_text: str) -> Iterator[Suggestion]:
    """Yield suggestions for the arguments and blocks inside the last of the `blocks`.

    The `blocks` are nested, outermost first.
    """
    schema = find_nested_block_schema(blocks)
    if schema is UNKNOWN_SCHEMA:
        # No known block type has the names of `blocks`.
        return
    set_names = {attribute.name for attribute in get_native_body(blocks[-1]).attributes}
    # Number of bytes to be replaced by a suggestion.
    length = len(typed_text.encode())
    # Suggestions for arguments not set yet, required ones first.
    arguments = [
        (name, attribute)
        for name, attribute in schema.attributes.items()
        if attribute.is_configurable
    ]
    arguments.sort(key=lambda name_and_schema: not name_and_schema[1].required)
    for name, attribute in arguments:
        if name not in set_names:
            detail = describe_type(attribute.type) + (", required" if attribute.required else "")
            text = describe_attribute(name, attribute)
            yield Suggestion(name, "argument", f"{name} = ", length, detail, text)
    for name, nested in schema.blocks.items():
        label = ' "$1"' if nested.nesting is Nesting.MAP else ""
        # `$1` and `$0`: positions of the cursor.
        insert = f"{name}{label} {{\n  $0\n}}"
        yield Suggestion(name, "block", insert, length, "block", describe_block(name, nested))
    # Nested blocks have no meta-arguments.
    if len(blocks) == 1:
        for name, text in META_ARGUMENTS.items():
            if name not in set_names:
                yield Suggestion(name, "argument", f"{name} = ", length, "every resource", text)
        insert = "lifecycle {\n  $0\n}"
        yield Suggestion("lifecycle", "block", insert, length, text=META_BLOCKS["lifecycle"])


def _suggest_references(
    module: ModuleText, attribute: AttributeSchema | None, typed_text: str
) -> Iterator[Suggestion]:
    """Yield references for the text before the cursor.

    After `a.b.` these are the names inside of `a.b`. Otherwise they are all symbols of the module.
    Resources that `attribute` refers to come first: `nexus_site.lab.id`, by id or name.
    """
    length = len(typed_text.encode())
    parent, dot, _ = typed_text.rpartition(".")
    if dot:
        for name, detail in _list_names_after_prefix(module, parent):
            yield Suggestion(name, "reference", f"{parent}.{name}", length, detail)
        return
    target = attribute.refers_to if attribute is not None else None
    target_types = target.types if target is not None else ()
    for symbol in sorted(
        _list_referable_symbols(module), key=lambda symbol: symbol.type not in target_types
    ):
        insert = symbol.reference
        if target is not None and symbol.type in target.types and symbol.kind == "resource":
            # The argument takes the id or name of the resource.
            insert += f".{target.by}"
        yield Suggestion(insert, "reference", insert, length, symbol.kind)


def _list_referable_symbols(module: ModuleText) -> Iterable[Symbol]:
    kinds = ("variable", "local", "module", "resource", "data")
    return [symbol for symbol in module.list_symbols() if symbol.kind in kinds]


def _list_names_after_prefix(module: ModuleText, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield (name, description) after `prefix.`.

    A name is that of a kind (`var`) or of a type, or an attribute of a resource.
    """
    for symbol in _list_referable_symbols(module):
        symbol_parent, _, name = symbol.reference.rpartition(".")
        if symbol_parent == prefix:
            yield name, symbol.kind
        elif symbol.reference == prefix:
            schema = get_schemas(symbol.kind).get(symbol.type, UNKNOWN_SCHEMA)
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
        schema_attribute = find_nested_block_schema(blocks).attributes.get(attribute.name)
        expression = attribute.expression
        if isinstance(expression, StringLiteral) and is_within(expression.span, offset):
            choices = list_argument_choices(attribute.name, schema_attribute, module)
            meaning = {choice.value: choice.meaning for choice in choices}.get(expression.value)
            if meaning:
                return f"**`{expression.value}`** {meaning}"
        if schema_attribute is not None:
            return describe_attribute(attribute.name, schema_attribute)
        # Only top-level blocks have meta-arguments.
        return META_ARGUMENTS.get(attribute.name, "") if len(blocks) == 1 else ""
    # The type and the labels of a block.
    if blocks and is_within(blocks[-1].header_span, offset):
        return _describe_block(preview, blocks)
    return ""


def _describe_declared_symbol(
    module: ModuleText, preview: PlacementPreview, occurrence: Occurrence
) -> str:
    """Return the documentation of a resource or data source, or the type of another name.

    The documentation includes the placement of VMs.
    """
    symbol = occurrence.symbol
    block = module.find_declaration_block(symbol)
    parts = [f"**`{symbol.reference}`**"]
    if block is None:
        parts.append("Not declared in this module.")
    elif symbol.kind in ("resource", "data"):
        schema = get_schemas(symbol.kind).get(symbol.type, UNKNOWN_SCHEMA)
        parts.append(escape_description(schema.description))
        # Parts of all pools.
        parts += [
            text for (address, _), text in preview.texts.items() if address == symbol.reference
        ]
        # "": objects of no pool.
        hint = preview.hints.get((symbol.reference, ""))
        if hint:
            parts.append(f"on {hint} (predicted)")
    else:
        parts += _quote_argument_source(block, ("description", "type", "source"), module)
    return join_texts(parts, "\n\n")


def _quote_argument_source(block: Block, names: tuple[str, ...], module: ModuleText) -> list[str]:
    """Return the source texts of the configured values of these arguments, in backticks."""
    text = module.files[block.span.filename].text.encode()
    return [
        f"`{text[attribute.span.start.byte : attribute.span.end.byte].decode()}`"
        for attribute in get_native_body(block).attributes
        if attribute.name in names
    ]


def _describe_block(preview: PlacementPreview, blocks: list[Block]) -> str:
    """Return the documentation of the last of the nested `blocks`.

    For a placed pool, return the predicted placement instead. Return "" for an unknown block.
    """
    block = blocks[-1]
    # At the top level of a file.
    if len(blocks) == 1:
        return TOP_LEVEL.get(block.type, "")
    address = ".".join(label.value for label in blocks[0].labels)
    text = preview.texts.get((address, get_pool_name(block)))
    if text:
        return text
    nested = find_nested_block_schema(blocks[:-1]).blocks.get(block.type)
    if nested is not None:
        return describe_block(block.type, nested)
    # `lifecycle` and `dynamic` are in no schema.
    return META_BLOCKS.get(block.type, "")
