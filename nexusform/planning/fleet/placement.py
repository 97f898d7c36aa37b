"""One placement while a fleet is planned: what it holds, why it is looked at, and what became of it; its
bindings, snapshots and status, written for state and read back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.importers.fleet_model import FleetOverride, FleetPlacement
from nexusform.importers.kubernetes_manifests import Manifest
from nexusform.plain_data import has_unknown
from nexusform.planning.fleet.overrides import Renders
from nexusform.planning.instances.instance import Instance
from nexusform.scheduling.fleet.cycle import CycleResult
from nexusform.scheduling.fleet.decisions import SchedulingStatus
from nexusform.scheduling.fleet.eviction import Eviction
from nexusform.scheduling.fleet.model import (
    Abort,
    Binding,
    BindingState,
    Change,
    ClusterTerm,
    Condition,
    PlacementType,
    Policy,
    PolicySnapshot,
)
from nexusform.scheduling.fleet.rollout import Wave
from nexusform.scheduling.fleet.roster import Roster
from nexusform.scheduling.fleet.snapshots import next_snapshot
from nexusform.scheduling.fleet.status import ClusterStatus, PlacementStatus
from nexusform.scheduling.fleet.watcher import Occasion, Trigger, Watched, trigger_of

OLD_NODE_COUNT: Final = "kubernetes.azure.com/node-count"
NODE_COUNT: Final = "kubernetes-fleet.io/node-count"


class PlacementPlan(Struct):
    """`prior` is what state holds (empty when the object is new or replaced), `held` what it holds as
    rounds go by, `picked` and `released` why clusters came and went.
    """

    instance: Instance
    written: FleetPlacement
    before: FleetPlacement | None
    prior: tuple[Binding, ...]
    snapshot: PolicySnapshot
    policy_changed: bool
    number_increased: bool
    held: tuple[Binding, ...]
    fulfilled: bool
    selected: tuple[Manifest, ...] = ()
    resource_index: int = 0
    resources_changed: bool = False
    digest: str = ""
    overrides: tuple[FleetOverride, ...] = ()
    renders: Renders = field(default_factory=lambda: Renders((), (), {}))
    outdated: frozenset[str] = frozenset()
    rolled: set[str] = field(default_factory=set)
    evictions: list[tuple[str, Eviction]] = field(default_factory=list)
    status: SchedulingStatus | None = None
    abort: Abort | None = None
    ran: bool = False
    picked: dict[str, Trigger] = field(default_factory=dict)
    released: dict[str, Trigger] = field(default_factory=dict)
    waves: tuple[Wave, ...] = ()
    stalled: tuple[str, ...] = ()
    run_caused: str = ""
    workloads: dict[str, Any] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Its address as text."""
        return str(self.instance.address)

    @property
    def created(self) -> bool:
        """Whether a new object is made in this plan."""
        return self.instance.prior is None or self.instance.replaced

    @property
    def prior_attributes(self) -> Mapping[str, Any]:
        """What state holds of the object that stays; empty for a new one."""
        return {} if self.created or self.instance.before is None else self.instance.before

    @property
    def strategy_changed(self) -> bool:
        """Whether only the way of rolling out changed."""
        return self.before is not None and _rollout_of(self.before) != _rollout_of(self.written)

    @property
    def spec_changed(self) -> bool:
        """Whether anything that was written changed."""
        return self.before is not None and self.before != self.written

    @property
    def evicted(self) -> frozenset[str]:
        """The clusters that an eviction of this plan let go."""
        return frozenset(eviction.cluster for _, eviction in self.evictions if eviction.executed)

    @property
    def other_trigger(self) -> Trigger:
        """What a rollout without rescheduling is put down to."""
        if self.resources_changed:
            return Trigger.RESOURCES_CHANGED
        if self.vanished:
            return Trigger.EVICTED
        if self.outdated:
            return Trigger.OVERRIDES_CHANGED
        return Trigger.STRATEGY_CHANGED if self.strategy_changed else Trigger.RESOURCES_CHANGED

    @property
    def queued_by_itself(self) -> bool:
        """Whether the plan's own edits run its scheduling cycles."""
        return (
            self.created
            or self.policy_changed
            or self.spec_changed
            or self.resources_changed
            or bool(self.outdated)
            or bool(self.evicted)
            or self.vanished
        )

    @property
    def vanished(self) -> bool:
        """Whether bindings that state had are gone: somebody removed them."""
        if self.created or not self.fulfilled:
            return False
        expected = self.snapshot.number_of_clusters or 0
        if self.written.kind is PlacementType.PICK_FIXED and self.written.policy:
            expected = len(set(self.written.policy.cluster_names))
        scheduled = [binding for binding in self.prior if binding.state is not BindingState.UNSCHEDULED]
        return len(scheduled) < expected

    def watched(self) -> Watched:
        """As the watcher sees it."""
        return Watched(self.address, self.written.kind, self.fulfilled)

    def policy_in(self, roster: Roster) -> Policy | None:
        """The policy with the older name of node-count read as today's where no member has the older."""
        return in_fleet(self.written.policy, roster)

    def take(self, result: CycleResult, occasion: Occasion) -> bool:
        """Note what a chain of cycles did; whether any binding changed."""
        before = self.held
        self.held = result.bindings
        self.abort = result.abort
        self.ran = True
        if result.status is not None:
            self.status = result.status
            self.fulfilled = result.status.fulfilled
        for change in result.changes:
            trigger = trigger_of(change, occasion)
            if change.change in (Change.UNSCHEDULED, Change.DROPPED):
                self.released[change.cluster] = trigger
                self.picked.pop(change.cluster, None)
            else:
                self.picked[change.cluster] = trigger
        return before != self.held


