"""Record decisions of a running kube-scheduler on random clusters, for a given time.

Run: python -m tests.conformance.record_scheduler PROGRAMS MINUTES FILE. Adds cases
to FILE (*.jsonl.gz).

The pods of a cluster are created at once. The log of the scheduler has its attempts in their order,
the scores of all feasible nodes, and the results. So each attempt is a decision on the pods of all
attempts before it, and the nodes with the best score are equally right.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct, field

from nexusform.domains.program_checks.workflow import scheduler_check
from nexusform.domains.program_checks.workflow.loopback_programs import (
    LoopbackPrograms,
    open_programs,
    read_version,
)
from tests.conformance.case_writer import run_recorder
from tests.nightly import pod_worlds

Body = dict[str, Any]
_PODS = "/api/v1/namespaces/default/pods"
# For the decisions of one cluster.
_SECONDS = 30.0
_APPS = "abcdef"
_LINE = re.compile(
    rb'"(?P<text>Attempting to schedule pod|Calculated node\'s final score for pod|Successfully '
    rb"bound pod to node|"
    rb'Unable to schedule pod; no fit; waiting)" pod="default/(?P<pod>[^"]+)"(?: '
    rb'node="(?P<node>[^"]+)")?'
    rb"(?: score=(?P<score>-?\d+))?(?: evaluatedNodes=(?P<evaluated>\d+) "
    rb"feasibleNodes=(?P<feasible>\d+))?"
    rb'(?: err="0/(?P<total>\d+) )?'
)
# A list without any pod could be a list without its pods.
_FINISHED = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "finished", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
    "status": {"phase": "Succeeded"},
}


class Attempt(Struct):
    """Attempt to schedule a pod.

    It has the scores by node, the chosen node ("" = none), and the numbers of nodes.
    """

    pod: str
    scores: dict[str, int] = field(default_factory=dict)
    node: str | None = None
    evaluated: int = 0
    feasible: int = 0


def build_nodes(draw: Random, prefix: str, version: str) -> list[Body]:
    """Build 2 to 8 nodes, often of equal size."""
    zones = draw.randint(1, 3)
    are_equal = draw.random() < 0.5
    nodes = [pod_worlds.build_node(draw, number, zones) for number in range(draw.randint(2, 8))]
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    for node in nodes:
        if are_equal:
            node["status"] |= {"capacity": amounts, "allocatable": amounts}
        name = f"{prefix}-{node['metadata']['name']}"
        node["metadata"]["name"] = node["metadata"]["labels"]["kubernetes.io/hostname"] = name
        node["status"]["nodeInfo"] = {**pod_worlds.NODE_INFO, "kubeletVersion": f"v{version}"}
        if draw.random() < 0.1:
            node["spec"] = {"taints": [{"key": "slow", "value": "y", "effect": "PreferNoSchedule"}]}
        if draw.random() < 0.05:
            node["spec"] = {"unschedulable": True}
        if draw.random() < 0.3:
            node["status"]["images"] = [
                {"names": ["img:1"], "sizeBytes": draw.choice((50, 300, 900)) << 20}
            ]
    return nodes


def build_pods(draw: Random, prefix: str) -> list[Body]:
    """Build 20 to 50 pods of some applications, in the order of their creation."""
    specs = {app: build_spec(draw, app) for app in _APPS}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{prefix}-{app}-{number}",
                "namespace": "default",
                "labels": {"app": app},
            },
            "spec": specs[app],
        }
        for number, app in enumerate(draw.choices(_APPS, k=draw.randint(20, 50)))
    ]


def build_spec(draw: Random, app: str) -> Body:
    """Build the spec of an application's pods."""
    spec = pod_worlds._build_spec(draw, app)
    # evictions are decisions of their own.
    spec.pop("priorityClassName", None)
    spec["preemptionPolicy"] = "Never"
    requests = spec["containers"][0]["resources"].get("requests")
    if requests and draw.random() < 0.7:
        requests |= {"cpu": f"{draw.choice((50, 100, 200))}m", "memory": "64Mi"}
    if draw.random() < 0.1:
        spec["containers"][0]["ports"] = [
            {"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}
        ]
    if draw.random() < 0.15:
        rule = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
        preferred = [{"weight": draw.choice((1, 10, 100)), "preference": rule}]
        terms = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        spec["affinity"] = {**spec.get("affinity", {}), "nodeAffinity": terms}
    return spec


def build_service(app: str) -> Body:
    """Build the Service behind the default spreading of an application."""
    metadata = {"name": app, "namespace": "default"}
    spec = {"clusterIP": "None", "selector": {"app": app}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


# The other applications have no default spreading.
_SERVICES = [build_service(app) for app in _APPS[:3]]


def record_decisions(programs: str, minutes: float) -> Iterator[Body]:
    """Yield the decisions on random clusters."""
    version = read_version(Path(programs, scheduler_check.PROGRAM), "--version")
    end = time.monotonic() + 60 * minutes
    with open_programs(programs) as running:
        scheduler_check.start_scheduler(running, "--vmodule=schedule*=10")
        for service in _SERVICES:
            running.call("POST", "/api/v1/namespaces/default/services", service)
        log = running.get_path(f"{scheduler_check.PROGRAM}.log")
        first_seed = int(time.time()) % 1_000_000_000
        for seed in itertools.count(first_seed):
            draw = Random(seed)
            is_first = first_seed == seed
            nodes = build_nodes(draw, f"w{seed}", version)
            pods = build_pods(draw, f"w{seed}")
            for node in nodes:
                running.call("POST", "/api/v1/nodes", node)
            placed_probe = place_probe(running, log, f"w{seed}", nodes)
            for pod in pods:
                running.call("POST", _PODS, pod)
            attempts = read_attempts(running, log, {pod["metadata"]["name"] for pod in pods})
            running.call("DELETE", f"{_PODS}?gracePeriodSeconds=0")
            running.call("DELETE", "/api/v1/nodes")
            # The program keeps its position: the file is sparse.
            os.truncate(log, 0)
            # The first nodes may be read in any order: then other sizes of an image with
            # several sizes count.
            if placed_probe is not None and not is_first:
                yield from build_cases([*nodes, placed_probe], pods, attempts, version)
            if time.monotonic() > end:
                return


def place_probe(
    running: LoopbackPrograms, log: Path, prefix: str, nodes: list[Body]
) -> Body | None:
    """Place a pod that all nodes accept, and return it.

    Return None if the scheduler has not read all nodes yet: then it may still know nodes of
    the cluster before.
    """
    names = [node["metadata"]["name"] for node in nodes]
    term = {
        "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": names}]
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": required},
    }
    metadata = {"name": f"{prefix}-probe", "namespace": "default"}
    pod: Body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    running.call("POST", _PODS, pod)
    attempt = read_attempts(running, log, {metadata["name"]})[-1]
    if not attempt.evaluated == attempt.feasible == len(nodes):
        return None
    return {**pod, "spec": {**spec, "nodeName": attempt.node}}


