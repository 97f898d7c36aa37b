"""Root outputs before and after, the variable values of the plan, and the data blocks it read."""

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import Configuration, Output
from nexusform.configuration.reference_checks import Declaration
from nexusform.diagnostics.diagnostic import Diagnostic, build_error
from nexusform.json_data.plain_data import Refinements, convert_to_plain, list_refinements
from nexusform.planning.name_resolution.instance_scope import ModuleInstance
from nexusform.planning.name_resolution.name_evaluation import Evaluation, check_ephemeral_output
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.preparation.planning_order import build_block_address, iterate_modules
from nexusform.planning.preparation.target_selection import Selection, find_selected_outputs
from nexusform.plans.plan import Action, InventoryRead, Mode, OutputChange, VariableValue
from nexusform.resources.address import Address
from nexusform.schemas.value_types import DYNAMIC, is_same_type
from nexusform.state.objects import OutputState
from nexusform.values.typed_value import UNKNOWN, Value, build_null

# Attributes of data sources: the time of their figures, false if it is that of the newest change.
_EXPORT_TIME: Final = "exported_at"
_HAS_EXPORT_TIME: Final = "has_export_time"
# Limit on the size of an output: about four seconds of comparing and showing.
_MAX_SIZE: Final = 1_000_000


class RootOutputChanges(Struct, frozen=True):
    """Changes of root outputs, and all of them after the plan."""

    changes: tuple[OutputChange, ...]
    after: Mapping[str, OutputState]
    refined: Mapping[str, Refinements] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()


def plan_outputs(
    request: PlanRequest, evaluation: Evaluation, selection: Selection
) -> RootOutputChanges:
    """Plan the root outputs.

    With -target or -exclude, outputs of unselected blocks keep their values. A destroy plan keeps
    all outputs with these options, and removes all without them.
    """
    before = request.state.outputs
    if request.mode is Mode.DESTROY and selection.is_partial:
        return RootOutputChanges(changes=(), after=before)
    declared = {} if request.mode is Mode.DESTROY else request.configuration.root.outputs
    selected_outputs = find_selected_outputs(selection, request.configuration)
    changes: list[OutputChange] = []
    # None: all are selected; unselected ones stay.
    after = {} if selected_outputs is None else dict(before)
    refined: dict[str, Refinements] = {}
    diagnostics: list[Diagnostic] = []
    for name, output in sorted(declared.items()):
        if selected_outputs is not None and name not in selected_outputs:
            continue
        value = evaluation.get_output(evaluation.root, name)
        if selected_outputs is not None and _has_missing_objects(
            value, selected_outputs[name], evaluation
        ):
            # An unknown output keeps its value in state.
            continue
        if value.size > _MAX_SIZE:
            detail = (
                "The output has more elements or text than a plan can compare and show in time. "
                "Select the part that "
                "other configurations and people need."
            )
            diagnostics.append(build_error("expression-too-large", detail, output.expression.span))
            continue
        diagnostics += check_sensitive_output(output, value)
        refinements = list_refinements(value)
        if refinements:
            refined[name] = refinements
        # An undeclared sensitive value is rejected, and hidden nevertheless.
        after[name] = build_output_state(output, value)
        changes.append(_build_change(name, before.get(name), after[name]))
    # -target removes no output.
    if not selection.targets:
        changes += _list_removed_outputs(before, declared)
        after = {name: output for name, output in after.items() if name in declared}
    return RootOutputChanges(tuple(changes), after, refined, tuple(diagnostics))


def _has_missing_objects(
    value: Value, needed_blocks: Collection[Declaration], evaluation: Evaluation
) -> bool:
    """Return whether an output is unknown because an instance of a needed block does not exist.

    The plan may leave an instance out (-target, -exclude): one that does not exist has
    no attributes (None).
    """
    if value.is_wholly_known:
        return False
    addresses = (build_block_address(node) for node in needed_blocks)
    needed = {(address.module, address.mode, address.type, address.name) for address in addresses}
    for (module_path, mode, kind, name), view in evaluation.resources.items():
        # Without the keys of module instances.
        module = tuple(step.name for step in module_path)
        is_needed = (module, mode, kind, name) in needed
        if is_needed and any(item.attributes is None for item in view.items.values()):
            return True
    return False


def plan_current_outputs(request: PlanRequest, evaluation: Evaluation) -> RootOutputChanges:
    """Plan the root outputs when nothing else changes; `evaluation` uses current objects.

    An output depending on a missing object is unknown: it keeps its value in state, or
    stays without one.
    """
    before = request.state.outputs
    declared = request.configuration.root.outputs
    changes: list[OutputChange] = []
    after: dict[str, OutputState] = {}
    diagnostics: list[Diagnostic] = []
    for name, output in sorted(declared.items()):
        value = evaluation.get_output(evaluation.root, name)
        diagnostics += check_sensitive_output(output, value)
        current = build_output_state(output, value)
        planned = current if value.is_wholly_known else before.get(name)
        if planned is not None:
            after[name] = planned
            changes.append(_build_change(name, before.get(name), planned))
    all_changes = (*changes, *_list_removed_outputs(before, declared))
    return RootOutputChanges(
        all_changes, after, diagnostics=(*diagnostics, *evaluation.diagnostics)
    )


def _list_removed_outputs(
    before: Mapping[str, OutputState], declared: Collection[str]
) -> Iterator[OutputChange]:
    """Yield the outputs in state (`before`) without a declaration."""
    for name, prior in sorted(before.items()):
        # The configuration no longer has it.
        if name not in declared:
            yield OutputChange(
                name,
                Action.DELETE,
                prior.value,
                after=None,
                type=prior.type,
                sensitive=prior.sensitive,
            )


