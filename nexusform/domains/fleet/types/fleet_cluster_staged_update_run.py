"""fleet_cluster_staged_update_run: rolls out a placement whose strategy is External, stage by stage."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.types.fleet_staged import run_type

FLEET_CLUSTER_STAGED_UPDATE_RUN: Final = run_type(
    "fleet_cluster_staged_update_run",
    "ClusterStagedUpdateRun",
    strategy="fleet_cluster_staged_update_strategy",
    namespaced=False,
)
