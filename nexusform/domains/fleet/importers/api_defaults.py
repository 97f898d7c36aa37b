"""Defaults filled in by an API server: a hub selects and overrides objects with them.

Source: Kubernetes 1.34 pkg/apis/{apps,autoscaling,batch,core,networking}/*/defaults.go, and
responses of an API server.
"""

import base64
import copy
from collections.abc import Callable, Mapping
from typing import Any, Final

from nexusform.json_data.plain_data import get_mapping, get_text, list_objects
from nexusform.kubernetes.quantity import InvalidQuantity, parse_quantity

Object = dict[str, Any]


def add_api_server_defaults(body: Mapping[str, Any]) -> Object:
    """Return a copy of an object with the API server's defaults.

    `_FILLERS` has a function for each kind with defaults.
    """
    result = copy.deepcopy(dict(body))
    fill = _FILLERS.get((str(result.get("apiVersion")), str(result.get("kind"))))
    if fill is not None:
        fill(result)
    return result


def _fill_namespace_defaults(body: Object) -> None:
    metadata = _ensure_mapping(body, "metadata")
    labels = _ensure_mapping(metadata, "labels")
    labels.setdefault("kubernetes.io/metadata.name", metadata.get("name"))
    _ensure_mapping(body, "spec").setdefault("finalizers", ["kubernetes"])


def _fill_deployment_defaults(body: Object) -> None:
    spec = _ensure_mapping(body, "spec")
    _fill_missing_fields(
        spec, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}
    )
    _fill_update_strategy(spec, "strategy", {"maxUnavailable": "25%", "maxSurge": "25%"})
    _fill_pod_template(spec)


