"""What an apply that did not come to its end left: its journal replayed, and what it had begun looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from nexusform.applying.settling import settle
from nexusform.diagnostics import Diagnostic, error, has_errors, warning
from nexusform.plain_data import path_text
from nexusform.ports import Provider, ProviderProblem
from nexusform.schema import BlockSchema
from nexusform.state import codec, journal
from nexusform.state.conformity import misfits
from nexusform.state.draft import replayed
from nexusform.state.journal import OpenIntent, Planned, Progress
from nexusform.state.objects import State
from nexusform.state_ports import BackendProblem, StateBackend
from nexusform.workflow.opening.stored import Stored, state_digest


def with_journal(
    state: State, lines: Sequence[bytes], name: str, types: Mapping[str, BlockSchema]
) -> tuple[Stored | None, list[Diagnostic]]:
    """A state with the records of its journal; None where these cannot be read or are not as `types` say."""
    records, problems = journal.read(lines, f"the {name}")
    if has_errors(problems):
        return None, problems
    draft = replayed(state, records)
    replayed_state = draft.state()
    problems += _misfits_of(replayed_state, types, f"The {name}")
    if has_errors(problems):
        return None, problems
    stored = Stored(
        replayed_state,
        tuple(draft.open_intents()),
        # What is only there to be kept needs no folding in.
        has_journal=any(not isinstance(record, Planned | Progress) for record in records),
        digest=state_digest(replayed_state),
        remaining=draft.remaining(),
    )
    return stored, problems


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
    return replace(settled, digest=state_digest(settled.state)), remarks


def _interrupted(opened: tuple[OpenIntent, ...], *, recorded: bool) -> Diagnostic:
    names = sorted({str(o.intent.address) for o in opened})
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    what_stands = (
        "the state says what stands now."
        if recorded
        else "this run starts from what stands now; the next apply records it."
    )
    return warning(
        "an-earlier-apply-was-interrupted",
        f"It ended while these were being changed: {shown}. They were looked up at their provider, and "
        f"{what_stands}",
    )
