"""Replay the journal of an apply onto the state that it was written for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.plain_data import path_text
from nexusform.schema import BlockSchema
from nexusform.state import journal
from nexusform.state.conformity import misfits
from nexusform.state.draft import StateDraft, replayed
from nexusform.state.journal import Planned, Progress, Record
from nexusform.state.objects import State


def replay_journal(
    state: State, lines: Sequence[bytes], name: str, types: Mapping[str, BlockSchema]
) -> tuple[StateDraft | None, list[Record], list[Diagnostic]]:
    """Return the state with the records of its journal taken, and the records that change it; None where they
    cannot be read or are not as `types` say.
    """
    records, problems = journal.read(lines, f"the {name}")
    if has_errors(problems):
        return None, [], problems
    draft = replayed(state, records)
    problems += _misfits_of(draft.state(), types, f"The {name}")
    # What is only there to be kept needs no folding in.
    changing: list[Record] = [record for record in records if not isinstance(record, Planned | Progress)]
    return (None if has_errors(problems) else draft), changing, problems


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
