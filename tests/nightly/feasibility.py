"""Compare the feasibility of placements with kube-scheduler.

The fleets are random, and one scheduler runs per member in turn.

Run: NEXUSFORM_HUB_PROGRAMS=DIR python -m tests.nightly.feasibility MINUTES [FLEETS] [SEED]
"""

from __future__ import annotations

import http.client
import json
import random
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from nexusform.domains.pods.planning.node_clusters import NodeCluster
from nexusform.domains.pods.planning.pod_feasibility import copy_node, list_pool_nodes
from nexusform.domains.pods.scheduling.cluster_records import Node
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.plan_request import ArgumentAdjustment
from nexusform.plans.plan import Feasibility, FeasibilityResult
from nexusform.resources.address import parse_address
from tests.domains.hub.api_programs import CRDS, PROGRAMS, ApiPrograms, free_port
from tests.nightly.feasible_fleets import Fleet, build_fleet, build_namespace, build_node, get_fleet
from tests.nightly.live_cluster import PATHS, Body

_NAMESPACES = ("default", "p0", "p1", "p2", "p3")
_SETS = ("ReplicaSet", "StatefulSet")
# A result of a tie may have a probability of one third.
_REPETITIONS = 12
# Sufficient proof of a pod without a fit on any copy of a node.
_FURTHER_NODES = 8


class Comparison(Struct):
    """Comparison of answers with a scheduler.

    It has the number of each kind, differences, and repeated runs.
    """

    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    repetitions: int = 0


