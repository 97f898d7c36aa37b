"""Upgrades of clusters in words: whether they go through, in how many batches, and what breaks on the way."""

from __future__ import annotations

from typing import Final

from nexusform.planning.plan import Plan, PoolUpgrade, Upgrade
from nexusform.words import counted, first_of, form

ROLLING: Final = "kubernetes_version_changed"
_MOST_NAMED: Final = 4


def upgrade_sentences(plan: Plan) -> list[tuple[str, str]]:
    """A heading and a sentence for every cluster that is upgraded."""
    return [(f"Upgrade of {upgrade.cluster}", upgrade_text(upgrade)) for upgrade in plan.upgrades]


def versions(upgrade: Upgrade) -> str:
    """`1.29.4 -> 1.30.1`."""
    return f"{upgrade.before or 'no version'} -> {upgrade.after or 'no version'}"


def upgrade_text(upgrade: Upgrade) -> str:
    """As `1.29.4 -> 1.30.1 goes through: 77 nodes in 77 batches, 1 new before 1 old leaves`."""
    batches = sum(pool.batches for pool in upgrade.pools)
    nodes = f"{counted(upgrade.vms, 'node')} in {counted(batches, 'batch', 'batches')}"
    sentences = [f"{versions(upgrade)} {_verdict(upgrade)}: {nodes}, {_pace(upgrade)}."]
    if upgrade.budgets:
        names = first_of(upgrade.budgets, _MOST_NAMED)
        sentences.append(f"{form(len(upgrade.budgets), 'Budget')} {names}: no pod may be evicted.")
    return " ".join(sentences)


def _verdict(upgrade: Upgrade) -> str:
    stuck = next((pool for pool in upgrade.pools if pool.stops_at), None)
    if stuck is not None:
        return f"stops at batch {stuck.stops_at} of {stuck.pool}"
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