def read_attempts(running: LoopbackPrograms, log: Path, pods: set[str]) -> list[Attempt]:
    """Return the attempts until each pod has a result."""
    attempts: list[Attempt] = []
    last: dict[str, Attempt] = {}
    rest = b""
    with log.open("rb") as file:

        def is_decided() -> bool:
            nonlocal rest
            *lines, rest = (rest + file.read()).split(b"\n")
            for line in lines:
                if (match := _LINE.search(line)) and match["pod"].decode() in pods:
                    read_line(match, attempts, last)
            return len(last) == len(pods) and all(
                attempt.node is not None for attempt in last.values()
            )

        running.wait_for(scheduler_check.PROGRAM, is_decided, _SECONDS)
    return attempts


def read_line(match: re.Match[bytes], attempts: list[Attempt], last: dict[str, Attempt]) -> None:
    """Add a line of the log to the attempts.

    `last` has the last attempt of each pod.
    """
    name = match["pod"].decode()
    if match["text"].startswith(b"Attempting"):
        last[name] = Attempt(name)
        attempts.append(last[name])
    elif match["score"]:
        last[name].scores[match["node"].decode()] = int(match["score"])
    elif match["node"]:
        attempt = last[name]
        attempt.node = match["node"].decode()
        attempt.evaluated = int(match["evaluated"])
        attempt.feasible = int(match["feasible"])
    else:
        last[name].node = ""
        last[name].evaluated = int(match["total"] or 0)


def build_cases(
    objects: list[Body], pods: list[Body], attempts: list[Attempt], version: str
) -> Iterator[Body]:
    """Yield a case per attempt.

    An attempt without scores is left out. `objects` are nodes, and a placed pod.
    """
    by_name = {pod["metadata"]["name"]: pod for pod in pods}
    placed: list[Body] = []
    for attempt in attempts:
        pod = by_name[attempt.pod]
        best = max(attempt.scores.values(), default=0)
        equal = sorted(name for name, score in attempt.scores.items() if score == best)
        # kube-scheduler 1.36 repeats the scores of the pod before for an equal pod, and does
        # not log them.
        if attempt.feasible <= 1 or attempt.node in equal:
            yield {
                "system": scheduler_check.PROGRAM,
                "version": version,
                "snapshot": {"objects": [*objects, *placed, _FINISHED]},
                "request": {"objects": [*_SERVICES, pod]},
                "decision": {"node": attempt.node or None},
                "equivalent": [{"node": name} for name in equal if name != attempt.node],
            }
        if attempt.node:
            placed = [*placed, {**pod, "spec": {**pod["spec"], "nodeName": attempt.node}}]


if __name__ == "__main__":
    run_recorder(Path(sys.argv[3]), record_decisions(sys.argv[1], float(sys.argv[2])))
