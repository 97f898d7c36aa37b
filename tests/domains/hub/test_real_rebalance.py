"""Tests of a rebalancing on a real hub: it ends as predicted, and keeps the disruption budget."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nexusform.domains.fleet.planning.fleet_phases import find_planned_fleet
from tests.domains.fleet.workload_texts import DEPLOYMENT
from tests.domains.hub.api_programs import CRDS, PROGRAMS, find_obstacle
from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.member_pods import MemberPods
from tests.domains.hub.real_hub import RealHub
from tests.domains.whatif.cli.test_simulate_rebalance import (
    FIXED,
    MANIFEST,
    ONE,
    PLACEMENT,
    SITE,
    build_member,
    set_replicas,
)
from tests.kill_points import long_case
from tests.nightly.feasibility import build_node_body
from tests.nightly.live_cluster import start_cluster
from tests.planning.harness import plan

NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "hubagent")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(find_obstacle(*NEEDED)), reason=find_obstacle(*NEEDED) or "-"),
]
BINDINGS = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourcebindings"
TWO = ONE.replace("= 1", "= 2")
MEMBERS = ("west", "east", "south")
BUDGET = """
resource "fleet_placement_disruption_budget" "orders" {
  provider      = fleet
  name          = "orders"
  min_available = "1"
}
"""


@pytest.fixture
def real_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealHub]:
    (tmp_path / "hub").mkdir()
    hub = RealHub(PROGRAMS, CRDS, tmp_path / "hub")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(hub.kubeconfig))
    monkeypatch.setenv("NO_COLOR", "1")
    hub.join({name: {} for name in MEMBERS})
    yield hub
    hub.close()


def write_configuration(**policies: str) -> None:
    """Write a fleet with these placements; those on two clusters have a budget."""
    parts = ['provider "fleet" {}\n', SITE, *map(build_member, MEMBERS)]
    for name, policy in policies.items():
        parts.append((MANIFEST + PLACEMENT).replace("NAME", name).replace("POLICY", policy))
        if policy is TWO:
            parts.append(BUDGET.replace("orders", name))
    text = "".join(parts)
    for kind in ("fleet_hub_manifest", "fleet_cluster_resource_placement", "fleet_member_cluster"):
        for name in (*MEMBERS, *policies):
            header = f'resource "{kind}" "{name}" {{\n'
            text = text.replace(header, f"{header}  provider = fleet\n")
    Path("main.nf.hcl").write_text(text)
    Path("pods.yaml").write_text(DEPLOYMENT)


def list_available(hub: RealHub, placement: str) -> set[str]:
    """Return the clusters of a placement with available resources."""
    clusters = set()
    for body in hub.call("GET", BINDINGS).get("items") or ():
        is_owned = body["metadata"]["labels"].get("kubernetes-fleet.io/parent-CRP") == placement
        conditions = (body.get("status") or {}).get("conditions") or ()
        is_available = any(
            item["type"] == "Available" and item["status"] == "True" for item in conditions
        )
        if is_owned and is_available and not body["metadata"].get("deletionTimestamp"):
            clusters.add(body["spec"]["targetCluster"])
    return clusters


def read_evictions() -> list[dict[str, str]]:
    """Return the rows of the evictions in the answer."""
    sections = json.loads(Path("answer.json").read_text())["sections"]
    [evictions] = [section for section in sections if section["name"] == "evictions"]
    rows: list[dict[str, str]] = evictions["tables"][0]["rows"]
    return rows


def observe_minimum(read: Callable[[], int], run: Callable[[], None]) -> int:
    """Return the lowest figure read while a function runs."""
    ended = threading.Event()
    figures = [read()]

    def observe() -> None:
        while not ended.wait(0.05):
            figures.append(read())

    observer = threading.Thread(target=observe)
    observer.start()
    try:
        run()
    finally:
        ended.set()
        observer.join()
    return min(figures)


@long_case
def test_rebalancing_ends_as_predicted_within_budget(
    real_hub: RealHub, run_command: CommandRunner
) -> None:
    write_configuration(orders=TWO, payments=FIXED)
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    before = list_available(real_hub, "orders")
    source = "west" if "west" in before else min(before)
    path = Path("main.nf.hcl")
    path.write_text(
        path.read_text().replace('cluster_names  = ["west"]', f'cluster_names  = ["{source}"]')
    )
    assert run_command("apply", "-auto-approve")[0] == 0
    set_replicas("payments", 4)
    report = "-report=json:answer.json"
    code, said = run_command("simulate", "rebalance", report, "-generate-config-out=moves.nf.hcl")
    assert code == 0, said
    (eviction,) = read_evictions()
    assert eviction["from"] == source

    def run_apply() -> None:
        code, said = run_command("apply", "-auto-approve")
        assert (code, "was not executed" in said) == (0, False), said

    assert observe_minimum(lambda: len(list_available(real_hub, "orders")), run_apply) >= 1
    assert list_available(real_hub, "orders") == before - {source} | set(
        eviction["then_on"].split(", ")
    )
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "run on all selected clusters (3 bindings)" in said) == (0, True), said


@pytest.fixture
def pods(real_hub: RealHub, tmp_path: Path) -> Iterator[MemberPods]:
    """Run the pods of all members with a scheduler and controllers.

    They run on the nodes of the configuration.
    """
    text = "".join([SITE, *map(build_member, MEMBERS)])
    fleet = find_planned_fleet(plan(text))
    assert fleet is not None
    (tmp_path / "members").mkdir()
    with start_cluster(tmp_path / "members") as cluster:
        runtime = MemberPods(cluster)
        for name, member in fleet.outcome.clusters.items():
            for node in member.nodes:
                runtime.add_node(name, build_node_body(node))
        real_hub.runtime = runtime
        yield runtime
        real_hub.runtime = None


def wait_for_ready(hub: RealHub, pods: MemberPods, **expected: int) -> None:
    """Wait until each placement has this number of ready pods.

    A member removes pods after the hub's removal.
    """
    hub._until(lambda: all(pods.count_ready(name) == count for name, count in expected.items()))


@long_case
@pytest.mark.skipif(
    bool(find_obstacle("kube-scheduler")), reason=find_obstacle("kube-scheduler") or "-"
)
def test_two_evictions_in_order_keep_the_ready_replicas(
    real_hub: RealHub, pods: MemberPods, run_command: CommandRunner
) -> None:
    write_configuration(orders=TWO, records=TWO, payments=FIXED)
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    before = {name: list_available(real_hub, name) for name in ("orders", "records")}
    source = min(before["orders"] & before["records"])
    path = Path("main.nf.hcl")
    path.write_text(
        path.read_text().replace('cluster_names  = ["west"]', f'cluster_names  = ["{source}"]')
    )
    assert run_command("apply", "-auto-approve")[0] == 0
    wait_for_ready(real_hub, pods, orders=2, records=2, payments=1)
    set_replicas("payments", 4)
    code, said = run_command(
        "simulate", "rebalance", "-report=json:answer.json", "-generate-config-out=moves.nf.hcl"
    )
    assert code == 0, said
    moves = read_evictions()
    assert [move["from"] for move in moves] == [source, source]
    assert Path("moves.nf.hcl").read_text().count("depends_on") == 2

    def carry_out() -> None:
        code, said = run_command("apply", "-auto-approve")
        assert (code, "was not executed" in said) == (0, False), said

    # One ready pod per cluster, and each budget needs one cluster.
    assert (
        observe_minimum(
            lambda: min(pods.count_ready("orders"), pods.count_ready("records")), carry_out
        )
        >= 1
    )
    for move in moves:
        name = move["evict"]
        targets = set(move["then_on"].split(", "))
        assert list_available(real_hub, name) == before[name] - {source} | targets
    wait_for_ready(real_hub, pods, orders=2, records=2, payments=4)
    assert not pods.list_waiting()
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "run on all selected clusters (5 bindings)" in said) == (0, True), said
