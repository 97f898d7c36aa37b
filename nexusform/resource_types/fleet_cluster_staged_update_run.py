"""fleet_cluster_staged_update_run: rolls out a placement whose strategy is External, stage by stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics import Problem
from nexusform.importers.fleet_model import FleetObject, FleetRun
from nexusform.resource_types.fleet_kinds import FleetKind, Values, fleet_type
from nexusform.resource_types.fleet_schemas import PLACEMENT_NAME, argument, text
from nexusform.scheduling.fleet.staged import RunState
from nexusform.scheduling.fleet.validation import invalid
from nexusform.schema import BlockSchema, OnChange, Reference
from nexusform.value_types import STRING, SetType

_SPEC: Final = BlockSchema(
    {
        "placement_name": replace(PLACEMENT_NAME, required=True, optional=False, on_change=OnChange.REPLACE),
        "staged_rollout_strategy_name": text(
            "Name of the staged update strategy.",
            required=True,
            on_change=OnChange.REPLACE,
            refers_to=Reference(("fleet_cluster_staged_update_strategy",), by="name"),
        ),
        "resource_snapshot_index": text(
            "Number of the resource snapshot; by default the latest.", on_change=OnChange.REPLACE
        ),
        "state": text(
            "What is wanted of the run.",
            default="Initialize",
            choices=tuple(str(state) for state in RunState),
        ),
    }
)

_APPROVALS: Final = argument(
    SetType(STRING), "Approval requests that are granted: <run>-before-<stage>, <run>-after-<stage>."
)


def read(attributes: Values, arguments: Values) -> FleetRun:
    """The run."""
    index = str(arguments.get("resource_snapshot_index") or "")
    approvals = attributes.get("approvals") or ()
    return FleetRun(
        str(attributes.get("name") or ""),
        str(arguments.get("placement_name") or ""),
        str(arguments.get("staged_rollout_strategy_name") or ""),
        int(index) if index.isdecimal() and len(index) < 10 else None,
        RunState(arguments.get("state") or RunState.INITIALIZE),
        frozenset(name for name in approvals if isinstance(name, str)),
    )


def _findings(_found: FleetObject, arguments: Values) -> Iterator[Problem]:
    index = arguments.get("resource_snapshot_index")
    if index and not (str(index).isdecimal() and len(str(index)) < 10):
        text_ = f'"{index}" is not the number of a resource snapshot'
        yield invalid(("resource_snapshot_index",), text_)


FLEET_CLUSTER_STAGED_UPDATE_RUN: Final = fleet_type(
    "fleet_cluster_staged_update_run",
    FleetKind("ClusterStagedUpdateRun", _SPEC),
    "Rolls out a placement whose strategy is External, stage by stage, when it is created or changed.",
    read=read,
    findings=_findings,
    values={"approvals": _APPROVALS},
)
