"""A runtime upgrade: rack by rack, machines go down with their VMs and come back under the same name.

Source: "Placement during a runtime upgrade" of the placement document, and the platform's upgrade
strategies (Rack, PauseAfterRack, max unavailable).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import chain, pairwise

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.whatif.questions.pods_down import (
    NO_PODS,
    ClusterPods,
    PodsOutcome,
    PodsWalk,
    WorkloadLeft,
    WorkloadVerdict,
)
from nexusform.plans.room.other_room import RuntimeVersion
from nexusform.resource_types.machine_facts import unwell_of
from nexusform.worlds.availability import PoolLeft, down_by_cluster, pools_hit, quorum_of
from nexusform.worlds.world_view import OwnerKind, SiteView

# "Upgrades may take up to 4 h + 2 h per rack" (Operator Nexus documentation).
HOURS_BEFORE_RACKS = 4
HOURS_PER_RACK = 2
DRAIN_MINUTES = 10  # at most, a node
UNHEALTHY_MINUTES = 1  # after power is lost, until the control plane replaces pods


class UpgradeStrategy(StrEnum):
    """Whether the upgrade goes on by itself from rack to rack."""

    RACK = "Rack"
    PAUSE_AFTER_RACK = "PauseAfterRack"


class UpgradeOptions(Struct, frozen=True):
    """How the upgrade goes. `max_unavailable` None = all machines of a rack at once.

    `drain`: nodes are cordoned and drained before their machine goes down. The upgrade goes on from a rack
    once `threshold` of its machines are back (per cent of them with `is_percentage`; None: not told), after
    `wait_minutes`. `of_site`: the site itself says how, as far as nobody asked for something else.
    """

    strategy: UpgradeStrategy = UpgradeStrategy.RACK
    max_unavailable: int | None = None
    drain: bool = True
    is_percentage: bool = False
    threshold: int | None = None
    wait_minutes: int = 0
    of_site: bool = False

    def may_fail(self, machines: int) -> int | None:
        """How many machines of a rack of so many may stay away without ending the upgrade."""
        if self.threshold is None:
            return None
        needed = -(-machines * self.threshold // 100) if self.is_percentage else self.threshold
        return max(machines - needed, 0)


class AskedOptions(Struct, frozen=True):
    """What somebody asks for; None is left to each site."""

    strategy: UpgradeStrategy | None = None
    max_unavailable: int | None = None
    drain: bool = True

    def for_site(self, site: SiteView) -> UpgradeOptions:
        """How the upgrade of a site goes: as asked, else as the site says, else all at once."""
        own = site.update_strategy
        if own is None:
            strategy = self.strategy or UpgradeStrategy.RACK
            return UpgradeOptions(strategy, self.max_unavailable, self.drain)
        pauses = UpgradeStrategy.PAUSE_AFTER_RACK if own.pauses else UpgradeStrategy.RACK
        return UpgradeOptions(
            self.strategy or pauses,
            own.max_unavailable if self.max_unavailable is None else self.max_unavailable,
            self.drain,
            own.is_percentage,
            own.threshold,
            own.wait_minutes,
            of_site=True,
        )


class UpgradeWave(Struct, frozen=True):
    """Machines that are down together; `batch` of `batches` in their rack, from 1.

    `pools` are those with VMs down; afterwards the VMs are back on the same machines. `outsiders` are
    VMs that nexusform does not manage; `workloads` those that lose pods, where pods are known.
    """

    number: int
    rack: str
    batch: int
    batches: int
    machines: tuple[str, ...]
    pools: tuple[PoolLeft, ...]
    outsiders: tuple[str, ...]
    workloads: tuple[WorkloadLeft, ...] = ()

    @property
    def vms(self) -> int:
        """VMs that go down, those outside nexusform among them."""
        return sum(len(pool.down) for pool in self.pools) + len(self.outsiders)

    @property
    def lost(self) -> bool:
        """Whether a quorum or a pool is lost."""
        return any(pool.lost for pool in self.pools)


class PoolOutcome(StrEnum):
    """What the upgrade does to a pool."""

    UNTOUCHED = "untouched"
    KEPT = "kept"
    INTERRUPTED = "interrupted"
    LOST = "lost"


class PoolVerdict(Struct, frozen=True):
    """A pool over the whole upgrade: the fewest VMs up, in which waves it has VMs down or is lost."""

    cluster_id: str
    cluster: str
    kind: OwnerKind
    pool: str
    control_plane: bool
    total: int
    fewest: int
    quorum: int
    waves: tuple[int, ...]
    lost_in: tuple[int, ...]

    @property
    def outcome(self) -> PoolOutcome:
        """What the upgrade does to the pool, in a word."""
        if self.lost_in:
            return PoolOutcome.LOST
        if not self.waves:
            return PoolOutcome.UNTOUCHED
        return PoolOutcome.INTERRUPTED if self.kind is OwnerKind.VM else PoolOutcome.KEPT


class Stop(Struct, frozen=True):
    """The rack at which an upgrade would stop as things are: machines of it that are not well now are not
    expected back, and fewer than these (`may_fail`) may stay away. `waves` are done by then.
    """

    rack: str
    unwell: tuple[tuple[str, str], ...]  # name, and what is wrong with it
    machines: int
    may_fail: int
    waves: int


class RuntimeUpgrade(Struct, frozen=True):
    """The upgrade of one site. `unexpected_order` names two racks that people would expect the other
    way round (r10 goes before r2), or is empty. `runtime`: what the machines run, and may be upgraded to.
    `stop`: where it would end as things are.
    """

    site_id: str
    options: UpgradeOptions
    racks: tuple[str, ...]
    waves: tuple[UpgradeWave, ...]
    verdicts: tuple[PoolVerdict, ...]
    unexpected_order: tuple[str, ...]
    workloads: tuple[WorkloadVerdict, ...] = ()
    runtime: RuntimeVersion | None = None
    stop: Stop | None = None

    @property
    def bad(self) -> bool:
        """Whether availability is lost, of a control plane, a pool or a workload, or the upgrade stops."""
        return self.loses or self.stop is not None

    @property
    def loses(self) -> bool:
        """Whether availability is lost: of a control plane, a pool or a workload."""
        gone = any(workload.outcome is PodsOutcome.LOST for workload in self.workloads)
        return gone or any(wave.lost for wave in self.waves)

    @property
    def hours(self) -> int:
        """How long the platform gives itself, with its pauses."""
        pauses = -(-self.options.wait_minutes * max(len(self.racks) - 1, 0) // 60)
        return HOURS_BEFORE_RACKS + HOURS_PER_RACK * len(self.racks) + pauses


def simulate_runtime_upgrade(
    site: SiteView, options: UpgradeOptions, pods: Mapping[str, ClusterPods] = NO_PODS
) -> RuntimeUpgrade:
    """Walk through the racks in byte order of their names. `pods` are what is known, by cluster id."""
    racks = site.active_racks
    waves: list[UpgradeWave] = []
    for rack in racks:
        waves += _waves(site, rack, options.max_unavailable, len(waves) + 1)
    walks = [PodsWalk(pods[cluster.id], options.drain) for cluster in site.clusters if cluster.id in pods]
    waves = [replace(wave, workloads=tuple(_workloads(wave, walks))) for wave in waves]
    return RuntimeUpgrade(
        site_id=site.id,
        options=options,
        racks=racks,
        waves=tuple(waves),
        verdicts=tuple(_verdicts(site, waves)),
        unexpected_order=_unexpected(racks),
        workloads=tuple(chain.from_iterable(walk.verdicts() for walk in walks)),
        runtime=site.runtime,
        stop=_stop(site, options, waves),
    )


def _stop(site: SiteView, options: UpgradeOptions, waves: Iterable[UpgradeWave]) -> Stop | None:
    """Where the upgrade would stop as things are, None where nothing says that it would."""
    last_wave = {wave.rack: wave.number for wave in waves}
    for rack, number in last_wave.items():
        machines = site.machines_of_rack[rack]
        may_fail = options.may_fail(len(machines))
        unwell = [(machine.name, words) for machine in machines if (words := unwell_of(machine.refusal))]
        if may_fail is not None and len(unwell) > may_fail:
            return Stop(rack, tuple(unwell), len(machines), may_fail, number)
    return None


def _workloads(wave: UpgradeWave, walks: Iterable[PodsWalk]) -> Iterable[WorkloadLeft]:
    """The workloads that lose pods in this wave; the walks go on from wave to wave."""
    down = down_by_cluster(wave.pools)
    for walk in walks:
        vms = down.get(walk.pods.cluster_id)
        if vms:
            yield from walk.wave(wave.number, {vm.name for vm in vms})


def _waves(site: SiteView, rack: str, at_once: int | None, first: int) -> Iterable[UpgradeWave]:
    """The waves of one rack, numbered from `first`: `at_once` machines each, None = all."""
    names = [machine.name for machine in site.machines_of_rack[rack]]
    size = len(names) if at_once is None else at_once
    batches = [names[start : start + size] for start in range(0, len(names), size)]
    for index, batch in enumerate(batches):
        down = frozenset(batch)
        yield UpgradeWave(
            number=first + index,
            rack=rack,
            batch=index + 1,
            batches=len(batches),
            machines=tuple(batch),
            pools=pools_hit(site, down),
            outsiders=tuple(name for machine, name in site.outsiders if machine in down),
        )


def _verdicts(site: SiteView, waves: Iterable[UpgradeWave]) -> Iterable[PoolVerdict]:
    """Every pool over all waves, in order of creation."""
    hits: dict[tuple[str, str], list[tuple[int, PoolLeft]]] = {}
    for wave in waves:
        for pool_left in wave.pools:
            hits.setdefault((pool_left.cluster_id, pool_left.pool), []).append((wave.number, pool_left))
    for cluster in site.clusters:
        for pool in cluster.pools:
            of_pool = hits.get((cluster.id, pool.name), [])
            total = len(pool.vms)
            yield PoolVerdict(
                cluster_id=cluster.id,
                cluster=cluster.name,
                kind=cluster.kind,
                pool=pool.name,
                control_plane=pool.control_plane,
                total=total,
                fewest=min((pool_left.left for _, pool_left in of_pool), default=total),
                quorum=quorum_of(total) if pool.control_plane else 0,
                waves=tuple(number for number, _ in of_pool),
                lost_in=tuple(number for number, pool_left in of_pool if pool_left.lost),
            )


def _unexpected(racks: tuple[str, ...]) -> tuple[str, ...]:
    """The first two neighbours that stand otherwise than when their numbers are read as numbers."""
    for first, second in pairwise(racks):
        if _read_by_people(first) > _read_by_people(second):
            return first, second
    return ()


def _read_by_people(name: str) -> tuple[tuple[bool, int, str], ...]:
    """The sort key of a name in which digits count as numbers: these come before text."""
    pieces = [piece for piece in re.split(r"(\d+)", name) if piece]
    return tuple((False, int(piece), "") if piece.isdigit() else (True, 0, piece) for piece in pieces)
