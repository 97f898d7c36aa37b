"""Random sites with a history.

Clusters are created and deleted until machines are as full as requested.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from nexusform.placements.vm_demands import PlacedVm, PoolDemand, VmDemand
from nexusform.plans.site_capacity.occupancy import VmOwnerKind
from nexusform.resources.address import parse_address
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.vms import (
    Machine,
    Placement,
    PlacementConstraints,
    ScheduledVm,
    VmName,
    VmSku,
)
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST
from nexusform.snapshots.snapshot import PoolSnapshot, SiteSnapshot, VmOwnerSnapshot

SKUS = CATALOGUES[NEWEST].vm_skus
SMALL = (
    "NC_G6_28_v1",
    "NC_P10_56_v1",
    "NC_G12_56_v1",
    "NC_G18_74_v1",
    "NC_G24_112_v1",
    "NC_P22_112_v1",
)
LARGE = "NC_G48_224_v1"


def build_machines(racks: int, in_rack: int, disk: int = 3500) -> list[Machine]:
    return [
        Machine(f"r{r:03d}-bm{m:02d}", f"r{r:03d}", str(r), m, "bom-1.7.3", 2, 48, 224, disk)
        for r in range(1, racks + 1)
        for m in range(1, in_rack + 1)
    ]


def build_site_with_history(
    seed: int,
    racks: int = 2,
    in_rack: int = 3,
    *,
    filled: float = 0.75,
    skus: tuple[str, ...] = SMALL,
    pool_sizes: tuple[int, ...] = (2, 3, 4),
    zoned: float = 0.0,
    known: bool = True,
    disk: int = 3500,
) -> SiteSnapshot:
    """Create pools and delete every third one, until the requested fraction of memory is in use."""
    draw = random.Random(seed)
    scheduler = RackScheduler(build_machines(racks, in_rack, disk))
    whole = sum(machine.cells * machine.memory_gib_per_cell for machine in scheduler.machines)
    pools: dict[int, tuple[VmSku, PlacementConstraints, list[int]]] = {}
    number = taken = 0
    refused = 0
    while taken < filled * whole and refused < 20:
        sku = SKUS[draw.choice(skus)]
        zones = None
        if draw.random() < zoned:
            zones = frozenset(
                str(zone) for zone in draw.sample(range(1, racks + 1), max(1, racks // 2))
            )
        terms = PlacementConstraints(zones=zones)
        handles = _place_vms(scheduler, number, sku, terms, draw.choice(pool_sizes))
        if not handles:
            refused += 1
            continue
        refused = 0
        pools[number] = sku, terms, handles
        taken += sum(sku.memory_gib for _ in handles)
        number += 1
        if number % 3 == 0 and taken < filled * whole:
            gone = draw.choice(sorted(pools))
            sku, _, handles = pools.pop(gone)
            for handle in handles:
                scheduler.release(handle)
            taken -= sum(sku.memory_gib for _ in handles)
    return build_snapshot_of_pools(scheduler, pools, known=known)


def _place_vms(
    scheduler: RackScheduler, number: int, sku: VmSku, terms: PlacementConstraints, count: int
) -> list[int]:
    from nexusform.scheduling.racks.vms import Demand

    handles = []
    for vm in range(count):
        answer = scheduler.try_place(
            Demand(VmName(f"c{number}", f"c{number}", "p", vm), sku, terms)
        )
        if answer is None:
            break
        handles.append(answer[0])
    return handles


def build_snapshot_of_pools(
    scheduler: RackScheduler,
    pools: Mapping[int, tuple[VmSku, PlacementConstraints, list[int]]],
    *,
    known: bool = True,
) -> SiteSnapshot:
    """Return the site as a snapshot, each pool in its own cluster."""
    standing = {vm.handle: vm for vm in scheduler.list_vms()}
    fresh = RackScheduler(scheduler.machines)
    clusters = tuple(
        _build_cluster(
            fresh, number, sku, terms, [standing[handle] for handle in handles], known=known
        )
        for number, (sku, terms, handles) in sorted(pools.items())
    )
    return SiteSnapshot(
        id="s",
        name="s",
        machines={machine.name: machine for machine in fresh.machines},
        racks=(),
        clusters=clusters,
        unmanaged_vms=(),
        scheduler=fresh,
        skus=SKUS,
    )


def _build_cluster(
    scheduler: RackScheduler,
    number: int,
    sku: VmSku,
    terms: PlacementConstraints,
    vms: list[ScheduledVm],
    *,
    known: bool,
) -> VmOwnerSnapshot:
    name = f"c{number}"
    names = tuple(f"{name}-p-{vm}" for vm in range(len(vms)))
    demand = PoolDemand("p", tuple(range(len(vms))), names, sku, terms)
    owner = VmDemand("s", name, name, (demand,))
    placed: list[PlacedVm] = []
    handles: dict[str, int] = {}
    for at, vm in enumerate(vms):
        place = vm.placement
        if not known:
            place = Placement(place.machine, place.rack, place.availability_zone, ())
        handles[names[at]] = scheduler.add_existing(VmName(name, name, "p", at), sku, place)
        placed.append(PlacedVm("p", at, names[at], sku.name, place))
    address = parse_address(f"nexus_kubernetes_cluster.{name}")
    pool = PoolSnapshot(address, owner, demand, tuple(placed), handles)
    return VmOwnerSnapshot(name, name, "s", VmOwnerKind.NKS, (pool,))
