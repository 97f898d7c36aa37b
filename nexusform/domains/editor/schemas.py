"""What a place in a configuration takes: the schema of the block that it stands in, and values by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from nexusform.domains.editor.module_text import ModuleText
from nexusform.language.syntax.nodes import Block
from nexusform.resource_types.registry import registries
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST, by_size
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting
from nexusform.value_types import friendly_name

# Arguments and blocks that every resource takes, with what they are.
META_ARGUMENTS: Final[Mapping[str, str]] = {
    "count": "Number of instances; `count.index` is the number of each.",
    "for_each": "A map or a set of texts: an instance for each; `each.key` and `each.value` are its own.",
    "depends_on": "What must be there before, beyond what is referred to.",
    "provider": "The provider's configuration, where it is not the default one.",
}
META_BLOCKS: Final[Mapping[str, str]] = {
    "lifecycle": "prevent_destroy, ignore_changes, create_before_destroy, conditions.",
    "dynamic": "Blocks of one type, one for each element of a collection.",
}
TOP_LEVEL: Final[Mapping[str, str]] = {
    "resource": "An object that is planned and kept in state.",
    "data": "Something that is read.",
    "variable": "An input of the module.",
    "locals": "Names for expressions.",
    "output": "A value that the module gives.",
    "module": "Another directory's configuration, called with inputs.",
    "provider": "Settings of a provider.",
    "moved": "An object that has another address now.",
    "removed": "An object that is to be forgotten or destroyed.",
    "import": "An object that stands already and is to be taken over.",
    "check": "Assertions that only warn.",
    "nexusform": "The backend, encryption, lint and versions.",
}


def schema_at(blocks: Sequence[Block]) -> BlockSchema | None:
    """The schema of the innermost of these nested blocks, the outermost being a resource or data source."""
    if not blocks or blocks[0].type not in ("resource", "data") or not blocks[0].labels:
        return None
    known = registries().schemas["managed" if blocks[0].type == "resource" else "data"]
    schema = known.get(blocks[0].labels[0].value)
    kinds = [block for block in blocks[1:] if block.type != "content"]
    for block in kinds:
        nested = schema.blocks.get(_kind(block)) if schema is not None else None
        schema = nested.schema if nested is not None else None
    return schema


def _kind(block: Block) -> str:
    return block.labels[0].value if block.type == "dynamic" and block.labels else block.type


def attribute_text(name: str, attribute: Attribute) -> str:
    """An argument in Markdown: its type, whether it must be written, what it is, what it takes."""
    kind = "required" if attribute.required else "optional" if attribute.optional else "computed"
    lines = [f"**`{name}`** {friendly_name(attribute.type)}, {kind}", "", prose(attribute.description)]
    if attribute.choices:
        lines.append(f"\nOne of {', '.join(f'`{choice}`' for choice in attribute.choices)}.")
    if attribute.default is not None:
        lines.append(f"\nDefault: `{attribute.default}`.")
    return "\n".join(lines)


def block_text(name: str, nested: NestedBlock) -> str:
    """A nested block in Markdown."""
    label = f' "{nested.label.upper()}"' if nested.nesting is Nesting.MAP and nested.label else ""
    return f"**`{name}{label} {{ }}`**\n\n{prose(nested.description)}"


def prose(text: str) -> str:
    """A description in Markdown: what stands for a name (<rack>) is no element of HTML, but in code."""
    parts = text.split("`")
    parts[::2] = [part.replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)


class Choice(Struct, frozen=True):
    """A value that an argument takes, and what it stands for."""

    value: str
    meaning: str = ""


def choices(name: str, attribute: Attribute | None, module: ModuleText) -> Iterator[Choice]:
    """The texts that an argument takes, as far as there is a list of them."""
    if name == "vm_sku_name":
        yield from vm_skus(module)
    elif name == "machine_sku":
        for sku in CATALOGUES[NEWEST].machine_skus:
            yield Choice(sku)
    elif attribute is not None:
        yield from (Choice(value) for value in attribute.choices)


def vm_skus(module: ModuleText) -> Iterator[Choice]:
    """The VM SKUs of the catalogue, the largest first, and those that the module declares."""
    for symbol in module.symbols():
        if symbol.kind == "resource" and symbol.type == "nexus_vm_sku":
            yield Choice(symbol.name, "declared here")
    for sku in sorted(CATALOGUES[NEWEST].vm_skus.values(), key=by_size, reverse=True):
        cells = "1 cell" if sku.numa_cells == 1 else f"{sku.numa_cells} cells"
        yield Choice(
            sku.name, f"{sku.vcpus} vCPUs ({sku.host_vcpus} of the host), {sku.memory_gib} GiB, {cells}"
        )


def settable(schema: BlockSchema) -> Iterable[tuple[str, Attribute]]:
    """The arguments that a user can write."""
    return ((name, each) for name, each in schema.attributes.items() if each.required or each.optional)
