"""templatefile and templatestring: text rendered as a template with variables of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from nexusform.diagnostics import Diagnostic, did_you_mean, error, has_errors
from nexusform.language.functions.file_access import FileReader
from nexusform.language.functions.function import Example, Function, FunctionProblem, Functions, Parameter
from nexusform.language.syntax.nodes import Traversal
from nexusform.source import SourceFile
from nexusform.value_types import DYNAMIC, STRING, MapType, ObjectType, Type, friendly_name
from nexusform.values import DYNAMIC_UNKNOWN, Value

# How deep templates may render templates.
DEEPEST: Final = 32
_NAME: Final = re.compile(r"[^\W\d][\w-]*\Z")


class _TemplateScope:
    # The variables that a template is given, and nothing else.
    def __init__(self, variables: Mapping[str, Value], functions: Functions) -> None:
        self._variables = variables
        self._functions = functions

    @property
    def functions(self) -> Functions:
        return self._functions

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        name = traversal.root.name
        value = self._variables.get(name)
        if value is not None:
            return value, 0, []
        hint = did_you_mean(name, self._variables)
        detail = f'vars map does not contain key "{name}".{hint}'
        problem = error("unknown-template-variable", detail, traversal.root.span)
        return DYNAMIC_UNKNOWN, len(traversal.steps), [problem]


class TemplateRenderer:
    """Renders templates with the functions of the configuration, nested only so deep."""

    def __init__(self) -> None:
        self.functions: Functions = {}
        self._depth = 0

    def render(self, name: str, text: str, variables: Value) -> Value:
        """The template's value: text, or of any type when it is one interpolation.

        Raises FunctionProblem.
        """
        from nexusform.language.evaluator import evaluate
        from nexusform.language.parser import parse_template

        if self._depth >= DEEPEST:
            raise FunctionProblem(f"templates render one another more than {DEEPEST} levels deep")
        by_name = _checked(variables)
        expression, problems = parse_template(SourceFile(name, text))
        if expression is None or has_errors(problems):
            raise FunctionProblem(_sentence(problems))
        self._depth += 1
        try:
            value, problems = evaluate(expression, _TemplateScope(by_name, self.functions))
        finally:
            self._depth -= 1
        if has_errors(problems):
            raise FunctionProblem(_sentence(problems))
        return value


def _checked(variables: Value) -> Mapping[str, Value]:
    """The variables of a template by name."""
    if not isinstance(variables.type, (MapType, ObjectType)):
        raise FunctionProblem(f"invalid vars value: must be a map, not {friendly_name(variables.type)}", 1)
    for name in variables.raw:
        if not _NAME.match(name):
            raise FunctionProblem(
                f'invalid template variable name "{name}": must start with a letter, followed by zero or '
                "more letters, digits, and underscores",
                1,
            )
    by_name: Mapping[str, Value] = variables.raw
    return by_name


def _sentence(problems: Sequence[Diagnostic]) -> str:
    first = next(p for p in problems if has_errors([p]))
    place = first.subject
    where = f"{place.filename}:{place.start.line},{place.start.column}: " if place else ""
    return f"{where}{first.summary}; {first.detail.rstrip('.')}"


_VARIABLES: Final = Parameter("vars", DYNAMIC, "a map or object of the template's variables")


def _returns(_: Sequence[Value]) -> Type:
    return DYNAMIC


def _template_file(reader: FileReader, renderer: TemplateRenderer) -> Callable[[Value, Value], Value]:
    def body(path: Value, variables: Value) -> Value:
        return renderer.render(path.raw, reader.read_text(path.raw), variables)

    return body


def template_functions(reader: FileReader, renderer: TemplateRenderer) -> tuple[Function, ...]:
    """Templatefile and templatestring."""
    return (
        Function(
            "templatefile",
            "The content of a file rendered as a template.",
            (Parameter("path", STRING, "the file"), _VARIABLES),
            _returns,
            _template_file(reader, renderer),
        ),
        Function(
            "templatestring",
            "A text rendered as a template.",
            (Parameter("template", STRING, "the text"), _VARIABLES),
            _returns,
            lambda text, variables: renderer.render("<templatestring argument>", text.raw, variables),
            (Example('templatestring("Hello, $${name}!", { name = "Ander" })', '"Hello, Ander!"'),),
        ),
    )
