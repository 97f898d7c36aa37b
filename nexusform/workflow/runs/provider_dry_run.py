"""Validation of a plan by providers and their servers.

Only changes without errors are validated, because their values are final. Changes with errors, or
dependent on them, are skipped and reported.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from typing import Any, Final

from nexusform.configuration.declarations.configuration import Configuration, ResourceBlock
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Problem,
    build_diagnostic,
    build_error,
    select_errors,
)
from nexusform.interfaces.plugins import (
    ChangeRequest,
    ChangeValidatingProvider,
    DryRunProvider,
    ObjectKey,
    Provider,
    ProviderProblem,
)
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.preparation.planning_order import iterate_resource_blocks
from nexusform.planning.replanning.known_after_apply import WriteOnlyValues, evaluate_write_only
from nexusform.plans.plan import Action, Change, Plan, StepKind
from nexusform.providers.optional_provider_interfaces import (
    ReadDependentProvider,
    StartValueProvider,
)
from nexusform.resources.address import AddressProblem, parse_address
from nexusform.resources.graph import find_reachable
from nexusform.schemas.block_schema import UNFINISHED_KEY

_SENT_ACTIONS: Final = frozenset(
    {Action.CREATE, Action.UPDATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST}
)
# Their provider is not called.
_STEPS_WITHOUT_CALL: Final = frozenset({StepKind.FORGET, StepKind.GATE})
# References to these are unknown while they have errors, and unknown values are not validated.
_UNKNOWN_BLOCKS: Final = ("locals", "output", "check")
# Another flag permits the change.
REJECTED_CHANGE: Final = "field-conflict"
FlawCheck = Callable[[Change], str]


def validate_changes_at_providers(
    result: PlanResult,
    providers: Mapping[str, Provider],
    request: PlanRequest,
    errors: Iterable[Diagnostic],
) -> list[Diagnostic]:
    """Validate the changes of a plan at the providers, and return their errors.

    `errors` are those outside the plan.
    """
    # "": the change can be validated.
    explain_flaw = create_validation_check(result, request.configuration, errors)
    write_only, diagnostics = evaluate_write_only(result.plan, request)
    for name, provider in providers.items():
        if not isinstance(provider, ChangeValidatingProvider):
            continue
        # It also checks deletions, and reports flawed changes as skipped.
        if isinstance(provider, DryRunProvider):
            changes = _select_changes(result, name, {*_SENT_ACTIONS, Action.DELETE})
        else:
            changes = [
                change for change in _select_changes(result, name) if not explain_flaw(change)
            ]
        requests = [_build_request(change, explain_flaw(change), write_only) for change in changes]
        try:
            problems = provider.validate_changes(requests)
        except ProviderProblem as problem:
            diagnostics.append(build_error("refresh-failed", str(problem)))
            continue
        diagnostics += _build_diagnostics(changes, problems)
    return diagnostics


def collect_start_values(
    plan: Plan, providers: Mapping[str, Provider]
) -> tuple[dict[str, Mapping[str, Any]], list[Diagnostic]]:
    """Collect the values that the changes with steps start from, by address.

    Also return an error for each provider that cannot read its system.
    """
    numbers = {step.change for step in plan.steps if step.kind not in _STEPS_WITHOUT_CALL}
    changes = [plan.changes[number] for number in sorted(numbers)]
    start_values: dict[str, Mapping[str, Any]] = {}
    diagnostics: list[Diagnostic] = []
    for name, provider in providers.items():
        own_changes = [change for change in changes if change.provider == name]
        if not own_changes or not isinstance(provider, StartValueProvider):
            continue
        requests = [_build_start_request(change) for change in own_changes]
        try:
            collected = provider.collect_start_values(requests)
        except ProviderProblem as problem:
            diagnostics.append(build_error("refresh-failed", str(problem)))
            continue
        for request, values in zip(requests, collected, strict=True):
            if values:
                # A deposed object and the current one have the same address.
                start_values[request.address] = {**start_values.get(request.address, {}), **values}
    return start_values, diagnostics


def _build_start_request(change: Change) -> ChangeRequest:
    """Build the request for the start values of a change, with both sides of a replacement."""
    return ChangeRequest(
        key=ObjectKey(change.address.type, change.id, change.creation),
        address=str(change.address),
        prior=change.before,
        planned=change.after,
        private_note=change.note,
        is_sensitive=bool(change.sensitive_before or change.sensitive_after),
    )


def build_skipped_checks_diagnostics(
    result: PlanResult, providers: Mapping[str, Provider], reason: str
) -> list[Diagnostic]:
    """Return the diagnostics of providers about their skipped dry run and reads.

    `reason` is a clause without a full stop.
    """
    diagnostics: list[Diagnostic] = []
    for name, provider in providers.items():
        if isinstance(provider, DryRunProvider):
            changes = _select_changes(result, name)
            requests = [_build_request(change, skip_reason="", write_only={}) for change in changes]
            diagnostics += _build_diagnostics(changes, provider.list_skipped(requests, reason))
        if isinstance(provider, ReadDependentProvider):
            changes = _select_changes(result, name)
            requests = [_build_start_request(change) for change in changes]
            diagnostics += _build_diagnostics(changes, provider.list_unread_changes(requests))
    return diagnostics


def _select_changes(
    result: PlanResult, provider: str, actions: AbstractSet[Action] = _SENT_ACTIONS
) -> list[Change]:
    """Return the changes of a provider with one of the actions, without deletions by default."""
    return [
        change
        for change in result.plan.changes
        if change.provider == provider and change.action in actions
    ]


def _build_diagnostics(
    changes: Sequence[Change], problems: Iterable[tuple[int, Problem]]
) -> Iterator[Diagnostic]:
    """Yield the problems (each with an index of `changes`) at the source of their change."""
    for index, problem in problems:
        change = changes[index]
        # The address marks the change as rejected.
        address = str(change.address) if problem.id == REJECTED_CHANGE else ""
        details = {"block": change.block, "brief": problem.brief, "address": address}
        yield build_diagnostic(
            problem.severity, problem.id, problem.detail, change.source, **details
        )


def _build_request(change: Change, skip_reason: str, write_only: WriteOnlyValues) -> ChangeRequest:
    """Build the request of a change for its provider.

    `skip_reason` is why it cannot be validated, "" if it can.
    """
    key = ObjectKey(change.address.type, change.id, change.creation)
    # None: a new object is created.
    prior = change.before if change.action in (Action.UPDATE, Action.DELETE) else None
    private_note = change.private or {}
    write_only_values = write_only.get(str(change.address), {})
    return ChangeRequest(
        key,
        str(change.address),
        prior,
        change.after,
        final_attributes=change.after,
        is_sensitive=bool(change.sensitive_after or write_only_values),
        write_only=write_only_values,
        unfinished_change=private_note.get(UNFINISHED_KEY) if prior else None,
        private_note=private_note,
        ignored_paths=change.ignored_paths,
        replaced_attributes=change.before if change.action is Action.REPLACE else None,
        skip_reason=skip_reason,
    )


def create_validation_check(
    result: PlanResult, configuration: Configuration, other_errors: Iterable[Diagnostic]
) -> FlawCheck:
    """Create a function to explain why a change cannot be validated ("": it can).

    A change cannot be validated after an error in its block or in a dependency. An error outside of
    all resources prevents every change, except in `locals`, `output` and `check` blocks: only
    references to these become unknown.
    """
    errors = select_errors((*result.plan.diagnostics, *other_errors))
    if not errors:
        return lambda _change: ""
    blocks = list(iterate_resource_blocks(configuration))
    known_addresses = {str(block.address) for block in blocks}
    known_addresses |= {str(change.address.config_address) for change in result.plan.changes}
    blocks_with_errors: set[str] = set()
    for error in errors:
        addresses = _find_blocks_of_error(error, blocks) & known_addresses
        # It may affect every change.
        if not addresses and error.block.split(" ")[0] not in _UNKNOWN_BLOCKS:
            reason = f"the plan has an error ({error.summary})"
            return lambda _change: reason
        blocks_with_errors |= addresses
    dependencies: dict[str, list[str]] = defaultdict(list)
    for block_address, dependency in result.edges:
        dependencies[block_address].append(dependency)
    return partial(_explain_error, blocks_with_errors, dependencies)


def _find_blocks_of_error(error: Diagnostic, blocks: Iterable[ResourceBlock]) -> set[str]:
    """Return the addresses of the blocks with an error.

    Around its source position, and of its own address.
    """
    addresses: set[str] = set()
    if error.subject is not None:
        for block in blocks:
            span = block.span
            if (
                span.filename == error.subject.filename
                and span.start <= error.subject.start < span.end
            ):
                addresses.add(str(block.address))
    if error.address:
        # The address of a module.
        with suppress(AddressProblem):
            addresses.add(str(parse_address(error.address).config_address))
    return addresses


def _explain_error(
    blocks_with_errors: set[str], dependencies: Mapping[str, Sequence[str]], change: Change
) -> str:
    """Return why a change cannot be validated: an error in its block or a (transitive) dependency.

    Return "" if there is no such error.
    """
    address = str(change.address.config_address)
    if address in blocks_with_errors:
        return "it has an error"
    for dependency in sorted(
        find_reachable(dependencies.get(address, ()), lambda block: dependencies.get(block, ()))
    ):
        if dependency in blocks_with_errors:
            return f"it depends on {dependency}, which has an error"
    return ""
