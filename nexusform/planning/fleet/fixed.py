"""What a hub lets nobody change in an object that stands.

Blocks that say another thing there are made anew (`on_change` of their arguments); a manifest is one text,
and which part of it changed is only seen here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from nexusform.diagnostics import Diagnostic
from nexusform.importers.fleet.fleet_model import FleetApproval, FleetObject, FleetOverride, FleetRun
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


def fixed_problems(instance: Instance, now: FleetObject) -> Iterator[Diagnostic]:
    """The fields that are others than in the object that stands; nothing of one that is made anew."""
    fields = _FIXED.get(type(now), ())
    if not fields or instance.before is None or instance.replaced or instance.type.fleet is None:
        return
    before = instance.type.fleet(instance.before)
    if type(before) is not type(now):
        return
    for field, name in fields:
        old, new = getattr(before, field), getattr(now, field)
        if old != new:
            detail = (
                f"{name} is immutable on a hub: it was {_shown(old)}, and the manifest says {_shown(new)}. "
                f"To make the object anew, plan with -replace='{instance.address}'."
            )
            yield instance.error("change-not-allowed", detail, ("manifest",))


def _shown(value: object) -> str:
    return "not set" if value in ("", None) else f'"{value}"'
