"""fleet_staged_update_run: rolls out a namespaced placement with strategy External."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.types.fleet_staged import build_run_type

FLEET_STAGED_UPDATE_RUN: Final = build_run_type(
    "fleet_staged_update_run", "StagedUpdateRun", strategy="fleet_staged_update_strategy", is_namespaced=True
)
