"""Decoding of bodies by schema: arguments and blocks.

Both syntaxes are decoded here, so the meaning of a configuration is independent of its syntax. All
problems are returned, together with the decodable parts.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Final

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Diagnostic, Position, Span, build_error, suggest_name
from nexusform.diagnostics.phrases import format_count, select_word_form
from nexusform.language.syntax import syntax_nodes as syntax
from nexusform.language.syntax.scanner import describe_span

# Property of a JSON object that represents a body.
_COMMENT_NAME: Final = "//"


class BodySchema(Struct, frozen=True):
    """Allowed arguments (name -> is required) and blocks (type -> names of its labels).

    `computed` arguments are never suggested, and get a message of their own. `extra_names`
    (arguments, blocks) are valid in the same body and decoded elsewhere: they are only suggested.
    `foreign_words` is the advice for words of other tools.
    """

    attributes: Mapping[str, bool] = field(default_factory=dict)
    blocks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    computed: frozenset[str] = frozenset()
    extra_names: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    foreign_words: Mapping[str, str] = field(default_factory=dict)

    @property
    def settable(self) -> list[str]:
        """Arguments that a user can set."""
        return [name for name in self.attributes if name not in self.computed]


class BodyContent(Struct, frozen=True):
    """Content of a body by its schema: arguments by name and blocks, both in source order.

    `end_span` is the end of the body, for problems about missing parts.
    """

    attributes: dict[str, syntax.Attribute]
    blocks: tuple[syntax.Block, ...]
    end_span: Span


def decode_body(
    body: syntax.Body | syntax.JsonBody, schema: BodySchema, *, partial: bool = False
) -> tuple[BodyContent, list[Diagnostic]]:
    """Decode a body by a schema.

    With `partial`, names outside the schema are ignored.
    """
    if isinstance(body, syntax.JsonBody):
        return _decode_json_body(body, schema, partial=partial)
    diagnostics: list[Diagnostic] = []
    attributes: dict[str, syntax.Attribute] = {}
    blocks: list[syntax.Block] = []
    for attribute in body.attributes:
        if attribute.name in schema.attributes:
            attributes[attribute.name] = attribute
        elif attribute.name in schema.blocks or not partial:
            # A block type with `=` is always an error.
            diagnostics.append(_build_unsupported_argument_error(attribute, schema))
    for block in body.blocks:
        # Names of the labels; None for an unexpected block type.
        labels = schema.blocks.get(block.type)
        if labels is None:
            # An argument as a block is always an error.
            if block.type in schema.attributes or not partial:
                diagnostics.append(_build_unsupported_block_error(block, schema))
            continue
        problem = _check_label_count(block, labels)
        if problem is None:
            blocks.append(block)
        else:
            diagnostics.append(problem)
    # Missing arguments are reported at the opening brace of a block, next to its header, or at the
    # end of a whole file.
    is_file = (body.span.start.line, body.span.start.column) == (1, 1)
    missing_span = body.end_span if is_file else get_first_character_span(body.span)
    diagnostics += _check_required_arguments(schema, attributes, missing_span)
    return BodyContent(attributes, tuple(blocks), body.end_span), diagnostics


def decode_attributes(
    body: syntax.Body | syntax.JsonBody, *, has_templates: bool = True
) -> tuple[dict[str, syntax.Attribute], list[Diagnostic]]:
    """Decode every argument of a body with free names (`locals`, variable files).

    Blocks of the body are reported. With `has_templates`, the texts of JSON may be templates.
    """
    if isinstance(body, syntax.JsonBody):
        diagnostics: list[Diagnostic] = []
        attributes: dict[str, syntax.Attribute] = {}
        for json_property in _list_json_properties(body):
            _add_json_property_as_attribute(
                json_property, attributes, diagnostics, has_templates=has_templates
            )
        return attributes, diagnostics
    problems = [
        build_error(
            "unexpected-block",
            "Blocks are not allowed here. To set an argument to an object, write "
            f'"{block.type} = {{ ... }}" with the equals sign.',
            block.type_span,
            headline=f'Unexpected "{block.type}" block',
        )
        for block in body.blocks
    ]
    return {attribute.name: attribute for attribute in body.attributes}, problems


def _build_unsupported_argument_error(
    attribute: syntax.Attribute, schema: BodySchema
) -> Diagnostic:
    """Build the error about an unknown argument.

    A hint names the probable intention: a block or a similar name.
    """
    name = attribute.name
    # A word of another tool.
    if advice := schema.foreign_words.get(name):
        hint = f" {advice}"
    elif name in schema.blocks:
        labels = "".join(f' "{label.upper()}"' for label in schema.blocks[name])
        hint = (
            f' Did you mean to define a block of type "{name}"? If so, write "{name}{labels} '
            '{ ... }" without the equals sign.'
        )
    else:
        # Also valid in this body, but decoded elsewhere.
        extra_arguments, _ = schema.extra_names
        hint = suggest_argument_name(
            name, [*schema.settable, *extra_arguments], schema.blocks, "a block of type"
        )
    detail = f'An argument named "{name}" is not expected here.{hint}'
    return build_error("unsupported-argument", detail, attribute.name_span)


def _build_unsupported_block_error(block: syntax.Block, schema: BodySchema) -> Diagnostic:
    """Build the error about an unknown block.

    A hint names the probable intention: an argument or a similar name.
    """
    name = block.type
    # A word of another tool.
    if advice := schema.foreign_words.get(name):
        hint = f" {advice}"
    elif name in schema.attributes:
        hint = (
            f' Did you mean to define argument "{name}"? If so, use the equals sign to assign it '
            "a value: "
            f'"{name} = ...".'
        )
    else:
        # Also valid in this body, but decoded elsewhere.
        _, extra_blocks = schema.extra_names
        hint = suggest_argument_name(
            name, [*schema.blocks, *extra_blocks], schema.settable, "the argument"
        )
    detail = f'Blocks of type "{name}" are not expected here.{hint}'
    return build_error("unsupported-block-type", detail, block.type_span)


def _check_label_count(block: syntax.Block, label_names: tuple[str, ...]) -> Diagnostic | None:
    """Return the error about too many or too few labels.

    Return None if their number is that of `label_names`.
    """
    count = len(block.labels)
    expected = len(label_names)
    if count > expected:
        span = block.labels[expected].span
        if label_names:
            verb = select_word_form(expected, "is", "are")
            names = ", ".join(label_names)
            detail = (
                f"Only {format_count(expected, 'label')} ({names}) {verb} expected for "
                f"{block.type} blocks."
            )
        else:
            detail = f"No labels are expected for {block.type} blocks."
        return build_error(
            "extraneous-block-label", detail, span, headline=f"Extraneous label for {block.type}"
        )
    if count < expected:
        return _build_missing_label_error(
            block.type, label_names, count, get_first_character_span(block.body.span)
        )
    return None


def get_first_character_span(span: Span) -> Span:
    """Return the span of the first character of a span."""
    start = span.start
    return Span(span.filename, start, Position(start.line, start.column + 1, start.byte + 1))


def _decode_json_body(
    body: syntax.JsonBody, schema: BodySchema, *, partial: bool
) -> tuple[BodyContent, list[Diagnostic]]:
    """Decode a JSON body: arguments, and blocks in the order of their keys.

    With `partial`, other names are ignored.
    """
    diagnostics: list[Diagnostic] = []
    attributes: dict[str, syntax.Attribute] = {}
    blocks: list[syntax.Block] = []
    for json_property in _list_json_properties(body):
        if json_property.name in schema.attributes:
            _add_json_property_as_attribute(json_property, attributes, diagnostics)
        elif json_property.name in schema.blocks:
            decoder = _BlockDecoder(json_property, schema.blocks[json_property.name], diagnostics)
            decoder.decode_level(json_property.value, labels=())
            blocks += decoder.blocks
        elif not partial:
            name = json_property.name
            # A word of another tool.
            if advice := schema.foreign_words.get(name):
                hint = f" {advice}"
            else:
                # Of arguments and of blocks.
                extra_names = chain.from_iterable(schema.extra_names)
                hint = suggest_argument_name(name, [*schema.settable, *schema.blocks, *extra_names])
            detail = f'No argument or block type is named "{name}".{hint}'
            diagnostics.append(
                build_error("extraneous-json-object-property", detail, json_property.name_span)
            )
    # Of several objects the last one.
    span = body.objects[-1].span if body.objects else body.span
    # Of an unreadable file, which has no text.
    end_span = span
    # The closing brace.
    if span.start != span.end:
        last_character = Position(span.end.line, span.end.column - 1, span.end.byte - 1)
        end_span = Span(span.filename, last_character, span.end)
    diagnostics += _check_required_arguments(schema, attributes, end_span)
    return BodyContent(attributes, tuple(blocks), end_span), diagnostics


def _list_json_properties(body: syntax.JsonBody) -> Iterator[syntax.JsonProperty]:
    """Yield the properties of all objects of a body, except comments."""
    for json_object in body.objects:
        for item in json_object.properties:
            if item.name != _COMMENT_NAME:
                yield item


def _add_json_property_as_attribute(
    json_property: syntax.JsonProperty,
    attributes: dict[str, syntax.Attribute],
    diagnostics: list[Diagnostic],
    *,
    has_templates: bool = True,
) -> None:
    """Add a JSON property as an argument, unless its name is already set."""
    earlier = attributes.get(json_property.name)
    if earlier is not None:
        detail = (
            f'The argument "{json_property.name}" was already set at '
            f"{describe_span(earlier.name_span)}. Each argument may be set only once."
        )
        diagnostics.append(build_error("duplicate-argument", detail, json_property.name_span))
        return
    from nexusform.language.json_syntax import build_expression

    expression, problems = build_expression(json_property.value, has_templates=has_templates)
    diagnostics += problems
    span = json_property.name_span.extend_to(json_property.value.span)
    attributes[json_property.name] = syntax.Attribute(
        json_property.name, expression, span, json_property.name_span
    )


class _BlockDecoder:
    """Decoder of the blocks of one property: a level of names per label, then bodies."""

    def __init__(
        self,
        block: syntax.JsonProperty,
        label_names: tuple[str, ...],
        diagnostics: list[Diagnostic],
    ) -> None:
        """Set the property with blocks of one type, their label names, and the error list."""
        self.block = block
        self.label_names = label_names
        self.diagnostics = diagnostics
        self.blocks: list[syntax.Block] = []

    def decode_level(self, value: syntax.JsonValue, labels: tuple[syntax.Label, ...]) -> None:
        """Add the blocks of the value below `labels`.

        Objects by the next label, or bodies if no label is missing.
        """
        # No label is missing.
        if len(labels) == len(self.label_names):
            self._decode_bodies(value, labels)
            return
        label_name = self.label_names[len(labels)]
        items = _list_array_items(value)
        # The names of properties are labels: one is required. The loop below reports a scalar.
        has_property = any(
            isinstance(item, syntax.JsonObject) and item.properties for item in items
        )
        has_scalar = any(isinstance(item, syntax.JsonScalar) for item in items)
        if not has_property and not has_scalar:
            detail = (
                f"At least one object property is required: the {self.block.name} block's "
                f"{label_name}."
            )
            self.diagnostics.append(build_error("missing-block-label", detail, value.span))
            return
        for item in items:
            if not isinstance(item, syntax.JsonObject):
                self.diagnostics.append(self._build_invalid_label_level_error(item, len(labels)))
                continue
            for json_property in item.properties:
                if json_property.name != _COMMENT_NAME:
                    label = syntax.Label(json_property.name, json_property.name_span)
                    self.decode_level(json_property.value, (*labels, label))

    def _decode_bodies(self, value: syntax.JsonValue, labels: tuple[syntax.Label, ...]) -> None:
        """Add a block with these labels for an object, or for each object of an array.

        Report other values.
        """
        name_span = labels[-1].span if labels else self.block.name_span
        for item in _list_array_items(value):
            if isinstance(item, syntax.JsonScalar) and item.value is None:
                # HCL reads null in a list as an empty block.
                item = syntax.JsonObject((), item.span)  # noqa: PLW2901
            if not isinstance(item, syntax.JsonObject):
                problem = build_error(
                    "incorrect-json-value-type",
                    "Either a JSON object or a JSON array of objects is required, representing "
                    "the contents "
                    f'of one or more "{self.block.name}" blocks.',
                    item.span,
                )
                self.diagnostics.append(problem)
                continue
            # Items of an array share the name.
            span = name_span.extend_to(item.span) if item is value else item.span
            body = syntax.JsonBody((item,), item.span)
            self.blocks.append(
                syntax.Block(self.block.name, labels, body, span, name_span, self.block.name_span)
            )

    def _build_invalid_label_level_error(self, value: syntax.JsonValue, level: int) -> Diagnostic:
        """Build the error about a value in place of an object with labels as keys.

        `level` is the label index.
        """
        if isinstance(value, syntax.JsonScalar):
            return build_error(
                "incorrect-json-value-type",
                f"A JSON object is required, whose keys represent the {self.block.name} block's "
                f"{self.label_names[level]}.",
                value.span,
            )
        # A nested array.
        return _build_missing_label_error(self.block.name, self.label_names, level, value.span)


def _list_array_items(value: syntax.JsonValue) -> tuple[syntax.JsonValue, ...]:
    """Return the items of an array, or any other value as the only item.

    Null is no block and gives ().
    """
    if isinstance(value, syntax.JsonScalar) and value.value is None:
        return ()
    return value.items if isinstance(value, syntax.JsonArray) else (value,)


def _check_required_arguments(
    schema: BodySchema, present: Collection[str], span: Span
) -> list[Diagnostic]:
    """Build an error for every required argument of the schema without a name in `present`."""
    return [
        build_error(
            "missing-required-argument",
            f'The argument "{name}" is required, but no definition was found.',
            span,
        )
        for name, required in schema.attributes.items()
        if required and name not in present
    ]


def _build_missing_label_error(
    block_type: str, labels: tuple[str, ...], count: int, span: Span
) -> Diagnostic:
    """Build the error about a block with only `count` of its labels."""
    missing = labels[count]
    detail = (
        f"All {block_type} blocks must have {format_count(len(labels), 'label')} "
        f"({', '.join(labels)})."
    )
    return build_error(
        "missing-block-label", detail, span, headline=f"Missing {missing} for {block_type}"
    )


# Name of another tool -> ours, the likeliest first; the first allowed one is suggested.
FOREIGN_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "agent_pool_profile": ("agent_pool",),
    "agent_pool_profiles": ("agent_pool",),
    "az": ("availability_zone", "availability_zones"),
    "bare_metal_machine": ("machine_override",),
    "cluster_id": ("kubernetes_cluster_id",),
    "clusters": ("number_of_clusters", "cluster_names"),
    "content": ("yaml_body", "manifest"),
    "control_plane_node_configuration": ("control_plane",),
    "cores": ("vcpus", "cpu_cores", "cpus_per_cell"),
    "cordon": ("cordoned",),
    "cpu": ("vcpus", "cpu_cores"),
    "cpus": ("vcpus", "cpu_cores", "cpus_per_cell"),
    "default_node_pool": ("agent_pool",),
    "disk_size_gb": ("disk_gib",),
    "drained": ("evacuate",),
    "drain": ("evacuate",),
    "flavor": ("vm_sku_name", "machine_sku"),
    "flavor_id": ("vm_sku_name", "flavour_id"),
    "flavour": ("vm_sku_name", "flavour_id"),
    "hardware": ("machine_sku",),
    "hardware_profile": ("machine_sku",),
    "initial_agent_pool_configuration": ("agent_pool",),
    "instance_count": ("count", "node_count", "machine_count"),
    "instance_type": ("vm_sku_name",),
    "kubernetes_cluster": ("kubernetes_cluster_id",),
    "machines": ("machine_count",),
    "manifest": ("yaml_body",),
    "manifests": ("yaml_body", "manifest"),
    "memory": ("memory_gib",),
    "memory_gb": ("memory_gib",),
    "memory_mb": ("memory_gib",),
    "min_count": ("count", "node_count"),
    "node_count": ("count", "machine_count"),
    "node_labels": ("labels",),
    "node_pool": ("agent_pool",),
    "node_taints": ("taint",),
    "orchestrator_version": ("kubernetes_version",),
    "placement_policy": ("policy",),
    "policy_type": ("placement_type",),
    "rack": ("rack_id",),
    "racks": ("availability_zones",),
    "ram": ("memory_gib",),
    "replicas": ("count", "node_count", "number_of_clusters"),
    "server_count": ("machine_count",),
    "servers": ("machine_count",),
    "site": ("site_id",),
    "size": ("vm_sku_name",),
    "sku": ("vm_sku_name", "machine_sku"),
    "sku_name": ("vm_sku_name", "machine_sku"),
    "system_node_pool": ("control_plane",),
    "tags": ("labels",),
    "vcpu": ("vcpus", "cpu_cores"),
    "version": ("kubernetes_version",),
    "vm_size": ("vm_sku_name",),
    "vm_sku": ("vm_sku_name",),
    "yaml": ("yaml_body", "manifest"),
    "zone": ("availability_zone", "availability_zones"),
    "zones": ("availability_zones", "availability_zone"),
}
_INNER_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def suggest_argument_name(
    name: str, known: Collection[str], alternatives: Collection[str] = (), kind: str = ""
) -> str:
    """Return a question with the name probably intended by `name`: ` Did you mean "count"?`.

    It is "" without any. Snake case, the singular and names of other tools are tried among the
    `known` names and the `alternatives`, the names of another `kind` such as "the argument". The
    nearest spelling is searched among the `known` names only.
    """
    snake = _INNER_CAPITAL.sub("_", name).lower()
    candidates = [snake, snake.removesuffix("s"), *FOREIGN_NAMES.get(snake, ())]
    for candidate in candidates:
        if candidate in known:
            return f' Did you mean "{candidate}"?'
        if candidate in alternatives:
            return f' Did you mean {kind} "{candidate}"?'
    return suggest_name(name, known)
