"""Observed conditions of pods and nodes.

They are readiness, restarts, containers that do not start, the times of these, and the resources of
pods resized in place.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from nexusform.documents.scalars import parse_integer
from nexusform.domains.pods.importers.manifest_parser import get_integer
from nexusform.json_data.plain_data import get_mapping, get_text, get_value_at_path, list_mappings
from nexusform.kubernetes.quantity import read_quantity_or_zero

_STARTING: Final = ("ContainerCreating", "PodInitializing", "")
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
CONTAINERS: Final = ("containers", "initContainers")
_STATUSES: Final = {"initContainers": "initContainerStatuses", "containers": "containerStatuses"}
NOT_READY: Final = "NotReady"
# Taints by the conditions of nodes that lead to them (pkg/controller/nodelifecycle).
_CONDITION_TAINTS: Final = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}


def reduce_pod_condition(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return readiness, restarts and times of a pod as data for `PodCondition`.

    kubectl lists them. Default values are left out.
    """
    metadata = get_mapping(body, "metadata")
    status = get_mapping(body, "status")
    ready = _find_condition(status, "Ready")
    statuses = [item for section in _STATUSES.values() for item in list_mappings(status, section)]
    # A pod without this condition counts as ready.
    is_ready = ready.get("status", "True") == "True"
    condition: dict[str, Any] = {
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
        "phase": status.get("phase"),
        "creation_time": parse_time(metadata.get("creationTimestamp")),
        "ready_time": parse_time(ready.get("lastTransitionTime")) if is_ready else 0,
        "restarts": max((get_integer(item, "restartCount", 0) for item in statuses), default=0),
        "deletion_cost": parse_integer(
            get_text(metadata, "annotations", _DELETION_COST), signed=True
        )
        or 0,
    }
    if not is_ready:
        # "" for a container not waiting; the other texts of _STARTING are those of a normal start.
        reasons = [get_text(item, "state", "waiting", "reason") for item in statuses]
        stuck_reasons = (reason for reason in reasons if reason not in _STARTING)
        default_reason = NOT_READY if status.get("phase") == "Running" else ""
        condition |= {
            "is_ready": False,
            "stuck_reason": next(stuck_reasons, default_reason),
            "stuck_since": str(ready.get("lastTransitionTime") or status.get("startTime") or ""),
        }
    # `is_ready` = False equals 0, but is kept, as its default is True.
    return {
        name: value
        for name, value in condition.items()
        if value is False or value not in (None, 0, "")
    }


def _find_condition(status: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return next(
        (item for item in list_mappings(status, "conditions") if item.get("type") == name), {}
    )


def parse_time(text: Any) -> int:
    """Return a time of Kubernetes as seconds since 1970, 0 for any other text."""
    try:
        return int(datetime.fromisoformat(str(text)).astimezone(UTC).timestamp())
    except ValueError:
        # Also for an absent time: "None" or "".
        return 0


def reduce_node_condition(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status of a node's Ready condition ("" without one), and its newest heartbeat.

    The heartbeat is in seconds since 1970. `coming_taints` are the taints that the node gets by its
    conditions. `is_terminating` means that it is being deleted.
    """
    status = get_mapping(body, "status")
    ready = get_text(_find_condition(status, "Ready"), "status")
    newest = max(
        (parse_time(item.get("lastHeartbeatTime")) for item in list_mappings(status, "conditions")),
        default=0,
    )
    coming_taints = [
        taint
        for condition, taint in _CONDITION_TAINTS.items()
        if get_text(_find_condition(status, condition), "status") == "True"
    ]
    return {
        "ready": ready,
        "heartbeat": newest,
        "coming_taints": coming_taints,
        "terminating": get_value_at_path(body, "metadata", "deletionTimestamp") is not None,
    }


def apply_allocated_requests(pod: Mapping[str, Any], section: str) -> Any:
    """Return the containers of a pod in a `section` (one of CONTAINERS).

    Running ones get the requests counted by the scheduler: during a resize in
    place, the larger ones of requested and actual resources. Source:
    kubernetes component-helpers/resource, determineContainerReqs.
    """
    status = get_mapping(pod, "status")
    containers = get_value_at_path(pod, "spec", section)
    statuses = list_mappings(status, _STATUSES[section])
    if not isinstance(containers, list) or not statuses:
        # The pod is invalid, or did not start.
        return containers
    # The larger of actual and allocated resources. Without status.resources the scheduler reads
    # the spec alone.
    amounts_by_name = {
        get_text(container_status, "name"): _merge_larger_amounts(
            get_mapping(container_status, "resources", "requests"),
            get_mapping(container_status, "allocatedResources"),
        )
        for container_status in statuses
        if isinstance(container_status.get("resources"), Mapping)
    }
    # The node can never satisfy an infeasible resize: then only the actual resources count.
    is_infeasible = _find_condition(status, "PodResizePending").get("reason") == "Infeasible"
    changed_containers = []
    for container in containers:
        # A container or a sidecar keeps running.
        keeps_running = section == "containers" or get_text(container, "restartPolicy") == "Always"
        amounts = amounts_by_name.get(get_text(container, "name"))
        if not keeps_running or not amounts:
            # The container has finished, or has no allocated resources.
            changed_containers.append(container)
            continue
        resources = get_mapping(container, "resources")
        if not is_infeasible:
            amounts = _merge_larger_amounts(get_mapping(resources, "requests"), amounts)
        changed_containers.append(
            {**get_mapping(container), "resources": {**resources, "requests": amounts}}
        )
    return changed_containers


def apply_allocated_pod_requests(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the resources of a pod of its own, {} without any.

    During a resize in place, they are the larger ones of requested and actual resources. Source:
    kubernetes component-helpers/resource, PodRequests.
    """
    resources = get_mapping(pod, "spec", "resources")
    status = get_mapping(pod, "status")
    amounts = _merge_larger_amounts(
        get_mapping(status, "resources", "requests"), get_mapping(status, "allocatedResources")
    )
    # Without status.resources the scheduler reads the spec alone.
    if not resources or not isinstance(status.get("resources"), Mapping):
        return resources
    # The node can never satisfy an infeasible resize: then only the actual resources count.
    if _find_condition(status, "PodResizePending").get("reason") != "Infeasible":
        amounts = _merge_larger_amounts(get_mapping(resources, "requests"), amounts)
    return {**resources, "requests": amounts}


def _merge_larger_amounts(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resources of both, each with the larger amount."""
    amounts = dict(first)
    for name, amount in second.items():
        if name not in amounts or read_quantity_or_zero(amounts[name]) < read_quantity_or_zero(
            amount
        ):
            amounts[name] = amount
    return amounts
