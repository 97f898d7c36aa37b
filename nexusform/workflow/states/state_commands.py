"""Commands on the state only: inspect it, and change it under the lock."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

import nexusform
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    DiagnosticsError,
    SourceFile,
    build_error,
    build_warning,
    convert_problem,
    has_errors,
    suggest_name,
)
from nexusform.diagnostics.phrases import format_count
from nexusform.doubts.findings import hides_capacity
from nexusform.interfaces.plugins import Clock, ProviderProblem
from nexusform.interfaces.state_storage import BackendProblem, StateBackend
from nexusform.planning.conclusion.changes import collect_drifted_objects
from nexusform.planning.verification.state_consistency import (
    check_consistency,
    check_missing_dependencies,
    check_missing_machines,
)
from nexusform.planning.verification.state_rules import check_state_rules
from nexusform.plans.plan import Drift
from nexusform.providers.registry import PROVIDERS
from nexusform.resource_types.registry import build_registries
from nexusform.resources.address import Address, AddressPattern, AddressProblem, parse_pattern
from nexusform.state import state_codec, state_edits
from nexusform.state.objects import EMPTY, InstanceState, State
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.project import find_backend, open_project
from nexusform.workflow.opening.provider_setup import create_providers
from nexusform.workflow.opening.stored_state import StoredState, load_schemas, read_stored_state
from nexusform.workflow.opening.system_io import SystemClock
from nexusform.workflow.runs.provider_identity import check_identities
from nexusform.workflow.runs.run import build_base_request
from nexusform.workflow.runs.state_locking import LockOptions, StateLock, acquire_lock
from nexusform.workflow.runs.state_refresh import refresh_objects

MAX_LISTED_OBJECTS: Final = 20


class StateCommandContext(Struct, frozen=True):
    """Inputs of a command besides its flags: a clock, and a callback while waiting for a lock."""

    clock: Clock = field(default_factory=SystemClock)
    on_wait: Callable[[str], None] = lambda _: None

    def acquire_lock(
        self, context: CommandContext, backend: StateBackend, operation: str, locking: LockOptions
    ) -> tuple[StateLock | None, list[Diagnostic]]:
        """Acquire the lock of a state for this command; see state_locking.acquire_lock."""
        return acquire_lock(
            backend,
            operation,
            locking,
            clock=self.clock,
            environment=context.environment,
            on_wait=self.on_wait,
        )


DEFAULT_SESSION: Final = StateCommandContext()


class StateReadResult(Struct, frozen=True):
    """The state read; None with diagnostics if it could not be read."""

    state: State | None
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)


class StateChangeResult(Struct, frozen=True):
    """The state before and after a change; `after` is None if nothing was written."""

    before: State | None
    after: State | None
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)


# A change returns the new state (None: rejected) with diagnostics.
StateChange = Callable[[State], tuple[State | None, list[Diagnostic]]]


def read_state(context: CommandContext, *, checks_objects: bool = False) -> StateReadResult:
    """Read the state of the selected workspace; None with errors.

    `checks_objects` is as in `read_stored_state`.
    """
    backend, problems, sources = find_backend(context)
    if backend is None:
        return StateReadResult(state=None, diagnostics=tuple(problems), sources=sources)
    stored, new_problems = read_stored_state(backend, checks_objects=checks_objects)
    return StateReadResult(stored.state if stored else None, (*problems, *new_problems), sources)


def has_been_written(state: State) -> bool:
    """Return whether anything was ever applied or pushed."""
    return bool(state.lineage or state.instances or state.outputs)


def parse_patterns(texts: Sequence[str]) -> tuple[list[AddressPattern], list[Diagnostic]]:
    """Parse addresses as typed; return the valid ones, and problems of the others."""
    patterns = []
    problems = []
    for text in texts:
        try:
            patterns.append(parse_pattern(text))
        except AddressProblem as problem:
            problems.append(build_error("invalid-address", str(problem)))
    return patterns, problems


def decode_document(
    data: bytes, name: str
) -> tuple[State | None, list[Diagnostic], Mapping[str, SourceFile]]:
    """Decode the state of a document to push.

    With errors, also return the document for source lines.
    """
    # A plan would reject it once it is written.
    state, problems = state_codec.decode_state(data, name, load_schemas())
    text = data.decode("utf-8", "replace")
    return state, problems, {} if state else {name: SourceFile(name, text)}


def change_state(
    context: CommandContext,
    operation: str,
    locking: LockOptions,
    change: StateChange,
    *,
    session: StateCommandContext = DEFAULT_SESSION,
    force: bool = False,
    rescued: State | None = None,
) -> StateChangeResult:
    """Lock the state, read, change and write it with the next serial, then unlock it.

    A state with unresolved steps of an interrupted apply is rejected unless `force`. If `rescued`
    is the result of this apply, it is written unchanged.
    """
    backend, diagnostics, sources = find_backend(context)
    if backend is None:
        return StateChangeResult(None, None, tuple(diagnostics), sources)
    lock, problems = session.acquire_lock(context, backend, operation, locking)
    diagnostics += problems
    if has_errors(problems):
        return StateChangeResult(None, None, tuple(diagnostics), sources)
    try:
        result = change_locked_state(
            backend, change, force=force, rescued=rescued, is_locked=lock is not None
        )
    finally:
        release_problems = lock.release() if lock is not None else []  # None: -lock=false
    return replace(
        result, diagnostics=(*diagnostics, *result.diagnostics, *release_problems), sources=sources
    )


def change_locked_state(
    backend: StateBackend,
    change: StateChange,
    *,
    force: bool,
    rescued: State | None,
    is_locked: bool = True,
) -> StateChangeResult:
    """Change the state, and write it with the next serial.

    The caller holds the lock, unless not `is_locked` (-lock=false). `rescued` is a state that an
    apply could not save. If the journal is of this apply, write `rescued` instead of a change. With
    `force`, open steps of an interrupted apply, or an invalid document, do not prevent the change.
    """
    stored, problems = read_stored_state(backend, checks_objects=False)
    # Only `state push` has -force.
    if stored is None and force and problems[0].id == "state-is-not-valid-json":
        detail = (
            f"{backend.describe()} is replaced. It was not valid JSON, so its serial and lineage "
            "are unknown."
        )
        stored = StoredState(EMPTY)
        problems = [build_warning("state-is-not-valid-json", detail)]
    if stored is None:
        return StateChangeResult(before=None, after=None, diagnostics=tuple(problems))
    if not is_locked:
        from nexusform.workflow.opening.interrupted_apply import (
            build_running_apply_error,
            find_running_apply,
        )

        running_apply = find_running_apply(stored, backend)
        if running_apply is not None:
            problems.append(build_running_apply_error(running_apply))
            return StateChangeResult(stored.state, after=None, diagnostics=tuple(problems))
    if rescued is not None and _is_result_of_journal(backend, stored, rescued):
        return _write_state(backend, stored, rescued, problems)
    if stored.open_intents and not force:
        return StateChangeResult(
            stored.state, after=None, diagnostics=(*problems, _build_open_steps_error(stored))
        )
    old_state = stored.state
    new_state, change_problems = change(old_state)
    problems += change_problems
    if new_state is None or has_errors(change_problems):
        return StateChangeResult(old_state, after=None, diagnostics=tuple(problems))
    # Nothing to write.
    if new_state == old_state:
        return StateChangeResult(old_state, old_state, tuple(problems))
    numbered_state = replace(
        new_state,
        lineage=new_state.lineage or str(uuid.uuid4()),
        serial=max(old_state.serial + 1, new_state.serial),
        nexusform_version=nexusform.__version__,
    )
    return _write_state(backend, stored, numbered_state, problems)


def _build_open_steps_error(stored: StoredState) -> Diagnostic:
    """Build the error for a state with steps of unknown outcome.

    The steps are those of a killed apply, or of one that waits.
    """
    addresses = sorted({str(open_intent.intent.address) for open_intent in stored.open_intents})
    error_id = "apply-interrupted"
    cause = "It was interrupted while it changed"
    if stored.remaining is not None and stored.remaining.has_ended:
        error_id = "apply-waiting"
        cause = "It waits for"
    return build_error(
        error_id,
        f"{cause} these objects: {', '.join(addresses[:5])}. Run `nexusform apply -refresh-only` "
        "first to read their current values.",
    )


def _write_state(
    backend: StateBackend, stored: StoredState, new_state: State, problems: Sequence[Diagnostic]
) -> StateChangeResult:
    """Write the new state; on failure the result has no state `after`."""
    try:
        backend.write_merged_state(
            state_codec.encode_state(new_state), stored.list_preserved_lines()
        )
    except BackendProblem as problem:
        return StateChangeResult(
            stored.state, None, (*problems, build_error("unwritable-state", str(problem)))
        )
    return StateChangeResult(stored.state, new_state, tuple(problems))


def _is_result_of_journal(backend: StateBackend, stored: StoredState, rescued: State) -> bool:
    """Return whether the rescued state is the result of the apply in the journal.

    `stored` is the document of the backend with the journal replayed. The document itself must be
    older than this apply, and the rescued state must have all changes of the journal. The journal
    may lack the last ones.
    """
    state = stored.state
    if not stored.has_journal or (rescued.lineage, rescued.serial) != (state.lineage, state.serial):
        # Not the state of this apply.
        return False
    try:
        document = backend.read()
    except BackendProblem:
        return False
    initial_state: State | None = EMPTY
    if document is not None:
        initial_state, _ = state_codec.decode_state(document, backend.describe())
    if initial_state is None or initial_state.serial >= state.serial:
        # The document already has the serial of the apply.
        return False
    # The journal lacks the result of an open step, so its object may differ.
    open_addresses = {open_intent.intent.address for open_intent in stored.open_intents}
    for address, instance in state.instances.items():
        is_changed = initial_state.instances.get(address) != instance
        if not is_changed or address in open_addresses:
            continue
        if _remove_private_note(rescued.instances.get(address)) != _remove_private_note(instance):
            # The rescued state lacks a change of the journal.
            return False
    return True


def _remove_private_note(instance: InstanceState | None) -> InstanceState | None:
    """Return the instance without its private note, which an apply writes again at its end."""
    if instance is None or instance.current is None:
        return instance
    return replace(instance, current=replace(instance.current, private=None))


def create_move_change(source: AddressPattern, target: AddressPattern) -> StateChange:
    """Create the change of `state mv`; see state_edits.plan_moves for the moved addresses."""

    def change(state: State) -> tuple[State | None, list[Diagnostic]]:
        """Return the state with the instances moved; None with errors."""
        try:
            return state_edits.move_instances(
                state, state_edits.plan_moves(state, source, target)
            ), []
        except DiagnosticsError as failure:
            return None, failure.diagnostics

    return change


def create_remove_change(
    patterns: Sequence[AddressPattern], vms: Sequence[tuple[AddressPattern, str]] = ()
) -> StateChange:
    """Create the change of `state rm`.

    VMs of removed objects keep running, so they are recorded at their racks or machines. `vms`
    (pattern of rack or machine, name of VM) are such records to remove, of VMs deleted since.
    """

    def change(state: State) -> tuple[State | None, list[Diagnostic]]:
        """Return the state without the objects and VM records, and a warning.

        The VMs are still running.
        """
        from nexusform.planning.vm_planning.forgotten_vms import add_forgotten_vms

        if vms:
            state, problems = _drop_forgotten_vms(state, vms)
            # A VM is not recorded.
            if problems:
                return None, problems
            if not patterns:
                return state, []
        addresses = state_edits.select_instances(state, patterns)
        problems = list(_list_unmatched_patterns(state, patterns, has_matches=bool(addresses)))
        if not addresses:
            return None, problems
        recorded_state = add_forgotten_vms(state, addresses, build_registries())
        return state_edits.remove_instances(recorded_state, addresses), [
            *problems,
            *_build_running_warning(state, addresses),
        ]

    return change


def _list_unmatched_patterns(
    state: State, patterns: Sequence[AddressPattern], *, has_matches: bool
) -> Iterator[Diagnostic]:
    """Yield a problem for each pattern without an object: a script may have misspelled it.

    With `has_matches`, objects at other patterns are removed, as in Terraform: it is a warning.
    """
    build_problem = build_warning if has_matches else build_error
    effect = "" if has_matches else " No changes were made."
    for pattern in patterns:
        if not any(map(pattern.is_match, state.instances)):
            suggestion = suggest_name(str(pattern), map(str, state.instances))
            yield build_problem(
                "no-matching-objects-found",
                f"The state has no object at {pattern}.{suggestion}{effect} "
                "`nexusform state list` shows all addresses of the state.",
            )


def _drop_forgotten_vms(
    state: State, vms: Sequence[tuple[AddressPattern, str]]
) -> tuple[State, list[Diagnostic]]:
    """Return the state without these forgotten VMs, and an error for each unknown one.

    A forgotten VM is still recorded at its rack or machine.
    """
    from nexusform.planning.vm_planning.forgotten_vms import (
        list_forgotten_vms,
        release_forgotten_vm,
    )

    problems: list[Diagnostic] = []
    for pattern, name in vms:
        # Pairs of the address of a rack or machine, and the VM's name.
        forgotten_vms = list(list_forgotten_vms(state))
        matching_addresses = [
            address for address, vm in forgotten_vms if vm == name and pattern.is_match(address)
        ]
        if not matching_addresses:
            # Arguments as typed for `state rm`.
            known_arguments = [f"{address}:{vm}" for address, vm in forgotten_vms]
            suggestion = suggest_name(f"{pattern}:{name}", known_arguments)
            detail = f"{pattern} has no forgotten VM {name}.{suggestion}"
            problems.append(build_error("no-matching-objects-found", detail))
        for address in matching_addresses:
            # None: the VM is released already.
            state = release_forgotten_vm(state, address, name) or state
    return state, problems


def _build_running_warning(state: State, removed_addresses: Sequence[Address]) -> list[Diagnostic]:
    """Return a warning about VMs of removed objects: they keep running, unmanaged.

    The list is empty without such VMs.
    """
    types = build_registries().resource_types
    rows = []
    vm_count = 0
    for address in removed_addresses:
        kind = types.get(address.type)
        current = state.instances[address].current
        if kind is None or kind.vms is None or current is None:
            continue
        count = len(kind.vms.list_existing_vms(current.attributes))
        if count:
            rows.append(f"{address}: {format_count(count, 'VM')}")
            vm_count += count
    if not rows:
        return []
    listed_rows = format_first_lines(rows, MAX_LISTED_OBJECTS, "  ")
    return [
        build_warning(
            "forgotten-vms-keep-running",
            f"{format_count(vm_count, 'VM')} of these objects are forgotten, not removed. They "
            "keep running, and plans keep their capacity reserved. A provider or an inventory can "
            f"release it, or `nexusform state rm 'nexus_rack.NAME:VM'`:\n{listed_rows}",
        )
    ]


def format_first_lines(lines: Sequence[str], maximum: int, bullet: str) -> str:
    """Format the first lines after a bullet, and a line with the number of the others, if any."""
    rows = [f"{bullet}{line}" for line in lines[:maximum]]
    if len(lines) > maximum:
        rows.append(f"{bullet}and {len(lines) - maximum} more")
    return "\n".join(rows)


def create_untaint_change(pattern: AddressPattern, *, allow_missing: bool) -> StateChange:
    """Create the change of `untaint`.

    A missing object is an error, or with `allow_missing` a warning.
    """

    def change(state: State) -> tuple[State | None, list[Diagnostic]]:
        """Return the state without the taint; None with errors."""
        try:
            address = state_edits.find_instance(state, pattern)
            if address is None:
                detail = (
                    f"The state has no object at {pattern}. `nexusform state list` shows all "
                    "addresses."
                )
                if allow_missing:
                    return state, [build_warning("no-such-resource-instance", detail)]
                return None, [build_error("no-such-resource-instance", detail)]
            return state_edits.remove_taint(state, address), []
        except DiagnosticsError as failure:
            return None, failure.diagnostics

    return change


def create_push_change(pushed: State, name: str, *, force: bool) -> StateChange:
    """Create the change of `state push` of file `name`.

    Reject another lineage and an older state unless forced.
    """

    def change(state: State) -> tuple[State | None, list[Diagnostic]]:
        """Return the pushed state, unless it must not replace the current one."""
        if not force:
            rejection = _check_lineage(state, pushed, name)
            # Another lineage, or not newer.
            if rejection is not None:
                return None, [rejection]
        # Creation numbers are never reused, regardless of the pushed state.
        return replace(pushed, last_creation=max(pushed.last_creation, state.last_creation)), []

    return change


def _check_lineage(state: State, pushed: State, name: str) -> Diagnostic | None:
    """Return an error if `pushed` must not replace the state.

    It must not if it is unrelated, older, or changed under the same serial.
    """
    if not has_been_written(state):
        return None
    remedy = "No changes were made. To replace the current state anyway, use -force."
    if state.lineage and pushed.lineage != state.lineage:
        return build_error(
            "unrelated-state",
            f'{name} has the lineage "{pushed.lineage}", but the current state has '
            f'"{state.lineage}": they are different states. {remedy}',
        )
    if pushed.serial < state.serial:
        return build_error(
            "outdated-state",
            (
                f"{name} has the serial {pushed.serial}, but the current state has {state.serial}. "
                f"{remedy}"
            ),
        )
    if pushed.serial == state.serial and pushed != state:
        return build_error(
            "conflicting-state-serial",
            (
                f"{name} and the current state both have the serial {pushed.serial} but differ. "
                f"{remedy}"
            ),
        )
    return None


def verify_state(context: CommandContext, *, reads_providers: bool = True) -> StateReadResult:
    """Return the state with its problems and, with `reads_providers`, drift.

    State None: a check was not possible.
    """
    backend, problems, sources = find_backend(context)
    if backend is None:
        return StateReadResult(state=None, diagnostics=tuple(problems), sources=sources)
    stored, new_problems = read_stored_state(backend)
    problems += new_problems
    if stored is None:
        return StateReadResult(state=None, diagnostics=tuple(problems), sources=sources)
    problems += check_consistency(stored.state, build_registries().resource_types, PROVIDERS)
    problems += check_missing_dependencies(stored.state)
    problems += check_missing_machines(stored.state, build_registries().resource_types)
    problems += check_state_rules(stored.state, build_registries())
    # Without configuration there are no providers.
    if not reads_providers or not sources:
        return StateReadResult(stored.state, tuple(problems), sources)
    drift, failures, sources = _check_state_drift(context, stored)
    problems += [*drift, *failures]
    return StateReadResult(None if has_errors(failures) else stored.state, tuple(problems), sources)


def _check_state_drift(
    context: CommandContext, stored: StoredState
) -> tuple[list[Diagnostic], list[Diagnostic], Mapping[str, SourceFile]]:
    """Read the providers, and return a warning if their objects have drifted from the state.

    The result is the warning about drift ([] without drift), the problems of reading, and
    the source files.
    """
    opened = open_project(context)
    if opened.project is None:
        return [], list(opened.diagnostics), opened.sources
    request = build_base_request(opened.project, stored)
    with ExitStack() as exit_stack:
        providers, failures = create_providers(request, context, exit_stack)
        if has_errors(failures):
            return [], failures, opened.sources
        types = opened.project.registries.resource_types
        try:
            check = check_identities(
                providers, stored.state, stored.state.providers, context.allow_other_hub
            )
            if has_errors(check.diagnostics):
                return [], check.diagnostics, opened.sources
            refreshed = refresh_objects(stored.state, providers, types, lambda _address, _id: None)
        except ProviderProblem as problem:
            return [], [build_error("refresh-failed", str(problem))], opened.sources
    warnings = chain.from_iterable(provider.list_warnings() for provider in providers.values())
    unread = [convert_problem(problem) for problem in warnings if hides_capacity(problem.id)]
    failures = [*failures, *check.diagnostics, *unread]
    drift = collect_drifted_objects(stored.state, refreshed)
    if not drift:
        return [], failures, opened.sources
    drift_lines = format_first_lines(list(map(_format_drift, drift)), MAX_LISTED_OBJECTS, " - ")
    drift_warning = build_warning(
        "provider-drift",
        f"The site differs from the state:\n{drift_lines}\n`nexusform plan` shows the values; "
        "`nexusform apply -refresh-only` updates the state.",
    )
    return [drift_warning], failures, opened.sources


def _format_drift(drift: Drift) -> str:
    """Format the address of an object with its changed attributes.

    For a deleted object the text says that it is deleted.
    """
    if drift.after is None:
        return f"{drift.address} no longer exists"
    before = drift.before
    after = drift.after
    changed_names = (
        name for name in sorted({*before, *after}) if before.get(name) != after.get(name)
    )
    return f"{drift.address}: {', '.join(changed_names)}"
