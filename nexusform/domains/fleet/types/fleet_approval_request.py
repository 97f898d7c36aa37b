"""fleet_approval_request: lets a stage of a fleet_staged_update_run go on."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.types.fleet_staged import approval_type

FLEET_APPROVAL_REQUEST: Final = approval_type(
    "fleet_approval_request", "ApprovalRequest", run="fleet_staged_update_run", namespaced=True
)
