"""Pods that are being resized in place: each container holds the larger of what it asks for and what it has.

Source: kubernetes component-helpers/resource, determineContainerReqs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nexusform.documents.shapes import mapping_at, mappings_at, value_at
from nexusform.kubernetes.quantity import Malformed, parse_quantity

CONTAINERS: Final = ("containers", "initContainers")
_STATUSES: Final = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}


def as_allocated(pod: Mapping[str, Any], of: str) -> Any:
    """The containers of a running pod (`of`: which of CONTAINERS) with the requests that they hold."""
    status = mapping_at(pod, "status")
    containers, statuses = value_at(pod, "spec", of), mappings_at(status, _STATUSES[of])
    if not isinstance(containers, list) or not statuses:
        return containers
    held = {each.get("name"): _held(each) for each in statuses}
    infeasible = _is_infeasible(status)
    changed = []
    for container in containers:
        amounts = held.get(container.get("name")) if isinstance(container, dict) else None
        changed.append(_with_requests(container, amounts, instead=infeasible) if amounts else container)
    return changed


def _held(status: Mapping[str, Any]) -> dict[str, Any]:
    """What a container has been given: the larger of what it has and what is set aside for it."""
    actual = mapping_at(status, "resources", "requests")
    return _larger(actual, mapping_at(status, "allocatedResources"))


def _is_infeasible(status: Mapping[str, Any]) -> bool:
    """Whether the node can never give what is asked for: then only what the pod has counts."""
    for condition in mappings_at(status, "conditions"):
        if condition.get("type") == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False


def _with_requests(container: Mapping[str, Any], held: Mapping[str, Any], *, instead: bool) -> dict[str, Any]:
    """The container, asking for what it holds `instead` of what it asks for, or for the larger of both."""
    resources = mapping_at(container, "resources")
    asked = mapping_at(resources, "requests")
    requests = dict(held) if instead else _larger(asked, held)
    return {**container, "resources": {**resources, "requests": requests}}


def _larger(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The larger amount of each resource."""
    amounts = dict(one)
    for name, amount in other.items():
        if name not in amounts or _nano(amount) > _nano(amounts[name]):
            amounts[name] = amount
    return amounts


def _nano(written: Any) -> int:
    quantity = parse_quantity(str(written))
    return 0 if isinstance(quantity, Malformed) else quantity.nano
