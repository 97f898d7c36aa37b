"""templatefile and templatestring: text rendered as a template with variables of its own."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    SourceFile,
    build_error,
    has_errors,
    select_errors,
    suggest_name,
)
from nexusform.language.functions.file_access import FileReader
from nexusform.language.functions.function import Example, Function, FunctionProblem, Functions, Parameter
from nexusform.language.syntax.syntax_nodes import Traversal
from nexusform.schemas.value_types import DYNAMIC, STRING, MapType, ObjectType, describe_type
from nexusform.values.typed_value import DYNAMIC_UNKNOWN, Value

# Maximum nesting of template calls.
MAX_DEPTH: Final = 32
_NAME: Final = re.compile(r"[^\W\d][\w-]*\Z")


class _TemplateScope:
    # Contains only the variables passed to a template.
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
        hint = suggest_name(name, self._variables)
        detail = f'vars map does not contain key "{name}".{hint}'
        problem = build_error("unknown-template-variable", detail, traversal.root.span)
        return DYNAMIC_UNKNOWN, len(traversal.steps), [problem]


class TemplateRenderer:
    """Renderer of templates with the functions of the configuration, with limited nesting."""

    def __init__(self) -> None:
        self.functions: Functions = {}
        self._depth = 0

    def render(self, name: str, text: str, variables: Value) -> Value:
        """Render a template to its value: text, or of any type if it is one interpolation. Raises FunctionProblem."""
        from nexusform.language.evaluator import evaluate_expression
        from nexusform.language.parser import parse_template

        if self._depth >= MAX_DEPTH:
            raise FunctionProblem(f"templates render one another more than {MAX_DEPTH} levels deep")
        if not isinstance(variables.type, (MapType, ObjectType)):
            raise FunctionProblem(f"invalid vars value: must be a map, not {describe_type(variables.type)}", argument=1)
        for variable_name in variables.raw:
            if not _NAME.match(variable_name):
                raise FunctionProblem(
                    f'invalid template variable name "{variable_name}": must start with a letter, followed by zero or '
                    "more letters, digits, and underscores",
                    argument=1,
                )
        expression, problems = parse_template(SourceFile(name, text))
        if expression is None or has_errors(problems):
            raise FunctionProblem(_describe_first_error(problems))
        self._depth += 1
        try:
            value, problems = evaluate_expression(expression, _TemplateScope(variables.raw, self.functions))
        finally:
            self._depth -= 1
        if has_errors(problems):
            raise FunctionProblem(_describe_first_error(problems))
        return value


def _describe_first_error(problems: Sequence[Diagnostic]) -> str:
    """Return position, summary and detail of the first error as one clause."""
    first = select_errors(problems)[0]
    span = first.subject
    position = f"{span.filename}:{span.start.line},{span.start.column}: " if span else ""
    return f"{position}{first.summary}; {first.detail.rstrip('.')}"


_VARIABLES: Final = Parameter("vars", DYNAMIC, "a map or object of the template's variables")


def build_template_functions(reader: FileReader, renderer: TemplateRenderer) -> tuple[Function, ...]:
    """Build templatefile and templatestring."""
    return (
        Function(
            "templatefile",
            "The content of a file rendered as a template.",
            (Parameter("path", STRING, "the file"), _VARIABLES),
            DYNAMIC,
            lambda path, variables: renderer.render(path.raw, reader.read_text(path.raw), variables),
        ),
        Function(
            "templatestring",
            "A text rendered as a template.",
            (Parameter("template", STRING, "the text"), _VARIABLES),
            DYNAMIC,
            lambda text, variables: renderer.render("<templatestring argument>", text.raw, variables),
            (Example('templatestring("Hello, $${name}!", { name = "Ander" })', '"Hello, Ander!"'),),
        ),
    )
