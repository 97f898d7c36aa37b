"""Evaluation of expressions over a configuration and its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.reference_checks import check_expression
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error, has_errors
from nexusform.diagnostics.levels import MISSING_VALUE
from nexusform.diagnostics.phrases import format_first_items
from nexusform.language.evaluation_run import TracedExpression
from nexusform.language.functions.function import FixedProblem, Function, build_any_parameter
from nexusform.language.parser import parse_expression
from nexusform.language.syntax.scanner import (
    CLOSE_HEREDOC,
    DIRECTIVE,
    INTERPOLATION,
    OPEN_HEREDOC,
    QUOTED_NEWLINE,
    SEQUENCE_END,
    scan_text,
)
from nexusform.language.syntax.syntax_nodes import Call, Expression, Parentheses
from nexusform.planning.name_resolution.evaluation_settings import (
    StateEvaluation,
    build_state_evaluation,
)
from nexusform.planning.name_resolution.instance_scope import ModuleInstance
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.planning.name_resolution.value_origins import ValueOriginTracer
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.preparation.planning_order import iterate_modules
from nexusform.providers.clock import read_clock
from nexusform.rendering.answers.console_text import render_type, render_value
from nexusform.resource_types.registry import build_registries
from nexusform.resources.address import (
    ROOT_MODULE,
    AddressProblem,
    ModulePath,
    format_module,
    parse_pattern,
)
from nexusform.schemas.value_types import DYNAMIC
from nexusform.values.typed_value import DYNAMIC_UNKNOWN, Value
from nexusform.workflow.opening.command_context import (
    CommandContext,
    load_project_configuration,
    read_project_variables,
)
from nexusform.workflow.opening.project import open_backend
from nexusform.workflow.opening.remote_inputs import RemoteStateReader, ServerResponseCache
from nexusform.workflow.opening.stored_state import read_stored_state
from nexusform.workflow.opening.system_io import ConfinedFileAccess

INPUT: Final = "<console-input>"
# Module instances in a message.
_MAX_NAMES: Final = 8
_OPENING_TOKENS: Final = frozenset({"{", "[", "(", INTERPOLATION, DIRECTIVE, OPEN_HEREDOC})
_CLOSING_TOKENS: Final = frozenset({"}", "]", ")", SEQUENCE_END, CLOSE_HEREDOC})


class ConsoleEvaluation(Struct, frozen=True):
    """The text of a result, or None after an error."""

    text: str | None
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, SourceFile]


class ExpressionExplanation(Struct, frozen=True):
    """The tree of an expression, or None after an error."""

    tree: TracedExpression | None
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, SourceFile]


class ConsoleOpening(Struct, frozen=True):
    """A console, or None after an error in configuration or state."""

    console: ExpressionConsole | None
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, SourceFile]


def open_console(context: CommandContext, module_address: str = "") -> ConsoleOpening:
    """Open a console on configuration, variables and state.

    Its expressions are evaluated in the instance at `module_address`, "" for the root module. With
    errors, the result has no console.
    """
    configuration, problems = load_project_configuration(context)
    # A console works without any.
    if not configuration.files:
        problems = [p for p in problems if p.id != "no-configuration-files"]
    sources: dict[str, SourceFile] = dict(configuration.files)
    variables, new_problems = read_project_variables(context, configuration)
    # Unknown in the console.
    problems += [p for p in new_problems if p.id != MISSING_VALUE]
    backend, new_problems = open_backend(context, configuration)
    problems += new_problems
    stored = None
    if backend is not None:
        stored, new_problems = read_stored_state(backend)
        problems += new_problems
    if stored is None or has_errors(problems):
        return ConsoleOpening(console=None, diagnostics=tuple(problems), sources=sources)
    request = PlanRequest(
        configuration=configuration,
        variables={name: value for name, (value, _) in variables.items()},
        state=stored.state,
        registries=build_registries(),
        files=ConfinedFileAccess(context.confinement),
        now=read_clock(context.environment),
        workspace=context.workspace,
        working_directory=context.working_directory,
        # So timestamp() and uuid() have values.
        is_applying=True,
        read_state=RemoteStateReader(context, configuration.settings).read,
        query=ServerResponseCache(context).query,
    )
    console = ExpressionConsole(request, sources)
    problems += console.select_module(module_address)
    opened_console = None if has_errors(problems) else console
    return ConsoleOpening(opened_console, tuple(problems), sources)


class ExpressionConsole:
    """Evaluator of expressions on one configuration and state; each evaluation is independent."""

    def __init__(self, request: PlanRequest, sources: Mapping[str, SourceFile]) -> None:
        self._request = request
        self._sources = sources
        # The module instance in which expressions are evaluated.
        self._path: ModulePath = ROOT_MODULE

    def select_module(self, address: str) -> list[Diagnostic]:
        """Evaluate further expressions in the module instance at an address; "" is the root.

        Return errors if there is none, or if the instances are not known.
        """
        if not address:
            return []
        try:
            pattern = parse_pattern(address)
        except AddressProblem as problem:
            return [build_error("invalid-address", str(problem))]
        if pattern.type:
            detail = f'"{address}" is not a module. Write module.NAME or module.NAME["KEY"].'
            return [build_error("invalid-address", detail)]
        evaluation = self._create_evaluation()
        instance = evaluation.find_module_path(pattern.module)
        if evaluation.diagnostics or instance is None:
            known = [
                format_module(known_instance.path)
                for module in iterate_modules(self._request.configuration.root)
                if module.path
                for known_instance in evaluation.list_module_instances(module.path)
            ]
            detail = f"The configuration has no module instance {address}."
            if known:
                detail += f" It has {format_first_items(known, _MAX_NAMES)}."
            missing = build_error("no-such-module-instance", detail)
            return evaluation.diagnostics or [missing]
        self._path = pattern.module
        return []

    def _get_module_instance(self, evaluation: Evaluation) -> ModuleInstance:
        """Return the module instance of expressions in an evaluation."""
        instance = evaluation.find_module_path(self._path)
        assert instance is not None, "checked when it was selected"
        return instance

    def evaluate(self, text: str) -> ConsoleEvaluation:
        """Evaluate one expression.

        The text of its value is None after an error.
        """
        source = SourceFile(INPUT, text)
        expression, problems = parse_expression(source)
        # There is no result, as after a syntax error.
        result_text = None
        if expression is not None:
            result_text, problems = self._evaluate_text(expression)
        return ConsoleEvaluation(result_text, tuple(problems), {**self._sources, INPUT: source})

    def explain(self, text: str) -> ExpressionExplanation:
        """Return the tree of one expression with the origins of its values; None after an error."""
        source = SourceFile(INPUT, text)
        sources = {**self._sources, INPUT: source}
        expression, problems = parse_expression(source)
        if expression is not None:
            problems = self._check_references(expression)
        if expression is None or has_errors(problems):
            return ExpressionExplanation(tree=None, diagnostics=tuple(problems), sources=sources)
        evaluation = self._create_evaluation()
        tree, problems = ValueOriginTracer(evaluation, sources, INPUT).trace_expression(
            expression, self._get_module_instance(evaluation)
        )
        return ExpressionExplanation(tree, tuple(problems), sources)

    def _evaluate_text(self, expression: Expression) -> tuple[str | None, list[Diagnostic]]:
        """Return the value of an expression as text, or the type of X for `type(X)`.

        The text is None after an error.
        """
        type_argument = _find_type_argument(expression)
        if type_argument is None:
            value, problems = self._evaluate_value(expression)
            return (None if has_errors(problems) else render_value(value)), problems
        if _find_type_argument(type_argument) is not None:
            # A type is itself of the type `type`.
            return "type", []
        value, problems = self._evaluate_value(type_argument)
        return (None if has_errors(problems) else render_type(value.type)), problems

    def _evaluate_value(self, expression: Expression) -> tuple[Value, list[Diagnostic]]:
        """Return the value of an expression (unknown after errors) and all problems."""
        problems = self._check_references(expression)
        # Evaluation would report invalid references again.
        if has_errors(problems):
            return DYNAMIC_UNKNOWN, problems
        evaluation = self._create_evaluation()
        scope = evaluation.build_scope(self._get_module_instance(evaluation))
        value = evaluation.evaluate_expression(expression, scope)
        # None: it has errors.
        return DYNAMIC_UNKNOWN if value is None else value, evaluation.diagnostics

    def _check_references(self, expression: Expression) -> list[Diagnostic]:
        schemas = self._request.registries.schemas
        module = self._get_module_instance(self._create_evaluation()).module
        return check_expression(expression, module, schemas["managed"], schemas["data"])

    def _create_evaluation(self) -> StateEvaluation:
        """Create an evaluation with the function `type`, for one expression only.

        An evaluation collects its errors.
        """
        evaluation = build_state_evaluation(self._request)
        build_base_functions = evaluation.settings.functions
        evaluation.settings = replace(
            evaluation.settings,
            functions=lambda: {**build_base_functions(), _TYPE_FUNCTION.name: _TYPE_FUNCTION},
            # `nexusform.applying` is false in the console.
            is_applying=False,
            # Values rejected by a `validation` block are shown, too.
            validates_variables=False,
        )
        return evaluation

    def list_names(self) -> list[str]:
        """List possible beginnings of an expression, for completion by the Tab key."""
        evaluation = build_state_evaluation(self._request)
        module = self._get_module_instance(evaluation).module
        functions = evaluation.settings.functions()
        # A key is (mode, type, name).
        resources = [".".join(key).removeprefix("managed.") for key in module.resources]
        return sorted(
            [
                *(f"{name}(" for name in (*functions, "type")),
                *(f"var.{name}" for name in module.variables),
                *(f"local.{name}" for name in module.locals),
                *(f"module.{name}" for name in module.calls),
                *resources,
                *("path.module", "path.root", "path.cwd", "nexusform.workspace"),
            ]
        )


def _find_type_argument(expression: Expression) -> Expression | None:
    """Return X of the expression `type(X)`, also in parentheses; None for other expressions."""
    while isinstance(expression, Parentheses):
        expression = expression.inner
    if (
        isinstance(expression, Call)
        and expression.name == "type"
        and len(expression.arguments) == 1
    ):
        return expression.arguments[0]
    return None


def _reject_nested_type(_given: Value) -> Value:
    """Reject `type` inside of an expression; the console itself evaluates an outer `type(X)`."""
    raise FixedProblem('the console-only "type" function cannot be used as part of an expression')


_TYPE_FUNCTION: Final = Function(
    name="type",
    description="The type of a value; console only.",
    parameters=(build_any_parameter("value", "Any value.", allow_marked=True),),
    returns=DYNAMIC,
    body=_reject_nested_type,
)


def is_unfinished(text: str) -> bool:
    """Return whether the text has an open bracket or heredoc, so the console reads another line."""
    tokens = scan_text(text if text.endswith("\n") else text + "\n")
    if QUOTED_NEWLINE in tokens.kinds:
        # A syntax error, not completed by another line.
        return False
    depth = 0
    for kind in tokens.kinds:
        depth += (kind in _OPENING_TOKENS) - (kind in _CLOSING_TOKENS)
        if depth < 0:
            # The parser reports the extra closing bracket.
            break
    return depth > 0
