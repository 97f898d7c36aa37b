"""What an API server fills in where an object says nothing: a hub selects and overrides what it holds.

Source: Kubernetes 1.34 pkg/apis/{apps,autoscaling,batch,core,networking}/*/defaults.go, and the answers of an
API server.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable, Mapping
from typing import Any, Final

from nexusform.documents.shapes import mapping_at, objects_at
from nexusform.kubernetes.quantity import Malformed, parse_quantity

Object = dict[str, Any]


def with_defaults(body: Mapping[str, Any]) -> Object:
    """A copy of an object as an API server holds it, of the kinds of the table below."""
    filled = copy.deepcopy(dict(body))
    fill = _KINDS.get((str(filled.get("apiVersion")), str(filled.get("kind"))))
    if fill is not None:
        fill(filled)
    return filled


def _namespace(body: Object) -> None:
    metadata = _below(body, "metadata")
    labels = _below(metadata, "labels")
    labels.setdefault("kubernetes.io/metadata.name", metadata.get("name"))
    _below(body, "spec").setdefault("finalizers", ["kubernetes"])


def _deployment(body: Object) -> None:
    spec = _below(body, "spec")
    _fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
    strategy = _below(spec, "strategy")
    _fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        _fill(_below(strategy, "rollingUpdate"), {"maxUnavailable": "25%", "maxSurge": "25%"})
    _template(spec)


def _stateful_set(body: Object) -> None:
    spec = _below(body, "spec")
    _fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady"})
    claims = _below(spec, "persistentVolumeClaimRetentionPolicy")
    _fill(claims, {"whenDeleted": "Retain", "whenScaled": "Retain"})
    strategy = _below(spec, "updateStrategy")
    _fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        _fill(_below(strategy, "rollingUpdate"), {"partition": 0})
    for claim in objects_at(spec, "volumeClaimTemplates"):
        _fill(claim, {"apiVersion": "v1", "kind": "PersistentVolumeClaim"})
        _fill(_below(claim, "status"), {"phase": "Pending"})
        _claim(claim)
    _template(spec)


def _daemon_set(body: Object) -> None:
    spec = _below(body, "spec")
    _fill(spec, {"revisionHistoryLimit": 10})
    strategy = _below(spec, "updateStrategy")
    _fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        _fill(_below(strategy, "rollingUpdate"), {"maxUnavailable": 1, "maxSurge": 0})
    _template(spec)


def _replica_set(body: Object) -> None:
    spec = _below(body, "spec")
    _fill(spec, {"replicas": 1})
    _template(spec)


def _job(body: Object) -> None:
    spec, name = _below(body, "spec"), str(_below(body, "metadata").get("name"))
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    filled = {
        "parallelism": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "manualSelector": False,
        "podReplacementPolicy": "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed",
    }
    _fill(spec, filled)
    _template(spec)
    if not spec["manualSelector"]:
        labels = _below(_below(_below(spec, "template"), "metadata"), "labels")
        _fill(labels, {"job-name": name, "batch.kubernetes.io/job-name": name})
        # A Job without labels has those of its pods.
        _fill(_below(body, "metadata"), {"labels": dict(labels)})


def _cron_job(body: Object) -> None:
    spec = _below(body, "spec")
    filled = {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    }
    _fill(spec, filled)
    template = _below(spec, "jobTemplate")
    _below(template, "metadata")
    _template(_below(template, "spec"))


def _claim(body: Object) -> None:
    spec = _below(body, "spec")
    _fill(spec, {"volumeMode": "Filesystem"})
    _amounts(_below(spec, "resources"), "requests", "limits")


def _secret(body: Object) -> None:
    _fill(body, {"type": "Opaque"})
    for name, text in mapping_at(body.pop("stringData", None)).items():
        _below(body, "data")[name] = base64.b64encode(str(text).encode()).decode()


def _network_policy(body: Object) -> None:
    spec = _below(body, "spec")
    _fill(spec, {"policyTypes": ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]})
    for way in ("ingress", "egress"):
        for rule in objects_at(spec, way):
            for port in objects_at(rule, "ports"):
                _fill(port, {"protocol": "TCP"})


def _autoscaler(body: Object) -> None:
    spec = _below(body, "spec")
    target = {"type": "Utilization", "averageUtilization": 80}
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    _fill(spec, {"minReplicas": 1, "metrics": [cpu]})


def _limit_range(body: Object) -> None:
    for limit in objects_at(_below(body, "spec"), "limits"):
        _amounts(limit, "max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
        if limit.get("type") == "Container":
            for name, source in _OF_LIMITS:
                if limit.get(source):
                    _fill(_below(limit, name), limit[source])


_OF_LIMITS: Final = (("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min"))


def _quota(body: Object) -> None:
    _amounts(_below(body, "spec"), "hard")


def _amounts(target: Object, *names: str) -> None:
    """Write quantities as an API server does: `1` as "1", "1000m" as "1"."""
    for name in names:
        for key, written in mapping_at(target, name).items():
            quantity = parse_quantity(str(written))
            if not isinstance(quantity, Malformed):
                target[name][key] = str(quantity)


def _service(body: Object) -> None:
    spec = _below(body, "spec")
    _fill(spec, {"type": "ClusterIP", "sessionAffinity": "None"})
    if spec["type"] != "ExternalName":
        filled = {
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
        }
        _fill(spec, filled)
    if spec["type"] in ("LoadBalancer", "NodePort"):
        _fill(spec, {"externalTrafficPolicy": "Cluster"})
    if spec["type"] == "LoadBalancer":
        _fill(spec, {"allocateLoadBalancerNodePorts": True})
    for port in objects_at(spec, "ports"):
        _fill(port, {"protocol": "TCP", "targetPort": port.get("port")})


def _template(spec: Object) -> None:
    """Fill in the pods of a workload."""
    template = _below(spec, "template")
    _below(template, "metadata")
    pods = _below(template, "spec")
    always = {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
    }
    _fill(pods, always)
    _below(pods, "securityContext")
    for name in ("initContainers", "containers"):
        for container in objects_at(pods, name):
            _container(container)
    for volume in objects_at(pods, "volumes"):
        for source in ("configMap", "secret", "projected", "downwardAPI"):
            _fill_where_written(volume, source, {"defaultMode": 420})
        _fill_where_written(volume, "hostPath", {"type": ""})


def _container(container: Object) -> None:
    image = str(container.get("image") or "")
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    newest = "@" not in image and tag in ("", "latest")
    filled = {
        "imagePullPolicy": "Always" if newest else "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    _fill(container, filled)
    _amounts(_below(container, "resources"), "limits", "requests")
    for variable in objects_at(container, "env"):
        _fill_where_written(mapping_at(variable, "valueFrom"), "fieldRef", {"apiVersion": "v1"})
    for port in objects_at(container, "ports"):
        _fill(port, {"protocol": "TCP"})
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        _fill_where_written(container, name, _PROBE)
        _fill_where_written(mapping_at(container, name), "httpGet", {"scheme": "HTTP", "path": "/"})


_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def _fill(target: Object, defaults: Mapping[str, Any]) -> None:
    for name, value in defaults.items():
        if target.get(name) is None:
            target[name] = value


def _fill_where_written(target: Mapping[str, Any], name: str, defaults: Mapping[str, Any]) -> None:
    """Fill in the mapping under a name, where there is one."""
    inner = target.get(name)
    if isinstance(inner, dict):
        _fill(inner, defaults)


def _below(target: Object, name: str) -> Object:
    """The mapping under a name, made where there is none; of anything else a copy that nobody keeps."""
    inner = target.get(name)
    if inner is None:
        inner = target[name] = {}
    return inner if isinstance(inner, dict) else {}


_KINDS: Final[Mapping[tuple[str, str], Callable[[Object], None]]] = {
    ("v1", "Namespace"): _namespace,
    ("v1", "Service"): _service,
    ("apps/v1", "Deployment"): _deployment,
    ("apps/v1", "StatefulSet"): _stateful_set,
    ("apps/v1", "DaemonSet"): _daemon_set,
    ("apps/v1", "ReplicaSet"): _replica_set,
    ("batch/v1", "Job"): _job,
    ("batch/v1", "CronJob"): _cron_job,
    ("v1", "PersistentVolumeClaim"): _claim,
    ("v1", "Secret"): _secret,
    ("v1", "LimitRange"): _limit_range,
    ("v1", "ResourceQuota"): _quota,
    ("networking.k8s.io/v1", "NetworkPolicy"): _network_policy,
    ("autoscaling/v2", "HorizontalPodAutoscaler"): _autoscaler,
}
