"""States of earlier versions: a newer nexusform plans nothing for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nexusform.state.codec import decode
from nexusform.state.objects import State
from tests.planning.harness import attributes, good, is_empty, plan, state_of

EARLIER = Path(__file__).parent / "earlier"
CLUSTER = "nexus_kubernetes_cluster.a"
ALLOCATABLE = {"cpu": "20", "memory": "140Gi"}


def configuration(**more: str) -> str:
    text = (EARLIER / "main.nf.hcl").read_text()
    for block, arguments in more.items():
        text = text.replace(f'" "{block}" {{\n', f'" "{block}" {{\n{arguments}\n', 1)
    return text


def stored() -> State:
    state, problems = decode((EARLIER / "nodes.nfstate").read_bytes(), "nodes.nfstate")
    assert state is not None, problems
    return state


def capacity(state: State) -> dict[str, Any]:
    found = attributes(state, CLUSTER)["capacity"]
    assert isinstance(found, dict)
    return found


def test_a_state_made_before_nodes_had_reserves_plans_nothing() -> None:
    result = good(plan(configuration(), stored()))
    assert is_empty(result)
    assert all(str(output.action) == "no-op" for output in result.plan.outputs)


def test_it_keeps_its_nodes_when_the_cluster_changes_for_another_reason() -> None:
    larger = configuration().replace("count       = 2\n    vm", "count       = 3\n    vm")
    state = state_of(larger, stored())
    assert attributes(state, CLUSTER)["node_rules"] is None
    assert capacity(state)["allocatable"] == {"cpu": "28", "memory": "196Gi"}


def test_a_kubelet_block_brings_the_nodes_of_today() -> None:
    assert capacity(stored())["allocatable"] == ALLOCATABLE
    state = state_of(configuration(a="kubelet {}"), stored())
    assert attributes(state, CLUSTER)["node_rules"] == "2026-11"
    assert capacity(state)["allocatable"] == {"cpu": "20", "memory": "140436Mi"}
    assert capacity(state)["total"] == {"cpu": "26", "memory": "140Gi"}
    pods = attributes(state, "fleet_hub_manifest.pods")["workloads"]
    assert len(pods["default/DaemonSet/agent"]) == 2
