"""`module` and `provider` blocks."""

from collections.abc import Sequence

from nexusform.configuration.declarations.configuration import CallHeader, ProviderBlock
from nexusform.configuration.remote_modules.module_sources import (
    InvalidModuleSource,
    hide_server_parameters,
    is_local_path,
    parse_module_source,
)
from nexusform.configuration.resource_blocks import (
    PROVIDER_WORDS,
    check_enabled_repetition,
    read_repetition,
    remove_decoded_parts,
)
from nexusform.configuration.static_arguments import (
    EMPTY_SCOPE,
    check_name,
    evaluate_required_text,
    evaluate_string,
    find_single_block,
    get_expression,
    is_valid_name,
    parse_references,
    unpack_result,
)
from nexusform.configuration.version_constraints import is_constraint_valid
from nexusform.diagnostics.diagnostic import Diagnostic, Span, build_error
from nexusform.language.body_decoding import BodySchema, decode_attributes, decode_body
from nexusform.language.evaluation_run import Scope
from nexusform.language.syntax.syntax_nodes import Attribute, Block, Expression

MODULE_SCHEMA = BodySchema(
    attributes={
        "source": True,
        "version": False,
        "providers": False,
        "count": False,
        "for_each": False,
        "depends_on": False,
    },
    blocks={"lifecycle": ()},
)
_RESERVED_FOR_PROVIDERS = ("count", "depends_on", "for_each", "source")
PROVIDER_SCHEMA = BodySchema(attributes=dict.fromkeys(("alias", *_RESERVED_FOR_PROVIDERS), False))


def decode_module_call(
    block: Block, problems: list[Diagnostic], scope: Scope = EMPTY_SCOPE
) -> CallHeader | None:
    """Decode a `module` block; None if its name is invalid.

    `scope` has the constants usable in its source.
    """
    label = block.labels[0]
    has_valid_name = check_name(label, "invalid-module-instance-name", problems)
    parts = unpack_result(decode_body(block.body, MODULE_SCHEMA, partial=True), problems)
    inputs = unpack_result(
        decode_attributes(remove_decoded_parts(block.body, MODULE_SCHEMA)), problems
    )
    arguments = parts.attributes
    if "providers" in arguments:
        detail = (
            "Every module uses the provider configurations of the root module. Remove the argument."
        )
        problems.append(
            build_error("unsupported-argument", detail, arguments["providers"].name_span)
        )
    count, for_each = read_repetition(arguments, "module", problems)
    enabled = _decode_module_enabled(parts.blocks, problems)
    problems.extend(check_enabled_repetition(enabled, count, for_each))
    depends_on = parse_references(arguments.get("depends_on"), problems)
    source_span = (
        arguments["source"].expression.span if "source" in arguments else block.header_span
    )
    source = evaluate_required_text(arguments.get("source"), problems, scope)
    if source is not None and hide_server_parameters(source) != source:
        # Messages show the lines of a span, and the parameters of a server may be a secret.
        source_span = block.header_span
    source, version = decode_module_source(
        source, source_span, arguments.get("version"), problems, scope
    )
    if not has_valid_name:
        # It is reported, as are its arguments.
        return None
    return CallHeader(
        name=label.value,
        # "": it was reported.
        source=source or "",
        version=version,
        source_span=source_span,
        inputs={n: (a.expression, a.span) for n, a in inputs.items()},
        count=count,
        for_each=for_each,
        depends_on=depends_on,
        span=block.span,
        header_span=block.header_span,
        enabled=enabled,
    )


def _decode_module_enabled(
    blocks: Sequence[Block], problems: list[Diagnostic]
) -> Expression | None:
    """Return `enabled`, the only argument of the lifecycle block of a module; None without it."""
    block = find_single_block(blocks, "lifecycle", problems)
    if block is None:
        return None
    attributes = unpack_result(decode_attributes(block.body), problems)
    for name, attribute in attributes.items():
        if name != "enabled":
            detail = (
                f'The lifecycle of a module has "enabled" alone. Write "{name}" in the resources '
                "of the module."
            )
            problems.append(build_error("unsupported-argument", detail, attribute.name_span))
    return get_expression(attributes.get("enabled"))


def decode_module_source(
    text: str | None,
    span: Span,
    version: Attribute | None,
    problems: list[Diagnostic],
    scope: Scope = EMPTY_SCOPE,
) -> tuple[str | None, str]:
    """Return the source of a module, None if it is invalid, and its version constraints."""
    source = text if text is not None and _check_source(text, span, problems) else None
    return source, _decode_version(version, source, problems, scope)


def _check_source(source: str, span: Span, problems: list[Diagnostic]) -> bool:
    """Check whether the source of a module has a known form; otherwise add a diagnostic."""
    if is_local_path(source):
        return True
    try:
        parse_module_source(source)
    except InvalidModuleSource as problem:
        problems.append(build_error("unsupported-module-source", str(problem), span))
        return False
    return True


def _decode_version(
    attribute: Attribute | None, source: str | None, problems: list[Diagnostic], scope: Scope
) -> str:
    """Return the version constraints of a module of a registry; "" without or with an error."""
    if attribute is None:
        return ""
    version = evaluate_string(attribute, problems, scope)
    if source is None or version is None:
        # It is null, or reported as invalid.
        return ""
    if is_local_path(source) or parse_module_source(source).kind != "registry":
        detail = (
            "Only modules of a registry have versions. Remove the argument; a git source selects "
            'its version with "?ref=".'
        )
        problems.append(build_error("unsupported-argument", detail, attribute.name_span))
        return ""
    if not is_constraint_valid(version):
        detail = (
            f'"{version}" is not a version constraint. Write comparisons separated by commas, for '
            'example "~> 1.2" or ">= 1.0, < 2.0".'
        )
        problems.append(
            build_error("invalid-version-constraint", detail, attribute.expression.span)
        )
        return ""
    return version


def decode_provider_block(block: Block, problems: list[Diagnostic]) -> ProviderBlock | None:
    """Decode a `provider` block; None if its name or alias is invalid."""
    label = block.labels[0]
    has_valid_name = check_name(label, "invalid-provider-configuration-name", problems)
    parts = unpack_result(decode_body(block.body, PROVIDER_SCHEMA, partial=True), problems)
    for name in _RESERVED_FOR_PROVIDERS:
        if name in parts.attributes:
            advice = PROVIDER_WORDS.get(name, "Remove it.")
            detail = f'The provider argument name "{name}" is reserved and has no meaning. {advice}'
            span = parts.attributes[name].name_span
            problems.append(build_error("reserved-argument-name-in-provider-block", detail, span))
    attribute = parts.attributes.get("alias")
    alias = evaluate_string(attribute, problems)
    if attribute is not None and alias is not None and not is_valid_name(alias):
        detail = (
            "An alias must be a valid name. A name must start with a letter or underscore and may "
            "contain only letters, digits, underscores, and dashes."
        )
        problems.append(
            build_error("invalid-provider-configuration-alias", detail, attribute.expression.span)
        )
        return None
    if not has_valid_name:
        # It is reported, as are its arguments.
        return None
    key = f"{label.value}.{alias}" if alias else label.value
    body = remove_decoded_parts(block.body, PROVIDER_SCHEMA)
    return ProviderBlock(
        key=key, name=label.value, alias=alias or "", body=body, span=block.header_span
    )
