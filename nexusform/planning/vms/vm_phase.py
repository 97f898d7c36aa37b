"""Phase 4: who leaves, who is placed anew, who is new, and where they go, in that order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.demands import PlacedVm, PoolDemand, VmDemand
from nexusform.planning.instances.instance import Instance
from nexusform.planning.plan import Action
from nexusform.planning.vms.sites import SitePlan, at_machine, demand_for, sku_of, vm_name
from nexusform.planning.vms.surroundings import PlanSurroundings
from nexusform.planning.vms.triggers import Moves, Situation, VmKey, batch_size, compare
from nexusform.scheduling.racks.explanation import Explanation
from nexusform.scheduling.racks.model import CONTROL_PLANE, Hint, HintScope, Placement
from nexusform.scheduling.racks.shortage import Shortage

ROLLING = "kubernetes_version_changed"


class VmObject(Struct):
    """The VMs of one instance. `standing` are those read from state, `held` is the room they hold:
    site and handle. `placed` are those that stand after the plan, `tokens` the handles of those that it
    placed itself.
    """

    instance: Instance
    before: VmDemand | None = None
    wanted: VmDemand | None = None
    site: SitePlan | None = None
    standing: dict[VmKey, PlacedVm] = field(default_factory=dict)
    held: dict[VmKey, tuple[SitePlan, int]] = field(default_factory=dict)
    moves: Moves = field(default_factory=Moves)
    placed: dict[VmKey, PlacedVm] = field(default_factory=dict)
    tokens: dict[VmKey, int] = field(default_factory=dict)
    failed: dict[VmKey, Shortage] = field(default_factory=dict)
    short: dict[str, Shortage] = field(default_factory=dict)
    explained: dict[VmKey, Explanation] = field(default_factory=dict)
    crowded: list[str] = field(default_factory=list)
    renamed_around: bool = False

    @property
    def untouched(self) -> bool:
        """Whether the same object stays, with every VM exactly as it is."""
        moves = self.moves
        return not (
            self.instance.replaced or moves.leave or moves.again or moves.arrive or self.renamed_around
        )

    @property
    def keeps_old(self) -> bool:
        """Whether the old VMs hold their room while the new are placed."""
        return self.instance.action is Action.REPLACE_CREATE_FIRST

    @property
    def going(self) -> bool:
        """Whether the whole instance goes."""
        return self.instance.going

    def placed_vms(self) -> list[PlacedVm]:
        """Every VM after the plan, pools in order, numbers ascending."""
        pools = self.wanted.pools if self.wanted is not None else ()
        keys = ((pool.pool, number) for pool in pools for number in pool.numbers)
        return [self.placed[key] for key in keys if key in self.placed]

    def vms_after(self) -> Sequence[PlacedVm]:
        """Every VM after the plan, also where nothing can be said of what is wanted: then all stay."""
        if self.going:
            return ()
        return tuple(self.standing.values()) if self.wanted is None else self.placed_vms()

    def remaining_vms(self) -> list[PlacedVm]:
        """The prior VMs that neither leave nor are placed anew, as a release step leaves them."""
        rolling = {key for key, trigger in self.moves.again.items() if trigger == ROLLING}
        return [
            vm
            for key, vm in self.standing.items()
            if key not in self.moves.leave and (key not in self.moves.again or key in rolling)
        ]


class Wishes(Struct, frozen=True):
    """What the user asks of single VMs and of the plan: names to heal by address (text), and the
    (address, name) of VMs whose decision is to be explained; None = every VM that is placed.
    """

    heal: Mapping[str, frozenset[str]]
    explain: frozenset[tuple[str, str]] | None = frozenset()


class VmPhase:
    """Places the VMs of one plan. Call in order: stand, consider, leave, settle, again, arrive."""

    def __init__(
        self,
        sites: Mapping[str, SitePlan],
        before: PlanSurroundings,
        after: PlanSurroundings,
        wishes: Wishes,
    ) -> None:
        self.sites = sites
        self.before = before
        self.after = after
        after.sites = {site.id: tuple(site.machines.values()) for site in sites.values()}
        self._wishes = wishes

    def stand(self, instance: Instance) -> VmObject:
        """Put the prior VMs of an instance where they stand. Deposed objects hold no room: their VMs
        leave in every plan.
        """
        family = instance.type.vms
        assert family is not None
        found = VmObject(instance)
        if instance.prior is not None:
            attributes = instance.prior.attributes
            found.before, _ = family.demand(attributes, self.before, instance.address)
            for vm in family.standing(attributes):
                found.standing[vm.pool, vm.number] = vm
                self._hold(found, found.before, vm)
        return found

    def _hold(self, owner: VmObject, demand: VmDemand | None, vm: PlacedVm) -> None:
        site = self.sites.get(demand.site_id) if demand is not None else None
        if demand is None or site is None:
            return
        pool = next((p for p in demand.pools if p.pool == vm.pool), None)
        name = vm_name(demand, pool, vm.pool, vm.number)
        housed = site.house(name, sku_of(vm, pool, self.before.skus), vm.placement)
        if housed is not None:
            owner.held[vm.pool, vm.number] = (site, housed[0])

    def consider(self, found: VmObject, wanted: VmDemand | None) -> None:
        """Work out who leaves, who is placed anew and who is new."""
        instance = found.instance
        found.wanted = wanted
        found.site = self.sites.get(wanted.site_id) if wanted is not None else None
        old_site = self.sites.get(found.before.site_id) if found.before is not None else None
        whole = ""
        if found.going:
            whole = "pool_removed" if found.before and found.before.parent_id else "cluster_removed"
        elif instance.replaced:
            whole = "requested" if instance.reason == "replace_by_request" else "cluster_replaced"
        situation = Situation(
            whole,
            self._wishes.heal.get(str(instance.address), frozenset()),
            old_site.machine_trigger if old_site is not None else lambda _machine: "machine_removed",
        )
        found.moves = compare(tuple(found.standing.values()), found.before, wanted, situation)
        for key in found.moves.stay:
            found.placed[key] = self._staying(found, found.standing[key])

    def _staying(self, found: VmObject, vm: PlacedVm) -> PlacedVm:
        """A VM that stays: its machine may have got another rack or zone around it."""
        machine = found.site.machines.get(vm.placement.machine) if found.site is not None else None
        place = at_machine(machine, vm.placement) if machine is not None else vm.placement
        if place is vm.placement:
            return vm
        found.renamed_around = True
        return replace(vm, placement=place)

    def leave(self, found: VmObject) -> None:
        """Everything that leaves leaves; VMs under create_before_destroy and rolling ones stay for now."""
        if found.keeps_old:
            return
        for key in found.moves.leave:
            self._release(found, key)
        for key, trigger in found.moves.again.items():
            if trigger != ROLLING:
                self._release(found, key)

    def _release(self, found: VmObject, key: VmKey) -> None:
        held = found.held.pop(key, None)
        if held is not None:
            held[0].release(held[1])

    def settle(self) -> None:
        """The removals have left."""
        for site in self.sites.values():
            site.settle()

    def again(self, found: VmObject) -> None:
        """Place the VMs of one instance that must be placed anew: those whose old VM has left, then
        rolling ones in batches.
        """
        for pool, names in self._wanted(found, found.moves.again):
            for number in names:
                trigger = found.moves.again[pool.pool, number]
                if trigger != ROLLING:
                    last = found.standing[pool.pool, number].placement.machine if trigger == "heal" else None
                    self._place(found, pool, number, names[number], last)
        for pool, names in self._wanted(found, found.moves.again):
            rolling = {n: name for n, name in names.items() if found.moves.again[pool.pool, n] == ROLLING}
            self._roll(found, pool, rolling)

    def _roll(self, found: VmObject, pool: PoolDemand, names: Mapping[int | str, str]) -> None:
        numbers = list(names)
        surge = 1 if pool.pool == CONTROL_PLANE else batch_size(pool.max_surge, len(pool.numbers))
        size = surge or max(batch_size(pool.max_unavailable, len(pool.numbers)), 1)
        for start in range(0, len(numbers), size):
            batch = numbers[start : start + size]
            if not surge:
                for number in batch:
                    self._release(found, (pool.pool, number))
            for number in batch:
                self._place(found, pool, number, names[number])
            for number in batch:
                if surge and (pool.pool, number) not in found.failed:
                    self._release(found, (pool.pool, number))

    def arrive(self, found: VmObject) -> None:
        """Place the new VMs of one instance."""
        for pool, names in self._wanted(found, found.moves.arrive):
            for number, name in names.items():
                self._place(found, pool, number, name)

    def _wanted(
        self, found: VmObject, which: Mapping[VmKey, str]
    ) -> Iterable[tuple[PoolDemand, dict[int | str, str]]]:
        """The numbers and names of these VMs, pool by pool."""
        if found.wanted is None or not which:
            return
        for pool in found.wanted.pools:
            pairs = zip(pool.numbers, pool.names, strict=True)
            names = {number: name for number, name in pairs if (pool.pool, number) in which}
            if names:
                yield pool, names

    def _place(
        self, found: VmObject, pool: PoolDemand, number: int | str, name: str, last: str | None = None
    ) -> None:
        key = (pool.pool, number)
        if found.wanted is None or found.site is None:
            return
        if pool.pinned:
            self._pin(found, pool, number, name)
            return
        earlier = found.short.get(pool.pool)
        if earlier is not None and last is None and not pool.groups:
            found.failed[key] = earlier
            return
        demand = demand_for(found.wanted, pool, number, last, group_hints(found, pool))
        explain = self._wishes.explain
        if explain is None or (str(found.instance.address), name) in explain:
            found.explained[key] = found.site.explain(demand)
        answer = found.site.place(demand, decided=found.wanted.provenance == "decided")
        if isinstance(answer, Shortage):
            found.failed[key] = answer
            if not pool.hints and not pool.groups:
                found.short[pool.pool] = answer
        else:
            found.tokens[key], placement = answer
            found.placed[key] = _decided(found.wanted, pool, number, name, placement)

    def _pin(self, found: VmObject, pool: PoolDemand, number: int | str, name: str) -> None:
        assert found.site is not None
        assert found.wanted is not None
        if pool.pinned not in found.site.machines:
            return
        key = (pool.pool, number)
        demand = demand_for(found.wanted, pool, number)
        found.tokens[key], placement, refused = found.site.pin(demand, pool.pinned)
        found.placed[key] = _decided(found.wanted, pool, number, name, placement)
        if refused:
            found.crowded.append(refused)


def _decided(
    wanted: VmDemand, pool: PoolDemand, number: int | str, name: str, placement: Placement
) -> PlacedVm:
    return PlacedVm(pool.pool, number, name, pool.sku.name, placement, wanted.provenance)


def group_hints(found: VmObject, pool: PoolDemand) -> list[Hint]:
    """The pool's placement groups as hints, seen from where their VMs stand by now."""
    hints = []
    for group in pool.groups:
        members = [vm.placement for vm in found.placed.values() if vm.pool in group.pools]
        if not members or group.scope == "site":
            continue
        scope = HintScope.RACK if group.scope == "rack" else HintScope.MACHINE
        machines = Counter(place.machine for place in members)
        racks = Counter(place.rack for place in members)
        least = 1 if group.affinity else group.most
        hints.append(
            Hint(
                group.affinity,
                group.hard,
                scope,
                frozenset(name for name, count in machines.items() if count >= least),
                frozenset(name for name, count in racks.items() if count >= least),
                group.name,
            )
        )
    return hints
