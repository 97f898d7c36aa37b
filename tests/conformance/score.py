"""Score of recorded decisions: each is predicted again, and compared.

A directory has files `*.jsonl` or `*.jsonl.gz` with one decision per line: system, version,
snapshot, request, decision, equivalent. Run: python -m tests.conformance.score DIR. It prints the
counts by system and version as JSON; exit code 2 if a prediction is wrong or fails.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import starmap
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from msgspec import Struct, field, to_builtins
from msgspec.json import decode, encode

from nexusform.plans.plan import Mode
from nexusform.workflow.opening.command_context import create_editor_context
from nexusform.workflow.opening.project import open_project
from nexusform.workflow.runs.run import PlanOptions, begin_run
from nexusform.workflow.runs.state_locking import LockOptions
from tests.conformance.predict_kubefleet import decide_placement
from tests.conformance.predict_nova import decide_host
from tests.conformance.predict_tacker import decide_operation

# More start other processes.
_CASES_OF_ONE_PROCESS = 500
# Number of cases sent to a process at once.
_CHUNK = 50
_POD_CONFIGURATION = """
resource "fleet_member_cluster" "cluster" {
  name = "cluster"
  resources {
    total = { cpu = "1" }
  }
}
data "kubernetes_nodes" "cluster" {
  files      = ["${path.module}/snapshot.json"]
  cluster_id = "cluster"
}
resource "fleet_hub_manifest" "request" {
  cluster_id = "cluster"
  yaml_body  = file("request.json")
}
"""


class RecordedCase(Struct, frozen=True):
    """Recorded decision of a real system: its knowledge, the request and the answer.

    The system draws among the decision and `equivalent`, so these are right too.
    """

    system: str
    version: str
    snapshot: dict[str, Any]
    request: dict[str, Any]
    decision: dict[str, Any]
    equivalent: list[dict[str, Any]] = field(default_factory=list)


class WrongPrediction(Struct, frozen=True):
    """Prediction that is not the decision; `place` is FILE:LINE."""

    place: str
    system: str
    predicted: Any
    actual: dict[str, Any]


class SystemScore(Struct):
    """Decisions of one version of a system, and how many are predicted right."""

    system: str
    version: str
    decisions: int = 0
    right: int = 0


class Score(Struct, frozen=True):
    """Scores by system and version, and all wrong predictions."""

    systems: list[SystemScore]
    wrong: list[WrongPrediction]


def read_cases(directory: Path) -> Iterator[tuple[str, RecordedCase]]:
    """Yield each case with its place, in the order of file names and lines."""
    for path in sorted((*directory.glob("*.jsonl"), *directory.glob("*.jsonl.gz"))):
        content = path.read_bytes()
        lines = gzip.decompress(content) if path.suffix == ".gz" else content
        for number, line in enumerate(lines.splitlines(), 1):
            yield f"{path.name}:{number}", decode(line, type=RecordedCase)


def score_cases(cases: Iterable[tuple[str, RecordedCase]]) -> Score:
    """Predict each case. Many are predicted on all processors."""
    listed = list(cases)
    if len(listed) <= _CASES_OF_ONE_PROCESS:
        results = list(starmap(_predict_case, listed))
    else:
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            results = list(pool.map(_predict_case, *zip(*listed, strict=True), chunksize=_CHUNK))
    systems: dict[tuple[str, str], SystemScore] = {}
    wrong = []
    for (place, case), predicted in zip(listed, results, strict=True):
        key = (case.system, case.version)
        score = systems.setdefault(key, SystemScore(*key))
        score.decisions += 1
        if predicted in (case.decision, *case.equivalent):
            score.right += 1
        else:
            wrong.append(WrongPrediction(place, case.system, predicted, case.decision))
    return Score([systems[key] for key in sorted(systems)], wrong)


def _predict_case(_place: str, case: RecordedCase) -> Any:
    """Return the decision that nexusform predicts, or the text of its error."""
    try:
        return _PREDICTIONS[case.system](case)
    except Exception as problem:  # noqa: BLE001 - one failure must not end the score of a night
        return f"{type(problem).__name__}: {problem}"


def _predict_node(case: RecordedCase) -> dict[str, Any]:
    """Predict a pod like `plan`, from a manifest and a kubectl dump.

    Return {"node": NAME}, with None if none fits.
    """
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "main.nf.hcl").write_text(_POD_CONFIGURATION, "utf-8")
        objects = {"apiVersion": "v1", "kind": "List", "items": case.snapshot["objects"]}
        Path(directory, "snapshot.json").write_bytes(encode(objects))
        texts = [encode(item).decode() for item in case.request["objects"]]
        Path(directory, "request.json").write_text("\n---\n".join(texts), "utf-8")
        project = open_project(create_editor_context(directory, environment={})).project
        assert project is not None
        locking = LockOptions(enabled=False, is_exclusive=True)
        with begin_run(project, "OperationTypePlan", locking, records_recovery=False) as run:
            assert run.is_ready
            options = PlanOptions(
                mode=Mode.NORMAL, samples=0, includes_remedies=False, verifies_certainty=False
            )
            plan = run.plan(options).plan
    assert not plan.errored, plan.diagnostics
    (node,) = (
        getattr(row.target, "node", None) or None
        for row in plan.placements
        if row.kind == "pod" and row.action == "place"
    )
    return {"node": node}


_PREDICTIONS: dict[str, Callable[[RecordedCase], Any]] = {
    "kube-scheduler": _predict_node,
    "kubefleet": lambda case: decide_placement(case.snapshot, case.request),
    "nova": lambda case: decide_host(case.snapshot, case.request),
    "tacker": lambda case: decide_operation(case.snapshot, case.request),
}


if __name__ == "__main__":
    total = score_cases(read_cases(Path(sys.argv[1])))
    print(json.dumps(to_builtins(total), indent=2))
    sys.exit(2 if total.wrong or not total.systems else 0)