class Member:
    """One member on the API server: only its nodes exist, until `clear`."""

    def __init__(self, programs: ApiPrograms) -> None:
        address = programs.url.removeprefix("https://")
        self._connection = http.client.HTTPSConnection(
            address, context=ssl._create_unverified_context()
        )
        self._numbers: dict[str, int] = {}
        self._probes = 0

    def start(
        self, nodes: Iterable[Body], pods: Iterable[Body], workloads: Iterable[tuple[Body, int]]
    ) -> None:
        """Create nodes, running pods, and the pods of the workloads in order."""
        self.add_nodes(nodes)
        for pod in pods:
            self._create(pod)
        for body, replicas in workloads:
            self.add_pods(body, replicas)

    def add_nodes(self, nodes: Iterable[Body]) -> None:
        """Create nodes, and wait until the scheduler has seen them."""
        for node in nodes:
            self._create(node)
        self._synchronize()

    def add_pods(self, workload: Body, count: int) -> None:
        """Create pods of a workload like its controller."""
        kind = workload["kind"]
        metadata = workload["metadata"]
        name = metadata["name"]
        namespace = metadata["namespace"]
        template = workload["spec"]["template"]
        if kind == "Deployment":
            kind = "ReplicaSet"
        key = f"{namespace}/{name}"
        if key not in self._numbers:
            self._numbers[key] = 0
            self._create(
                {**workload, "kind": kind, "spec": _build_set_spec(kind, workload["spec"])}
            )
        for number in range(self._numbers[key], self._numbers[key] + count):
            owner = {
                "apiVersion": "apps/v1",
                "kind": kind,
                "name": name,
                "uid": "1",
                "controller": True,
            }
            pod_metadata = {
                "name": f"{name}-{number}",
                "namespace": namespace,
                "ownerReferences": [owner],
            }
            pod_metadata |= template["metadata"]
            self._create(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": pod_metadata,
                    "spec": template["spec"],
                }
            )
        self._numbers[key] += count

    def lose_nodes(self, names: set[str], workloads: Mapping[str, Body]) -> None:
        """Delete nodes and their pods, and create the pods of their workloads again."""
        for name in names:
            self._call("DELETE", f"{PATHS['Node']}/{name}")
        lost: Counter[str] = Counter()
        for pod in self.list_pods():
            if pod["spec"].get("nodeName") in names:
                namespace = pod["metadata"]["namespace"]
                name = pod["metadata"]["name"]
                self._call(
                    "DELETE", f"{PATHS['Pod'].format(namespace)}/{name}?gracePeriodSeconds=0"
                )
                lost[f"{namespace}/{name.rpartition('-')[0]}"] += 1
        self._synchronize()
        for key, workload in workloads.items():
            if lost[key]:
                self.add_pods(workload, lost[key])

    def count_pending(self, *, has_rules: bool) -> Counter[str]:
        """Return the number of pods without a node by namespace, once the scheduler has tried all.

        With `has_rules`, a pod may be tried again after another one.
        """
        quiet_time = 1.6 if has_rules else 0.25
        last = [""]
        since = time.monotonic()
        end = time.monotonic() + 60
        while True:
            pods = self.list_pods()
            waiting = [pod["metadata"]["uid"] for pod in pods if not pod["spec"].get("nodeName")]
            if waiting != last or not all(map(_is_decided, pods)):
                last = waiting
                since = time.monotonic()
            if not waiting or time.monotonic() - since > quiet_time:
                break
            assert time.monotonic() < end, "the scheduler decides nothing"
            time.sleep(0.1)
        return Counter(
            pod["metadata"]["namespace"] for pod in pods if not pod["spec"].get("nodeName")
        )

    def list_pods(self) -> list[Body]:
        """Return all pods."""
        return list(self._call("GET", "/api/v1/pods").get("items") or ())

    def clear(self) -> None:
        """Delete everything."""
        for pod_namespace in {pod["metadata"]["namespace"] for pod in self.list_pods()}:
            self._call("DELETE", f"{PATHS['Pod'].format(pod_namespace)}?gracePeriodSeconds=0")
        for key in self._numbers:
            for kind in _SETS:
                self._call("DELETE", f"{PATHS[kind].format(key.partition('/')[0])}")
        self._call("DELETE", PATHS["Node"])
        while self.list_pods():
            time.sleep(0.05)
        self._numbers.clear()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _synchronize(self) -> None:
        """Wait until the scheduler has seen all earlier changes: it places a pod on a new node."""
        self._probes += 1
        name = f"probe-{self._probes}"
        taints = [{"key": "probe", "effect": "NoSchedule"}]
        self._create(build_node(name, {"probe": name}, taints, {"pods": "1"}))
        container = {"name": "c", "image": "img:1"}
        spec = {
            "nodeSelector": {"probe": name},
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
        }
        self._create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        path = f"{PATHS['Pod'].format('default')}/{name}"
        while not self._call("GET", path)["spec"].get("nodeName"):
            time.sleep(0.03)
        self._call("DELETE", f"{path}?gracePeriodSeconds=0")
        self._call("DELETE", f"{PATHS['Node']}/{name}")

    def _call(
        self, method: str, path: str, body: Body | None = None, kind: str = "application/json"
    ) -> Body:
        """Send a request on the open connection.

        Thousands of handshakes take longer than the scheduler.
        """
        headers = {"Authorization": "Bearer admin-token", "Content-Type": kind}
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        text = answer.read()
        return (
            json.loads(text)
            if answer.status < 400
            else {"error": answer.status, "text": text.decode()}
        )

    def _create(self, body: Body) -> None:
        path = PATHS[body["kind"]].format(body["metadata"].get("namespace", "default"))
        answer = self._call("POST", path, body)
        assert "error" not in answer, (body, answer)
        if body["kind"] == "Node":
            kind = "application/strategic-merge-patch+json"
            path = f"{path}/{body['metadata']['name']}/status"
            answer = self._call("PATCH", path, {"status": body["status"]}, kind)
            assert "error" not in answer, (body, answer)


def _build_set_spec(kind: str, spec: Body) -> Body:
    return (
        spec
        if kind == "StatefulSet"
        else {key: spec[key] for key in ("replicas", "selector", "template")}
    )


def _is_decided(pod: Body) -> bool:
    conditions = pod["status"].get("conditions", [])
    is_rejected = any(
        item["type"] == "PodScheduled" and item["status"] == "False" for item in conditions
    )
    return bool(pod["spec"].get("nodeName")) or is_rejected


