"""What a hub shows of objects, as a person would have written it; and which of them nobody writes.

Sources: KubeFleet pkg/utils/controller/resource_selector_resolver.go (what is taken out of an object before
it goes into a resource snapshot); the labels of Kubernetes' own objects.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any, Final

from nexusform.documents.shapes import objects_at, value_at
from nexusform.domains.fleet.importers.fleet_export import conditions_of, is_going
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.domains.pods.importers.kubernetes_manifests import (
    Manifest,
    is_envelope,
    is_fleet_group,
    never_selected,
)

# What only a server writes into an object's metadata.
_SERVERS: Final = (
    "managedFields",
    "resourceVersion",
    "uid",
    "generation",
    "creationTimestamp",
    "selfLink",
    "finalizers",
    "ownerReferences",
)
_SERVERS_ANNOTATIONS: Final = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.daemonset.template.generation",
    "deployment.kubernetes.io/revision",
)
_APPROVALS: Final = ("ClusterApprovalRequest", "ApprovalRequest")
_BOOTSTRAPPING: Final = "kubernetes.io/bootstrapping"
_OF_KUBERNETES: Final = frozenset(
    {
        ("apiregistration.k8s.io", "APIService"),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
        ("networking.k8s.io", "IPAddress"),
        ("networking.k8s.io", "ServiceCIDR"),
    }
)


def is_written(manifest: Manifest, services: Collection[tuple[str, str]]) -> bool:
    """Whether somebody wrote an object that a hub shows, and it stays: not what Kubernetes and the hub make
    themselves, nor what is being deleted. `services` as of `never_selected`.
    """
    if is_going(manifest.body):
        return False
    if is_fleet_group(manifest.group) and not is_envelope(manifest):
        return manifest.kind in API_KINDS
    if never_selected(manifest, services) is not None or _BOOTSTRAPPING in manifest.labels:
        return False
    if manifest.kind == "PriorityClass" and manifest.name.startswith("system-"):
        return False
    return (manifest.group, manifest.kind) not in _OF_KUBERNETES


def as_written(body: Mapping[str, Any]) -> dict[str, Any]:
    """An object without what the server says of it: two exports of one object are the same text. Of an
    approval request it stays that it is granted, which is all that people write there.
    """
    rest = copy.deepcopy({name: value for name, value in body.items() if name != "status"})
    metadata = rest.get("metadata")
    if isinstance(metadata, dict):
        for name in _SERVERS:
            metadata.pop(name, None)
        annotations = metadata.get("annotations")
        if isinstance(annotations, dict):
            for name in _SERVERS_ANNOTATIONS:
                annotations.pop(name, None)
        if not annotations:
            metadata.pop("annotations", None)
    _strip = _STRIPPED.get((str(rest.get("apiVersion")), str(rest.get("kind"))))
    if _strip is not None and isinstance(rest.get("spec"), dict):
        _strip(rest)
    if rest.get("kind") in _APPROVALS and _is_approved(body):
        rest["status"] = {"conditions": [{"type": "Approved", "status": "True"}]}
    ordered: dict[str, Any] = _in_order(rest)
    return ordered


def _is_approved(body: Mapping[str, Any]) -> bool:
    conditions = conditions_of(body)
    return any(one.get("type") == "Approved" and one.get("status") == "True" for one in conditions)


def _strip_service(body: dict[str, Any]) -> None:
    """Take out the addresses and node ports that the hub gave a Service."""
    spec = body["spec"]
    if spec.get("clusterIP") != "None":
        spec.pop("clusterIP", None)
        spec.pop("clusterIPs", None)
    spec.pop("healthCheckNodePort", None)
    for port in objects_at(spec, "ports"):
        port.pop("nodePort", None)


def _strip_job(body: dict[str, Any]) -> None:
    """Take out the selector and labels that the hub gave a Job."""
    spec = body["spec"]
    if spec.get("manualSelector"):
        return
    spec.pop("selector", None)
    for metadata in objects_at([body.get("metadata"), value_at(spec, "template", "metadata")]):
        metadata.pop("creationTimestamp", None)
        for labels in objects_at([metadata.get("labels")]):
            labels.pop("controller-uid", None)
            labels.pop("batch.kubernetes.io/controller-uid", None)


_STRIPPED: Final = {("v1", "Service"): _strip_service, ("batch/v1", "Job"): _strip_job}


def _in_order(value: Any) -> Any:
    """With the keys of every mapping by name: JSON and YAML of one object are the same text."""
    if isinstance(value, Mapping):
        return {name: _in_order(value[name]) for name in sorted(value, key=str)}
    return [_in_order(part) for part in value] if isinstance(value, list) else value
