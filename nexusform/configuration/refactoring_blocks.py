"""`moved`, `removed` and `import` blocks: changes of state for existing objects."""

from nexusform.configuration.declarations.configuration import ImportBlock, MovedBlock, RemovedBlock
from nexusform.configuration.resource_blocks import read_provider_key
from nexusform.configuration.static_arguments import (
    evaluate_bool,
    find_single_block,
    get_expression,
    parse_reference,
    unpack_result,
    unwrap_quoted_expression,
)
from nexusform.diagnostics.diagnostic import Diagnostic, build_error
from nexusform.language.body_decoding import BodySchema, decode_body
from nexusform.language.syntax.syntax_nodes import (
    Attribute,
    Block,
    Expression,
    Index,
    RelativeTraversal,
    Traversal,
    TraverseAttribute,
    TraverseIndex,
)
from nexusform.resources.address import AddressPattern, Key, Mode, ModulePathStep

MOVED_SCHEMA = BodySchema(attributes={"from": True, "to": True})
REMOVED_SCHEMA = BodySchema(attributes={"from": True}, blocks={"lifecycle": ()})
IMPORT_SCHEMA = BodySchema(
    attributes={"to": True, "id": True, "for_each": False, "provider": False}
)
# Names that no resource type can have.
_RESERVED = ("count", "each", "local", "nexusform", "path", "self", "terraform", "var")
_LIFECYCLE_SCHEMA = BodySchema(attributes={"destroy": True})


def decode_moved_block(block: Block, problems: list[Diagnostic]) -> MovedBlock | None:
    """Decode a `moved` block.

    Return None, with an error, unless both ends are different addresses of one kind.
    """
    parts = unpack_result(decode_body(block.body, MOVED_SCHEMA), problems)
    source = _parse_address_argument(parts.attributes.get("from"), problems)
    target = _parse_address_argument(parts.attributes.get("to"), problems)
    if source is None or target is None:
        return None  # reported
    # A module has no type.
    if bool(source.type) != bool(target.type) or source.mode != target.mode:
        detail = (
            "Both ends of a move must name the same kind of thing: two modules or two resources."
        )
        problems.append(build_error("invalid-moved-addresses", detail, block.header_span))
        return None
    if source == target:
        detail = "Both ends of this move are the same address: nothing moves. Remove the block."
        problems.append(build_error("invalid-moved-addresses", detail, block.header_span))
        return None
    return MovedBlock(source, target, block.header_span)


def decode_removed_block(block: Block, problems: list[Diagnostic]) -> RemovedBlock | None:
    """Decode a `removed` block.

    Return None, with an error, if its address is invalid, has instance keys or is that of a data
    source.
    """
    parts = unpack_result(decode_body(block.body, REMOVED_SCHEMA), problems)
    attribute = parts.attributes.get("from")
    source = _parse_address_argument(attribute, problems)
    # Default without a `lifecycle` block.
    destroy = True
    lifecycle = find_single_block(parts.blocks, "lifecycle", problems)
    if lifecycle is not None:
        inner = unpack_result(decode_body(lifecycle.body, _LIFECYCLE_SCHEMA), problems)
        destroy = evaluate_bool(inner.attributes.get("destroy"), problems, default=True)
    if source is None or attribute is None:
        return None  # reported
    if source.mode == "data":
        detail = (
            "A data source has no object to remove. To remove it from the state, remove its data "
            "block and this removed block."
        )
        problems.append(
            build_error("data-source-address-not-allowed", detail, attribute.expression.span)
        )
        return None
    has_resource_key = source.key is not None
    if has_resource_key or any(step.key is not None for step in source.module):
        detail = (
            "A removed block applies to all instances. Write the address without keys in brackets."
        )
        error_id = (
            "resource-instance-keys-not-allowed"
            if has_resource_key
            else "module-instance-keys-not-allowed"
        )
        problems.append(build_error(error_id, detail, attribute.expression.span))
        return None
    return RemovedBlock(source, destroy, block.header_span)


