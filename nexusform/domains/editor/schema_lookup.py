"""Schemas and allowed values at a position of a configuration."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from nexusform.domains.editor.module_files import ModuleText
from nexusform.language.syntax.syntax_nodes import Block
from nexusform.resource_types.registry import build_registries
from nexusform.resources.address import MODES
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST, compute_size_key
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, NestedBlock, Nesting
from nexusform.schemas.value_types import describe_type

# Meta-arguments and blocks of every resource, with descriptions.
META_ARGUMENTS: Final[Mapping[str, str]] = {
    "count": "Number of instances; `count.index` is the index.",
    "for_each": "A map or set of strings; one instance per element, with `each.key` and `each.value`.",
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
    """Return the schemas of resources ("resource") or data sources ("data") by type; empty for other blocks."""
    return build_registries().schemas[MODES[block_type]] if block_type in MODES else {}


def find_nested_block_schema(blocks: Sequence[Block]) -> BlockSchema:
    """Return the schema of the innermost block, the last of `blocks`, or UNKNOWN_SCHEMA. The first is a resource."""
    if not blocks or not blocks[0].labels:  # no resource, or one without its type yet
        return UNKNOWN_SCHEMA
    schema = get_schemas(blocks[0].type).get(blocks[0].labels[0].value, UNKNOWN_SCHEMA)
    for block in blocks[1:]:
        block_type = block.labels[0].value if block.type == "dynamic" and block.labels else block.type
        if block_type != "content":  # part of a dynamic block, so its schema is already found
            schema = schema.blocks.get(block_type, _UNKNOWN_BLOCK).schema
    return schema


def describe_attribute(name: str, attribute: AttributeSchema) -> str:
    """Describe an argument in Markdown: its type, whether it is required, its description and choices."""
    kind = "required" if attribute.required else "optional" if attribute.optional else "computed"
    lines = [f"**`{name}`** {describe_type(attribute.type)}, {kind}", "", escape_description(attribute.description)]
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
    """Escape a description for Markdown: placeholders such as <rack> are not HTML, except in code."""
    parts = text.split("`")
    parts[::2] = [part.replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)


class Choice(Struct, frozen=True):
    """Value of an argument with its meaning."""

    value: str
    meaning: str = ""


def list_argument_choices(name: str, attribute: AttributeSchema | None, module: ModuleText) -> Iterator[Choice]:
    """Yield the known values of an argument: names of SKUs or its choices, often none."""
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
        yield Choice(sku.name, f"{sku.vcpus} vCPUs ({sku.host_vcpus} of the host), {sku.memory_gib} GiB, {cells}")


def list_settable(schema: BlockSchema) -> Iterable[tuple[str, AttributeSchema]]:
    """Return the arguments a user can set."""
    return ((name, attribute) for name, attribute in schema.attributes.items() if attribute.is_configurable)
