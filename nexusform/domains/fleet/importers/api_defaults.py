"""What an API server fills in where an object says nothing: a hub selects and overrides what it holds.

Source: Kubernetes 1.34 pkg/apis/{apps,batch,core}/v1/defaults.go; an API server's answers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

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
    _template(spec)


def _daemon_set(body: Object) -> None:
    spec = _below(body, "spec")
    _fill(spec, {"revisionHistoryLimit": 10})
    strategy = _below(spec, "updateStrategy")
    _fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        _fill(_below(strategy, "rollingUpdate"), {"maxUnavailable": 1, "maxSurge": 0})
    _template(spec)


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
    for port in _items(spec, "ports"):
        _fill(port, {"protocol": "TCP", "targetPort": port.get("port")})


def _template(spec: Object) -> None:
    """Fill in the pods of a workload."""
    pods = _below(_below(spec, "template"), "spec")
    always = {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
    }
    _fill(pods, always)
    _below(pods, "securityContext")
    for name in ("initContainers", "containers"):
        for container in _items(pods, name):
            _container(container)
    for volume in _items(pods, "volumes"):
        for source in ("configMap", "secret", "projected", "downwardAPI"):
            if isinstance(volume.get(source), dict):
                _fill(volume[source], {"defaultMode": 420})


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
    _below(container, "resources")
    for port in _items(container, "ports"):
        _fill(port, {"protocol": "TCP"})
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if isinstance(probe, dict):
            _fill(
                probe,
                {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
            )
            if isinstance(probe.get("httpGet"), dict):
                _fill(probe["httpGet"], {"scheme": "HTTP", "path": "/"})


_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def _fill(target: Object, defaults: Mapping[str, Any]) -> None:
    for name, value in defaults.items():
        if target.get(name) is None:
            target[name] = value


def _below(target: Object, name: str) -> Object:
    """The mapping under a name, made where there is none; of anything else a copy that nobody keeps."""
    inner = target.get(name)
    if inner is None:
        inner = target[name] = {}
    return inner if isinstance(inner, dict) else {}


def _items(target: Object, name: str) -> Iterator[Object]:
    listed = target.get(name)
    yield from (item for item in listed if isinstance(item, dict)) if isinstance(listed, list) else ()


_KINDS: Final[Mapping[tuple[str, str], Callable[[Object], None]]] = {
    ("v1", "Namespace"): _namespace,
    ("v1", "Service"): _service,
    ("apps/v1", "Deployment"): _deployment,
    ("apps/v1", "StatefulSet"): _stateful_set,
    ("apps/v1", "DaemonSet"): _daemon_set,
}
