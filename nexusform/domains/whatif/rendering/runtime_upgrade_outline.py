"""The answer to `simulate runtime-upgrade`, for people and as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, TypeAlias

from nexusform.domains.whatif.questions.pods_down import PodsOutcome, WorkloadVerdict
from nexusform.domains.whatif.questions.runtime_upgrade import (
    DRAIN_MINUTES,
    UNHEALTHY_MINUTES,
    PoolOutcome,
    PoolVerdict,
    RuntimeUpgrade,
    Stop,
    UpgradeOptions,
    UpgradeStrategy,
    UpgradeWave,
)
from nexusform.domains.whatif.rendering.workload_rows import (
    VERDICT,
    pending_lines,
    verdict_section,
    workload_document,
    workload_table,
)
from nexusform.json_forms import Form, columns
from nexusform.plans.room.other_room import RuntimeVersion
from nexusform.rendering.answers.outline import Outline, Row, Section, Table, spans_text
from nexusform.words import counted, form, listed
from nexusform.worlds.availability import PoolLeft
from nexusform.worlds.world_view import OwnerKind


def runtime_upgrade_outline(upgrades: Sequence[RuntimeUpgrade], origin: str) -> Outline:
    """Every site's upgrade, one after the other."""
    sections: list[Section] = []
    facts: list[str] = []
    for upgrade in upgrades:
        front = f"{upgrade.site_id}: " if len(upgrades) > 1 else ""
        facts += [f"{front}{fact}" for fact in _facts(upgrade)]
        if upgrade.workloads:
            sections.append(verdict_section(upgrade.workloads, front))
        sections.append(_verdict_section(upgrade, front))
        if 0 < len(upgrade.waves) <= _MOST_WAVES:
            sections.append(_timeline_section(upgrade, front))
        for wave in upgrade.waves:
            sections.append(_wave_section(wave, front))
            if wave.workloads:
                sections.append(_pods_section(wave, front, drained=upgrade.options.drain))
    names = listed(upgrade.site_id for upgrade in upgrades)
    bad = any(upgrade.bad for upgrade in upgrades)
    title = f"Runtime upgrade of {names} ({origin})"
    return Outline(title, _headline(upgrades), bad, tuple(facts), tuple(sections))


def _headline(upgrades: Sequence[RuntimeUpgrade]) -> str:
    """Whether availability is kept in every wave, and where it is not."""
    losses: list[str] = []
    workloads: list[WorkloadVerdict] = []
    stops: list[str] = []
    for upgrade in upgrades:
        stops += [_stop_text(upgrade.stop)] if upgrade.stop is not None else []
        losses += [_loss(verdict) for verdict in upgrade.verdicts if verdict.outcome is PoolOutcome.LOST]
        workloads += upgrade.workloads
    for workload in workloads:
        if workload.outcome is PodsOutcome.LOST:
            losses.append(f"no pod of {workload.workload} runs in wave {spans_text(workload.waves)}")
    stopped = f" {' '.join(stops)}" if stops else ""
    if losses:
        return f"Availability is lost: {listed(losses, 4)}.{stopped}"
    text = "every control plane keeps its quorum, and every pool keeps nodes, in every wave"
    pending = [
        f"up to {counted(workload.most_pending, 'pod')} of {workload.workload} Pending"
        for workload in workloads
        if workload.most_pending
    ]
    return f"Availability is kept: {'; '.join([text, listed(pending, 4)] if pending else [text])}.{stopped}"


def _stop_text(stop: Stop) -> str:
    """Where the upgrade would stop, and why."""
    names = listed((f"{name} ({words})" for name, words in stop.unwell), 4)
    number = len(stop.unwell)
    return (
        f"As things are it stops at {stop.rack}, after wave {stop.waves}: {number} of its "
        f"{counted(stop.machines, 'machine')} {form(number, 'is', 'are')} not well now and not expected "
        f"back, and {stop.may_fail} may stay away: {names}."
    )


