"""State of a backend: document and journal together."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic, build_error, build_warning
from nexusform.interfaces.state_storage import (
    BackendProblem,
    StateBackend,
    is_encrypted,
    list_backend_warnings,
)
from nexusform.schemas.block_schema import BlockSchema
from nexusform.state.objects import EMPTY, State

# Most states have no journal.
if TYPE_CHECKING:
    from nexusform.state.journal import OpenStepIntent
    from nexusform.state.state_draft import UnfinishedApply


class StoredState(Struct, frozen=True):
    """The state with its journal replayed.

    `open_intents` have no outcome; `has_journal` means that a compaction would change the document.
    `digest` is that of the state document, to detect changes. `remaining` is an unfinished apply.
    `journal_end` names the last record of the journal: "" without any, None if it is unknown.
    """

    state: State
    open_intents: tuple[OpenStepIntent, ...] = ()
    has_journal: bool = False
    digest: str = ""
    remaining: UnfinishedApply | None = None
    journal_end: str | None = None

    def list_preserved_lines(self) -> list[bytes]:
        """Return the journal lines to keep when the state is written.

        They are the lines of an unfinished apply. Without one, there are none.
        """
        if self.remaining is None:
            return []
        from nexusform.state.journal import RecordSequence

        sequence = RecordSequence(create_writer_id(), self.journal_end, follows_document=True)
        return [sequence.encode(record) for record in self.remaining.build_records()]


def create_writer_id() -> str:
    """Return a new id for a writer of journal records."""
    return uuid.uuid4().hex[:8]


def compute_state_digest(state: State) -> str:
    """Compute the SHA-256 of the state document."""
    from nexusform.state import state_codec

    return sha256(state_codec.encode_state(state)).hexdigest()


def load_schemas() -> Mapping[str, BlockSchema]:
    """Load the schemas of all resource types by name.

    Commands only listing the state do not need them.
    """
    from nexusform.resource_types.registry import build_registries

    return build_registries().schemas["managed"]


def _format_remedy(backend: StateBackend) -> str:
    """Format what to do about a damaged state document."""
    location = backend.describe()
    # A URL: the answer may be that of another server.
    sources = (
        "Check the address and the login first: a server may answer with a web page."
        if "://" in location
        else f'The local backend keeps the previous one as "{location}.backup".'
    )
    return (
        "No changes were made. Fix the document, or replace it with a backup: `nexusform state "
        f"push -force FILE`. {sources}"
    )


def read_stored_state(
    backend: StateBackend, *, checks_objects: bool = True
) -> tuple[StoredState | None, list[Diagnostic]]:
    """Read the state and its journal.

    Return an empty state if there is none, and None with errors. The journal has the changes of an
    apply since the document was written; replaying it gives the current state. `checks_objects`
    validates all attributes by their schemas. Without it, a state with invalid objects can be
    inspected and repaired.
    """
    types = load_schemas() if checks_objects else None
    try:
        document = backend.read()
        lines = backend.read_journal()
    except BackendProblem as problem:
        return None, [build_error("unreadable-state", str(problem))]
    state: State | None = EMPTY
    problems: list[Diagnostic] = []
    # With keys, the backend returns decrypted documents.
    if is_encrypted(document or (lines[0] if lines else b"")):
        from nexusform.workflow.opening.encryption_settings import format_missing_settings

        detail = format_missing_settings(backend.describe(), "state")
        return None, [build_error("encrypted-state", detail)]
    if document is not None:
        from nexusform.state import state_codec

        state, problems = state_codec.decode_state(
            document, backend.describe(), types, _format_remedy(backend)
        )
    if state is None:
        return None, problems
    problems += [
        build_warning("seen-states-not-recorded", text) for text in list_backend_warnings(backend)
    ]
    # No journal: the digest is of the document itself.
    if not lines:
        digest = sha256(document or b"").hexdigest()
        return StoredState(state, digest=digest, journal_end=""), problems
    from nexusform.state.journal import find_journal_end
    from nexusform.workflow.opening.journal_replay import replay_journal

    draft, changes, new_problems = replay_journal(
        state, lines, f"journal of {backend.describe()}", types or {}
    )
    problems += new_problems
    if draft is None:
        return None, problems
    replayed_state = draft.build_state()
    stored = StoredState(
        replayed_state,
        tuple(draft.list_open_intents()),
        # A plan alone is no change.
        has_journal=bool(changes),
        digest=compute_state_digest(replayed_state),
        remaining=draft.build_unfinished_apply(),
        journal_end=find_journal_end(lines),
    )
    return stored, problems
