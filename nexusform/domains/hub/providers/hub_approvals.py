"""Granting approval requests, which the hub makes itself when a stage is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct, field

from nexusform.domains.hub.api.hub import Hub
from nexusform.domains.hub.providers.hub_standing import generation_of, is_approved, name_of
from nexusform.ports import ChangeRequest, StepNews

MANAGER: Final = "nexusform"


class Beside(Struct):
    """The steps of one apply of which one is done once the other is: runs, and approvals that these ask for.
    `granted` are the requests (paths) that a step grants or granted, `ended` the runs (paths) whose step is
    over.
    """

    granted: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)

    @contextmanager
    def granting(self, request: str) -> Iterator[None]:
        """While a step waits for a request; one that fails grants nothing."""
        self.granted.add(request)
        try:
            yield
        except BaseException:
            self.granted.discard(request)
            raise

    @contextmanager
    def running(self, run: str) -> Iterator[None]:
        """While the step of a run goes on."""
        self.ended.discard(run)
        try:
            yield
        finally:
            self.ended.add(run)


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
