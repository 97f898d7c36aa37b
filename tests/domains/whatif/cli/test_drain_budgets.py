"""Tests of drains under PodDisruptionBudgets.

They are compared with answers of the eviction API of Kubernetes 1.34.4.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from tests.domains.pods.importers import cluster_objects
from tests.domains.whatif.cli.test_simulate import KUBECTL_CLUSTER

NODES = tuple(cluster_objects.build_node(f"n{number}") for number in range(3))
BOTH_READY = {"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2}
ENOUGH_READY = {
    "disruptionsAllowed": 0,
    "currentHealthy": 1,
    "desiredHealthy": 1,
    "expectedPods": 2,
}
TOO_FEW_READY = {
    "disruptionsAllowed": 0,
    "currentHealthy": 1,
    "desiredHealthy": 2,
    "expectedPods": 2,
}
ONE_ALLOWED = {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}


def build_budget(
    name: str = "web", status: dict[str, int] | None = None, **spec: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
        **({"status": status} if status else {}),
    }


def build_replica(
    name: str, node: str, *, is_ready: bool = True, phase: str = "Running"
) -> dict[str, Any]:
    labels = {"app": "web", "pod-template-hash": "5d"}
    body = cluster_objects.build_pod(
        f"web-5d-{name}", node, owner=("ReplicaSet", "web-5d"), labels=labels, phase=phase
    )
    body["status"]["conditions"] = [{"type": "Ready", "status": str(is_ready)}]
    return body


@pytest.fixture
def find_blocking_budgets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """Return a function that drains n0 and returns the budgets blocking the drain."""
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(KUBECTL_CLUSTER)

    def drain_and_list_budgets(*objects: dict[str, Any]) -> list[str]:
        Path("cluster.json").write_bytes(cluster_objects.print_objects(*NODES, *objects))
        code = run_command_line(["simulate", "failure", "-node=n0", "-format=json"])
        document = json.loads(capsys.readouterr().out)
        sections = {section["name"]: section for section in document["sections"]}
        blocking = sections.get("blocking_budgets", {"tables": [{"rows": []}]})
        budgets = list(
            dict.fromkeys(row["poddisruptionbudget"] for row in blocking["tables"][0]["rows"])
        )
        assert code == (2 if budgets else 0)
        return budgets

    return drain_and_list_budgets


@pytest.mark.parametrize(
    ("budgets", "reason"),
    [
        ([{"minAvailable": 2}], "minAvailable 2 allows no disruption"),
        ([{"maxUnavailable": "0%"}], "maxUnavailable 0% allows no disruption"),
        ([{"minAvailable": 1}, {"minAvailable": 1}], "the eviction API rejects pods with several"),
    ],
)
def test_report_explains_blocked_drain(
    budgets: list[dict[str, Any]],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(KUBECTL_CLUSTER)
    bodies = [
        build_budget("web" if not number else "again", **spec)
        for number, spec in enumerate(budgets)
    ]
    Path("cluster.json").write_bytes(cluster_objects.print_objects(*NODES, *HEALTHY, *bodies))
    assert run_command_line(["simulate", "failure", "-node=n0"]) == 2
    assert reason in " ".join(capsys.readouterr().out.split())


HEALTHY = (build_replica("a", "n0"), build_replica("b", "n1"))
SICK_HERE = (build_replica("a", "n0", is_ready=False), build_replica("b", "n1"))
SICK_ELSEWHERE = (build_replica("a", "n0"), build_replica("b", "n1", is_ready=False))


def test_budget_without_allowed_disruptions_blocks_drain(find_blocking_budgets: Any) -> None:
    assert find_blocking_budgets(*HEALTHY, build_budget(minAvailable=2, status=BOTH_READY)) == [
        "default/web"
    ]
    assert find_blocking_budgets(*HEALTHY, build_budget(minAvailable=2)) == ["default/web"]
    assert find_blocking_budgets(*HEALTHY, build_budget(maxUnavailable=0)) == ["default/web"]
    assert find_blocking_budgets(*HEALTHY, build_budget(maxUnavailable="0%")) == ["default/web"]


def test_allowed_disruption_does_not_block_drain(find_blocking_budgets: Any) -> None:
    assert find_blocking_budgets(*HEALTHY, build_budget(minAvailable=1, status=ONE_ALLOWED)) == []
    assert find_blocking_budgets(*HEALTHY, build_budget(maxUnavailable="50%")) == []
    # One after the other: the second eviction waits only for the replacement of the first pod.
    pair = (build_replica("a", "n0"), build_replica("b", "n0"))
    assert find_blocking_budgets(*pair, build_budget(minAvailable=1, status=ONE_ALLOWED)) == []


def test_unready_pod_is_evicted_while_enough_pods_are_ready(find_blocking_budgets: Any) -> None:
    assert (
        find_blocking_budgets(*SICK_HERE, build_budget(minAvailable=1, status=ENOUGH_READY)) == []
    )
    assert find_blocking_budgets(*SICK_HERE, build_budget(minAvailable=1)) == []
    assert find_blocking_budgets(
        *SICK_HERE, build_budget(minAvailable=2, status=TOO_FEW_READY)
    ) == ["default/web"]
    assert find_blocking_budgets(*SICK_HERE, build_budget(minAvailable=2)) == ["default/web"]
    always = build_budget(
        minAvailable=2, status=TOO_FEW_READY, unhealthyPodEvictionPolicy="AlwaysAllow"
    )
    assert find_blocking_budgets(*SICK_HERE, always) == []


def test_ready_pod_is_kept_while_another_pod_is_unready(find_blocking_budgets: Any) -> None:
    assert find_blocking_budgets(
        *SICK_ELSEWHERE, build_budget(minAvailable=1, status=ENOUGH_READY)
    ) == ["default/web"]
    assert find_blocking_budgets(*SICK_ELSEWHERE, build_budget(minAvailable=1)) == ["default/web"]
    always = build_budget(minAvailable=1, unhealthyPodEvictionPolicy="AlwaysAllow")
    assert find_blocking_budgets(*SICK_ELSEWHERE, always) == ["default/web"]


def test_pending_pod_is_evicted_at_once(find_blocking_budgets: Any) -> None:
    pulling = (build_replica("a", "n0", is_ready=False, phase="Pending"), build_replica("b", "n1"))
    assert find_blocking_budgets(*pulling, build_budget(minAvailable=2, status=TOO_FEW_READY)) == []


def test_eviction_api_rejects_pod_under_two_budgets(find_blocking_budgets: Any) -> None:
    budgets = [
        build_budget(name, minAvailable=1, status=ONE_ALLOWED) for name in ("web", "web-again")
    ]
    assert find_blocking_budgets(*HEALTHY, *budgets) == ["default/web", "default/web-again"]


def test_budgets_of_other_pods_and_daemons_do_not_block_drain(find_blocking_budgets: Any) -> None:
    other = build_budget(minAvailable=9)
    other["spec"]["selector"] = {"matchLabels": {"app": "db"}}
    assert find_blocking_budgets(*HEALTHY, other) == []
    daemon = cluster_objects.build_pod(
        "agent-x", "n0", owner=("DaemonSet", "agent"), labels={"app": "web"}
    )
    assert find_blocking_budgets(daemon, build_budget(minAvailable=1)) == []
