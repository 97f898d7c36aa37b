"""fleet_staged_update_strategy: the stages of a namespaced staged update run."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.types.fleet_staged import build_strategy_type

FLEET_STAGED_UPDATE_STRATEGY: Final = build_strategy_type(
    "fleet_staged_update_strategy",
    "StagedUpdateStrategy",
    "The stages of a staged update run of a namespace.",
    is_namespaced=True,
)
