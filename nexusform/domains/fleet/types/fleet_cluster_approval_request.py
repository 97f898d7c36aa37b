"""fleet_cluster_approval_request: lets a stage of a fleet_cluster_staged_update_run go on."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.types.fleet_staged import approval_type

FLEET_CLUSTER_APPROVAL_REQUEST: Final = approval_type(
    "fleet_cluster_approval_request",
    "ClusterApprovalRequest",
    run="fleet_cluster_staged_update_run",
    namespaced=False,
)
