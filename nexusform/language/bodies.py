"""The one door through which a body is given meaning: arguments and blocks by schema.

Both syntaxes come through here, so what a configuration means does not depend on how it is
written. All complaints are returned; what could be understood is returned beside them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct, field

from nexusform.diagnostics import Diagnostic, did_you_mean, error
from nexusform.language.json_syntax import COMMENT_NAME, expression_of
from nexusform.language.syntax import nodes as syntax
from nexusform.language.syntax.positions import describe
from nexusform.source import Position, Span
from nexusform.words import counted, form


class BodySchema(Struct, frozen=True):
    """The arguments (name -> whether required) and blocks (type -> names of its labels) allowed. Nobody means
    the `computed` ones, which get a message of their own. The names `beside` (arguments, blocks) may stand
    in the same body and are read by somebody else: they are named where they may be meant.
    """

    attributes: Mapping[str, bool] = field(default_factory=dict)
    blocks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    computed: frozenset[str] = frozenset()
    beside: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    @property
    def settable(self) -> list[str]:
        """The arguments that a user can set."""
        return [name for name in self.attributes if name not in self.computed]


class Content(Struct, frozen=True):
    """What a body holds of its schema: arguments by name and blocks, both in source order.

    `end_span` is where the body ends, for complaints about what is missing.
    """

    attributes: dict[str, syntax.Attribute]
    blocks: tuple[syntax.Block, ...]
    end_span: Span


def content(
    body: syntax.Body | syntax.JsonBody, schema: BodySchema, *, partial: bool = False
) -> tuple[Content, list[Diagnostic]]:
    """What a body holds of a schema. With `partial`, anything outside the schema is passed over."""
    if isinstance(body, syntax.JsonBody):
        return _json_content(body, schema, partial=partial)
    diagnostics: list[Diagnostic] = []
    attributes: dict[str, syntax.Attribute] = {}
    blocks: list[syntax.Block] = []
    for attribute in body.attributes:
        if attribute.name in schema.attributes:
            attributes[attribute.name] = attribute
        elif attribute.name in schema.blocks or not partial:
            diagnostics.append(_unsupported_argument(attribute, schema))
    for block in body.blocks:
        labels = schema.blocks.get(block.type)
        if labels is None:
            if block.type in schema.attributes or not partial:
                diagnostics.append(_unsupported_block(block, schema))
            continue
        complaint = _label_complaint(block, labels)
        if complaint is None:
            blocks.append(block)
        else:
            diagnostics.append(complaint)
    diagnostics += _missing_arguments(schema, attributes, _missing_place(body))
    return Content(attributes, tuple(blocks), body.end_span), diagnostics


def just_attributes(
    body: syntax.Body | syntax.JsonBody,
) -> tuple[dict[str, syntax.Attribute], list[Diagnostic]]:
    """Every argument of a body whose names are free (`locals`, variable files); no blocks allowed."""
    if isinstance(body, syntax.JsonBody):
        return _json_attributes(body)
    complaints = [
        error(
            "unexpected-block",
            "Blocks are not allowed here. To set an argument to an object, write "
            f'"{block.type} = {{ ... }}" with the equals sign.',
            block.type_span,
            headline=f'Unexpected "{block.type}" block',
        )
        for block in body.blocks
    ]
    return {attribute.name: attribute for attribute in body.attributes}, complaints


def _unsupported_argument(attribute: syntax.Attribute, schema: BodySchema) -> Diagnostic:
    name = attribute.name
    if name in schema.blocks:
        labels = "".join(f' "{label.upper()}"' for label in schema.blocks[name])
        hint = (
            f' Did you mean to define a block of type "{name}"? If so, write "{name}{labels} '
            '{ ... }" without the equals sign.'
        )
    else:
        hint = meant_hint(name, [*schema.settable, *schema.beside[0]], schema.blocks, "a block of type")
    return error(
        "unsupported-argument", f'An argument named "{name}" is not expected here.{hint}', attribute.name_span
    )


def _unsupported_block(block: syntax.Block, schema: BodySchema) -> Diagnostic:
    name = block.type
    if name in schema.attributes:
        hint = (
            f' Did you mean to define argument "{name}"? If so, use the equals sign to assign it a value: '
            f'"{name} = ...".'
        )
    else:
        hint = meant_hint(name, [*schema.blocks, *schema.beside[1]], schema.settable, "the argument")
    return error(
        "unsupported-block-type", f'Blocks of type "{name}" are not expected here.{hint}', block.type_span
    )


def _label_complaint(block: syntax.Block, labels: tuple[str, ...]) -> Diagnostic | None:
    count = len(block.labels)
    if count > len(labels):
        return _extraneous_label(block.type, labels, block.labels[len(labels)].span)
    if count < len(labels):
        return _missing_label(block.type, labels, count, _first_character(block.body.span))
    return None


def _missing_place(body: syntax.Body) -> Span:
    """The opening brace of a block, so that its header is shown; the end of a whole file."""
    if body.span.start.line == 1 and body.span.start.column == 1:
        return body.end_span
    return _first_character(body.span)


def _first_character(span: Span) -> Span:
    start = span.start
    return Span(span.filename, start, Position(start.line, start.column + 1, start.byte + 1))


# --- JSON: a schema says which properties are arguments and which are blocks -----------------


def _json_content(
    body: syntax.JsonBody, schema: BodySchema, *, partial: bool
) -> tuple[Content, list[Diagnostic]]:
    """The arguments and blocks of a JSON body; blocks are in the order of the keys as written."""
    diagnostics: list[Diagnostic] = []
    attributes: dict[str, syntax.Attribute] = {}
    blocks: list[syntax.Block] = []
    for each in _body_properties(body):
        if each.name in schema.attributes:
            _add(each, attributes, diagnostics)
        elif each.name in schema.blocks:
            blocks += _Unpacking(each, schema.blocks[each.name], diagnostics).blocks()
        elif not partial:
            diagnostics.append(_extraneous(each, schema))
    end = _end_of(body)
    diagnostics += _missing_arguments(schema, attributes, end)
    return Content(attributes, tuple(blocks), end), diagnostics


def _json_attributes(body: syntax.JsonBody) -> tuple[dict[str, syntax.Attribute], list[Diagnostic]]:
    """Every property of a JSON body as an argument."""
    diagnostics: list[Diagnostic] = []
    attributes: dict[str, syntax.Attribute] = {}
    for each in _body_properties(body):
        _add(each, attributes, diagnostics)
    return attributes, diagnostics


def _end_of(body: syntax.JsonBody) -> Span:
    """The closing brace of a body (the last one, of several objects)."""
    span = body.objects[-1].span if body.objects else body.span
    end = span.end
    if span.start == end:
        return span
    return Span(span.filename, Position(end.line, end.column - 1, end.byte - 1), end)


def _body_properties(body: syntax.JsonBody) -> Iterator[syntax.JsonProperty]:
    for each in body.objects:
        for item in each.properties:
            if item.name != COMMENT_NAME:
                yield item


def _add(
    each: syntax.JsonProperty, attributes: dict[str, syntax.Attribute], diagnostics: list[Diagnostic]
) -> None:
    """Add a JSON property as an argument, unless one of that name was set before."""
    earlier = attributes.get(each.name)
    if earlier is not None:
        diagnostics.append(
            error(
                "duplicate-argument",
                f'The argument "{each.name}" was already set at {describe(earlier.name_span)}. Each '
                "argument may be set only once.",
                each.name_span,
            )
        )
        return
    expression, problems = expression_of(each.value)
    diagnostics += problems
    span = each.name_span.to(each.value.span)
    attributes[each.name] = syntax.Attribute(each.name, expression, span, each.name_span)


def _extraneous(each: syntax.JsonProperty, schema: BodySchema) -> Diagnostic:
    hint = meant_hint(each.name, [*schema.settable, *schema.blocks, *schema.beside[0], *schema.beside[1]])
    return error(
        "extraneous-json-object-property",
        f'No argument or block type is named "{each.name}".{hint}',
        each.name_span,
    )


class _Unpacking:
    """The blocks that one property stands for: a level of names per label, then bodies."""

    def __init__(
        self, block: syntax.JsonProperty, label_names: tuple[str, ...], diagnostics: list[Diagnostic]
    ) -> None:
        self.block = block
        self.label_names = label_names
        self.diagnostics = diagnostics

    def blocks(self) -> list[syntax.Block]:
        """All of them, in source order."""
        blocks: list[syntax.Block] = []
        self._unpack(self.block.value, (), blocks)
        return blocks

    def _unpack(
        self, value: syntax.JsonValue, labels: tuple[syntax.Label, ...], blocks: list[syntax.Block]
    ) -> None:
        """Go down one level of JSON objects for each label, then take the bodies."""
        if len(labels) == len(self.label_names):
            self._bodies(value, labels, blocks)
            return
        for holder in _holders(value):
            if not isinstance(holder, syntax.JsonObject):
                self.diagnostics.append(self._wrong_label_level(holder, len(labels)))
                continue
            for each in holder.properties:
                if each.name != COMMENT_NAME:
                    self._unpack(each.value, (*labels, syntax.Label(each.name, each.name_span)), blocks)

    def _bodies(
        self, value: syntax.JsonValue, labels: tuple[syntax.Label, ...], blocks: list[syntax.Block]
    ) -> None:
        """Add a block for every body under one set of labels."""
        name_span = labels[-1].span if labels else self.block.name_span
        for holder in _holders(value):
            if not isinstance(holder, syntax.JsonObject):
                self.diagnostics.append(self._wrong_body(holder))
                continue
            span = name_span.to(holder.span) if holder is value else holder.span
            body = syntax.JsonBody((holder,), holder.span)
            blocks.append(syntax.Block(self.block.name, labels, body, span, name_span, self.block.name_span))

    def _wrong_label_level(self, value: syntax.JsonValue, level: int) -> Diagnostic:
        if isinstance(value, syntax.JsonScalar):
            return error(
                "incorrect-json-value-type",
                f"A JSON object is required, whose keys represent the {self.block.name} block's "
                f"{self.label_names[level]}.",
                value.span,
            )
        return _missing_label(self.block.name, self.label_names, level, value.span)

    def _wrong_body(self, value: syntax.JsonValue) -> Diagnostic:
        return error(
            "incorrect-json-value-type",
            "Either a JSON object or a JSON array of objects is required, representing the contents "
            f'of one or more "{self.block.name}" blocks.',
            value.span,
        )


def _holders(value: syntax.JsonValue) -> tuple[syntax.JsonValue, ...]:
    """The value, or the items of an array; null stands for no block at all."""
    items = value.items if isinstance(value, syntax.JsonArray) else (value,)
    return tuple(item for item in items if not (isinstance(item, syntax.JsonScalar) and item.value is None))


# --- complaints of both syntaxes -------------------------------------------------------------


def _missing_arguments(schema: BodySchema, names: Iterable[str], place: Span) -> list[Diagnostic]:
    """A complaint for every required argument that was not found."""
    present = set(names)
    return [
        error(
            "missing-required-argument",
            f'The argument "{name}" is required, but no definition was found.',
            place,
        )
        for name, required in schema.attributes.items()
        if required and name not in present
    ]


def _missing_label(block_type: str, labels: tuple[str, ...], count: int, place: Span) -> Diagnostic:
    """The complaint about a block with too few labels."""
    missing = labels[count]
    return error(
        "missing-block-label",
        f"All {block_type} blocks must have {counted(len(labels), 'label')} ({', '.join(labels)}).",
        place,
        headline=f"Missing {missing} for {block_type}",
    )


def _extraneous_label(block_type: str, labels: tuple[str, ...], place: Span) -> Diagnostic:
    """The complaint about a block with too many labels."""
    if labels:
        verb = form(len(labels), "is", "are")
        names = ", ".join(labels)
        detail = f"Only {counted(len(labels), 'label')} ({names}) {verb} expected for {block_type} blocks."
        return error("extraneous-block-label", detail, place, headline=f"Extraneous label for {block_type}")
    return error(
        "extraneous-block-label",
        f"No labels are expected for {block_type} blocks.",
        place,
        headline=f"Extraneous label for {block_type}",
    )


# Another tool's name -> ours, the likeliest first; the first that is allowed at the place counts.
OTHER_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "agent_pool_profile": ("agent_pool",),
    "agent_pool_profiles": ("agent_pool",),
    "az": ("availability_zone", "availability_zones"),
    "bare_metal_machine": ("machine_override",),
    "cluster_id": ("kubernetes_cluster_id",),
    "clusters": ("number_of_clusters", "cluster_names"),
    "content": ("yaml_body", "manifest"),
    "control_plane_node_configuration": ("control_plane",),
    "cores": ("vcpus", "cpu_cores", "cpus_per_cell"),
    "cordon": ("cordoned", "cordon_status"),
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


def meant_hint(name: str, known: Collection[str], others: Collection[str] = (), kind: str = "") -> str:
    """A closing sentence that names what may be meant by `name`: one of `known`, or one of the `others`,
    which are of another `kind` ("the argument"): the same in snake case or in the singular, another tool's
    word for it, or the nearest spelling; "" without any.
    """
    for candidate in _candidates(name):
        if candidate in known:
            return f' Did you mean "{candidate}"?'
        if candidate in others:
            return f' Did you mean {kind} "{candidate}"?'
    return did_you_mean(name, known)


def _candidates(name: str) -> list[str]:
    snake = _INNER_CAPITAL.sub("_", name).lower()
    return [snake, snake.removesuffix("s"), *OTHER_NAMES.get(snake, ())]
