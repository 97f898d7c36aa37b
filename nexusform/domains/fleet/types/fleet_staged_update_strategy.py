"""fleet_staged_update_strategy: the stages in which a staged update run of a namespace goes."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.types.fleet_staged import strategy_type

FLEET_STAGED_UPDATE_STRATEGY: Final = strategy_type(
    "fleet_staged_update_strategy",
    "StagedUpdateStrategy",
    "The stages of a staged update run of a namespace.",
    namespaced=True,
)
