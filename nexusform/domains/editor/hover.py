"""What is said of the word under the cursor, in Markdown."""

from __future__ import annotations

from nexusform.domains.editor import schemas
from nexusform.domains.editor.landing import Landing, pool_of
from nexusform.domains.editor.module_text import ModuleText, Naming, Symbol
from nexusform.language.syntax.nodes import Attribute, Block, Body, StringLiteral
from nexusform.resource_types.registry import registries


def hover_text(module: ModuleText, landing: Landing, path: str, at: int) -> str:
    """What is known of what stands at a byte of a file; "" when that is nothing."""
    naming = module.naming_at(path, at)
    if naming is not None:
        return _of_symbol(module, landing, naming)
    attribute = module.attribute_at(path, at)
    blocks = module.blocks_at(path, at)
    if attribute is not None:
        return _of_attribute(module, blocks, attribute, at)
    if blocks and blocks[-1].header_span.start.byte <= at <= blocks[-1].header_span.end.byte:
        return _of_block(landing, blocks)
    return ""


def _of_symbol(module: ModuleText, landing: Landing, naming: Naming) -> str:
    """What is known of a declared name: its type, and where its VMs land."""
    symbol = naming.symbol
    block = module.block_of(symbol)
    parts = [f"**`{symbol.reference}`**"]
    if block is None:
        parts.append("Not declared in this module.")
    elif symbol.kind in ("resource", "data"):
        parts += [_type_text(symbol), *_landed(landing, symbol.reference)]
    else:
        parts += _written(block, ("description", "type", "source"), module)
    return "\n\n".join(part for part in parts if part)


def _type_text(symbol: Symbol) -> str:
    known = registries().schemas["managed" if symbol.kind == "resource" else "data"]
    schema = known.get(symbol.type)
    return schemas.prose(schema.description) if schema is not None else ""


def _landed(landing: Landing, address: str) -> list[str]:
    """Where all that a block stands for lands."""
    texts = [text for (block, _), text in landing.texts.items() if block == address]
    hint = landing.hints.get((address, ""))
    return [*texts, *([f"lands on {hint} (predicted)"] if hint else [])]


def _written(block: Block, names: tuple[str, ...], module: ModuleText) -> list[str]:
    """What a block says of itself, as it is written."""
    if not isinstance(block.body, Body):
        return []
    text = module.files[block.span.filename].text.encode()
    return [
        f"`{text[each.span.start.byte : each.span.end.byte].decode()}`"
        for each in block.body.attributes
        if each.name in names
    ]


def _of_attribute(module: ModuleText, blocks: list[Block], attribute: Attribute, at: int) -> str:
    """What is known of an argument, or of the choice that its value is."""
    schema = schemas.schema_at(blocks)
    declared = schema.attributes.get(attribute.name) if schema is not None else None
    expression = attribute.expression
    if isinstance(expression, StringLiteral) and expression.span.start.byte <= at <= expression.span.end.byte:
        meaning = {
            choice.value: choice.meaning for choice in schemas.choices(attribute.name, declared, module)
        }
        if meaning.get(expression.value):
            return f"**`{expression.value}`** {meaning[expression.value]}"
    if declared is not None:
        return schemas.attribute_text(attribute.name, declared)
    return schemas.META_ARGUMENTS.get(attribute.name, "") if len(blocks) == 1 else ""


def _of_block(landing: Landing, blocks: list[Block]) -> str:
    """What is known of a block, and where the VMs of a pool land."""
    block = blocks[-1]
    if len(blocks) == 1:
        return schemas.TOP_LEVEL.get(block.type, "")
    outer = blocks[0]
    if len(outer.labels) == 2:
        text = landing.texts.get((f"{outer.labels[0].value}.{outer.labels[1].value}", pool_of(block)))
        if text:
            return text
    schema = schemas.schema_at(blocks[:-1])
    nested = schema.blocks.get(block.type) if schema is not None else None
    return (
        schemas.block_text(block.type, nested)
        if nested is not None
        else schemas.META_BLOCKS.get(block.type, "")
    )
