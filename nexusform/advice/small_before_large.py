"""small-before-large: a smaller cluster or pool is (or was) created before a larger one.

Larger means more host memory in total. VMs are placed in order of creation, and small ones break
cells that extra-large ones need whole.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple, TypeVar

from nexusform.advice.lint_input import MAXIMUM_ITEMS, LintInput, LintPool, SiteUsage, build_finding
from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import format_count, format_list, group_by
from nexusform.planning.plan_request import ArgumentAdjustment
from nexusform.resources.address import parse_address
from nexusform.schemas.block_schema import get_order_attribute

ID: Final = "small-before-large"
_POOLS: Final = "agent_pool"


class _OrderGain(NamedTuple):
    """Gain of another order, as a sentence and as a clause; both "" if nothing can be measured."""

    text: str = ""
    summary: str = ""
    is_silent: bool = False


class CreationGroup(NamedTuple):
    """Pools created together: a cluster's, in order."""

    name: str
    pools: tuple[LintPool, ...]

    @property
    def memory_gib(self) -> float:
        """Host memory of all pools of the group."""
        return sum(pool.memory_gib for pool in self.pools)

    @property
    def agent_pools(self) -> list[LintPool]:
        """Pools without the control plane, which always comes first."""
        return [pool for pool in self.pools if not pool.is_control_plane]

    @property
    def is_newly_placed(self) -> bool:
        """Whether this plan places all VMs of the group, or a check assumes so.

        Then another order is possible.
        """
        new_count = sum(len(pool.new_numbers) for pool in self.pools)
        return new_count > 0 and new_count == sum(pool.count for pool in self.pools)


def check(facts: LintInput) -> list[Diagnostic]:
    """Return findings for clusters placed before larger ones, then for pools.

    A pool is reported if it is placed before larger ones of its cluster. Only clusters with all VMs
    placed by this plan count: for them another order is possible. One trial has the better order
    of the clusters of all sites, another one that of the pools of all clusters.
    """
    pools_by_site = group_by(facts.pools, lambda pool: pool.site_id)
    groups_by_site = {site_id: _list_new_groups(pools) for site_id, pools in pools_by_site.items()}
    # Clusters with larger clusters after them, and clusters with such pools.
    cluster_orders: dict[str, list[LintPool]] = {}
    pool_orders: dict[str, list[LintPool]] = {}
    unordered_groups: dict[str, list[CreationGroup]] = {}
    for site_id, groups in groups_by_site.items():
        pools = pools_by_site[site_id]
        if _find_positions_before_larger(groups):
            larger_first = chain.from_iterable(group.pools for group in _sort_larger_first(groups))
            cluster_orders[site_id] = _replace_pool_order(pools, list(larger_first))
        unordered_groups[site_id] = [
            group for group in groups if _find_positions_before_larger(group.agent_pools)
        ]
        if unordered_groups[site_id]:
            pool_orders[site_id] = pools
            for group in unordered_groups[site_id]:
                pool_orders[site_id] = _replace_pool_order(
                    pool_orders[site_id], _sort_larger_first(group.agent_pools)
                )
    usage_by_clusters = _plan_orders(cluster_orders, facts)
    usage_by_pools = _plan_orders(pool_orders, facts)
    findings: list[Diagnostic] = []
    for site_id, groups in groups_by_site.items():
        if site_id in cluster_orders:
            names = ", ".join(group.name for group in _sort_larger_first(groups))
            gain = _measure_gain(f"In the order {names}", site_id, usage_by_clusters, facts)
            findings += _list_cluster_findings(groups, gain)
        for group in unordered_groups[site_id]:
            names = ", ".join(pool.pool for pool in _sort_larger_first(group.agent_pools))
            lead = f"In the order {names}"
            if len(unordered_groups[site_id]) > 1:
                cluster_count = format_count(len(unordered_groups[site_id]), "cluster")
                lead = f"With larger pools first in {cluster_count}"
            gain = _measure_gain(lead, site_id, usage_by_pools, facts)
            findings += _list_pool_findings(group, gain)
    return findings


def _list_new_groups(pools: Sequence[LintPool]) -> list[CreationGroup]:
    by_owner = group_by(pools, lambda pool: pool.owner).values()
    groups = [CreationGroup(members[0].cluster, tuple(members)) for members in by_owner]
    return [group for group in groups if group.is_newly_placed]


def _list_cluster_findings(groups: Sequence[CreationGroup], gain: _OrderGain) -> list[Diagnostic]:
    """Return a finding for each cluster created before larger ones."""
    findings: list[Diagnostic] = []
    for position in [] if gain.is_silent else _find_positions_before_larger(groups):
        group = groups[position]
        sizes = format_list(
            [
                f"{later.name} ({later.memory_gib:,} GiB)"
                for later in _list_larger(groups, position)
            ],
            MAXIMUM_ITEMS,
        )
        detail = (
            f"{group.name} ({group.memory_gib:,} GiB in all) is created before {sizes}. Put larger "
            f"clusters first: larger blocks of free cells stay whole. {gain.text}"
        )
        summary = f"{group.name}: {gain.summary or 'created before a larger cluster'}"
        findings.append(build_finding(ID, detail.rstrip(), group.pools[0], summary=summary))
    return findings


