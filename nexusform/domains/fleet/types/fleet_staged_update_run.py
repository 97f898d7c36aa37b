"""fleet_staged_update_run: rolls out a placement of a namespace whose strategy is External."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.types.fleet_staged import run_type

FLEET_STAGED_UPDATE_RUN: Final = run_type(
    "fleet_staged_update_run",
    "StagedUpdateRun",
    strategy="fleet_staged_update_strategy",
    namespaced=True,
)
