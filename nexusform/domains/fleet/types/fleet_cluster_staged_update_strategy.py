"""fleet_cluster_staged_update_strategy: the stages in which a staged update run goes."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.types.fleet_staged import strategy_type

FLEET_CLUSTER_STAGED_UPDATE_STRATEGY: Final = strategy_type(
    "fleet_cluster_staged_update_strategy",
    "ClusterStagedUpdateStrategy",
    "The stages of a staged update run.",
    namespaced=False,
)
