"""Root outputs before and after, the variables as the plan saw them, and the data blocks that it read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import Final

from msgspec import Struct, field

from nexusform.address import Address
from nexusform.configuration.declared.configuration import Configuration, Output
from nexusform.diagnostics import Diagnostic, error
from nexusform.plain_data import Refined, refined_parts, to_plain
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.preparation.order import modules
from nexusform.planning.preparation.selection import Selection
from nexusform.planning.request import PlanRequest
from nexusform.plans.plan import Action, InventoryRead, Mode, OutputChange, VariableValue
from nexusform.state.objects import OutputState
from nexusform.value_types import DYNAMIC
from nexusform.values import UNKNOWN, Value, null

# A data source whose result has this attribute tells when its figures were taken.
TAKEN_AT = "exported_at"


class Outputs(Struct, frozen=True):
    """The changes of root outputs, and all of them after the plan."""

    changes: tuple[OutputChange, ...]
    after: Mapping[str, OutputState]
    refined: Mapping[str, Refined] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()


def plan_outputs(request: PlanRequest, evaluation: Evaluation, selection: Selection) -> Outputs:
    """What becomes of the root outputs. A partial destroy leaves them as they are: what they are made of
    may stand or not.
    """
    before = request.state.outputs
    if request.mode is Mode.DESTROY and selection.partial:
        return Outputs((), before)
    declared = {} if request.mode is Mode.DESTROY else request.configuration.root.outputs
    changes: list[OutputChange] = []
    after: dict[str, OutputState] = {}
    refined: dict[str, Refined] = {}
    diagnostics: list[Diagnostic] = []
    for name, output in sorted(declared.items()):
        value = evaluation.output(evaluation.root, name)
        diagnostics += shown_secrets(output, value)
        refinements = refined_parts(value)
        if refinements:
            refined[name] = refinements
        # What is sensitive though nobody said so is refused, and hidden all the same.
        hidden = output.sensitive or value.has_marks
        after[name] = OutputState(to_plain(value)[0], value.type, hidden)
        changes.append(_change(name, before.get(name), after[name]))
    changes += _gone(before, declared)
    return Outputs(tuple(changes), after, refined, tuple(diagnostics))


def standing_outputs(request: PlanRequest, evaluation: Evaluation) -> Outputs:
    """What becomes of the root outputs where nothing else changes; `evaluation` is over what stands. What
    hangs on an object that does not stand yet keeps the value it has, or stays without one.
    """
    before, declared = request.state.outputs, request.configuration.root.outputs
    changes: list[OutputChange] = []
    after: dict[str, OutputState] = {}
    diagnostics: list[Diagnostic] = []
    for name, output in sorted(declared.items()):
        value = evaluation.output(evaluation.root, name)
        diagnostics += shown_secrets(output, value)
        now = OutputState(to_plain(value)[0], value.type, output.sensitive or value.has_marks)
        planned = now if value.is_wholly_known else before.get(name)
        if planned is not None:
            after[name] = planned
            changes.append(_change(name, before.get(name), planned))
    return Outputs((*changes, *_gone(before, declared)), after, {}, (*diagnostics, *evaluation.diagnostics))


def _gone(before: Mapping[str, OutputState], declared: Collection[str]) -> Iterator[OutputChange]:
    for name, prior in sorted(before.items()):
        if name not in declared:
            yield OutputChange(name, Action.DELETE, prior.value, None, prior.type, prior.sensitive)


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


def _change(name: str, prior: OutputState | None, planned: OutputState) -> OutputChange:
    """What becomes of an output that is to be there afterwards."""
    if prior is None:
        action = Action.CREATE if planned.value is not None else Action.NO_OP
        return OutputChange(name, action, None, planned.value, planned.type, planned.sensitive)
    # A value that is known only after apply may be another one.
    same_value = prior.value == planned.value and planned.value is not UNKNOWN
    same = same_value and prior.sensitive == planned.sensitive
    action = Action.NO_OP if same else Action.UPDATE
    return OutputChange(name, action, prior.value, planned.value, planned.type, planned.sensitive)


def variable_values(request: PlanRequest) -> dict[str, VariableValue]:
    """Root variables by name, defaults included."""
    values = {}
    for name, declared in sorted(request.configuration.root.variables.items()):
        is_set = name in request.variables
        value = request.variables[name] if is_set else declared.default or null(DYNAMIC)
        sensitive = declared.sensitive or value.has_marks
        values[name] = VariableValue(to_plain(value)[0], value.type, sensitive, is_set)
    return values


# --- data blocks -------------------------------------------------------------------------------


def read_all_data(configuration: Configuration, evaluation: Evaluation) -> None:
    """Data blocks that nothing refers to are read all the same: what is wrong with them is to be told."""
    for module in modules(configuration.root):
        for block in module.resources.values():
            if block.mode == "data":
                for instance in evaluation.module_instances(module.path):
                    evaluation.resource(instance, block)


def work_out_all_outputs(configuration: Configuration, evaluation: Evaluation) -> None:
    """Outputs of modules that nobody refers to are worked out all the same, for the same reason."""
    for module in modules(configuration.root):
        if module.outputs:
            for instance in evaluation.module_instances(module.path):
                for name in module.outputs:
                    evaluation.output(instance, name)


# What runs on a site changes from day to day.
_FRESH_FOR: Final = timedelta(days=1)


def inventory_read(address: str, taken_at: str, now: str, max_age: object = None) -> InventoryRead:
    """An inventory, and whether it is old `now` (RFC 3339). `max_age` is a time span where one is set."""
    from nexusform.documents.times import parse_duration, parse_time

    limit = parse_duration(max_age) if isinstance(max_age, str) else None
    made, moment = parse_time(taken_at), parse_time(now)
    if made is None or moment is None:
        return InventoryRead(address, taken_at, is_old=True)
    return InventoryRead(address, taken_at, is_old=moment - made > (limit or _FRESH_FOR))


def inventories_read(evaluation: Evaluation, now: str) -> tuple[InventoryRead, ...]:
    """Every inventory that was read, by address."""
    inventories = []
    for (module, mode, kind, name), view in evaluation.resources.items():
        if mode != "data":
            continue
        for key, item in view.items.items():
            if item.attributes is not None and TAKEN_AT in item.attributes:
                address = str(Address(module, "data", kind, name, key))
                taken_at, max_age = item.attributes[TAKEN_AT], item.attributes.get("max_age")
                known = taken_at if isinstance(taken_at, str) else ""
                inventories.append(inventory_read(address, known, now, max_age))
    return tuple(sorted(inventories, key=lambda inventory: inventory.address))
