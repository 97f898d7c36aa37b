"""`nexusform` block: version, catalogue, backend, ignored lint rules and encryption."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from nexusform import __version__
from nexusform.configuration.declarations.configuration import (
    Encryption,
    EncryptionTarget,
    KeyProviderBlock,
    MethodName,
    Settings,
)
from nexusform.configuration.declarations.limits import FIXED_LIMITS, NAMES
from nexusform.configuration.static_arguments import (
    evaluate_bool,
    evaluate_number,
    evaluate_string,
    evaluate_string_list,
    find_single_block,
    parse_reference,
    unpack_result,
)
from nexusform.configuration.version_constraints import is_constraint_valid, is_version_matching
from nexusform.diagnostics.diagnostic import Diagnostic, build_error, build_warning
from nexusform.language.body_decoding import BodySchema, decode_body
from nexusform.language.body_decoding import decode_attributes as arguments_of
from nexusform.language.syntax.scanner import describe_span
from nexusform.language.syntax.syntax_nodes import (
    Attribute,
    Block,
    Body,
    JsonBody,
    TraverseAttribute,
)

SETTINGS_SCHEMA = BodySchema(
    attributes={"required_version": False, "sku_catalogue": False},
    blocks={"backend": ("type",), "lint": (), "encryption": (), "limits": ()},
)
_LINT_SCHEMA = BodySchema(attributes={"ignore": False})
_LIMITS_SCHEMA = BodySchema(attributes=dict.fromkeys((*NAMES, *FIXED_LIMITS), False))


def decode_settings(
    blocks: Sequence[Block],
    overrides: Sequence[Block],
    problems: list[Diagnostic],
    *,
    is_root: bool,
) -> Settings:
    """Decode the settings of a module, override files last.

    Outside the root module, warn and return the defaults.
    """
    settings = Settings()
    for block in blocks:
        settings = _add_block(settings, block, problems, is_override=False)
    for block in overrides:
        settings = _add_block(settings, block, problems, is_override=True)
    if not is_root:
        if settings.backend is not None:
            detail = (
                "A backend block has no effect outside the root module. Move it to the root module."
            )
            problems.append(
                build_warning("backend-configuration-ignored", detail, settings.backend.header_span)
            )
        if settings.sku_catalogue_span is not None:
            detail = (
                "The catalogue setting has no effect outside the root module. Move it to the root "
                "module."
            )
            problems.append(
                build_warning("sku-catalogue-ignored", detail, settings.sku_catalogue_span)
            )
        if settings.limits or settings.ignored_rules or settings.encryption is not None:
            detail = (
                "Blocks limits, lint and encryption have no effect outside the root module. Move "
                "them there."
            )
            problems.append(build_warning("settings-ignored", detail, settings.span))
        return Settings()
    return settings


def _add_block(
    settings: Settings, block: Block, problems: list[Diagnostic], *, is_override: bool
) -> Settings:
    """Return the settings extended by one block.

    A second backend or SKU catalogue is an error except in overrides.
    """
    parts = unpack_result(decode_body(block.body, SETTINGS_SCHEMA), problems)
    arguments = parts.attributes
    # The place of the first block.
    settings = replace(settings, span=settings.span or block.header_span)
    if "required_version" in arguments:
        _check_required_version(arguments["required_version"], problems)
    catalogue = evaluate_string(arguments.get("sku_catalogue"), problems)
    if catalogue is not None:
        span = arguments["sku_catalogue"].expression.span
        if settings.sku_catalogue_span is not None and not is_override:
            detail = (
                'The setting "sku_catalogue" was already given at '
                f"{describe_span(settings.sku_catalogue_span)}."
            )
            problems.append(
                build_error("duplicate-setting", detail, arguments["sku_catalogue"].name_span)
            )
        settings = replace(settings, sku_catalogue=catalogue, sku_catalogue_span=span)
    lint = find_single_block(parts.blocks, "lint", problems)
    if lint is not None:
        inner = unpack_result(decode_body(lint.body, _LINT_SCHEMA), problems)
        ignore = inner.attributes.get("ignore")
        if ignore is not None:
            ignored = dict.fromkeys(evaluate_string_list(ignore, problems), ignore.expression.span)
            settings = replace(settings, ignored_rules={**settings.ignored_rules, **ignored})
    encryption = find_single_block(parts.blocks, "encryption", problems)
    if encryption is not None:
        settings = replace(settings, encryption=decode_encryption_block(encryption.body, problems))
    limits = find_single_block(parts.blocks, "limits", problems)
    if limits is not None:
        settings = replace(settings, limits={**settings.limits, **_decode_limits(limits, problems)})
    backend = find_single_block(parts.blocks, "backend", problems)
    if backend is None:
        return settings
    if settings.backend is not None and not is_override:
        detail = (
            "A module may have only one backend configuration. It was already given at "
            f"{describe_span(settings.backend.header_span)}."
        )
        problems.append(build_error("duplicate-backend-configuration", detail, backend.header_span))
        return settings
    # Its only label is the type.
    return replace(settings, backend=backend, backend_type=backend.labels[0].value)


def _decode_limits(block: Block, problems: list[Diagnostic]) -> dict[str, int]:
    """Decode the limits by name.

    Limits with a problem are omitted.
    """
    inner = unpack_result(decode_body(block.body, _LIMITS_SCHEMA), problems)
    limits: dict[str, int] = {}
    for name, attribute in inner.attributes.items():
        # With the reason why it is fixed.
        if name in FIXED_LIMITS:
            problems.append(
                build_error("unsupported-argument", FIXED_LIMITS[name], attribute.name_span)
            )
            continue
        number = evaluate_number(attribute, problems)
        if number is None:
            # It is null, or reported as invalid.
            continue
        if number != int(number) or not 0 <= number < 10**15:
            detail = f'Inappropriate value for "{name}": a whole number from 0 on is required.'
            problems.append(build_error("unsuitable-value-type", detail, attribute.expression.span))
            continue
        limits[name] = int(number)
    return limits


def _check_required_version(attribute: Attribute, problems: list[Diagnostic]) -> None:
    """Check that this version satisfies the version constraint."""
    constraint = evaluate_string(attribute, problems)
    if constraint is None:
        # It is null, or reported as invalid.
        return
    is_satisfied = is_version_allowed(__version__, constraint)
    if is_satisfied is None:
        detail = (
            f'"{constraint}" is not a version constraint. Write comparisons separated by commas, '
            'for example ">= 0.1, < 2".'
        )
        problems.append(
            build_error("invalid-version-constraint", detail, attribute.expression.span)
        )
    elif not is_satisfied:
        detail = (
            f"This configuration requires nexusform {constraint}; this is version {__version__}. "
            "Use another version of nexusform, or change the constraint."
        )
        problems.append(
            build_error("unsupported-nexusform-version", detail, attribute.expression.span)
        )


def is_version_allowed(version: str, constraint: str) -> bool | None:
    """Check whether the version, without a suffix, satisfies every term of the constraint.

    Return None for an invalid constraint.
    """
    if not is_constraint_valid(constraint):
        return None
    release = re.split(r"[^0-9.]", version, maxsplit=1)[0]
    return is_version_matching(release, constraint)


UNENCRYPTED: Final = "unencrypted"
AES_GCM: Final = "aes_gcm"
METHODS: Final = (AES_GCM, UNENCRYPTED)

_ENCRYPTION_SCHEMA: Final = BodySchema(
    blocks={
        "key_provider": ("type", "name"),
        "method": ("type", "name"),
        "state": (),
        "plan": (),
        "remote_state_data_sources": (),
    }
)
_READERS_SCHEMA: Final = BodySchema(blocks={"default": (), "remote_state_data_source": ("name",)})
_METHOD_SCHEMA: Final = BodySchema(attributes={"keys": False})
_TARGET_SCHEMA: Final = BodySchema(
    attributes={"method": True, "enforced": False}, blocks={"fallback": ()}
)
_FALLBACK_SCHEMA: Final = BodySchema(attributes={"method": True}, blocks={"fallback": ()})


def decode_encryption_block(body: Body | JsonBody, problems: list[Diagnostic]) -> Encryption:
    """Decode the body of an `encryption` block; errors are added to `problems`.

    A method is named by its two labels, a type and a name: ("aes_gcm", "main"). It may use a key
    provider, which is named in the same way. The blocks `state`, `plan` and
    `remote_state_data_sources` refer to methods.
    """
    parts = unpack_result(decode_body(body, _ENCRYPTION_SCHEMA), problems)
    providers: dict[MethodName, KeyProviderBlock] = {}
    # The key provider's name by method; None without one.
    methods: dict[MethodName, MethodName | None] = {}
    # Targets by "state" or "plan".
    targets: dict[str, EncryptionTarget] = {}
    # By name of a data block; "" is the default.
    readers: dict[str, EncryptionTarget] = {}
    _reject_repeated_blocks(parts.blocks, problems)
    for block in parts.blocks:
        if block.type == "key_provider":
            attributes = unpack_result(arguments_of(block.body), problems)
            values = {
                name: evaluate_string(attribute, problems) for name, attribute in attributes.items()
            }
            settings = {name: value for name, value in values.items() if value is not None}
            providers[_get_method_name(block)] = KeyProviderBlock(
                *_get_method_name(block), settings, block.header_span
            )
        elif block.type == "method":
            methods[_get_method_name(block)] = _decode_encryption_method(block, problems)
    # Uses of methods are read last, since a method may be declared below its use.
    for block in parts.blocks:
        if block.type in ("state", "plan"):
            target = _decode_encryption_target(block, methods, problems)
            if target is not None:
                targets[block.type] = target
        elif block.type == "remote_state_data_sources":
            readers |= _decode_state_reader_methods(block, methods, problems)
    for (kind, name), provider in methods.items():
        if provider is not None and provider not in providers:
            detail = (
                f"The method {kind}.{name} refers to key_provider.{'.'.join(provider)}, which is "
                "not declared."
            )
            problems.append(build_error("invalid-encryption-block", detail, parts.end_span))
    return Encryption(
        key_providers=providers,
        methods=methods,
        state=targets.get("state"),
        plan=targets.get("plan"),
        readers=readers,
    )


def _reject_repeated_blocks(blocks: Sequence[Block], problems: list[Diagnostic]) -> None:
    """Add an error for each block with the type and labels of an earlier one.

    Only one of them would apply.
    """
    seen: set[tuple[str, ...]] = set()
    for block in blocks:
        name = (block.type, *(label.value for label in block.labels))
        if name in seen:
            detail = f"The block {'.'.join(name)} is declared twice. Remove one of them."
            problems.append(build_error("invalid-encryption-block", detail, block.header_span))
        seen.add(name)


def _get_method_name(block: Block) -> MethodName:
    return block.labels[0].value, block.labels[1].value


def _decode_encryption_method(block: Block, problems: list[Diagnostic]) -> MethodName | None:
    """Return type and name of the key provider of a method.

    It is None for `unencrypted`, or after a diagnostic.
    """
    kind, _ = _get_method_name(block)
    parts = unpack_result(decode_body(block.body, _METHOD_SCHEMA), problems)
    if kind not in METHODS:
        detail = f'There is no method "{kind}". Known are: {", ".join(METHODS)}.'
        problems.append(build_error("invalid-encryption-block", detail, block.header_span))
        return None
    keys = parts.attributes.get("keys")
    if kind == UNENCRYPTED:
        # It has no key.
        return None
    if keys is None:
        detail = f'The method "{kind}" needs `keys = key_provider.TYPE.NAME`.'
        problems.append(build_error("invalid-encryption-block", detail, block.header_span))
        return None
    return _decode_labels_of_reference(keys, "key_provider", problems)


def _decode_encryption_target(
    block: Block, methods: Mapping[MethodName, MethodName | None], problems: list[Diagnostic]
) -> EncryptionTarget | None:
    """Decode the method of a `state`, `plan` or data source block, with fallbacks.

    Return None without a valid method.
    """
    parts = unpack_result(decode_body(block.body, _TARGET_SCHEMA), problems)
    method = _decode_method_reference(parts.attributes.get("method"), methods, problems)
    enforced = evaluate_bool(parts.attributes.get("enforced"), problems, default=False)
    fallbacks: list[MethodName] = []
    nested_blocks = parts.blocks
    # Each fallback is nested in the one before it.
    while nested_blocks:
        _reject_repeated_blocks(nested_blocks, problems)
        fallback = unpack_result(decode_body(nested_blocks[0].body, _FALLBACK_SCHEMA), problems)
        name = _decode_method_reference(fallback.attributes.get("method"), methods, problems)
        if name is not None:
            fallbacks.append(name)
        nested_blocks = fallback.blocks
    if method is None:
        return None  # reported
    # A method is a type and a name.
    if enforced and method[0] == UNENCRYPTED:
        detail = (
            "`enforced = true` does not allow the method unencrypted for writing. Use another "
            "method."
        )
        problems.append(build_error("invalid-encryption-block", detail, block.header_span))
    return EncryptionTarget(method, tuple(fallbacks), enforced)


def _decode_state_reader_methods(
    block: Block, methods: Mapping[MethodName, MethodName | None], problems: list[Diagnostic]
) -> dict[str, EncryptionTarget]:
    """Decode the valid methods to read states of other configurations, by data block name.

    The name "" stands for the default.
    """
    parts = unpack_result(decode_body(block.body, _READERS_SCHEMA), problems)
    readers: dict[str, EncryptionTarget] = {}
    for nested in parts.blocks:
        target = _decode_encryption_target(nested, methods, problems)
        if target is not None:
            readers[nested.labels[0].value if nested.labels else ""] = target
    return readers


def _decode_method_reference(
    attribute: Attribute | None,
    methods: Mapping[MethodName, MethodName | None],
    problems: list[Diagnostic],
) -> MethodName | None:
    """Return type and name of the method referenced by an argument.

    Return None, and add a problem, if the method is not declared.
    """
    if attribute is None:
        # The schema reports it: the argument is required.
        return None
    name = _decode_labels_of_reference(attribute, "method", problems)
    if name is not None and name not in methods:
        detail = f'There is no block method "{name[0]}" "{name[1]}".'
        problems.append(build_error("invalid-encryption-block", detail, attribute.expression.span))
        return None
    return name


def _decode_labels_of_reference(
    attribute: Attribute, root: str, problems: list[Diagnostic]
) -> MethodName | None:
    """Return TYPE and NAME of a reference `root.TYPE.NAME`.

    Report anything else and return None.
    """
    traversal = parse_reference(attribute.expression, problems)
    if traversal is None:
        return None  # reported
    match traversal.steps:
        case [TraverseAttribute(kind), TraverseAttribute(name)] if traversal.root.name == root:
            return kind, name
    detail = f"A reference of the form {root}.TYPE.NAME is needed here."
    problems.append(build_error("invalid-encryption-block", detail, attribute.expression.span))
    return None
