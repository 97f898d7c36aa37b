"""Override files: arguments replace arguments, nested blocks replace all blocks of their type."""

from collections.abc import Sequence

from msgspec.structs import replace

from nexusform.configuration.body_preparation import build_body_schema
from nexusform.configuration.declarations.configuration import AnyBody
from nexusform.configuration.module_blocks import MODULE_SCHEMA, PROVIDER_SCHEMA
from nexusform.configuration.resource_blocks import (
    LIFECYCLE_SCHEMAS,
    META_SCHEMA,
    BlockLocation,
    KnownTypes,
    remove_decoded_parts,
)
from nexusform.configuration.static_arguments import evaluate_text
from nexusform.configuration.value_blocks import OUTPUT_SCHEMA, VARIABLE_SCHEMA
from nexusform.diagnostics.diagnostic import Diagnostic, build_error
from nexusform.language.body_decoding import BodySchema, decode_attributes, decode_body
from nexusform.language.syntax.syntax_nodes import Block, Body, JsonBody, JsonObject
from nexusform.resources.address import MODES

_LocatedBlock = tuple[Block, BlockLocation]
_Key = tuple[str, ...]

_DEPENDS_ON = BodySchema(attributes={"depends_on": False})
# Blocks without dynamic and lifecycle blocks.
_SIMPLE_TYPES = ("variable", "output", "provider")
# Nested block with arguments that are merged one by one instead.
_MERGED_BLOCK = "lifecycle"
_CONDITIONS = ("validation", "precondition", "postcondition")
_MISSING = {
    "variable": ("missing-base-variable-declaration-to-override", "variable", "declared"),
    "output": ("missing-base-output-definition-to-override", "output", "defined"),
    "module": ("missing-module-call-to-override", "module call", "defined"),
    "resource": ("missing-resource-to-override", "resource block", "defined"),
    "data": ("missing-data-resource-to-override", "data block", "defined"),
    "provider": (
        "missing-base-provider-configuration-for-override",
        "provider configuration",
        "defined",
    ),
}
_FIXED_SCHEMAS = {"variable": VARIABLE_SCHEMA, "output": OUTPUT_SCHEMA}
_REJECTED_BLOCKS = {
    "moved": "Records of moved objects can appear only in normal files, not in override files.",
    "removed": "Records of removed objects can appear only in normal files, not in override files.",
    "import": "Import blocks can appear only in normal files, not in override files.",
    "check": "Check blocks can appear only in normal files, not in override files.",
}


def apply_overrides(
    base_blocks: Sequence[_LocatedBlock],
    override_blocks: Sequence[Block],
    known_types: KnownTypes,
    problems: list[Diagnostic],
) -> tuple[list[_LocatedBlock], list[Block]]:
    """Apply the override files to the ordinary blocks.

    Return the blocks, and the `locals` blocks of those files. The `locals` blocks are merged by
    name during decoding.
    """
    blocks = list(base_blocks)
    locals_blocks: list[Block] = []
    # In `blocks`, of the first block with a key.
    indices: dict[_Key, int] = {}
    for index, (block, _) in enumerate(blocks):
        indices.setdefault(_build_block_key(block), index)
    for block in override_blocks:
        if block.type == "locals":
            locals_blocks.append(block)
        elif block.type in _REJECTED_BLOCKS:
            detail = _REJECTED_BLOCKS[block.type]
            headline = f"Cannot override '{block.type}' blocks"
            problems.append(
                build_error(
                    "unsupported-block-override", detail, block.header_span, headline=headline
                )
            )
        elif block.type != "nexusform":
            # Settings are merged when they are decoded.
            base_index = indices.get(_build_block_key(block))
            # There is no block to override.
            if base_index is None:
                diagnostic_id, noun, verb = _MISSING[block.type]
                labels = " ".join(f'"{label.value}"' for label in block.labels)
                detail = (
                    f"There is no {noun} {labels}. An override file can only override a {noun} "
                    f"that was already {verb} "
                    "in a primary configuration file."
                )
                problems.append(build_error(diagnostic_id, detail, block.header_span))
                continue
            base, location = blocks[base_index]
            body_schema = _build_merged_schema(base, block, known_types)
            blocks[base_index] = (merge_block(base, block, body_schema, problems), location)
    return blocks, locals_blocks


def _build_block_key(block: Block) -> _Key:
    """Return the type and labels of a block, and a provider's alias.

    A block and its override have equal keys.
    """
    key = (block.type, *(label.value for label in block.labels))
    if block.type != "provider":
        return key
    parts, _ = decode_body(block.body, PROVIDER_SCHEMA, partial=True)
    # Problems are reported when decoded.
    return (*key, evaluate_text(parts.attributes.get("alias"), problems=[]))


