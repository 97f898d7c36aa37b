"""Values of the root module's variables from all sources, converted to the variable's type."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import CallHeader, LocalValue, Variable
from nexusform.configuration.static_arguments import evaluate_constant
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    SourceFile,
    Span,
    build_diagnostic,
    build_error,
    build_warning,
    has_errors,
    suggest_name,
)
from nexusform.diagnostics.levels import MISSING_VALUE
from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.body_decoding import decode_attributes
from nexusform.language.evaluation_run import Scope
from nexusform.language.parser import parse_expression, parse_file
from nexusform.language.syntax.scanner import describe_span as place_of
from nexusform.language.syntax.syntax_nodes import Expression, Traversal
from nexusform.language.type_conversion import convert_value, describe_problem
from nexusform.schemas.value_types import STRING, PrimitiveType, describe_type
from nexusform.values.typed_value import DYNAMIC_UNKNOWN, Value, build_string, build_unknown

ENVIRONMENT_PREFIX = "NF_VAR_"
DEFAULT: Final = "default"


_ENVIRONMENT: Final = "environment variable "


class VariableValueSource(Struct, frozen=True):
    """Origin of a value, and its span if any.

    The origin is "default", "-var", "environment variable NF_VAR_x" or a file.
    """

    text: str
    span: Span | None = None

    @property
    def is_default(self) -> bool:
        """True if nothing set the variable."""
        return self.text == DEFAULT

    @property
    def is_environment(self) -> bool:
        """Whether an environment variable set the variable."""
        return self.text.startswith(_ENVIRONMENT)


class Assignment(Struct, frozen=True):
    """One assignment: text from the command line or the environment, or an expression of a file."""

    name: str
    value: str | Expression
    origin: VariableValueSource


def parse_environment_variables(environment: Mapping[str, str]) -> list[Assignment]:
    """Return the assignments of the NF_VAR_ variables, sorted by name."""
    return [
        Assignment(
            key.removeprefix(ENVIRONMENT_PREFIX), text, VariableValueSource(f"{_ENVIRONMENT}{key}")
        )
        for key, text in sorted(environment.items())
        if key.startswith(ENVIRONMENT_PREFIX)
    ]


def parse_variable_option(text: str) -> tuple[Assignment | None, list[Diagnostic]]:
    """Parse the assignment of `-var NAME=VALUE`; None, and an error, if it is malformed."""
    # A later "=" belongs to the value.
    name, equals, value = text.partition("=")
    if not equals:
        detail = (
            f'The given -var option "{text}" is not correctly specified. It must be a variable '
            'name and value separated by an equals sign, like -var="key=value".'
        )
        return None, [build_error("invalid-var-option", detail)]
    if name != name.strip():
        detail = (
            f'The given -var option "{text}" must not have spaces around the name. To pass a name '
            "and value with spaces, quote the whole option."
        )
        return None, [build_error("invalid-variable-name", detail)]
    return Assignment(name, value, VariableValueSource("-var")), []


def parse_variable_file(source: SourceFile) -> tuple[list[Assignment], list[Diagnostic]]:
    """Parse the assignments of a variable file; texts of JSON are literal, as in Terraform.

    Its problems never show its text: it may contain secrets.
    """
    from nexusform.language.json_syntax import parse_json_file

    if source.name.endswith(".json"):
        json_body, problems = parse_json_file(source)
        attributes, new_problems = decode_attributes(json_body, has_templates=False)
    else:
        body, problems = parse_file(source)
        attributes, new_problems = decode_attributes(body)
    assignments = [
        Assignment(name, attribute.expression, VariableValueSource(source.name, attribute.span))
        for name, attribute in attributes.items()
    ]
    # Keep position and kind of a problem, but none of the text: its variable, and so its
    # sensitivity, is unknown.
    redacted_problems: list[Diagnostic] = []
    for problem in (*problems, *new_problems):
        cause = _CAUSES.get(problem.id, "The assignment is not valid.")
        detail = f"{cause} The text is hidden because a variables file may contain secrets."
        redacted_problems.append(
            build_diagnostic(problem.severity, problem.id, detail, problem.subject)
        )
    return assignments, redacted_problems


_QUOTE: Final = "A quotation mark is missing: write text in quotes, on one line."
_BRACKET: Final = "A bracket is not closed: close [ with ], and { with }."
_PARENTHESIS: Final = "A parenthesis is not closed."
_NAME: Final = 'An assignment is a variable name, "=" and a value: name = "value".'
_COMMA: Final = "A comma is missing between two items."
# Cause of the error, by the diagnostic of the syntax; never the text itself.
_CAUSES: Final[Mapping[str, str]] = {
    "argument-definition-required": _NAME,
    "argument-or-block-definition-required": _NAME,
    "attribute-redefined": "The same variable is assigned twice in this file.",
    "invalid-block-definition": (
        'There is no "=" between a name and its value: write name = "value".'
    ),
    "invalid-argument-name": _NAME,
    "invalid-character": 'A character is not valid here. Write text in double quotation marks (").',
    "invalid-escape-sequence": 'An escape sequence is not valid: write "\\\\" for a backslash.',
    "invalid-expression": 'A value is missing or malformed, after "=" or between two commas.',
    "invalid-json-syntax": "The file is not valid JSON.",
    "invalid-multi-line-string": _QUOTE,
    "missing-attribute-separator": "A comma or a new line is missing between two attributes.",
    "missing-attribute-value": 'An attribute in { } has no value: write name = "value".',
    "missing-closing-parenthesis": _PARENTHESIS,
    "missing-expression": 'A "${" has no expression or no "}"; for plain text write "$${".',
    "missing-item-separator": _COMMA,
    "missing-key-value-separator": 'There is no "=" between a name in { } and its value.',
    "missing-newline-after-argument": (
        "There is more text after a value. Write each variable on its own line, and text in "
        "quotation marks."
    ),
    "unbalanced-parentheses": _PARENTHESIS,
    "unclosed-configuration-block": _BRACKET,
    "unclosed-template-interpolation-sequence": (
        'A "${" is not closed by "}"; for plain text write "$${".'
    ),
    "unexpected-block": (
        "A variables file cannot contain blocks. Declare variables in the configuration."
    ),
    "unexpected-comma-after-argument": (
        "Remove the comma after the assignment, and write each assignment on its own line."
    ),
    "unterminated-constructor": _BRACKET,
    "unterminated-function-call": _PARENTHESIS,
    "unterminated-string-literal": _QUOTE,
    "unterminated-template-string": (
        "A text or a heredoc (<<NAME) has no end: its last line must be NAME alone."
    ),
}


def resolve_variable_values(
    variables: Mapping[str, Variable], assignments: Iterable[Assignment], hint: Callable[[str], str]
) -> tuple[dict[str, tuple[Value, VariableValueSource]], list[Diagnostic]]:
    """Return the value and origin of every declared variable.

    The last of several assignments counts. `hint` returns advice on the missing value of a
    variable, by name.
    """
    problems: list[Diagnostic] = []
    last_assignments: dict[str, Assignment] = {}
    for assignment in assignments:
        if assignment.name in variables:
            last_assignments[assignment.name] = assignment
        else:
            problems.extend(_check_variable_declared(assignment, variables))
    values: dict[str, tuple[Value, VariableValueSource]] = {}
    for name, variable in variables.items():
        values[name] = _resolve_variable(variable, last_assignments.get(name), hint, problems)
    return values, problems


def _check_variable_declared(
    assignment: Assignment, variables: Mapping[str, Variable]
) -> Iterable[Diagnostic]:
    """Report an undeclared variable.

    The report is an error for -var, and a warning for a file. The environment is shared, so its
    variables are not reported.
    """
    hint = suggest_name(assignment.name, variables)
    advice = f'To use this value, add a "variable" block to the configuration.{hint}'
    if assignment.origin.text == "-var":
        detail = (
            f'A variable named "{assignment.name}" was assigned on the command line, but the root '
            f"module does not declare a variable of that name. {advice}"
        )
        yield build_error("value-for-undeclared-variable", detail)
    elif assignment.origin.span is not None:
        detail = (
            f'The root module does not declare a variable named "{assignment.name}" but a value '
            "was found in "
            f'file "{assignment.origin.text}". {advice}'
        )
        yield build_warning("value-for-undeclared-variable", detail, assignment.origin.span)


def _resolve_variable(
    variable: Variable,
    assignment: Assignment | None,
    hint: Callable[[str], str],
    problems: list[Diagnostic],
) -> tuple[Value, VariableValueSource]:
    """Return the assigned or default value of a variable, and its origin.

    After an error the value is unknown. A null counts as not assigned if the variable is not
    nullable. `hint` returns advice on a missing value, by name.
    """
    origin = VariableValueSource(DEFAULT, variable.span)
    value: Value | None = variable.default
    if assignment is not None:
        origin = assignment.origin
        if variable.deprecated:
            from nexusform.configuration.value_blocks import build_deprecated_variable_warning

            problems.append(build_deprecated_variable_warning(variable, origin.span))
        value, new_problems = _convert_assigned_value_to_type(variable, assignment)
        problems.extend(
            _redact_sensitive_problems(variable, assignment, new_problems)
            if variable.marks
            else new_problems
        )
        # The default replaces null.
        if not has_errors(new_problems) and value.is_null and not variable.nullable:
            value = variable.default
            origin = VariableValueSource(DEFAULT, variable.span)
            if value is None:
                detail = (
                    f"The given value (from {assignment.origin.text}) is not suitable for "
                    f"var.{variable.name} declared at {place_of(variable.span)}: required variable "
                    "may not be set to null."
                )
                subject = assignment.origin.span or variable.span
                problems.append(build_error("required-variable-not-set", detail, subject))
                # Not None: it is reported already.
                value = build_unknown(variable.type)
    # Neither assigned nor a default.
    if value is None:
        detail = (
            f'The root module input variable "{variable.name}" is not set, and has no default '
            "value. Use a -var or -var-file command line argument to provide a value for this "
            f"variable.{hint(variable.name)}"
        )
        problems.append(build_error(MISSING_VALUE, detail, variable.span))
        value = build_unknown(variable.type)
    return value.add_marks(variable.marks), origin


def _redact_sensitive_problems(
    variable: Variable, assignment: Assignment, problems: list[Diagnostic]
) -> list[Diagnostic]:
    """Return one error without line or content for all errors of a sensitive or ephemeral variable.

    The list is empty without errors.
    """
    if not has_errors(problems):
        return []
    span = assignment.origin.span
    word = "sensitive" if variable.sensitive else "ephemeral"
    source = place_of(span) if span is not None else assignment.origin.text
    detail = (
        f"The given value (from {source}) is not suitable for var.{variable.name} declared at "
        f"{place_of(variable.span)}: {describe_type(variable.type, constraint=True)} required. The "
        f"value is hidden because it is {word}."
    )
    return [build_error("invalid-value-for-input-variable", detail, variable.span)]


def _convert_assigned_value_to_type(
    variable: Variable, assignment: Assignment
) -> tuple[Value, list[Diagnostic]]:
    """Convert a value to the type of its variable.

    If it does not fit, return an error and an unknown value.
    """
    # From an option or the environment; else an expression of a file.
    if isinstance(assignment.value, str):
        if not _is_unicode(assignment.value):
            detail = (
                f"The value of var.{variable.name} (from {assignment.origin.text}) is not UTF-8. "
                "Set it in UTF-8."
            )
            return build_unknown(variable.type), [
                build_error("invalid-value-for-input-variable", detail, variable.span)
            ]
        value, problems = _parse_text(variable, assignment.value)
    else:
        value, new_problems = evaluate_constant(assignment.value)
        # A bare word is usually meant as a text.
        quotes_hint = 'Write text in quotation marks: name = "value".'
        problems = [
            replace(problem, detail=f"{problem.detail} {quotes_hint}")
            if problem.id == "variables-not-allowed"
            else problem
            for problem in new_problems
        ]
    if has_errors(problems):
        return build_unknown(variable.type), problems
    if not isinstance(assignment.value, str):
        from nexusform.configuration.value_blocks import list_ignored_attributes

        problems = [*problems, *list_ignored_attributes(assignment.value, variable.type)]
    try:
        return convert_value(value, variable.type), problems
    except ConversionProblem as problem:
        declared = place_of(variable.span)
        # Without a span, the text is the only information about the origin.
        source = f" (from {assignment.origin.text})" if assignment.origin.span is None else ""
        detail = (
            f"The given value{source} is not suitable for var.{variable.name} declared at "
            f"{declared}: {describe_problem(problem)}."
        )
        subject = variable.span if isinstance(assignment.value, str) else assignment.value.span
        return build_unknown(variable.type), [
            build_error("invalid-value-for-input-variable", detail, subject)
        ]


def _is_unicode(text: str) -> bool:
    """Return whether a text has no bytes that the system could not decode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse_text(variable: Variable, text: str) -> tuple[Value, list[Diagnostic]]:
    """Return the text itself for a primitive type or without a type, else its value as expression.

    This is as in Terraform.
    """
    if not variable.is_typed or variable.type in _LITERAL_TYPES:
        return build_string(text), []
    source = SourceFile(f"<value for var.{variable.name}>", text)
    expression, problems = parse_expression(source)
    if expression is None:
        return build_unknown(variable.type), problems
    value, new_problems = evaluate_constant(expression)
    return value, [*problems, *new_problems]


