"""What is left when machines are down: nodes per cluster and pool, and control-plane quorum. Where NUMA cells
are not known, the question is asked again in many draws of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from msgspec import Struct

from nexusform.demands import PlacedVm
from nexusform.planning.vms.sites import demand_for
from nexusform.plans.plan import Draws
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.explanation import Shortage
from nexusform.scheduling.racks.uncertainty.certainty import FEWEST_RUNS, MOST_RUNS
from nexusform.scheduling.racks.uncertainty.splits import PACKED, SPREAD, name_of
from nexusform.scheduling.racks.vms import Interval, Placement
from nexusform.worlds.world_view import Cluster, OwnerKind, Pool, SiteView


def quorum_of(members: int) -> int:
    """How many members of a control plane must be up: more than half (etcd)."""
    return members // 2 + 1


class Replacement(Struct, frozen=True):
    """A VM that is made anew: as it stood, and where the rule puts the new one (None: no room)."""

    vm: PlacedVm
    place: Placement | None


class PlacedAnew(Struct, frozen=True):
    """VMs of a pool that the rule placed anew: their replacements, the scheduler's handles of those that
    have room, and what the first one without room fell short of.
    """

    replacements: tuple[Replacement, ...]
    handles: tuple[int, ...]
    shortage: Shortage | None


def place_anew(scheduler: RackScheduler, pool: Pool, vms: Iterable[PlacedVm]) -> PlacedAnew:
    """Ask the rule for a new place for each of these VMs of a pool, beside those that stand."""
    replacements: list[Replacement] = []
    handles: list[int] = []
    shortage: Shortage | None = None
    for vm in vms:
        answer = scheduler.place(demand_for(pool.owner, pool.demand, vm.number))
        if isinstance(answer, Shortage):
            shortage = shortage or answer
            replacements.append(Replacement(vm, None))
            continue
        handle, place = answer
        handles.append(handle)
        replacements.append(Replacement(vm, place))
    return PlacedAnew(tuple(replacements), tuple(handles), shortage)


class PoolLeft(Struct, frozen=True):
    """A pool of which VMs are down.

    `quorum` is how many must be up (0 unless it is a control plane).
    """

    cluster_id: str
    cluster: str
    kind: OwnerKind
    pool: str
    address: str
    control_plane: bool
    total: int
    down: tuple[PlacedVm, ...]
    quorum: int = 0

    @property
    def left(self) -> int:
        """VMs that are up."""
        return self.total - len(self.down)

    @property
    def lost(self) -> bool:
        """Whether availability is lost: no quorum, or no node of the pool left.

        A plain VM is alone by nature: that it is down is told, and is no finding.
        """
        if self.kind is OwnerKind.VM:
            return False
        return self.left < max(self.quorum, 1)


def pool_left(cluster: Cluster, pool: Pool, down: Iterable[PlacedVm]) -> PoolLeft:
    """A pool with these VMs down."""
    total = len(pool.vms)
    return PoolLeft(
        cluster_id=cluster.id,
        cluster=cluster.name,
        kind=cluster.kind,
        pool=pool.name,
        address=str(pool.address),
        control_plane=pool.control_plane,
        total=total,
        down=tuple(down),
        quorum=quorum_of(total) if pool.control_plane else 0,
    )


def pools_hit(site: SiteView, machines: Collection[str]) -> tuple[PoolLeft, ...]:
    """The pools that have VMs on these machines, in order of creation."""
    hit: list[PoolLeft] = []
    for cluster in site.clusters:
        for pool in cluster.pools:
            down = [vm for vm in pool.vms if vm.placement.machine in machines]
            if down:
                hit.append(pool_left(cluster, pool, down))
    return tuple(hit)


def down_by_cluster(pools: Iterable[PoolLeft]) -> dict[str, list[PlacedVm]]:
    """The VMs of these pools that are down, by cluster id."""
    down: dict[str, list[PlacedVm]] = {}
    for pool in pools:
        down.setdefault(pool.cluster_id, []).extend(pool.down)
    return down


_MOST_PLACEMENTS: Final = 20_000  # some five seconds of an upgrade


class DrawnRoom(Struct, frozen=True):
    """The VMs that find no room, over the draws; in all and pool by pool, beside the draws in which a pool
    finds room for all of its own. `exact`: the interval holds for every way in which VMs may lie, not for the
    draws alone.
    """

    draws: Draws
    missing: Interval
    pools: tuple[Interval, ...]
    fitting: tuple[int, ...]
    exact: bool = False

    @property
    def certain(self) -> bool:
        """Whether everything finds room, as far as is known."""
        return self.missing.most == 0


def ask_again(
    scheduler: RackScheduler, vms: int, missing: Callable[[RackScheduler], Sequence[int]]
) -> DrawnRoom | None:
    """Ask of every draw how many VMs find no room, pool by pool; `vms` are those that a question places. None
    where all cells are known. The draw that is shown is the first.
    """
    if not vms or not scheduler.is_drawn:
        return None
    runs = max(FEWEST_RUNS, min(MOST_RUNS, _MOST_PLACEMENTS // vms))
    # Of each draw, how many VMs of each pool are missing; and of each pool, in each draw.
    by_draw = [tuple(missing(scheduler.copy(split_seed=run))) for run in range(runs)]
    by_pool = list(zip(*by_draw, strict=True))
    draws = Draws(
        machines=len(scheduler.loose_machines()),
        shown=name_of(scheduler.split_seed),
        fitting=sum(not any(counts) for counts in by_draw),
        runs=runs,
        packed=not any(missing(scheduler.copy(split_seed=PACKED))),
        spread=not any(missing(scheduler.copy(split_seed=SPREAD))),
    )
    return DrawnRoom(
        draws=draws,
        missing=_over(map(sum, by_draw)),
        pools=tuple(map(_over, by_pool)),
        fitting=tuple(counts.count(0) for counts in by_pool),
    )


def _over(counts: Iterable[int]) -> Interval:
    listed = list(counts)
    return Interval(min(listed), max(listed))
