"""The state as a backend holds it: document and journal together."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec import Struct

from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.schema import BlockSchema
from nexusform.state import codec
from nexusform.state.objects import EMPTY, State
from nexusform.state_ports import BackendProblem, StateBackend, is_sealed

if TYPE_CHECKING:  # most states have no journal
    from nexusform.state.draft import Remaining
    from nexusform.state.journal import OpenIntent


class Stored(Struct, frozen=True):
    """The state with its journal.

    `state` has its journal replayed; `open_intents` are those without an outcome; `has_journal`
    tells whether there is anything that a compaction would fold in. `digest` is that of the
    state's document, to tell whether it is another one. `remaining` is an apply that was begun and not
    followed to its end.
    """

    state: State
    open_intents: tuple[OpenIntent, ...] = ()
    has_journal: bool = False
    digest: str = ""
    remaining: Remaining | None = None

    def kept_lines(self) -> list[bytes]:
        """What a compaction must leave in the journal, so that the rest can still be done."""
        return [] if self.remaining is None else self.remaining.lines()


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
    if is_sealed(document or (lines[0] if lines else b"")):
        from nexusform.workflow.opening.encryption import refusal_to_guess

        return None, [refusal_to_guess(backend.describe())]
    if document is not None:
        state, problems = codec.decode(document, backend.describe(), types)
    if state is None:
        return None, problems
    if not lines:
        return Stored(state, digest=sha256(document or b"").hexdigest()), problems
    if has_errors(problems):
        return None, problems
    from nexusform.workflow.opening.journal_replay import replay_journal

    draft, changing, wrong = replay_journal(state, lines, f"journal of {backend.describe()}", types or {})
    problems += wrong
    if draft is None:
        return None, problems
    replayed_state = draft.state()
    stored = Stored(
        replayed_state,
        tuple(draft.open_intents()),
        has_journal=bool(changing),
        digest=state_digest(replayed_state),
        remaining=draft.remaining(),
    )
    return stored, problems
