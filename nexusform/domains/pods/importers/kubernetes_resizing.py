"""Pods that are being resized in place: each container holds the larger of what it asks for and what it has.

Source: kubernetes component-helpers/resource, determineContainerReqs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nexusform.scheduling.quantity import Malformed, parse_quantity

CONTAINERS: Final = ("containers", "initContainers")
_STATUSES: Final = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}


def as_allocated(pod: Mapping[str, Any], of: str) -> Any:
    """The containers of a running pod (`of`: which of CONTAINERS) with the requests that they hold."""
    spec, status = _mapping(pod.get("spec")), _mapping(pod.get("status"))
    containers, statuses = spec.get(of), status.get(_STATUSES[of])
    if not isinstance(containers, list) or not isinstance(statuses, list):
        return containers
    held = {each.get("name"): _held(each) for each in statuses if isinstance(each, dict)}
    infeasible = _is_infeasible(status)
    changed = []
    for container in containers:
        amounts = held.get(container.get("name")) if isinstance(container, dict) else None
        changed.append(_with_requests(container, amounts, instead=infeasible) if amounts else container)
    return changed


def _held(status: Mapping[str, Any]) -> dict[str, Any]:
    """What a container has been given: the larger of what it has and what is set aside for it."""
    actual = _mapping(_mapping(status.get("resources")).get("requests"))
    return _larger(actual, _mapping(status.get("allocatedResources")))


def _is_infeasible(status: Mapping[str, Any]) -> bool:
    """Whether the node can never give what is asked for: then only what the pod has counts."""
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if _mapping(condition).get("type") == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False


def _with_requests(container: Mapping[str, Any], held: Mapping[str, Any], *, instead: bool) -> dict[str, Any]:
    resources = _mapping(container.get("resources"))
    asked = _mapping(resources.get("requests"))
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


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
