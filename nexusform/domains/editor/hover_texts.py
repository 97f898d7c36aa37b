"""Hover texts for the word under the cursor, in Markdown."""

from __future__ import annotations

from nexusform.domains.editor import schema_lookup
from nexusform.domains.editor.module_files import ModuleText, Occurrence
from nexusform.domains.editor.placement_preview import PlacementPreview, get_pool_name
from nexusform.language.syntax.syntax_nodes import Block, Body, StringLiteral
from nexusform.resource_types.registry import build_registries


def build_hover_text(module: ModuleText, preview: PlacementPreview, path: str, offset: int) -> str:
    """Return the documentation at a byte of a file; "" if there is none."""
    occurrence = module.find_occurrence(path, offset)
    if occurrence is not None:
        return _describe_declared_symbol(module, preview, occurrence)
    attribute = module.find_attribute(path, offset)
    blocks = module.find_blocks(path, offset)
    if attribute is not None:
        # The documentation of an argument, or of its selected value.
        schema = schema_lookup.find_nested_block_schema(blocks)
        schema_attribute = schema.attributes.get(attribute.name) if schema is not None else None
        expression = attribute.expression
        if isinstance(expression, StringLiteral) and expression.span.start.byte <= offset <= expression.span.end.byte:
            meaning_by_value = {
                choice.value: choice.meaning
                for choice in schema_lookup.list_argument_choices(attribute.name, schema_attribute, module)
            }
            if meaning_by_value.get(expression.value):
                return f"**`{expression.value}`** {meaning_by_value[expression.value]}"
        if schema_attribute is not None:
            return schema_lookup.describe_attribute(attribute.name, schema_attribute)
        return schema_lookup.META_ARGUMENTS.get(attribute.name, "") if len(blocks) == 1 else ""
    if blocks and blocks[-1].header_span.start.byte <= offset <= blocks[-1].header_span.end.byte:
        return _describe_block(preview, blocks)
    return ""


def _describe_declared_symbol(module: ModuleText, preview: PlacementPreview, occurrence: Occurrence) -> str:
    """Return the type of a declared name, and the placement of its VMs."""
    symbol = occurrence.symbol
    block = module.find_declaration_block(symbol)
    parts = [f"**`{symbol.reference}`**"]
    if block is None:
        parts.append("Not declared in this module.")
    elif symbol.kind in ("resource", "data"):
        schema_by_type = build_registries().schemas["managed" if symbol.kind == "resource" else "data"]
        schema = schema_by_type.get(symbol.type)
        type_text = schema_lookup.escape_description(schema.description) if schema is not None else ""
        texts = [text for (block, _), text in preview.texts.items() if block == symbol.reference]
        hint = preview.hints.get((symbol.reference, ""))
        placements = [*texts, *([f"on {hint} (predicted)"] if hint else [])]
        parts += [type_text, *placements]
    else:
        parts += _quote_argument_source(block, ("description", "type", "source"), module)
    return "\n\n".join(part for part in parts if part)


def _quote_argument_source(block: Block, names: tuple[str, ...], module: ModuleText) -> list[str]:
    """Return the configured source text of these arguments."""
    if not isinstance(block.body, Body):
        return []
    text = module.files[block.span.filename].text.encode()
    return [
        f"`{text[attribute.span.start.byte : attribute.span.end.byte].decode()}`"
        for attribute in block.body.attributes
        if attribute.name in names
    ]


def _describe_block(preview: PlacementPreview, blocks: list[Block]) -> str:
    """Return the documentation of a block, and the placement of a pool's VMs."""
    block = blocks[-1]
    if len(blocks) == 1:
        return schema_lookup.TOP_LEVEL.get(block.type, "")
    outer_block = blocks[0]
    if len(outer_block.labels) == 2:
        text = preview.texts.get((f"{outer_block.labels[0].value}.{outer_block.labels[1].value}", get_pool_name(block)))
        if text:
            return text
    schema = schema_lookup.find_nested_block_schema(blocks[:-1])
    nested = schema.blocks.get(block.type) if schema is not None else None
    if nested is not None:
        return schema_lookup.describe_block(block.type, nested)
    return schema_lookup.META_BLOCKS.get(block.type, "")
