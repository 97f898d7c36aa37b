"""Tests of recorded decisions of real systems: all are predicted, and the page counts them."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.conformance import score
from tests.conformance.score import SystemScore, read_cases, score_cases
from tests.conformance.write_table import build_table
from tests.kill_points import select_cases

pytestmark = pytest.mark.of_domains("fleet", "openstack", "pods", "vnf")
ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "conformance"


def read_lines(name: str, count: int) -> list[str]:
    with gzip.open(CASES / name, "rt") as file:
        return [file.readline() for _ in range(count)]


def test_recorded_decisions_are_predicted(tmp_path: Path) -> None:
    expected: Counter[tuple[str, str]] = Counter()
    for path in sorted(CASES.glob("*.jsonl.gz")):
        with gzip.open(path, "rt") as file:
            lines = select_cases(list(file))
        (tmp_path / path.stem).write_text("".join(lines))
        expected.update((case["system"], case["version"]) for case in map(json.loads, lines))
    result = score_cases(read_cases(tmp_path))
    assert result.wrong == []
    assert {(item.system, item.version): item.right for item in result.systems} == expected


def test_page_has_the_number_of_recorded_decisions() -> None:
    """All of them are right, according to the test before."""
    counts: Counter[tuple[str, str]] = Counter()
    for path in CASES.glob("*.jsonl.gz"):
        with gzip.open(path, "rt") as file:
            counts.update((case["system"], case["version"]) for case in map(json.loads, file))
    rows = [SystemScore(*key, decisions=count, right=count) for key, count in counts.items()]
    page = (ROOT / "docs" / "fidelity.md").read_text()
    table = re.search(r"<!-- conformance -->\n.*?\n\n", page, re.DOTALL)
    assert table is not None
    assert sorted(table[0].rstrip().splitlines()[1:]) == sorted(build_table(rows))


def test_wrong_prediction_is_listed_with_both_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [json.loads(line) for line in read_lines("kube-scheduler.jsonl.gz", 4)]
    actual = lines[3]["decision"]
    lines[3] |= {"decision": {"node": "elsewhere"}, "equivalent": []}
    path = tmp_path / "pods.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    alone = score_cases(read_cases(tmp_path))
    monkeypatch.setattr(score, "_CASES_OF_ONE_PROCESS", 1)
    assert score_cases(read_cases(tmp_path)) == alone
    (wrong,) = alone.wrong
    assert (wrong.place, wrong.predicted, wrong.actual) == (
        "pods.jsonl:4",
        actual,
        {"node": "elsewhere"},
    )
    assert (alone.systems[0].decisions, alone.systems[0].right) == (4, 3)
    lines[3]["equivalent"] = [actual]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert score_cases(read_cases(tmp_path)).wrong == [], "as good as the decision"


def test_case_without_an_answer_is_wrong(tmp_path: Path) -> None:
    incomplete = json.loads(read_lines("kube-scheduler.jsonl.gz", 1)[0])
    del incomplete["snapshot"]["objects"]
    (tmp_path / "a.jsonl").write_text(json.dumps(incomplete))
    (wrong,) = score_cases(read_cases(tmp_path)).wrong
    assert wrong.predicted == "KeyError: 'objects'"
