"""`resource` and `data` blocks: meta-arguments and lifecycle read, the rest left for the schema."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from msgspec import Struct, field

from nexusform.address import ConfigAddress, Mode
from nexusform.configuration.declared.configuration import AnyBody, Lifecycle, ResourceBlock
from nexusform.configuration.declared.constants import constant_flag
from nexusform.configuration.value_blocks import decode_conditions
from nexusform.configuration.written import (
    as_expression,
    check_name,
    keyword,
    listed_expressions,
    only_block,
    reference,
    references,
    relative_path,
)
from nexusform.diagnostics import Diagnostic, did_you_mean, error
from nexusform.language.bodies import BodySchema, Content, content
from nexusform.language.syntax import nodes as syntax
from nexusform.plain_data import PathStep
from nexusform.schema import BlockSchema
from nexusform.source import Span

_PROVIDER_KEY = re.compile(r"[^\W\d][\w-]*(?:\.[^\W\d][\w-]*)?")
META_ARGUMENTS = ("count", "for_each", "depends_on", "provider")
META_FACE = BodySchema(
    attributes=dict.fromkeys(META_ARGUMENTS, False),
    blocks={"lifecycle": (), "provisioner": ("type",), "connection": ()},
)
META_NAMES = (META_ARGUMENTS, ("lifecycle",))  # what stands beside the arguments of a type
_CONDITIONS = {"precondition": (), "postcondition": ()}
_LIFECYCLES: Mapping[Mode, BodySchema] = {
    "managed": BodySchema(
        attributes=dict.fromkeys(
            ("create_before_destroy", "prevent_destroy", "ignore_changes", "replace_triggered_by"), False
        ),
        blocks=_CONDITIONS,
    ),
    "data": BodySchema(blocks=_CONDITIONS),
}


class Registered(Struct, frozen=True):
    """The resource types and data sources known, by name; None when they are not to be checked."""

    managed: Mapping[str, BlockSchema] | None = None
    data: Mapping[str, BlockSchema] | None = None

    def of(self, mode: Mode) -> Mapping[str, BlockSchema] | None:
        """The types of a mode."""
        return self.managed if mode == "managed" else self.data


class Home(Struct, frozen=True):
    """Where a block stands.

    `module` is its module's static path, `prefix` the position of the module's call, `file` the
    file's own name, `ignored` the lint ids of comments by the line below them.
    """

    module: tuple[str, ...]
    prefix: tuple[tuple[str, int], ...] = ()
    file: str = ""
    ignored: Mapping[int, frozenset[str]] = field(default_factory=dict)


def decode_resource(
    block: syntax.Block, mode: Mode, home: Home, registered: Registered, problems: list[Diagnostic]
) -> ResourceBlock | None:
    """One `resource` or `data` block; None when it cannot be told what it declares."""
    kind, name = block.labels
    if not _check_labels(block, mode, problems):
        return None
    _check_type(block, mode, registered, problems)
    parts, wrong = content(block.body, META_FACE, partial=True)
    problems.extend(wrong)
    problems.extend(_no_provisioners(b) for b in parts.blocks if b.type != "lifecycle")
    count, for_each = repetition(parts.attributes, "resource", problems)
    start = block.span.start
    return ResourceBlock(
        address=ConfigAddress(home.module, mode, kind.value, name.value),
        mode=mode,
        type=kind.value,
        name=name.value,
        body=remaining(block.body, META_FACE),
        count=count,
        for_each=for_each,
        depends_on=references(parts.attributes.get("depends_on"), problems),
        provider=provider_key(parts.attributes.get("provider"), problems),
        lifecycle=_lifecycle(parts, mode, problems),
        span=block.span,
        header_span=block.header_span,
        position=(*home.prefix, (home.file, start.byte)),
        ignored_rules=home.ignored.get(start.line, frozenset()),
    )


def _check_labels(block: syntax.Block, mode: Mode, problems: list[Diagnostic]) -> bool:
    kind, name = block.labels
    of_kind, of_name = (
        ("invalid-resource-type-name", "invalid-resource-name")
        if mode == "managed"
        else ("invalid-data-source-name", "invalid-data-resource-name")
    )
    valid_kind = check_name(kind, of_kind, problems)
    return check_name(name, of_name, problems) and valid_kind


def _check_type(block: syntax.Block, mode: Mode, registered: Registered, problems: list[Diagnostic]) -> None:
    """Say that nobody knows a type, and which one may be meant."""
    known = registered.of(mode)
    label = block.labels[0]
    if known is None or label.value in known:
        return
    other = registered.of("data" if mode == "managed" else "managed") or {}
    if label.value in other:
        there = "a data source" if mode == "managed" else "a managed resource type"
        keyword_ = "data" if mode == "managed" else "resource"
        hint = f' It is {there}: write {keyword_} "{label.value}" "{block.labels[1].value}".'
    else:
        hint = did_you_mean(label.value, known)
    kind, noun = (
        ("invalid-resource-type", "resource type")
        if mode == "managed"
        else ("invalid-data-source", "data source")
    )
    problems.append(error(kind, f'nexusform has no {noun} "{label.value}".{hint}', label.span))


def _no_provisioners(block: syntax.Block) -> Diagnostic:
    detail = f'Blocks of type "{block.type}" are not expected here: nexusform has no provisioners.'
    return error("unsupported-block-type", detail, block.type_span)


def repetition(
    attributes: Mapping[str, syntax.Attribute], noun: str, problems: list[Diagnostic]
) -> tuple[syntax.Expression | None, syntax.Expression | None]:
    """`count` and `for_each`, of which at most one may stand."""
    count, for_each = attributes.get("count"), attributes.get("for_each")
    if count is not None and for_each is not None:
        problems.append(
            error(
                "invalid-combination-of-count-and-for-each",
                'The "count" and "for_each" meta-arguments are mutually-exclusive, only one should be used '
                f"to be explicit about the number of {noun}s to be created.",
                for_each.name_span,
            )
        )
        for_each = None
    return count.expression if count else None, for_each.expression if for_each else None


def provider_key(attribute: syntax.Attribute | None, problems: list[Diagnostic]) -> str:
    """`name` or `name.alias`; "" when it is not written."""
    if attribute is None:
        return ""
    expression = attribute.expression
    if isinstance(expression, syntax.StringLiteral) and _PROVIDER_KEY.fullmatch(expression.value):
        # Also where a name in quotes is none without: "null.foo".
        return expression.value
    traversal = reference(expression, problems)
    if traversal is None:
        return ""
    match traversal.steps:
        case ():
            return traversal.root.name
        case (syntax.TraverseAttribute(alias),):
            return f"{traversal.root.name}.{alias}"
    problems.append(
        error(
            "invalid-provider-configuration-reference",
            "The provider argument requires a provider name, optionally followed by a period and then a "
            "configuration alias.",
            attribute.expression.span,
        )
    )
    return ""


# --- lifecycle ---------------------------------------------------------------------------------


def _lifecycle(parts: Content, mode: Mode, problems: list[Diagnostic]) -> Lifecycle:
    block = only_block(parts.blocks, "lifecycle", problems)
    if block is None:
        return Lifecycle()
    inner, wrong = content(block.body, _LIFECYCLES[mode])
    problems.extend(wrong)
    arguments = inner.attributes
    ignore_all, ignored, ignored_at = _ignore_changes(arguments.get("ignore_changes"), problems)
    return Lifecycle(
        create_before_destroy=constant_flag(arguments.get("create_before_destroy"), problems, default=False),
        prevent_destroy=constant_flag(arguments.get("prevent_destroy"), problems, default=False),
        ignore_all=ignore_all,
        ignore_changes=ignored,
        ignored_at=ignored_at,
        replace_triggered_by=_triggers(arguments.get("replace_triggered_by"), problems),
        preconditions=decode_conditions(inner.blocks, "precondition", problems),
        postconditions=decode_conditions(inner.blocks, "postcondition", problems),
        span=block.span,
    )


def _ignore_changes(
    attribute: syntax.Attribute | None, problems: list[Diagnostic]
) -> tuple[bool, tuple[tuple[PathStep, ...], ...], tuple[Span, ...]]:
    """Whether all changes are ignored, the paths of those that are, and where each is written."""
    if attribute is None:
        return False, (), ()
    if keyword(attribute) == "all":
        return True, (), ()
    paths: list[tuple[PathStep, ...]] = []
    places: list[Span] = []
    for item in listed_expressions(attribute, problems):
        traversal = reference(item, problems)
        path = relative_path(traversal, problems) if traversal is not None else None
        if traversal is not None and path is not None:
            paths.append(path)
            places.append(traversal.span)
    return False, tuple(paths), tuple(places)


def _triggers(
    attribute: syntax.Attribute | None, problems: list[Diagnostic]
) -> tuple[syntax.Expression, ...]:
    """References, whose instance keys may be expressions (`nexus_rack.r[count.index]`)."""
    if attribute is None:
        return ()
    triggers: list[syntax.Expression] = []
    for item in listed_expressions(attribute, problems):
        expression = as_expression(item, problems)
        if expression is None:
            continue
        if _has_instance_key(expression):
            triggers.append(expression)
            continue
        traversal = reference(expression, problems)
        if traversal is not None:
            triggers.append(traversal)
    return tuple(triggers)


def _has_instance_key(expression: syntax.Expression) -> bool:
    """Whether it is `type.name[expression]`, perhaps with a path behind it."""
    instance = expression.source if isinstance(expression, syntax.RelativeTraversal) else expression
    if not isinstance(instance, syntax.Index) or not isinstance(instance.collection, syntax.Traversal):
        return False
    return len(instance.collection.steps) == 1


# --- what is left for the schema ---------------------------------------------------------------


def remaining(body: AnyBody, taken: BodySchema) -> AnyBody:
    """The body without the arguments and blocks that have been read."""
    if isinstance(body, syntax.JsonBody):
        names = {*taken.attributes, *taken.blocks}
        objects = tuple(_without(each, names) for each in body.objects)
        return syntax.JsonBody(objects, body.span)
    attributes = tuple(a for a in body.attributes if a.name not in taken.attributes)
    blocks = tuple(b for b in body.blocks if b.type not in taken.blocks)
    if len(attributes) == len(body.attributes) and len(blocks) == len(body.blocks):
        return body
    return syntax.Body(attributes, blocks, body.span, body.end_span)


def _without(json: syntax.JsonObject, names: Collection[str]) -> syntax.JsonObject:
    return syntax.JsonObject(tuple(p for p in json.properties if p.name not in names), json.span)
