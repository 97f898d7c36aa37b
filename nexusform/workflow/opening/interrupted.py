"""Look up what an apply that did not come to its end had begun."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from nexusform.applying.settling import settle
from nexusform.diagnostics import Diagnostic, error, warning
from nexusform.ports import Provider, ProviderProblem
from nexusform.state import codec, journal
from nexusform.state.draft import replayed
from nexusform.state.journal import OpenIntent
from nexusform.state_ports import BackendProblem, StateBackend
from nexusform.workflow.opening.stored import Stored, state_digest


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