def _fill_stateful_set_defaults(body: Object) -> None:
    """Fill the defaults of a StatefulSet in place.

    Its claim templates and pod template are included.
    """
    spec = _ensure_mapping(body, "spec")
    _fill_missing_fields(
        spec, {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady"}
    )
    claims = _ensure_mapping(spec, "persistentVolumeClaimRetentionPolicy")
    _fill_missing_fields(claims, {"whenDeleted": "Retain", "whenScaled": "Retain"})
    _fill_update_strategy(spec, "updateStrategy", {"partition": 0})
    for claim in list_objects(spec, "volumeClaimTemplates"):
        _fill_missing_fields(claim, {"apiVersion": "v1", "kind": "PersistentVolumeClaim"})
        _fill_missing_fields(_ensure_mapping(claim, "status"), {"phase": "Pending"})
        _fill_volume_claim_defaults(claim)
    _fill_pod_template(spec)


def _fill_daemon_set_defaults(body: Object) -> None:
    spec = _ensure_mapping(body, "spec")
    _fill_missing_fields(spec, {"revisionHistoryLimit": 10})
    _fill_update_strategy(spec, "updateStrategy", {"maxUnavailable": 1, "maxSurge": 0})
    _fill_pod_template(spec)


def _fill_update_strategy(spec: Object, name: str, rolling_defaults: Mapping[str, Any]) -> None:
    """Fill the update strategy in the field of this name.

    Other types than RollingUpdate have no parameters.
    """
    strategy = _ensure_mapping(spec, name)
    _fill_missing_fields(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        _fill_missing_fields(_ensure_mapping(strategy, "rollingUpdate"), rolling_defaults)


def _fill_replica_set_defaults(body: Object) -> None:
    spec = _ensure_mapping(body, "spec")
    _fill_missing_fields(spec, {"replicas": 1})
    _fill_pod_template(spec)


def _fill_job_defaults(body: Object) -> None:
    """Fill the defaults of a Job in place.

    Labels are filled only if the API server, not the user, generates the selector.
    """
    spec = _ensure_mapping(body, "spec")
    name = str(_ensure_mapping(body, "metadata").get("name"))
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    defaults = {
        "parallelism": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "manualSelector": False,
        "podReplacementPolicy": "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed",
    }
    _fill_missing_fields(spec, defaults)
    _fill_pod_template(spec)
    # Else the user sets selector and labels.
    if not spec["manualSelector"]:
        labels = _ensure_mapping(
            _ensure_mapping(_ensure_mapping(spec, "template"), "metadata"), "labels"
        )
        _fill_missing_fields(labels, {"job-name": name, "batch.kubernetes.io/job-name": name})
        # A Job without labels gets those of its pods.
        _fill_missing_fields(_ensure_mapping(body, "metadata"), {"labels": dict(labels)})


def _fill_cron_job_defaults(body: Object) -> None:
    """Fill the defaults of a CronJob in place, including the pod template of its Jobs."""
    spec = _ensure_mapping(body, "spec")
    defaults = {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    }
    _fill_missing_fields(spec, defaults)
    template = _ensure_mapping(spec, "jobTemplate")
    _ensure_mapping(template, "metadata")
    _fill_pod_template(_ensure_mapping(template, "spec"))


def _fill_volume_claim_defaults(body: Object) -> None:
    spec = _ensure_mapping(body, "spec")
    _fill_missing_fields(spec, {"volumeMode": "Filesystem"})
    _normalize_quantities(_ensure_mapping(spec, "resources"), "requests", "limits")


def _fill_secret_defaults(body: Object) -> None:
    _fill_missing_fields(body, {"type": "Opaque"})
    # A server moves it to `data`.
    for name, text in get_mapping(body.pop("stringData", None)).items():
        _ensure_mapping(body, "data")[name] = base64.b64encode(str(text).encode()).decode()


def _fill_network_policy_defaults(body: Object) -> None:
    """Fill the defaults of a NetworkPolicy in place.

    Egress is a policy type only if it has egress rules.
    """
    spec = _ensure_mapping(body, "spec")
    _fill_missing_fields(
        spec, {"policyTypes": ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]}
    )
    for direction in ("ingress", "egress"):
        for rule in list_objects(spec, direction):
            for port in list_objects(rule, "ports"):
                _fill_missing_fields(port, {"protocol": "TCP"})


def _fill_autoscaler_defaults(body: Object) -> None:
    spec = _ensure_mapping(body, "spec")
    target = {"type": "Utilization", "averageUtilization": 80}
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    _fill_missing_fields(spec, {"minReplicas": 1, "metrics": [cpu]})


def _fill_limit_range_defaults(body: Object) -> None:
    """Normalize the quantities of a LimitRange in place.

    Containers get missing defaults from `max` and `min`.
    """
    for limit in list_objects(_ensure_mapping(body, "spec"), "limits"):
        _normalize_quantities(
            limit, "max", "min", "default", "defaultRequest", "maxLimitRequestRatio"
        )
        if limit.get("type") == "Container":
            # (field, source): the field gets missing amounts from its source, in this order.
            for name, source in (
                ("default", "max"),
                ("defaultRequest", "default"),
                ("defaultRequest", "min"),
            ):
                if limit.get(source):
                    _fill_missing_fields(_ensure_mapping(limit, name), limit[source])


def _normalize_resource_quota_quantities(body: Object) -> None:
    _normalize_quantities(_ensure_mapping(body, "spec"), "hard")


def _normalize_quantities(target: Object, *names: str) -> None:
    """Write quantities like an API server: `1` as "1", "1000m" as "1"."""
    for name in names:
        for key, value in get_mapping(target, name).items():
            quantity = parse_quantity(str(value))
            if not isinstance(quantity, InvalidQuantity):
                target[name][key] = str(quantity)


_INTERNAL_SERVICE: Final = {
    "internalTrafficPolicy": "Cluster",
    "ipFamilies": ["IPv4"],
    "ipFamilyPolicy": "SingleStack",
}
_NODE_PORT_SERVICE: Final = {**_INTERNAL_SERVICE, "externalTrafficPolicy": "Cluster"}
_SERVICE_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "ClusterIP": _INTERNAL_SERVICE,
    "NodePort": _NODE_PORT_SERVICE,
    "LoadBalancer": {**_NODE_PORT_SERVICE, "allocateLoadBalancerNodePorts": True},
}


