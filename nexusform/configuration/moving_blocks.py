"""`moved`, `removed` and `import` blocks: what happens to objects that state knows already."""

from __future__ import annotations

from nexusform.address import AddressPattern, Key, Mode, ModuleStep
from nexusform.configuration.declared.configuration import ImportBlock, Moved, Removed
from nexusform.configuration.declared.constants import constant_flag
from nexusform.configuration.resource_blocks import provider_key
from nexusform.configuration.written import as_expression, only_block, reference
from nexusform.diagnostics import Diagnostic, error
from nexusform.language.bodies import BodySchema, content
from nexusform.language.syntax.nodes import (
    Attribute,
    Block,
    Expression,
    Index,
    RelativeTraversal,
    Traversal,
    TraverseAttribute,
    TraverseIndex,
)

MOVED_FACE = BodySchema(attributes={"from": True, "to": True})
REMOVED_FACE = BodySchema(attributes={"from": True}, blocks={"lifecycle": ()})
IMPORT_FACE = BodySchema(attributes={"to": True, "id": True, "for_each": False, "provider": False})
# Names that no resource type can have.
_RESERVED = ("count", "each", "local", "nexusform", "path", "self", "terraform", "var")
_LIFECYCLE = BodySchema(attributes={"destroy": True})


def decode_moved(block: Block, problems: list[Diagnostic]) -> Moved | None:
    """A `moved` block; None when one of its ends is no address."""
    parts, wrong = content(block.body, MOVED_FACE)
    problems.extend(wrong)
    source = _pattern(parts.attributes.get("from"), problems)
    target = _pattern(parts.attributes.get("to"), problems)
    if source is None or target is None:
        return None
    if bool(source.type) != bool(target.type) or source.mode != target.mode:
        detail = "Both ends of a move must name the same kind of thing: two modules or two resources."
        problems.append(error("invalid-moved-addresses", detail, block.header_span))
        return None
    if source == target:
        detail = "Both ends of this move are the same address: nothing moves. Remove the block."
        problems.append(error("invalid-moved-addresses", detail, block.header_span))
        return None
    return Moved(source, target, block.header_span)


def decode_removed(block: Block, problems: list[Diagnostic]) -> Removed | None:
    """A `removed` block; None when it names nothing that can be removed."""
    parts, wrong = content(block.body, REMOVED_FACE)
    problems.extend(wrong)
    attribute = parts.attributes.get("from")
    source = _pattern(attribute, problems)
    destroy = True
    lifecycle = only_block(parts.blocks, "lifecycle", problems)
    if lifecycle is not None:
        inner, wrong = content(lifecycle.body, _LIFECYCLE)
        problems.extend(wrong)
        destroy = constant_flag(inner.attributes.get("destroy"), problems, default=True)
    if source is None or attribute is None:
        return None
    if source.key is not None or any(step.key is not None for step in source.module):
        module = source.key is None
        kind = "module-instance-keys-not-allowed" if module else "resource-instance-keys-not-allowed"
        detail = "A removed block names all instances: write the address without keys in brackets."
        problems.append(error(kind, detail, attribute.expression.span))
        return None
    return Removed(source, destroy, block.header_span)


def decode_import(block: Block, problems: list[Diagnostic]) -> ImportBlock | None:
    """An `import` block; None when it lacks its parts or `to` is no resource."""
    parts, wrong = content(block.body, IMPORT_FACE)
    problems.extend(wrong)
    arguments = parts.attributes
    target, object_id, for_each = arguments.get("to"), arguments.get("id"), arguments.get("for_each")
    if target is None or object_id is None:
        return None
    expression = as_expression(target.expression, problems)
    if expression is None:
        return None
    if not _names_resource(expression):
        detail = 'The "to" argument must name a resource or one of its instances, e.g. nexus_rack.r1.'
        problems.append(error("invalid-import-address", detail, target.expression.span))
        return None
    return ImportBlock(
        to=expression,
        id=object_id.expression,
        for_each=for_each.expression if for_each else None,
        span=block.header_span,
        provider=provider_key(arguments.get("provider"), problems),
    )


def _names_resource(expression: Expression) -> bool:
    """Whether an address names resources of this configuration, with any key."""
    if isinstance(expression, Traversal):
        quiet: list[Diagnostic] = []
        pattern = pattern_of(expression, quiet)
        return pattern is not None and bool(pattern.type) and pattern.mode == "managed"
    if isinstance(expression, Index):
        return _names_resource(expression.collection)
    return isinstance(expression, RelativeTraversal) and isinstance(expression.source, Index)


def _pattern(attribute: Attribute | None, problems: list[Diagnostic]) -> AddressPattern | None:
    if attribute is None:
        return None
    traversal = reference(attribute.expression, problems)
    return pattern_of(traversal, problems) if traversal is not None else None


def pattern_of(traversal: Traversal, problems: list[Diagnostic]) -> AddressPattern | None:
    """The address that a traversal writes: `module.a["k"].data.t.n[0]`; None after a diagnostic."""
    words: list[str | tuple[Key]] = [traversal.root.name]
    for step in traversal.steps:
        if isinstance(step, TraverseAttribute):
            words.append(step.name)
        elif isinstance(step, TraverseIndex) and isinstance(step.key, (str, int)):
            words.append((step.key,))
        else:
            problems.append(_no_address(traversal, "an instance key is a whole number or a string"))
            return None
    module, at = _module_steps(words)
    rest = words[at:]
    if not rest and module:
        return AddressPattern(module)
    mode: Mode = "managed"
    if rest[:1] == ["data"]:
        mode, rest = "data", rest[1:]
    if rest[:1] and rest[0] in _RESERVED:
        problems.append(_no_address(traversal, f'"{rest[0]}" stands for something else in expressions'))
        return None
    match rest:
        case [str(kind), str(name)]:
            return AddressPattern(module, mode, kind, name)
        case [str(kind), str(name), (key,)]:
            return AddressPattern(module=module, mode=mode, type=kind, name=name, key=key)
    problems.append(_no_address(traversal, "expected TYPE.NAME, module.NAME or a path of both"))
    return None


def _module_steps(words: list[str | tuple[Key]]) -> tuple[tuple[ModuleStep, ...], int]:
    """The modules at the beginning of an address, and how many words they take."""
    steps: list[ModuleStep] = []
    at = 0
    while at + 1 < len(words) and words[at] == "module" and isinstance(words[at + 1], str):
        name = str(words[at + 1])
        at += 2
        following = words[at] if at < len(words) else ""
        if isinstance(following, tuple):
            steps.append(ModuleStep(name, following[0]))
            at += 1
        else:
            steps.append(ModuleStep(name))
    return tuple(steps), at


def _no_address(traversal: Traversal, why: str) -> Diagnostic:
    return error("invalid-address", f"This is no address of a resource or module: {why}.", traversal.span)
