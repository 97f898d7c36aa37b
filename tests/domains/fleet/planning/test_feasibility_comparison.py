"""Compare feasibility answers with a running kube-scheduler.

The nightly run compares more fleets.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.domains.hub.api_programs import ApiPrograms, find_obstacle
from tests.kill_points import select_cases
from tests.nightly.feasibility import Comparison, FleetComparison, start_scheduler
from tests.nightly.feasible_fleets import build_fleet

NEEDED = ("etcd", "kube-apiserver", "kube-scheduler")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(find_obstacle(*NEEDED)), reason=find_obstacle(*NEEDED) or "-"),
]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiPrograms]:
    with start_scheduler(tmp_path_factory.mktemp("scheduler")) as programs:
        yield programs


@pytest.mark.parametrize("seed", select_cases([3, 6, 960049]))
def test_answers_match_scheduler(seed: int, scheduler: ApiPrograms) -> None:
    comparison = Comparison()
    FleetComparison(scheduler, build_fleet(seed), f"fleet {seed}", comparison).run()
    assert comparison.answers.total() > 0
    assert comparison.wrong == []
