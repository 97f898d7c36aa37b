"""Test files (`*.nftest.hcl`): run blocks, what they are given, and what they expect."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from nexusform.address import AddressPattern
from nexusform.configuration.declared.configuration import AnyBody, Condition, ProviderBlock
from nexusform.configuration.declared.constants import constant_flag, constant_text
from nexusform.configuration.module_blocks import decode_provider, is_local
from nexusform.configuration.moving_blocks import pattern_of
from nexusform.configuration.value_blocks import decode_conditions
from nexusform.configuration.written import (
    already,
    check_name,
    keyword,
    listed_expressions,
    only_block,
    reference,
    references,
)
from nexusform.diagnostics import Diagnostic, error
from nexusform.language.bodies import BodySchema, Content, content, just_attributes
from nexusform.language.syntax.nodes import Attribute, Block, Expression, ObjectCons, StringLiteral, Traversal
from nexusform.source import Span

_OVERRIDES = {"override_resource": (), "override_data": (), "override_module": ()}
FILE_FACE = BodySchema(
    blocks={
        "variables": (),
        "provider": ("name",),
        "mock_provider": ("name",),
        "run": ("name",),
        "test": (),
        **_OVERRIDES,
    }
)
RUN_FACE = BodySchema(
    attributes={"command": False, "expect_failures": False, "providers": False, "state_key": False},
    blocks={"variables": (), "plan_options": (), "module": (), "assert": (), **_OVERRIDES},
)
_OPTIONS_FACE = BodySchema(attributes=dict.fromkeys(("mode", "refresh", "replace", "target"), False))
_MODULE_FACE = BodySchema(attributes={"source": True, "version": False})
_OVERRIDE_FACE = BodySchema(attributes={"target": True, "values": False, "outputs": False})
_MOCK_FACE = BodySchema(
    attributes={"alias": False}, blocks={"mock_resource": ("type",), "mock_data": ("type",)}
)
_DEFAULTS_FACE = BodySchema(attributes={"defaults": False})

Expressions = Mapping[str, Expression]


class Override(Struct, frozen=True):
    """Values that stand in for those of one resource, data block or module."""

    target: AddressPattern
    values: Expression | None
    span: Span


class Overrides(Struct):
    """The override blocks of a file or a run, the later ones winning."""

    resources: list[Override] = field(default_factory=list)
    data: list[Override] = field(default_factory=list)
    modules: list[Override] = field(default_factory=list)


class Mock(Struct, frozen=True):
    """A mock_provider block: defaults by resource type and by data source."""

    key: str
    resources: Expressions
    data: Expressions
    span: Span


class RunBlock(Struct, frozen=True):
    """A run block. `mode` is "normal" or "refresh-only"; `source` the directory of another module
    to run, "" for the one that is tested; `providers` maps a name to the configuration to use.
    """

    name: str
    command: str
    variables: Expressions
    source: str
    asserts: tuple[Condition, ...]
    expected: tuple[Traversal, ...]
    overrides: Overrides
    providers: Mapping[str, str]
    span: Span
    source_span: Span
    mode: str = "normal"
    refresh: bool = True
    replaces: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    state_key: str = ""

    @property
    def header(self) -> str:
        """`run "name"`, as diagnostics show it."""
        return f'run "{self.name}"'


class RunFile(Struct, frozen=True):
    """One test file."""

    name: str
    variables: Expressions
    providers: Mapping[str, ProviderBlock]
    mocks: Mapping[str, Mock]
    overrides: Overrides
    runs: tuple[RunBlock, ...]


def decode_test_file(name: str, body: AnyBody) -> tuple[RunFile, list[Diagnostic]]:
    """The meaning of a test file, and everything wrong with it."""
    problems: list[Diagnostic] = []
    parts, wrong = content(body, FILE_FACE)
    problems.extend(wrong)
    providers: dict[str, ProviderBlock] = {}
    mocks: dict[str, Mock] = {}
    runs: dict[str, RunBlock] = {}
    for block in parts.blocks:
        if block.type == "provider":
            provider = decode_provider(block, problems)
            if provider is not None:
                providers[provider.key] = provider
        elif block.type == "mock_provider":
            mock = _mock(block, problems)
            if mock is not None:
                mocks[mock.key] = mock
        elif block.type == "run":
            _take_run(block, runs, problems)
    variables = _variables(parts, problems)
    overrides = _overrides(parts, problems)
    return RunFile(
        name=name,
        variables=variables,
        providers=providers,
        mocks=mocks,
        overrides=overrides,
        runs=tuple(runs.values()),
    ), problems


def _take_run(block: Block, runs: dict[str, RunBlock], problems: list[Diagnostic]) -> None:
    """Add a run block, unless its name is taken."""
    run = _run(block, problems)
    if run is None:
        return
    earlier = runs.setdefault(run.name, run)
    if earlier is not run:
        rule = "Run blocks must have names of their own, since later ones refer to them."
        detail = already("A run block named", run.name, earlier.span, rule)
        problems.append(error("duplicate-run-block", detail, run.span))


def _variables(parts: Content, problems: list[Diagnostic]) -> Expressions:
    block = only_block(parts.blocks, "variables", problems)
    if block is None:
        return {}
    attributes, wrong = just_attributes(block.body)
    problems.extend(wrong)
    return {name: attribute.expression for name, attribute in attributes.items()}


# --- run blocks --------------------------------------------------------------------------------


def _run(block: Block, problems: list[Diagnostic]) -> RunBlock | None:
    """A run block; None when its name is wrong."""
    label = block.labels[0]
    if not check_name(label, "invalid-run-block-name", problems):
        return None
    parts, wrong = content(block.body, RUN_FACE)
    problems.extend(wrong)
    arguments = parts.attributes
    options = _options(parts, problems)
    source, source_span = _source(parts, problems)
    return RunBlock(
        name=label.value,
        command=_choice(arguments.get("command"), ("apply", "plan"), problems),
        variables=_variables(parts, problems),
        source=source,
        asserts=decode_conditions(parts.blocks, "assert", problems),
        expected=references(arguments.get("expect_failures"), problems),
        overrides=_overrides(parts, problems),
        providers=_providers(arguments.get("providers"), problems),
        span=block.header_span,
        source_span=source_span or block.header_span,
        mode=_choice(options.get("mode"), ("normal", "refresh-only"), problems),
        refresh=constant_flag(options.get("refresh"), problems, default=True),
        replaces=_addresses(options.get("replace"), problems),
        targets=_addresses(options.get("target"), problems),
        state_key=constant_text(arguments.get("state_key"), problems) or "",
    )


def _options(parts: Content, problems: list[Diagnostic]) -> Mapping[str, Attribute]:
    block = only_block(parts.blocks, "plan_options", problems)
    if block is None:
        return {}
    inner, wrong = content(block.body, _OPTIONS_FACE)
    problems.extend(wrong)
    return inner.attributes


def _choice(attribute: Attribute | None, allowed: tuple[str, ...], problems: list[Diagnostic]) -> str:
    """A keyword, the first of those allowed when it is not written."""
    if attribute is None:
        return allowed[0]
    word = keyword(attribute)
    if word in allowed:
        return word
    listed = " or ".join(allowed)
    detail = f'The "{attribute.name}" argument must be {listed}, without quotation marks.'
    problems.append(
        error(
            "invalid-keyword",
            detail,
            attribute.expression.span,
            headline=f'Invalid "{attribute.name}" keyword',
        )
    )
    return allowed[0]


def _addresses(attribute: Attribute | None, problems: list[Diagnostic]) -> tuple[str, ...]:
    """The addresses in a list, as they are written."""
    if attribute is None:
        return ()
    addresses = []
    for expression in listed_expressions(attribute, problems):
        pattern = _pattern(expression, problems)
        addresses.extend([str(pattern)] if pattern is not None else [])
    return tuple(addresses)


def _pattern(expression: Expression, problems: list[Diagnostic]) -> AddressPattern | None:
    traversal = reference(expression, problems)
    return pattern_of(traversal, problems) if traversal is not None else None


def _source(parts: Content, problems: list[Diagnostic]) -> tuple[str, Span | None]:
    """The directory of the module that a run tests ("": the one beside it), and where that is written."""
    block = only_block(parts.blocks, "module", problems)
    if block is None:
        return "", None
    inner, wrong = content(block.body, _MODULE_FACE)
    problems.extend(wrong)
    attribute = inner.attributes.get("source")
    text = constant_text(attribute, problems)
    if attribute is None or text is None:
        return "", None
    span = attribute.expression.span
    return (text if is_local(text, span, problems) else ""), span


def _providers(attribute: Attribute | None, problems: list[Diagnostic]) -> Mapping[str, str]:
    """Which provider of the file stands for each of the configuration's."""
    if attribute is None:
        return {}
    expression = attribute.expression
    providers: dict[str, str] = {}
    if not isinstance(expression, ObjectCons):
        detail = "A map of provider names is required: { simulated = simulated.other }."
        problems.append(error("invalid-providers-argument", detail, expression.span))
        return {}
    for key, value in expression.items:
        name = key.expression.value if isinstance(key.expression, StringLiteral) else _dotted(key.expression)
        used = reference(value, problems)
        if used is not None and name:
            providers[name] = _dotted(used)
    return providers


