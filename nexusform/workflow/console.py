"""Expressions one after the other, over a configuration and what the state holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declared.configuration import Configuration, Module, Settings
from nexusform.configuration.loader import read_variables
from nexusform.configuration.reference_checks import check_expression
from nexusform.diagnostics import Diagnostic, has_errors
from nexusform.language.functions.function import FixedProblem, Function, anything
from nexusform.language.parser import parse_expression
from nexusform.language.syntax.nodes import Call, Expression, Parentheses
from nexusform.language.syntax.scanner import (
    CLOSE_HEREDOC,
    DIRECTIVE,
    END,
    INTERPOLATION,
    OPEN_HEREDOC,
    QUOTED_NEWLINE,
    SEQUENCE_END,
    scan,
)
from nexusform.language.traced_part import TracedPart
from nexusform.planning.names.origins import Origins
from nexusform.planning.names.setting import StandingEvaluation, standing_evaluation
from nexusform.planning.request import PlanRequest
from nexusform.rendering.answers.console_text import console_type, console_value
from nexusform.resource_types.registry import registries
from nexusform.source import SourceFile
from nexusform.value_types import DYNAMIC
from nexusform.values import DYNAMIC_UNKNOWN, Value
from nexusform.workflow.opening.elsewhere import RemoteStates, Servers
from nexusform.workflow.opening.place import Place, load_configuration
from nexusform.workflow.opening.project import open_backend
from nexusform.workflow.opening.stored import read_stored
from nexusform.workflow.opening.surroundings import RealFiles, plan_time

INPUT: Final = "<console-input>"
_OPENING: Final = frozenset({"{", "[", "(", INTERPOLATION, DIRECTIVE, OPEN_HEREDOC})
_CLOSING: Final = frozenset({"}", "]", ")", SEQUENCE_END, CLOSE_HEREDOC})


class Evaluated(Struct, frozen=True):
    """The text of a result, None when there was an error."""

    text: str | None
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, SourceFile]


class Explained(Struct, frozen=True):
    """The tree of an expression, None when there was an error in it."""

    tree: TracedPart | None
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, SourceFile]


class Opened(Struct, frozen=True):
    """A console, None when the configuration or the state is in error."""

    console: Console | None
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, SourceFile]


def open_console(place: Place) -> Opened:
    """Read configuration, variables and state. Variables without a value are unknown; a directory
    without configuration has no names.
    """
    configuration, problems = load_configuration(place)
    if configuration is not None and not configuration.files:
        problems = [p for p in problems if p.id != "no-configuration-files"]
    if configuration is None:
        configuration = Configuration(Module((), place.directory), Settings(), {})
    sources: dict[str, SourceFile] = dict(configuration.files)
    variables, wrong = read_variables(
        configuration,
        environment=place.environment,
        var_options=place.variables,
        directory=place.directory,
        confinement=place.confinement,
    )
    problems += [p for p in wrong if p.id != "no-value-for-required-variable"]
    backend, wrong = open_backend(place, configuration)
    problems += wrong
    stored = None
    if backend is not None:
        stored, wrong = read_stored(backend)
        problems += wrong
    if stored is None or has_errors(problems):
        return Opened(None, tuple(problems), sources)
    request = PlanRequest(
        configuration=configuration,
        variables={name: value for name, (value, _) in variables.items()},
        state=stored.state,
        registries=registries(),
        files=RealFiles(place.confinement),
        now=plan_time(place.environment),
        workspace=place.workspace,
        working_directory=place.directory,
        applying=True,
        read_state=RemoteStates(place, configuration.settings).read,
        ask=Servers(place).ask,
    )
    return Opened(Console(request, sources), tuple(problems), sources)


class Console:
    """Answers expressions."""

    def __init__(self, request: PlanRequest, sources: Mapping[str, SourceFile]) -> None:
        self._request = request
        self._sources = sources

    def answer(self, text: str) -> Evaluated:
        """The result of one expression."""
        source = SourceFile(INPUT, text)
        expression, problems = parse_expression(source)
        shown = None
        if expression is not None:
            shown, problems = self._answered(expression)
        return Evaluated(shown, tuple(problems), {**self._sources, INPUT: source})

    def explained(self, text: str) -> Explained:
        """Where the value of one expression comes from."""
        source = SourceFile(INPUT, text)
        sources = {**self._sources, INPUT: source}
        expression, problems = parse_expression(source)
        if expression is not None:
            problems = self._mistakes(expression)
        if expression is None or has_errors(problems):
            return Explained(None, tuple(problems), sources)
        part, problems = Origins(self._evaluation(), sources, INPUT).of(expression)
        return Explained(part, tuple(problems), sources)

    def _answered(self, expression: Expression) -> tuple[str | None, list[Diagnostic]]:
        """What is printed for an expression; None when it is wrong."""
        asked = _type_of(expression)
        if asked is not None and _type_of(asked) is not None:
            return "type", []
        value, problems = self._value(asked if asked is not None else expression)
        if has_errors(problems):
            return None, problems
        return console_type(value.type) if asked is not None else console_value(value), problems

    def _value(self, expression: Expression) -> tuple[Value, list[Diagnostic]]:
        problems = self._mistakes(expression)
        if has_errors(problems):
            return DYNAMIC_UNKNOWN, problems
        evaluation = self._evaluation()
        value = evaluation.evaluated(expression, evaluation.scope(evaluation.root))
        return value if value is not None else DYNAMIC_UNKNOWN, evaluation.diagnostics

    def _mistakes(self, expression: Expression) -> list[Diagnostic]:
        """References to what there is not."""
        schemas = self._request.registries.schemas
        root = self._request.configuration.root
        return check_expression(expression, root, schemas["managed"], schemas["data"])

    def _evaluation(self) -> StandingEvaluation:
        """Every line is evaluated anew, so that one in error leaves nothing behind."""
        evaluation = standing_evaluation(self._request)
        plain = evaluation.setting.functions

        def functions() -> Mapping[str, Any]:
            return {**plain(), _TYPE.name: _TYPE}

        evaluation.setting = replace(evaluation.setting, functions=functions, applying=False)
        return evaluation

    def names(self) -> list[str]:
        """What may begin an expression, for completion at the prompt."""
        root = self._request.configuration.root
        functions = standing_evaluation(self._request).setting.functions()
        resources = [f"data.{k}.{n}" if m == "data" else f"{k}.{n}" for m, k, n in root.resources]
        return sorted(
            [
                *(f"{name}(" for name in (*functions, "type")),
                *(f"var.{name}" for name in root.variables),
                *(f"local.{name}" for name in root.locals),
                *(f"module.{name}" for name in root.calls),
                *resources,
                *("path.module", "path.root", "path.cwd", "nexusform.workspace"),
            ]
        )


def _type_of(expression: Expression) -> Expression | None:
    """What the type of is asked for, None when it is another expression."""
    while isinstance(expression, Parentheses):
        expression = expression.inner
    if isinstance(expression, Call) and expression.name == "type" and len(expression.arguments) == 1:
        return expression.arguments[0]
    return None


def _no_part(_given: Value) -> Value:
    raise FixedProblem('the console-only "type" function cannot be used as part of an expression')


_TYPE: Final = Function(
    name="type",
    description="The type of a value; console only.",
    parameters=(anything("value", "Any value.", marked=True),),
    returns=DYNAMIC,
    body=_no_part,
)


def is_unfinished(text: str) -> bool:
    """Whether brackets or a heredoc are still open, so that another line is to be waited for."""
    tokens = scan(text if text.endswith("\n") else text + "\n")
    if QUOTED_NEWLINE in tokens.kinds:
        return False
    depth = 0
    for kind in tokens.kinds:
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth < 0 or kind == END:
            break
    return depth > 0
