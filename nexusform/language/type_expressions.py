"""Types as written in a variable block: `list(string)`, `object({ a = optional(number, 3) })`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from nexusform.diagnostics import Diagnostic, did_you_mean, error, has_errors
from nexusform.language.conversion import convert, describe
from nexusform.language.evaluator import evaluate
from nexusform.language.functions.function import Functions
from nexusform.language.syntax.nodes import (
    Call,
    Expression,
    Literal,
    ObjectCons,
    Parentheses,
    StringLiteral,
    Traversal,
    TupleCons,
)
from nexusform.plain_data import ConversionProblem
from nexusform.value_types import (
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
from nexusform.values import DYNAMIC_UNKNOWN, Value

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


def type_expression(expression: Expression) -> tuple[Type | None, list[Diagnostic]]:
    """The type that an expression names, None with diagnostics when it names none.

    Defaults of optional attributes are converted to the attribute's type; `convert` applies them.
    """
    reader = _TypeReader()
    named_type = reader.type_of(expression)
    return (None if reader.diagnostics else named_type), reader.diagnostics


def no_calls(problems: Sequence[Diagnostic]) -> list[Diagnostic]:
    """What is wrong with a constant: where no function may be called, none of them is an unknown one."""
    return [_no_call(each) if each.id == "call-to-unknown-function" else each for each in problems]


def _no_call(problem: Diagnostic) -> Diagnostic:
    return error(
        "function-calls-not-allowed",
        "Functions may not be called here.",
        problem.subject,
        context=problem.context,
        values=problem.values,
    )


class _NoNames:
    # Defaults are constants: they may refer to nothing and call nothing.
    @property
    def functions(self) -> Functions:
        return {}

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        detail = "The default of an optional attribute is fixed; it cannot refer to anything."
        problem = error("reference-not-allowed", detail, traversal.span)
        return DYNAMIC_UNKNOWN, len(traversal.steps), [problem]


class _TypeReader:
    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []

    def _wrong(self, detail: str, at: Expression, whole: Expression | None = None) -> None:
        context = whole.span if whole is not None else None
        self.diagnostics.append(error(_INVALID, detail, at.span, context=context))

    def type_of(self, expression: Expression) -> Type | None:
        """The type that an expression stands for; None after a problem."""
        if isinstance(expression, Parentheses):
            return self.type_of(expression.inner)
        if isinstance(expression, Traversal) and not expression.steps:
            return self._named(expression)
        if isinstance(expression, Call):
            return self._constructed(expression)
        if isinstance(expression, StringLiteral):
            self._wrong(f"A type is written without quotes: {expression.value or 'string'}.", expression)
        elif isinstance(expression, (ObjectCons, TupleCons)):
            word = "object({...})" if isinstance(expression, ObjectCons) else "tuple([...])"
            self._wrong(f"The type with these parts is written {word}.", expression)
        elif isinstance(expression, Literal) and expression.value is None:
            self._wrong('A type cannot be null; use "any" to accept every type.', expression)
        else:
            self._wrong(
                "A type specification is either a primitive type keyword (bool, number, string), the "
                "keyword any, or a complex type constructor call, like list(string).",
                expression,
            )
        return None

    def _named(self, expression: Traversal) -> Type | None:
        """The type that a word stands for; None, and a problem, for any other word."""
        name = expression.root.name
        if name in _NAMES:
            return _NAMES[name]
        if name in _COLLECTIONS:
            self._wrong(
                f"The {name} type constructor requires one argument specifying the element type, as in "
                f"{name}(string).",
                expression,
            )
        elif name in {"object", "tuple"}:
            sample = "object({ name = string })" if name == "object" else "tuple([string, number])"
            self._wrong(f"The {name} type constructor requires one argument, as in {sample}.", expression)
        else:
            hint = did_you_mean(name, [*_NAMES, *_CONSTRUCTORS])
            self._wrong(f'The keyword "{name}" is not a valid type specification.{hint}', expression)
        return None

    def _constructed(self, call: Call) -> Type | None:
        """The type that a call of a constructor stands for; None, and a problem, for any other call."""
        name = call.name
        if name == "optional":
            self._wrong('The "optional" modifier is only for attributes of an object type.', call)
            return None
        if name in _NAMES:
            self._wrong(f'The primitive type keyword "{name}" does not take arguments.', call)
            return None
        if name not in _CONSTRUCTORS:
            hint = did_you_mean(name, [*_NAMES, *_CONSTRUCTORS])
            self._wrong(f'The keyword "{name}" is not a valid type constructor.{hint}', call)
            return None
        if len(call.arguments) != 1 or call.expand:
            self._wrong(f"The {name} type constructor requires exactly one argument.", call)
            return None
        argument = call.arguments[0]
        if name == "object":
            return self._object(argument, call)
        if name == "tuple":
            return self._tuple(argument, call)
        element = self.type_of(argument)
        return None if element is None else _COLLECTIONS[name](element)

    def _tuple(self, argument: Expression, call: Call) -> Type | None:
        if not isinstance(argument, TupleCons):
            self._wrong("Tuple type constructor requires a list of element types.", argument, call)
            return None
        parts = [self.type_of(item) for item in argument.items]
        return TupleType(tuple([p for p in parts if p is not None]))

    def _object(self, argument: Expression, call: Call) -> Type | None:
        """The object type of a map of attributes."""
        if not isinstance(argument, ObjectCons):
            self._wrong(
                "Object type constructor requires a map whose keys are attribute names and whose values "
                "are the corresponding attribute types.",
                argument,
                call,
            )
            return None
        attributes: dict[str, Type] = {}
        optional: set[str] = set()
        defaults: dict[str, Value] = {}
        for key, expression in argument.items:
            name = _key_name(key.expression)
            if name is None:
                self._wrong("Object constructor map keys must be attribute names.", key.expression, call)
                continue
            if name in attributes:
                self._wrong(f'The attribute "{name}" is already declared.', key.expression, call)
                continue
            kind = self._attribute(name, expression, optional, defaults)
            attributes[name] = DYNAMIC if kind is None else kind
        return ObjectType.of(attributes, optional, defaults)

    def _attribute(
        self, name: str, expression: Expression, optional: set[str], defaults: dict[str, Value]
    ) -> Type | None:
        """The type of an attribute; `optional(...)` notes its name, and its default."""
        if not (isinstance(expression, Call) and expression.name == "optional"):
            return self.type_of(expression)
        if not 1 <= len(expression.arguments) <= 2 or expression.expand:
            self._wrong(
                "The optional modifier takes the attribute's type and, if you like, a default value.",
                expression,
            )
            return None
        optional.add(name)
        kind = self.type_of(expression.arguments[0])
        if kind is not None and len(expression.arguments) == 2:
            default = self._default(expression.arguments[1], kind)
            if default is not None:
                defaults[name] = default
        return kind

    def _default(self, expression: Expression, kind: Type) -> Value | None:
        value, problems = evaluate(expression, _NoNames())
        diagnostics = no_calls(problems)
        self.diagnostics.extend(diagnostics)
        if has_errors(diagnostics):
            return None
        try:
            return convert(value, kind)
        except ConversionProblem as problem:
            detail = f"The default does not fit the type of its attribute: {describe(problem)}."
            self.diagnostics.append(
                error("invalid-default-value-for-optional-attribute", detail, expression.span)
            )
            return None


def _key_name(expression: Expression) -> str | None:
    return expression.root.name if isinstance(expression, Traversal) and not expression.steps else None