def decode_import_block(block: Block, problems: list[Diagnostic]) -> ImportBlock | None:
    """Decode an `import` block.

    Return None, with an error, without `to` or `id`, or if `to` is not a resource.
    """
    parts = unpack_result(decode_body(block.body, IMPORT_SCHEMA), problems)
    arguments = parts.attributes
    target = arguments.get("to")
    object_id = arguments.get("id")
    if target is None or object_id is None:
        # The schema reports it.
        return None
    expression = unwrap_quoted_expression(target.expression, problems)
    if expression is None:
        # It is reported as a syntax error.
        return None
    # The values of keys are not checked here.
    traversal = _replace_computed_keys(expression)
    pattern = (
        build_address_pattern(traversal, problems=[]) if traversal is not None else None
    )  # reported below
    # No address, a module, or a data source.
    if pattern is None or not pattern.type or pattern.mode != "managed":
        detail = (
            'The "to" argument must name a resource or one of its instances, e.g. nexus_rack.r1.'
        )
        problems.append(build_error("invalid-import-address", detail, target.expression.span))
        return None
    return ImportBlock(
        to=expression,
        id=object_id.expression,
        for_each=get_expression(arguments.get("for_each")),
        span=block.header_span,
        provider=read_provider_key(arguments.get("provider"), problems),
    )


def _replace_computed_keys(expression: Expression) -> Traversal | None:
    """Return the address with a constant, 0, in place of each expression in brackets.

    Return None if the expression is not an address.
    """
    if isinstance(expression, Traversal):
        return expression
    if isinstance(expression, RelativeTraversal):
        source = expression.source
        steps = expression.steps
    elif isinstance(expression, Index):
        source = expression.collection
        steps = (TraverseIndex(key=0, span=expression.key.span),)
    else:
        return None  # no address
    # The part before the last brackets.
    start = _replace_computed_keys(source)
    return (
        Traversal(start.root, (*start.steps, *steps), expression.span)
        if start is not None
        else None
    )


def _parse_address_argument(
    attribute: Attribute | None, problems: list[Diagnostic]
) -> AddressPattern | None:
    """Parse the address in an argument; None with a problem if it is absent or invalid."""
    if attribute is None:
        # The schema reports it.
        return None
    traversal = parse_reference(attribute.expression, problems)
    return build_address_pattern(traversal, problems) if traversal is not None else None


def build_address_pattern(
    traversal: Traversal, problems: list[Diagnostic]
) -> AddressPattern | None:
    """Build the address pattern of a traversal: `module.a["k"].data.t.n[0]`.

    Return None after a diagnostic.
    """
    traversal = traversal.remove_resource_prefix()
    # Names, and keys as tuples of one item.
    parts: list[str | tuple[Key]] = [traversal.root.name]
    for step in traversal.steps:
        if isinstance(step, TraverseAttribute):
            parts.append(step.name)
        elif isinstance(step.key, (str, int)):
            parts.append((step.key,))
        else:
            problems.append(
                _build_invalid_address_error(
                    traversal, "an instance key is a whole number or a string"
                )
            )
            return None
    module, module_part_count = _split_module_steps(parts)
    remaining_parts = parts[module_part_count:]
    if not remaining_parts and module:
        # Without a type: the address of a module.
        return AddressPattern(module)
    mode: Mode = "managed"
    if remaining_parts[:1] == ["data"]:
        mode = "data"
        remaining_parts = remaining_parts[1:]
    if remaining_parts and remaining_parts[0] in _RESERVED:
        reason = f'"{remaining_parts[0]}" has another meaning in expressions'
        problems.append(_build_invalid_address_error(traversal, reason))
        return None
    match remaining_parts:
        case [str(kind), str(name)]:
            return AddressPattern(module, mode, kind, name)
        case [str(kind), str(name), (key,)]:
            return AddressPattern(module, mode, kind, name, key)
    problems.append(
        _build_invalid_address_error(traversal, "expected TYPE.NAME, module.NAME or a path of both")
    )
    return None


def _split_module_steps(parts: list[str | tuple[Key]]) -> tuple[tuple[ModulePathStep, ...], int]:
    """Return the modules at the start of an address, and the number of parts they take.

    The parts of `module.a["k"].module.b.t.n` are "module", "a", ("k",), "module", "b", "t", "n":
    two modules of five parts.
    """
    steps: list[ModulePathStep] = []
    index = 0
    while index + 1 < len(parts) and parts[index] == "module" and isinstance(parts[index + 1], str):
        name = str(parts[index + 1])
        index += 2
        following = parts[index] if index < len(parts) else ""
        # An instance key.
        if isinstance(following, tuple):
            steps.append(ModulePathStep(name, following[0]))
            index += 1
        else:
            steps.append(ModulePathStep(name))
    return tuple(steps), index


def _build_invalid_address_error(traversal: Traversal, reason: str) -> Diagnostic:
    return build_error(
        "invalid-address",
        f"This is not the address of a resource or module: {reason}.",
        traversal.span,
    )
