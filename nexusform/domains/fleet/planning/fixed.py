"""What a hub lets nobody change in an object that stands.

Blocks that say another thing there are made anew (`on_change` of their arguments); a manifest is one text,
and which part of it changed is only seen here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from nexusform.diagnostics import Diagnostic
from nexusform.domains.fleet.importers.fleet_model import FleetApproval, FleetObject, FleetOverride, FleetRun
from nexusform.planning.instances.instance import Instance

# By record: its fields, and what the API calls each. Source: the CRDs' rules with oldSelf.
_FIXED: Final[Mapping[type, tuple[tuple[str, str], ...]]] = {
    FleetRun: (
        ("placement", "placementName"),
        ("strategy", "stagedRolloutStrategyName"),
        ("resource_index", "resourceSnapshotIndex"),
    ),
    FleetApproval: (("run", "parentStageRollout"), ("stage", "targetStage")),
    FleetOverride: (("placement", "placement"),),
}


def fixed_problems(instance: Instance, planned: FleetObject) -> Iterator[Diagnostic]:
    """Errors for fields of the planned object that are others than in the one that stands; none where it is
    made anew.
    """
    fields = _FIXED.get(type(planned), ())
    if not fields or instance.before is None or instance.replaced or instance.type.fleet is None:
        return
    standing = instance.type.fleet(instance.before)
    if type(standing) is not type(planned):
        return
    for field, name in fields:
        standing_value, planned_value = getattr(standing, field), getattr(planned, field)
        if standing_value != planned_value:
            detail = (
                f"{name} is immutable on a hub: it was {_shown(standing_value)}, and the manifest says "
                f"{_shown(planned_value)}. To make the object anew, plan with -replace='{instance.address}'."
            )
            yield instance.error("change-not-allowed", detail, ("manifest",))


def _shown(value: object) -> str:
    return "not set" if value in ("", None) else f'"{value}"'
