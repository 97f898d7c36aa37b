"""small-before-large: a smaller cluster or pool is (or was) created before a larger one.

Larger means more host memory in total. VMs are placed in the order of creation, and small ones
break cells that extra-large ones need whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from nexusform.advice.facts import NAMED, Facts, Outcome, PoolFacts, SiteFacts, finding
from nexusform.diagnostics import Diagnostic
from nexusform.words import counted, listed

ID: Final = "small-before-large"


class _Gain(NamedTuple):
    """What another order gains, in a sentence and in a clause; both "" where nothing can be measured."""

    words: str = ""
    brief: str = ""
    nothing: bool = False


class Group(NamedTuple):
    """Pools that are created together: a cluster's, in order."""

    name: str
    pools: tuple[PoolFacts, ...]

    @property
    def memory_gib(self) -> float:
        """Host memory of all of them."""
        return sum(pool.memory_gib for pool in self.pools)

    @property
    def stands(self) -> bool:
        """Whether some of them stood before the plan."""
        return any(pool.stands for pool in self.pools)


def rule(facts: Facts) -> list[Diagnostic]:
    """Findings for clusters, then for pools inside a cluster; only for what is placed as a whole."""
    findings: list[Diagnostic] = []
    for site_id in dict.fromkeys(pool.site_id for pool in facts.pools):
        pools = facts.on_site(site_id)
        created = [group for group in _groups(pools) if _is_new(group.pools)]
        site = facts.sites.get(site_id) or SiteFacts(site_id)
        findings += _clusters(created, pools, site, costless=facts.costless)
        for group in created:
            findings += _inside(group, pools, site, costless=facts.costless)
    return findings


def _groups(pools: Sequence[PoolFacts]) -> list[Group]:
    owners: dict[str, list[PoolFacts]] = {}
    for pool in pools:
        owners.setdefault(pool.owner, []).append(pool)
    return [Group(members[0].cluster, tuple(members)) for members in owners.values()]


def _is_new(pools: Sequence[PoolFacts]) -> bool:
    """Whether all VMs are placed by this plan, or judged as if they were: another order is possible."""
    return any(pool.numbers for pool in pools) and all(
        len(pool.new_numbers) == len(pool.numbers) for pool in pools
    )


def _clusters(
    created: Sequence[Group], pools: Sequence[PoolFacts], site: SiteFacts, *, costless: bool
) -> list[Diagnostic]:
    findings: list[Diagnostic] = []
    gain = None
    for position, group in enumerate(created):
        larger = [later for later in created[position + 1 :] if later.memory_gib > group.memory_gib]
        if not larger:
            continue
        gain = gain or _gain_of_clusters(created, pools, site)
        if gain.nothing and not costless:
            return []
        sizes = listed([f"{later.name} ({later.memory_gib:,} GiB)" for later in larger], NAMED)
        was, when = ("was", " when they are created again") if group.stands else ("is", "")
        detail = (
            f"{group.name} ({group.memory_gib:,} GiB in all) {was} created before {sizes}. Put larger "
            f"clusters first{when}: larger blocks of free cells stay whole. {gain.words}"
        )
        brief = f"{group.name}: {gain.brief or 'created before a larger cluster'}"
        findings.append(finding(ID, detail.rstrip(), group.pools[0], brief=brief))
    return findings


def _gain_of_clusters(created: Sequence[Group], pools: Sequence[PoolFacts], site: SiteFacts) -> _Gain:
    """What it would gain to create the larger clusters first."""
    order = sorted(created, key=lambda group: -group.memory_gib)
    best: list[PoolFacts] = []
    for group in order:
        best += group.pools
    names = ", ".join(group.name for group in order)
    return _gain(names, pools, _reordered(pools, best), site)


