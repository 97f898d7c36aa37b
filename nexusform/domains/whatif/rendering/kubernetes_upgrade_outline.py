"""The answer to `simulate kubernetes-upgrade`, for people and as data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from nexusform.domains.whatif.questions.kubernetes_upgrade import Batch, KubernetesUpgrade, PoolUpgrade
from nexusform.json_forms import Form
from nexusform.rendering.answers.outline import (
    REPLACEMENT,
    Outline,
    Row,
    Section,
    Table,
    short_place_text,
)
from nexusform.rendering.notation.json_bounds import drawn_document
from nexusform.rendering.notation.places import drawn_text
from nexusform.words import counted, listed
from nexusform.worlds.availability import Replacement


def kubernetes_upgrade_outline(upgrade: KubernetesUpgrade, origin: str) -> Outline:
    """The verdict, a table of pools, and every batch."""
    version = f", now {upgrade.version}" if upgrade.version else ""
    sections = [_pools(upgrade)]
    sections += [_blocked(pool) for pool in upgrade.pools if pool.blocked]
    sections += [_batches(pool) for pool in upgrade.pools if pool.batches]
    return Outline(
        f"Kubernetes upgrade of {upgrade.cluster_id}{version} ({origin})",
        _headline(upgrade),
        upgrade.bad,
        tuple(_facts(upgrade)),
        tuple(sections),
    )


def _headline(upgrade: KubernetesUpgrade) -> str:
    """Whether the upgrade goes through, and what stops it."""
    drawn = upgrade.drawn
    if drawn is not None and 0 < drawn.draws.fitting < drawn.draws.runs:
        pairs = zip(upgrade.pools, drawn.pools, strict=True)
        names = listed(pool.pool for pool, missing in pairs if missing.most)
        return (
            f"It goes through in {drawn.draws.fitting:,} of {drawn.draws.runs:,} draws of NUMA cells that "
            f"nobody told; in the others there is no room for the surge of {names}."
        )
    if upgrade.blocked:
        names = listed(pool.pool for pool in upgrade.blocked)
        return f"It does not go through: there is no room for the surge of {names}."
    if upgrade.budgets:
        return (
            f"It does not go through: {listed(upgrade.budgets)} lets no pod be evicted, so drains time out."
        )
    lost = [pool.pool for pool in upgrade.pools if pool.lost]
    if lost:
        return f"It goes through, but on the way no node of {listed(lost)} is up."
    return "It goes through: every batch finds room."


def _facts(upgrade: KubernetesUpgrade) -> Iterable[str]:
    """How the upgrade goes, in sentences."""
    yield (
        "The control plane goes first, one node at a time, then the pools. The new VMs of a batch are placed "
        "by the rule while the old ones still hold their room; then the old ones leave."
    )
    timeouts = sorted({pool.drain_timeout for pool in upgrade.pools if not pool.control_plane})
    if timeouts:
        seconds = listed(f"{timeout:,}" for timeout in timeouts)
        yield f"Each old node is drained first, for at most {seconds} seconds."
    if upgrade.drawn is not None:
        yield f"NUMA cells: {drawn_text(upgrade.drawn)}"
    if upgrade.blocked:
        yield (
            "The platform ends an upgrade that finds no room for a surge VM; "
            "what follows is tried all the same."
        )


def _pools(upgrade: KubernetesUpgrade) -> Section:
    rows = tuple(_pool_row(pool) for pool in upgrade.pools if pool.count)
    heads = ("pool", "SKU", "VMs", "at once", "min up", "verdict")
    return Section("Pools", table=Table(heads, rows, frozenset({2})), bad=upgrade.bad)


def _pool_row(pool: PoolUpgrade) -> Row:
    up = f"{pool.fewest_up} of {pool.count}"
    cells = (pool.pool, pool.sku, str(pool.count), _way(pool), up, _judgement(pool))
    return Row(cells, pool.blocked or pool.lost)


def _way(pool: PoolUpgrade) -> str:
    """How a pool goes: so many VMs more, `+2 (surge 10%)`, or so many less, `-1`."""
    if pool.surge:
        return f"+{pool.surge} (surge {pool.max_surge})" if "%" in pool.max_surge else f"+{pool.surge}"
    written = pool.max_unavailable
    return f"-{pool.unavailable} (unavailable {written})" if "%" in written else f"-{pool.unavailable}"


def _judgement(pool: PoolUpgrade) -> str:
    """What the upgrade means for a pool."""
    if pool.blocked:
        return f"blocked in batch {pool.batches[-1].number}"
    if pool.quorum_lost:
        return f"quorum lost (needs {pool.quorum})"
    return "no node up" if pool.lost else "goes through"


def _blocked(pool: PoolUpgrade) -> Section:
    """The batch that found no room, and what would help."""
    batch = pool.batches[-1]
    missing = [move.vm.name for move in batch.moves if move.place is None]
    front = f"Batch {batch.number} of {pool.pool} ({_way(pool)})"
    line = f"{front} finds no room for {listed(missing)}. {pool.reason}"
    return Section(f"What blocks {pool.pool}", (line, *_ways_out(pool)), bad=True)


def _ways_out(pool: PoolUpgrade) -> Iterable[str]:
    """What would let a blocked pool go through."""
    if pool.fitting_surge:
        yield f'max_surge = "{pool.fitting_surge}" fits for every batch.'
    if pool.in_place:
        yield (
            'max_surge = "0" with max_unavailable = "1" fits: the old VM leaves first, so each batch has '
            "one node less up."
        )
    if pool.control_plane:
        yield f"Free a cell for one more {pool.sku}; a control plane always surges by one."
    elif not pool.fitting_surge and not pool.in_place:
        yield "Smaller surges, and none with max_unavailable 1, were tried; none fits."


def _batches(pool: PoolUpgrade) -> Section:
    """A row per node: where it stands and where its new VM goes."""
    rows: list[Row] = []
    for batch in pool.batches:
        rows += [_move_row(batch, move) for move in batch.moves]
    heads = ("batch", "node", "stands on", "new VM on")
    title = f"{pool.pool}: {counted(len(pool.batches), 'batch', 'batches')}"
    return Section(title, table=Table(heads, tuple(rows), frozenset({0})), folded=True, bad=pool.blocked)


def _move_row(batch: Batch, move: Replacement) -> Row:
    goes = short_place_text(move.place) if move.place is not None else "no room"
    return Row((str(batch.number), move.vm.name, short_place_text(move.vm.placement), goes), not batch.fits)


_BATCH: Final = Form(Batch, "batch=number up fits nodes=moves", nodes=REPLACEMENT)
_POOL: Final = Form(
    PoolUpgrade,
    "pool vm_sku_name=sku vms=count max_surge max_unavailable surge unavailable drain_timeout fewest_up "
    "blocked reason? fitting_surge? fits_in_place=in_place availability_lost=lost batches",
    batches=_BATCH,
)


def _fits(upgrade: KubernetesUpgrade) -> bool:
    return not upgrade.blocked


# The upgrade, as JSON data.
KUBERNETES_UPGRADE: Final = Form(
    KubernetesUpgrade,
    "cluster_id site_id kubernetes_version=version? fits=. blocking_budgets=budgets pools draws=drawn",
    fits=_fits,
    pools=_POOL,
    draws=drawn_document,
)
