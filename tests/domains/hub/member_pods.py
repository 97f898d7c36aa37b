"""Pods of members: one API server with kube-scheduler and controllers runs all of them.

Each member has its own nodes and its own namespaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.nightly.live_cluster import Body, LiveCluster

_LABEL = "member"


class MemberPods:
    """Member runtime in a live cluster."""

    def __init__(self, cluster: LiveCluster) -> None:
        self._cluster = cluster

    def add_node(self, member: str, node: Body) -> None:
        """Add a node of a member."""
        node["metadata"]["labels"][_LABEL] = member
        self._cluster.create(node)

    def apply(self, member: str, work: Mapping[str, Any]) -> bool:
        """Apply the Deployments of a Work; return whether all of their pods are ready."""
        is_available = True
        for namespace, manifest in _list_deployments(member, work):
            self._cluster.apply(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            )
            metadata = {"name": manifest["metadata"]["name"], "namespace": namespace}
            spec = manifest["spec"]
            template = {
                **spec["template"],
                "spec": {**spec["template"]["spec"], "nodeSelector": {_LABEL: member}},
            }
            body = {**manifest, "metadata": metadata, "spec": {**spec, "template": template}}
            answer = self._cluster.apply(body)
            status = answer.get("status") or {}
            is_current = status.get("observedGeneration") == (answer.get("metadata") or {}).get(
                "generation"
            )
            is_available &= is_current and status.get("readyReplicas", 0) == spec["replicas"]
        return is_available

    def remove(self, member: str, work: Mapping[str, Any]) -> None:
        """Delete the Deployments of a Work with their pods."""
        for namespace, _ in _list_deployments(member, work):
            for kind in ("Deployment", "ReplicaSet", "Pod"):
                self._cluster.delete_all(kind, namespace)

    def count_ready(self, namespace: str) -> int:
        """Return the number of ready pods of a namespace on all members."""
        pods = self._cluster.list_all("Pod")
        own = [pod for pod in pods if pod["metadata"]["namespace"].partition("-")[2] == namespace]
        return sum(_is_ready(pod) for pod in own if not pod["metadata"].get("deletionTimestamp"))

    def list_waiting(self) -> list[str]:
        """Return the pods without a node."""
        pods = [pod for pod in self._cluster.list_all("Pod") if not pod["spec"].get("nodeName")]
        return [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods]


def _is_ready(pod: Body) -> bool:
    return any(
        item["type"] == "Ready" and item["status"] == "True"
        for item in pod["status"].get("conditions", ())
    )


def _list_deployments(member: str, work: Mapping[str, Any]) -> list[tuple[str, Body]]:
    """Return the Deployments of a Work, each with its namespace in the live cluster."""
    manifests = work["spec"].get("workload", {}).get("manifests") or ()
    found = [manifest for manifest in manifests if manifest.get("kind") == "Deployment"]
    return [(f"{member}-{manifest['metadata']['namespace']}", manifest) for manifest in found]