def _inside(group: Group, pools: Sequence[PoolFacts], site: SiteFacts, *, costless: bool) -> list[Diagnostic]:
    """The first agent pool of a cluster that is placed before larger ones of the cluster."""
    agent_pools = [pool for pool in group.pools if not pool.is_control_plane]
    misplaced = _first_before_larger(agent_pools)
    if misplaced is None:
        return []
    pool, larger = misplaced
    control_plane = [pool for pool in group.pools if pool.is_control_plane]
    larger_first = sorted(agent_pools, key=lambda pool: -pool.memory_gib)
    names = ", ".join(pool.pool for pool in larger_first)
    gain = _gain(names, pools, _reordered(pools, [*control_plane, *larger_first]), site)
    if gain.nothing and not costless:
        return []
    sizes = listed([f"{later.pool} ({later.memory_gib:,} GiB)" for later in larger], NAMED)
    was, when = ("was", " when the cluster is created again") if group.stands else ("is", "")
    detail = (
        f"In {group.name}, {pool.pool} ({pool.memory_gib:,} GiB in all) {was} placed before {sizes}. "
        f"Put larger pools first{when}. {gain.words}"
    )
    brief = f"{group.name}/{pool.pool}: {gain.brief or 'placed before a larger pool'}"
    return [finding(ID, detail.rstrip(), pool, brief=brief)]


def _first_before_larger(pools: Sequence[PoolFacts]) -> tuple[PoolFacts, list[PoolFacts]] | None:
    """The first pool that larger ones come after, with these; None where there is none."""
    for position, pool in enumerate(pools):
        larger = [later for later in pools[position + 1 :] if later.memory_gib > pool.memory_gib]
        if larger:
            return pool, larger
    return None


def _reordered(pools: Sequence[PoolFacts], order: Sequence[PoolFacts]) -> list[PoolFacts]:
    """The pools with those of `order` in its order, in the places that they take up together."""
    moved = {id(pool) for pool in order}
    queue = iter(order)
    return [next(queue) if id(pool) in moved else pool for pool in pools]


def _gain(names: str, pools: Sequence[PoolFacts], better: Sequence[PoolFacts], site: SiteFacts) -> _Gain:
    """What the order of these names would gain, measured."""
    if site.rehearse is None:
        return _Gain()
    again = any(pool.stands for pool in pools)
    now, then = site.rehearse(pools), site.rehearse(better)
    gains = _differences(now, then, again=again)
    brief = f"in another order {_briefly(now, then)}" if gains else "another order would gain nothing today"
    if again:
        lead = f"Were all VMs of the site placed again in the order {names}"
        nothing = "nothing would be gained: as many VMs would fit, and as many cells would stay free"
        return _Gain(f"{lead}, {listed(gains, NAMED) or nothing}.", brief, not gains)
    lead = f"In the order {names}"
    if gains:
        return _Gain(f"{lead}, {listed(gains, NAMED)}.", brief)
    words = f"{lead} nothing would be gained today: as many VMs fit, and as many cells stay free."
    return _Gain(words, brief, nothing=True)


def _briefly(now: Outcome, then: Outcome) -> str:
    """What is better then, as a clause."""
    gains = []
    if then.unplaced < now.unplaced:
        gains.append(f"{now.unplaced - then.unplaced:,} more VMs fit")
    fewer = sum(now.shared.values()) - sum(then.shared.values())
    if fewer > 0:
        gains.append(f"{counted(fewer, 'fewer machine is', 'fewer machines are')} shared")
    if then.free_largest > now.free_largest:
        gains.append(f"{then.free_largest:,} instead of {now.free_largest:,} {then.largest} stay free")
    return ", ".join(gains)


def _differences(now: Outcome, then: Outcome, *, again: bool) -> list[str]:
    """What is better then; with `again` it is told as what would be."""
    fits, fit = ("would fit", "would fit") if again else ("fits", "fit")
    houses, house = ("would house", "would house") if again else ("houses", "house")
    gains = []
    if then.unplaced < now.unplaced:
        more = now.unplaced - then.unplaced
        gains.append(f"{counted(more, f'more VM {fits}', f'more VMs {fit}')} ({then.unplaced:,} would not)")
    fewer = sum(now.shared.values()) - sum(then.shared.values())
    if fewer > 0:
        machines = counted(fewer, f"fewer machine {houses}", f"fewer machines {house}")
        gains.append(f"{machines} two VMs of one cluster")
    room = then.free_largest - now.free_largest
    if room > 0:
        gains.append(
            f"room for {room:,} more {then.largest} {'would stay' if again else 'stays'} free "
            f"({then.free_largest:,} instead of {now.free_largest:,})"
        )
    return gains
