"""Constant variables (`const = true`) and the locals that depend on them alone, for the sources of modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexusform.configuration.declarations.configuration import LocalValue, Variable
from nexusform.configuration.module_blocks import CallHeader
from nexusform.configuration.static_arguments import evaluate_constant
from nexusform.diagnostics.diagnostic import Diagnostic, build_error, has_errors
from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.evaluation_run import Scope
from nexusform.language.syntax.syntax_nodes import Traversal, TraverseAttribute
from nexusform.language.type_conversion import convert_value, describe_problem
from nexusform.values.typed_value import DYNAMIC_UNKNOWN, Value


class ConstantVariableScope:
    """Scope of one module."""

    functions: Mapping[str, Any] = {}

    def __init__(
        self, variables: Mapping[str, Variable], locals_: Mapping[str, LocalValue], values: Mapping[str, Value]
    ) -> None:
        self._variables = variables
        self._locals = locals_
        self._values = values
        self._evaluated_locals: list[str] = []  # from the outside in

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        """Return the value of `var.NAME` or `local.NAME`."""
        step = traversal.steps[0] if traversal.steps else None
        name = step.name if isinstance(step, TraverseAttribute) else ""
        root = traversal.root.name
        if root == "local" and name in self._evaluated_locals:
            return DYNAMIC_UNKNOWN, len(traversal.steps), []  # the cycle is reported elsewhere
        if root == "local" and name in self._locals:
            self._evaluated_locals.append(name)
            value, problems = evaluate_constant(self._locals[name].expression, self)
            self._evaluated_locals.pop()
            return value, 1, problems
        if root == "var" and name in self._values:
            variable = self._variables[name]
            if not variable.marks:
                return self._values[name], 1, []
            reason = f"var.{name} is {'sensitive' if variable.sensitive else 'ephemeral'}: its value would be shown."
        elif root == "var" and name in self._variables:
            reason = f'var.{name} is not constant. Add "const = true" to its variable block.'
        else:
            reason = "Only constant variables, and locals of these, may be used here."
        return DYNAMIC_UNKNOWN, len(traversal.steps), [build_error("not-a-constant", reason, traversal.span)]


def evaluate_constant_variables(
    header: CallHeader, scope: Scope, variables: Mapping[str, Variable], problems: list[Diagnostic]
) -> dict[str, Value]:
    """Return the values of a called module's constant variables; adds to `problems`. `scope` has the caller's names."""
    values: dict[str, Value] = {}
    for name, variable in variables.items():
        default = variable.default if variable.default is not None else DYNAMIC_UNKNOWN
        values[name] = default
        if name not in header.inputs:
            continue
        expression = header.inputs[name][0]
        value, new_problems = evaluate_constant(expression, scope)
        problems += new_problems
        if has_errors(new_problems) or (value.is_null and not variable.nullable):
            continue
        try:
            values[name] = convert_value(value, variable.type)
        except ConversionProblem as problem:
            detail = f'Inappropriate value for "{name}": {describe_problem(problem)}.'
            problems.append(build_error("unsuitable-value-type", detail, expression.span))
    return values
