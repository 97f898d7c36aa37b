"""Blocks of test files (`*.nftest.hcl`): run blocks with their inputs and expectations."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from msgspec import Struct, field

from nexusform.configuration.declarations.configuration import (
    AnyBody,
    Condition,
    ProviderBlock,
    Variable,
)
from nexusform.configuration.module_blocks import decode_module_source, decode_provider_block
from nexusform.configuration.refactoring_blocks import build_address_pattern
from nexusform.configuration.remote_modules.module_sources import hide_server_parameters
from nexusform.configuration.static_arguments import (
    check_name,
    describe_duplicate,
    evaluate_bool,
    evaluate_string,
    find_single_block,
    get_bare_keyword,
    list_static_items,
    parse_reference,
    parse_references,
)
from nexusform.configuration.value_blocks import decode_condition_blocks, decode_variable_block
from nexusform.diagnostics.diagnostic import Diagnostic, Span, build_error
from nexusform.language.body_decoding import BodyContent, BodySchema, decode_attributes, decode_body
from nexusform.language.references import list_traversals
from nexusform.language.syntax.syntax_nodes import (
    Attribute,
    Block,
    Expression,
    ObjectCons,
    StringLiteral,
    Traversal,
)
from nexusform.resources.address import AddressPattern

_OVERRIDES = {"override_resource": (), "override_data": (), "override_module": ()}
FILE_SCHEMA = BodySchema(
    blocks={
        "variable": ("name",),
        "variables": (),
        "provider": ("name",),
        "mock_provider": ("name",),
        "run": ("name",),
        "test": (),
        **_OVERRIDES,
    }
)
_TEST_SCHEMA = BodySchema(attributes={"parallel": False})
RUN_SCHEMA = BodySchema(
    attributes=dict.fromkeys(
        ("command", "expect_failures", "parallel", "providers", "state_key"), False
    ),
    blocks={"variables": (), "plan_options": (), "module": (), "assert": (), **_OVERRIDES},
)
_OPTIONS_SCHEMA = BodySchema(
    attributes=dict.fromkeys(("mode", "refresh", "replace", "target"), False)
)
_MODULE_SCHEMA = BodySchema(attributes={"source": True, "version": False})
_OVERRIDE_SCHEMA = BodySchema(
    attributes={"target": True, "values": False, "outputs": False, "override_during": False}
)
_MOCK_SCHEMA = BodySchema(
    attributes={"alias": False, "override_during": False},
    blocks={"mock_resource": ("type",), "mock_data": ("type",)},
)
_DEFAULTS_SCHEMA = BodySchema(attributes={"defaults": False, "override_during": False})

_PHASES = ("apply", "plan")
_ROOTS_WITHOUT_CONDITIONS = (
    "local",
    "module",
    "path",
    "run",
    "each",
    "count",
    "self",
    "nexusform",
    "terraform",
)

Expressions = Mapping[str, Expression]


class Override(Struct, frozen=True):
    """Values that replace those of one resource, data block or module.

    With `during_plan`, the values of a resource apply during the plan, otherwise at apply.
    """

    target: AddressPattern
    values: Expression | None
    span: Span
    during_plan: bool = False


class OverrideBlocks(Struct):
    """Override blocks of a file or a run; later ones take precedence."""

    resources: list[Override] = field(default_factory=list)
    data: list[Override] = field(default_factory=list)
    modules: list[Override] = field(default_factory=list)

    def list_values(self) -> list[Expression]:
        """Return the expressions of the values."""
        overrides = [*self.resources, *self.data, *self.modules]
        return [override.values for override in overrides if override.values is not None]


class Mock(Struct, frozen=True):
    """Block mock_provider: defaults by resource type and data source.

    `planned_types` have them in the plan.
    """

    key: str
    resources: Expressions
    data: Expressions
    span: Span
    planned_types: frozenset[str] = frozenset()


class RunBlock(Struct, frozen=True):
    """Run block.

    `mode` is "normal" or "refresh-only". `source` is the source of another module to run, "" for
    the tested one, and `version` its version constraints. `providers` maps a name to the
    configuration to use.
    """

    name: str
    command: str
    variables: Expressions
    source: str
    assertions: tuple[Condition, ...]
    expected_failures: tuple[Traversal, ...]
    overrides: OverrideBlocks
    providers: Mapping[str, str]
    span: Span
    source_span: Span
    mode: str = "normal"
    refresh: bool = True
    replace_addresses: tuple[str, ...] = ()
    target_addresses: tuple[str, ...] = ()
    state_key: str = ""
    version: str = ""

    @property
    def header(self) -> str:
        """Header for diagnostics: `run "name"`."""
        return f'run "{self.name}"'

    def list_asserted_variables(self) -> set[str]:
        """Return the names of the variables in assertions."""
        expressions = [part for c in self.assertions for part in (c.condition, c.error_message)]
        return _list_variable_names(expressions)

    def list_used_variables(self) -> set[str]:
        """Return the names of the variables in assertions and in values of the run."""
        values = [*self.variables.values(), *self.overrides.list_values()]
        return self.list_asserted_variables() | _list_variable_names(values)


def _list_variable_names(expressions: Iterable[Expression]) -> set[str]:
    traversals = chain.from_iterable(list_traversals(part) for part in expressions)
    return {t.first_name for t in traversals if t.root.name == "var"}


class TestFile(Struct, frozen=True):
    """Test file.

    `declared_variables` are its `variable` blocks: types, and defaults for variables that have no
    value from outside. `variables` are the values of its `variables` blocks.
    """

    name: str
    declared_variables: Mapping[str, Variable]
    variables: Expressions
    providers: Mapping[str, ProviderBlock]
    mocks: Mapping[str, Mock]
    overrides: OverrideBlocks
    runs: tuple[RunBlock, ...]

    def list_used_variables(self) -> set[str]:
        """Return the names of all variables in values and assertions."""
        values = [*self.variables.values(), *self.overrides.list_values()]
        return _list_variable_names(values).union(*(run.list_used_variables() for run in self.runs))


def decode_test_file(name: str, body: AnyBody) -> tuple[TestFile, list[Diagnostic]]:
    """Decode a test file; return it without its invalid blocks, and the problems."""
    problems: list[Diagnostic] = []
    parts = _decode_content(body, FILE_SCHEMA, problems)
    providers: dict[str, ProviderBlock] = {}
    mocks: dict[str, Mock] = {}
    runs: dict[str, RunBlock] = {}
    declared_variables: dict[str, Variable] = {}
    for block in parts.blocks:
        if block.type == "provider":
            provider = decode_provider_block(block, problems)
            if provider is not None:
                providers[provider.key] = provider
        elif block.type == "mock_provider":
            mock = _decode_mock(block, problems)
            if mock is not None:
                mocks[mock.key] = mock
        elif block.type == "variable":
            _add_variable(block, declared_variables, problems)
        elif block.type == "run":
            _add_run(block, runs, problems)
    test_block = find_single_block(parts.blocks, "test", problems)
    if test_block is not None:
        options = _decode_content(test_block.body, _TEST_SCHEMA, problems).attributes
        _check_parallel(options, problems)
    variables = _decode_variables(parts, problems)
    overrides = _decode_overrides(parts, problems)
    return TestFile(
        name=name,
        declared_variables=declared_variables,
        variables=variables,
        providers=providers,
        mocks=mocks,
        overrides=overrides,
        runs=tuple(runs.values()),
    ), problems


def _decode_content(body: AnyBody, schema: BodySchema, problems: list[Diagnostic]) -> BodyContent:
    content, new_problems = decode_body(body, schema)
    problems.extend(new_problems)
    return content


def _decode_variables(parts: BodyContent, problems: list[Diagnostic]) -> Expressions:
    """Return the expressions of the `variables` block of a file or run by name, {} without one."""
    block = find_single_block(parts.blocks, "variables", problems)
    if block is None:
        return {}
    attributes, new_problems = decode_attributes(block.body)
    problems.extend(new_problems)
    return {name: attribute.expression for name, attribute in attributes.items()}


def _add_variable(block: Block, variables: dict[str, Variable], problems: list[Diagnostic]) -> None:
    """Decode a `variable` block, and add it to `variables`; report a second one of the same name.

    The tested configuration has the validations.
    """
    variable = decode_variable_block(block, problems)
    if variable is None:
        return
    if variable.validations:
        detail = (
            f'The variable "{variable.name}" of a test file cannot have validations. Declare them '
            "in the tested configuration."
        )
        problems.append(build_error("unsupported-block-type", detail, variable.span))
    existing = variables.setdefault(variable.name, variable)
    if existing is not variable:
        rule = "The names of variables must differ."
        detail = describe_duplicate("A variable named", variable.name, existing.span, rule)
        problems.append(build_error("duplicate-variable-declaration", detail, variable.span))


def _add_run(block: Block, runs: dict[str, RunBlock], problems: list[Diagnostic]) -> None:
    """Decode a run block, and add it to `runs`; report a second one of the same name."""
    run = _decode_run(block, problems)
    if run is None:
        return
    existing = runs.setdefault(run.name, run)
    if existing is not run:
        rule = "The names of run blocks must differ: later run blocks refer to them."
        detail = describe_duplicate("A run block named", run.name, existing.span, rule)
        problems.append(build_error("duplicate-run-block", detail, run.span))


def _check_parallel(arguments: Mapping[str, Attribute], problems: list[Diagnostic]) -> None:
    """Report a `parallel` argument that is no boolean.

    Its value changes no result: runs are executed one after another.
    """
    evaluate_bool(arguments.get("parallel"), problems, default=False)


def _decode_run(block: Block, problems: list[Diagnostic]) -> RunBlock | None:
    """Decode a run block; None, with a problem, if its name is invalid."""
    label = block.labels[0]
    if not check_name(label, "invalid-run-block-name", problems):
        return None
    parts = _decode_content(block.body, RUN_SCHEMA, problems)
    option_block = find_single_block(parts.blocks, "plan_options", problems)
    options: Mapping[str, Attribute] = {}
    if option_block is not None:
        options = _decode_content(option_block.body, _OPTIONS_SCHEMA, problems).attributes
    mode = _decode_keyword(options.get("mode"), ("normal", "refresh-only"), problems)
    refresh = evaluate_bool(options.get("refresh"), problems, default=True)
    if mode == "refresh-only" and not refresh:
        detail = 'A run with mode = refresh-only must read the objects. Remove "refresh".'
        problems.append(
            build_error("incompatible-plan-options", detail, options["refresh"].expression.span)
        )
    _check_parallel(parts.attributes, problems)
    source, version, source_span = _decode_module_source(parts, problems)
    return RunBlock(
        name=label.value,
        command=_decode_keyword(parts.attributes.get("command"), ("apply", "plan"), problems),
        variables=_decode_variables(parts, problems),
        source=source,
        assertions=decode_condition_blocks(parts.blocks, "assert", problems),
        expected_failures=_decode_expected_failures(
            parts.attributes.get("expect_failures"), problems
        ),
        overrides=_decode_overrides(parts, problems),
        providers=_decode_providers(parts.attributes.get("providers"), problems),
        span=block.header_span,
        source_span=source_span or block.header_span,
        mode=mode,
        refresh=refresh,
        replace_addresses=_decode_addresses(options.get("replace"), problems),
        target_addresses=_decode_addresses(options.get("target"), problems),
        state_key=evaluate_string(parts.attributes.get("state_key"), problems) or "",
        version=version,
    )


def _decode_expected_failures(
    attribute: Attribute | None, problems: list[Diagnostic]
) -> tuple[Traversal, ...]:
    """Return the references of `expect_failures`; report those to objects without conditions."""
    references = parse_references(attribute, problems)
    for reference in references:
        if reference.root.name in _ROOTS_WITHOUT_CONDITIONS:
            detail = (
                f'"{_format_dotted(reference)}" has no conditions. Failures can be expected of '
                "variables, outputs, checks, resources and data sources."
            )
            problems.append(
                build_error("invalid-expect-failures-reference", detail, reference.span)
            )
    return references


def _decode_keyword(
    attribute: Attribute | None, allowed: tuple[str, ...], problems: list[Diagnostic]
) -> str:
    """Return the keyword of an argument.

    If it is absent, or invalid (reported), return the first allowed one.
    """
    if attribute is None:
        return allowed[0]
    word = get_bare_keyword(attribute)
    if word in allowed:
        return word
    detail = (
        f'The "{attribute.name}" argument must be {" or ".join(allowed)}, without quotation marks.'
    )
    headline = f'Invalid "{attribute.name}" keyword'
    problems.append(
        build_error("invalid-keyword", detail, attribute.expression.span, headline=headline)
    )
    return allowed[0]


def _decode_addresses(attribute: Attribute | None, problems: list[Diagnostic]) -> tuple[str, ...]:
    """Return the addresses in a list of references, without invalid ones (reported).

    Return () without `attribute`.
    """
    if attribute is None:
        return ()
    addresses = []
    for expression in list_static_items(attribute, problems):
        pattern = _decode_pattern(expression, problems)
        if pattern is not None:
            addresses.append(str(pattern))
    return tuple(addresses)


def _decode_pattern(expression: Expression, problems: list[Diagnostic]) -> AddressPattern | None:
    traversal = parse_reference(expression, problems)
    return build_address_pattern(traversal, problems) if traversal is not None else None


def _decode_module_source(
    parts: BodyContent, problems: list[Diagnostic]
) -> tuple[str, str, Span | None]:
    """Return the source, version constraints and span of the module of a run.

    They are "" for the tested configuration or after errors.
    """
    block = find_single_block(parts.blocks, "module", problems)
    if block is None:
        # The tested configuration.
        return "", "", None
    inner_content = _decode_content(block.body, _MODULE_SCHEMA, problems)
    attributes = inner_content.attributes
    text = evaluate_string(attributes.get("source"), problems)
    if text is None:
        return "", "", None  # reported
    # Messages show the lines of a span, and the parameters of a server may be a secret.
    is_shown = hide_server_parameters(text) == text
    span = attributes["source"].expression.span if is_shown else block.header_span
    source, version = decode_module_source(text, span, attributes.get("version"), problems)
    return source or "", version, span


def _decode_providers(attribute: Attribute | None, problems: list[Diagnostic]) -> Mapping[str, str]:
    """Decode the providers of a run: {"simulated": "simulated.other"} uses another block.

    Return {} if they are absent or invalid.
    """
    if attribute is None:
        return {}
    expression = attribute.expression
    providers: dict[str, str] = {}
    if not isinstance(expression, ObjectCons):
        detail = "A map of provider names is required: { simulated = simulated.other }."
        problems.append(build_error("invalid-providers-argument", detail, expression.span))
        return {}
    for key, value in expression.items:
        name = (
            key.expression.value
            if isinstance(key.expression, StringLiteral)
            else _format_dotted(key.expression)
        )
        used_reference = parse_reference(value, problems)
        # Else the reference is reported, or the key is computed.
        if used_reference is not None and name:
            providers[name] = _format_dotted(used_reference)
    return providers


def _format_dotted(expression: Expression) -> str:
    """Return a reference with dots, such as `simulated.other`; "" for any other expression."""
    if not isinstance(expression, Traversal):
        return ""
    return ".".join(
        [expression.root.name, *(str(getattr(step, "name", "")) for step in expression.steps)]
    )


def _decode_mock(block: Block, problems: list[Diagnostic]) -> Mock | None:
    """Decode a `mock_provider` block with its default values by type.

    It is None if its name is invalid.
    """
    label = block.labels[0]
    if not check_name(label, "invalid-provider-configuration-name", problems):
        return None
    parts = _decode_content(block.body, _MOCK_SCHEMA, problems)
    alias = evaluate_string(parts.attributes.get("alias"), problems) or ""
    phase = _decode_keyword(parts.attributes.get("override_during"), _PHASES, problems)
    # Resource types with defaults in the plan already.
    planned_types: set[str] = set()
    defaults: dict[str, dict[str, Expression]] = {"mock_resource": {}, "mock_data": {}}
    for inner in parts.blocks:
        inner_content = _decode_content(inner.body, _DEFAULTS_SCHEMA, problems)
        inner_phase = inner_content.attributes.get("override_during")
        # Without one, that of the provider counts.
        own_phase = _decode_keyword(inner_phase, _PHASES, problems) if inner_phase else phase
        if own_phase == "plan" and inner.type == "mock_resource":
            planned_types.add(inner.labels[0].value)
        if "defaults" in inner_content.attributes:
            defaults[inner.type][inner.labels[0].value] = inner_content.attributes[
                "defaults"
            ].expression
    key = f"{label.value}.{alias}" if alias else label.value
    return Mock(
        key,
        defaults["mock_resource"],
        defaults["mock_data"],
        block.header_span,
        frozenset(planned_types),
    )


def _decode_overrides(parts: BodyContent, problems: list[Diagnostic]) -> OverrideBlocks:
    """Return the overrides of a block by kind of target."""
    overrides = OverrideBlocks()
    overrides_by_type = {
        "override_resource": overrides.resources,
        "override_data": overrides.data,
        "override_module": overrides.modules,
    }
    for block in parts.blocks:
        override = _decode_override(block, problems) if block.type in overrides_by_type else None
        if override is not None:
            overrides_by_type[block.type].append(override)
    return overrides


# Mode and noun of the target of an override block.
_OVERRIDE_TARGETS: Final[Mapping[str, tuple[str | None, str]]] = {
    "override_resource": ("managed", "a resource"),
    "override_data": ("data", "a data block"),
    "override_module": (None, "a module"),
}


def _decode_override(block: Block, problems: list[Diagnostic]) -> Override | None:
    """Decode one override; None if its target is missing or invalid, with a problem."""
    arguments = _decode_content(block.body, _OVERRIDE_SCHEMA, problems).attributes
    target = (
        _decode_pattern(arguments["target"].expression, problems) if "target" in arguments else None
    )
    if target is None:
        return None
    expected_mode, target_noun = _OVERRIDE_TARGETS[block.type]
    # None for a module.
    mode = target.mode if target.type else None
    if mode != expected_mode:
        detail = f"The target of {block.type} must be {target_noun}."
        problems.append(
            build_error("invalid-override-target", detail, arguments["target"].expression.span)
        )
        return None
    # The expected mode of a module is None: it has outputs, while others have values.
    name, other = ("outputs", "values") if expected_mode is None else ("values", "outputs")
    if other in arguments:
        detail = f'An argument named "{other}" is not expected here. Did you mean "{name}"?'
        problems.append(build_error("unsupported-argument", detail, arguments[other].name_span))
    during_plan = _decode_keyword(arguments.get("override_during"), _PHASES, problems) == "plan"
    values = arguments[name].expression if name in arguments else None
    return Override(target, values, block.header_span, during_plan)
