"""What a placement is asked to be, beside what it was: the first stage of its plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, json

from nexusform.domains.fleet.importers.fleet_model import EXTERNAL, REPORT_DIFF, ApplyStrategy, FleetPlacement
from nexusform.domains.fleet.planning.beside_others import placement_beside_others
from nexusform.domains.fleet.planning.contents import is_fulfilled, read_bindings, read_snapshot
from nexusform.domains.fleet.planning.older_names import in_fleet
from nexusform.domains.fleet.scheduling.bindings import Binding, Policy, PolicySnapshot
from nexusform.domains.fleet.scheduling.roster import Roster
from nexusform.domains.fleet.scheduling.snapshots import next_snapshot
from nexusform.planning.instances.instance import Instance

_NEWEST: Final = 1 << 62
NOT_SHOWN: Final[Mapping[str, Any]] = {}


class Asked(Struct, frozen=True):
    """What is `written`, what was written `before` (None: nothing), and `prior`, the bindings of then: none
    of an object that is new or replaced; `deleting` are the clusters whose binding goes. `snapshot` is the
    policy's, which may be one more than the last. `fulfilled`: before the plan it had all clusters that it
    asked for. `shown` is what a real hub shows of it, attributes that go before those of state.
    """

    instance: Instance
    written: FleetPlacement
    before: FleetPlacement | None
    prior: tuple[Binding, ...]
    deleting: frozenset[str]
    snapshot: PolicySnapshot
    policy_changed: bool
    number_changed: bool
    number_increased: bool
    fulfilled: bool
    shown: Mapping[str, Any] = NOT_SHOWN

    @property
    def address(self) -> str:
        """Its address as text."""
        return str(self.instance.address)

    @property
    def creation(self) -> int:
        """Its place in the order in which objects came; what is new comes last."""
        return _NEWEST if self.created or self.instance.prior is None else self.instance.prior.creation

    @property
    def created(self) -> bool:
        """Whether a new object is made in this plan: one that neither state has nor a hub shows."""
        return not self.shown and (self.instance.prior is None or self.instance.replaced)

    @property
    def first_time(self) -> bool:
        """Whether the scheduler looks at it for the first time."""
        return self.created or (not self.prior and (self.pending or not self._was_scheduled))

    @property
    def pending(self) -> bool:
        """Whether a hub shows that its scheduler has still to look at the placement."""
        return self.shown.get("pending") is True

    @property
    def _was_scheduled(self) -> bool:
        return read_snapshot(self.prior_attributes) is not None

    @property
    def prior_attributes(self) -> Mapping[str, Any]:
        """What state holds, or a hub shows, of the object that stays; empty for a new one."""
        return {} if self.created else {**(self.instance.before or {}), **self.shown}

    @property
    def external(self) -> bool:
        """Whether staged runs roll it out."""
        return self.written.strategy == EXTERNAL

    @property
    def strategy_changed(self) -> bool:
        """Whether only the way of rolling out changed."""
        return self.before is not None and _rollout_of(self.before) != _rollout_of(self.written)

    @property
    def reapplied(self) -> bool:
        """Whether the way of applying changed, which reaches all clusters at once; staged runs bring it
        where they roll out.
        """
        if self.external:
            return False
        if self.before is not None and self.before.apply != self.written.apply:
            return True
        if not self.shown:
            return False
        shown = (self.applied_as(cluster) for cluster in self.shown.get("bindings") or ())
        return any(apply is not None and apply != self.written.apply for apply in shown)

    def applied_as(self, cluster: str) -> ApplyStrategy | None:
        """How what a cluster has is applied there before the plan; None where nothing tells."""
        if not self.shown:
            return None if self.before is None else self.before.apply
        binding = (self.shown.get("bindings") or {}).get(cluster) or {}
        if binding.get("deleting") or not binding.get("apply"):
            return None
        return json.decode(binding["apply"], type=ApplyStrategy)

    @property
    def spec_changed(self) -> bool:
        """Whether anything that was written changed."""
        return self.before is not None and self.before != self.written

    def policy_in(self, roster: Roster) -> Policy | None:
        """The policy with the older name of node-count read as today's where no member has the older, unless
        it is read strictly.
        """
        written = self.written
        return in_fleet(written.policy, roster) if written.old_names else written.policy

    @property
    def _reported_before(self) -> bool:
        """Whether differences were only reported before the plan."""
        before = [self.applied_as(cluster) for cluster in self.shown.get("bindings") or ()]
        if self.before is not None:
            before.append(self.before.apply)
        return any(apply is not None and apply.type == REPORT_DIFF for apply in before)

    @property
    def applied_at_last(self) -> bool:
        """Whether differences were only reported, and from now on what stands in the Works is applied."""
        return self.reapplied and not self.written.report_diff and self._reported_before


def asked_of(instance: Instance, written: FleetPlacement, shown: Mapping[str, Any] = NOT_SHOWN) -> Asked:
    """What an instance asks for beside what stood; `shown` is what a hub shows of it."""
    stays = instance.prior is not None and not instance.replaced
    remembered = instance.before if stays and instance.before is not None else {}
    attributes = {**remembered, **shown}
    before = placement_beside_others(instance, attributes) if attributes else None
    bindings = read_bindings(attributes)
    last_snapshot = read_snapshot(attributes)
    snapshot = next_snapshot(last_snapshot, written.policy)
    return Asked(
        instance=instance,
        written=written,
        before=before,
        prior=bindings,
        deleting=frozenset(binding.cluster for binding in bindings if binding.deleting),
        snapshot=snapshot,
        policy_changed=last_snapshot is not None and last_snapshot.index != snapshot.index,
        number_changed=last_snapshot is not None and last_snapshot.number_of_clusters != written.number,
        number_increased=_asks_for_more(last_snapshot, written.number),
        fulfilled=is_fulfilled(attributes),
        shown=shown,
    )


def _asks_for_more(last: PolicySnapshot | None, number: int | None) -> bool:
    """Whether number_of_clusters was raised."""
    if last is None or last.number_of_clusters is None or number is None:
        return False
    return number > last.number_of_clusters


def _rollout_of(placement: FleetPlacement) -> tuple[object, ...]:
    """What says how changes reach the clusters."""
    return placement.strategy, placement.rolling, placement.apply
