"""Recovery after an interrupted apply: lookup of the changes that it began."""

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from nexusform.applying.apply_recorder import recover_step_outcomes
from nexusform.backends.local_lock import is_process_dead
from nexusform.diagnostics.diagnostic import Diagnostic, build_error, build_warning
from nexusform.diagnostics.phrases import format_first_items
from nexusform.interfaces.plugins import Provider, ProviderProblem
from nexusform.interfaces.state_storage import BackendProblem, LockInfo, StateBackend
from nexusform.state import state_codec
from nexusform.state.journal import OpenStepIntent, RecordSequence, find_journal_end
from nexusform.state.state_draft import build_draft
from nexusform.workflow.opening.stored_state import (
    StoredState,
    compute_state_digest,
    create_writer_id,
)

PLAN_OPERATION: Final = "OperationTypePlan"


def find_running_apply(stored: StoredState, backend: StateBackend) -> LockInfo | None:
    """Return the holder of the lock if it is applying now, for a run that has no lock.

    Return None without a journal of an apply, or if that apply ended or was interrupted. A run that
    plans writes no journal.
    """
    has_ended = stored.remaining is not None and stored.remaining.has_ended
    if has_ended or not (stored.has_journal or stored.remaining is not None):
        return None
    try:
        holder = backend.read_lock()
    except BackendProblem:
        # Such as missing permissions.
        return None
    if holder is None or holder.operation == PLAN_OPERATION:
        return None
    is_here = holder.host == os.uname().nodename
    return None if is_here and is_process_dead(holder.pid, "") else holder


def build_running_apply_error(holder: LockInfo) -> Diagnostic:
    """Build the error of a run that would change the state of an apply in progress."""
    return build_error(
        "apply-in-progress",
        f"{_describe_running_apply(holder)} A second run would change the same objects and lose "
        "changes in the state, so -lock=false is not possible now. No changes were made. Wait for "
        "that run to end. If it is dead, break its lock with `nexusform force-unlock "
        f"{shlex.quote(holder.id)}`.",
    )


def build_running_apply_warning(holder: LockInfo) -> Diagnostic:
    """Build the warning of a plan made from the state of an apply in progress."""
    return build_warning(
        "apply-in-progress",
        f"{_describe_running_apply(holder)} This plan starts from the changes that it has made so "
        "far, and includes the others. Plan again when it has ended.",
    )


def _describe_running_apply(holder: LockInfo) -> str:
    who = holder.who or "another process"
    return f"An apply of {who} is in progress (lock {holder.id})."


def recover_interrupted_apply(
    stored: StoredState, providers: Mapping[str, Provider], backend: StateBackend, *, write: bool
) -> tuple[StoredState | None, list[Diagnostic]]:
    """Read from the providers whether the changes begun by an interrupted run were made.

    These changes are the open intents of the state. Return the state with their outcomes, or None
    with errors. With `write` (the lock is held), also save this state. A plan does not write: its
    configuration may be untrusted, and answers of its providers must not affect the recorded state.
    """
    warnings: list[Diagnostic] = []
    # No open intents.
    resolved = replace(stored, open_intents=(), has_journal=False)
    try:
        if stored.open_intents:
            running_operations = stored.remaining.running_operations if stored.remaining else None
            outcomes = recover_step_outcomes(
                stored.open_intents, providers, running_operations, stored.state.lineage
            )
            sequence = RecordSequence(create_writer_id(), stored.journal_end)
            if write:
                for outcome in outcomes:
                    backend.append(sequence.encode(outcome))
            draft = build_draft(stored.state, outcomes, stored.remaining)
            resolved = StoredState(
                draft.build_state(),
                remaining=draft.build_unfinished_apply(),
                journal_end=sequence.end,
            )
            # It was not killed.
            has_ended = stored.remaining is not None and stored.remaining.has_ended
            if not has_ended:
                warnings.append(_build_interrupted_warning(stored.open_intents, write=write))
        if write:
            preserved_lines = resolved.list_preserved_lines()
            backend.write_merged_state(state_codec.encode_state(resolved.state), preserved_lines)
            resolved = replace(resolved, journal_end=find_journal_end(preserved_lines))
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
