"""`resource` and `data` blocks: decodes meta-arguments and lifecycle.

The schema decodes the rest.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field

from nexusform.configuration.declarations.configuration import (
    AnyBody,
    Condition,
    Lifecycle,
    ResourceBlock,
    get_repetition_argument,
)
from nexusform.configuration.static_arguments import (
    check_name,
    evaluate_bool,
    find_single_block,
    get_bare_keyword,
    get_expression,
    is_constant_value,
    list_static_items,
    parse_reference,
    parse_references,
    parse_relative_path,
    unpack_result,
    unwrap_quoted_expression,
)
from nexusform.diagnostics.diagnostic import Diagnostic, Span, build_error, suggest_name
from nexusform.domain_table import explain_absent_domain
from nexusform.json_data.plain_data import PathStep
from nexusform.language.body_decoding import BodyContent, BodySchema, decode_body
from nexusform.language.syntax import syntax_nodes as syntax
from nexusform.resources.address import MODE_KEYWORDS, OTHER_MODES, ConfigAddress, Mode
from nexusform.schemas.block_schema import BlockSchema

_STACK: Final = "Stacks (Terraform 1.13) are not supported. Plan many sites with `nexusform sites`."

# Advice on unsupported words of Terraform 1.15 and OpenTofu 1.12: those of a module, of a provider
# block and of a lifecycle.
ROOT_WORDS: Final[Mapping[str, str]] = {
    "terraform": 'Write settings in a block of type "nexusform".',
    "ephemeral": (
        "Ephemeral resources (Terraform 1.10, OpenTofu 1.11) are not supported: nexusform keeps "
        "every resource in its "
        "state. Pass secrets in ephemeral variables."
    ),
    "action": (
        "Actions (Terraform 1.14) are not supported. Run the command after `nexusform apply`."
    ),
    "list": (
        "Queries (Terraform 1.14) are not supported. Import existing objects with `nexusform "
        "import -from=DIR`."
    ),
    "component": _STACK,
    "deployment": _STACK,
    "stack": _STACK,
}
PROVIDER_WORDS: Final[Mapping[str, str]] = {
    "for_each": (
        "Several providers in one block (OpenTofu 1.9) are not supported. Write one block with an "
        "alias each; or use `nexusform sites`, with one site per hub or subscription."
    )
}
LIFECYCLE_WORDS: Final[Mapping[str, str]] = {"action_trigger": ROOT_WORDS["action"]}

_PROVIDER_KEY = re.compile(r"[^\W\d][\w-]*(?:\.[^\W\d][\w-]*)?")
META_ARGUMENTS = ("count", "for_each", "depends_on", "provider")
META_SCHEMA = BodySchema(
    attributes=dict.fromkeys(META_ARGUMENTS, False),
    blocks={"lifecycle": (), "provisioner": ("type",), "connection": ()},
)
# Names besides the arguments of a type.
META_NAMES = (META_ARGUMENTS, ("lifecycle",))
_CONDITIONS = {"precondition": (), "postcondition": ()}

LIFECYCLE_SCHEMAS: Mapping[Mode, BodySchema] = {
    "managed": BodySchema(
        attributes=dict.fromkeys(
            (
                "create_before_destroy",
                "destroy",
                "enabled",
                "prevent_destroy",
                "ignore_changes",
                "replace_triggered_by",
            ),
            False,
        ),
        blocks=_CONDITIONS,
        foreign_words=LIFECYCLE_WORDS,
    ),
    "data": BodySchema(
        attributes={"enabled": False}, blocks=_CONDITIONS, foreign_words=LIFECYCLE_WORDS
    ),
}


class KnownTypes(Struct, frozen=True):
    """Known resource types and data sources, by name; None if they are not to be checked."""

    managed: Mapping[str, BlockSchema] | None = None
    data: Mapping[str, BlockSchema] | None = None

    def get_types(self, mode: Mode) -> Mapping[str, BlockSchema] | None:
        """Return the schemas of resource types ("managed") or data sources by name.

        Return None if these types are not checked.
        """
        return self.managed if mode == "managed" else self.data


class _ModeTexts(NamedTuple):
    """Words for the types of a mode, and the ids of errors about types and names."""

    type_noun: str
    type_description: str
    invalid_type: str
    invalid_type_name: str
    invalid_name: str


_MODE_TEXTS: Final[Mapping[Mode, _ModeTexts]] = {
    "managed": _ModeTexts(
        "resource type",
        "a managed resource type",
        "invalid-resource-type",
        "invalid-resource-type-name",
        "invalid-resource-name",
    ),
    "data": _ModeTexts(
        "data source",
        "a data source",
        "invalid-data-source",
        "invalid-data-source-name",
        "invalid-data-resource-name",
    ),
}


class BlockLocation(Struct, frozen=True):
    """Location of a block.

    `module` is its module's static path, `prefix` the position of the module's call, `file` the
    file's own name, `ignored_rules` the lint ids of comments by the line below them.
    """

    module: tuple[str, ...]
    prefix: tuple[tuple[str, int], ...] = ()
    file: str = ""
    ignored_rules: Mapping[int, frozenset[str]] = field(default_factory=dict)


def decode_resource_block(
    block: syntax.Block,
    mode: Mode,
    location: BlockLocation,
    known_types: KnownTypes,
    problems: list[Diagnostic],
) -> ResourceBlock | None:
    """Decode one `resource` or `data` block; None if its type or name is invalid."""
    kind, name = block.labels
    is_type_valid = check_name(kind, _MODE_TEXTS[mode].invalid_type_name, problems)
    is_name_valid = check_name(name, _MODE_TEXTS[mode].invalid_name, problems)
    if not (is_type_valid and is_name_valid):
        # Both are reported.
        return None
    _check_type(block, mode, known_types, problems)
    parts = unpack_result(decode_body(block.body, META_SCHEMA, partial=True), problems)
    for nested in parts.blocks:
        if nested.type != "lifecycle":
            detail = (
                f'Blocks of type "{nested.type}" are not expected here: nexusform has no '
                "provisioners."
            )
            problems.append(build_error("unsupported-block-type", detail, nested.type_span))
    count, for_each = read_repetition(parts.attributes, "resource", problems)
    lifecycle = _decode_lifecycle(parts, mode, problems)
    problems.extend(check_enabled_repetition(lifecycle.enabled, count, for_each))
    start = block.span.start
    rules = location.ignored_rules
    lines = range(start.line, block.span.end.line + 1)
    return ResourceBlock(
        address=ConfigAddress(location.module, mode, kind.value, name.value),
        mode=mode,
        type=kind.value,
        name=name.value,
        body=remove_decoded_parts(block.body, META_SCHEMA),
        count=count,
        for_each=for_each,
        depends_on=parse_references(parts.attributes.get("depends_on"), problems),
        provider=read_provider_key(parts.attributes.get("provider"), problems),
        lifecycle=lifecycle,
        span=block.span,
        header_span=block.header_span,
        # Of the calls, then of the block.
        position=(*location.prefix, (location.file, start.byte)),
        ignored_rules={line: rules[line] for line in lines if line in rules} if rules else {},
    )


def _check_type(
    block: syntax.Block, mode: Mode, known_types: KnownTypes, problems: list[Diagnostic]
) -> None:
    """Report an unknown type, with the nearest known one."""
    types = known_types.get_types(mode)
    label = block.labels[0]
    # None: types are not checked.
    if types is None or label.value in types:
        return
    other_mode = OTHER_MODES[mode]
    absent_hint = explain_absent_domain(label.value, "resource_types", "data_sources")
    if absent_hint:
        hint = absent_hint
    elif label.value in (known_types.get_types(other_mode) or {}):
        header = f'{MODE_KEYWORDS[other_mode]} "{label.value}" "{block.labels[1].value}"'
        hint = f" It is {_MODE_TEXTS[other_mode].type_description}: write {header}."
    elif label.value.startswith(("azapi_", "azurerm_")):
        hint = " To check a Terraform plan: nexusform predict -terraform-plan=FILE -inventory=DIR"
    elif label.value in _OTHER_TYPES:
        hint = f' Did you mean "{_OTHER_TYPES[label.value]}"?'
    else:
        hint = suggest_name(label.value, types)
    texts = _MODE_TEXTS[mode]
    detail = f'nexusform has no {texts.type_noun} "{label.value}".{hint}'
    problems.append(build_error(texts.invalid_type, detail, label.span))


# Types of other tools and short names, with the type to write.
_OTHER_TYPES: Final = {
    "nexus_cluster": "nexus_kubernetes_cluster",
    "nexus_vm": "nexus_virtual_machine",
    "nexus_machine": "nexus_bare_metal_machine",
    "nexus_pool": "nexus_agent_pool",
    "nexus_node_pool": "nexus_agent_pool",
}


def read_repetition(
    attributes: Mapping[str, syntax.Attribute], noun: str, problems: list[Diagnostic]
) -> tuple[syntax.Expression | None, syntax.Expression | None]:
    """Return `count` and `for_each`, None if not set.

    If both are set, report it and return `count` alone.
    """
    count = attributes.get("count")
    for_each = attributes.get("for_each")
    if count is not None and for_each is not None:
        detail = (
            'The "count" and "for_each" meta-arguments are mutually-exclusive, only one should be '
            f"used to be explicit about the number of {noun}s to be created."
        )
        problems.append(
            build_error("invalid-combination-of-count-and-for-each", detail, for_each.name_span)
        )
        for_each = None
    return get_expression(count), get_expression(for_each)


def read_provider_key(attribute: syntax.Attribute | None, problems: list[Diagnostic]) -> str:
    """Return the provider `name` or `name.alias`; "" if it is not set or after a diagnostic."""
    if attribute is None:
        return ""
    expression = attribute.expression
    if isinstance(expression, syntax.StringLiteral) and _PROVIDER_KEY.fullmatch(expression.value):
        # In quotes a keyword is a name, too: "null.foo".
        return expression.value
    traversal = parse_reference(expression, problems)
    if traversal is None:
        return ""  # reported
    match traversal.steps:
        case ():
            return traversal.root.name
        case (syntax.TraverseAttribute(alias),):
            return f"{traversal.root.name}.{alias}"
    detail = (
        "The provider argument requires a provider name, optionally followed by a period and then "
        "a configuration alias."
    )
    problems.append(
        build_error("invalid-provider-configuration-reference", detail, attribute.expression.span)
    )
    return ""


def _decode_lifecycle(parts: BodyContent, mode: Mode, problems: list[Diagnostic]) -> Lifecycle:
    """Decode the `lifecycle` block.

    A `prevent_destroy` with references is kept as a condition, to be evaluated.
    """
    block = find_single_block(parts.blocks, "lifecycle", problems)
    if block is None:
        return Lifecycle()
    inner = unpack_result(decode_body(block.body, LIFECYCLE_SCHEMAS[mode]), problems)
    arguments = inner.attributes
    ignore_all, ignored_paths, ignored_spans = _decode_ignore_changes(
        arguments.get("ignore_changes"), problems
    )
    prevention = arguments.get("prevent_destroy")
    condition = None
    if prevention is not None and not is_constant_value(prevention.expression):
        # The fixed setting is then False.
        condition = prevention.expression
        prevention = None
    return Lifecycle(
        create_before_destroy=evaluate_bool(
            arguments.get("create_before_destroy"), problems, default=False
        ),
        keeps_object=not evaluate_bool(arguments.get("destroy"), problems, default=True),
        prevent_destroy=evaluate_bool(prevention, problems, default=False),
        prevent_destroy_condition=condition,
        ignore_all=ignore_all,
        ignore_changes=ignored_paths,
        ignore_changes_spans=ignored_spans,
        replace_triggered_by=_decode_triggers(arguments.get("replace_triggered_by"), problems),
        preconditions=_decode_conditions(inner.blocks, "precondition", problems),
        postconditions=_decode_conditions(inner.blocks, "postcondition", problems),
        span=block.span,
        enabled=get_expression(arguments.get("enabled")),
    )


def check_enabled_repetition(
    enabled: syntax.Expression | None, count: object, for_each: object
) -> Iterator[Diagnostic]:
    """Report `enabled` in a block with count or for_each; each is None if not set."""
    repetition_name = get_repetition_argument(count, for_each)
    if repetition_name and enabled is not None:
        detail = f'"{repetition_name}" and "enabled" are mutually exclusive. Use one of them.'
        yield build_error("conflicting-arguments", detail, enabled.span)


def _decode_ignore_changes(
    attribute: syntax.Attribute | None, problems: list[Diagnostic]
) -> tuple[bool, tuple[tuple[PathStep, ...], ...], tuple[Span, ...]]:
    """Return whether the argument is `all`, the paths to ignore, and their spans.

    Report and omit invalid paths.
    """
    if attribute is None:
        return False, (), ()
    if get_bare_keyword(attribute) == "all":
        return True, (), ()
    paths: list[tuple[PathStep, ...]] = []
    spans: list[Span] = []
    for item in list_static_items(attribute, problems):
        traversal = parse_reference(item, problems)
        if traversal is None:
            continue  # reported
        path = parse_relative_path(traversal, problems)
        if path is not None:
            paths.append(path)
            spans.append(traversal.span)
    return False, tuple(paths), tuple(spans)


def _decode_triggers(
    attribute: syntax.Attribute | None, problems: list[Diagnostic]
) -> tuple[syntax.Expression, ...]:
    """Return the references of `replace_triggered_by`.

    A key may be an expression: `nexus_rack.r[count.index]`.
    """
    if attribute is None:
        return ()
    triggers: list[syntax.Expression] = []
    for item in list_static_items(attribute, problems):
        expression = unwrap_quoted_expression(item, problems)
        if expression is None:
            # It is reported as a syntax error.
            continue
        instance = (
            expression.source if isinstance(expression, syntax.RelativeTraversal) else expression
        )
        # `TYPE.NAME[KEY]`; a constant key is a step of the traversal instead.
        has_computed_key = (
            isinstance(instance, syntax.Index)
            and isinstance(instance.collection, syntax.Traversal)
            and len(instance.collection.remove_resource_prefix().steps) == 1
        )
        trigger = expression if has_computed_key else parse_reference(expression, problems)
        if trigger is not None:
            triggers.append(trigger)
    return tuple(triggers)


def _decode_conditions(
    blocks: Sequence[syntax.Block], kind: str, problems: list[Diagnostic]
) -> tuple[Condition, ...]:
    """Decode the condition blocks of one type.

    Without any block their decoder is not imported.
    """
    if not blocks:
        return ()
    from nexusform.configuration.value_blocks import decode_condition_blocks

    return decode_condition_blocks(blocks, kind, problems)


def remove_decoded_parts(body: AnyBody, decoded_schema: BodySchema) -> AnyBody:
    """Return the body without the decoded arguments and blocks.

    Each object of a JSON body remains, with its other properties only.
    """
    if isinstance(body, syntax.JsonBody):
        names = {*decoded_schema.attributes, *decoded_schema.blocks}
        objects = []
        for json_object in body.objects:
            remaining = tuple(p for p in json_object.properties if p.name not in names)
            objects.append(syntax.JsonObject(remaining, json_object.span))
        return syntax.JsonBody(tuple(objects), body.span)
    attributes = tuple(a for a in body.attributes if a.name not in decoded_schema.attributes)
    blocks = tuple(b for b in body.blocks if b.type not in decoded_schema.blocks)
    return syntax.Body(attributes, blocks, body.span, body.end_span)