def _loss(verdict: PoolVerdict) -> str:
    """What a cluster loses in which waves."""
    waves = f"wave {spans_text(verdict.lost_in)}"
    if verdict.control_plane:
        return f"{verdict.cluster} loses its control-plane quorum in {waves}"
    return f"{verdict.cluster} has no node of {verdict.pool} in {waves}"


def _facts(upgrade: RuntimeUpgrade) -> Iterable[str]:
    """How the upgrade goes, in sentences."""
    yield from _versions(upgrade.runtime)
    options = upgrade.options
    at_once = "all machines of a rack at once"
    if options.max_unavailable is not None:
        at_once = f"at most {counted(options.max_unavailable, 'machine')} of a rack at once"
    yield (
        f"{counted(len(upgrade.racks), 'rack')} in byte order of their names, {at_once}: "
        f"{counted(len(upgrade.waves), 'wave')}. The next one begins when every machine is back. The "
        f"platform allows up to {upgrade.hours} hours."
    )
    if options.of_site:
        yield "It goes as the site's update_strategy says, but for what the flags say."
    if options.wait_minutes:
        yield f"After each rack it waits {counted(options.wait_minutes, 'minute')}."
    yield from _abort(upgrade)
    if upgrade.unexpected_order:
        earlier, later = upgrade.unexpected_order
        yield f"Mind the order: {earlier} comes before {later}, since names are compared byte by byte."
    if options.strategy is UpgradeStrategy.PAUSE_AFTER_RACK:
        yield _pauses(upgrade)
    yield _drain(drain=options.drain)
    yield (
        "No new NKS VM is created meanwhile. When its machine is back, each VM starts again there; to the "
        "user it has not moved."
    )
    if not upgrade.workloads:
        yield (
            "No pods are known here, so nothing is said of them: whether they fit on the nodes that are left "
            "depends on what they request."
        )


def _pauses(upgrade: RuntimeUpgrade) -> str:
    """Where it waits for somebody, and for what."""
    first = {wave.rack: wave.number for wave in reversed(upgrade.waves)}
    racks = [f"wave {first[rack]} ({rack})" for rack in upgrade.racks if rack in first]
    before = f": before {listed(racks)}, and after the last rack" if racks else ""
    return (
        f"PauseAfterRack: it waits before the first rack and after every rack{before}. Each time somebody "
        "has to run `az networkcloud cluster continue-update-version --name CLUSTER --resource-group GROUP`."
    )


_WORKLOADS: Mapping[str, str] = {"True": "workloads are impaired", "False": "workloads run on"}


def _versions(runtime: RuntimeVersion | None) -> Iterable[str]:
    """What the machines run, and what the platform offers and says of it."""
    if runtime is None:
        return
    if runtime.version:
        yield f"The machines run version {runtime.version}."
    if not runtime.offers:
        yield "The platform offers no newer version: there is nothing to upgrade to now."
    for offer in runtime.offers:
        told = (
            (f"expected to take {offer.duration}", offer.duration),
            (_WORKLOADS.get(offer.workloads, f"workloads: {offer.workloads}"), offer.workloads),
            (f"supported until {offer.supported_until}", offer.supported_until),
            (offer.words.rstrip("."), offer.words),
        )
        words = "; ".join(text for text, said in told if said)
        yield f"The platform offers version {offer.version}{f' ({words})' if words else ''}."


def _abort(upgrade: RuntimeUpgrade) -> Iterable[str]:
    """When the upgrade ends before its time."""
    options = upgrade.options
    sizes: dict[str, int] = {}
    for wave in upgrade.waves:
        sizes[wave.rack] = sizes.get(wave.rack, 0) + len(wave.machines)
    may_fail = {rack: options.may_fail(size) for rack, size in sizes.items()}
    spared = sorted({number for number in may_fail.values() if number is not None})
    if not spared:
        return
    unit = " per cent" if options.is_percentage else ""
    most = spared[0] if len(spared) == 1 else f"{spared[0]} to {spared[-1]}, by the size of the rack,"
    yield (
        f"It stops at a rack of which fewer than {options.threshold}{unit} of the machines come back: {most} "
        f"{form(spared[-1], 'machine')} of a rack may stay away. What was upgraded stays so, and the racks "
        "after it keep the old version."
    )


