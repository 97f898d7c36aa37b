"""Tests of open predictions: they are recorded without loss, in few bytes per VM."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexusform.applying.open_predictions import (
    OPEN_PREDICTIONS_KEY,
    PredictedVm,
    read_open_predictions,
    set_open_predictions,
)
from nexusform.scheduling.placement_decision import PlacementCertainty

_SHARE = st.integers(0, 100).map(lambda percent: percent / 100)
_TIED = st.integers(1, 99)
_NAME = st.text("ab09.-", min_size=1, max_size=6)
_MACHINE = st.text("ab09.-,", min_size=1, max_size=6)
_CERTAINTY = st.builds(
    PlacementCertainty,
    _SHARE,
    _SHARE,
    _SHARE,
    st.tuples(_TIED, _TIED, _TIED),
    st.none() | st.tuples(_SHARE, _SHARE, _SHARE),
)
_LANDINGS = st.lists(
    st.builds(
        PredictedVm,
        st.integers(0, 10**6),
        st.sampled_from(("r1", "r2")),
        _MACHINE,
        _CERTAINTY,
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda landing: landing.number,
).map(tuple)


@given(st.dictionaries(_NAME, _LANDINGS, max_size=3))
def test_recorded_prediction_is_read_back_unchanged(
    opened: dict[str, tuple[PredictedVm, ...]],
) -> None:
    noted = set_open_predictions({"other": 1}, opened)
    read = read_open_predictions(json.loads(json.dumps(noted)))
    assert {pool: set(landings) for pool, landings in read.items()} == {
        pool: set(landings) for pool, landings in opened.items()
    }
    assert set_open_predictions(noted, {}) == {"other": 1}


def test_hundred_different_vms_take_less_than_3_kib() -> None:
    landings = tuple(
        PredictedVm(
            number,
            f"r{number % 8}",
            f"r{number % 8}-bm{number // 8:02}",
            PlacementCertainty(
                (10 + number % 17) / 100, (1 + number % 5) / 100, 0.52, (8, 60 + number % 20, 2)
            ),
            is_machine_certain=False,
            is_count_certain=False,
        )
        for number in range(100)
    )
    note = set_open_predictions(None, {"np": landings})
    assert note is not None
    assert len(json.dumps(note[OPEN_PREDICTIONS_KEY])) < 3072
    alike = {
        "np": tuple(
            PredictedVm(n, "r1", f"m{n:02}", PlacementCertainty(1, 1, 1), True, True)
            for n in range(100)
        )
    }
    assert len(json.dumps(set_open_predictions(None, alike))) < 1024


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]]",
        "[[1,2]]",
        '[["r1",[false,false],1.0,1,[0,1],"m","1",1.0,1.0,1,1,null]]',
        '[["r1",[false,false],1.0,1,[0,1],"m","1,2",[1.0],1.0,1,1,null]]',
        '[["r1",[false,false],1.0,1,[0,1],"m","1,2",1.0,1.0,1,1,[1.0,1.0,[1.0]]]]',
    ],
)
def test_other_record_is_no_prediction(text: str) -> None:
    assert read_open_predictions({OPEN_PREDICTIONS_KEY: {"np": text}}) == {}


@given(
    st.lists(
        st.from_regex(r"[a-c]{0,1}-?[0-9]{0,2}", fullmatch=True),
        min_size=1,
        max_size=6,
        unique=True,
    )
)
def test_tied_machines_are_read_back_in_order(names: list[str]) -> None:
    landing = PredictedVm(
        0, "r1", "m", PlacementCertainty(1.0, 1.0), False, False, tied_machines=tuple(names)
    )
    read = read_open_predictions(set_open_predictions(None, {"p": (landing,)}))
    assert read["p"][0].tied_machines == tuple(names)


def test_thousand_tied_machines_take_few_bytes() -> None:
    names = tuple(f"rack{rack}-bm{number:02}" for rack in range(1, 17) for number in range(1, 65))
    landing = PredictedVm(
        0, "r1", "m", PlacementCertainty(1.0, 1.0), False, False, tied_machines=names
    )
    assert len(json.dumps(set_open_predictions(None, {"p": (landing,)}))) < 600


def test_damaged_range_of_machines_is_no_prediction() -> None:
    landing = PredictedVm(
        0, "r1", "m", PlacementCertainty(1.0, 1.0), False, False, tied_machines=("m1", "m2")
    )
    noted = json.loads(json.dumps(set_open_predictions(None, {"p": (landing,)})))
    noted[OPEN_PREDICTIONS_KEY]["p"] = noted[OPEN_PREDICTIONS_KEY]["p"].replace(
        "m1..2", "m1..999999999999"
    )
    assert read_open_predictions(noted) == {}
