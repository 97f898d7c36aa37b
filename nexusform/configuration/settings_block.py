"""The `nexusform` block: which version, which catalogue, where state lives, which lint rules rest, and its
`encryption` block: key providers, methods, and what is encrypted with which.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from nexusform import __version__
from nexusform.configuration.declared.configuration import (
    Encryption,
    EncryptionTarget,
    KeyProviderBlock,
    MethodName,
    Settings,
)
from nexusform.configuration.declared.constants import (
    constant_flag,
    constant_number,
    constant_text,
    constant_texts,
)
from nexusform.configuration.declared.limits import FIXED, NAMES
from nexusform.configuration.written import only_block, reference
from nexusform.diagnostics import Diagnostic, error, warning
from nexusform.language.bodies import BodySchema, content
from nexusform.language.bodies import just_attributes as arguments_of
from nexusform.language.syntax.nodes import Attribute, Block, Body, JsonBody, Traversal, TraverseAttribute
from nexusform.language.syntax.positions import describe
from nexusform.source import Span

SETTINGS_FACE = BodySchema(
    attributes={"required_version": False, "sku_catalogue": False},
    blocks={"backend": ("type",), "lint": (), "encryption": (), "limits": ()},
)
_LINT = BodySchema(attributes={"ignore": False})
_LIMITS = BodySchema(attributes=dict.fromkeys((*NAMES, *FIXED), False))


def decode_settings(
    blocks: Sequence[Block], overrides: Sequence[Block], problems: list[Diagnostic], *, root: bool
) -> Settings:
    """What all `nexusform` blocks of a module say together; those of override files win."""
    settings = Settings()
    for block in blocks:
        settings = _add(settings, block, problems, override=False)
    for block in overrides:
        settings = _add(settings, block, problems, override=True)
    if not root:
        _only_in_root(settings, problems)
        return Settings()
    return settings


def _add(settings: Settings, block: Block, problems: list[Diagnostic], *, override: bool) -> Settings:
    """The settings with what one more block says."""
    parts, wrong = content(block.body, SETTINGS_FACE)
    problems.extend(wrong)
    arguments = parts.attributes
    settings = replace(settings, span=settings.span or block.header_span)
    if "required_version" in arguments:
        version = _required_version(arguments["required_version"], problems)
        settings = replace(settings, required_version=version)
    catalogue = constant_text(arguments.get("sku_catalogue"), problems)
    if catalogue is not None:
        span = arguments["sku_catalogue"].expression.span
        if settings.sku_catalogue_span is not None and not override:
            problems.append(_twice("sku_catalogue", settings.sku_catalogue_span, arguments["sku_catalogue"]))
        settings = replace(settings, sku_catalogue=catalogue, sku_catalogue_span=span)
    lint = only_block(parts.blocks, "lint", problems)
    if lint is not None:
        inner, wrong = content(lint.body, _LINT)
        problems.extend(wrong)
        ignored = frozenset(constant_texts(inner.attributes.get("ignore"), problems))
        settings = replace(settings, ignored_rules=settings.ignored_rules | ignored)
    encryption = only_block(parts.blocks, "encryption", problems)
    if encryption is not None:
        settings = replace(settings, encryption=decode_encryption(encryption.body, problems))
    limits = only_block(parts.blocks, "limits", problems)
    if limits is not None:
        settings = replace(settings, limits={**settings.limits, **_limits(limits, problems)})
    backend = only_block(parts.blocks, "backend", problems)
    if backend is None:
        return settings
    if settings.backend is not None and not override:
        detail = (
            "A module may have only one backend configuration. It was already given at "
            f"{describe(settings.backend.header_span)}."
        )
        problems.append(error("duplicate-backend-configuration", detail, backend.header_span))
        return settings
    return replace(settings, backend=backend, backend_type=backend.labels[0].value)


def _limits(block: Block, problems: list[Diagnostic]) -> dict[str, int]:
    """The limits that a block sets."""
    inner, wrong = content(block.body, _LIMITS)
    problems.extend(wrong)
    limits: dict[str, int] = {}
    for name, attribute in inner.attributes.items():
        if name in FIXED:
            problems.append(error("unsupported-argument", FIXED[name], attribute.name_span))
            continue
        number = constant_number(attribute, problems)
        if number is None:
            continue
        if number != int(number) or not 0 <= number < 10**15:
            detail = f'Inappropriate value for "{name}": a whole number from 0 on is required.'
            problems.append(error("unsuitable-value-type", detail, attribute.expression.span))
            continue
        limits[name] = int(number)
    return limits


def _twice(name: str, earlier: Span, attribute: Attribute) -> Diagnostic:
    detail = f'The setting "{name}" was already given at {describe(earlier)}.'
    return error("duplicate-setting", detail, attribute.name_span)


def _required_version(attribute: Attribute, problems: list[Diagnostic]) -> str:
    """The constraint on the version of nexusform; it is said when this one does not fulfil it."""
    constraint = constant_text(attribute, problems)
    if constraint is None:
        return ""
    kept = satisfies(__version__, constraint)
    if kept is None:
        detail = (
            f'"{constraint}" is not a version constraint. Write comparisons separated by commas, for example '
            '">= 0.1, < 2".'
        )
        problems.append(error("invalid-version-constraint", detail, attribute.expression.span))
    elif not kept:
        detail = (
            f"This configuration asks for nexusform {constraint}; this is version {__version__}. Use another "
            "version of nexusform, or change the constraint. Constraints are normally set for good reason."
        )
        problems.append(error("unsupported-nexusform-version", detail, attribute.expression.span))
    return constraint


def _only_in_root(settings: Settings, problems: list[Diagnostic]) -> None:
    """Warn of settings that have no effect outside the root module."""
    if settings.backend is not None:
        detail = "State belongs to the root module: a backend block in any other module has no effect."
        problems.append(warning("backend-configuration-ignored", detail, settings.backend.header_span))
    if settings.sku_catalogue_span is not None:
        detail = "The catalogue is a setting of the root module; in any other module it has no effect."
        problems.append(warning("sku-catalogue-ignored", detail, settings.sku_catalogue_span))
    if settings.limits:
        detail = "Limits are those of the whole plan: in any module but the root they have no effect."
        problems.append(warning("limits-ignored", detail, settings.span))


# --- version constraints: `>= 0.1, < 2`, `~> 1.2`, `!= 1.3.0` --------------------------------

_TERM = re.compile(r"\s*(=|!=|>=|<=|>|<|~>)?\s*v?(\d+(?:\.\d+){0,2})(-[0-9A-Za-z.-]+)?\s*")
_Version = tuple[int, int, int]

_COMPARE: Final[Mapping[str, Callable[[_Version, _Version], bool]]] = {
    "": lambda have, want: have == want,
    "=": lambda have, want: have == want,
    "!=": lambda have, want: have != want,
    ">": lambda have, want: have > want,
    "<": lambda have, want: have < want,
    ">=": lambda have, want: have >= want,
    "<=": lambda have, want: have <= want,
}


def satisfies(version: str, constraint: str) -> bool | None:
    """Whether the version keeps every term of the constraint; None when that is no constraint.

    Pre-release and build suffixes are left out of the comparison.
    """
    terms = [_TERM.fullmatch(part) for part in constraint.split(",")]
    have = _numbers(re.split(r"[^0-9.]", version, maxsplit=1)[0])
    kept = True
    for term in terms:
        if term is None:
            return None
        operator, want = term.group(1) or "", term.group(2)
        if operator == "~>":
            kept = kept and _numbers(want) <= have < _above(want)
        else:
            kept = kept and _COMPARE[operator](have, _numbers(want))
    return kept


def _numbers(text: str) -> _Version:
    parts = [int(p) for p in text.split(".") if p]
    first, second, third = [*parts, 0, 0, 0][:3]
    return first, second, third


def _above(text: str) -> _Version:
    # `~> 1.2.3` allows the last part to grow: below 1.3; `~> 1.2`: below 2.
    parts = [int(p) for p in text.split(".")]
    if len(parts) == 3:
        return parts[0], parts[1] + 1, 0
    return parts[0] + 1, 0, 0


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
    return Encryption(
        key_providers=providers,
        methods=methods,
        state=targets.get("state"),
        plan=targets.get("plan"),
        readers=readers,
    )


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
    """What encrypts state or plans, with what else may decrypt them."""
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
    """The method that an argument names; None, and a problem, when none of that name is declared."""
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
