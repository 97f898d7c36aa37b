"""What comes out of a fleet's plan: rows, and each placement's computed attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.diagnostics import Diagnostic
from nexusform.importers.fleet_model import EXTERNAL
from nexusform.planning.fleet.attributes import (
    write_bindings,
    write_conditions,
    write_eviction,
    write_snapshot,
    write_statuses,
)
from nexusform.planning.fleet.placement import PlacementPlan
from nexusform.planning.fleet.rows import removed_rows
from nexusform.planning.fleet.selection import availability_tracked, write_selected
from nexusform.planning.instances.instance import Instance
from nexusform.planning.plan import PlacementChange
from nexusform.ports import Kind
from nexusform.scheduling.fleet.roster import Roster
from nexusform.scheduling.fleet.status import (
    CLUSTER_SCOPED,
    FALSE,
    NAMESPACED,
    TRUE,
    Progress,
    placement_status,
    progress_of,
)


class FleetOutcome(Struct, frozen=True):
    """The rows of all bindings, the placements by address, and the fleet after the last round."""

    rows: tuple[PlacementChange, ...] = ()
    placements: Mapping[Address, PlacementPlan] = field(default_factory=dict)
    roster: Roster = field(default_factory=lambda: Roster(()))
    diagnostics: tuple[Diagnostic, ...] = ()


def destroyed(instances: Iterable[Instance]) -> FleetOutcome:
    """The rows of a destroy plan."""
    going = [i for i in instances if i.going and i.type.kind is Kind.PLACEMENT]
    return FleetOutcome(tuple(row for instance in going for row in removed_rows(instance)))


def conclude_placement(placement: PlacementPlan) -> dict[str, Any]:
    """The computed attributes of a placement after the plan."""
    prior = placement.prior_attributes
    attributes: dict[str, Any] = {
        "bindings": write_bindings(placement.held, _kept_provenance(placement)),
        "policy_snapshot": write_snapshot(placement.snapshot),
        "selected_resources": write_selected(placement.selected),
        "evictions": [
            *(prior.get("evictions") or ()),
            *(write_eviction(name, eviction) for name, eviction in placement.evictions),
        ],
        "workloads": _workloads(placement),
    }
    if placement.status is None and prior.get("conditions") is not None:
        # No cycle ran, or it stopped before it wrote a status.
        return attributes | {name: prior.get(name) for name in ("conditions", "placement_statuses")}
    status = placement_status(
        placement.status,
        placement.written.policy,
        placement.snapshot.number_of_clusters,
        _progress(placement),
        prefix=NAMESPACED if placement.written.namespace else CLUSTER_SCOPED,
        external=placement.written.strategy == EXTERNAL,
    )
    return attributes | {
        "conditions": write_conditions(status.conditions),
        "placement_statuses": write_statuses(status),
    }


def _workloads(placement: PlacementPlan) -> dict[str, dict[str, Any]]:
    """Where the pods of each cluster stand, by workload; clusters without pods are left out."""
    by_cluster = {}
    for cluster, workloads in sorted(placement.workloads.items()):
        if workloads:
            by_cluster[cluster] = {workload: dict(pods) for workload, pods in workloads.items()}
    return by_cluster


def _kept_provenance(placement: PlacementPlan) -> dict[str, str]:
    """How it is known where bindings are that stay as they are: what was observed stays observed."""
    prior = {binding.cluster: binding for binding in placement.prior}
    recorded = placement.prior_attributes.get("bindings") or {}
    return {
        binding.cluster: recorded[binding.cluster].get("provenance", "predicted")
        for binding in placement.held
        if prior.get(binding.cluster) == binding and binding.cluster in recorded
    }


def _progress(placement: PlacementPlan) -> dict[str, Progress]:
    """How far each cluster that holds the placement is."""
    trackable = availability_tracked(placement.selected)
    external = placement.written.strategy == EXTERNAL
    by_cluster = {}
    for binding in placement.held:
        # A staged run says what a cluster is to have; otherwise it is the latest.
        index = binding.resource_snapshot if external else placement.resource_index
        progress = progress_of((binding,), -1 if index is None else index).get(binding.cluster)
        if progress is None:
            continue
        rendered = placement.renders.get(binding.cluster)
        failed = bool(rendered and rendered.failure)
        by_cluster[binding.cluster] = replace(
            progress,
            overrides=failed or bool(rendered and rendered.digest),
            overridden=FALSE if failed else progress.overridden,
            diff_reported=TRUE if placement.written.report_diff else None,
            trackable=trackable,
        )
    return by_cluster
