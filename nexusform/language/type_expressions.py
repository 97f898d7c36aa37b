"""Type expressions of variable blocks: `list(string)`, `object({ a = optional(number, 3) })`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from nexusform.diagnostics.diagnostic import Diagnostic, build_error, has_errors, suggest_name
from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.evaluator import evaluate_expression
from nexusform.language.syntax.syntax_nodes import (
    Call,
    Expression,
    Literal,
    ObjectCons,
    Parentheses,
    StringLiteral,
    Traversal,
    TupleCons,
)
from nexusform.language.type_conversion import convert_value, describe_problem
from nexusform.schemas.value_types import (
    BOOL,
    DYNAMIC,
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    PrimitiveType,
    SetType,
    TupleType,
    Type,
)
from nexusform.values.typed_value import DYNAMIC_UNKNOWN, Value

if TYPE_CHECKING:
    from nexusform.language.functions.function import Functions

_NAMES: Final[Mapping[str, PrimitiveType]] = {
    "string": STRING,
    "number": NUMBER,
    "bool": BOOL,
    "any": DYNAMIC,
}
_COLLECTIONS: Final[Mapping[str, type[ListType | SetType | MapType]]] = {
    "list": ListType,
    "set": SetType,
    "map": MapType,
}
_CONSTRUCTORS: Final = ("list", "set", "map", "object", "tuple", "optional")
_INVALID: Final = "invalid-type-specification"


def parse_type(expression: Expression) -> tuple[Type | None, list[Diagnostic]]:
    """Parse a type expression.

    Return None, with diagnostics, if it is not a type. Defaults of optional attributes are
    converted to the attribute's type; `convert_value` applies them.
    """
    parser = _TypeParser()
    parsed_type = parser.parse_type(expression)
    return (None if parser.diagnostics else parsed_type), parser.diagnostics


def check_function_calls(problems: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Replace the problems about unknown functions in a constant.

    Even known functions are not allowed there.
    """
    checked_problems = list(problems)
    for index, problem in enumerate(problems):
        if problem.id == "call-to-unknown-function":
            checked_problems[index] = build_error(
                "function-calls-not-allowed",
                "Functions may not be called here.",
                problem.subject,
                context=problem.context,
                values=problem.values,
            )
    return checked_problems


class _NoNames:
    # Defaults are constants: no references and no calls.
    @property
    def functions(self) -> Functions:
        return {}

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        """Report any reference, and return an unknown value in its place (see Scope.lookup)."""
        detail = "The default of an optional attribute is fixed; it cannot refer to anything."
        problem = build_error("reference-not-allowed", detail, traversal.span)
        # No step is left to apply.
        return DYNAMIC_UNKNOWN, len(traversal.steps), [problem]


