"""Replay of journal records for tests."""

from __future__ import annotations

from collections.abc import Iterable

from nexusform.state import journal
from nexusform.state.journal import OpenStepIntent, Record
from nexusform.state.objects import State
from nexusform.state.state_draft import build_draft


def apply_journal_records(
    state: State, records: Iterable[Record]
) -> tuple[State, list[OpenStepIntent]]:
    """Apply all outcomes of a journal to the state.

    Return the state and the intents without an outcome.
    """
    draft = build_draft(state, records)
    return draft.build_state(), draft.list_open_intents()


def build_journal_line(body: bytes) -> bytes:
    """Build the line of a record, with its checksum."""
    return journal._HEAD + journal._compute_checksum(body) + journal._MIDDLE + body + b"}"
