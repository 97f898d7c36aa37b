"""Tests of `nexusform conformance`.

Recorded decisions predicted by nexusform, by another program, or without an answer.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
from collections import Counter
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.domains.conformance.workflow import recorded_cases
from nexusform.domains.conformance.workflow.recorded_cases import (
    ConformanceCase,
    read_cases,
    score_conformance_cases,
)
from tests.conformance.write_table import build_table
from tests.kill_points import select_cases

ROOT = Path(__file__).parents[3]
CASES = ROOT / "tests" / "conformance"
FIRST_FIT = f"{sys.executable} -I {Path(__file__).with_name('first_fit.py')}"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run_command_line(["conformance", *arguments])
    printed = capsys.readouterr()
    return code, " ".join((printed.out + printed.err).replace("│", " ").split())


def read_lines(name: str, count: int) -> list[str]:
    with gzip.open(CASES / name, "rt") as file:
        return [file.readline() for _ in range(count)]


def test_recorded_decisions_are_predicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected: Counter[tuple[str, str]] = Counter()
    for path in sorted(CASES.glob("*.jsonl.gz")):
        with gzip.open(path, "rt") as file:
            lines = select_cases(list(file))
        (tmp_path / path.stem).write_text("".join(lines))
        expected.update((case["system"], case["version"]) for case in map(json.loads, lines))
    code, text = run(capsys, "-json", str(tmp_path))
    document = json.loads(text)
    assert (code, document["wrong"]) == (0, [])
    assert {
        (item["system"], item["version"]): item["right"] for item in document["systems"]
    } == expected


def test_page_has_the_number_of_recorded_decisions() -> None:
    """All of them are right, according to the test before."""
    counts: Counter[tuple[str, str]] = Counter()
    for path in CASES.glob("*.jsonl.gz"):
        with gzip.open(path, "rt") as file:
            counts.update((case["system"], case["version"]) for case in map(json.loads, file))
    rows = [
        {"system": system, "version": version, "decisions": count, "right": count}
        for (system, version), count in counts.items()
    ]
    page = (ROOT / "docs" / "fidelity.md").read_text()
    table = re.search(r"<!-- conformance -->\n.*?\n\n", page, re.DOTALL)
    assert table is not None
    assert sorted(table[0].rstrip().splitlines()[1:]) == sorted(build_table({"systems": rows}))


def test_many_cases_run_in_several_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [json.loads(line) for line in read_lines("kube-scheduler.jsonl.gz", 4)]
    lines[3]["decision"] = {"node": "elsewhere"}
    lines[3]["equivalent"] = []
    (tmp_path / "pods.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + "{")
    alone = run(capsys, str(tmp_path))
    monkeypatch.setattr(recorded_cases, "_CASES_OF_ONE_PROCESS", 1)
    assert run(capsys, str(tmp_path)) == alone
    assert "pods.jsonl:4: predicted" in alone[1]
    assert run(capsys, "-program=echo {}", str(tmp_path))[1].count("kube-scheduler decided") == 4


def _end_process(case: ConformanceCase) -> Any:
    """Return the right answer in the process of the test, and end any other process."""
    if parent_process() is not None:
        os._exit(1)
    return case.decision


def test_cases_of_an_ended_process_have_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_cases, "_CASES_OF_ONE_PROCESS", 1)
    monkeypatch.setattr(recorded_cases, "_BATCH", 2)
    (tmp_path / "pods.jsonl").write_text("".join(read_lines("kube-scheduler.jsonl.gz", 4)))
    problems: list[Diagnostic] = []
    score = score_conformance_cases(read_cases(str(tmp_path), problems), _end_process)
    (counts,) = score.systems.values()
    assert (problems, counts.right, counts.errors) == ([], 1, 3)
    assert [(item.place, item.reason) for item in score.wrong] == [
        (f"pods.jsonl:{line}", "a process ended unexpectedly, perhaps for lack of memory")
        for line in (2, 3, 4)
    ]


def test_another_program_is_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pods.jsonl").write_text("".join(read_lines("kube-scheduler.jsonl.gz", 8)))
    code, text = run(capsys, f"-program={FIRST_FIT}", str(tmp_path))
    assert code == 2
    scored = re.search(
        r"kube-scheduler 1\.34\.4 8 (\d) (\d) 0 .*Wrong or without an answer (.*)", text
    )
    assert scored is not None
    assert int(scored[1]) + int(scored[2]) == 8
    assert "kube-scheduler decided" in scored[3]


def test_wrong_decision_is_listed_with_both_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = json.loads(read_lines("kube-scheduler.jsonl.gz", 1)[0])
    actual = case["decision"]["node"]
    case["decision"] = {"node": "elsewhere"}
    (tmp_path / "pods.jsonl").write_text(json.dumps(case) + "\n")
    code, text = run(capsys, str(tmp_path))
    assert code == 2
    assert (
        f'pods.jsonl:1: predicted {{"node":"{actual}"}}; kube-scheduler decided '
        '{"node":"elsewhere"}'
    ) in text
    case["equivalent"] = [{"node": actual}]
    (tmp_path / "pods.jsonl").write_text(json.dumps(case) + "\n")
    assert run(capsys, str(tmp_path))[0] == 0, "as good as the decision"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("/nowhere/at-all", "cannot be started: No such file or directory"),
        ("sh -c 'echo broken >&2; exit 3'", "exit code 3: broken"),
        ("echo no-json", "the answer is not JSON"),
    ],
)
def test_program_without_answer_has_an_error(
    command: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pods.jsonl").write_text(read_lines("kube-scheduler.jsonl.gz", 1)[0])
    code, text = run(capsys, f"-program={command}", str(tmp_path))
    assert (code, reason in text) == (2, True), text
    # The numbers are right, wrong, errors.
    assert "kube-scheduler 1.34.4 1 0 0 1" in text


@pytest.mark.parametrize(
    ("command", "reason"), [("sh 'x", "No closing quotation"), (" ", "no program")]
)
def test_invalid_command_is_rejected(
    command: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = run(capsys, f"-program={command}", str(tmp_path))
    assert (code, reason in text) == (1, True), text


def test_system_without_prediction_is_not_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = {
        "system": "nomad",
        "version": "1",
        "snapshot": {},
        "request": {},
        "decision": {},
        "equivalent": [],
    }
    (tmp_path / "n.jsonl").write_text(json.dumps(case))
    code, text = run(capsys, str(tmp_path))
    assert code == 2
    assert "nexusform predicts no decisions of nomad" in text


def test_every_file_error_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = read_lines("kube-scheduler.jsonl.gz", 1)[0]
    (tmp_path / "a.jsonl").write_text(f'{good}{{"system": 3}}\nno json\n')
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(good.encode())[:40])
    incomplete = json.loads(good)
    del incomplete["snapshot"]["objects"]
    (tmp_path / "c.jsonl").write_text(json.dumps(incomplete))
    code, text = run(capsys, str(tmp_path))
    assert code == 1
    assert all(part in text for part in ("a.jsonl, line 2", "a.jsonl, line 3", "b.jsonl.gz"))
    assert "the case is incomplete" in text
    # The numbers are right, wrong, errors.
    assert "kube-scheduler 1.34.4 2 1 0 1" in text


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_directory_without_decisions_is_an_error(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    code, text = run(capsys, str(tmp_path / name))
    assert code == 1
    assert ("is not a directory" if name == "missing" else "has no *.jsonl") in text
