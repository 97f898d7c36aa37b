"""Recorded decisions: their files, the answers to them, and the score of these.

A directory has files `*.jsonl` or `*.jsonl.gz` with one JSON object per line. Answers are those of
nexusform or of another program. Scores are by system and version.
"""

import errno
import gzip
import io
import shlex
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from signal import SIG_IGN, SIGINT, signal
from typing import Any, Final

from msgspec import DecodeError, Struct, ValidationError, field, json

from nexusform.diagnostics.diagnostic import Diagnostic, Severity, build_error
from nexusform.domains.fleet.planning.recorded_case_prediction import decide_placement
from nexusform.domains.openstack.scheduling.recorded_case_prediction import decide_host
from nexusform.domains.vnf.serving.recorded_case_prediction import decide_operation
from nexusform.files.limited_program import run_program
from nexusform.files.program_environment import build_program_environment
from nexusform.files.regular_files import read_regular
from nexusform.plans.plan import Mode
from nexusform.workflow.opening.command_context import create_editor_context
from nexusform.workflow.opening.project import open_project
from nexusform.workflow.runs.run import PlanOptions, begin_run
from nexusform.workflow.runs.state_locking import LockOptions

_MAX_BYTES: Final = 1 << 30  # bytes of one file
# Maximum bytes of one decision.
_MAX_LINE: Final = 64 << 20
INVALID: Final = "invalid-conformance-case"
# More start other processes.
_CASES_OF_ONE_PROCESS: Final = 500
# Number of cases sent to a process at once.
_CHUNK: Final = 50
# Number of cases in memory at once.
_BATCH: Final = 10_000


class ConformanceCase(Struct, frozen=True):
    """Recorded decision of a real system: its knowledge, the request and the answer.

    The system draws among the decision and `equivalent`, so these are right too.
    """

    system: str
    version: str
    snapshot: dict[str, Any]
    request: dict[str, Any]
    decision: dict[str, Any]
    equivalent: list[dict[str, Any]] = field(default_factory=list)


class LocatedConformanceCase(Struct, frozen=True):
    """Case with its place, `FILE:LINE`."""

    place: str
    case: ConformanceCase


def read_cases(directory: str, problems: list[Diagnostic]) -> Iterator[LocatedConformanceCase]:
    """Yield the cases of a directory in the order of file names and lines.

    Add invalid ones to `problems`.
    """
    try:
        paths = sorted((*Path(directory).glob("*.jsonl"), *Path(directory).glob("*.jsonl.gz")))
        # A glob of a missing directory is empty.
        if not paths and not Path(directory).is_dir():
            raise NotADirectoryError
    except OSError:
        problems.append(
            build_error(INVALID, f'"{directory}" is not a directory. Name one with *.jsonl files.')
        )
        return
    if not paths:
        detail = f'"{directory}" has no *.jsonl or *.jsonl.gz file with recorded decisions.'
        problems.append(build_error(INVALID, detail))
    for path in paths:
        try:
            for number, line in enumerate(_read_lines(path), 1):
                if not line.strip():
                    # An empty line.
                    continue
                try:
                    yield LocatedConformanceCase(
                        f"{path.name}:{number}", json.decode(line, type=ConformanceCase)
                    )
                except (DecodeError, ValidationError) as problem:
                    detail = (
                        f"{path}, line {number}: {problem}. A case is one JSON object per line."
                    )
                    problems.append(build_error(INVALID, detail))
        except (OSError, EOFError, zlib.error) as problem:
            reason = getattr(problem, "strerror", None) or "it is damaged"  # as gzip
            problems.append(build_error(INVALID, f'"{path}" cannot be read: {reason}.'))


def _read_lines(path: Path) -> Iterator[bytes]:
    """Yield the decompressed lines of a file.

    Raises OSError, EOFError and zlib.error.
    """
    content = io.BytesIO(read_regular(path, _MAX_BYTES))
    with gzip.open(content) if path.suffix == ".gz" else content as file:
        # At most one byte too many.
        while line := file.readline(_MAX_LINE + 1):
            if len(line) > _MAX_LINE:
                raise OSError(errno.EFBIG, "a line is longer than 64 MiB")
            yield line


