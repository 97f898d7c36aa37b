"""Test objects in the format of `kubectl get nodes,pods -A -o json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def build_namespace(name: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a Namespace with the label that every API server sets."""
    all_labels = {"kubernetes.io/metadata.name": name, **(labels or {})}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": all_labels},
    }


# A dump with Namespaces, and without the one of the system: its pods are not missing.
DEFAULT_NAMESPACE: dict[str, Any] = build_namespace("default")

# Of every kubelet, beside the name of the host.
PLATFORM_LABELS = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}


def build_node(name: str, cpu: str = "8", *, provider_id: str = "", **more: Any) -> dict[str, Any]:
    """Return a ready node of 8 CPUs and 32 GiB, with a heartbeat at the time of test plans."""
    amounts = {"cpu": cpu, "memory": "32Gi", "pods": "110", **more.pop("resources", {})}
    labels = {"kubernetes.io/hostname": name, **PLATFORM_LABELS, **more.pop("labels", {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": provider_id, **more},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
            ],
        },
    }


def build_pod(
    name: str,
    on: str,
    cpu: str = "1",
    *,
    owner: tuple[str, str] = ("", ""),
    phase: str = "Running",
    **more: Any,
) -> dict[str, Any]:
    """Return a pod with one container.

    `owner` is kind and name of its controller, `started` its start time.
    """
    started = more.pop("started", "")
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "labels": more.pop("labels", {}),
    }
    if owner[0]:
        metadata["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "controller": True}]
    if more.pop("terminating", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    environment = [{"name": "PASSWORD", "value": "hidden"}]
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}, "env": environment}
    spec = {"nodeName": on, "containers": [container], **more}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": phase} | ({"startTime": started} if started else {}),
    }


def print_objects(*objects: dict[str, Any]) -> bytes:
    """Return the objects as one list in JSON."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode()