_LITERAL_TYPES: Final = (STRING, PrimitiveType("number"), PrimitiveType("bool"))


class ConstantVariableScope:
    """Scope of one module: its constant variables, and the locals that depend on them alone."""

    functions: Mapping[str, Any] = {}

    def __init__(
        self,
        variables: Mapping[str, Variable],
        locals_: Mapping[str, LocalValue],
        values: Mapping[str, Value],
    ) -> None:
        """Keep the declarations; `values` are those of the constant variables by name."""
        self._variables = variables
        self._locals = locals_
        self._values = values
        # Each depends on the next.
        self._locals_in_evaluation: list[str] = []

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        """Return the value of a constant `var.NAME` or `local.NAME`, 1, and the problems.

        The number 1 counts the steps read (NAME).
        """
        root = traversal.root.name
        name = traversal.first_name
        if root == "local" and name in self._locals_in_evaluation:
            # It depends on itself: reported elsewhere.
            return DYNAMIC_UNKNOWN, len(traversal.steps), []
        if root == "local" and name in self._locals:
            self._locals_in_evaluation.append(name)
            value, problems = evaluate_constant(self._locals[name].expression, self)
            self._locals_in_evaluation.pop()
            return value, 1, problems
        if root == "var" and name in self._values:
            variable = self._variables[name]
            if not variable.marks:
                return self._values[name], 1, []
            reason = (
                f"var.{name} is {'sensitive' if variable.sensitive else 'ephemeral'}: its value "
                "would be shown."
            )
        elif root == "var" and name in self._variables:
            reason = f'var.{name} is not constant. Add "const = true" to its variable block.'
        else:
            reason = "Only constant variables, and locals of these, may be used here."
        return (
            DYNAMIC_UNKNOWN,
            len(traversal.steps),
            [build_error("not-a-constant", reason, traversal.span)],
        )


def evaluate_constant_variables(
    header: CallHeader, scope: Scope, variables: Mapping[str, Variable], problems: list[Diagnostic]
) -> dict[str, Value]:
    """Return the values of a called module's constant variables.

    Add to `problems`. `scope` has the caller's names.
    """
    values: dict[str, Value] = {}
    for name, variable in variables.items():
        values[name] = DYNAMIC_UNKNOWN if variable.default is None else variable.default
        if name not in header.inputs:
            # The default remains; if there is none, it is reported with the call.
            continue
        expression, _ = header.inputs[name]
        value, new_problems = evaluate_constant(expression, scope)
        problems += new_problems
        if has_errors(new_problems) or (value.is_null and not variable.nullable):
            # The default remains.
            continue
        try:
            values[name] = convert_value(value, variable.type)
        except ConversionProblem as problem:
            detail = f'Inappropriate value for "{name}": {describe_problem(problem)}.'
            problems.append(build_error("unsuitable-value-type", detail, expression.span))
    return values
