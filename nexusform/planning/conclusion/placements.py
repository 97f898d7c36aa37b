"""The placement rows of a plan: every VM, what happens to it, why, and how sure that is; and the table of
the Nexus document, a row per pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from nexusform.demands import PoolDemand, VmDemand
from nexusform.placement_kinds.kinds import VM
from nexusform.planning.conclusion.result import ExplainedVm
from nexusform.planning.verdicts.fit import SiteCertainty
from nexusform.planning.vms.sites import SitePlan
from nexusform.planning.vms.vm_object import VmKey, VmObject
from nexusform.plans.plan import FORGOTTEN, PlacementAction, PlacementChange, PlacementTable
from nexusform.scheduling.racks.explanation import Explanation
from nexusform.scheduling.racks.vms import Placement

OBSERVED_ELSEWHERE = "observed_elsewhere"
REASONS: Mapping[str, str] = {
    "new": "new",
    "scale_out": "the pool's count was raised",
    "scale_in": "the pool's count was lowered; the highest numbers are removed",
    "sku_changed": "the pool's VM SKU changed",
    "zones_changed": "the pool's availability zones changed",
    "labels_changed": "the pool's labels changed",
    "taints_changed": "the pool's taints changed",
    "mode_changed": "the pool's mode changed",
    "kubernetes_version_changed": "the cluster's kubernetes_version changed",
    "machine_removed": "its machine was removed",
    "machine_forgotten": "its machine is no longer managed",
    "machine_evacuated": "its machine is evacuated",
    "machine_replaced": "its machine is re-created",
    "node_deleted": "the node was deleted outside nexusform",
    "pool_removed": "its pool was removed",
    "cluster_replaced": "its cluster is replaced",
    "cluster_removed": "its cluster was removed",
    "requested": "its replacement was requested",
    "heal": "its re-placement was requested",
    OBSERVED_ELSEWHERE: "it runs elsewhere than recorded in state",
}


def placement_changes(
    objects: Iterable[VmObject], certainty: Mapping[str, SiteCertainty], *, everything: bool
) -> Iterator[PlacementChange]:
    """One row per VM: those that leave, then those that come, by pool and number, and those that were
    observed elsewhere. With `everything` also those that stay, and the machines that were refused: a site may
    hold a million.
    """
    for vms in objects:
        yield from _leaving(vms)
        yield from _without_us(vms)
        if everything or vms.housing.tokens or vms.before.recorded:
            yield from _present(vms, certainty, everything=everything)


def _leaving(vms: VmObject) -> Iterator[PlacementChange]:
    """Rows of the VMs that go, also of those that come back as others."""
    renamed = {key: trigger for key, trigger in vms.asked.moves.again.items() if _renamed(vms, key)}
    for key, trigger in {**vms.asked.moves.leave, **renamed}.items():
        yield _row_without_target(vms, key, PlacementAction.REMOVE, trigger)


def _without_us(vms: VmObject) -> Iterator[PlacementChange]:
    """Rows of the VMs to which something happens that no step does: their machine goes, or they are left to
    run on.
    """
    for key, trigger in vms.asked.moves.lost.items():
        yield _row_without_target(vms, key, PlacementAction.LOSE, trigger)
    for key, trigger in vms.asked.moves.forgotten.items():
        yield _row_without_target(vms, key, PlacementAction.FORGET, trigger)


def _row_without_target(vms: VmObject, key: VmKey, action: PlacementAction, trigger: str) -> PlacementChange:
    """The row of a VM of state that this plan gives no place. One that waits has none before, either."""
    prior, vm = vms.before.demand, vms.before.standing.get(key)
    record = vms.before.unplaced.get(key, {})
    pool = next((pool for pool in vms.prior_pools if pool.pool == key[0]), None)
    return PlacementChange(
        address=vms.instance.address,
        kind=VM,
        object=vm.name if vm is not None else str(record.get("name")),
        action=action,
        source=vm.placement if vm is not None else None,
        target=None,
        trigger=trigger,
        cluster=prior.cluster if prior is not None else "",
        pool=key[0],
        number=key[1],
        sku=vm.sku_name if vm is not None else (pool.sku.name if pool is not None else ""),
        site_id=prior.site_id if prior is not None else "",
        reason=FORGOTTEN if action is PlacementAction.FORGET else REASONS.get(trigger, ""),
        provenance=vm.provenance if vm is not None else "predicted",
        platform_name=(vm.platform_name if vm is not None else record.get("platform_name")) or "",
    )


def _renamed(vms: VmObject, key: VmKey) -> bool:
    """Whether a VM that stands comes back under another name or on another site: the one leaves and the
    other comes, it does not move.
    """
    vm, prior, demand = vms.before.standing.get(key), vms.before.demand, vms.asked.demand
    if vm is None or prior is None or demand is None:
        return False
    pool = next((pool for pool in demand.pools if pool.pool == vm.pool), None)
    return pool is None or prior.site_id != demand.site_id or vm.name not in pool.names


def _present(
    vms: VmObject, certainty: Mapping[str, SiteCertainty], *, everything: bool
) -> Iterator[PlacementChange]:
    """Rows of the VMs that stand after the plan; with `everything` also of those that nothing happens to."""
    if vms.asked.demand is None or vms.going:
        return
    site_certainty = certainty.get(vms.asked.demand.site_id)
    for pool in vms.asked.demand.pools:
        for number in pool.numbers:
            key = (pool.pool, number)
            if key in vms.housing.placed and (
                everything or key in vms.housing.tokens or key in vms.before.recorded
            ):
                yield _present_row(vms, pool, key, site_certainty, everything=everything)


def _present_row(
    vms: VmObject, pool: PoolDemand, key: VmKey, site_certainty: SiteCertainty | None, *, everything: bool
) -> PlacementChange:
    """The row of a VM that stands after the plan; with `everything` also which machines refused it."""
    assert vms.asked.demand is not None
    vm = vms.housing.placed[key]
    action, source = _action(vms, key)
    trigger = vms.trigger_of(key)
    token = vms.housing.tokens.get(key)
    if token is None and key in vms.before.recorded:
        source, trigger = vms.before.recorded[key], OBSERVED_ELSEWHERE
    explanation = vms.housing.explained.get(key)
    certainty = None
    if site_certainty is not None and token is not None:
        certainty = site_certainty.vms.get(token)
    return PlacementChange(
        address=vms.instance.address,
        kind=VM,
        object=vm.name,
        action=action,
        source=source,
        target=vm.placement,
        trigger=trigger,
        cluster=vms.asked.demand.cluster,
        pool=pool.pool,
        number=vm.number,
        sku=pool.sku.name,
        site_id=vms.asked.demand.site_id,
        reason=REASONS.get(trigger, ""),
        scores=_scores(explanation),
        certainty=certainty,
        provenance=vm.provenance,
        rejected=explanation.refusals if explanation is not None and everything else (),
        platform_name=vms.before.standing.get(key, vm).platform_name or "",
    )


def _action(vms: VmObject, key: VmKey) -> tuple[PlacementAction, Placement | None]:
    """What happens to a VM that is there after the plan, and where it comes from."""
    standing = vms.before.standing.get(key)
    source = standing.placement if standing is not None else None
    if key not in vms.housing.tokens:
        return PlacementAction.KEEP, source
    if (standing is not None and not _renamed(vms, key)) or key in vms.before.unplaced:
        return PlacementAction.MOVE, source
    return PlacementAction.PLACE, None


def _scores(explanation: Explanation | None) -> dict[str, float]:
    """The figures that decided: those of the chosen rack, then of the chosen machine."""
    if explanation is None or not explanation.racks or not explanation.machines:
        return {}
    chosen_rack, chosen_machine = explanation.racks[0], explanation.machines[0]
    scores = {f"rack.{key.rule}": key.value for key in chosen_rack.keys}
    for key in chosen_machine.keys:
        scores[f"machine.{key.rule}"] = key.value
    return scores


def explanations(objects: Iterable[VmObject]) -> tuple[ExplainedVm, ...]:
    """The explanations that were asked for."""
    explained = []
    for vms in objects:
        if not vms.housing.explained or vms.asked.demand is None:
            continue
        names = _names(vms.asked.demand)
        for key, explanation in vms.housing.explained.items():
            trigger = vms.trigger_of(key)
            explained.append(ExplainedVm(vms.instance.address, names[key], explanation, trigger))
    return tuple(explained)


def _names(demand: VmDemand) -> dict[VmKey, str]:
    """The names of the VMs that are asked for."""
    names: dict[VmKey, str] = {}
    for pool in demand.pools:
        for number, name in zip(pool.numbers, pool.names, strict=True):
            names[pool.pool, number] = name
    return names


# --- the table of the Nexus document -----------------------------------------------------------


def placement_tables(
    objects: Iterable[VmObject], sites: Mapping[str, SitePlan], certainty: Mapping[str, SiteCertainty]
) -> Iterator[PlacementTable]:
    """A row per pool of every cluster that stays or comes.

    The VMs of one block of plain VMs are one pool, as in the placement rule; its row stands where
    the first of them does.
    """
    open_racks = {site_id: _open_racks(site) for site_id, site in sites.items()}
    rows: dict[tuple[str, str, str], list[tuple[VmObject, PoolDemand]]] = {}
    for vms in objects:
        demand = vms.asked.demand
        if demand is None or vms.going:
            continue
        for pool in demand.pools:
            whose = pool.rule_pool or str(vms.instance.address)
            rows.setdefault((demand.site_id, whose, pool.pool), []).append((vms, pool))
    for (site_id, _, _), members in rows.items():
        yield _row(members, open_racks.get(site_id, {}), certainty.get(site_id))


def _open_racks(site: SitePlan) -> dict[str, str]:
    """Racks with a schedulable machine, and their zones."""
    return {
        machine.rack: machine.availability_zone for machine in site.machines.values() if not machine.refusal
    }


def _row(
    members: Sequence[tuple[VmObject, PoolDemand]],
    racks: Mapping[str, str],
    certainty: SiteCertainty | None,
) -> PlacementTable:
    """The table's row of one pool, or of several that the platform takes for one."""
    vms, pool = members[0]
    demand = vms.asked.demand
    assert demand is not None
    keys: list[tuple[VmObject, VmKey]] = []
    for owner, member_pool in members:
        keys += [(owner, (member_pool.pool, number)) for number in member_pool.numbers]
    racks_taken = Counter(owner.place_after(key).rack for owner, key in keys if key in owner.housing.placed)
    allowed = sum(1 for zone in racks.values() if pool.zones is None or zone in pool.zones)
    expected = min(len(keys), allowed)
    fewest_on_rack = len(keys) // expected if expected else 0
    most_on_rack = -(-len(keys) // expected) if expected else 0
    sure = certainty.pool(demand.owner, pool.rule_pool or pool.pool) if certainty is not None else None
    if certainty is not None and _is_drawn(racks, pool.zones, certainty):
        sure = None
    placed = sum(
        1 for owner, key in keys if key in owner.housing.tokens and key not in owner.housing.put_back
    )
    racks_certain = sure.vms_on_certain_counts if sure is not None else 0
    machines_certain = sure.machine_certain if sure is not None else 0
    if demand.provenance == "decided":  # somebody else chose the places: nothing is drawn
        racks_certain = machines_certain = placed
    sizes = {member_pool.sku.name for _, member_pool in members}
    return PlacementTable(
        address=vms.instance.address,
        site_id=demand.site_id,
        cluster=demand.cluster,
        pool=pool.pool,
        vm_sku_name=pool.sku.name if len(sizes) == 1 else f"{len(sizes)} sizes",
        total_count=len(keys),
        expected_racks=expected,
        actual_racks=len(racks_taken),
        expected_vms_per_rack=(fewest_on_rack, most_on_rack),
        actual_vms_per_rack=dict(sorted(racks_taken.items())),
        placed=placed,
        racks_certain=racks_certain,
        machines_certain=machines_certain,
        counts_certain=sure.certain_racks if sure is not None else (),
        fewest_left_on_a_rack=_worst_left(vms, pool) if platform_shrinks(vms, pool) else None,
        provenance=demand.provenance,
    )


def _is_drawn(racks: Mapping[str, str], zones: frozenset[str] | None, certainty: SiteCertainty) -> bool:
    """Whether what the repetitions say of a pool hangs on cells that nobody told."""
    return any(zones is None or racks.get(rack) in zones for rack in certainty.loose_racks)


def platform_shrinks(vms: VmObject, pool: PoolDemand) -> bool:
    """Whether the pool loses VMs that the platform chooses, and the choice matters: others stay where they
    are, some of them together. A VNF's manager takes the newest.
    """
    if vms.asked.demand is None or vms.asked.demand.provenance == "decided":
        return False
    gone = vms.asked.moves.leave.items()
    if not any(name == pool.pool and trigger == "scale_in" for (name, _), trigger in gone):
        return False
    if not any(name == pool.pool for name, _ in vms.asked.moves.stay):
        return False
    on_rack = Counter(vms.place_before(key).rack for key in vms.before.standing if key[0] == pool.pool)
    return max(on_rack.values()) > 1


def _worst_left(vms: VmObject, pool: PoolDemand) -> int:
    """The fewest VMs that may be left on a rack that has some now: on a real site the platform chooses which
    ones a scale-in takes.
    """
    before = Counter(vms.place_before(key).rack for key in vms.before.standing if key[0] == pool.pool)
    gone = sum(1 for key in vms.asked.moves.leave if key[0] == pool.pool)
    return max(min(before.values(), default=0) - gone, 0)