class _TypeParser:
    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []

    def _add_error(
        self, detail: str, node: Expression, enclosing: Expression | None = None
    ) -> None:
        context = enclosing.span if enclosing is not None else None
        self.diagnostics.append(build_error(_INVALID, detail, node.span, context=context))

    def parse_type(self, expression: Expression) -> Type:
        """Parse a type expression.

        Report an invalid one and return the open type (any).
        """
        if isinstance(expression, Parentheses):
            return self.parse_type(expression.inner)
        if isinstance(expression, Traversal) and not expression.steps:
            return self._parse_keyword(expression)
        if isinstance(expression, Call):
            return self._parse_constructor(expression)
        if isinstance(expression, StringLiteral):
            self._add_error(
                f"A type is written without quotes: {expression.value or 'string'}.", expression
            )
        elif isinstance(expression, (ObjectCons, TupleCons)):
            word = "object({...})" if isinstance(expression, ObjectCons) else "tuple([...])"
            self._add_error(f"The type with these parts is written {word}.", expression)
        elif isinstance(expression, Literal) and expression.value is None:
            self._add_error('A type cannot be null; use "any" to accept every type.', expression)
        else:
            self._add_error(
                "A type specification is either a primitive type keyword (bool, number, string), "
                "the "
                "keyword any, or a complex type constructor call, like list(string).",
                expression,
            )
        return DYNAMIC

    def _parse_keyword(self, expression: Traversal) -> Type:
        """Parse a type keyword.

        Report any other word and return the open type.
        """
        name = expression.root.name
        if name in _NAMES:
            return _NAMES[name]
        if name in _COLLECTIONS:
            self._add_error(
                (
                    f"The {name} type constructor requires one argument specifying the element "
                    f"type, as in {name}(string)."
                ),
                expression,
            )
        elif name in {"object", "tuple"}:
            sample = "object({ name = string })" if name == "object" else "tuple([string, number])"
            self._add_error(
                f"The {name} type constructor requires one argument, as in {sample}.", expression
            )
        else:
            hint = suggest_name(name, [*_NAMES, *_CONSTRUCTORS])
            self._add_error(
                f'The keyword "{name}" is not a valid type specification.{hint}', expression
            )
        return DYNAMIC

    def _parse_constructor(self, call: Call) -> Type:
        """Parse a call of a type constructor.

        Report any other call and return the open type.
        """
        name = call.name
        if name == "optional":
            self._add_error(
                'The "optional" modifier is only for attributes of an object type.', call
            )
            return DYNAMIC
        if name in _NAMES:
            self._add_error(f'The primitive type keyword "{name}" does not take arguments.', call)
            return DYNAMIC
        if name not in _CONSTRUCTORS:
            hint = suggest_name(name, [*_NAMES, *_CONSTRUCTORS])
            self._add_error(f'The keyword "{name}" is not a valid type constructor.{hint}', call)
            return DYNAMIC
        # With `...` after the argument.
        if len(call.arguments) != 1 or call.expand:
            self._add_error(f"The {name} type constructor requires exactly one argument.", call)
            return DYNAMIC
        argument = call.arguments[0]
        if name == "object":
            return self._parse_object(argument, call)
        if name == "tuple":
            if not isinstance(argument, TupleCons):
                self._add_error(
                    "Tuple type constructor requires a list of element types.", argument, call
                )
                return DYNAMIC
            return TupleType(tuple(map(self.parse_type, argument.items)))
        # A list, set or map.
        return _COLLECTIONS[name](self.parse_type(argument))

    def _parse_object(self, argument: Expression, call: Call) -> Type:
        """Parse the argument of `object(...)`.

        Invalid attributes are reported and omitted. Any other argument than a map is reported; the
        result is then the open type.
        """
        if not isinstance(argument, ObjectCons):
            self._add_error(
                "Object type constructor requires a map whose keys are attribute names and whose "
                "values "
                "are the corresponding attribute types.",
                argument,
                call,
            )
            return DYNAMIC
        attributes: dict[str, Type] = {}
        optional: set[str] = set()
        defaults: dict[str, Value] = {}
        for key, expression in argument.items:
            if not isinstance(key.expression, Traversal) or key.expression.steps:
                self._add_error(
                    "Object constructor map keys must be attribute names.", key.expression, call
                )
                continue
            name = key.expression.root.name
            if name in attributes:
                self._add_error(
                    f'The attribute "{name}" is already declared.', key.expression, call
                )
                continue
            attributes[name] = self._parse_attribute(name, expression, optional, defaults)
        return ObjectType.create(attributes, optional, defaults)

    def _parse_attribute(
        self, name: str, expression: Expression, optional: set[str], defaults: dict[str, Value]
    ) -> Type:
        """Parse the type of an attribute.

        `optional(...)` adds its name and default to `optional` and `defaults`.
        """
        if not (isinstance(expression, Call) and expression.name == "optional"):
            return self.parse_type(expression)
        # With `...` after the arguments.
        if not 1 <= len(expression.arguments) <= 2 or expression.expand:
            detail = (
                "The optional modifier takes the attribute's type and, if you like, a default "
                "value."
            )
            self._add_error(detail, expression)
            return DYNAMIC
        optional.add(name)
        attribute_type = self.parse_type(expression.arguments[0])
        if len(expression.arguments) == 2:
            default = self._parse_attribute_default(expression.arguments[1], attribute_type)
            # Else its error is reported.
            if default is not None:
                defaults[name] = default
        return attribute_type

    def _parse_attribute_default(
        self, expression: Expression, attribute_type: Type
    ) -> Value | None:
        """Evaluate the constant default of an attribute.

        Report an invalid one and return None.
        """
        value, problems = evaluate_expression(expression, _NoNames())
        # With a better reason for calls.
        diagnostics = check_function_calls(problems)
        self.diagnostics.extend(diagnostics)
        if has_errors(diagnostics):
            return None  # reported
        try:
            return convert_value(value, attribute_type)
        except ConversionProblem as problem:
            detail = (
                f"The default does not fit the type of its attribute: {describe_problem(problem)}."
            )
            error = build_error(
                "invalid-default-value-for-optional-attribute", detail, expression.span
            )
            self.diagnostics.append(error)
            return None
