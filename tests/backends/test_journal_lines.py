import threading
import time

import pytest

from nexusform.backends import journal_lines
from nexusform.backends.journal_lines import (
    WRITTEN_MARK,
    ForeignJournal,
    LineBatcher,
    build_base_mark,
    build_compaction_mark,
    build_seal_record,
    list_pending_records,
)
from nexusform.backends.memory import MemoryBackend


def test_lines_before_document_mark_are_part_of_it() -> None:
    lines = [b"{a}", build_compaction_mark(b"doc"), b"{b}", build_seal_record("x"), b"{c}"]
    assert list_pending_records(lines, b"doc") == [b"{b}", b"{c}"]
    assert list_pending_records(lines, b"older") == [b"{a}", b"{b}", b"{c}"]
    assert list_pending_records(lines, None) == [b"{a}", b"{b}", b"{c}"]


def test_last_mark_of_a_document_counts() -> None:
    lines = [build_compaction_mark(b"doc"), b"{a}", build_compaction_mark(b"doc"), b"{b}"]
    assert list_pending_records(lines, b"doc") == [b"{b}"]


def test_lines_count_for_documents_of_their_journal_only() -> None:
    lines = [build_base_mark(b"old"), b"{a}", build_compaction_mark(b"doc"), b"{b}"]
    # A crash before, and one after the document was written.
    assert list_pending_records(lines, b"old") == [b"{a}", b"{b}"]
    assert list_pending_records(lines, b"doc") == [b"{b}"]
    with pytest.raises(ForeignJournal):
        list_pending_records(lines, b"of another machine")
    with pytest.raises(ForeignJournal):
        list_pending_records([build_base_mark(None), b"{a}"], b"doc")
    assert list_pending_records([build_base_mark(None), b"{a}"], None) == [b"{a}"]


def test_kept_lines_of_a_written_document_count_for_later_ones() -> None:
    lines = [build_base_mark(b"old"), b"{a}", build_compaction_mark(b"doc"), b"{b}", WRITTEN_MARK]
    assert list_pending_records(lines, b"doc") == [b"{b}"]
    assert list_pending_records(lines, b"later") == [b"{b}"]
    with pytest.raises(ForeignJournal):
        list_pending_records([*lines, b"{c}"], b"later")


@pytest.mark.parametrize("record", [b"a\nb", b"#compacted x"])
def test_ambiguous_record_is_rejected(record: bytes) -> None:
    with pytest.raises(ValueError, match="one line that does not start with #"):
        journal_lines.check_journal_records([record])
    with pytest.raises(ValueError, match="one line that does not start with #"):
        MemoryBackend().append(record)


def test_lines_added_during_a_write_are_written_together() -> None:
    batches: list[list[bytes]] = []
    under_way = threading.Event()
    go_on = threading.Event()

    def write(lines: list[bytes]) -> None:
        batches.append(lines)
        if len(batches) == 1:
            under_way.set()
            go_on.wait()

    gathering = LineBatcher(write)
    first = threading.Thread(target=gathering.add_lines, args=([b"1"],))
    first.start()
    under_way.wait()
    others = [threading.Thread(target=gathering.add_lines, args=([b"%d" % n],)) for n in (2, 3, 4)]
    for thread in others:
        thread.start()
    while len(gathering._pending) < 3:
        time.sleep(0.001)
    go_on.set()
    for thread in [first, *others]:
        thread.join()
    assert batches[0] == [b"1"]
    assert sorted(line for batch in batches[1:] for line in batch) == [b"2", b"3", b"4"]
    assert len(batches) == 2


def test_no_writes_after_a_failed_write() -> None:
    def write(_lines: list[bytes]) -> None:
        raise OSError("disk")

    gathering = LineBatcher(write)
    for _ in range(2):
        with pytest.raises(OSError, match="disk"):
            gathering.add_lines([b"1"])
