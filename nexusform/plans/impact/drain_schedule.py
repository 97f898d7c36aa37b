"""How long drains of a plan take if every one times out, along the longest path of the apply."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from itertools import accumulate
from operator import attrgetter
from typing import Final, TypeAlias

from nexusform.diagnostics.phrases import group_by
from nexusform.placements.vm_demands import MACHINE_LOST
from nexusform.plans.impact.object_effects import Effect, compute_effect
from nexusform.plans.maintenance import ClusterDrains, DrainSchedule, EqualDrains
from nexusform.plans.plan import PlacementChange, Plan, StepKind
from nexusform.resources.address import Address
from nexusform.resources.graph import DEFAULT_PARALLELISM, sort_topologically

_DRAINING_STEPS: Final = (StepKind.UPDATE, StepKind.DELETE)

# Id of the site, name of the cluster.
_ClusterKey: TypeAlias = tuple[str, str]
# Seconds until a drain ends, and the number of drains one after another until then.
_PathEnd: TypeAlias = tuple[int, int]


def build_drain_schedule(
    plan: Plan, interrupted_vms: Iterable[PlacementChange]
) -> DrainSchedule | None:
    """Build the schedule of the drains of a plan; None without any.

    `interrupted_vms` are the VMs to drain outside of upgrades: those of one pool drain together.
    """
    # In seconds; control planes have none.
    timeouts = {
        (table.site_id, table.cluster, table.pool): table.drain_timeout
        for table in plan.figures.placement_tables
    }
    # A replaced cluster may have another name.
    timeouts_by_address = {
        (table.address, table.pool): table.drain_timeout for table in plan.figures.placement_tables
    }
    drains: defaultdict[_ClusterKey, Counter[tuple[int, str]]] = defaultdict(Counter)
    addresses: dict[_ClusterKey, Address] = {}
    drained_vms = (
        row
        for row in interrupted_vms
        # A VM without its host is not drained.
        if compute_effect(row) is not Effect.LOST and row.trigger != MACHINE_LOST
    )
    rows_by_pool = group_by(drained_vms, attrgetter("site_id", "cluster", "pool"))
    for (site_id, cluster, pool), rows in rows_by_pool.items():
        timeout = timeouts.get(
            (site_id, cluster, pool), timeouts_by_address.get((rows[0].address, pool), 0)
        )
        if timeout:
            drains[site_id, cluster][timeout, "node" if len(rows) == 1 else "batch"] += 1
            addresses.setdefault((site_id, cluster), rows[0].address)
    for upgrade in plan.impact.upgrades:
        for pool_recreation in upgrade.pools:
            if pool_recreation.drain_seconds:
                key = (upgrade.site_id, upgrade.cluster)
                is_single = pool_recreation.batches == pool_recreation.vms
                drain = (pool_recreation.drain_timeout, "node" if is_single else "batch")
                drains[key][drain] += pool_recreation.batches
                addresses.setdefault(key, upgrade.address)
    if not drains:
        return None
    clusters = {key: ClusterDrains(key[1], _list_drains(counts)) for key, counts in drains.items()}
    seconds_by_address: Counter[Address] = Counter()
    for key, cluster_drains in clusters.items():
        seconds_by_address[addresses[key]] += cluster_drains.seconds
    concurrent, (seconds, path_length) = _run_steps(plan, seconds_by_address)
    return DrainSchedule(tuple(clusters.values()), concurrent, seconds, path_length)


def _list_drains(counts: Mapping[tuple[int, str], int]) -> tuple[EqualDrains, ...]:
    """Return the drains by timeout and noun, those with the longest timeout first."""
    return tuple(
        EqualDrains(timeout, noun, count)
        for (timeout, noun), count in sorted(counts.items(), reverse=True)
    )


def _run_steps(plan: Plan, seconds_by_address: Mapping[Address, int]) -> tuple[int, _PathEnd]:
    """Return the largest number of clusters that drain at a time, and the end of the longest path.

    Steps start as in an apply: after the steps that they wait for, DEFAULT_PARALLELISM at a time.
    Steps without drains end at once.
    """
    remaining = dict(seconds_by_address)
    # End of the last drain of each worker, and the number of drains on the path to it.
    workers: list[_PathEnd] = [(0, 0)] * DEFAULT_PARALLELISM
    ends: dict[int, _PathEnd] = {}
    # (time, 1 for a start and -1 for an end).
    events: list[tuple[int, int]] = []
    steps = {step.id: step for step in plan.steps}
    waits = {step.id: {*step.waits_for, *step.follows} for step in plan.steps}
    for step_id in sort_topologically(waits, position={step: step for step in waits}):
        step = steps[step_id]
        start = max((ends[awaited] for awaited in waits[step_id]), default=(0, 0))
        seconds = 0
        if step.kind in _DRAINING_STEPS:
            seconds = remaining.pop(plan.changes[step.change].address, 0)
        if seconds:
            # The later of its predecessors and of a free worker.
            start = max(start, heappop(workers))
            events += [(start[0], 1), (start[0] + seconds, -1)]
            start = (start[0] + seconds, start[1] + 1)
            heappush(workers, start)
        ends[step_id] = start
    # Objects without a step of their own wait for none.
    for seconds in remaining.values():
        start = heappop(workers)
        events += [(start[0], 1), (start[0] + seconds, -1)]
        heappush(workers, (start[0] + seconds, start[1] + 1))
    running_counts = accumulate(change for _, change in sorted(events))
    return max(running_counts), max(workers)
