"""Answers to a case: by nexusform itself, or by another program."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import DecodeError, json

from nexusform.diagnostics.diagnostic import Severity
from nexusform.domains.conformance.workflow.case_files import ConformanceCase
from nexusform.domains.fleet.planning.recorded_decisions import decide_placement
from nexusform.domains.openstack.scheduling.recorded_decisions import decide_host
from nexusform.domains.vnf.serving.recorded_decisions import decide_operation
from nexusform.plans.plan import Mode
from nexusform.workflow.opening.command_context import create_editor_context
from nexusform.workflow.opening.project import open_project
from nexusform.workflow.runs.run import PlanOptions, begin_run
from nexusform.workflow.runs.state_locking import LockOptions

Answer = Callable[[ConformanceCase], Any]
_PROGRAM_SECONDS: Final = 60.0  # seconds for one answer
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
    """Return the decision predicted by nexusform. Raises NoAnswer."""
    if case.system not in _OWN_ANSWERS:
        raise UnansweredCaseError(f"nexusform predicts no decisions of {case.system}")
    try:
        return _OWN_ANSWERS[case.system](case)
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as problem:
        raise UnansweredCaseError(f"the case is incomplete ({type(problem).__name__}: {problem})") from None


def build_program_answer(command: str) -> Answer:
    """Return the answers of a program: it reads `snapshot` and `request` on stdin and prints a decision. Raises
    ValueError if the text is no command.
    """
    words = shlex.split(command)
    if not words:
        raise ValueError("no program")
    return partial(_run_external_predictor, words)


def _run_external_predictor(words: list[str], case: ConformanceCase) -> Any:
    """Return the answer of a program. Raises NoAnswer."""
    question = {"system": case.system, "version": case.version, "snapshot": case.snapshot, "request": case.request}
    try:
        result = subprocess.run(  # noqa: S603 - the operator's own command
            words, input=json.encode(question), capture_output=True, timeout=_PROGRAM_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise UnansweredCaseError(f"no answer within {_PROGRAM_SECONDS:.0f} s") from None
    except OSError as problem:
        raise UnansweredCaseError(f"{words[0]} cannot be started: {problem.strerror}") from None
    if result.returncode:
        lines = result.stderr.decode(errors="replace").strip().splitlines()
        raise UnansweredCaseError(f"exit code {result.returncode}: {lines[-1][:200] if lines else 'no message'}")
    try:
        return json.decode(result.stdout)
    except DecodeError as problem:
        raise UnansweredCaseError(f"the answer is not JSON: {problem}") from None


def _predict_kubernetes_node(case: ConformanceCase) -> dict[str, Any]:
    """Predict the node of a pod, as `plan` does for a manifest and a kubectl dump."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "main.nf.hcl").write_text(_POD_CONFIGURATION, "utf-8")
        objects = {"apiVersion": "v1", "kind": "List", "items": case.snapshot["objects"]}
        Path(directory, "snapshot.json").write_bytes(json.encode(objects))
        texts = [json.encode(item).decode() for item in case.request["objects"]]
        Path(directory, "request.json").write_text("\n---\n".join(texts), "utf-8")
        project = open_project(create_editor_context(directory, {})).project
        if project is None:
            raise UnansweredCaseError("the objects cannot be read")
        locking = LockOptions(enabled=False, is_exclusive=True)
        with begin_run(project, "OperationTypePlan", locking, records_recovery=False) as run:
            if not run.is_ready:
                raise UnansweredCaseError("the objects cannot be read")
            options = PlanOptions(mode=Mode.NORMAL, samples=0, includes_remedies=False, verifies_certainty=False)
            plan = run.plan(options).plan
    if plan.errored:
        raise UnansweredCaseError(next(item.detail for item in plan.diagnostics if item.severity is Severity.ERROR))
    nodes = [
        getattr(row.target, "node", None) or None
        for row in plan.placements
        if row.kind == "pod" and row.action == "place"
    ]
    if len(nodes) != 1:
        raise UnansweredCaseError(f"{len(nodes)} pods are created; a request creates one")
    return {"node": nodes[0]}


def _predict_kubefleet_clusters(case: ConformanceCase) -> dict[str, Any]:
    return decide_placement(case.snapshot, case.request)


def _predict_kubefleet_operation(case: ConformanceCase) -> dict[str, Any]:
    return decide_operation(case.snapshot, case.request)


def _predict_nova_host(case: ConformanceCase) -> dict[str, Any]:
    return decide_host(case.snapshot, case.request)


_OWN_ANSWERS: Final[dict[str, Answer]] = {
    "kube-scheduler": _predict_kubernetes_node,
    "kubefleet": _predict_kubefleet_clusters,
    "nova": _predict_nova_host,
    "tacker": _predict_kubefleet_operation,
}