def _drain(*, drain: bool) -> str:
    """What happens to pods before their machine goes down."""
    if drain:
        return (
            "Nodes are cordoned and drained before their machine goes down, for at most "
            f"{DRAIN_MINUTES} minutes each; PodDisruptionBudgets are honoured until then. "
            "Pods that fit on no other node stay Pending."
        )
    return (
        "-drain=false: machines lose power with all that runs on them. After "
        f"{counted(UNHEALTHY_MINUTES, 'minute')} without contact their pods count as unhealthy and are "
        "replaced where other nodes have room."
    )


_PoolId: TypeAlias = tuple[str, str]
_MOST_WAVES = 24  # columns of the timeline

_OUTCOMES = {
    PoolOutcome.UNTOUCHED: "untouched",
    PoolOutcome.KEPT: "kept",
    PoolOutcome.INTERRUPTED: "interrupted",
    PoolOutcome.LOST: "lost",
}


def _verdict_section(upgrade: RuntimeUpgrade, front: str) -> Section:
    """A row per pool: the fewest VMs that are up in any wave."""
    rows = tuple(_verdict_row(verdict) for verdict in upgrade.verdicts if verdict.total)
    heads = ("cluster", "pool", "VMs", "min up", "down in waves", "verdict")
    table = Table(heads, rows, frozenset({2, 3}))
    return Section(f"{front}Verdict by pool", table=table, bad=upgrade.loses)


def _verdict_row(verdict: PoolVerdict) -> Row:
    fewest, waves = str(verdict.fewest), spans_text(verdict.waves) or "-"
    cells = (*_pool_front(verdict), fewest, waves, _judgement(verdict))
    return Row(cells, verdict.outcome is PoolOutcome.LOST)


def _pool_front(verdict: PoolVerdict) -> tuple[str, str, str]:
    """Cluster, pool and number of VMs."""
    pool = verdict.pool if verdict.kind is not OwnerKind.VM else "(plain VM)"
    return verdict.cluster, pool, f"{verdict.total:,}"


def _judgement(verdict: PoolVerdict) -> str:
    """What the upgrade means for a pool."""
    word = _OUTCOMES[verdict.outcome]
    if verdict.control_plane:
        return f"quorum {word} (needs {verdict.quorum})"
    if verdict.outcome is PoolOutcome.LOST:
        return f"{word}: no node left"
    return word


def _timeline_section(upgrade: RuntimeUpgrade, front: str) -> Section:
    """A row per pool, a column per wave: how many VMs are up."""
    waves = [_up(wave) for wave in upgrade.waves]
    rows = tuple(_timeline_row(verdict, waves) for verdict in upgrade.verdicts if verdict.total)
    heads = ("cluster", "pool", "VMs", *(str(wave.number) for wave in upgrade.waves))
    legend = ". = all up; ! = quorum lost, or no node left." if upgrade.loses else ". = all up."
    table = Table(heads, rows, frozenset(range(2, len(heads))))
    return Section(f"{front}VMs up in each wave", (legend,), table=table)


def _timeline_row(verdict: PoolVerdict, waves: Iterable[Mapping[_PoolId, str]]) -> Row:
    cells = [wave.get((verdict.cluster_id, verdict.pool), ".") for wave in waves]
    return Row((*_pool_front(verdict), *cells), verdict.outcome is PoolOutcome.LOST)


def _up(wave: UpgradeWave) -> dict[_PoolId, str]:
    """How many VMs are up of every pool that has some down."""
    return {
        (pool.cluster_id, pool.pool): f"{pool.left:,}!" if pool.lost else f"{pool.left:,}"
        for pool in wave.pools
    }


