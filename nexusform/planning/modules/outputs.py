"""Root outputs before and after, and the variables as the plan saw them."""

from __future__ import annotations

from typing import Any

from nexusform.configuration.model import Output
from nexusform.diagnostics import Diagnostic, error
from nexusform.plain_data import to_plain
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.plan import Action, Mode, OutputChange, VariableValue
from nexusform.planning.preparation.selection import Selection
from nexusform.planning.request import PlanRequest
from nexusform.state.model import OutputState
from nexusform.value_types import DYNAMIC
from nexusform.values import UNKNOWN, Value, null


def plan_outputs(
    request: PlanRequest, evaluation: Evaluation, selection: Selection
) -> tuple[list[OutputChange], dict[str, OutputState], list[Diagnostic]]:
    """The changes of root outputs, and all outputs after."""
    before = request.state.outputs
    if request.mode is Mode.DESTROY and not selection.partial:
        gone = [
            OutputChange(name, Action.DELETE, old.value, None, old.type, old.sensitive)
            for name, old in sorted(before.items())
        ]
        return gone, {}, []
    if request.mode is Mode.DESTROY:
        return [], dict(before), []
    changes, after, problems = [], {}, []
    declared = request.configuration.root.outputs
    for name, output in sorted(declared.items()):
        value = evaluation.output(evaluation.root, name)
        problems += shown_secrets(output, value)
        plain = to_plain(value)[0]
        old = before.get(name)
        after[name] = OutputState(plain, value.type, output.sensitive)
        changes.append(_change(name, old, plain, value, output.sensitive))
    for name, old in sorted(before.items()):
        if name not in declared:
            changes.append(OutputChange(name, Action.DELETE, old.value, None, old.type, old.sensitive))
    return changes, after, problems


def shown_secrets(output: Output, value: Value) -> list[Diagnostic]:
    """The error of a root output that would show a sensitive value."""
    if output.sensitive or not value.has_marks:
        return []
    return [
        error(
            "output-refers-to-sensitive-values",
            f'The value of output "{output.name}" is sensitive and would be shown. Add sensitive = true to '
            "the output, or wrap the value in nonsensitive() if it may be shown.",
            output.expression.span,
            block=f'output "{output.name}"',
        )
    ]


def _change(name: str, old: OutputState | None, plain: Any, value: Value, sensitive: bool) -> OutputChange:
    if old is None:
        action = Action.CREATE if plain is not None else Action.NO_OP
        return OutputChange(name, action, None, plain, value.type, sensitive)
    same = old.value == plain and plain is not UNKNOWN and old.sensitive == sensitive
    return OutputChange(
        name, Action.NO_OP if same else Action.UPDATE, old.value, plain, value.type, sensitive
    )


def variable_values(request: PlanRequest) -> dict[str, VariableValue]:
    """Root variables by name, defaults included."""
    found = {}
    for name, declared in sorted(request.configuration.root.variables.items()):
        given = request.variables.get(name)
        value = given if given is not None else declared.default or null(DYNAMIC)
        plain = to_plain(value)[0]
        found[name] = VariableValue(
            plain, value.type, declared.sensitive or value.has_marks, given is not None
        )
    return found
