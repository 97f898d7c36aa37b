"""Tests of prediction scores.

Records by share class, their size limit, and their effect on later shares.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nexusform.placements.prediction_scores import (
    MAX_SUBJECTS,
    MIN_VERIFIED,
    RECORD_KEY,
    VerifiedPrediction,
    add_predictions_to_note,
    compute_score,
    compute_share_class,
    list_wrong_certain,
    lower_share_to_accuracy,
    parse_record,
)

_SHARES = st.floats(0, 1)


def build_machine_predictions(
    share: float, held: int, broken: int, chance: float = 0.5
) -> list[VerifiedPrediction]:
    """Return verified machine predictions of one share, with a given number correct."""
    return [
        VerifiedPrediction("machine", share, chance, was_correct=number < held)
        for number in range(held + broken)
    ]


def test_predictions_are_counted_by_share_class_with_squared_errors() -> None:
    private = add_predictions_to_note(
        {"other": 1},
        [*build_machine_predictions(0.75, 3, 1), *build_machine_predictions(1.0, 1, 0, 1.0)],
    )
    assert private == {
        "other": 1,
        RECORD_KEY: {"machine": {"100": [1, 0, 0.0, 0.0], "70": [3, 1, 0.75, 1.0]}},
    }
    again = add_predictions_to_note(private, build_machine_predictions(0.79, 0, 1))
    assert again is not None
    assert again[RECORD_KEY]["machine"]["70"] == [3, 2, 1.3741, 1.25]
    score = compute_score(parse_record(private))
    assert score is not None
    assert (score.verified, score.correct) == (5, 4)
    assert (score.brier, score.chance) == (0.15, 0.2)


def test_no_verified_predictions_write_nothing() -> None:
    assert add_predictions_to_note(None, []) is None
    assert add_predictions_to_note({"a": 1}, []) == {"a": 1}
    assert compute_score(parse_record(None)) is None


@pytest.mark.parametrize(
    "noted",
    [
        None,
        [],
        "x",
        {"machine": 3},
        {"machine": {"100": 3}},
        {"machine": {"100": [1, 2]}},
        {"machine": {"all": [1, 2, 0.5, 0.5]}},
        {"machine": {"100": [1, "2", 0.5, 0.5]}},
        {"machine": {"100": [-1, 2, 0.5, 0.5]}},
    ],
)
def test_invalid_record_reads_as_empty(noted: Any) -> None:
    assert parse_record({RECORD_KEY: noted}) == {}


def test_share_is_lowered_to_accuracy_but_never_raised() -> None:
    few = parse_record(
        add_predictions_to_note(None, build_machine_predictions(1.0, 10, MIN_VERIFIED - 11))
    )
    assert lower_share_to_accuracy(few, "machine", 1.0) == 1.0
    enough = parse_record(add_predictions_to_note(None, build_machine_predictions(1.0, 15, 5)))
    assert lower_share_to_accuracy(enough, "machine", 1.0) == 0.75
    # Another share class.
    assert lower_share_to_accuracy(enough, "machine", 0.99) == 0.99
    assert lower_share_to_accuracy(enough, "rack", 1.0) == 1.0  # another subject
    better = parse_record(add_predictions_to_note(None, build_machine_predictions(0.31, 20, 0)))
    assert lower_share_to_accuracy(better, "machine", 0.31) == 0.31


def test_lowered_share_counts_in_class_of_measured_share() -> None:
    lowered = VerifiedPrediction("machine", 0.6, 0.5, was_correct=True, measured_share=1.0)
    record = parse_record(add_predictions_to_note(None, [lowered]))
    assert list(record) == [("machine", 100)]
    assert record["machine", 100].squares == 0.16


def test_lowered_shares_are_reported() -> None:
    told = [
        compute_score(
            parse_record(
                add_predictions_to_note(None, build_machine_predictions(1.0, held, broken))
            )
        )
        for held, broken in ((20, 0), (18, 1), (19, 1))
    ]
    assert [score.has_lowered_shares for score in told if score is not None] == [False, False, True]


def test_only_wrong_certain_predictions_are_listed() -> None:
    claims = [
        VerifiedPrediction("machine", 1.0, 1.0, was_correct=False, is_certain=True, text="a"),
        VerifiedPrediction("machine", 1.0, 1.0, was_correct=False, is_certain=True, text="a"),
        VerifiedPrediction("machine", 1.0, 1.0, was_correct=True, is_certain=True, text="b"),
        VerifiedPrediction("machine", 1.0, 1.0, was_correct=False, text="c"),
    ]
    assert list_wrong_certain(claims) == ("a",)


@given(
    st.lists(st.tuples(st.integers(1, MAX_SUBJECTS), _SHARES, _SHARES, st.booleans()), max_size=300)
)
def test_scores_lie_between_0_and_1(claims: list[tuple[int, float, float, bool]]) -> None:
    private = add_predictions_to_note(
        None,
        (
            VerifiedPrediction(f"subject{n}", share, chance, held)
            for n, share, chance, held in claims
        ),
    )
    record = parse_record(private)
    assert sum(score.verified for score in record.values()) == len(claims)
    score = compute_score(record)
    assert (score is None) == (not claims)
    if score is not None:
        assert 0 <= score.brier <= 1
        assert 0 <= score.chance <= 1


def test_largest_record_is_below_4_kib() -> None:
    share_classes = [*(number / 10 for number in range(10)), 1.0]
    record = {
        f"subject_{number}": {
            str(compute_share_class(share)): [99_999, 99_999, 99_999.123456, 99_999.123456]
            for share in share_classes
        }
        for number in range(MAX_SUBJECTS)
    }
    assert len(json.dumps({RECORD_KEY: record}, separators=(",", ":"))) <= 4096
    with pytest.raises(ValueError, match="6 subjects"):
        add_predictions_to_note(
            {RECORD_KEY: record}, [VerifiedPrediction("one more", 1.0, 1.0, was_correct=True)]
        )


def test_certainty_returns_after_twenty_correct_predictions() -> None:
    wrong = VerifiedPrediction("machine", 1.0, 0.1, False, is_certain=True)
    correct = VerifiedPrediction("machine", 0.95, 0.1, True, measured_share=1.0)
    note = add_predictions_to_note(None, [wrong])
    assert lower_share_to_accuracy(parse_record(note), "machine", 1) == 0
    assert lower_share_to_accuracy(parse_record(note), "rack", 1) == 0.99
    assert lower_share_to_accuracy(parse_record(note), "rack", 0.5) == 0.5
    note = add_predictions_to_note(note, [correct] * 19)
    assert lower_share_to_accuracy(parse_record(note), "rack", 1) == 0.99
    note = add_predictions_to_note(note, [replace(correct, was_correct=False), *[correct] * 19])
    assert lower_share_to_accuracy(parse_record(note), "rack", 1) == 0.99, "20 in a row"
    note = add_predictions_to_note(note, [correct])
    assert lower_share_to_accuracy(parse_record(note), "rack", 1) == 1
    score = compute_score(parse_record(note))
    assert score is not None
    assert score.verified == 41


def test_record_no_better_than_chance_is_reported() -> None:
    guesses = [VerifiedPrediction("machine", 0.9, 0.25, number % 4 == 0) for number in range(20)]
    score = compute_score(parse_record(add_predictions_to_note(None, guesses)))
    assert score is not None
    assert score.is_no_better_than_chance
    few = compute_score(parse_record(add_predictions_to_note(None, guesses[:19])))
    assert few is not None
    assert not few.is_no_better_than_chance


def test_ties_resolved_differently_are_no_rule_violation() -> None:
    """A platform that follows the rule picks among equal machines at random.

    Half of the shares of 1/2 are wrong.
    """
    ties = [VerifiedPrediction("machine", 0.53, 0.5, number % 2 == 0) for number in range(40)]
    score = compute_score(parse_record(add_predictions_to_note(None, ties)))
    assert score is not None
    assert not score.is_no_better_than_chance
    wrong = VerifiedPrediction("machine", 1.0, 1.0, was_correct=False, is_certain=True)
    score = compute_score(parse_record(add_predictions_to_note(None, [*ties, wrong])))
    assert score is not None
    assert score.is_no_better_than_chance
