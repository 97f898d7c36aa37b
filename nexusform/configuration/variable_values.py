"""Values for the root module's variables: what was given where, brought to the variable's type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declared.configuration import Variable
from nexusform.configuration.declared.constants import constant
from nexusform.diagnostics import Diagnostic, diagnostic, did_you_mean, error, has_errors, warning
from nexusform.language.bodies import just_attributes
from nexusform.language.conversion import convert, describe
from nexusform.language.json_syntax import parse_json_file
from nexusform.language.parser import parse_expression, parse_file
from nexusform.language.syntax.nodes import Expression
from nexusform.language.syntax.positions import describe as place_of
from nexusform.plain_data import ConversionProblem
from nexusform.source import SourceFile, Span
from nexusform.value_types import STRING, PrimitiveType, friendly_name
from nexusform.values import SENSITIVE, Value, string, unknown

ENVIRONMENT_PREFIX = "NF_VAR_"
DEFAULT: Final = "default"


class Origin(Struct, frozen=True):
    """Where a value came from: "default", "-var", "environment variable NF_VAR_x" or a file's name.

    `span` is the place of its text where there is one.
    """

    text: str
    span: Span | None = None


class Assignment(Struct, frozen=True):
    """One assignment: text from the command line or the environment, or an expression of a file."""

    name: str
    value: str | Expression
    origin: Origin


def from_environment(environment: Mapping[str, str]) -> list[Assignment]:
    """The NF_VAR_ variables, sorted."""
    return [
        Assignment(key.removeprefix(ENVIRONMENT_PREFIX), text, Origin(f"environment variable {key}"))
        for key, text in sorted(environment.items())
        if key.startswith(ENVIRONMENT_PREFIX)
    ]


def from_option(text: str) -> tuple[Assignment | None, list[Diagnostic]]:
    """The assignment of `-var NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not equals:
        detail = (
            f'The given -var option "{text}" is not correctly specified. It must be a variable name and '
            'value separated by an equals sign, like -var="key=value".'
        )
        return None, [error("invalid-var-option", detail)]
    if name != name.strip():
        detail = (
            f'The given -var option "{text}" must not have spaces around the name. To pass a name and value '
            "with spaces, quote the whole option."
        )
        return None, [error("invalid-variable-name", detail)]
    return Assignment(name, value, Origin("-var")), []


def from_file(source: SourceFile) -> tuple[list[Assignment], list[Diagnostic]]:
    """The assignments of a variable file."""
    if source.name.endswith(".json"):
        json_body, problems = parse_json_file(source)
        attributes, wrong = just_attributes(json_body)
    else:
        body, problems = parse_file(source)
        attributes, wrong = just_attributes(body)
    assignments = [Assignment(n, a.expression, Origin(source.name, a.span)) for n, a in attributes.items()]
    return assignments, [_without_words(problem) for problem in (*problems, *wrong)]


_QUOTE: Final = "A quotation mark is missing: a text begins and ends with one, on one line."
_BRACKET: Final = "A bracket is not closed: [ ends with ], and { with }."
_PARENTHESIS: Final = "A parenthesis is not closed."
_NAME: Final = 'A line begins with the name of a variable and one "=", then its value: name = "value".'
_COMMA: Final = "Between two items a comma is missing."
# What kind of slip it is, by the diagnostic of the syntax; never what stands there.
_SLIPS: Final[Mapping[str, str]] = {
    "argument-definition-required": _NAME,
    "argument-or-block-definition-required": _NAME,
    "attribute-redefined": "The same variable is assigned twice in this file.",
    "invalid-block-definition": 'Between a name and its value there is no "=": name = "value".',
    "invalid-argument-name": _NAME,
    "invalid-character": 'A character means nothing here. A text stands in double quotation marks (").',
    "invalid-escape-sequence": 'A backslash stands before what it cannot: write "\\\\" for a backslash.',
    "invalid-expression": 'A value is missing after "=" or between two commas, or is not written as one.',
    "invalid-json-syntax": "The file is not valid JSON.",
    "invalid-multi-line-string": _QUOTE,
    "missing-attribute-separator": "Between two attributes a comma or a new line is missing.",
    "missing-attribute-value": 'An attribute in { } has no value: name = "value".',
    "missing-closing-parenthesis": _PARENTHESIS,
    "missing-expression": 'A "${" has no expression or no "}"; as text it is written "$${".',
    "missing-item-separator": _COMMA,
    "missing-key-value-separator": 'Between a name in { } and its value there is no "=".',
    "missing-newline-after-argument": (
        "After a value more follows on its line: each variable has a line of its own, and a text stands "
        "between quotation marks."
    ),
    "unbalanced-parentheses": _PARENTHESIS,
    "unclosed-configuration-block": _BRACKET,
    "unclosed-template-interpolation-sequence": 'A "${" is not closed by "}"; as text it is written "$${".',
    "unexpected-block": "A file of variables holds no blocks: variables are declared in configuration.",
    "unexpected-comma-after-argument": "No comma follows an assignment: each has a line of its own.",
    "unterminated-constructor": _BRACKET,
    "unterminated-function-call": _PARENTHESIS,
    "unterminated-string-literal": _QUOTE,
    "unterminated-template-string": "A text or a heredoc (<<NAME) does not end: its last line is NAME alone.",
}


def _without_words(problem: Diagnostic) -> Diagnostic:
    """What is told of a file of variables that cannot be read: where, what kind of slip it is, and nothing of
    what stands there. Which value it is, and so whether it is sensitive, cannot be told.
    """
    slip = _SLIPS.get(problem.id, "This is not how variables are assigned.")
    detail = f"{slip} What stands there is not shown: a file of variables may hold secrets."
    return diagnostic(problem.severity, problem.id, detail, problem.subject)


def settle(
    variables: Mapping[str, Variable], assignments: Iterable[Assignment], hint: Callable[[str], str]
) -> tuple[dict[str, tuple[Value, Origin]], list[Diagnostic]]:
    """The value and origin of every declared variable; of several assignments the last one counts.

    `hint` says of a variable without a value where one may be meant to come from.
    """
    problems: list[Diagnostic] = []
    last: dict[str, Assignment] = {}
    for each in assignments:
        if each.name in variables:
            last[each.name] = each
        else:
            problems.extend(_undeclared(each, variables))
    values: dict[str, tuple[Value, Origin]] = {}
    for name, variable in variables.items():
        values[name] = _value_of(variable, last.get(name), hint, problems)
    return values, problems


def _undeclared(assignment: Assignment, variables: Mapping[str, Variable]) -> Iterable[Diagnostic]:
    """What is said of a value for a variable that nobody declares, by where it comes from."""
    hint = did_you_mean(assignment.name, variables)
    advice = f'To use this value, add a "variable" block to the configuration.{hint}'
    if assignment.origin.text == "-var":
        detail = (
            f'A variable named "{assignment.name}" was assigned on the command line, but the root module '
            f"does not declare a variable of that name. {advice}"
        )
        yield error("value-for-undeclared-variable", detail)
    elif assignment.origin.span is not None:
        detail = (
            f'The root module does not declare a variable named "{assignment.name}" but a value was found in '
            f'file "{assignment.origin.text}". {advice}'
        )
        yield warning("value-for-undeclared-variable", detail, assignment.origin.span)


def _value_of(
    variable: Variable, assignment: Assignment | None, hint: Callable[[str], str], problems: list[Diagnostic]
) -> tuple[Value, Origin]:
    """The value of a variable and where it comes from; null gives way to the default where it is not
    allowed.
    """
    origin = Origin(DEFAULT, variable.span)
    value: Value | None = variable.default
    if assignment is not None:
        origin = assignment.origin
        value, wrong = _given_value(variable, assignment)
        problems.extend(_untold(variable, assignment, wrong) if variable.sensitive else wrong)
        if not has_errors(wrong) and value.is_null and not variable.nullable:
            value, origin = variable.default, Origin(DEFAULT, variable.span)
            if value is None:
                problems.append(_null(variable, assignment))
                value = unknown(variable.type)
    if value is None:
        problems.append(_missing(variable, hint(variable.name)))
        value = unknown(variable.type)
    return (value.with_marks(SENSITIVE) if variable.sensitive else value), origin


def _untold(variable: Variable, assignment: Assignment, problems: list[Diagnostic]) -> list[Diagnostic]:
    """What is told of a sensitive variable's value: neither the line where it stands nor what is in it."""
    if not problems:
        return []
    span = assignment.origin.span
    where = place_of(span) if span is not None else assignment.origin.text
    detail = (
        f"The given value (from {where}) is not suitable for var.{variable.name} declared at "
        f"{place_of(variable.span)}: {friendly_name(variable.type, constraint=True)} required. It is "
        "sensitive, so nothing else is told of the value."
    )
    return [error("invalid-value-for-input-variable", detail, variable.span)]


def _given_value(variable: Variable, assignment: Assignment) -> tuple[Value, list[Diagnostic]]:
    """A value as the type of its variable; unknown when it does not fit."""
    if isinstance(assignment.value, str):
        value, problems = _from_text(variable, assignment.value)
    else:
        value, wrong = constant(assignment.value)
        problems = [_as_value(problem) for problem in wrong]
    if has_errors(problems):
        return unknown(variable.type), problems
    try:
        return convert(value, variable.type), problems
    except ConversionProblem as problem:
        declared = place_of(variable.span)
        through = f" (from {assignment.origin.text})" if assignment.origin.span is None else ""
        detail = (
            f"The given value{through} is not suitable for var.{variable.name} declared at {declared}: "
            f"{describe(problem)}."
        )
        subject = variable.span if isinstance(assignment.value, str) else assignment.value.span
        return unknown(variable.type), [error("invalid-value-for-input-variable", detail, subject)]


def _as_value(problem: Diagnostic) -> Diagnostic:
    """Whoever assigns a bare word mostly means a text."""
    if problem.id != "variables-not-allowed":
        return problem
    return replace(problem, detail=f'{problem.detail} A text stands between quotation marks: name = "value".')


def _from_text(variable: Variable, text: str) -> tuple[Value, list[Diagnostic]]:
    """Text is taken as it is for a primitive type and where none is written, as Terraform does, and read as
    an expression for any other.
    """
    if not _reads_as_expression(variable):
        return string(text), []
    source = SourceFile(f"<value for var.{variable.name}>", text)
    expression, problems = parse_expression(source)
    if expression is None:
        return unknown(variable.type), problems
    value, wrong = constant(expression)
    return value, [*problems, *wrong]


def _reads_as_expression(variable: Variable) -> bool:
    return variable.is_typed and variable.type not in _LITERAL


_LITERAL: Final = (STRING, PrimitiveType("number"), PrimitiveType("bool"))


def _null(variable: Variable, assignment: Assignment) -> Diagnostic:
    detail = (
        f"The given value (from {assignment.origin.text}) is not suitable for var.{variable.name} declared "
        f"at {place_of(variable.span)}: required variable may not be set to null."
    )
    return error("required-variable-not-set", detail, assignment.origin.span or variable.span)


def _missing(variable: Variable, hint: str) -> Diagnostic:
    detail = (
        f'The root module input variable "{variable.name}" is not set, and has no default value. Use a -var '
        f"or -var-file command line argument to provide a value for this variable.{hint}"
    )
    return error("no-value-for-required-variable", detail, variable.span)
