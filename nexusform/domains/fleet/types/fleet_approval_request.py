"""fleet_approval_request: approves a stage of a fleet_staged_update_run."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.types.fleet_staged import build_approval_type

FLEET_APPROVAL_REQUEST: Final = build_approval_type(
    "fleet_approval_request", "ApprovalRequest", run="fleet_staged_update_run", is_namespaced=True
)
