"""Convert recordings of running systems into cases of `nexusform conformance`.

Run: python -m tests.conformance.record HUB_CASES POD_CASES. HUB_CASES has
fleets.json, POD_CASES scheduler.json.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Body = dict[str, Any]
_FOLDER = Path(__file__).parent
_HEARTBEAT = "2026-11-21T00:00:00Z"
_CLASSES = {"lo": (-10, ""), "mid": (100, ""), "hi": (1000, ""), "never": (1000, "Never")}


def convert_fleets(fleets: Iterable[Body]) -> Iterator[Body]:
    """Yield a case per placement and step of the recorded fleets."""
    for fleet in fleets:
        previous: Body = {"clusters": [], "placements": {}}
        for step in fleet["steps"]:
            for name, placement in step["placements"].items():
                before = previous["placements"].get(name)
                yield {
                    "system": "kubefleet",
                    "version": "e160c1cd",
                    "snapshot": {
                        "members": [_build_member(cluster) for cluster in previous["clusters"]],
                        "placement": before and _build_placement(name, before, fleet["strategy"]),
                        "bindings": [
                            {
                                "cluster": cluster,
                                "state": state,
                                "affinity": affinity,
                                "topologySpread": spread,
                            }
                            for cluster, (state, spread, affinity) in sorted(
                                (before or {"bindings": {}})["bindings"].items()
                            )
                        ],
                        "fulfilled": bool(before and before["scheduled"][0]),
                    },
                    "request": {
                        "members": [_build_member(cluster) for cluster in step["clusters"]],
                        "placement": _build_placement(name, placement, fleet["strategy"]),
                    },
                    "decision": {
                        "clusters": {
                            cluster: {"affinity": affinity, "topologySpread": spread}
                            for cluster, (state, spread, affinity) in sorted(
                                placement["bindings"].items()
                            )
                            if state != "Unscheduled"
                        },
                        "fulfilled": placement["scheduled"][0],
                    },
                    "equivalent": [],
                }
            previous = step


def _build_member(cluster: Body) -> Body:
    """Build the MemberCluster of a recorded cluster."""
    names = {"total": "capacity"}
    usage = {
        names.get(name, name): amounts for name, amounts in (cluster.get("resources") or {}).items()
    }
    healthy = "True" if cluster["state"] == "healthy" else "False"
    properties = cluster.get("properties") or {}
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": {"name": cluster["name"], "labels": cluster.get("labels") or {}},
        "spec": {"taints": cluster.get("taints") or []},
        "status": {
            "conditions": [{"type": "Joined", "status": "True"}],
            "properties": {
                name: {"value": value, "observationTime": _HEARTBEAT}
                for name, value in properties.items()
            },
            "resourceUsage": {**usage, "observationTime": _HEARTBEAT},
            "agentStatus": [
                {
                    "type": "MemberAgent",
                    "lastReceivedHeartbeat": _HEARTBEAT,
                    "conditions": [
                        {"type": "Joined", "status": "True"},
                        {
                            "type": "Healthy",
                            "status": healthy,
                            "lastTransitionTime": "2026-11-20T00:00:00Z",
                        },
                    ],
                }
            ],
        },
    }


def _build_placement(name: str, placement: Body, strategy: str) -> Body:
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": name},
        "spec": {
            "policy": placement["policy"],
            "resourceSelectors": [
                {"group": "", "version": "v1", "kind": "Namespace", "name": name}
            ],
            "strategy": {"type": strategy},
        },
    }


def convert_pods(cases: Iterable[Body], version: str) -> Iterator[Body]:
    """Yield a case per recorded decision of kube-scheduler."""
    shared: list[Body] = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"team": team}},
        }
        for name, team in (("ns1", "x"), ("ns2", "y"))
    ]
    shared += [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            **({"preemptionPolicy": policy} if policy else {}),
        }
        for name, (value, policy) in _CLASSES.items()
    ]
    for case in cases:
        nodes = [{"apiVersion": "v1", "kind": "Node", **node} for node in case["nodes"]]
        for node in nodes:
            node["status"] = {**node["status"], "nodeInfo": {"kubeletVersion": version}}
        pods = [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in case["standing"]]
        # A list without any pod could be a list without its pods.
        pods.append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "finished", "namespace": "default"},
                "spec": {"containers": [{"name": "c", "image": "i:1"}]},
                "status": {"phase": "Succeeded"},
            }
        )
        budgets = [
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", **item}
            for item in case.get("pdbs", [])
        ]
        services = [
            {"apiVersion": "v1", "kind": "Service", **item} for item in case.get("services", [])
        ]
        extra = case.get("extra", [])
        classes = [item for item in extra if item["kind"] == "RuntimeClass"]
        node_name = {"bound": case.get("bound_to"), "nominated": case.get("nominated")}.get(
            case["result"]
        )
        yield {
            "system": "kube-scheduler",
            "version": version.removeprefix("v"),
            "snapshot": {"objects": [*nodes, *pods, *shared, *extra, *budgets]},
            "request": {"objects": [*services, *classes, case["pod"]]},
            "decision": {"node": node_name},
            "equivalent": [
                {"node": name} for name in case.get("choices") or () if name != node_name
            ],
        }


def write_cases(path: Path, cases: Iterable[Body]) -> None:
    """Write cases, one per line.

    The same cases give the same bytes.
    """
    lines = [json.dumps(case, separators=(",", ":"), sort_keys=True) for case in cases]
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))


if __name__ == "__main__":
    hub = Path(sys.argv[1])
    pods = Path(sys.argv[2])
    recording = json.loads((pods / "scheduler.json").read_bytes())
    write_cases(
        _FOLDER / "kubefleet.jsonl.gz",
        convert_fleets(json.loads((hub / "fleets.json").read_bytes())),
    )
    write_cases(
        _FOLDER / "kube-scheduler.jsonl.gz",
        convert_pods(recording["cases"], recording["versions"]["kube-scheduler"]),
    )
