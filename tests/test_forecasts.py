"""What is remembered of claims: by share class, with scores, bounded, and what it does to later shares."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexusform.forecasts import (
    ENOUGH,
    FORECASTS,
    MOST_SUBJECTS,
    Claim,
    as_it_held,
    broken_sure,
    record_of,
    score_of,
    share_class,
    with_claims,
)

_SHARES = st.floats(0, 1)


def machines(share: float, held: int, broken: int, chance: float = 0.5) -> list[Claim]:
    """Claims about machines with one share, so many of which held."""
    return [Claim("machine", share, chance, held=number < held) for number in range(held + broken)]


def test_claims_are_counted_by_share_class_with_the_squares_of_shares_and_of_chance() -> None:
    private = with_claims({"other": 1}, [*machines(0.75, 3, 1), *machines(1.0, 1, 0, 1.0)])
    assert private == {
        "other": 1,
        FORECASTS: {"machine": {"100": [1, 0, 0.0, 0.0], "70": [3, 1, 0.75, 1.0]}},
    }
    again = with_claims(private, machines(0.79, 0, 1))
    assert again is not None
    assert again[FORECASTS]["machine"]["70"] == [3, 2, 1.3741, 1.25]
    score = score_of(record_of(private))
    assert score is not None
    assert (score.settled, score.held) == (5, 4)
    assert (score.brier, score.chance) == (0.15, 0.2)


def test_nothing_settled_writes_nothing() -> None:
    assert with_claims(None, []) is None
    assert with_claims({"a": 1}, []) == {"a": 1}
    assert score_of(record_of(None)) is None


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
def test_a_note_that_says_something_else_reads_as_empty(noted: Any) -> None:
    assert record_of({FORECASTS: noted}) == {}


def test_a_share_is_lowered_to_what_held_from_twenty_claims_on_and_never_raised() -> None:
    few = record_of(with_claims(None, machines(1.0, 10, ENOUGH - 11)))
    assert as_it_held(few, "machine", 1.0) == 1.0
    enough = record_of(with_claims(None, machines(1.0, 15, 5)))
    assert as_it_held(enough, "machine", 1.0) == 0.75
    assert as_it_held(enough, "machine", 0.99) == 0.99  # another class
    assert as_it_held(enough, "rack", 1.0) == 1.0  # another thing
    better = record_of(with_claims(None, machines(0.31, 20, 0)))
    assert as_it_held(better, "machine", 0.31) == 0.31


def test_a_lowered_share_still_teaches_the_class_of_what_was_measured() -> None:
    lowered = Claim("machine", 0.6, 0.5, held=True, measured=1.0)
    record = record_of(with_claims(None, [lowered]))
    assert list(record) == [("machine", 100)]
    assert record["machine", 100].squares == 0.16


def test_what_is_lowered_is_said() -> None:
    told = [
        score_of(record_of(with_claims(None, machines(1.0, held, broken))))
        for held, broken in ((20, 0), (18, 1), (19, 1))
    ]
    assert [score.lowered for score in told if score is not None] == [False, False, True]


def test_only_a_broken_claim_that_was_sure_is_an_alarm() -> None:
    claims = [
        Claim("machine", 1.0, 1.0, held=False, is_sure=True, words="a"),
        Claim("machine", 1.0, 1.0, held=False, is_sure=True, words="a"),
        Claim("machine", 1.0, 1.0, held=True, is_sure=True, words="b"),
        Claim("machine", 1.0, 1.0, held=False, words="c"),
    ]
    assert broken_sure(claims) == ("a",)


@given(st.lists(st.tuples(st.integers(1, MOST_SUBJECTS), _SHARES, _SHARES, st.booleans()), max_size=300))
def test_a_record_is_small_and_scores_lie_between_0_and_1(
    claims: list[tuple[int, float, float, bool]],
) -> None:
    private = with_claims(
        None, (Claim(f"subject{n}", share, chance, held) for n, share, chance, held in claims)
    )
    record = record_of(private)
    assert sum(score.settled for score in record.values()) == len(claims)
    score = score_of(record)
    assert (score is None) == (not claims)
    if score is not None:
        assert 0 <= score.brier <= 1
        assert 0 <= score.chance <= 1


def test_the_largest_record_is_below_4_kib() -> None:
    share_classes = [*(number / 10 for number in range(10)), 1.0]
    record = {
        f"subject_{number}": {
            str(share_class(share)): [99_999, 99_999, 99_999.123456, 99_999.123456] for share in share_classes
        }
        for number in range(MOST_SUBJECTS)
    }
    assert len(json.dumps({FORECASTS: record}, separators=(",", ":"))) <= 4096
    with pytest.raises(ValueError, match="6 things"):
        with_claims({FORECASTS: record}, [Claim("one more", 1.0, 1.0, held=True)])
