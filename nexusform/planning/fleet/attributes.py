"""A placement's computed attributes: bindings, snapshots and status, written for state and read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nexusform.plain_data import has_unknown
from nexusform.scheduling.fleet.eviction import Eviction
from nexusform.scheduling.fleet.model import Binding, BindingState, Condition, PolicySnapshot
from nexusform.scheduling.fleet.status import ClusterStatus, PlacementStatus

PREDICTED = "predicted"


def read_bindings(attributes: Mapping[str, Any]) -> tuple[Binding, ...]:
    """The bindings of an object in state, in name order."""
    bindings = attributes.get("bindings")
    if not isinstance(bindings, Mapping):
        return ()
    return tuple(_binding(cluster, bindings[cluster]) for cluster in sorted(bindings))


def _binding(cluster: str, values: Mapping[str, Any]) -> Binding:
    previous = values.get("previous_state")
    return Binding(
        cluster,
        BindingState(values["state"]),
        int(values.get("policy_snapshot") or 0),
        _whole(values.get("affinity_score")),
        _whole(values.get("topology_spread_score")),
        BindingState(previous) if previous else None,
        _whole(values.get("resource_snapshot")),
    )


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def write_bindings(bindings: Iterable[Binding], provenance: Mapping[str, str]) -> dict[str, Any]:
    """Bindings as an attribute; `provenance` of those that stand as they stood."""
    return {
        binding.cluster: {
            "state": str(binding.state),
            "previous_state": str(binding.previous_state) if binding.previous_state else None,
            "affinity_score": binding.affinity_score,
            "topology_spread_score": binding.topology_spread_score,
            "policy_snapshot": binding.policy_snapshot,
            "resource_snapshot": binding.resource_snapshot,
            "provenance": provenance.get(binding.cluster, PREDICTED),
        }
        for binding in bindings
    }


def read_snapshot(attributes: Mapping[str, Any]) -> PolicySnapshot | None:
    """The policy snapshot of an object in state."""
    values = attributes.get("policy_snapshot")
    if not isinstance(values, Mapping) or has_unknown(dict(values)):
        return None
    return PolicySnapshot(int(values["index"]), str(values["hash"]), _whole(values.get("number_of_clusters")))


def write_snapshot(snapshot: PolicySnapshot) -> dict[str, Any]:
    """The policy snapshot as an attribute."""
    return {
        "index": snapshot.index,
        "hash": snapshot.hash,
        "number_of_clusters": snapshot.number_of_clusters,
    }


def write_conditions(conditions: Iterable[Condition]) -> list[dict[str, Any]]:
    """Conditions as an attribute."""
    return [
        {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
        }
        for condition in conditions
    ]


def read_conditions(values: Any) -> tuple[Condition, ...]:
    """Conditions of an object in state."""
    return tuple(
        Condition(
            str(condition["type"]),
            str(condition["status"]),
            str(condition["reason"]),
            str(condition["message"]),
        )
        for condition in values or ()
    )


def write_statuses(status: PlacementStatus) -> list[dict[str, Any]]:
    """A status per cluster, as an attribute."""
    return [
        {
            "cluster_name": each.cluster,
            "observed_resource_index": each.observed_resource_index,
            "conditions": write_conditions(each.conditions),
        }
        for each in status.clusters
    ]


def read_status(attributes: Mapping[str, Any]) -> PlacementStatus:
    """The status of an object in state."""
    return PlacementStatus(
        read_conditions(attributes.get("conditions")),
        tuple(
            ClusterStatus(
                str(each["cluster_name"] or ""),
                read_conditions(each["conditions"]),
                _whole(each.get("observed_resource_index")),
            )
            for each in attributes.get("placement_statuses") or ()
        ),
    )


def is_fulfilled(attributes: Mapping[str, Any]) -> bool:
    """Whether the Scheduled condition of an object in state is True."""
    conditions = attributes.get("conditions")
    if not isinstance(conditions, list) or not conditions:
        return False
    return bool(conditions[0].get("status") == "True")


def write_eviction(name: str, eviction: Eviction) -> dict[str, Any]:
    """What became of an eviction, as the placement notes it."""
    return {
        "name": name,
        "cluster_name": eviction.cluster,
        "valid": eviction.valid,
        "executed": eviction.executed,
        "reason": eviction.message,
    }
