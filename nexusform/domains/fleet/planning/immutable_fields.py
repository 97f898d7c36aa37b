"""Immutable fields of hub objects. Blocks with a change in such a field are re-created (`on_change` of their
arguments). A manifest is one text, so its fields are compared here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.domains.fleet.importers.fleet_records import (
    FleetApprovalRequest,
    FleetObject,
    FleetOverride,
    FleetUpdateRun,
)
from nexusform.planning.instances.instance import Instance

# Fields by record, each with its API name. Source: the CRDs' rules with oldSelf.
_IMMUTABLE_FIELDS: Final[Mapping[type, tuple[tuple[str, str], ...]]] = {
    FleetUpdateRun: (
        ("placement", "placementName"),
        ("strategy", "stagedRolloutStrategyName"),
        ("resource_index", "resourceSnapshotIndex"),
    ),
    FleetApprovalRequest: (("run", "parentStageRollout"), ("stage", "targetStage")),
    FleetOverride: (("placement", "placement"),),
}


def check_immutable_fields(instance: Instance, planned: FleetObject) -> Iterator[Diagnostic]:
    """Yield an error for each changed immutable field; none for a re-created object."""
    fields = _IMMUTABLE_FIELDS.get(type(planned), ())
    if not fields or instance.before is None or instance.is_replaced or instance.type.build_fleet_object is None:
        return
    current = instance.type.build_fleet_object(instance.before)
    if type(current) is not type(planned):
        return
    for field, name in fields:
        current_value, planned_value = getattr(current, field), getattr(planned, field)
        if current_value != planned_value:
            detail = (
                f"{name} is immutable on a hub. Current value: {_format_value(current_value)}. Manifest: "
                f"{_format_value(planned_value)}. To re-create the object, plan with "
                f"-replace='{instance.address}'."
            )
            yield instance.build_error("change-not-allowed", detail, ("manifest",))


def _format_value(value: object) -> str:
    return "not set" if value in ("", None) else f'"{value}"'
