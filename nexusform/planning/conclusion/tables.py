"""The table of the Nexus document, one row per pool: how many racks, how many VMs on each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from nexusform.demands import PoolDemand
from nexusform.planning.plan import PlacementTable
from nexusform.planning.verdicts.certainty import SiteCertainty
from nexusform.planning.vms.sites import SitePlan
from nexusform.planning.vms.vm_object import VmObject


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
        demand = vms.demand
        if demand is None or vms.going:
            continue
        for pool in demand.pools:
            whose = pool.rule_pool or str(vms.instance.address)
            rows.setdefault((demand.site_id, whose, pool.pool), []).append((vms, pool))
    for (site_id, _, _), members in rows.items():
        yield _row(members, open_racks.get(site_id, {}), certainty.get(site_id))


def _open_racks(site: SitePlan) -> dict[str, str]:
    """Racks with a schedulable machine, and their zones."""
    return {m.rack: m.availability_zone for m in site.machines.values() if not m.refusal}


def _row(
    members: Sequence[tuple[VmObject, PoolDemand]],
    racks: Mapping[str, str],
    certainty: SiteCertainty | None,
) -> PlacementTable:
    vms, pool = members[0]
    demand = vms.demand
    assert demand is not None
    keys = [(of, (part.pool, number)) for of, part in members for number in part.numbers]
    racks_taken = Counter(of.place_after(key).rack for of, key in keys if key in of.placed)
    allowed = sum(1 for zone in racks.values() if pool.zones is None or zone in pool.zones)
    expected = min(len(keys), allowed)
    floor, ceiling = (len(keys) // expected, -(-len(keys) // expected)) if expected else (0, 0)
    sure = certainty.pool(demand.owner, pool.rule_pool or pool.pool) if certainty is not None else None
    sizes = {part.sku.name for _, part in members}
    return PlacementTable(
        vms.instance.address,
        demand.site_id,
        demand.cluster,
        pool.pool,
        pool.sku.name if len(sizes) == 1 else f"{len(sizes)} sizes",
        len(keys),
        expected,
        len(racks_taken),
        (floor, ceiling),
        dict(sorted(racks_taken.items())),
        placed=sum(1 for of, key in keys if key in of.tokens),
        racks_certain=sure.vms_on_certain_counts if sure is not None else 0,
        machines_certain=sure.machine_certain if sure is not None else 0,
        counts_certain=sure.certain_racks if sure is not None else (),
        fewest_left_on_a_rack=_worst_left(vms, pool) if _platform_shrinks(vms, pool) else None,
    )


def _platform_shrinks(vms: VmObject, pool: PoolDemand) -> bool:
    """Whether the pool loses VMs that the platform chooses. A VNF's manager takes the newest."""
    if vms.demand is None or vms.demand.provenance == "decided":
        return False
    return any(name == pool.pool and trigger == "scale_in" for (name, _), trigger in vms.moves.leave.items())


def _worst_left(vms: VmObject, pool: PoolDemand) -> int:
    """On a real site the platform chooses which VMs a scale-in takes: the fewest that may be left
    on a rack that has some now.
    """
    before = Counter(vms.place_before(key).rack for key in vms.standing if key[0] == pool.pool)
    gone = sum(1 for key in vms.moves.leave if key[0] == pool.pool)
    return max(min(before.values(), default=0) - gone, 0)