def _dotted(expression: Expression) -> str:
    if not isinstance(expression, Traversal):
        return ""
    return ".".join([expression.root.name, *(str(getattr(step, "name", "")) for step in expression.steps)])


# --- mocks and overrides -----------------------------------------------------------------------


def _mock(block: Block, problems: list[Diagnostic]) -> Mock | None:
    """A mock of a provider, with the values that it answers by type."""
    label = block.labels[0]
    if not check_name(label, "invalid-provider-configuration-name", problems):
        return None
    parts, wrong = content(block.body, _MOCK_FACE)
    problems.extend(wrong)
    alias = constant_text(parts.attributes.get("alias"), problems) or ""
    defaults: dict[str, dict[str, Expression]] = {"mock_resource": {}, "mock_data": {}}
    for inner in parts.blocks:
        inside, wrong = content(inner.body, _DEFAULTS_FACE)
        problems.extend(wrong)
        if "defaults" in inside.attributes:
            defaults[inner.type][inner.labels[0].value] = inside.attributes["defaults"].expression
    key = f"{label.value}.{alias}" if alias else label.value
    return Mock(key, defaults["mock_resource"], defaults["mock_data"], block.header_span)


def _overrides(parts: Content, problems: list[Diagnostic]) -> Overrides:
    """The overrides of a block, by what they are about."""
    overrides = Overrides()
    rows = {
        "override_resource": overrides.resources,
        "override_data": overrides.data,
        "override_module": overrides.modules,
    }
    for block in parts.blocks:
        if block.type in rows:
            override = _override(block, problems)
            rows[block.type].extend([override] if override is not None else [])
    return overrides


def _override(block: Block, problems: list[Diagnostic]) -> Override | None:
    """One override; None when its target is wrong."""
    parts, wrong = content(block.body, _OVERRIDE_FACE)
    problems.extend(wrong)
    arguments = parts.attributes
    target = _pattern(arguments["target"].expression, problems) if "target" in arguments else None
    if target is None:
        return None
    wants = {"override_resource": "managed", "override_data": "data", "override_module": None}[block.type]
    if target.mode != wants:
        what = {"managed": "a resource", "data": "a data block", None: "a module"}[wants]
        detail = f"The target of {block.type} must be {what}."
        problems.append(error("invalid-override-target", detail, arguments["target"].expression.span))
        return None
    name, other = ("outputs", "values") if wants is None else ("values", "outputs")
    if other in arguments:
        detail = f'An argument named "{other}" is not expected here. Did you mean "{name}"?'
        problems.append(error("unsupported-argument", detail, arguments[other].name_span))
    return Override(target, arguments[name].expression if name in arguments else None, block.header_span)
