"""Commands that work on state alone: look at it, and change it by hand under the lock."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from msgspec import Struct, field
from msgspec.structs import replace

import nexusform
from nexusform.address import Address, AddressPattern, AddressProblem, parse_pattern
from nexusform.diagnostics import Diagnostic, Refused, did_you_mean, error, has_errors, warning
from nexusform.planning.conclusion.changes import drift_between
from nexusform.planning.verification.standing_rules import broken_rules
from nexusform.planning.verification.standing_state import (
    dependencies_on_nothing,
    state_problems,
    vms_on_no_machine,
)
from nexusform.plans.plan import Drift
from nexusform.ports import Clock, ProviderProblem
from nexusform.providers.registry import PROVIDERS
from nexusform.resource_types.registry import registries
from nexusform.source import SourceFile
from nexusform.state import codec, edits
from nexusform.state.objects import EMPTY, InstanceState, State
from nexusform.state_ports import BackendProblem, StateBackend
from nexusform.workflow.opening.place import Place
from nexusform.workflow.opening.project import find_backend, open_project
from nexusform.workflow.opening.providers import make_providers
from nexusform.workflow.opening.stored import Stored, read_stored
from nexusform.workflow.opening.surroundings import SystemClock
from nexusform.workflow.runs.locking import HeldLock, Locking, acquire
from nexusform.workflow.runs.run import base_request
from nexusform.workflow.runs.what_stands import refresh

_MOST_NAMED = 20


class Session(Struct, frozen=True):
    """What a command may ask for besides its flags: a clock, and to be told that it waits."""

    clock: Clock = field(default_factory=SystemClock)
    waiting: Callable[[str], None] = lambda _: None


class StateReading(Struct, frozen=True):
    """What reading gave; `state` None when it could not be read (the diagnostics say why)."""

    state: State | None
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)


class ChangedState(Struct, frozen=True):
    """What a change gave: the state before and after, None when nothing was written."""

    before: State | None
    after: State | None
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)


# A change looks at the state and gives the new one (None: refused), with remarks.
StateChange = Callable[[State], tuple[State | None, list[Diagnostic]]]


def read_state(place: Place, *, closely: bool = False) -> StateReading:
    """The state of the selected workspace, with the journal of a running or interrupted apply.

    `closely`: see read_stored.
    """
    backend, problems, sources = find_backend(place)
    if backend is None:
        return StateReading(None, tuple(problems), sources)
    stored, wrong = read_stored(backend, closely=closely)
    return StateReading(stored.state if stored else None, (*problems, *wrong), sources)


def exists(state: State) -> bool:
    """Whether anything was ever applied or pushed."""
    return bool(state.lineage or state.instances or state.outputs)


def parse_patterns(texts: Sequence[str]) -> tuple[list[AddressPattern], list[Diagnostic]]:
    """Addresses as typed, and what is wrong with them."""
    patterns, problems = [], []
    for text in texts:
        try:
            patterns.append(parse_pattern(text))
        except AddressProblem as problem:
            problems.append(error("invalid-address", str(problem)))
    return patterns, problems


# --- changing ----------------------------------------------------------------------------------


def decode_pushed(data: bytes, name: str) -> tuple[State | None, list[Diagnostic], Mapping[str, SourceFile]]:
    """The state of a document that is to be pushed, and the document for showing what is wrong in it."""
    state, problems = codec.decode(data, name)
    text = data.decode("utf-8", "replace")
    return state, problems, {} if state else {name: SourceFile(name, text)}


def change_state(
    place: Place,
    operation: str,
    locking: Locking,
    change: StateChange,
    *,
    session: Session | None = None,
    force: bool = False,
    rescued: State | None = None,
) -> ChangedState:
    """Lock, read, change, write with the next serial, unlock.

    A state with steps of an interrupted apply in it is refused unless `force`: what they did is
    to be looked up first. `rescued` is written as it is where it is what that very apply could not save.
    """
    session = session or Session()
    backend, diagnostics, sources = find_backend(place)
    if backend is None:
        return ChangedState(None, None, tuple(diagnostics), sources)
    held, problems = acquire(
        backend,
        operation,
        locking,
        clock=session.clock,
        environment=place.environment,
        waiting=session.waiting,
    )
    diagnostics += problems
    if has_errors(problems):
        return ChangedState(None, None, tuple(diagnostics), sources)
    try:
        changed = _change_under_lock(backend, change, force=force, rescued=rescued)
    finally:
        released = held.release() if isinstance(held, HeldLock) else []
    return replace(changed, diagnostics=(*diagnostics, *changed.diagnostics, *released), sources=sources)


def _change_under_lock(
    backend: StateBackend, change: StateChange, *, force: bool, rescued: State | None
) -> ChangedState:
    """Read the state, change it and write it; a state that was rescued from an apply is written as it is."""
    stored, problems = read_stored(backend, closely=False)
    if stored is None:
        return ChangedState(None, None, tuple(problems))
    if rescued is not None and _goes_on(backend, stored, rescued):
        return _written(backend, stored, rescued, problems)
    if stored.open_intents and not force:
        return ChangedState(stored.state, None, (*problems, _unfinished(stored)))
    before = stored.state
    after, remarks = change(before)
    problems += remarks
    if after is None or has_errors(remarks):
        return ChangedState(before, None, tuple(problems))
    if after == before:
        return ChangedState(before, before, tuple(problems))
    return _written(backend, stored, _numbered(before, after), problems)


def _written(
    backend: StateBackend, stored: Stored, after: State, problems: Sequence[Diagnostic]
) -> ChangedState:
    before = stored.state
    try:
        backend.compact(codec.encode(after), stored.kept_lines())
    except BackendProblem as problem:
        return ChangedState(before, None, (*problems, error("the-state-cannot-be-written", str(problem))))
    return ChangedState(before, after, tuple(problems))


def _goes_on(backend: StateBackend, stored: Stored, rescued: State) -> bool:
    """Whether a state is what the apply came to whose journal stands here, cut off: its serial is in no
    document yet, and all that the journal tells of is in it.
    """
    state = stored.state
    if not stored.has_journal or (rescued.lineage, rescued.serial) != (state.lineage, state.serial):
        return False
    try:
        document = backend.read()
    except BackendProblem:
        return False
    began = EMPTY if document is None else codec.decode(document, backend.describe())[0]
    if began is None or began.serial >= state.serial:
        return False
    under_way = {opened.intent.address for opened in stored.open_intents}
    changed = {address for address, held in state.instances.items() if began.instances.get(address) != held}
    told = changed - under_way
    return all(_unnoted(rescued.instances.get(each)) == _unnoted(state.instances[each]) for each in told)


def _unnoted(instance: InstanceState | None) -> InstanceState | None:
    """The instance without its private note, which an apply writes once more at its end."""
    if instance is None or instance.current is None:
        return instance
    return replace(instance, current=replace(instance.current, private=None))


def _numbered(before: State, after: State) -> State:
    return replace(
        after,
        lineage=after.lineage or str(uuid.uuid4()),
        serial=max(before.serial + 1, after.serial),
        nexusform_version=nexusform.__version__,
    )


def _unfinished(stored: Stored) -> Diagnostic:
    names = ", ".join(sorted({str(opened.intent.address) for opened in stored.open_intents})[:5])
    return error(
        "an-earlier-apply-was-interrupted",
        f"It ended while these were being changed: {names}. What became of them is looked up by "
        "`nexusform apply -refresh-only`; run that first.",
    )


def _edit(work: Callable[[], State]) -> tuple[State | None, list[Diagnostic]]:
    try:
        return work(), []
    except Refused as refused:
        return None, refused.diagnostics


# --- the changes -------------------------------------------------------------------------------


def move(source: AddressPattern, target: AddressPattern, pairs: list[tuple[Address, Address]]) -> StateChange:
    """`state mv`; what moves is added to `pairs`."""

    def change(state: State) -> tuple[State | None, list[Diagnostic]]:
        def work() -> State:
            matching = edits.moves(state, source, target)
            pairs.extend(matching)
            return edits.moved(state, matching)

        return _edit(work)

    return change


def remove(
    patterns: Sequence[AddressPattern], removed: list[Address], vms: Sequence[tuple[AddressPattern, str]] = ()
) -> StateChange:
    """`state rm`; what is removed is added to `removed`. What has VMs leaves them noted by the racks and
    machines that they run on: `vms` are those of such notes that are not there any more.
    """

    def change(state: State) -> tuple[State | None, list[Diagnostic]]:
        from nexusform.planning.vms.forgotten_vms import remembering

        if vms:
            state, problems = _released(state, vms)
            if problems or not patterns:
                return None if problems else state, problems
        addresses = edits.matching(state, patterns)
        if not addresses:
            return None, [
                error(
                    "no-matching-objects-found",
                    "`nexusform state list` shows the addresses of what the state holds.",
                )
            ]
        removed.extend(addresses)
        noted = remembering(state, addresses, registries())
        return edits.without(noted, addresses), _running_on(state, addresses)

    return change


def _released(state: State, vms: Sequence[tuple[AddressPattern, str]]) -> tuple[State, list[Diagnostic]]:
    """The state without forgotten VMs that are not there any more."""
    from nexusform.planning.vms.forgotten_vms import forgotten_in, released

    problems: list[Diagnostic] = []
    for pattern, name in vms:
        known = list(forgotten_in(state))
        noting = [address for address, vm in known if vm == name and pattern.matches(address)]
        if not noting:
            near = did_you_mean(f"{pattern}:{name}", [f"{address}:{vm}" for address, vm in known])
            detail = f"{pattern} remembers no forgotten VM of the name {name}.{near}"
            problems.append(error("no-matching-objects-found", detail))
        for address in noting:
            state = released(state, address, name) or state
    return state, problems


def _running_on(state: State, removed: Sequence[Address]) -> list[Diagnostic]:
    """A warning for the VMs that go on running though nobody manages them."""
    types = registries().resource_types
    rows = []
    total = 0
    for address in removed:
        kind, current = types.get(address.type), state.instances[address].current
        if kind is None or kind.vms is None or current is None:
            continue
        count = len(kind.vms.standing(current.attributes))
        if count:
            rows.append(f"  {address}: {count:,} VM{'s' if count > 1 else ''}")
            total += count
    if not rows:
        return []
    shown = "\n".join(rows[:20] + ([f"  and {len(rows) - 20} more"] if len(rows) > 20 else []))
    return [
        warning(
            "forgotten-vms-run-on",
            f"{total:,} VM{'s' if total > 1 else ''} of these are not removed, only forgotten. They go on "
            "running, and plans give their room to nobody until a provider or an inventory shows that it is "
            f"free, or `nexusform state rm 'nexus_rack.NAME:VM'` says so:\n{shown}",
        )
    ]


def untaint(pattern: AddressPattern, named: list[Address], *, allow_missing: bool) -> StateChange:
    """Return the change that removes the taint of an instance, which is added to `named`."""

    def change(state: State) -> tuple[State | None, list[Diagnostic]]:
        try:
            address = edits.only_instance(state, pattern)
            if address is None:
                return _missing(state, pattern, allow_missing=allow_missing)
            after = edits.without_taint(state, address)
        except Refused as refused:
            return None, refused.diagnostics
        named.append(address)
        return after, []

    return change


def _missing(
    state: State, pattern: AddressPattern, *, allow_missing: bool
) -> tuple[State | None, list[Diagnostic]]:
    detail = f"The state holds no object at {pattern}. `nexusform state list` shows what it holds."
    if allow_missing:
        return state, [warning("no-such-resource-instance", detail)]
    return None, [error("no-such-resource-instance", detail)]


def push(pushed: State, name: str, *, force: bool) -> StateChange:
    """`state push`: replace the whole state. Refuses another history and an older state unless forced."""

    def change(state: State) -> tuple[State | None, list[Diagnostic]]:
        if not force:
            refusal = unrelated(state, pushed, name)
            if refusal is not None:
                return None, [refusal]
        # Numbers that were given are never given again, whatever the pushed state knows of them.
        return replace(pushed, last_creation=max(pushed.last_creation, state.last_creation)), []

    return change


def unrelated(state: State, pushed: State, name: str) -> Diagnostic | None:
    """Why a state must not replace the current one, or None."""
    if not exists(state):
        return None
    way_out = "Nothing was written. With -force it replaces the current state all the same."
    if state.lineage and pushed.lineage != state.lineage:
        return error(
            "unrelated-state",
            f'{name} has the lineage "{pushed.lineage}", the current state "{state.lineage}": they are of '
            f"different histories. {way_out}",
        )
    if pushed.serial < state.serial:
        return error(
            "older-state",
            f"{name} has the serial {pushed.serial}, the current state {state.serial}. {way_out}",
        )
    if pushed.serial == state.serial and pushed != state:
        return error(
            "different-state-of-the-same-serial",
            f"{name} and the current state both have the serial {pushed.serial} but differ. {way_out}",
        )
    return None


def verify(place: Place, *, asks: bool = True) -> StateReading:
    """The state, all that is wrong with it in itself, the rules that it does not keep and, where there is a
    configuration and it `asks` the providers, what they see otherwise. State None: not all of it could be
    looked at.
    """
    backend, problems, sources = find_backend(place)
    if backend is None:
        return StateReading(None, tuple(problems), sources)
    stored, wrong = read_stored(backend)
    problems += wrong
    if stored is None:
        return StateReading(None, tuple(problems), sources)
    problems += state_problems(stored.state, registries().resource_types, PROVIDERS)
    problems += dependencies_on_nothing(stored.state)
    problems += vms_on_no_machine(stored.state, registries().resource_types)
    problems += broken_rules(stored.state, registries())
    if not asks or not sources:
        return StateReading(stored.state, tuple(problems), sources)
    drift, failures, sources = _seen_otherwise(place, stored)
    problems += [*drift, *failures]
    return StateReading(None if has_errors(failures) else stored.state, tuple(problems), sources)


def _seen_otherwise(
    place: Place, stored: Stored
) -> tuple[list[Diagnostic], list[Diagnostic], Mapping[str, SourceFile]]:
    """A warning about what the providers see otherwise, why they could not be asked, and the files read."""
    opened = open_project(place)
    if opened.project is None:
        return [], list(opened.diagnostics), opened.sources
    request = base_request(opened.project, stored)
    with ExitStack() as leaving:
        providers, failures = make_providers(request, place, leaving)
        if has_errors(failures):
            return [], failures, opened.sources
        types = opened.project.registries.resource_types
        try:
            seen = refresh(stored.state, providers, types, lambda _address, _id: None)
        except ProviderProblem as problem:
            return [], [error("reading-what-stands-failed", str(problem))], opened.sources
    drift = drift_between(stored.state, seen)
    return [_drift_warning(drift)] if drift else [], failures, opened.sources


def _drift_warning(drift: Sequence[Drift]) -> Diagnostic:
    lines = [f" - {_drift_line(each)}" for each in drift[:_MOST_NAMED]]
    if len(drift) > _MOST_NAMED:
        lines.append(f" - and {len(drift) - _MOST_NAMED} more")
    listed = "\n".join(lines)
    return warning(
        "the-providers-see-otherwise",
        f"What the providers see is not what the state says:\n{listed}\n"
        "`nexusform plan` shows the values; `nexusform apply -refresh-only` takes them over.",
    )


def _drift_line(drift: Drift) -> str:
    if drift.after is None:
        return f"{drift.address} is gone"
    before, after = drift.before, drift.after
    names = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    return f"{drift.address}: {', '.join(names)}"
