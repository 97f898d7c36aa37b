"""The placement rows of fleet bindings: what happens on which cluster, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from nexusform.address import Address
from nexusform.planning.fleet.attributes import read_bindings
from nexusform.planning.fleet.placement import PlacementPlan
from nexusform.planning.fleet.world import FleetMemberState
from nexusform.planning.instances.instance import Instance
from nexusform.planning.plan import PlacementAction, PlacementChange
from nexusform.scheduling.decision import Refusal
from nexusform.scheduling.fleet.decisions import selected
from nexusform.scheduling.fleet.model import Ask, Binding, BindingState, PlacementType, Policy
from nexusform.scheduling.fleet.rollout import Wave
from nexusform.scheduling.fleet.triggers import Trigger
from nexusform.scheduling.fleet.watcher import observations, trigger_for

KIND: Final = "binding"
NOT_REEVALUATED: Final = "kept: a fulfilled PickN is not re-evaluated"
NOT_MOVED: Final = "kept: what holds a placement already is not scheduled again"
REASONS: Final[Mapping[Trigger, str]] = {
    Trigger.PLACEMENT_CREATED: "the placement is new",
    Trigger.POLICY_CHANGED: "the policy changed",
    Trigger.NUMBER_INCREASED: "number_of_clusters was raised",
    Trigger.NUMBER_DECREASED: "number_of_clusters was lowered",
    Trigger.CLUSTER_JOINED: "a cluster joined the fleet",
    Trigger.CLUSTER_BECAME_ELIGIBLE: "a cluster became eligible",
    Trigger.CLUSTER_LABELS_CHANGED: "a cluster's labels changed",
    Trigger.CLUSTER_PROPERTIES_CHANGED: "a cluster's properties changed",
    Trigger.TAINT_REMOVED: "a cluster lost a taint",
    Trigger.CLUSTER_LEFT: "a cluster left the fleet",
    Trigger.EVICTED: "an eviction was executed",
    Trigger.PLACEMENT_REMOVED: "the placement is removed",
    Trigger.RESOURCES_CHANGED: "the selected resources changed; nothing is rescheduled",
    Trigger.STRATEGY_CHANGED: "the rollout strategy changed; nothing is rescheduled",
    Trigger.OVERRIDES_CHANGED: "overrides changed; nothing is rescheduled",
}


def binding_rows(
    placement: PlacementPlan,
    members: Mapping[str, FleetMemberState],
    rejected: tuple[Refusal, ...] = (),
) -> Iterator[PlacementChange]:
    """The rows of one placement: what goes, then what comes or changes, then what is kept."""
    before = {b.cluster: b for b in placement.prior}
    after = {b.cluster: b for b in placement.held}
    for cluster in sorted(before):
        if cluster not in after or cluster in placement.evicted:
            yield _removed(placement.instance.address, before[cluster], _why_gone(placement, cluster))
    kept = []
    for cluster, binding in sorted(after.items()):
        old = before.get(cluster) if cluster not in placement.evicted else None
        row = _present(placement, old, binding, members, rejected)
        if row.action is PlacementAction.KEEP:
            kept.append(row)
        else:
            yield row
    yield from kept


def removed_rows(instance: Instance) -> Iterator[PlacementChange]:
    """The bindings of a placement that goes, or of the object that a new one replaces."""
    for binding in read_bindings(instance.before or {}):
        yield _removed(instance.address, binding, Trigger.PLACEMENT_REMOVED)


def _why_gone(placement: PlacementPlan, cluster: str) -> Trigger:
    if cluster in placement.evicted:
        return Trigger.EVICTED
    return placement.released.get(cluster, Trigger.POLICY_CHANGED)


def _removed(address: Address, binding: Binding, trigger: Trigger) -> PlacementChange:
    return PlacementChange(
        address,
        KIND,
        binding.cluster,
        PlacementAction.REMOVE,
        binding,
        None,
        str(trigger),
        cluster=binding.cluster,
        reason=REASONS.get(trigger, ""),
        scores=_scores(binding),
    )


def _scores(binding: Binding) -> dict[str, int]:
    if binding.affinity_score is None or binding.topology_spread_score is None:
        return {}
    return {
        "topology_spread_score": binding.topology_spread_score,
        "affinity_score": binding.affinity_score,
    }


def _present(
    placement: PlacementPlan,
    old: Binding | None,
    now: Binding,
    members: Mapping[str, FleetMemberState],
    rejected: tuple[Refusal, ...],
) -> PlacementChange:
    action, trigger, reason = _what_happens(placement, old, now, members)
    if action in (PlacementAction.PLACE, PlacementAction.UPDATE):
        wave = _wave_text(placement.waves, now.cluster)
        reason = "; ".join(text for text in (reason, wave) if text)
    return PlacementChange(
        placement.instance.address,
        KIND,
        now.cluster,
        action,
        old,
        now,
        trigger,
        cluster=now.cluster,
        reason=reason,
        scores=_scores(now),
        rejected=rejected,
    )


def _what_happens(
    placement: PlacementPlan, old: Binding | None, now: Binding, members: Mapping[str, FleetMemberState]
) -> tuple[PlacementAction, str, str]:
    cluster = now.cluster
    if old is None:
        trigger = placement.picked.get(cluster, Trigger.PLACEMENT_CREATED)
        said = selected(now).reason
        return PlacementAction.PLACE, str(trigger), f"{REASONS.get(trigger, '')}: {said}"
    updated = old.resource_snapshot != now.resource_snapshot or (
        cluster in placement.outdated and cluster in placement.rolled
    )
    if old.state is not now.state or updated:
        trigger = placement.other_trigger
        if now.state is BindingState.UNSCHEDULED:
            trigger = _why_gone(placement, cluster)
        elif old.state is BindingState.UNSCHEDULED and cluster in placement.picked:
            trigger = placement.picked[cluster]
        reason = placement.run_caused or REASONS.get(trigger, "")
        return PlacementAction.UPDATE, str(trigger), reason
    if old.policy_snapshot != now.policy_snapshot:
        return PlacementAction.KEEP, str(Trigger.POLICY_CHANGED), "picked again under the changed policy"
    return _kept(placement, members.get(cluster))


def _kept(placement: PlacementPlan, member: FleetMemberState | None) -> tuple[PlacementAction, str, str]:
    """A binding that stays; an observation about its cluster is told."""
    if member is None or member.now is None or member.before is None or member.before == member.now:
        return PlacementAction.KEEP, "", ""
    ask = Ask(placement.written.policy or Policy(), placement.written.namespace)
    fulfilled_n = placement.fulfilled and placement.written.kind is PlacementType.PICK_N
    why = NOT_REEVALUATED if fulfilled_n else NOT_MOVED
    seen = observations(member.before, member.now, ask)
    if seen:
        return PlacementAction.KEEP, str(seen[0].trigger), f"{seen[0].reason}; {why}"
    changed = trigger_for(member.before, member.now)
    if changed is not None and fulfilled_n and not placement.ran:
        return PlacementAction.KEEP, str(changed), why
    return PlacementAction.KEEP, "", ""


def _wave_text(waves: tuple[Wave, ...], cluster: str) -> str:
    if len(waves) <= 1 and not any(w.wait_seconds for w in waves):
        return ""
    for number, wave in enumerate(waves, 1):
        if cluster in (*wave.updated, *wave.bound):
            wait = f", then a wait of {wave.wait_seconds} s" if wave.wait_seconds else ""
            return f"wave {number} of {len(waves)}{wait}"
    return ""
