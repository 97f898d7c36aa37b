"""Granting approval requests, which the hub makes itself when a stage is done."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from nexusform.domains.hub.api.hub import Hub
from nexusform.domains.hub.providers.hub_standing import generation_of, is_approved, name_of
from nexusform.ports import ChangeRequest, StepNews

MANAGER: Final = "nexusform"


def approve(hub: Hub, path: str, step: ChangeRequest) -> bool:
    """Grant a request; False while it is not there. Granted before, nothing is sent. Raises Refused."""
    request = hub.get(path)
    if request is None:
        return False
    if not is_approved(request):
        step.tell(StepNews(words=f"{name_of(request)} is approved"))
        hub.merge(f"{path}/status", {"status": {"conditions": _conditions(request)}}, MANAGER)
    return True


def _conditions(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The conditions of a request with the approval."""
    kept = [c for c in (request.get("status") or {}).get("conditions") or () if c.get("type") != "Approved"]
    approved = {
        "type": "Approved",
        "status": "True",
        "reason": "ApprovedByNexusform",
        "message": "approved by the configuration",
        "observedGeneration": generation_of(request),
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return [*kept, approved]
