"""`module` and `provider` blocks."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from nexusform.configuration.declared.configuration import ProviderBlock
from nexusform.configuration.declared.constants import constant_text, required_text
from nexusform.configuration.resource_blocks import remaining, repetition
from nexusform.configuration.written import check_name, is_name, references
from nexusform.diagnostics import Diagnostic, error
from nexusform.language.bodies import BodySchema, content, just_attributes
from nexusform.language.syntax.nodes import Block, Expression, Traversal
from nexusform.source import Span

MODULE_FACE = BodySchema(
    attributes={
        "source": True,
        "version": False,
        "providers": False,
        "count": False,
        "for_each": False,
        "depends_on": False,
    }
)
_RESERVED_FOR_PROVIDERS = ("count", "depends_on", "for_each", "source")
PROVIDER_FACE = BodySchema(attributes=dict.fromkeys(("alias", *_RESERVED_FOR_PROVIDERS), False))
_LOCAL = ("./", "../")


class CallHeader(Struct, frozen=True):
    """A `module` block before the module it calls has been read; `source` is "" when it is wrong."""

    name: str
    source: str
    source_span: Span
    inputs: Mapping[str, tuple[Expression, Span]]
    count: Expression | None
    for_each: Expression | None
    depends_on: tuple[Traversal, ...]
    span: Span
    header_span: Span


def decode_call(block: Block, problems: list[Diagnostic]) -> CallHeader | None:
    """A `module` block; None when its name is none."""
    label = block.labels[0]
    named = check_name(label, "invalid-module-instance-name", problems)
    parts, wrong = content(block.body, MODULE_FACE, partial=True)
    problems.extend(wrong)
    inputs, wrong = just_attributes(remaining(block.body, MODULE_FACE))
    problems.extend(wrong)
    arguments = parts.attributes
    if "version" in arguments:
        detail = "Modules are directories of this machine and have no versions. Remove the argument."
        problems.append(error("unsupported-argument", detail, arguments["version"].name_span))
    if "providers" in arguments:
        detail = "Every module uses the provider configurations of the root module. Remove the argument."
        problems.append(error("unsupported-argument", detail, arguments["providers"].name_span))
    count, for_each = repetition(arguments, "module", problems)
    depends_on = references(arguments.get("depends_on"), problems)
    source_span = arguments["source"].expression.span if "source" in arguments else block.header_span
    source = required_text(arguments.get("source"), problems)
    if source is not None and not is_local(source, source_span, problems):
        source = None
    if not named:
        return None
    return CallHeader(
        name=label.value,
        source=source or "",
        source_span=source_span,
        inputs={n: (a.expression, a.span) for n, a in inputs.items()},
        count=count,
        for_each=for_each,
        depends_on=depends_on,
        span=block.span,
        header_span=block.header_span,
    )


def is_local(source: str, span: Span, problems: list[Diagnostic]) -> bool:
    """Whether a module's source is a directory of this machine; says so when it is not."""
    if source.startswith(_LOCAL) or source in {".", ".."}:
        return True
    if source.startswith("/"):
        detail = f'Write the directory relative to this module, beginning with "./" or "../", not "{source}".'
    else:
        detail = (
            f'nexusform reads modules from local directories only, and "{source}" does not begin with "./" '
            'or "../". Fetch the module into a directory beside this one and give its path.'
        )
    problems.append(error("unsupported-module-source", detail, span))
    return False


def decode_provider(block: Block, problems: list[Diagnostic]) -> ProviderBlock | None:
    """A `provider` block; None when its name or alias is none."""
    label = block.labels[0]
    named = check_name(label, "invalid-provider-configuration-name", problems)
    parts, wrong = content(block.body, PROVIDER_FACE, partial=True)
    problems.extend(wrong)
    for name in _RESERVED_FOR_PROVIDERS:
        if name in parts.attributes:
            detail = f'The provider argument name "{name}" is reserved and has no meaning. Remove it.'
            span = parts.attributes[name].name_span
            problems.append(error("reserved-argument-name-in-provider-block", detail, span))
    attribute = parts.attributes.get("alias")
    alias = constant_text(attribute, problems) or ""
    if attribute is not None and alias and not is_name(alias):
        detail = (
            "An alias must be a valid name. A name must start with a letter or underscore and may contain "
            "only letters, digits, underscores, and dashes."
        )
        problems.append(error("invalid-provider-configuration-alias", detail, attribute.expression.span))
        return None
    if not named:
        return None
    key = f"{label.value}.{alias}" if alias else label.value
    body = remaining(block.body, PROVIDER_FACE)
    return ProviderBlock(key=key, name=label.value, alias=alias, body=body, span=block.header_span)
