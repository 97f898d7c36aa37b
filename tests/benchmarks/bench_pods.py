"""Benchmark of pod scheduling.

It measures the processor time of 10,000 pods with anti-affinity and spread on 1,000 nodes, or of
the verification of certainty on small clusters, with equal repetitions computed once and each time.

Run: python tests/benchmarks/bench_pods.py [pods] [nodes]
     python tests/benchmarks/bench_pods.py --certainty
"""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

from msgspec.structs import replace

from nexusform.domains.pods.scheduling.assumptions import PredictionScenario, find_doubtful_pods
from nexusform.domains.pods.scheduling.cluster_records import (
    DEFAULT_SEED,
    Cluster,
    ExistingPod,
    Node,
    PodSpec,
    PodTerm,
    Requests,
    SpreadConstraint,
    Workload,
)
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.random_choices import (
    RandomChoices,
    RandomFacts,
    RepeatedPrediction,
)
from nexusform.kubernetes.matching import build_label_selector

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
MACHINE = "topology.kubernetes.io/baremetalmachine"
MIB = 1 << 20


def build_cluster(nodes: int) -> Cluster:
    """Return a cluster with two workers per machine in three zones."""
    found = []
    for number in range(nodes):
        name = f"w{number:05}"
        machine = f"m{number // 2:05}"
        zone = f"zone-{number % 3}"
        labels = {HOST: name, MACHINE: machine, ZONE: zone}
        found.append(Node(name, labels, cpu=46_000, memory=224 << 30, machine=machine, zone=zone))
    return Cluster("bench", tuple(found))


def build_workload(number: int, replicas: int, shape: str) -> Workload:
    """Return a Deployment of one of the common shapes."""
    name = f"app-{number:04}"
    own = build_label_selector({"app": name})
    apart = PodTerm(MACHINE, own, ("default",))
    spread = (SpreadConstraint(ZONE, 1, True, own),)
    soft = (SpreadConstraint(ZONE, 1, False, own), SpreadConstraint(HOST, 1, False, own))
    hard = shape in ("required anti-affinity and spread", "mixed") and (
        shape != "mixed" or number % 2 == 0
    )
    pod = PodSpec(
        labels=(("app", name),),
        requests=Requests(250, 256 * MIB),
        scored_requests=Requests(250, 256 * MIB),
        anti_affinity=(apart,) if hard else (),
        preferred_anti_affinity=() if hard else (PodTerm(MACHINE, own, ("default",), None, 100),),
        spread=spread if hard else soft,
        default_spread=own,
        template=name,
    )
    return Workload("Deployment", "default", name, replicas, pod)


def print_row(pods: int, nodes: int, replicas: int, shape: str) -> None:
    """Measure one case and print its row."""
    here = build_cluster(nodes)
    wanted = [build_workload(number, replicas, shape) for number in range(pods // replicas)]
    before = time.process_time()
    prediction = predict(here, (), wanted)
    first = time.process_time() - before
    standing: tuple[ExistingPod, ...] = prediction.list_existing_pods()
    before = time.process_time()
    predict(here, standing, wanted)
    again = time.process_time() - before
    pending = sum(outcome.is_pending for outcome in prediction.outcomes)
    print(
        f"| {shape} | {pods:,} in {len(wanted):,} | {nodes:,} | {first:.2f} s | {again:.2f} s "
        f"| {pending} |"
    )


def measure_certainty(workloads: int, nodes: int) -> tuple[float, int]:
    """Return the seconds of a verification of three pods per workload, and the doubtful pods."""
    # Of different sizes, so that few nodes are tied.
    cluster = Cluster(
        "bench",
        tuple(
            replace(node, cpu=8_000 * (number + 1))
            for number, node in enumerate(build_cluster(nodes).nodes)
        ),
    )
    wanted = tuple(build_workload(number, 3, "mixed") for number in range(workloads))
    scene = PredictionScenario(cluster, (), wanted, DEFAULT_SEED)
    outcomes = predict(cluster, (), wanted).outcomes
    before = time.process_time()
    doubts = find_doubtful_pods(scene, outcomes)
    return time.process_time() - before, len(doubts)


def print_certainty() -> None:
    """Print the table of verifications."""
    print("| workloads of 3 pods | nodes | computed once | each time | ratio | doubtful |")
    print("|---:|---:|---:|---:|---:|---:|")
    repeat = RepeatedPrediction.repeat
    for workloads, nodes in ((1, 2), (1, 6), (2, 3), (2, 8), (6, 12)):
        shared, doubtful = measure_certainty(workloads, nodes)
        RepeatedPrediction.repeat = _predict_again  # type: ignore[method-assign]
        single, single_doubtful = measure_certainty(workloads, nodes)
        RepeatedPrediction.repeat = repeat  # type: ignore[method-assign]
        assert doubtful == single_doubtful
        print(
            f"| {workloads} | {nodes} | {shared:.2f} s | {single:.2f} s | {shared / single:.2f} "
            f"| {doubtful} |"
        )


def _predict_again(repeated: RepeatedPrediction[Any], facts: RandomFacts) -> object:
    return repeated._predict(RandomChoices(facts))


def main() -> None:
    """Print the table."""
    if sys.argv[1:] == ["--certainty"]:
        print_certainty()
        return
    pods = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    nodes = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000
    print("| rules | pods in workloads | nodes | from nothing | nothing changed | Pending |")
    print("|---|---|---|---|---|---|")
    for shape in (
        "required anti-affinity and spread",
        "preferred anti-affinity and soft spread",
        "mixed",
    ):
        for replicas in (10, 100, 500):
            print_row(pods, nodes, replicas, shape)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"\npeak memory of the process: {peak / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
