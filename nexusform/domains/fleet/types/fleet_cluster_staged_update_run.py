"""fleet_cluster_staged_update_run: rolls out a placement with strategy External, stage by stage."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.types.fleet_staged import build_run_type

FLEET_CLUSTER_STAGED_UPDATE_RUN: Final = build_run_type(
    "fleet_cluster_staged_update_run",
    "ClusterStagedUpdateRun",
    strategy="fleet_cluster_staged_update_strategy",
    is_namespaced=False,
)
