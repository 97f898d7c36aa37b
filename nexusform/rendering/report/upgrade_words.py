"""Upgrades of clusters in words: whether they go through, in how many batches, and what breaks on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from nexusform.plans.plan import Plan, PoolUpgrade, Upgrade
from nexusform.words import counted, first_of, form, listed

ROLLING: Final = "kubernetes_version_changed"
AT_ONCE: Final = "re-created all at once:"
# What re-creates all nodes of a pool, and how that is said before where they come to.
RECREATING: Final[Mapping[str, str]] = {
    ROLLING: "upgraded batch by batch, re-created",
    **dict.fromkeys(
        ("sku_changed", "zones_changed", "labels_changed", "taints_changed", "mode_changed"),
        AT_ONCE,
    ),
}
_MOST_NAMED: Final = 4
_MOST_IN_TITLE: Final = 2


def pools_at_once(plan: Plan) -> frozenset[tuple[str, str, str]]:
    """The pools (site, cluster, name) of upgraded clusters of which all nodes leave before any comes."""
    return frozenset(
        (upgrade.site_id, upgrade.cluster, pool.pool)
        for upgrade in plan.upgrades
        for pool in upgrade.pools
        if upgrade.rolls and pool.vms > 1 and pool.batches == 1 and not pool.surges
    )


def upgrade_sentences(plan: Plan) -> list[tuple[str, str]]:
    """A heading and a sentence for every cluster that is upgraded, or of which whole pools are made anew."""
    return [(upgrade_heading(upgrade), upgrade_text(upgrade)) for upgrade in plan.upgrades]


def upgrade_clause(upgrade: Upgrade) -> str:
    """`cluster-b is upgraded to 1.33.1`, `24 nodes of cluster-b are made anew`."""
    if upgrade.rolls:
        return f"{upgrade.cluster} is upgraded to {upgrade.after}"
    return f"{counted(upgrade.vms, 'node')} of {upgrade.cluster} {form(upgrade.vms, 'is', 'are')} made anew"


def upgrade_clauses(upgrades: Sequence[Upgrade]) -> list[str]:
    """`cluster-a is upgraded to 1.30.1`; of several clusters that go to one version, `5 clusters are`."""
    to_version: dict[str, list[Upgrade]] = {}
    stuck = stuck_clauses(upgrades)
    for upgrade in upgrades:
        if is_stuck(upgrade):
            continue
        to_version.setdefault(upgrade.after if upgrade.rolls else "", []).append(upgrade)
    anew = to_version.pop("", [])
    clauses = stuck
    for version, of_version in to_version.items():
        names = list(dict.fromkeys(upgrade.cluster for upgrade in of_version))
        clusters = len({(upgrade.site_id, upgrade.cluster) for upgrade in of_version})
        who = listed(names) if clusters <= _MOST_IN_TITLE else counted(clusters, "cluster")
        clauses.append(f"{who} {form(clusters, 'is', 'are')} upgraded to {version}")
    if len(anew) <= _MOST_IN_TITLE:
        return [*clauses, *map(upgrade_clause, anew)]
    nodes = sum(upgrade.vms for upgrade in anew)
    clusters = len({(upgrade.site_id, upgrade.cluster) for upgrade in anew})
    return [*clauses, f"{counted(nodes, 'node')} of {counted(clusters, 'cluster')} are made anew"]


def is_stuck(upgrade: Upgrade) -> bool:
    """Whether it comes to a halt on the way, as far as anybody can know."""
    return upgrade.rolls and (bool(upgrade.budgets) or any(pool.stops_at for pool in upgrade.pools))


def stuck_clauses(upgrades: Iterable[Upgrade]) -> list[str]:
    """`the upgrade of amf to 1.30.5 is held up`, for those that do not go through."""
    stuck = [upgrade for upgrade in upgrades if is_stuck(upgrade)]
    if len(stuck) > _MOST_IN_TITLE:
        return [f"the upgrades of {len(stuck):,} clusters do not go through"]
    return [f"the upgrade of {each.cluster} to {each.after} {_verdict(each)}" for each in stuck]


def upgrade_heading(upgrade: Upgrade) -> str:
    """`Upgrade of cluster-b`, `Made anew in cluster-b`."""
    return f"{'Upgrade of' if upgrade.rolls else 'Made anew in'} {upgrade.cluster}"


def versions(upgrade: Upgrade) -> str:
    """`1.29.4 -> 1.30.1`; `to 1.30.1` where no version was asked for before."""
    if not upgrade.before:
        return f"to {upgrade.after or 'no version'}"
    return f"{upgrade.before} -> {upgrade.after or 'no version'}"


def upgrade_text(upgrade: Upgrade) -> str:
    """How it goes and what breaks: `1.29.4 -> 1.30.1 goes through: 77 nodes in 77 batches, ...`."""
    sentences = [_rolling(upgrade) if upgrade.rolls else _at_once(upgrade)]
    if upgrade.budgets:
        names = first_of(upgrade.budgets, _MOST_NAMED)
        sentences.append(f"{form(len(upgrade.budgets), 'Budget')} {names}: no pod may be evicted.")
    if upgrade.single_replicas:
        count, names = len(upgrade.single_replicas), first_of(upgrade.single_replicas, _MOST_NAMED)
        down = form(count, "is down while its only pod moves", "are down while their only pods move")
        sentences.append(f"{names} {down}.")
    return " ".join(sentences)


def _rolling(upgrade: Upgrade) -> str:
    batches = sum(pool.batches for pool in upgrade.pools)
    nodes = f"{counted(upgrade.vms, 'node')} in {counted(batches, 'batch', 'batches')}"
    return f"{versions(upgrade)} {_verdict(upgrade)}: {nodes}, {_pace(upgrade)}."


def _at_once(upgrade: Upgrade) -> str:
    """`pool2: all 24 nodes are away at once (sku_changed).`."""
    pools = []
    for pool in upgrade.pools:
        who = f"all {counted(pool.vms, 'node')}" if pool.vms > 1 else "its node"
        left = f", {pool.fewest_up:,} stay" if pool.fewest_up else ""
        stuck = ", and not all find room again" if pool.stops_at else ""
        pools.append(f"{pool.pool}: {who} {form(pool.vms, 'is', 'are')} away at once{left}{stuck}")
    return f"{'; '.join(pools)} ({upgrade.trigger})."


def _verdict(upgrade: Upgrade) -> str:
    stuck = next((pool for pool in upgrade.pools if pool.stops_at), None)
    if stuck is not None:
        return f"stops at batch {stuck.stops_at} of {stuck.pool}"
    hangs_on = tuple(dict.fromkeys(chain.from_iterable(pool.hangs_on for pool in upgrade.pools)))
    if hangs_on:
        which = f"which VMs of {first_of(hangs_on, _MOST_NAMED)} the platform takes"
        held = "is held up, and " if upgrade.budgets else ""
        return f"{held}may find no room: that hangs on {which}"
    return "is held up" if upgrade.budgets else "goes through"


def _pace(upgrade: Upgrade) -> str:
    """How many are away at once, and the least number that is up."""
    away = [pool for pool in upgrade.pools if not pool.surges]
    if not away:
        most = max((pool.at_once for pool in upgrade.pools), default=0)
        return f"{most:,} new before {most:,} old {form(most, 'leaves', 'leave')}, so none is missing"
    return "; ".join(_missing(pool) for pool in away[:_MOST_NAMED])


def _missing(pool: PoolUpgrade) -> str:
    return f"{pool.pool}: {pool.at_once:,} away at once, never fewer than {pool.fewest_up:,} up"
