"""Pods resized in place: each container uses the larger of its requested and its actual resources. Source:
kubernetes component-helpers/resource, determineContainerReqs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nexusform.documents.field_validation import get_mapping, get_value_at_path, list_mappings
from nexusform.kubernetes.quantity import InvalidQuantity, parse_quantity

CONTAINERS: Final = ("containers", "initContainers")
_STATUSES: Final = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}


def apply_allocated_requests(pod: Mapping[str, Any], section: str) -> Any:
    """Return the containers of a running pod (`section`: one of CONTAINERS) with their allocated requests."""
    status = get_mapping(pod, "status")
    containers, statuses = get_value_at_path(pod, "spec", section), list_mappings(status, _STATUSES[section])
    if not isinstance(containers, list) or not statuses:
        return containers
    # Without status.resources the scheduler reads the spec alone.
    allocated_by_name = {
        container_status.get("name"): _compute_allocated_resources(container_status)
        for container_status in statuses
        if isinstance(container_status.get("resources"), Mapping)
    }
    is_infeasible = _is_resize_infeasible(status)
    changed_containers = []
    for container in containers:
        amounts = None
        if isinstance(container, dict) and (section == "containers" or container.get("restartPolicy") == "Always"):
            amounts = allocated_by_name.get(container.get("name"))
        changed_containers.append(
            _replace_requests(container, amounts, replaces=is_infeasible) if amounts else container
        )
    return changed_containers


def _compute_allocated_resources(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the allocation of a container: the larger of actual and allocated resources."""
    actual = get_mapping(status, "resources", "requests")
    return _merge_larger_amounts(actual, get_mapping(status, "allocatedResources"))


def _is_resize_infeasible(status: Mapping[str, Any]) -> bool:
    """Return whether the node can never satisfy the resize: then only the actual resources count."""
    for condition in list_mappings(status, "conditions"):
        if condition.get("type") == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False


def _replace_requests(container: Mapping[str, Any], allocated: Mapping[str, Any], *, replaces: bool) -> dict[str, Any]:
    """Return the container with its allocated amounts, or the larger ones, as requests."""
    resources = get_mapping(container, "resources")
    requested = get_mapping(resources, "requests")
    requests = dict(allocated) if replaces else _merge_larger_amounts(requested, allocated)
    return {**container, "resources": {**resources, "requests": requests}}


def _merge_larger_amounts(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    amounts = dict(first)
    for name, amount in second.items():
        if name not in amounts or _parse_amount_in_nano(amount) > _parse_amount_in_nano(amounts[name]):
            amounts[name] = amount
    return amounts


def _parse_amount_in_nano(value: Any) -> int:
    quantity = parse_quantity(str(value))
    return 0 if isinstance(quantity, InvalidQuantity) else quantity.nano
