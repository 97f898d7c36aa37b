"""Observed conditions of pods and nodes: readiness, restarts, containers that do not start, and their times."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from nexusform.documents.field_validation import get_mapping, list_mappings
from nexusform.domains.pods.scheduling.cluster_records import PodCondition

_STARTING: Final = ("ContainerCreating", "PodInitializing", "")
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_STATUSES: Final = ("initContainerStatuses", "containerStatuses")
NOT_READY: Final = "NotReady"


def reduce_pod_condition(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the condition of a pod from kubectl as plain data for `build_pod_condition`."""
    metadata, status = get_mapping(body, "metadata"), get_mapping(body, "status")
    ready = _find_condition(status, "Ready")
    statuses = [item for section in _STATUSES for item in list_mappings(status, section)]
    is_ready = ready.get("status", "True") == "True"
    condition: dict[str, Any] = {
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
        "phase": status.get("phase"),
        "creation_time": parse_time(metadata.get("creationTimestamp")),
        "ready_time": parse_time(ready.get("lastTransitionTime")) if is_ready else 0,
        "restarts": max((_get_restart_count(item) for item in statuses), default=0),
        "deletion_cost": _parse_deletion_cost(get_mapping(metadata, "annotations").get(_DELETION_COST)),
    }
    if not is_ready:
        reasons = [str(get_mapping(item, "state", "waiting").get("reason") or "") for item in statuses]
        stuck_reasons = [reason for reason in reasons if reason not in _STARTING]
        is_running = status.get("phase") == "Running"
        condition |= {
            "is_ready": False,
            "stuck_reason": stuck_reasons[0] if stuck_reasons else NOT_READY if is_running else "",
            "stuck_since": str(ready.get("lastTransitionTime") or status.get("startTime") or ""),
        }
    # `is_ready` = False equals 0, and stays.
    return {name: value for name, value in condition.items() if value is False or value not in (None, 0, "")}


def build_pod_condition(data: Mapping[str, Any]) -> PodCondition:
    """Return the condition of a pod reduced by `reduce_pod_condition`."""
    return PodCondition(**data)


def _find_condition(status: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return next((item for item in list_mappings(status, "conditions") if item.get("type") == name), {})


def _get_restart_count(container_status: Mapping[str, Any]) -> int:
    count = container_status.get("restartCount")
    return count if isinstance(count, int) else 0


def _parse_deletion_cost(text: Any) -> int:
    try:
        return int(text or 0)
    except (TypeError, ValueError):
        return 0


def parse_time(text: Any) -> int:
    """Return a time of Kubernetes as seconds since 1970, 0 for any other text."""
    try:
        return int(datetime.fromisoformat(str(text)).astimezone(UTC).timestamp()) if text else 0
    except ValueError:
        return 0


def reduce_node_condition(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether a node is ready ("" if unknown), and its newest heartbeat in seconds since 1970."""
    status = get_mapping(body, "status")
    ready = str(_find_condition(status, "Ready").get("status") or "")
    newest = max((parse_time(item.get("lastHeartbeatTime")) for item in list_mappings(status, "conditions")), default=0)
    return {"ready": ready, "heartbeat": newest}
