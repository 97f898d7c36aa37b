"""Granting of approval requests, created by the hub after a stage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct, field

from nexusform.domains.hub.api.hub_client import HubClient
from nexusform.domains.hub.providers.hub_bodies import HubObject
from nexusform.domains.hub.providers.rollout_progress import get_generation, get_name, is_approved
from nexusform.interfaces.plugins import ChangeRequest, StepProgress

MANAGER: Final = "nexusform"


class ApplyCoordination(Struct):
    """Shared record of the steps of one apply: runs, and approvals they wait for. `granted_requests` are
    paths of requests granted by a step, `ended_runs` paths of runs with a finished step, `applied_objects`
    the objects sent so far by identity, `kept_titles` the kept objects of others.
    """

    granted_requests: set[str] = field(default_factory=set)
    ended_runs: set[str] = field(default_factory=set)
    applied_objects: dict[tuple[str, str, str, str], HubObject] = field(default_factory=dict)
    kept_titles: set[str] = field(default_factory=set)

    @contextmanager
    def track_approval(self, request: str) -> Iterator[None]:
        """Record a request while a step waits for it; a failed step grants nothing."""
        self.granted_requests.add(request)
        try:
            yield
        except BaseException:
            self.granted_requests.discard(request)
            raise

    @contextmanager
    def track_run(self, run: str) -> Iterator[None]:
        """Record the end of a run's step."""
        self.ended_runs.discard(run)
        try:
            yield
        finally:
            self.ended_runs.add(run)


def approve_request(hub: HubClient, path: str, step: ChangeRequest) -> bool:
    """Approve a request; return False if it does not exist. An already approved one is not sent. Raises
    ApiError.
    """
    request = hub.get(path)
    if request is None:
        return False
    if not is_approved(request):
        step.report_progress(StepProgress(message=f"{get_name(request)} is approved"))
        hub.merge(f"{path}/status", {"status": {"conditions": _build_conditions(request)}}, MANAGER)
    return True


def _build_conditions(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the conditions of a request with the approval."""
    other_conditions = [c for c in (request.get("status") or {}).get("conditions") or () if c.get("type") != "Approved"]
    approval = {
        "type": "Approved",
        "status": "True",
        "reason": "ApprovedByNexusform",
        "message": "approved by the configuration",
        "observedGeneration": get_generation(request),
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return [*other_conditions, approval]
