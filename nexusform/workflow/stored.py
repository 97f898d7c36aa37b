"""The state as a backend holds it: document and journal together."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.applying.outcomes import path_text
from nexusform.applying.settling import settle
from nexusform.diagnostics import Diagnostic, error, has_errors, warning
from nexusform.ports import Provider, ProviderProblem
from nexusform.schema import BlockSchema
from nexusform.state import codec, journal
from nexusform.state.conformity import misfits
from nexusform.state.draft import Remaining, replayed
from nexusform.state.journal import OpenIntent, Planned, Progress
from nexusform.state.objects import EMPTY, InstanceState, State
from nexusform.state_ports import BackendProblem, StateBackend
from nexusform.workflow.encryption import refusal_to_guess


class Stored(Struct, frozen=True):
    """The state with its journal.

    `state` has its journal replayed; `open_intents` are those without an outcome; `has_journal`
    tells whether there is anything that a compaction would fold in. `digest` is that of the
    state's document, to tell whether it is another one. `unsaved`: the backend's document is behind,
    since its journal was not folded in. `remaining` is an apply that was begun and not followed to its
    end.
    """

    state: State
    open_intents: tuple[OpenIntent, ...] = ()
    has_journal: bool = False
    digest: str = ""
    unsaved: bool = False
    remaining: Remaining | None = None

    def kept_lines(self) -> list[bytes]:
        """What a compaction must leave in the journal, so that the rest can still be done."""
        return [] if self.remaining is None else [journal.encode(r) for r in self.remaining.records()]


def state_digest(state: State) -> str:
    """The SHA-256 of the state's document."""
    return sha256(codec.encode(state)).hexdigest()


def schemas() -> Mapping[str, BlockSchema]:
    """What the objects of each resource type hold."""
    # not needed, and not loaded, by commands that only list or hand on
    from nexusform.resource_types.registry import registries

    return registries().schemas["managed"]


def read_stored(backend: StateBackend, *, closely: bool = True) -> tuple[Stored | None, list[Diagnostic]]:
    """Read the state; an empty one when there is none yet.

    `closely` looks at the attributes of every object too, as all that works with them needs;
    without it a state can be looked at and mended whose objects are not as their types say.
    """
    types = schemas() if closely else None
    try:
        document = backend.read()
        lines = backend.journal()
    except BackendProblem as problem:
        return None, [error("the-state-cannot-be-read", str(problem))]
    state: State | None = EMPTY
    problems: list[Diagnostic] = []
    refusal = refusal_to_guess(document or (lines[0] if lines else b""), backend.describe())
    if refusal is not None:
        return None, [refusal]
    if document is not None:
        state, problems = codec.decode(document, backend.describe(), types)
    if state is None:
        return None, problems
    if closely:
        state = _with_secrets(state)
    if not lines:
        return Stored(state, digest=sha256(document or b"").hexdigest()), problems
    records, wrong = journal.read(lines, f"the journal of {backend.describe()}")
    problems += wrong
    if has_errors(problems):
        return None, problems
    draft = replayed(state, records)
    state = draft.state()
    problems += _misfits_of(state, types or {}, f"The journal of {backend.describe()}")
    if has_errors(problems):
        return None, problems
    # What is only there to be kept needs no folding in.
    folds = any(not isinstance(record, Planned | Progress) for record in records)
    stored = Stored(
        state, tuple(draft.open_intents()), folds, state_digest(state), remaining=draft.remaining()
    )
    return stored, problems


def _with_secrets(state: State) -> State:
    """The state with what holds secrets marked: an older nexusform did not."""
    from nexusform.resource_types.registry import registries

    marked: dict[Address, InstanceState] = {}
    types = registries().resource_types
    for address, instance in state.instances.items():
        secrets = types[address.type].secrets if address.type in types else None
        current = instance.current
        if secrets is None or current is None:
            continue
        sensitive = tuple(dict.fromkeys((*current.sensitive, *secrets(current.attributes))))
        if sensitive != current.sensitive:
            marked[address] = replace(instance, current=replace(current, sensitive=sensitive))
    return replace(state, instances={**state.instances, **marked}) if marked else state


def _misfits_of(state: State, known: Mapping[str, BlockSchema], name: str) -> list[Diagnostic]:
    """What is wrong with objects that a document did not hold so."""
    diagnostics: list[Diagnostic] = []
    for address, instance in state.instances.items():
        if instance.current is None or address.type not in known:
            continue
        for misfit in misfits(known[address.type], instance.current.attributes):
            detail = f"{name}, {address}: {path_text(misfit.path)}: {misfit.detail}"
            diagnostics.append(error(misfit.id, detail))
    return diagnostics


def settle_stored(
    stored: Stored, providers: Mapping[str, Provider], backend: StateBackend, *, write: bool
) -> tuple[Stored | None, list[Diagnostic]]:
    """Look up what a killed run had begun.

    With `write` (the lock is held) the outcomes are recorded and the journal is folded in. A plan does not:
    it may run on somebody's proposal, whose providers must not decide what state says of an earlier apply.
    """
    if not stored.has_journal:
        return stored, []
    remarks: list[Diagnostic] = []
    settled = Stored(stored.state, digest=stored.digest, remaining=stored.remaining)
    try:
        if stored.open_intents:
            under_way = stored.remaining.under_way if stored.remaining else {}
            outcomes = settle(stored.open_intents, providers, under_way)
            if write:
                for outcome in outcomes:
                    backend.append(journal.encode(outcome))
            draft = replayed(stored.state, outcomes, stored.remaining)
            settled = Stored(draft.state(), remaining=draft.remaining())
            remarks.append(_interrupted(stored.open_intents, recorded=write))
        if write:
            backend.compact(codec.encode(settled.state), settled.kept_lines())
    except ProviderProblem as problem:
        return None, [error("an-interrupted-apply-cannot-be-looked-into", str(problem))]
    except BackendProblem as problem:
        return None, [error("the-state-cannot-be-written", str(problem))]
    return replace(settled, digest=state_digest(settled.state), unsaved=not write), remarks


def _interrupted(opened: tuple[OpenIntent, ...], *, recorded: bool) -> Diagnostic:
    names = sorted({str(o.intent.address) for o in opened})
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    what_stands = (
        "the state says what stands now."
        if recorded
        else "this run starts from what stands now; the next apply or refresh records it."
    )
    return warning(
        "an-earlier-apply-was-interrupted",
        f"It ended while these were being changed: {shown}. They were looked up at their provider, and "
        f"{what_stands}",
    )
