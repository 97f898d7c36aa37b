"""A cluster without kubelets: a real API server, kube-scheduler and kube-controller-manager, and pods that this
program reports as ready once they have a node.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.domains.hub.api_programs import CRDS, PROGRAMS, ApiPrograms, free_port

Body = dict[str, Any]
_CONTROLLERS = ("deployment", "replicaset", "statefulset", "daemonset", "job", "disruption", "resourceclaim")
DEVICE_KINDS = ("ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate")
PATHS = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Node": "/api/v1/nodes",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "Namespace": "/api/v1/namespaces",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims",
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates",
}
_MERGE = "application/strategic-merge-patch+json"
_CONTAINER_STATUS = {"restartCount": 0, "image": "", "imageID": ""}


class LiveCluster:
    """The running programs. `create` creates an object, `list_all` returns those of a kind."""

    def __init__(self, programs: ApiPrograms) -> None:
        self._programs = programs
        self._is_open = True
        self.keeps_unready: Callable[[Body], str] = lambda _: ""
        self._kubelet = threading.Thread(target=self._report_ready, daemon=True)
        self._kubelet.start()

    def close(self) -> None:
        """Stop the reports of readiness."""
        self._is_open = False
        self._kubelet.join()

    def create(self, body: Body) -> Body:
        path = PATHS[body["kind"]].format(body["metadata"].get("namespace", "default"))
        answer = self._programs.call("POST", path, body)
        assert "error" not in answer, (body, answer)
        if body["kind"] in ("Node", "Pod") and "status" in body:
            self._programs.call(
                "PATCH", f"{path}/{body['metadata']['name']}/status", {"status": body["status"]}, _MERGE
            )
        return answer

    def patch(self, kind: str, name: str, body: Body) -> Body:
        return self._programs.call("PATCH", f"{PATHS[kind].format('default')}/{name}", body, _MERGE)

    def label_namespace(self, key: str, value: str) -> None:
        """Set a label of the default namespace."""
        body = {"metadata": {"labels": {key: value}}}
        self._programs.call("PATCH", f"{PATHS['Namespace']}/default", body, _MERGE)

    def list_all(self, kind: str) -> list[Body]:
        path = PATHS[kind].replace("/namespaces/{}", "")
        answer = self._programs.call("GET", path)
        return [{"apiVersion": answer.get("apiVersion"), "kind": kind, **item} for item in answer.get("items", [])]

    def clear(self) -> None:
        """Delete all workloads, pods and nodes, and wait until none is left."""
        for kind in ("Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicaSet"):
            self._programs.call("DELETE", f"{PATHS[kind].format('default')}?propagationPolicy=Background")
        for _ in range(100):
            self._programs.call("DELETE", PATHS["ReplicaSet"].format("default"))
            for pod in self.list_all("Pod"):
                path = PATHS["Pod"].format(pod["metadata"]["namespace"])
                name = pod["metadata"]["name"]
                self._programs.call("DELETE", f"{path}/{name}?gracePeriodSeconds=0")
            if not any(self.list_all(kind) for kind in ("Pod", "ReplicaSet")):
                break
            time.sleep(0.1)
        self._programs.call("DELETE", PATHS["Node"])
        while self.list_all("Node"):
            time.sleep(0.05)
        while any(self.list_all(kind) for kind in DEVICE_KINDS):
            for claim in self.list_all("ResourceClaim"):
                self.patch("ResourceClaim", claim["metadata"]["name"], {"metadata": {"finalizers": None}})
            for kind in DEVICE_KINDS:
                self._programs.call("DELETE", PATHS[kind].format("default"))

    def wait_for_pods(self, pods: list[Body]) -> None:
        """Wait until these pods are reported as ready, and a little for the scheduler to see them."""
        while True:
            ready = [pod for pod in self.list_all("Pod") if pod["status"].get("containerStatuses")]
            if len(ready) >= len(pods):
                break
            time.sleep(0.05)
        time.sleep(0.3)

    def wait_until_settled(self, seconds: float = 1.5) -> list[Body]:
        """Return the pods once none of them has changed for some time."""
        last, since, end = "", time.monotonic(), time.monotonic() + 60
        while time.monotonic() < end:
            pods = self.list_all("Pod")
            state = json.dumps(sorted(_describe(pod) for pod in pods))
            if state != last:
                last, since = state, time.monotonic()
            is_decided = pods and all(map(_is_decided, pods))
            if time.monotonic() - since > (seconds if is_decided else 4 * seconds):
                return pods
            time.sleep(0.05)
        return self.list_all("Pod")

    def _report_ready(self) -> None:
        while self._is_open:
            for pod in self.list_all("Pod"):
                is_new = not pod["status"].get("containerStatuses") and "deletionTimestamp" not in pod["metadata"]
                if pod["spec"].get("nodeName") and is_new:
                    self._report(pod, self.keeps_unready(pod))
                elif pod["metadata"].get("deletionTimestamp"):
                    path = f"{PATHS['Pod'].format(pod['metadata']['namespace'])}/{pod['metadata']['name']}"
                    if pod["metadata"].get("finalizers"):  # of a Job, which waits for the end of the pod
                        self._programs.call("PATCH", f"{path}/status", {"status": {"phase": "Failed"}}, _MERGE)
                    self._programs.call("DELETE", f"{path}?gracePeriodSeconds=0")
            time.sleep(0.1)

    def _report(self, pod: Body, waiting: str) -> None:
        """Report a pod as ready, or as waiting for a reason."""
        metadata = pod["metadata"]
        path = f"{PATHS['Pod'].format(metadata['namespace'])}/{metadata['name']}/status"
        ready = {"type": "Ready", "status": "False" if waiting else "True", "lastTransitionTime": _get_time()}
        state = {"waiting": {"reason": waiting}} if waiting else {"running": {"startedAt": _get_time()}}
        statuses = [
            {
                "name": container["name"],
                "ready": not waiting,
                "restartCount": 0,
                "state": state,
                "image": "",
                "imageID": "",
            }
            for container in pod["spec"]["containers"]
        ]
        phase = "Pending" if waiting else "Running"
        status = {"phase": phase, "conditions": [ready], "containerStatuses": statuses, "startTime": _get_time()}
        self._programs.call("PATCH", path, {"status": status}, _MERGE)


def _get_time() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _describe(pod: Body) -> str:
    ready = [item["status"] for item in pod["status"].get("conditions", []) if item["type"] == "Ready"]
    return f"{pod['metadata']['name']} {pod['spec'].get('nodeName')} {pod['metadata'].get('deletionTimestamp')} {ready}"


def _is_decided(pod: Body) -> bool:
    """Return whether a pod has a node or waits without one; evicted pods and their preemptors are neither."""
    if pod["metadata"].get("deletionTimestamp"):
        return False
    return bool(pod["spec"].get("nodeName")) or (_is_rejected(pod) and not pod["status"].get("nominatedNodeName"))


def _is_rejected(pod: Body) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(item["type"] == "PodScheduled" and item["status"] == "False" for item in conditions)


@contextmanager
def start_cluster(directory: Path, programs_directory: Path = PROGRAMS) -> Iterator[LiveCluster]:
    """Start the programs in a directory, and end them afterwards."""
    programs = ApiPrograms(
        programs_directory, CRDS, directory, "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"
    )
    try:
        config = f"--kubeconfig={programs.kubeconfig}"
        common = (config, f"--authentication-kubeconfig={programs.kubeconfig}", "--leader-elect=false")
        authorization = f"--authorization-kubeconfig={programs.kubeconfig}"
        programs._start("kube-scheduler", *common, authorization, f"--secure-port={free_port()}")
        controllers = ",".join(f"{name}-controller" for name in _CONTROLLERS)
        programs._start(
            "kube-controller-manager",
            *common,
            authorization,
            f"--secure-port={free_port()}",
            f"--controllers={controllers}",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        )
        cluster = LiveCluster(programs)
        try:
            yield cluster
        finally:
            cluster.close()
    finally:
        programs.close()


def build_priority_classes(classes: Mapping[str, int]) -> list[Body]:
    return [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in classes.items()
    ]