def _wave_section(wave: UpgradeWave, front: str) -> Section:
    """The pools that one wave takes VMs from."""
    of_rack = "" if wave.batches == 1 else f", part {wave.batch} of {wave.batches}"
    title = (
        f"{front}Wave {wave.number}: {wave.rack}{of_rack}, {counted(len(wave.machines), 'machine')}, "
        f"{counted(wave.vms, 'VM')} down"
    )
    lines = []
    if wave.outsiders:
        lines.append(f"Outside nexusform: {listed(wave.outsiders)} down.")
    rows = tuple(Row(pool_cells(pool), pool.lost) for pool in wave.pools)
    table = Table(("cluster", "pool", "down", "up", ""), rows, frozenset({2})) if rows else None
    return Section(title, tuple(lines), table=table, folded=True, bad=wave.lost)


def _pods_section(wave: UpgradeWave, front: str, *, drained: bool) -> Section:
    table = workload_table(wave.workloads, drained=drained)
    lines = tuple(pending_lines(wave.workloads))
    bad = any(row.bad for row in table.rows)
    return Section(f"{front}Wave {wave.number}: pods", lines, table=table, folded=True, bad=bad)


def pool_cells(pool: PoolLeft) -> tuple[str, str, str, str, str]:
    """Cluster, pool, VMs down, `2 of 3` up, and what that means."""
    name = pool.pool if pool.kind is not OwnerKind.VM else "(plain VM)"
    return pool.cluster, name, f"{len(pool.down):,}", f"{pool.left:,} of {pool.total:,}", meaning(pool)


def meaning(pool: PoolLeft) -> str:
    """What it means for the cluster that these VMs are down."""
    if pool.control_plane:
        return f"quorum {'lost' if pool.lost else 'kept'} (needs {pool.quorum})"
    return "no node left" if pool.lost else ""


# --- data --------------------------------------------------------------------------------------


def runtime_upgrade_document(upgrades: Sequence[RuntimeUpgrade]) -> dict[str, Any]:
    """The upgrades, as JSON data."""
    return {"sites": [_site_document(upgrade) for upgrade in upgrades]}


def _is_quorum_kept(pool: PoolLeft) -> bool | None:
    return (not pool.lost) if pool.control_plane else None


# A pool with VMs down, as data.
POOL: Final = Form(
    PoolLeft,
    "cluster_id pool address control_plane vms=total up=left down quorum? quorum_kept=. lost",
    down=attrgetter("name"),
    quorum_kept=_is_quorum_kept,
)
_VERDICT: Final = Form(
    PoolVerdict,
    "cluster_id pool control_plane vms=total fewest_up=fewest quorum? waves lost_in_waves=lost_in "
    "verdict=outcome",
)
_STOP: Final = Form(
    Stop,
    "rack after_wave=waves machines may_stay_away=may_fail not_well=unwell",
    not_well=columns("machine reason"),
)
_RUNTIME: Final = Form(
    RuntimeVersion,
    "version? offers",
    offers="version expected_duration=duration? workload_impact=workloads? impact=words? supported_until?",
)
_WAVE: Final = Form(
    UpgradeWave,
    "wave=number rack batch batches machines vms_down=vms pools outside_vms_down=outsiders",
    pools=POOL,
)


def _threshold(options: UpgradeOptions) -> dict[str, Any] | None:
    if options.threshold is None:
        return None
    return {"value": options.threshold, "per_cent": options.is_percentage}


_SITE: Final = Form(
    RuntimeUpgrade,
    "site_id runtime strategy=options.strategy max_unavailable=options.max_unavailable drain=options.drain "
    "threshold=options wait_minutes=options.wait_minutes stops=stop racks up_to_hours=hours "
    "availability_lost=loses verdicts workloads",
    runtime=_RUNTIME,
    threshold=_threshold,
    stops=_STOP,
    verdicts=_VERDICT,
    workloads=VERDICT,
)


def _site_document(upgrade: RuntimeUpgrade) -> dict[str, Any]:
    waves = [_wave_document(wave, drained=upgrade.options.drain) for wave in upgrade.waves]
    return {**_SITE(upgrade), "waves": waves}


def _wave_document(wave: UpgradeWave, *, drained: bool) -> dict[str, Any]:
    lefts = [workload_document(workload_left, drained=drained) for workload_left in wave.workloads]
    return {**_WAVE(wave), "workloads": lefts, "availability_lost": wave.lost}
