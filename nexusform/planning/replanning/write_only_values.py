"""Values of write-only arguments: evaluated for a dry run and at the start of apply, because no plan has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec.structs import replace

from nexusform.configuration.prepared_body import EvaluationResult
from nexusform.diagnostics.diagnostic import Diagnostic, build_error
from nexusform.json_data.plain_data import has_unknown_part
from nexusform.planning.name_resolution.evaluation_settings import build_state_evaluation
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.planning.name_resolution.repetition import InstanceView
from nexusform.planning.plan_request import PlanRequest
from nexusform.plans.plan import Action, Change, Plan

_WRITTEN = frozenset({Action.CREATE, Action.UPDATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST})
# Write-only arguments by the address of their object.
WriteOnlyValues: TypeAlias = Mapping[str, Mapping[str, Any]]


def evaluate_write_only(plan: Plan, request: PlanRequest) -> tuple[WriteOnlyValues, list[Diagnostic]]:
    """Return the write-only arguments of the objects to create or update, and errors of unknown ones."""
    types = request.registries.resource_types
    changes = [
        change
        for change in plan.changes
        if change.action in _WRITTEN and types[change.address.type].split_write_only_body is not None
    ]
    if not changes:
        return {}, []
    evaluation: Evaluation = build_state_evaluation(replace(request, is_applying=True))
    for change in plan.changes:
        if change.after is not None and not change.deposed:
            kind = types[change.address.type]
            view = InstanceView(change.after, change.sensitive_after, kind.schema, kind.present)
            evaluation.get_resource_view(change.address).items[change.address.key] = view
    values: dict[str, Mapping[str, Any]] = {}
    problems: list[Diagnostic] = []
    for change in changes:
        arguments = _evaluate_write_only_arguments(change, evaluation)
        if has_unknown_part(arguments):
            problems.append(_build_unknown_write_only_value_error(change))
        elif arguments:
            values[str(change.address)] = arguments
    return values, problems


def _evaluate_write_only_arguments(change: Change, evaluation: Evaluation) -> dict[str, Any]:
    """Return the non-null write-only arguments of one object."""
    address = change.address
    static_path = tuple(step.name for step in address.module)
    for instance in evaluation.list_module_instances(static_path):
        block = instance.module.resources.get((address.mode, address.type, address.name))
        prepared = evaluation.settings.get_body(block) if block is not None else None
        if instance.path != address.module or block is None or prepared is None:
            continue
        expansion, _ = evaluation.expand_block(block, evaluation.build_scope(instance))
        for repetition in expansion.repetitions if expansion is not None else ():
            if repetition.key == address.key:
                arguments = prepared.fill(evaluation.build_scope(instance, repetition), EvaluationResult())
                names = evaluation.settings.schemas["managed"][address.type].write_only_names
                return {name: arguments[name] for name in names if arguments[name] is not None}
    return {}


def _build_unknown_write_only_value_error(change: Change) -> Diagnostic:
    detail = (
        f"A write-only argument of {change.address} is known only after apply. Use variables, literals, or attributes "
        "that nexusform computes in the plan."
    )
    return build_error(
        "write-only-argument-unknown", detail, change.source, address=str(change.address), block=change.block
    )