Answer = Callable[[ConformanceCase], Any]
# Maximum seconds for one answer.
_PROGRAM_SECONDS: Final = 60.0
_POD_CONFIGURATION: Final = """
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


class UnansweredCaseError(Exception):
    """A case without an answer; the message is the reason."""


def predict_decision(case: ConformanceCase) -> Any:
    """Return the decision predicted by nexusform.

    Raises UnansweredCaseError.
    """
    if case.system not in _OWN_ANSWERS:
        raise UnansweredCaseError(f"nexusform predicts no decisions of {case.system}")
    try:
        return _OWN_ANSWERS[case.system](case)
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as problem:
        raise UnansweredCaseError(
            f"the case is incomplete ({type(problem).__name__}: {problem})"
        ) from None


def build_program_answer(command: str) -> Answer:
    """Return a function to get answers of a program: JSON on stdin, the decision on stdout.

    Raises ValueError.
    """
    words = shlex.split(command)
    if not words:
        raise ValueError("no program")
    return partial(_run_external_predictor, words)


def _run_external_predictor(words: list[str], case: ConformanceCase) -> Any:
    """Return the answer of a program.

    Raises UnansweredCaseError.
    """
    question = {
        "system": case.system,
        "version": case.version,
        "snapshot": case.snapshot,
        "request": case.request,
    }
    try:
        result = run_program(
            words, build_program_environment(), _PROGRAM_SECONDS, json.encode(question)
        )
    except subprocess.TimeoutExpired:
        raise UnansweredCaseError(f"no answer within {_PROGRAM_SECONDS:.0f} s") from None
    except OSError as problem:
        raise UnansweredCaseError(f"{words[0]} cannot be started: {problem.strerror}") from None
    if result.returncode:
        lines = result.stderr.decode(errors="replace").strip().splitlines()
        raise UnansweredCaseError(
            f"exit code {result.returncode}: {lines[-1][:200] if lines else 'no message'}"
        )
    try:
        return json.decode(result.stdout)
    except DecodeError as problem:
        raise UnansweredCaseError(f"the answer is not JSON: {problem}") from None


def _predict_kubernetes_node(case: ConformanceCase) -> dict[str, Any]:
    """Predict a pod like `plan`, from a manifest and a kubectl dump.

    Return {"node": NAME}, with None if none fits.
    """
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "main.nf.hcl").write_text(_POD_CONFIGURATION, "utf-8")
        objects = {"apiVersion": "v1", "kind": "List", "items": case.snapshot["objects"]}
        Path(directory, "snapshot.json").write_bytes(json.encode(objects))
        texts = [json.encode(item).decode() for item in case.request["objects"]]
        Path(directory, "request.json").write_text("\n---\n".join(texts), "utf-8")
        project = open_project(create_editor_context(directory, environment={})).project
        if project is None:
            raise UnansweredCaseError("the objects cannot be read")
        locking = LockOptions(enabled=False, is_exclusive=True)
        with begin_run(project, "OperationTypePlan", locking, records_recovery=False) as run:
            if not run.is_ready:
                raise UnansweredCaseError("the objects cannot be read")
            options = PlanOptions(
                mode=Mode.NORMAL, samples=0, includes_remedies=False, verifies_certainty=False
            )
            plan = run.plan(options).plan
    if plan.errored:
        raise UnansweredCaseError(
            next(item.detail for item in plan.diagnostics if item.severity is Severity.ERROR)
        )
    # None: no node fits.
    nodes = [
        getattr(row.target, "node", None) or None
        for row in plan.placements
        if row.kind == "pod" and row.action == "place"
    ]
    if len(nodes) != 1:
        raise UnansweredCaseError(f"{len(nodes)} pods are created; a request creates one")
    return {"node": nodes[0]}


_OWN_ANSWERS: Final[dict[str, Answer]] = {
    "kube-scheduler": _predict_kubernetes_node,
    "kubefleet": lambda case: decide_placement(case.snapshot, case.request),
    "nova": lambda case: decide_host(case.snapshot, case.request),
    "tacker": lambda case: decide_operation(case.snapshot, case.request),
}


class WrongCaseAnswer(Struct, frozen=True):
    """Wrong answer, or the reason for no answer."""

    place: str
    system: str
    version: str
    predicted: Any
    actual: dict[str, Any]
    reason: str = ""


class SystemVersionScore(Struct):
    """Decisions of one version of a system, with counts.

    The counts are of all decisions, those predicted right, and those without an answer.
    """

    decisions: int = 0
    right: int = 0
    errors: int = 0

    @property
    def wrong(self) -> int:
        """Number of wrong answers."""
        return self.decisions - self.right - self.errors


class ConformanceScore(Struct):
    """Scores by system and version, and all wrong answers."""

    systems: dict[tuple[str, str], SystemVersionScore] = field(default_factory=dict)
    wrong: list[WrongCaseAnswer] = field(default_factory=list)


def score_conformance_cases(
    cases: Iterable[LocatedConformanceCase], answer: Answer
) -> ConformanceScore:
    """Compare the answers to all cases with the decisions.

    Many cases are answered on all processors.
    """
    score = ConformanceScore()
    remaining = iter(cases)
    for item in islice(remaining, _CASES_OF_ONE_PROCESS):
        _add_case_result(score, item, *_predict_case_answer(answer, item))
    batch = list(islice(remaining, _BATCH))
    # There are too few for more processes.
    if not batch:
        return score
    # Ctrl-C ends the parent only. A forked process could wait forever for a lock of another thread
    # of this one.
    pool = ProcessPoolExecutor(
        mp_context=get_context("spawn"), initializer=signal, initargs=(SIGINT, SIG_IGN)
    )
    try:
        while batch:
            unanswered = iter(batch)
            with suppress(BrokenProcessPool):
                answers = pool.map(partial(_predict_case_answer, answer), batch, chunksize=_CHUNK)
                # The loop takes an item only after its answer.
                for result, item in zip(answers, unanswered, strict=False):
                    _add_case_result(score, item, *result)
            for item in unanswered:
                _add_case_result(
                    score, item, None, "a process ended unexpectedly, perhaps for lack of memory"
                )
            batch = list(islice(remaining, _BATCH))
    finally:
        pool.shutdown(cancel_futures=True)
    return score


def _predict_case_answer(answer: Answer, item: LocatedConformanceCase) -> tuple[Any, str]:
    """Return the answer to a case, or the reason for no answer."""
    try:
        return answer(item.case), ""
    except UnansweredCaseError as problem:
        return None, str(problem)


def _add_case_result(
    score: ConformanceScore, item: LocatedConformanceCase, predicted: Any, reason: str
) -> None:
    """Count the answer to a case, or the `reason` for no answer; keep it if it is not right."""
    case = item.case
    counts = score.systems.setdefault((case.system, case.version), SystemVersionScore())
    counts.decisions += 1
    counts.errors += bool(reason)
    if not reason and predicted in (case.decision, *case.equivalent):
        counts.right += 1
    else:
        score.wrong.append(
            WrongCaseAnswer(item.place, case.system, case.version, predicted, case.decision, reason)
        )
