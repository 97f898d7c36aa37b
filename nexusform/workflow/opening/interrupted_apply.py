"""Recovery after an interrupted apply: lookup of the changes that it began."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from nexusform.applying.apply_recorder import recover_step_outcomes
from nexusform.diagnostics.diagnostic import Diagnostic, build_error, build_warning
from nexusform.diagnostics.phrases import format_first_items
from nexusform.interfaces.plugins import Provider, ProviderProblem
from nexusform.interfaces.state_storage import BackendProblem, StateBackend
from nexusform.state import journal, state_codec
from nexusform.state.journal import OpenStepIntent
from nexusform.state.state_draft import build_draft
from nexusform.workflow.opening.stored_state import StoredState, compute_state_digest


def recover_interrupted_apply(
    stored: StoredState, providers: Mapping[str, Provider], backend: StateBackend, *, write: bool
) -> tuple[StoredState | None, list[Diagnostic]]:
    """Read from the providers whether the changes begun by an interrupted run were made.

    Open intents. Return the state with these outcomes; None with errors. With `write` (the lock is
    held), also save this state. A plan does not write: its configuration may be untrusted, and
    answers of its providers must not affect the recorded state.
    """
    warnings: list[Diagnostic] = []
    # No open intents.
    resolved = StoredState(stored.state, digest=stored.digest, remaining=stored.remaining)
    try:
        if stored.open_intents:
            running_operations = stored.remaining.running_operations if stored.remaining else None
            outcomes = recover_step_outcomes(
                stored.open_intents, providers, running_operations, stored.state.lineage
            )
            if write:
                for outcome in outcomes:
                    backend.append(journal.encode_journal_record(outcome))
            draft = build_draft(stored.state, outcomes, stored.remaining)
            resolved = StoredState(draft.build_state(), remaining=draft.build_unfinished_apply())
            # It was not killed.
            has_ended = stored.remaining is not None and stored.remaining.has_ended
            if not has_ended:
                warnings.append(_build_interrupted_warning(stored.open_intents, write=write))
        if write:
            backend.write_merged_state(
                state_codec.encode_state(resolved.state), resolved.list_preserved_lines()
            )
    except ProviderProblem as problem:
        return None, [build_error("unreadable-interrupted-apply", str(problem))]
    except BackendProblem as problem:
        return None, [build_error("unwritable-state", str(problem))]
    return replace(resolved, digest=compute_state_digest(resolved.state)), warnings


def _build_interrupted_warning(
    open_intents: Sequence[OpenStepIntent], *, write: bool
) -> Diagnostic:
    """Build the warning about objects with an unfinished step.

    With `write`, the state has their current values.
    """
    consequence = "this run uses their current values; the next apply records them."
    if write:
        consequence = "the state has their current values."
    addresses = sorted({str(open_intent.intent.address) for open_intent in open_intents})
    return build_warning(
        "apply-interrupted",
        f"It was interrupted while it changed these objects: {format_first_items(addresses, 5)}. "
        f"nexusform read them from their provider, and {consequence}",
    )
