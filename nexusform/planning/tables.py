"""The table of the Nexus document, one row per pool: how many racks, how many VMs on each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from nexusform.planning.certainty import SiteCertainty
from nexusform.planning.plan import PlacementTable
from nexusform.planning.sites import SitePlan
from nexusform.planning.vm_phase import VmObject
from nexusform.ports import PoolDemand


def placement_tables(
    objects: Iterable[VmObject], sites: Mapping[str, SitePlan], certainty: Mapping[str, SiteCertainty]
) -> Iterator[PlacementTable]:
    """A row per pool of every cluster that stays or comes."""
    open_racks = {site_id: _open_racks(site) for site_id, site in sites.items()}
    for found in objects:
        if found.wanted is None or found.going or not found.wanted.pools:
            continue
        racks = open_racks.get(found.wanted.site_id, {})
        for pool in found.wanted.pools:
            yield _row(found, pool, racks, certainty.get(found.wanted.site_id))


def _open_racks(site: SitePlan) -> dict[str, str]:
    """Racks with a schedulable machine, and their zones."""
    return {m.rack: m.availability_zone for m in site.machines.values() if not m.refusal}


def _row(
    found: VmObject, pool: PoolDemand, racks: Mapping[str, str], certainty: SiteCertainty | None
) -> PlacementTable:
    assert found.wanted is not None
    keys = [(pool.pool, number) for number in pool.numbers]
    places = [found.places[key] for key in keys if key in found.places]
    actual = Counter(place.rack for place in places)
    allowed = sum(1 for zone in racks.values() if pool.zones is None or zone in pool.zones)
    expected = min(len(keys), allowed)
    floor, ceiling = (len(keys) // expected, -(-len(keys) // expected)) if expected else (0, 0)
    tokens = [found.tokens[key] for key in keys if key in found.tokens]
    sure = certainty.pool(found.wanted.owner, pool.pool) if certainty is not None else None
    shrinks = any(t == "scale_in" for key, t in found.moves.leave.items() if key[0] == pool.pool)
    return PlacementTable(
        found.instance.address,
        found.wanted.site_id,
        found.wanted.cluster,
        pool.pool,
        pool.sku.name,
        len(keys),
        expected,
        len(actual),
        (floor, ceiling),
        dict(sorted(actual.items())),
        placed=len(tokens),
        racks_certain=sure.vms_on_certain_counts if sure is not None else 0,
        machines_certain=sure.machine_certain if sure is not None else 0,
        counts_certain=sure.certain_racks if sure is not None else (),
        fewest_left_on_a_rack=_worst_left(found, pool) if shrinks else None,
    )


def _worst_left(found: VmObject, pool: PoolDemand) -> int:
    """On a real site the platform chooses which VMs a scale-in takes: the fewest that may be left
    on a rack that has some now.
    """
    before = Counter(vm.placement.rack for vm in found.standing.values() if vm.pool == pool.pool)
    gone = sum(1 for key in found.moves.leave if key[0] == pool.pool)
    return max(min(before.values(), default=0) - gone, 0)
