"""Hover texts for the word under the cursor, in Markdown."""

from nexusform.domains.editor import schema_lookup
from nexusform.domains.editor.module_files import ModuleText, Occurrence, get_native_body, is_within
from nexusform.domains.editor.placement_preview import PlacementPreview, get_pool_name
from nexusform.language.syntax.syntax_nodes import Block, StringLiteral


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
    return "\n\n".join(filter(None, parts))


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
