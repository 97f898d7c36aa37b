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
    for found in objects:
        if found.demand is None or found.going or not found.demand.pools:
            continue
        for pool in found.demand.pools:
            whose = pool.rule_pool or str(found.instance.address)
            rows.setdefault((found.demand.site_id, whose, pool.pool), []).append((found, pool))
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
    found, pool = members[0]
    assert found.demand is not None
    keys = [(of, (p.pool, number)) for of, p in members for number in p.numbers]
    actual = Counter(of.place_after(key).rack for of, key in keys if key in of.placed)
    allowed = sum(1 for zone in racks.values() if pool.zones is None or zone in pool.zones)
    expected = min(len(keys), allowed)
    floor, ceiling = (len(keys) // expected, -(-len(keys) // expected)) if expected else (0, 0)
    placed = sum(1 for of, key in keys if key in of.tokens)
    sure = certainty.pool(found.demand.owner, pool.rule_pool or pool.pool) if certainty is not None else None
    # A VNF's manager takes the newest; a platform takes which it likes.
    chosen = found.demand.provenance != "decided"
    shrinks = chosen and any(t == "scale_in" for key, t in found.moves.leave.items() if key[0] == pool.pool)
    sizes = {p.sku.name for _, p in members}
    return PlacementTable(
        found.instance.address,
        found.demand.site_id,
        found.demand.cluster,
        pool.pool,
        pool.sku.name if len(sizes) == 1 else f"{len(sizes)} sizes",
        len(keys),
        expected,
        len(actual),
        (floor, ceiling),
        dict(sorted(actual.items())),
        placed=placed,
        racks_certain=sure.vms_on_certain_counts if sure is not None else 0,
        machines_certain=sure.machine_certain if sure is not None else 0,
        counts_certain=sure.certain_racks if sure is not None else (),
        fewest_left_on_a_rack=_worst_left(found, pool) if shrinks else None,
    )


def _worst_left(found: VmObject, pool: PoolDemand) -> int:
    """On a real site the platform chooses which VMs a scale-in takes: the fewest that may be left
    on a rack that has some now.
    """
    before = Counter(found.place_before(key).rack for key in found.standing if key[0] == pool.pool)
    gone = sum(1 for key in found.moves.leave if key[0] == pool.pool)
    return max(min(before.values(), default=0) - gone, 0)
