"""fleet_cluster_staged_update_strategy: the stages of a staged update run."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.types.fleet_staged import build_strategy_type

FLEET_CLUSTER_STAGED_UPDATE_STRATEGY: Final = build_strategy_type(
    "fleet_cluster_staged_update_strategy",
    "ClusterStagedUpdateStrategy",
    "The stages of a staged update run.",
    is_namespaced=False,
)