def _build_copies(cluster: NodeCluster, counts: Mapping[str, int]) -> list[Body]:
    """Build the bodies of additional nodes by pool."""
    nodes = list_pool_nodes(cluster)
    return [
        build_node_body(copy_node(nodes[pool], number))
        for pool in counts
        for number in range(counts[pool])
    ]


def build_node_body(node: Node) -> Body:
    """Build the Kubernetes node of a derived node."""
    amounts = {"cpu": f"{node.cpu}m", "memory": str(node.memory), "pods": str(node.pods)}
    amounts |= {name: str(amount) for name, amount in node.other_resources.items()}
    taints = [
        {"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.taints
    ]
    return build_node(node.name, dict(node.labels), taints, amounts)


# --- comparison of one fleet ----------------------------------------------------------------------


class FleetComparison:
    """Comparison of all members of one fleet."""

    def __init__(
        self, programs: ApiPrograms, fleet: Fleet, subject: str, comparison: Comparison
    ) -> None:
        self._member = Member(programs)
        self._fleet = fleet
        self._subject = subject
        self._comparison = comparison
        self._draw = random.Random(subject)
        # Each suggested fix needs its own plan. Fixes for only every third fleet leave time
        # for more fleets.
        self._result = fleet.plan(includes_losses=True, suggested_fixes=self._draw.random() < 0.3)
        bodies = [body for items in fleet.workloads.values() for body in items]
        self._bodies = {
            f"{body['metadata']['namespace']}/{body['metadata']['name']}": body for body in bodies
        }

    def run(self) -> None:
        """Compare each member."""
        outcome = get_fleet(self._result).outcome
        for name, cluster in outcome.clusters.items():
            rows = [
                row
                for row in self._result.plan.workloads.feasibility
                if row.cluster == name and row.is_selected
            ]
            if rows:
                self._compare_member(cluster, rows)
        self._member.clear()
        self._member.close()

    def _compare_member(self, cluster: NodeCluster, rows: Sequence[Feasibility]) -> None:
        """Compare all bindings now and with more nodes.

        For one of them, compare the largest count and a node loss.
        """
        self._compare_now(cluster, self._result, rows)
        running = [
            row
            for row in rows
            if row.result is FeasibilityResult.RUNS and row.replicas_max is not None
        ]
        if running:
            row = self._draw.choice(running)
            self._check(
                "largest count", row, (0, True), partial(self._measure_maximum, row, cluster)
            )
        for row in rows:
            if row.is_waiting:
                self._compare_additions(row, cluster)
            for fix in row.suggested_fixes:
                self._compare_fix(row, fix)
        losses = [
            (row, effect, label)
            for row in rows
            for effect, label in ((row.one_machine_down, "machine"), (row.one_rack_down, "rack"))
            if effect is not None and effect.lost
        ]
        if losses:
            row, effect, label = self._draw.choice(losses)
            lost = {node.name for node in cluster.nodes if getattr(node, label) == effect.lost}
            self._check(
                f"one {label} down",
                row,
                effect.waiting_pods,
                partial(self._measure_loss, row, cluster, lost),
            )

    def _check(
        self, kind: str, row: Feasibility, expected: object, measure: Callable[[], object]
    ) -> None:
        """Compare an answer.

        An uncertain one is one of several results, so one of a few runs has to show it.
        """
        self._comparison.answers[kind] += 1
        real = measure()
        for _ in range(0 if row.is_certain else _REPETITIONS):
            if real == expected:
                break
            self._comparison.repetitions += 1
            real = measure()
        if real != expected:
            subject = f"{self._subject}: {row.placement.name} on {row.cluster}"
            self._comparison.wrong.append(
                f"{subject}: {kind}: expected {expected}, the scheduler has {real}"
            )

    def _start(
        self, cluster: NodeCluster, result: PlanResult, further: Sequence[Body] = ()
    ) -> Counter[str]:
        """Create the member with the nodes and pods of a plan, and further nodes."""
        self._member.clear()
        pods = [body for body in self._fleet.objects.get(cluster.name, ()) if body["kind"] == "Pod"]
        workloads = get_fleet(result).pods.build_input(cluster).workloads
        order = [
            (self._bodies[f"{item.namespace}/{item.name}"], item.replicas) for item in workloads
        ]
        self._member.start([*map(build_node_body, cluster.nodes), *further], pods, order)
        return self._count()

    def _count(self) -> Counter[str]:
        rules = ("affinity", "topologySpreadConstraints")
        specs = [body["spec"]["template"]["spec"] for body in self._bodies.values()]
        return self._member.count_pending(
            has_rules=any(rule in spec for spec in specs for rule in rules)
        )

    def _compare_now(
        self, cluster: NodeCluster, result: PlanResult, rows: Iterable[Feasibility]
    ) -> None:
        """Compare the pods without a node of each binding in one run."""
        runs = [self._start(cluster, result)]
        for row in rows:
            expected = (
                0
                if row.result is FeasibilityResult.RUNS
                else row.replicas_requested - (row.replicas_max or 0)
            )
            earlier = iter(list(runs))

            def measure_binding(
                row: Feasibility = row, earlier: Iterator[Counter[str]] = earlier
            ) -> int:
                run = next(earlier, None)
                if run is None:
                    run = self._start(cluster, result)
                    runs.append(run)
                return run[row.placement.name]

            self._check("now", row, expected, measure_binding)

    def _measure_maximum(self, row: Feasibility, cluster: NodeCluster) -> tuple[int, bool]:
        """Return the pending pods at the largest number of replicas.

        Also return whether one more replica leaves a pod pending.
        """
        assert row.replicas_max is not None
        self._start(cluster, self._result)
        body = self._fleet.workloads[row.placement.name][0]
        self._member.add_pods(body, row.replicas_max - row.replicas_requested)
        waiting = self._count()[row.placement.name]
        self._member.add_pods(body, 1)
        return waiting, self._count()[row.placement.name] > waiting

    def _compare_additions(self, row: Feasibility, cluster: NodeCluster) -> None:
        """Compare the missing nodes: they suffice, and one node fewer does not."""
        pools = list(list_pool_nodes(cluster))
        name = row.placement.name
        missing = row.missing_pools

        def measure_additions(counts: Mapping[str, int]) -> int:
            return self._start(cluster, self._result, _build_copies(cluster, counts))[name]

        if row.result is FeasibilityResult.UNKNOWN:
            self._comparison.answers["more nodes unknown"] += 1
        elif row.result is FeasibilityResult.CANNOT_RUN:
            for mix in (*([pool] for pool in pools), pools):
                counts = dict.fromkeys(mix, _FURTHER_NODES)
                self._check(
                    "cannot run", row, True, lambda counts=counts: measure_additions(counts) > 0
                )
        else:
            kind = "a mix" if len(missing) > 1 else "one pool"
            for pool in missing if row.missing_nodes != 1 else ():
                counts = {**missing, pool: missing[pool] - 1}
                self._check(
                    f"waits with one node less of {kind}",
                    row,
                    True,
                    lambda counts=counts: measure_additions(counts) > 0,
                )
            self._check(f"runs after nodes of {kind}", row, 0, lambda: measure_additions(missing))

    def _measure_loss(self, row: Feasibility, cluster: NodeCluster, lost: set[str]) -> int:
        """Return the pods without a node after the loss of nodes."""
        self._start(cluster, self._result)
        self._member.lose_nodes(lost, self._bodies)
        return self._count()[row.placement.name]

    def _compare_fix(self, row: Feasibility, fix: Mapping[str, Any]) -> None:
        """Compare the plan with a suggested fix, and the plan with one node fewer."""
        if fix["kind"] == "affinity":
            self._compare_exclusion(row, fix)
            return
        target = fix.get("cluster", row.cluster)
        for fewer in (0, 1) if fix["kind"] == "count" else (0,):
            result = self._fleet.plan(
                adjustments=tuple(_read_edit(edit, fewer) for edit in fix["edits"])
            )
            cluster = get_fleet(result).outcome.clusters.get(target)
            rows = [
                item
                for item in result.plan.workloads.feasibility
                if item.is_selected and item.cluster == target
            ]
            planned = next((item for item in rows if item.placement == row.placement), None)
            if not fewer:
                assert planned is not None
                self._check(
                    "runs with the fix",
                    row,
                    FeasibilityResult.RUNS,
                    lambda planned=planned: planned.result,
                )
            if planned is not None and cluster is not None:
                self._compare_now(cluster, result, [planned])

    def _compare_exclusion(self, row: Feasibility, fix: Mapping[str, Any]) -> None:
        """Compare the plan with an affinity.

        The placement runs on each of its clusters, and on no excluded one.
        """
        result = self._fleet.plan(adjustments=tuple(_read_edit(edit, 0) for edit in fix["edits"]))
        rows = [
            item
            for item in result.plan.workloads.feasibility
            if item.is_selected and item.placement == row.placement
        ]
        expected = {FeasibilityResult.RUNS}, False
        is_left = row.cluster in {item.cluster for item in rows}
        self._check(
            "runs without a cluster",
            row,
            expected,
            lambda: ({item.result for item in rows}, is_left),
        )
        for item in rows:
            self._compare_now(get_fleet(result).outcome.clusters[item.cluster], result, [item])


def _read_edit(edit: Mapping[str, Any], fewer: int) -> ArgumentAdjustment:
    value = edit["value"] - fewer if fewer else edit["value"]
    return ArgumentAdjustment(parse_address(edit["address"]), tuple(edit["path"]), value)


# --- several fleets -------------------------------------------------------------------------------


@contextmanager
def start_scheduler(directory: Path) -> Iterator[ApiPrograms]:
    """Start an API server with a scheduler and the namespaces of the fleets.

    Stop them afterwards.
    """
    programs = ApiPrograms(
        PROGRAMS,
        CRDS,
        directory,
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
    )
    try:
        config = f"--kubeconfig={programs.kubeconfig}"
        access = (f"--authentication-{config[2:]}", f"--authorization-{config[2:]}")
        programs._start(
            "kube-scheduler",
            config,
            *access,
            "--leader-elect=false",
            f"--secure-port={free_port()}",
        )
        for name in _NAMESPACES[1:]:
            programs.call("POST", PATHS["Namespace"], build_namespace(name))
        yield programs
    finally:
        programs.close()


def compare(minutes: float, fleets: int, first: int) -> int:
    """Compare fleets until the time is over; print differences and totals.

    Return 1 if an answer is wrong.
    """
    comparison = Comparison()
    count = 0
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as directory, start_scheduler(Path(directory)) as programs:
        while count < fleets and time.monotonic() < end:
            known = len(comparison.wrong)
            FleetComparison(
                programs, build_fleet(first + count), f"fleet {first + count}", comparison
            ).run()
            for text in comparison.wrong[known:]:
                print(text, flush=True)
            count += 1
            if count % 10 == 0:
                print(f"{count} fleets, {comparison.answers.total()} answers", flush=True)
    print(f"{count} fleets, {comparison.answers.total()} answers, {len(comparison.wrong)} wrong")
    for kind, number in sorted(comparison.answers.items()):
        print(f"  {kind}: {number}")
    print(
        f"{comparison.repetitions} runs repeated, because an answer that is not certain is "
        "one of several results"
    )
    return int(bool(comparison.wrong))


if __name__ == "__main__":
    arguments = sys.argv[1:]
    seed = int(arguments[2]) if len(arguments) > 2 else int(time.time()) % 1_000_000_000
    sys.exit(compare(float(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 300, seed))
