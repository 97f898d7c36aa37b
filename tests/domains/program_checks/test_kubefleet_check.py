"""Tests of `plan -check-with=kubefleet`.

A running hub agent picks the clusters of new placements again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.fleet.scheduling import scheduling_cycle
from nexusform.domains.fleet.scheduling.bindings import Health, Member, ResourceUsage
from nexusform.domains.program_checks.workflow import kubefleet_check
from nexusform.domains.program_checks.workflow.loopback_programs import LoopbackPrograms
from nexusform.plans.plan_checks import ProgramCheck
from nexusform.workflow.program_checks import ProgramCheckOutcome
from tests.conformance.score import read_cases, score_cases
from tests.domains.hub.api_programs import CRDS, PROGRAMS, find_obstacle
from tests.kill_points import long_case

pytestmark = pytest.mark.of_domains("program_checks", "fleet", "pods")
MEMBERS = """
resource "fleet_member_cluster" "m" {
  for_each = toset(["a", "b", "c", "d"])
  name     = each.key
  labels   = { tier = each.key == "a" ? "gold" : "base" }
  resources {
    total = { cpu = "16" }
  }
}
"""
PLACEMENT = """
resource "fleet_cluster_resource_placement" "NAME" {
  name       = "NAME"
  depends_on = [fleet_member_cluster.m]
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "apps"
  }
  policy {
    placement_type     = "PickN"
    number_of_clusters = 2
  }
}
"""
HUB_PROGRAMS = ("etcd", "kube-apiserver", "hubagent")


@pytest.fixture(autouse=True)
def work_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    placements = [PLACEMENT.replace("NAME", name) for name in ("one", "two")]
    Path("main.nf.hcl").write_text("".join([MEMBERS, *placements]))
    Path("programs").mkdir()
    for name in HUB_PROGRAMS:
        Path("programs", name).symlink_to(PROGRAMS.absolute() / name)


@pytest.mark.slow
@long_case
@pytest.mark.skipif(bool(find_obstacle(*HUB_PROGRAMS)), reason=find_obstacle(*HUB_PROGRAMS))
def test_plan_is_checked_by_running_hub_agent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("programs/crds").symlink_to(CRDS.absolute())
    words = ["plan", "-check-with=kubefleet=programs", "-report=json:p.json"]
    assert run_command_line(words) == 0
    check = json.loads(Path("p.json").read_text())["checks_by"][0]
    assert (check["checked"], check["total"], check["differences"]) == (2, 2, [])
    capsys.readouterr()
    calls = []
    send = LoopbackPrograms.call

    def record_call(programs: LoopbackPrograms, method: str, *rest: Any) -> dict[str, Any]:
        calls.append(method)
        return send(programs, method, *rest)

    with monkeypatch.context() as patch:
        # A rule is broken.
        patch.setattr(scheduling_cycle, "iterate_descending", scheduling_cycle.iterate_ascending)
        patch.setattr(kubefleet_check, "_HEARTBEAT_SECONDS", -1.0)
        patch.setattr(LoopbackPrograms, "call", record_call)
        assert run_command_line(words) == 1
    # 4 members, each once on joining and once before each placement.
    assert Counter(calls)["PATCH"] == 4 * 3
    check = json.loads(Path("p.json").read_text())["checks_by"][0]
    assert check["differences"][0] == {
        "address": "fleet_cluster_resource_placement.one",
        "object": "one",
        "predicted": "a, b",
        "actual": "c, d",
    }
    assert "one is predicted on a, b" in " ".join(capsys.readouterr().err.replace("│", " ").split())
    # The rule is restored.
    assert score_cases(read_cases(Path(".nexusform/checks"))).wrong == []


def test_member_status_is_sent_to_its_subresource() -> None:
    """An API server ignores the status in a patch of the object itself."""
    # observed generations by path.
    patches: dict[str, list[int]] = {}

    class AcceptingPrograms:
        def call(
            self, method: str, path: str, body: Any = None, _patch: str = ""
        ) -> dict[str, Any]:
            if method == "PATCH":
                (agent,) = body["status"]["agentStatus"]
                patches[path] = [
                    condition["observedGeneration"] for condition in agent["conditions"]
                ]
            return {"metadata": {"generation": 7}, "status": {"agentStatus": [{}]}}

        def wait_for(self, _name: str, condition: Callable[[], Any], _seconds: float) -> Any:
            return condition()

    check = kubefleet_check.FleetCheck(cast("LoopbackPrograms", AcceptingPrograms()), "0.3", {})
    check.join_members((Member("a", {}, (), {}, ResourceUsage(), Health.HEALTHY, None),))
    namespace = "/apis/cluster.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-a"
    assert patches == {f"{namespace}/internalmemberclusters/a/status": [7, 7]}


@pytest.mark.parametrize(
    ("has_timed_out", "reason"),
    [
        (True, "the check ended early, at its limit of 600 s."),
        (False, "this check does not cover them."),
    ],
)
def test_unchecked_placements_are_named(
    has_timed_out: bool,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcome = ProgramCheckOutcome(
        ProgramCheck("kubefleet", "0.3", 1, 2, "placement"), (), has_timed_out
    )
    checkers = {"kubefleet": lambda _result, _programs, _seconds: outcome}
    monkeypatch.setattr("nexusform.workflow.program_checks.CHECKERS", checkers)
    assert run_command_line(["plan", "-check-with=kubefleet=programs", "-details"]) == 0
    said = " ".join("".join(capsys.readouterr()).replace("│", " ").split())
    assert f"kubefleet 0.3 has checked 1 of 2 placements; 1 was not checked: {reason}" in said


def test_missing_definitions_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    Path("programs/hubagent").unlink()
    Path("programs/hubagent").touch()
    assert run_command_line(["plan", "-check-with=kubefleet=programs"]) == 1
    assert "programs/crds has no definitions" in " ".join(
        capsys.readouterr().err.replace("│", " ").split()
    )
