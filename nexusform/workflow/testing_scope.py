"""The names that expressions of test files see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from nexusform.configuration.model import Variable
from nexusform.diagnostics import Diagnostic, did_you_mean, error, has_errors
from nexusform.language.conversion import convert, describe
from nexusform.language.evaluator import evaluate
from nexusform.language.syntax import Expression, Traversal, TraverseAttribute
from nexusform.plain_data import ConversionProblem
from nexusform.planning.names.evaluation import Evaluation, InstanceScope
from nexusform.values import DYNAMIC_UNKNOWN, SENSITIVE, Value

Answer = tuple[Value, int, list[Diagnostic]]


class GivenScope(Struct, frozen=True):
    """Outside of a configuration: `var.` as given from outside, and `run.NAME` of earlier runs."""

    functions: Mapping[str, Any]
    variables: Mapping[str, Value]
    runs: Mapping[str, Value]

    def lookup(self, traversal: Traversal) -> Answer:
        """The value that a traversal begins with."""
        root, name = traversal.root.name, _first(traversal)
        if root == "run":
            return run_outputs(self.runs, traversal)
        if root == "var" and name in self.variables:
            return self.variables[name], 1, []
        if root == "var":
            near = did_you_mean(name, self.variables)
            detail = f'There is no value for a variable named "{name}" here.{near}'
            problem = error("reference-to-unavailable-variable", detail, traversal.span)
        else:
            detail = "Here a test file may refer to var.NAME and run.NAME.OUTPUT only."
            problem = error("invalid-reference", detail, traversal.span)
        return DYNAMIC_UNKNOWN, len(traversal.steps), [problem]


class AssertScope(Struct, frozen=True):
    """Inside of the configuration that was run: its names, `output.NAME`, and `run.NAME`."""

    inner: InstanceScope
    runs: Mapping[str, Value]

    @property
    def evaluation(self) -> Evaluation:
        """The evaluation behind it."""
        return self.inner.evaluation

    @property
    def functions(self) -> Mapping[str, Any]:
        """Every function."""
        return self.inner.functions

    def lookup(self, traversal: Traversal) -> Answer:
        """The value that a traversal begins with."""
        root = traversal.root.name
        if root == "run":
            return run_outputs(self.runs, traversal)
        if root != "output":
            return self.inner.lookup(traversal)
        name, declared = _first(traversal), self.inner.instance.module.outputs
        if name in declared:
            return self.evaluation.output(self.inner.instance, name), 1, []
        detail = f'An output with the name "{name}" has not been declared.{did_you_mean(name, declared)}'
        problem = error("reference-to-undeclared-output-value", detail, traversal.span)
        return DYNAMIC_UNKNOWN, len(traversal.steps), [problem]


def run_outputs(runs: Mapping[str, Value], traversal: Traversal) -> Answer:
    """`run.NAME`: the outputs of a run that came before."""
    name = _first(traversal)
    if name in runs:
        return runs[name], 1, []
    detail = f'No run block named "{name}" has run before this one.{did_you_mean(name, runs)}'
    problem = error("reference-to-unknown-run-block", detail, traversal.span)
    return DYNAMIC_UNKNOWN, len(traversal.steps), [problem]


def _first(traversal: Traversal) -> str:
    step = traversal.steps[0] if traversal.steps else None
    return step.name if isinstance(step, TraverseAttribute) else ""


def given_value(
    declared: Variable, expression: Expression, scope: GivenScope
) -> tuple[Value | None, list[Diagnostic]]:
    """What a `variables` block gives for a variable; None when it is in error."""
    value, problems = evaluate(expression, scope)
    if has_errors(problems):
        return None, problems
    if value.is_known and value.is_null and not declared.nullable:
        if declared.default is None:
            detail = f'The variable "{declared.name}" may not be set to null.'
            return None, [error("required-variable-not-set", detail, expression.span)]
        value = declared.default
    try:
        value = convert(value, declared.type)
    except ConversionProblem as problem:
        detail = f"The given value is not suitable for var.{declared.name}: {describe(problem)}."
        return None, [error("invalid-value-for-input-variable", detail, expression.span)]
    return (value.with_marks(SENSITIVE) if declared.sensitive else value), problems