def begin(instance: Instance, written: FleetPlacement) -> PlacementPlan:
    """A placement before its first round."""
    stays = instance.prior is not None and not instance.replaced
    attributes = instance.before if stays and instance.before is not None else {}
    before = instance.type.fleet(attributes) if stays and instance.type.fleet is not None else None
    bindings = read_bindings(attributes)
    last_snapshot = read_snapshot(attributes)
    snapshot = next_snapshot(last_snapshot, written.policy)
    return PlacementPlan(
        instance,
        written,
        before if isinstance(before, FleetPlacement) else None,
        bindings,
        snapshot,
        last_snapshot is not None and last_snapshot.index != snapshot.index,
        _asks_for_more(last_snapshot, written.number),
        bindings,
        is_fulfilled(attributes),
    )


def _asks_for_more(last: PolicySnapshot | None, number: int | None) -> bool:
    """Whether number_of_clusters was raised."""
    if last is None or last.number_of_clusters is None or number is None:
        return False
    return number > last.number_of_clusters


def _rollout_of(placement: FleetPlacement) -> tuple[object, ...]:
    """What says how changes reach the clusters."""
    return placement.strategy, placement.rolling, placement.report_diff


# --- an older property name --------------------------------------------------------------------


def in_fleet(policy: Policy | None, roster: Roster) -> Policy | None:
    """See PlacementPlan.policy_in."""
    if policy is None or not uses_old_name(policy):
        return policy
    if any(OLD_NODE_COUNT in member.properties for member in roster.members):
        return policy
    return replace(
        policy,
        required=None if policy.required is None else tuple(_renamed(term) for term in policy.required),
        preferred=tuple(replace(term, preference=_renamed(term.preference)) for term in policy.preferred),
    )


def uses_old_name(policy: Policy) -> bool:
    """Whether a policy asks for node-count under its older name."""
    terms: Iterable[ClusterTerm] = (*(policy.required or ()), *(term.preference for term in policy.preferred))
    return any(OLD_NODE_COUNT in _property_names(term) for term in terms)


def _property_names(term: ClusterTerm) -> list[str]:
    names = [requirement.name for requirement in term.property_selector or ()]
    return names if term.property_sorter is None else [*names, term.property_sorter.name]


def _renamed(term: ClusterTerm) -> ClusterTerm:
    sorter, selector = term.property_sorter, term.property_selector
    return replace(
        term,
        property_sorter=replace(sorter, name=_name(sorter.name)) if sorter else None,
        property_selector=None
        if selector is None
        else tuple(replace(requirement, name=_name(requirement.name)) for requirement in selector),
    )


def _name(name: str) -> str:
    return NODE_COUNT if name == OLD_NODE_COUNT else name


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
