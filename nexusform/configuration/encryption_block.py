"""The `encryption` block of the settings: key providers, methods, and what is encrypted with which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nexusform.configuration.configuration import Encryption, EncryptionTarget, KeyProviderBlock, MethodName
from nexusform.configuration.constants import constant_flag, constant_text
from nexusform.configuration.written import reference
from nexusform.diagnostics import Diagnostic, error
from nexusform.language.bodies import BodySchema, content
from nexusform.language.bodies import just_attributes as arguments_of
from nexusform.language.syntax import Attribute, Block, Body, JsonBody, Traversal, TraverseAttribute
from nexusform.source import Span

UNENCRYPTED: Final = "unencrypted"
AES_GCM: Final = "aes_gcm"
METHODS: Final = (AES_GCM, UNENCRYPTED)

_ENCRYPTION: Final = BodySchema(
    blocks={
        "key_provider": ("type", "name"),
        "method": ("type", "name"),
        "state": (),
        "plan": (),
        "remote_state_data_sources": (),
    }
)
_READERS: Final = BodySchema(blocks={"default": (), "remote_state_data_source": ("name",)})
_METHOD: Final = BodySchema(attributes={"keys": False})
_TARGET: Final = BodySchema(attributes={"method": True, "enforced": False}, blocks={"fallback": ()})
_FALLBACK: Final = BodySchema(attributes={"method": True}, blocks={"fallback": ()})


def decode_encryption(body: Body | JsonBody, problems: list[Diagnostic]) -> Encryption:
    """What the body of an `encryption` block says; mistakes are added to `problems`."""
    parts, wrong = content(body, _ENCRYPTION)
    problems.extend(wrong)
    providers: dict[MethodName, KeyProviderBlock] = {}
    methods: dict[MethodName, MethodName | None] = {}
    targets: dict[str, EncryptionTarget] = {}
    readers: dict[str, EncryptionTarget] = {}
    for block in parts.blocks:
        if block.type == "key_provider":
            providers[_name(block)] = _key_provider(block, problems)
        elif block.type == "method":
            methods[_name(block)] = _method(block, problems)
    for block in parts.blocks:
        if block.type in ("state", "plan"):
            target = _target(block, methods, problems)
            if target is not None:
                targets[block.type] = target
        elif block.type == "remote_state_data_sources":
            readers |= _readers(block, methods, problems)
    problems.extend(_unknown_keys(methods, providers, parts.end_span))
    return Encryption(providers, methods, targets.get("state"), targets.get("plan"), readers)


def _name(block: Block) -> MethodName:
    return block.labels[0].value, block.labels[1].value


def _key_provider(block: Block, problems: list[Diagnostic]) -> KeyProviderBlock:
    attributes, wrong = arguments_of(block.body)
    problems.extend(wrong)
    values = {name: constant_text(attribute, problems) for name, attribute in attributes.items()}
    settings = {name: value for name, value in values.items() if value is not None}
    return KeyProviderBlock(*_name(block), settings, block.header_span)


def _method(block: Block, problems: list[Diagnostic]) -> MethodName | None:
    """The key provider that a method takes its keys from; None where it needs none."""
    kind, _ = _name(block)
    parts, wrong = content(block.body, _METHOD)
    problems.extend(wrong)
    if kind not in METHODS:
        detail = f'There is no method "{kind}". Known are: {", ".join(METHODS)}.'
        problems.append(error("invalid-encryption-block", detail, block.header_span))
        return None
    keys = parts.attributes.get("keys")
    if kind == UNENCRYPTED:
        return None
    if keys is None:
        detail = f'The method "{kind}" needs `keys = key_provider.TYPE.NAME`.'
        problems.append(error("invalid-encryption-block", detail, block.header_span))
        return None
    return _named(keys, "key_provider", problems)


def _target(
    block: Block, methods: Mapping[MethodName, MethodName | None], problems: list[Diagnostic]
) -> EncryptionTarget | None:
    parts, wrong = content(block.body, _TARGET)
    problems.extend(wrong)
    method = _known_method(parts.attributes.get("method"), methods, problems)
    enforced = constant_flag(parts.attributes.get("enforced"), problems, default=False)
    fallbacks: list[MethodName] = []
    inner = parts.blocks
    while inner:
        fallback, wrong = content(inner[0].body, _FALLBACK)
        problems.extend(wrong)
        name = _known_method(fallback.attributes.get("method"), methods, problems)
        if name is not None:
            fallbacks.append(name)
        inner = fallback.blocks
    if method is None:
        return None
    if enforced and method[0] == UNENCRYPTED:
        detail = "`enforced = true` forbids the method unencrypted for writing; name another one."
        problems.append(error("invalid-encryption-block", detail, block.header_span))
    return EncryptionTarget(method, tuple(fallbacks), enforced)


def _readers(
    block: Block, methods: Mapping[MethodName, MethodName | None], problems: list[Diagnostic]
) -> dict[str, EncryptionTarget]:
    """How data blocks open other states, by the names of the blocks; "" is the default."""
    parts, wrong = content(block.body, _READERS)
    problems.extend(wrong)
    readers: dict[str, EncryptionTarget] = {}
    for inner in parts.blocks:
        target = _target(inner, methods, problems)
        if target is not None:
            readers[inner.labels[0].value if inner.labels else ""] = target
    return readers


def _known_method(
    attribute: Attribute | None,
    methods: Mapping[MethodName, MethodName | None],
    problems: list[Diagnostic],
) -> MethodName | None:
    if attribute is None:
        return None
    name = _named(attribute, "method", problems)
    if name is not None and name not in methods:
        detail = f'There is no block method "{name[0]}" "{name[1]}".'
        problems.append(error("invalid-encryption-block", detail, attribute.expression.span))
        return None
    return name


def _named(attribute: Attribute, root: str, problems: list[Diagnostic]) -> MethodName | None:
    """The two labels that `ROOT.TYPE.NAME` names; None after a diagnostic."""
    traversal = reference(attribute.expression, problems)
    if traversal is None:
        return None
    names = _words(traversal)
    if len(names) == 3 and names[0] == root:
        return names[1], names[2]
    detail = f"A reference of the form {root}.TYPE.NAME is needed here."
    problems.append(error("invalid-encryption-block", detail, attribute.expression.span))
    return None


def _words(traversal: Traversal) -> list[str]:
    steps = [step.name for step in traversal.steps if isinstance(step, TraverseAttribute)]
    return [traversal.root.name, *steps]


def _unknown_keys(
    methods: Mapping[MethodName, MethodName | None],
    providers: Mapping[MethodName, KeyProviderBlock],
    span: Span,
) -> list[Diagnostic]:
    """Methods whose key provider does not stand here."""
    return [
        error(
            "invalid-encryption-block",
            f"The method {kind}.{name} takes its keys from key_provider.{keys[0]}.{keys[1]}: no such block.",
            span,
        )
        for (kind, name), keys in methods.items()
        if keys is not None and keys not in providers
    ]