def _build_merged_schema(base: Block, override: Block, known_types: KnownTypes) -> BodySchema:
    """Build the schema of the merged block, needed if one of the two is in JSON.

    Modules, providers and blocks of unknown type allow all arguments of both blocks, but no nested
    blocks except `lifecycle`.
    """
    if base.type in _FIXED_SCHEMAS:
        return _FIXED_SCHEMAS[base.type]
    if base.type in MODES:
        schemas = known_types.get_types(MODES[base.type]) or {}
        # Schema of the resource type.
        schema = schemas.get(base.labels[0].value)
        if schema is not None:
            body_schema = build_body_schema(schema)
            return BodySchema(
                attributes={**META_SCHEMA.attributes, **body_schema.attributes},
                blocks={**META_SCHEMA.blocks, **body_schema.blocks},
            )
    meta_schema = META_SCHEMA if base.type in MODES else MODULE_SCHEMA
    argument_names = [
        *decode_attributes(base.body)[0],
        *decode_attributes(override.body)[0],
    ]  # [1]: problems
    names = [
        *meta_schema.attributes,
        *(name for name in argument_names if name not in meta_schema.blocks),
    ]
    return BodySchema(attributes=dict.fromkeys(names, False), blocks=meta_schema.blocks)


def merge_block(
    base: Block, override: Block, body_schema: BodySchema, problems: list[Diagnostic]
) -> Block:
    """Merge the override into the base block, and keep the position of the base.

    A `depends_on` is an error. `body_schema` is the schema of the block: it distinguishes arguments
    from blocks if one of the two files is JSON and the other is not.
    """
    parts, _ = decode_body(override.body, _DEPENDS_ON, partial=True)
    rejected = parts.attributes.get("depends_on")
    if rejected is not None:
        detail = "The depends_on argument may not be overridden."
        problems.append(build_error("unsupported-override", detail, rejected.name_span))
    new_body = remove_decoded_parts(override.body, _DEPENDS_ON)
    if (
        base.type in _SIMPLE_TYPES
        and isinstance(base.body, JsonBody)
        and isinstance(new_body, JsonBody)
    ):
        # Merge as JSON: a conversion to HCL would misread quoted types, and blocks of a provider
        # (their schema is unknown). A property replaces one of its name.
        objects = (*base.body.objects, *new_body.objects)
        properties = {item.name: item for json_object in objects for item in json_object.properties}
        json_object = JsonObject(tuple(properties.values()), base.body.span)
        return replace(base, body=JsonBody((json_object,), base.body.span))
    return replace(base, body=_merge_bodies(base.body, new_body, body_schema, problems))


def _convert_json_body(body: AnyBody, body_schema: BodySchema, problems: list[Diagnostic]) -> Body:
    """Convert a JSON body to a native one by its schema, without a check of required arguments."""
    if isinstance(body, Body):
        return body
    parts, new_problems = decode_body(
        body, BodySchema(dict.fromkeys(body_schema.attributes, False), body_schema.blocks)
    )
    problems.extend(new_problems)
    return Body(tuple(parts.attributes.values()), parts.blocks, body.span, parts.end_span)


def _merge_bodies(
    base: AnyBody, override: AnyBody, body_schema: BodySchema, problems: list[Diagnostic]
) -> Body:
    """Replace single arguments of a body, and all blocks of a type, by those of its override.

    Merge `lifecycle`. A dynamic block counts as a block of the type that it generates: an override
    replaces it, or is replaced by it.
    """
    base = _convert_json_body(base, body_schema, problems)
    override = _convert_json_body(override, body_schema, problems)
    attributes = {
        attribute.name: attribute for attribute in (*base.attributes, *override.attributes)
    }
    replaced_types = set(map(_get_generated_type, override.blocks))
    blocks = [block for block in base.blocks if _get_generated_type(block) not in replaced_types]
    for block in override.blocks:
        if block.type in _CONDITIONS:
            detail = (
                f"Override files cannot have {block.type} blocks: they would remove those of the "
                "original block."
            )
            problems.append(build_error("condition-in-override-file", detail, block.header_span))
        # `lifecycle`: its arguments replace those of the original one by one.
        if block.type == _MERGED_BLOCK:
            empty = replace(block, body=Body((), (), block.body.span, block.body.span))
            # Or merge into an empty one.
            original = next((b for b in base.blocks if b.type == _MERGED_BLOCK), empty)
            body = _merge_bodies(original.body, block.body, LIFECYCLE_SCHEMAS["managed"], problems)
            blocks.append(replace(original, body=body))
        else:
            blocks.append(block)
    return Body(tuple(attributes.values()), tuple(blocks), base.span, base.end_span)


def _get_generated_type(block: Block) -> str:
    """Return the type of the blocks generated by a block: for a dynamic block its label."""
    return block.labels[0].value if block.type == "dynamic" and block.labels else block.type