def _list_pool_findings(group: CreationGroup, gain: _OrderGain) -> list[Diagnostic]:
    """Return a finding for the first agent pool of a cluster placed before larger ones of it."""
    if gain.is_silent:
        return []
    position = _find_positions_before_larger(group.agent_pools)[0]
    pool = group.agent_pools[position]
    sizes = format_list(
        [
            f"{later.pool} ({later.memory_gib:,} GiB)"
            for later in _list_larger(group.agent_pools, position)
        ],
        MAXIMUM_ITEMS,
    )
    detail = (
        f"In {group.name}, {pool.pool} ({pool.memory_gib:,} GiB in all) is placed before "
        f"{sizes}. Put larger pools first. {gain.text}"
    )
    summary = f"{group.name}/{pool.pool}: {gain.summary or 'placed before a larger pool'}"
    return [build_finding(ID, detail.rstrip(), pool, summary=summary)]


_Sized = TypeVar("_Sized", CreationGroup, LintPool)


def _find_positions_before_larger(items: Sequence[_Sized]) -> list[int]:
    """Return the positions of the items that a larger one follows, in order.

    One pass from the end, so that the time grows with the number of items.
    """
    positions: list[int] = []
    largest_later = -1.0
    for position in reversed(range(len(items))):
        memory_gib = items[position].memory_gib
        if memory_gib < largest_later:
            positions.append(position)
        largest_later = max(largest_later, memory_gib)
    positions.reverse()
    return positions


def _list_larger(items: Sequence[_Sized], position: int) -> list[_Sized]:
    """Return the later items that are larger than the one at a position."""
    memory_gib = items[position].memory_gib
    return [later for later in items[position + 1 :] if later.memory_gib > memory_gib]


def _sort_larger_first(items: Sequence[_Sized]) -> list[_Sized]:
    return sorted(items, key=lambda item: -item.memory_gib)


def _replace_pool_order(pools: Sequence[LintPool], order: Sequence[LintPool]) -> list[LintPool]:
    """Return the pools with those of `order` in this order; all others keep their positions."""
    moved_ids = set(map(id, order))
    queue = iter(order)
    return [next(queue) if id(pool) in moved_ids else pool for pool in pools]


def _plan_orders(
    orders: Mapping[str, Sequence[LintPool]], facts: LintInput
) -> Mapping[str, SiteUsage] | None:
    """Return the sites in the plan with the pools of sites in these orders.

    Return None if there is no order, or no trial, or if that plan does not fit.
    """
    if not orders or facts.plan_trial is None:
        return None
    from nexusform.planning.edits import Edit, PlacementOrder

    blocks = group_by(chain.from_iterable(orders.values()), lambda pool: pool.address)
    new_blocks = {
        parse_address(address): pools
        for address, pools in blocks.items()
        if any(pool.new_numbers for pool in pools)
    }
    edits: list[Edit] = [PlacementOrder(tuple(new_blocks))]
    for address, pools in new_blocks.items():
        names = [pool.pool for pool in pools if pool.path[:1] == (_POOLS,)]
        if len(names) > 1:
            edits.append(ArgumentAdjustment(address, (get_order_attribute(_POOLS),), names))
    return facts.plan_trial(edits)


def _measure_gain(
    lead: str, site_id: str, usage_by_site: Mapping[str, SiteUsage] | None, facts: LintInput
) -> _OrderGain:
    """Return the gain of another order: fewer machines with two VMs of a cluster, more capacity.

    It is silent without a gain, unless `includes_costless`. `validate` has no trial.
    """
    current = facts.sites[site_id].usage if site_id in facts.sites else None
    if current is None or facts.plan_trial is None:
        return _OrderGain()
    # A plan that does not fit gains nothing.
    alternative = (usage_by_site or {}).get(site_id, current)
    gains: list[str] = []
    # The gains in short form.
    clauses: list[str] = []
    fewer_shared = sum(current.shared.values()) - sum(alternative.shared.values())  # machines
    if fewer_shared > 0:
        machines = format_count(fewer_shared, "fewer machine runs", "fewer machines run")
        gains.append(f"{machines} two VMs of one cluster")
        clauses.append(f"share {format_count(fewer_shared, 'fewer machine')}")
    more_free = alternative.free_largest - current.free_largest
    if more_free > 0:
        figures = f"{alternative.free_largest:,} instead of {current.free_largest:,}"
        gains.append(
            f"capacity for {more_free:,} more {alternative.largest} stays free ({figures})"
        )
        clauses.append(
            f"leave {alternative.free_largest:,} {alternative.largest} free instead of "
            f"{current.free_largest:,}"
        )
    if not gains:
        nothing = " nothing is gained now: as many VMs fit, and as many cells stay free."
        return _OrderGain(
            f"{lead}{nothing}",
            "another order gains nothing now",
            is_silent=not facts.includes_costless,
        )
    return _OrderGain(
        f"{lead}, {format_list(gains, MAXIMUM_ITEMS)}.",
        f"large pools first would {format_list(clauses)}",
    )
