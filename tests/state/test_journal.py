"""Tests of journal lines: they round-trip and have checksums.

Torn last lines are ignored, and damage is reported.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nexusform.resources.address import parse_address
from nexusform.schemas.value_types import NUMBER, ListType
from nexusform.state.journal import (
    ApplyEnd,
    ApplyStart,
    InstanceMoves,
    InstanceOutcome,
    Intent,
    PlanPart,
    RecordPosition,
    RecordSequence,
    RunningOperation,
    encode_journal_record,
    find_journal_end,
    parse_journal,
)
from nexusform.state.objects import InstanceState, ObjectState, OutputState, State
from nexusform.state.state_draft import build_draft
from tests.kill_points import scale_count
from tests.state.journal_replay import build_journal_line

RACK = parse_address('module.a["k"].nexus_rack.r["x\\ny"]')
SITE = parse_address("nexus_site.s")
OBJECT = ObjectState(
    {"id": "lab/r", "n": 2**90, "list": [1.5, None, {"a": True}]},
    7,
    sensitive=(("list", 0),),
    dependencies=("nexus_site.s",),
    tainted=True,
    create_before_destroy=True,
    private={"k": 1},
)
RECORDS = [
    ApplyStart("lineage", 4, "0.1.0", "2024-1", "abc"),
    Intent(RACK, "create", "nexus_rack", "lab/r", 7, OBJECT, "0a0b0c0d"),
    Intent(SITE, "delete", "nexus_site", "lab", 3),
    InstanceOutcome(RACK, 7, InstanceState(OBJECT, {"0a0b0c0d": OBJECT})),
    InstanceOutcome(RACK, 7, InstanceState(None, {"0a0b0c0d": OBJECT}), "no answer"),
    InstanceOutcome(SITE, 3, None),
    InstanceMoves(((RACK, SITE), (SITE, RACK))),
    ApplyEnd({"o": OutputState([1], ListType(NUMBER), sensitive=True)}, ({"kind": "check"},)),
    ApplyEnd(),
]
LINES = [encode_journal_record(record) for record in RECORDS]


def test_records_round_trip() -> None:
    assert parse_journal(LINES) == (RECORDS, [])


def test_record_is_one_line() -> None:
    assert not any(b"\n" in line for line in LINES)


def test_empty_journal_has_no_records() -> None:
    assert parse_journal([]) == ([], [])


@pytest.mark.parametrize("kept", [0, 1, 20, -1])
def test_torn_last_line_is_ignored(kept: int) -> None:
    assert parse_journal([*LINES[:2], LINES[2][:kept]]) == (RECORDS[:2], [])


def test_damaged_line_before_others_is_reported_with_its_number() -> None:
    damaged = LINES[1].replace(b"lab/r", b"lab/q")
    records, (problem,) = parse_journal([LINES[0], damaged, LINES[2]], "s.journal")
    assert records == [RECORDS[0], RECORDS[2]]
    assert problem.summary == "Damaged journal"
    assert "Record 2 of s.journal" in problem.detail


def test_missing_records_of_a_writer_are_reported_and_repeated_ones_count_once() -> None:
    lines = [
        encode_journal_record(record, RecordPosition("ab.0", number))
        for number, record in enumerate(RECORDS)
    ]
    other = [
        encode_journal_record(record, RecordPosition("cd.0", number))
        for number, record in enumerate(RECORDS[:2])
    ]
    # Journals of earlier versions have no positions.
    for complete in ([*lines, *other], [*LINES[:2], *lines], lines[:3], [*lines, lines[-1][:20]]):
        assert not parse_journal(complete)[1]
    assert parse_journal([*lines[:4], *lines[2:], lines[0]]) == (RECORDS, [])
    for lost, words in (
        (lines[1:], "Record 1 of s does not continue the one before it. 1 record before it is"),
        ([*lines[:2], *lines[5:]], "Record 3 of s does not continue the one before it. 3 records"),
        ([lines[0], lines[2], lines[1]], "1 record before it is missing"),
        ([*lines, other[1]], "Record 10 of s does not continue the one before it. 1 record before"),
    ):
        (problem,) = parse_journal(lost, "s")[1]
        assert problem.summary == "Damaged journal"
        assert words in problem.detail
    # The damaged line is the missing one.
    assert len(parse_journal([lines[0], b"{", lines[2]])[1]) == 1


def encode_sequence(writer: str, previous: str, *, follows_document: bool = False) -> list[bytes]:
    sequence = RecordSequence(writer, previous, follows_document=follows_document)
    return [sequence.encode(record) for record in RECORDS[:3]]


def test_each_writer_continues_the_last_record_of_the_one_before() -> None:
    first = encode_sequence("ab.0", "")
    second = encode_sequence("cd.0", "ab.0/2")
    kept = encode_sequence("ef.0", "cd.0/2", follows_document=True)
    third = encode_sequence("gh.0", "ef.0/2")
    # The records before a document may be gone.
    for complete in ([*first, *second, *kept, *third], [*kept, *third], [*first, first[1]]):
        assert not parse_journal(complete)[1]
    assert find_journal_end([]) == ""
    assert find_journal_end(first) == "ab.0/2"
    assert find_journal_end(LINES) is None
    for lost in (
        # Lost: the last record of a writer, or all of them.
        [*first[:2], *second],
        second,
        [*first, *second[:2], *kept],
        [*kept[:2], *third],
        # Two runs at the same time.
        [*first, *encode_sequence("ij.0", "ab.0/1")],
        [*first, second[0], *encode_sequence("ij.0", "ab.0/2")],
        [*first[:1], *encode_sequence("ij.0", "ab.0/0"), *first[1:]],
        [*first, *encode_sequence("ij.0", "")],
    ):
        problems = parse_journal(lost, "s")[1]
        assert [problem.summary for problem in problems] == ["Damaged journal"]
        assert "does not continue the one before it" in problems[0].detail


def test_changed_whole_last_line_is_damaged_not_torn() -> None:
    changed = LINES[2].replace(b'"kind":"', b'"kind":"x')
    assert changed != LINES[2]
    records, (problem,) = parse_journal([*LINES[:2], changed], "s.journal")
    assert records == RECORDS[:2]
    assert "Record 3 of s.journal is damaged. It is a whole line" in problem.detail


@given(st.sampled_from(LINES), st.data())
@settings(max_examples=scale_count(400), deadline=None)
def test_changed_line_is_never_read_as_a_record(line: bytes, data: Any) -> None:
    start = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(start, len(line)))
    changed = line[:start] + data.draw(st.binary(max_size=3)) + line[end:]
    records, problems = parse_journal([changed, LINES[0]])
    if changed == line:
        assert len(records) == 2
    else:
        assert records == [RECORDS[0]]
        assert len(problems) == 1


def test_invalid_record_with_valid_checksum_is_rejected() -> None:

    for body in (
        b"1",
        b"{}",
        b'{"kind":"other"}',
        b'{"kind":"done"}',
        b'{"kind":"moved","pairs":[["a"]]}',
        b'{"kind":"moved","pairs":[["a","b"]]}',
        b'{"kind":"moved","pairs":[],"more":1}',
        b'{"kind":"done","address":"nexus_site.a","creation":-1,"instance":null,"error":""}',
        b'{"kind":"done","address":"nexus_site.a","creation":true,"instance":null,"error":""}',
        b'{"kind":"done","address":"nexus_site.a","creation":1,"instance":{"current":{}},"error":""}',
        b'{"kind":"finished","outputs":{"a":{"value":1,"type":"strange"}},"check_results":[]}',
        b"{",
    ):
        assert len(parse_journal([build_journal_line(body), LINES[0]])[1]) == 1


def test_running_operation_is_kept_until_its_step_ends() -> None:
    part = PlanPart(0, 1, 3, "", "l", 1, "")
    address = parse_address("nexus_rack.r")
    begun = Intent(address, "create", "nexus_rack", "lab/r", 1, number=2)
    written = [
        encode_journal_record(each)
        for each in (part, ApplyStart("l", 1), begun, RunningOperation(2, "PUT /r https://arm/op1"))
    ]
    records, problems = parse_journal(written)
    assert not problems
    remaining = build_draft(State(), records).build_unfinished_apply()
    assert remaining is not None
    assert remaining.running_operations == {2: "PUT /r https://arm/op1"}
    kept, _ = parse_journal([encode_journal_record(record) for record in remaining.build_records()])
    again = build_draft(State(), [*kept, begun]).build_unfinished_apply()
    assert again is not None
    assert again.running_operations == {2: "PUT /r https://arm/op1"}
    over = build_draft(
        State(), [*kept, begun, InstanceOutcome(address, 1, None, "It failed.")]
    ).build_unfinished_apply()
    assert over is not None
    assert over.running_operations == {}


def test_running_operation_continues_the_earlier_ones() -> None:
    part = PlanPart(0, 1, 3, "", "l", 1, "")
    begun = Intent(parse_address("nexus_rack.r"), "create", "nexus_rack", "lab/r", 1, number=2)
    operations = ("", "\na 1", "\nb 2")
    written = [
        encode_journal_record(record)
        for record in (
            part,
            ApplyStart("l", 1),
            begun,
            *(RunningOperation(2, operation) for operation in operations),
        )
    ]
    remaining = build_draft(State(), parse_journal(written)[0]).build_unfinished_apply()
    assert remaining is not None
    assert remaining.running_operations == {2: "\na 1\nb 2"}
    replaced = build_draft(State(), [*parse_journal(written)[0], RunningOperation(2, "c")])
    unfinished = replaced.build_unfinished_apply()
    assert unfinished is not None
    assert unfinished.running_operations == {2: "c"}


def test_journal_of_development_version_is_rejected() -> None:
    records, (problem,) = parse_journal(
        [LINES[0], b'{"check":"0123456789abcdef","record":{"kind":"started"}}'], "the journal"
    )
    assert records == []
    assert problem.id == "development-version-file"
    assert "The journal was written by a development version of nexusform;" in problem.detail
