"""A cluster without kubelets: a real API server, kube-scheduler and kube-controller-manager.

This program reports pods with a node as ready.
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
_CONTROLLERS = (
    "deployment",
    "replicaset",
    "replicationcontroller",
    "statefulset",
    "daemonset",
    "job",
    "disruption",
    "resourceclaim",
)
DEVICE_KINDS = ("ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate")
# Controllers of scenarios: of autoscalers, quotas, evictions by taints, and volumes.
_STORY_CONTROLLERS = (
    *("horizontal-pod-autoscaler", "resourcequota", "taint-eviction"),
    *("persistentvolume-binder", "ephemeral-volume"),
)
_SHORT_TIMES = ("--horizontal-pod-autoscaler-sync-period=1s", "--resource-quota-sync-period=2s")
_POLICY_FLAGS = (
    "--feature-gates=MutatingAdmissionPolicy=true",
    "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
    "--default-not-ready-toleration-seconds=1",
    "--default-unreachable-toleration-seconds=1",
)
_ADMISSION = "/apis/admissionregistration.k8s.io"
PATHS = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "ReplicationController": "/api/v1/namespaces/{}/replicationcontrollers",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "ControllerRevision": "/apis/apps/v1/namespaces/{}/controllerrevisions",
    "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Node": "/api/v1/nodes",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "Namespace": "/api/v1/namespaces",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "ResourceQuota": "/api/v1/namespaces/{}/resourcequotas",
    "LimitRange": "/api/v1/namespaces/{}/limitranges",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
    "MutatingWebhookConfiguration": f"{_ADMISSION}/v1/mutatingwebhookconfigurations",
    "MutatingAdmissionPolicy": f"{_ADMISSION}/v1beta1/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": f"{_ADMISSION}/v1beta1/mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": f"{_ADMISSION}/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{_ADMISSION}/v1/validatingadmissionpolicybindings",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "CSIDriver": "/apis/storage.k8s.io/v1/csidrivers",
    "CSIStorageCapacity": "/apis/storage.k8s.io/v1/namespaces/{}/csistoragecapacities",
    "VolumeAttachment": "/apis/storage.k8s.io/v1/volumeattachments",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims",
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates",
}
_MERGE = "application/strategic-merge-patch+json"


class LiveCluster:
    """The running programs.

    `create` creates an object, `list_all` returns those of a kind.
    """

    def __init__(self, programs: ApiPrograms) -> None:
        self._programs = programs
        self._is_open = True
        self.keeps_unready: Callable[[Body], str] = lambda _: ""
        self.keeps_terminating: Callable[[Body], bool] = lambda _: False
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
                "PATCH",
                f"{path}/{body['metadata']['name']}/status",
                {"status": body["status"]},
                _MERGE,
            )
        return answer

    def patch(self, kind: str, name: str, body: Body, subresource: str = "") -> Body:
        path = f"{PATHS[kind].format('default')}/{name}"
        return self._programs.call("PATCH", f"{path}/{subresource}".rstrip("/"), body, _MERGE)

    def apply(self, body: Body) -> Body:
        """Apply a manifest as the manager of placements.

        An answer with `error` is a rejection.
        """
        namespace = body["metadata"].get("namespace", "default")
        path = f"{PATHS[body['kind']].format(namespace)}/{body['metadata']['name']}"
        return self._programs.apply(path, body, "nexusform")

    def evict(self, name: str) -> Body:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": "default"},
        }
        return self._programs.call(
            "POST", f"{PATHS['Pod'].format('default')}/{name}/eviction", body
        )

    def delete(self, kind: str, name: str = "") -> Body:
        return self._programs.call("DELETE", f"{PATHS[kind].format('default')}/{name}".rstrip("/"))

    def delete_all(self, kind: str, namespace: str) -> Body:
        """Delete all objects of a kind in a namespace."""
        return self._programs.call("DELETE", PATHS[kind].format(namespace))

    def label_namespace(self, key: str, value: str | None) -> None:
        """Set a label of the default namespace; None removes it."""
        body = {"metadata": {"labels": {key: value}}}
        self._programs.call("PATCH", f"{PATHS['Namespace']}/default", body, _MERGE)

    def list_all(self, kind: str) -> list[Body]:
        """List the objects of a kind, without the namespace kube-system.

        Without kubelets no pod runs in it, so pods would count as not listed.
        """
        path = PATHS[kind].replace("/namespaces/{}", "")
        answer = self._programs.call("GET", path)
        bodies = [
            {"apiVersion": answer.get("apiVersion"), "kind": kind, **item}
            for item in answer.get("items", [])
        ]
        return [
            body
            for body in bodies
            if kind != "Namespace" or body["metadata"]["name"] != "kube-system"
        ]

    def clear(self) -> None:
        """Delete all workloads, pods and nodes, and wait until none is left."""
        kinds = ("Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicationController")
        for kind in (*kinds, "ReplicaSet"):
            self._programs.call(
                "DELETE", f"{PATHS[kind].format('default')}?propagationPolicy=Background"
            )
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
                self.patch(
                    "ResourceClaim", claim["metadata"]["name"], {"metadata": {"finalizers": None}}
                )
            for kind in DEVICE_KINDS:
                self._programs.call("DELETE", PATHS[kind].format("default"))

    def wait_for_pods(self, pods: list[Body]) -> None:
        """Wait until these pods are reported as ready.

        Wait until the scheduler has seen them and all nodes, too.
        """
        while True:
            ready = [pod for pod in self.list_all("Pod") if pod["status"].get("containerStatuses")]
            if len(ready) >= len(pods):
                break
            time.sleep(0.05)
        self._wait_for_scheduler()
        # For the controllers.
        time.sleep(0.3)

    def _wait_for_scheduler(self) -> None:
        """Wait until a pod runs on each node.

        The scheduler sees pods and nodes in the order of their changes.
        """
        nodes = self.list_all("Node")
        for node in nodes:
            spec = {
                "containers": [{"name": "c", "image": "img:1"}],
                "nodeSelector": {
                    "kubernetes.io/hostname": node["metadata"]["labels"]["kubernetes.io/hostname"]
                },
                "tolerations": [{"operator": "Exists"}],
            }
            metadata = {"name": f"probe-{node['metadata']['name']}", "namespace": "default"}
            self.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        probes = [
            f"{PATHS['Pod'].format('default')}/probe-{node['metadata']['name']}" for node in nodes
        ]
        for probe in probes:
            while not self._programs.call("GET", probe)["spec"].get("nodeName"):
                time.sleep(0.02)
        for probe in probes:
            self._programs.call("DELETE", f"{probe}?gracePeriodSeconds=0")

    def wait_until_settled(self, seconds: float = 1.5) -> list[Body]:
        """Return the pods after none of them has changed for some time.

        The time is shorter if all pods exist and run.
        """
        last = ""
        since = time.monotonic()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            pods = self.list_all("Pod")
            state = json.dumps(sorted(_describe(pod) for pod in pods))
            if state != last:
                last = state
                since = time.monotonic()
            is_decided = pods and all(map(_is_decided, pods))
            quiet = time.monotonic() - since
            if quiet > (seconds if is_decided else 4 * seconds) and not self._awaits_job_pods(pods):
                return pods
            is_placed = is_decided and all(pod["spec"].get("nodeName") for pod in pods)
            if quiet > seconds / 3 and is_placed and self._are_complete():
                return pods
            time.sleep(0.1)
        return self.list_all("Pod")

    def _awaits_job_pods(self, pods: list[Body]) -> bool:
        """Return whether a Job will replace pods.

        It does so 10 s after the first eviction, and later after the next ones.
        """
        owners = [
            pod["metadata"].get("ownerReferences", [{}])[0].get("uid")
            for pod in pods
            if not has_ended(pod)
        ]
        return any(
            owners.count(body["metadata"]["uid"]) < body["spec"]["parallelism"]
            for body in self.list_all("Job")
        )

    def _are_complete(self) -> bool:
        """Return whether each controller reports all of its pods as ready."""
        counts = {
            "Deployment": ("replicas", "readyReplicas"),
            "ReplicationController": ("replicas", "readyReplicas"),
            "StatefulSet": ("replicas", "readyReplicas"),
            "Job": ("parallelism", "ready"),
        }
        for kind, (wanted, ready) in counts.items():
            if any(
                body["status"].get(ready, 0) != body["spec"][wanted] for body in self.list_all(kind)
            ):
                return False
        return all(
            body["status"].get("observedGeneration")
            and body["status"].get("numberReady") == body["status"].get("desiredNumberScheduled")
            for body in self.list_all("DaemonSet")
        )

    def _report_ready(self) -> None:
        while self._is_open:
            for pod in self.list_all("Pod"):
                is_new = (
                    not pod["status"].get("containerStatuses")
                    and "deletionTimestamp" not in pod["metadata"]
                )
                if pod["spec"].get("nodeName") and is_new:
                    self._report(pod, self.keeps_unready(pod))
                elif pod["metadata"].get("deletionTimestamp") and not self.keeps_terminating(pod):
                    pods_path = PATHS["Pod"].format(pod["metadata"]["namespace"])
                    path = f"{pods_path}/{pod['metadata']['name']}"
                    # Of a Job, because it waits for the end of the pod.
                    if pod["metadata"].get("finalizers"):
                        self._programs.call(
                            "PATCH", f"{path}/status", {"status": {"phase": "Failed"}}, _MERGE
                        )
                    self._programs.call("DELETE", f"{path}?gracePeriodSeconds=0")
            time.sleep(0.1)

    def _report(self, pod: Body, waiting: str) -> None:
        """Report a pod as ready, or as waiting for a reason."""
        metadata = pod["metadata"]
        path = f"{PATHS['Pod'].format(metadata['namespace'])}/{metadata['name']}/status"
        ready = {
            "type": "Ready",
            "status": "False" if waiting else "True",
            "lastTransitionTime": _get_time(),
        }
        state = (
            {"waiting": {"reason": waiting}} if waiting else {"running": {"startedAt": _get_time()}}
        )
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
        started = pod["status"].get("startTime", _get_time())
        status = {
            "phase": phase,
            "conditions": [ready],
            "containerStatuses": statuses,
            "startTime": started,
        }
        self._programs.call("PATCH", path, {"status": status}, _MERGE)


def _get_time() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _describe(pod: Body) -> str:
    ready = [
        item["status"] for item in pod["status"].get("conditions", []) if item["type"] == "Ready"
    ]
    return (
        f"{pod['metadata']['name']} {pod['spec'].get('nodeName')} "
        f"{pod['metadata'].get('deletionTimestamp')} {ready}"
    )


def has_ended(pod: Body) -> bool:
    """Return whether a pod has ended or is being deleted.

    Pods of a Job may stay listed for some time.
    """
    return pod["status"].get("phase") == "Failed" or "deletionTimestamp" in pod["metadata"]


def _is_decided(pod: Body) -> bool:
    """Return whether a pod has a node or is pending without one.

    Evicted pods and their preemptors are neither.
    """
    if pod["metadata"].get("deletionTimestamp"):
        return False
    return bool(pod["spec"].get("nodeName")) or (
        _is_rejected(pod) and not pod["status"].get("nominatedNodeName")
    )


def _is_rejected(pod: Body) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(item["type"] == "PodScheduled" and item["status"] == "False" for item in conditions)


@contextmanager
def start_cluster(
    directory: Path, programs_directory: Path = PROGRAMS, *, has_stories: bool = False
) -> Iterator[LiveCluster]:
    """Start the programs in a directory, and stop them afterwards."""
    flags = _POLICY_FLAGS if has_stories else ()
    # Stories have ServiceAccounts, and no controller that ends the protection of volumes.
    other = "StorageObjectInUseProtection" if has_stories else "ServiceAccount"
    disabled = f"{other},TaintNodesByCondition"
    programs = ApiPrograms(
        programs_directory, CRDS, directory, f"--disable-admission-plugins={disabled}", *flags
    )
    try:
        config = f"--kubeconfig={programs.kubeconfig}"
        common = (
            config,
            f"--authentication-kubeconfig={programs.kubeconfig}",
            "--leader-elect=false",
        )
        authorization = f"--authorization-kubeconfig={programs.kubeconfig}"
        programs._start("kube-scheduler", *common, authorization, f"--secure-port={free_port()}")
        names = (*_CONTROLLERS, *(_STORY_CONTROLLERS if has_stories else ()))
        controllers = ",".join(f"{name}-controller" for name in names)
        programs._start(
            "kube-controller-manager",
            *common,
            authorization,
            f"--secure-port={free_port()}",
            f"--controllers={controllers}",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            *(_SHORT_TIMES if has_stories else ()),
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
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in classes.items()
    ]
