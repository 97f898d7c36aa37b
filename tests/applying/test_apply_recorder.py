"""Tests of the positions of records: the journal notices each missing one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nexusform.applying.apply_recorder import ApplyRecorder
from nexusform.backends.memory import MemoryBackend
from nexusform.interfaces.plugins import ReadRequest, ReadResult
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.resources.address import parse_address
from nexusform.state.journal import ApplyStart, InstanceOutcome, Intent, parse_journal
from nexusform.state.objects import State
from nexusform.state.state_draft import build_draft, build_plan_parts
from nexusform.workflow.opening.interrupted_apply import recover_interrupted_apply
from nexusform.workflow.opening.stored_state import StoredState

ADDRESSES = [parse_address(f"nexus_rack.r[{number}]") for number in range(3)]
INTENTS = [
    Intent(address, "create", "nexus_rack", str(address), number + 1)
    for number, address in enumerate(ADDRESSES)
]


class CheckpointStorage:
    """Journal of a backend that writes one checkpoint, or fails to write it."""

    def __init__(self, *, fails: bool = False) -> None:
        self.lines: list[bytes] = []
        self.is_due = True
        self.fails = fails

    def append_all(self, records: Sequence[bytes]) -> None:
        self.lines += records

    def append(self, record: bytes) -> None:
        self.lines.append(record)

    def needs_checkpoint(self) -> bool:
        return self.is_due

    def write_checkpoint(self, _document: bytes, records: Sequence[bytes]) -> None:
        self.is_due = False
        if self.fails:
            raise BackendProblem("lost")
        self.lines = list(records)


def check_each_missing_line_is_noticed(lines: list[bytes]) -> None:
    assert not parse_journal(lines)[1]
    # A missing last line is not to be told from one that was never written.
    for missing in range(len(lines) - 1):
        _, (problem,) = parse_journal([*lines[:missing], *lines[missing + 1 :]])
        assert problem.id == "damaged-journal"


def record_apply(storage: CheckpointStorage) -> ApplyRecorder:
    """Record a plan and the intents of three steps."""
    recorder = ApplyRecorder(storage, State(), writer="ab")  # type: ignore[arg-type]
    for record in (*build_plan_parts(b"plan", 3, "", "l", 1), ApplyStart("l", 1), *INTENTS):
        recorder.add_record(record)
    return recorder


def test_records_kept_at_a_checkpoint_have_positions() -> None:
    storage = CheckpointStorage()
    recorder = record_apply(storage)
    recorder.flush()
    # Three intents, the plan and its progress.
    assert len(storage.lines) == 5
    recorder.add_record(InstanceOutcome(ADDRESSES[0], 1, None))
    recorder.flush()
    check_each_missing_line_is_noticed(storage.lines)
    remaining = recorder.get_unfinished_apply()
    check_each_missing_line_is_noticed(recorder.encode_kept_records(remaining))


@pytest.mark.parametrize("kept_count", [0, 2, 5])
def test_journal_after_a_failed_checkpoint_has_no_gap(kept_count: int) -> None:
    """Before it failed, the checkpoint wrote none, some or all of the kept records."""
    storage = CheckpointStorage(fails=True)
    recorder = record_apply(storage)
    with pytest.raises(BackendProblem):
        recorder.flush()
    earlier_lines = list(storage.lines)
    recorder.add_record(InstanceOutcome(ADDRESSES[0], 1, None))
    recorder.flush()
    check_each_missing_line_is_noticed(storage.lines)
    later_lines = storage.lines[len(earlier_lines) :]
    # Five kept records and the outcome.
    assert len(later_lines) == 6
    records, problems = parse_journal([*earlier_lines, *later_lines[:kept_count], *later_lines])
    assert not problems
    assert records == parse_journal(storage.lines)[0]
    # The document has the records before it.
    assert not parse_journal([*later_lines[:kept_count], *later_lines])[1]


class EmptySite:
    """Provider without any object."""

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadResult]:
        return [ReadResult(None) for _ in requests]


def test_outcomes_of_a_recovery_have_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_document(*_: object) -> None:
        raise BackendProblem("lost")

    monkeypatch.setattr(MemoryBackend, "write_merged_state", lose_document)
    backend = MemoryBackend()
    draft = build_draft(State(), INTENTS)
    stored = StoredState(draft.build_state(), tuple(draft.list_open_intents()))
    providers = {"simulated": EmptySite()}
    resolved, _ = recover_interrupted_apply(stored, providers, backend, write=True)  # type: ignore[arg-type]
    assert resolved is None
    lines = backend.read_journal()
    # Intents of steps: the outcome of each.
    assert len(lines) == 3
    check_each_missing_line_is_noticed(lines)


def test_kept_records_of_a_state_have_positions() -> None:
    storage = CheckpointStorage()
    recorder = record_apply(storage)
    lines = StoredState(State(), remaining=recorder.get_unfinished_apply()).list_preserved_lines()
    assert len(lines) == 2
    check_each_missing_line_is_noticed(lines)
