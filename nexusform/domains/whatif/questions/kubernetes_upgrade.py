"""A Kubernetes upgrade of one cluster, batch by batch: whether every surge VM finds room.

The same walk as a plan with another kubernetes_version: control plane, then pools, by number; the
new VMs of a batch are placed while the old ones still hold their room, then the old ones leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from msgspec import Struct

from nexusform.demands import PlacedVm
from nexusform.domains.whatif.questions.pods_down import ClusterPods, strict_budgets
from nexusform.kubernetes.quantity import amount_of
from nexusform.planning.vms.sites import vm_name
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.explanation import Shortage
from nexusform.worlds.availability import DrawnRoom, PlacedAnew, Replacement, ask_again, place_anew, quorum_of
from nexusform.worlds.world_view import Cluster, Pool, SiteView


class Batch(Struct, frozen=True):
    """Nodes that are upgraded together. `up` is how many of the pool's nodes are up meanwhile."""

    number: int
    moves: tuple[Replacement, ...]
    up: int

    @property
    def fits(self) -> bool:
        """Whether every new VM found room."""
        return all(move.place is not None for move in self.moves)


class PoolUpgrade(Struct, frozen=True):
    """One pool. `surge` and `unavailable` are VMs; a pool surges when `surge` is above 0.

    It stops at its first batch that does not fit: `reason` says why, `fitting_surge` is the largest
    max_surge (below the configured one) with which the whole pool would go through (0: none), and
    `in_place` whether it would with max_surge 0 and max_unavailable 1.
    """

    pool: str
    control_plane: bool
    sku: str
    count: int
    max_surge: str
    max_unavailable: str
    surge: int
    unavailable: int
    drain_timeout: int
    batches: tuple[Batch, ...]
    reason: str = ""
    fitting_surge: int = 0
    in_place: bool = False

    @property
    def blocked(self) -> bool:
        """Whether a batch finds no room."""
        return bool(self.reason)

    @property
    def fewest_up(self) -> int:
        """The fewest nodes that are up at any time."""
        return min((batch.up for batch in self.batches), default=self.count)

    @property
    def quorum(self) -> int:
        """How many nodes must be up; 0 unless it is a control plane."""
        return quorum_of(self.count) if self.control_plane else 0

    @property
    def quorum_lost(self) -> bool:
        """Whether a control plane falls below its quorum."""
        return self.fewest_up < self.quorum

    @property
    def lost(self) -> bool:
        """Whether no node of the pool, or no quorum, is up at some time."""
        return self.quorum_lost or (self.count > 0 and self.fewest_up == 0)


class KubernetesUpgrade(Struct, frozen=True):
    """The upgrade of one cluster, pools in the order in which they take their turn.

    `budgets` are PodDisruptionBudgets (`<namespace>/<name>`) that allow no eviction: they block a drain.
    Where NUMA cells are not known, `pools` show one draw of them, and `drawn` says how it is in the others.
    """

    cluster_id: str
    cluster: str
    site_id: str
    version: str
    pools: tuple[PoolUpgrade, ...]
    budgets: tuple[str, ...] = ()
    drawn: DrawnRoom | None = None

    @property
    def blocked(self) -> tuple[PoolUpgrade, ...]:
        """The pools whose surge finds no room."""
        return tuple(pool for pool in self.pools if pool.blocked)

    @property
    def bad(self) -> bool:
        """Whether it does not certainly go through, or loses availability on the way."""
        unsure = self.drawn is not None and not self.drawn.certain
        return unsure or bool(self.budgets) or any(pool.blocked or pool.lost for pool in self.pools)


def simulate_kubernetes_upgrade(
    site: SiteView, cluster: Cluster, pods: ClusterPods | None = None
) -> KubernetesUpgrade:
    """Upgrade every pool in turn; a pool that is blocked keeps its old VMs, and the next one is tried."""
    scheduler = site.scheduler.copy()

    def missing_by_pool(drawn_scheduler: RackScheduler) -> list[int]:
        return [_missing(drawn_scheduler, pool) for pool in cluster.pools]

    drawn = ask_again(scheduler, cluster.count, missing_by_pool)
    pools = tuple([_pool(scheduler, pool) for pool in cluster.pools])
    versions = [pool.owner.version for pool in cluster.pools if pool.owner.version]
    strict = strict_budgets(pods) if pods is not None else ()
    budgets = tuple(f"{budget.namespace}/{budget.name}" for budget in strict)
    return KubernetesUpgrade(
        cluster.id, cluster.name, site.id, versions[0] if versions else "", pools, budgets, drawn
    )


