"""Benchmark of manifests on one cluster: processor time of a plan of many hub manifests.

Each has a ConfigMap and a Deployment of one pod, on a cluster that kubectl has listed.

Run: python -m tests.benchmarks.bench_manifests [manifests ...]
"""

from __future__ import annotations

import json
import sys
import time

from nexusform.workflow.opening.garbage_collection import collect_garbage_rarely
from tests.domains.pods.importers.cluster_objects import build_node
from tests.domains.pods.planning.test_cluster_observation import (
    OF_A,
    add_standard_objects,
    plan_observed,
)
from tests.domains.pods.planning.test_pods import build_deployment, build_manifest, build_workers
from tests.planning.harness import RACKS, require_success

SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}


def measure_plan(count: int) -> float:
    """Return the seconds of processor time of a plan with this number of manifests."""
    parts = [RACKS, build_workers(2), OF_A]
    for number in range(count):
        metadata = {"name": f"c{number}", "namespace": "default"}
        settings = json.dumps({**SETTINGS, "metadata": metadata})
        deployment = build_deployment(f"w{number}", 1, cpu="1m")
        parts.append(build_manifest(f"m{number}", settings, deployment))
    nodes = [build_node(f"a-np-{number}", "1000") for number in range(2)]
    for node in nodes:
        node["status"]["allocatable"] |= {"pods": "50000"}
    start = time.process_time()
    require_success(plan_observed("".join(parts), *add_standard_objects(*nodes)))
    return time.process_time() - start


def main() -> None:
    """Print the table."""
    collect_garbage_rarely()
    print("| manifests | processor time |")
    print("|---|---|")
    for count in map(int, sys.argv[1:] or ("400", "800", "1600")):
        print(f"| {count:,} | {measure_plan(count):.1f} s |", flush=True)


if __name__ == "__main__":
    main()