def build_output_state(output: Output, value: Value) -> OutputState:
    """Build the record of a root output.

    An ephemeral value is rejected, and never recorded.
    """
    plain = None if value.has_ephemeral else convert_to_plain(value)[0]
    return OutputState(plain, value.type, output.sensitive or value.has_marks)


def check_sensitive_output(output: Output, value: Value) -> list[Diagnostic]:
    """Return the error of a root output, else [].

    Ephemeral declarations and values, and exposed secrets, are errors.
    """
    if output.ephemeral:
        detail = (
            f'The output "{output.name}" of the root module is saved in the state, so it cannot be '
            "ephemeral."
        )
        return [
            build_error(
                "ephemeral-output-not-allowed", detail, output.span, block=f'output "{output.name}"'
            )
        ]
    if value.has_ephemeral:
        return check_ephemeral_output(output, value)
    # The output is declared sensitive, or its value is not sensitive.
    if output.sensitive or not value.has_marks:
        return []
    return [
        build_error(
            "output-refers-to-sensitive-values",
            f'The value of output "{output.name}" is sensitive and would be shown. Add sensitive '
            "= true to "
            "the output, or wrap the value in nonsensitive() if it may be shown.",
            output.expression.span,
            block=f'output "{output.name}"',
        )
    ]


def _build_change(name: str, prior: OutputState | None, planned: OutputState) -> OutputChange:
    """Build the change of a declared output.

    The change is from `prior`, its value in state (None: a new output), to `planned`.
    """
    if prior is None:
        # A null output does not exist.
        action = Action.CREATE if planned.value is not None else Action.NO_OP
        # None: it is new.
        return OutputChange(name, action, None, planned.value, planned.type, planned.sensitive)
    # A value known only after apply may differ.
    same_value = prior.value == planned.value and planned.value is not UNKNOWN
    # Readers of the state get the type, too: a set is no list.
    same_type = is_same_type(prior.type, planned.type)
    is_unchanged = same_value and same_type and prior.sensitive == planned.sensitive
    action = Action.NO_OP if is_unchanged else Action.UPDATE
    return OutputChange(
        name,
        action,
        prior.value,
        planned.value,
        planned.type,
        planned.sensitive,
        before_type=prior.type,
    )


def collect_variable_values(request: PlanRequest) -> dict[str, VariableValue]:
    """Return root variables by name, including defaults, without ephemeral ones."""
    values = {}
    for name, declared in sorted(request.configuration.root.variables.items()):
        if declared.ephemeral:
            continue
        is_set = name in request.variables
        value = request.variables[name] if is_set else declared.default or build_null(DYNAMIC)
        sensitive = declared.sensitive or value.has_marks
        plain, _ = convert_to_plain(value)
        values[name] = VariableValue(plain, value.type, sensitive, is_set)
    return values


def list_ephemeral_variables(request: PlanRequest) -> tuple[str, ...]:
    """List the ephemeral root variables with a value: apply needs them again."""
    declared = request.configuration.root.variables
    return tuple(
        name
        for name, value in sorted(request.variables.items())
        if name in declared and declared[name].ephemeral and not value.is_null
    )


def iterate_module_instances(
    configuration: Configuration, evaluation: Evaluation
) -> Iterator[ModuleInstance]:
    """Yield the instances of all modules.

    Those of a caller come before those of the modules it calls.
    """
    for module in iterate_modules(configuration.root):
        yield from evaluation.list_module_instances(module.path)


def read_all_data(configuration: Configuration, evaluation: Evaluation) -> None:
    """Read data blocks without references, too, so that their problems are reported."""
    for instance in iterate_module_instances(configuration, evaluation):
        for block in instance.module.resources.values():
            if block.mode == "data":
                evaluation.get_resource(instance, block)


# Workloads of a site change from day to day.
_MAXIMUM_AGE: Final = timedelta(days=1)


def build_inventory_read(
    address: str, exported_at: str, plan_time: str, max_age: object = None
) -> InventoryRead:
    """Build the record of an inventory read.

    It is stale if undated, older than `max_age` (such as "12h", by default a day), or more than a
    day in the future.
    """
    from nexusform.documents.times import parse_duration, parse_time

    limit = _MAXIMUM_AGE
    if isinstance(max_age, str):
        limit = parse_duration(max_age) or _MAXIMUM_AGE
    export_time = parse_time(exported_at)
    current_time = parse_time(plan_time)
    if export_time is None or current_time is None:
        return InventoryRead(address, exported_at, is_stale=True)
    age = current_time - export_time
    # The time may be wrong.
    is_in_future = age < -_MAXIMUM_AGE
    return InventoryRead(address, exported_at, is_stale=age > limit or is_in_future)


def list_inventories_read(evaluation: Evaluation, plan_time: str) -> tuple[InventoryRead, ...]:
    """Return every inventory read by a data source, sorted by address.

    An inventory has the time of its export.
    """
    inventories = []
    for (module, mode, kind, name), view in evaluation.resources.items():
        if mode != "data":
            continue
        for key, item in view.items.items():
            if item.attributes is None or _EXPORT_TIME not in item.attributes:
                continue
            address = str(Address(module, "data", kind, name, key))
            exported_at = item.attributes[_EXPORT_TIME]
            max_age = item.attributes.get("max_age")
            # The time may be null or unknown.
            known_time = exported_at if isinstance(exported_at, str) else ""
            inventory = build_inventory_read(address, known_time, plan_time, max_age)
            is_newest_change = item.attributes.get(_HAS_EXPORT_TIME) is False
            inventories.append(replace(inventory, is_newest_change=is_newest_change))
    return tuple(sorted(inventories, key=lambda inventory: inventory.address))
