"""small-before-large: a smaller cluster or pool is (or was) created before a larger one.

Larger means more host memory in total. VMs are placed in order of creation, and small ones break
cells that extra-large ones need whole.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final, NamedTuple, TypeVar

from nexusform.advice.lint_input import MAXIMUM_ITEMS, LintInput, LintPool, LintSite, build_finding
from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import format_count, format_list, group_by

ID: Final = "small-before-large"


class _OrderGain(NamedTuple):
    """Gain of another order, as a sentence and as a clause; both "" if nothing can be measured."""

    text: str = ""
    summary: str = ""
    is_zero: bool = False


class CreationGroup(NamedTuple):
    """Pools created together: a cluster's, in order."""

    name: str
    pools: tuple[LintPool, ...]

    @property
    def memory_gib(self) -> float:
        """Host memory of all pools of the group."""
        return sum(pool.memory_gib for pool in self.pools)

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
    placed by this plan count: for them another order is possible.
    """
    findings: list[Diagnostic] = []
    for site_id in dict.fromkeys(pool.site_id for pool in facts.pools):
        pools = facts.list_pools(site_id)
        by_owner = group_by(pools, lambda pool: pool.owner).values()
        groups = [CreationGroup(members[0].cluster, tuple(members)) for members in by_owner]
        new_groups = [group for group in groups if group.is_newly_placed]
        site = facts.get_site(pools[0])
        findings += _check_cluster_order(
            new_groups, pools, site, includes_costless=facts.includes_costless
        )
        for group in new_groups:
            findings += _check_pool_order(
                group, pools, site, includes_costless=facts.includes_costless
            )
    return findings


def _check_cluster_order(
    new_groups: Sequence[CreationGroup],
    pools: Sequence[LintPool],
    site: LintSite,
    *,
    includes_costless: bool,
) -> list[Diagnostic]:
    """Return a finding for each cluster created before larger ones, if that costs capacity.

    With `includes_costless`, orders without a cost are reported too.
    """
    findings: list[Diagnostic] = []
    # Measured once, for the order of all clusters.
    gain = None
    for position in _find_positions_before_larger(new_groups):
        group = new_groups[position]
        larger = _list_larger(new_groups, position)
        if gain is None:
            better_order = sorted(new_groups, key=lambda new_group: -new_group.memory_gib)
            names = ", ".join(new_group.name for new_group in better_order)
            larger_first = list(chain.from_iterable(new_group.pools for new_group in better_order))
            gain = _measure_order(names, pools, _replace_pool_order(pools, larger_first), site)
        if gain.is_zero and not includes_costless:
            return []
        sizes = format_list(
            [f"{later.name} ({later.memory_gib:,} GiB)" for later in larger], MAXIMUM_ITEMS
        )
        detail = (
            f"{group.name} ({group.memory_gib:,} GiB in all) is created before {sizes}. Put larger "
            f"clusters first: larger blocks of free cells stay whole. {gain.text}"
        )
        summary = f"{group.name}: {gain.summary or 'created before a larger cluster'}"
        findings.append(build_finding(ID, detail.rstrip(), group.pools[0], summary=summary))
    return findings


def _check_pool_order(
    group: CreationGroup, pools: Sequence[LintPool], site: LintSite, *, includes_costless: bool
) -> list[Diagnostic]:
    """Return a finding for the first agent pool of a cluster placed before larger ones of it.

    If another order gains nothing, return none unless `includes_costless`.
    """
    agent_pools = [pool for pool in group.pools if not pool.is_control_plane]
    positions = _find_positions_before_larger(agent_pools)
    if not positions:
        # Larger pools come first already.
        return []
    pool = agent_pools[positions[0]]
    larger = _list_larger(agent_pools, positions[0])
    larger_first = sorted(agent_pools, key=lambda agent_pool: -agent_pool.memory_gib)
    names = ", ".join(agent_pool.pool for agent_pool in larger_first)
    gain = _measure_order(names, pools, _replace_pool_order(pools, larger_first), site)
    if gain.is_zero and not includes_costless:
        # The order costs nothing.
        return []
    sizes = format_list(
        [f"{later_pool.pool} ({later_pool.memory_gib:,} GiB)" for later_pool in larger],
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


def _replace_pool_order(pools: Sequence[LintPool], order: Sequence[LintPool]) -> list[LintPool]:
    """Return the pools with those of `order` in this order; all others keep their positions."""
    moved_ids = set(map(id, order))
    queue = iter(order)
    return [next(queue) if id(pool) in moved_ids else pool for pool in pools]


def _measure_order(
    names: str, pools: Sequence[LintPool], better: Sequence[LintPool], site: LintSite
) -> _OrderGain:
    """Measure the gain of placing `pools` in the order `better`, called `names` in the text.

    Both orders are simulated. More fitting VMs, fewer machines with two VMs of a cluster, and more
    capacity count. `validate` has no simulation.
    """
    if site.simulate is None:
        return _OrderGain()
    lead = f"In the order {names}"
    current = site.simulate(pools)
    alternative = site.simulate(better)
    gains: list[str] = []
    # The gains in short form.
    clauses: list[str] = []
    more_fitting = current.unplaced_count - alternative.unplaced_count
    if more_fitting > 0:
        vms = format_count(more_fitting, "more VM fits", "more VMs fit")
        gains.append(f"{vms} ({alternative.unplaced_count:,} would not)")
        clauses.append(f"fit {more_fitting:,} more VMs")
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
        return _OrderGain(f"{lead}{nothing}", "another order gains nothing now", is_zero=True)
    return _OrderGain(
        f"{lead}, {format_list(gains, MAXIMUM_ITEMS)}.",
        f"large pools first would {format_list(clauses)}",
    )
