"""A simple scheduler for scoring: select the first node, by name, with enough free CPU and memory.

It ignores taints.
"""

from __future__ import annotations

import json
import sys
from typing import Any

_UNITS = {"m": 0.001, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "k": 1e3, "M": 1e6, "G": 1e9}


def read_integer_or_percentage(text: str) -> float:
    """Return a Kubernetes quantity as a number."""
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    return float(text)


def read_demand(pod: dict[str, Any]) -> dict[str, float]:
    """Return the requests of a pod."""
    demand = {"cpu": 0.0, "memory": 0.0, "pods": 1.0}
    spec = pod.get("spec", {}).get("template", pod).get("spec", {})
    for container in spec.get("containers", []):
        for name, amount in container.get("resources", {}).get("requests", {}).items():
            demand[name] = demand.get(name, 0.0) + read_integer_or_percentage(str(amount))
    return demand


def find_node(question: dict[str, Any]) -> str | None:
    """Return the first node with enough capacity."""
    objects = question["snapshot"]["objects"]
    demand = read_demand(question["request"]["objects"][-1])
    for node in sorted(
        (item for item in objects if item["kind"] == "Node"),
        key=lambda node: node["metadata"]["name"],
    ):
        free = {
            name: read_integer_or_percentage(str(amount))
            for name, amount in node["status"]["allocatable"].items()
        }
        for pod in objects:
            if (
                pod["kind"] == "Pod"
                and pod.get("spec", {}).get("nodeName") == node["metadata"]["name"]
            ):
                for name, amount in read_demand(pod).items():
                    free[name] = free.get(name, 0.0) - amount
        if not node["spec"].get("taints") and all(
            free.get(name, 0.0) >= need for name, need in demand.items()
        ):
            return str(node["metadata"]["name"])
    return None


print(json.dumps({"node": find_node(json.load(sys.stdin))}))