def _fill_service_defaults(body: Object) -> None:
    """Fill the defaults of a Service in place.

    They include those of its type, and protocol and target of ports.
    """
    spec = _ensure_mapping(body, "spec")
    _fill_missing_fields(spec, {"type": "ClusterIP", "sessionAffinity": "None"})
    # Those of its type.
    _fill_missing_fields(spec, _SERVICE_DEFAULTS.get(str(spec["type"]), {}))
    for port in list_objects(spec, "ports"):
        _fill_missing_fields(port, {"protocol": "TCP", "targetPort": port.get("port")})


def _fill_pod_template(spec: Object) -> None:
    """Add the API server's defaults to the pod template in the spec of a workload."""
    template = _ensure_mapping(spec, "template")
    _ensure_mapping(template, "metadata")
    pods = _ensure_mapping(template, "spec")
    defaults = {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
    }
    _fill_missing_fields(pods, defaults)
    _ensure_mapping(pods, "securityContext")
    for name in ("initContainers", "containers"):
        for container in list_objects(pods, name):
            _fill_container(container)
    for volume in list_objects(pods, "volumes"):
        for source in ("configMap", "secret", "projected", "downwardAPI"):
            _fill_defaults_if_mapping_exists(
                volume, source, {"defaultMode": 420}
            )  # 0o644, rw-r--r--
        _fill_defaults_if_mapping_exists(volume, "hostPath", {"type": ""})


def _fill_container(container: Object) -> None:
    """Add the API server's defaults to a container in place."""
    image = get_text(container, "image")
    # Of registry:5000/team/web:1.2@sha256:..., the tag is 1.2. Images with a digest never change.
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    is_latest = "@" not in image and tag in ("", "latest")
    defaults = {
        "imagePullPolicy": "Always" if is_latest else "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    _fill_missing_fields(container, defaults)
    _normalize_quantities(_ensure_mapping(container, "resources"), "limits", "requests")
    for variable in list_objects(container, "env"):
        _fill_defaults_if_mapping_exists(
            get_mapping(variable, "valueFrom"), "fieldRef", {"apiVersion": "v1"}
        )
    for port in list_objects(container, "ports"):
        _fill_missing_fields(port, {"protocol": "TCP"})
    probe_defaults = {
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        _fill_defaults_if_mapping_exists(container, name, probe_defaults)
        _fill_defaults_if_mapping_exists(
            get_mapping(container, name), "httpGet", {"scheme": "HTTP", "path": "/"}
        )


def _fill_missing_fields(target: Object, defaults: Mapping[str, Any]) -> None:
    """Set the fields absent or null in `target` to their defaults."""
    for name, value in defaults.items():
        if target.get(name) is None:
            target[name] = value


def _fill_defaults_if_mapping_exists(
    target: Mapping[str, Any], name: str, defaults: Mapping[str, Any]
) -> None:
    inner = target.get(name)
    if isinstance(inner, dict):
        _fill_missing_fields(inner, defaults)


def _ensure_mapping(target: Object, name: str) -> Object:
    """Return the mapping under a name, created if absent.

    If the value is no mapping, return {} and change nothing.
    """
    inner = target.get(name)
    if inner is None:
        inner = target[name] = {}
    return inner if isinstance(inner, dict) else {}


_FILLERS: Final[Mapping[tuple[str, str], Callable[[Object], None]]] = {
    ("v1", "Namespace"): _fill_namespace_defaults,
    ("v1", "Service"): _fill_service_defaults,
    ("apps/v1", "Deployment"): _fill_deployment_defaults,
    ("apps/v1", "StatefulSet"): _fill_stateful_set_defaults,
    ("apps/v1", "DaemonSet"): _fill_daemon_set_defaults,
    ("apps/v1", "ReplicaSet"): _fill_replica_set_defaults,
    ("batch/v1", "Job"): _fill_job_defaults,
    ("batch/v1", "CronJob"): _fill_cron_job_defaults,
    ("v1", "PersistentVolumeClaim"): _fill_volume_claim_defaults,
    ("v1", "Secret"): _fill_secret_defaults,
    ("v1", "LimitRange"): _fill_limit_range_defaults,
    ("v1", "ResourceQuota"): _normalize_resource_quota_quantities,
    ("networking.k8s.io/v1", "NetworkPolicy"): _fill_network_policy_defaults,
    ("autoscaling/v2", "HorizontalPodAutoscaler"): _fill_autoscaler_defaults,
}