class _Walk(Struct, frozen=True):
    # The batches of a pool up to the one that did not fit; `shortage` None: all did.
    batches: tuple[Batch, ...]
    shortage: Shortage | None


def _pool(scheduler: RackScheduler, pool: Pool) -> PoolUpgrade:
    """The upgrade of one pool; where it gets stuck, which smaller surge would do."""
    count = len(pool.vms)
    max_surge, max_unavailable = _settings(pool)
    surge, unavailable = amount_of(max_surge, count), amount_of(max_unavailable, count)
    scheduler_before = scheduler.copy()
    walk = _walk(scheduler, pool, surge, unavailable)
    reason, fitting, in_place = "", 0, False
    if walk.shortage is not None:
        reason = walk.shortage.reason
        if not pool.control_plane:
            fitting = _fitting_surge(scheduler_before, pool, min(surge, count) - 1)
            in_place = _walk(scheduler_before.copy(), pool, 0, 1).shortage is None
    return PoolUpgrade(
        pool=pool.name,
        control_plane=pool.control_plane,
        sku=pool.sku.name,
        count=count,
        max_surge=max_surge,
        max_unavailable=max_unavailable,
        surge=surge,
        unavailable=unavailable,
        drain_timeout=pool.drain_timeout,
        batches=walk.batches,
        reason=reason,
        fitting_surge=fitting,
        in_place=in_place,
    )


def _missing(scheduler: RackScheduler, pool: Pool) -> int:
    """How many VMs find no room in the batch at which a pool stops; 0 where it goes through."""
    max_surge, max_unavailable = _settings(pool)
    count = len(pool.vms)
    walk = _walk(scheduler, pool, amount_of(max_surge, count), amount_of(max_unavailable, count))
    moves = chain.from_iterable(batch.moves for batch in walk.batches)
    return sum(move.place is None for move in moves)


def _settings(pool: Pool) -> tuple[str, str]:
    """max_surge and max_unavailable as written; a control plane always surges by one."""
    if pool.control_plane:
        return "1", "0"
    return pool.demand.max_surge, pool.demand.max_unavailable


def _fitting_surge(scheduler: RackScheduler, pool: Pool, most: int) -> int:
    """The largest surge, searched downwards, with which the whole pool goes through; 0 when none does."""
    for surge in range(most, 0, -1):
        if _walk(scheduler.copy(), pool, surge, 0).shortage is None:
            return surge
    return 0


def _walk(scheduler: RackScheduler, pool: Pool, surge: int, unavailable: int) -> _Walk:
    """Upgrade batch by batch until all are done or one does not fit."""
    size = surge or max(unavailable, 1)
    batches: list[Batch] = []
    for start in range(0, len(pool.vms), size):
        vms = pool.vms[start : start + size]
        placed = _upgrade_batch(scheduler, pool, vms, surging=surge > 0)
        up = len(pool.vms) if surge else len(pool.vms) - len(vms)
        batches.append(Batch(len(batches) + 1, placed.replacements, up))
        if placed.shortage is not None:
            return _Walk(tuple(batches), placed.shortage)
    return _Walk(tuple(batches), None)


def _upgrade_batch(
    scheduler: RackScheduler, pool: Pool, vms: Sequence[PlacedVm], *, surging: bool
) -> PlacedAnew:
    """Place the new VMs of one batch; when one finds no room, everything is as before the batch."""
    old_handles = [pool.handles[vm.name] for vm in vms]
    if not surging:
        _leave(scheduler, old_handles)
    placed = place_anew(scheduler, pool, vms)
    if placed.shortage is not None:
        _leave(scheduler, placed.handles)
        if not surging:
            _come_back(scheduler, pool, vms)
    elif surging:
        _leave(scheduler, old_handles)
    return placed


def _leave(scheduler: RackScheduler, handles: Sequence[int]) -> None:
    for handle in handles:
        scheduler.release(handle)


def _come_back(scheduler: RackScheduler, pool: Pool, vms: Sequence[PlacedVm]) -> None:
    for vm in vms:
        name = vm_name(pool.owner, pool.demand, pool.name, vm.number)
        scheduler.occupy(name, pool.sku, vm.placement)
