"""What a repacking starts from: the room of every NUMA cell, the VMs that may be re-created, and why others
may not.

Who may stand where is asked of the rule of racks itself (scheduling/racks/profile.py), on the empty site;
what a VM takes of a cell is arithmetic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from math import ceil
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from nexusform.demands import PlacedVm
from nexusform.domains.pods.scheduling.workloads import PodSpec, StandingPod
from nexusform.domains.whatif.questions.pods_down import NO_PODS, ClusterPods, take_down
from nexusform.domains.whatif.questions.repack_separation import Apart
from nexusform.planning.vms.sites import demand_for
from nexusform.scheduling.kubelet import HUGEPAGES
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.layout import Share
from nexusform.scheduling.racks.uncertainty.splits import Splits
from nexusform.scheduling.racks.vms import Demand, Machine, StandingVm, Terms, VmSku, anybodys
from nexusform.worlds.availability import quorum_of
from nexusform.worlds.world_view import Cluster, OwnerKind, Pool, SiteView

_DAEMONS: Final = "DaemonSet"
_BARE: Final = "Pod"


class Constraint(StrEnum):
    """What holds a VM where it is, or keeps a demand out; each can be lifted to see what it costs."""

    MOVES = "moves"
    WINDOW = "window"
    ZONES = "zones"
    NOT = "not"
    SINGLE_REPLICA = "single_replica"
    QUORUM = "quorum"
    BUDGET = "budget"
    HUGEPAGES = "hugepages"
    DEVICES = "devices"
    SEPARATION = "separation"
    PINNED = "pinned"
    HARD_HINT = "hard_hint"
    SPREAD = "spread"
    CORDONED = "cordoned"
    PLANNED_RACK = "planned_rack"
    MAX_UNAVAILABLE = "max_unavailable"


NOTHING_LIFTED: Final[frozenset[Constraint]] = frozenset()


class RepackRequest(Struct, frozen=True, kw_only=True):
    """Room for `want` VMs of a SKU, in these zones (None = all).

    At most `moves` VMs are re-created, at most `window` at a time (None = no limit); those of `spared` (an
    address, or `ADDRESS:OBJECT`) never. `apart` are the separation rules.
    """

    sku: VmSku
    want: int
    zones: frozenset[str] | None = None
    moves: int | None = None
    window: int | None = None
    spared: frozenset[str] = frozenset()
    apart: tuple[Apart, ...] = ()

    @property
    def demand(self) -> Demand:
        """One of the VMs that want room."""
        return anybodys(self.sku, Terms(zones=self.zones))


class Free(NamedTuple):
    """What is free in one cell: vCPUs, MiB and VFs."""

    cpus: int
    memory: int
    vfs: int

    def without(self, sku: VmSku, count: int = 1) -> Free:
        """What is left when so many VMs take their share."""
        return Free(
            self.cpus - count * sku.cpus_in_cell,
            self.memory - count * sku.mib_in_cell,
            self.vfs - count * sku.vfs_in_cell,
        )

    def takes(self, sku: VmSku) -> bool:
        """Whether a VM of the SKU finds its share."""
        return self.without(sku).is_legal

    @property
    def is_legal(self) -> bool:
        """Whether nothing is owed."""
        return min(self) >= 0


class Kind(Struct, frozen=True):
    """VMs that take as much and may stand in the same places: their SKU, and their terms."""

    sku: VmSku
    terms: Terms


class Source(Struct, frozen=True):
    """A VM that may be re-created: the number of its pool and of its kind, and the pods on it."""

    pool: int
    kind: int
    vm: PlacedVm
    handle: int
    pods: int


class Host(Struct, frozen=True):
    """A machine that takes VMs. `cells` is what is free in each, with everybody who stands on known cells.

    `sources` are its VMs that may go, by cell; a VM of several cells is in each of them. On a machine with
    VMs whose cells are not known `loose` are these, if all may go, and `splits` what may be left of its cells
    while they stay. `admits` are the kinds that no rule refuses there, `demanded` whether the demand is one.
    """

    machine: Machine
    cells: tuple[Free, ...]
    sources: tuple[tuple[Source, ...], ...]
    admits: frozenset[int]
    demanded: bool
    disk: int
    unknown: bool = False
    loose: tuple[Source, ...] = ()
    splits: tuple[tuple[Free, ...], ...] = ()


class RepackGround(Struct, frozen=True, dict=True):
    """A site as a repacking sees it. `held` says of every VM that stays, by name, what holds it.

    `limits` is how many VMs of a pool (by number) a rack may have afterwards, `standing` how many it has.
    `scheduler` is the site's, `pools` are its pools in order of creation, `lifted` is what holds nobody.
    """

    site: SiteView
    scheduler: RackScheduler
    pools: tuple[Pool, ...]
    clusters: tuple[Cluster, ...]
    pods: Mapping[str, ClusterPods]
    kinds: tuple[Kind, ...]
    hosts: tuple[Host, ...]
    held: Mapping[str, Constraint]
    limits: tuple[int, ...]
    standing: Mapping[tuple[int, str], int]
    lifted: frozenset[Constraint] = NOTHING_LIFTED

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """Every VM that may be re-created, each once, by pool and number."""
        found: dict[int, Source] = {}
        for host in self.hosts:
            for source in (*host.loose, *(one for cell in host.sources for one in cell)):
                found[source.handle] = source
        return tuple(sorted(found.values(), key=lambda source: source.handle))


def lay_repack_ground(
    site: SiteView,
    request: RepackRequest,
    pods: Mapping[str, ClusterPods] = NO_PODS,
    lifted: frozenset[Constraint] = NOTHING_LIFTED,
) -> RepackGround:
    """Read the site. What is `lifted` holds nobody."""
    clusters, pools = _pools(site)
    scheduler = _scheduler(site, lifted)
    held: dict[str, Constraint] = {}
    sources: dict[int, Source] = {}
    kinds: dict[Kind, int] = {}
    for number, (cluster, pool) in enumerate(zip(clusters, pools, strict=True)):
        on_nodes = _pods_of(pods.get(cluster.id))
        for vm in pool.vms:
            why = _held_by(cluster, pool, vm, request, pods.get(cluster.id), lifted)
            if why is not None:
                held[vm.name] = why
                continue
            kind = kinds.setdefault(Kind(pool.sku, pool.demand.terms), len(kinds))
            handle = pool.handles[vm.name]
            sources[handle] = Source(number, kind, vm, handle, on_nodes[vm.name])
    hosts = _hosts(scheduler, sources, tuple(kinds), request.demand)
    standing = Counter((number, vm.placement.rack) for number, pool in enumerate(pools) for vm in pool.vms)
    return RepackGround(
        site=site,
        scheduler=scheduler,
        pools=pools,
        clusters=clusters,
        pods=pods,
        kinds=tuple(kinds),
        hosts=hosts,
        held=held,
        limits=tuple(_limit(number, pool, scheduler, standing, lifted) for number, pool in enumerate(pools)),
        standing=standing,
        lifted=lifted,
    )


def _pools(site: SiteView) -> tuple[tuple[Cluster, ...], tuple[Pool, ...]]:
    """The pools in order of creation, each with its cluster."""
    pairs = [(cluster, pool) for cluster in site.clusters for pool in cluster.pools]
    return tuple(cluster for cluster, _ in pairs), tuple(pool for _, pool in pairs)


def _scheduler(site: SiteView, lifted: frozenset[Constraint]) -> RackScheduler:
    """The site's scheduler; with every machine in service, or with planned racks, where that is lifted.

    Handles stay what they are: VMs come in the order in which they came.
    """
    if not lifted & {Constraint.CORDONED, Constraint.PLANNED_RACK}:
        return site.scheduler.copy()
    machines = list(site.scheduler.machines)
    if Constraint.CORDONED in lifted:
        machines = [replace(machine, refusal="") for machine in machines]
    if Constraint.PLANNED_RACK in lifted:
        names = {machine.name for machine in machines}
        planned = (machine for rack in site.racks if rack.planned for machine in rack.machines)
        machines += [machine for machine in planned if machine.name not in names]
    return rebuilt(site.scheduler, machines)


def rebuilt(scheduler: RackScheduler, machines: Iterable[Machine]) -> RackScheduler:
    """The same VMs on other machines. No VM has left the scheduler before, so handles stay what they are."""
    new = RackScheduler(list(machines), scheduler.spread, scheduler.seed, split_seed=scheduler.split_seed)
    for vm in scheduler.vms():
        new.occupy(vm.vm, vm.sku, vm.placement)
    return new


def _limit(
    number: int,
    pool: Pool,
    scheduler: RackScheduler,
    standing: Mapping[tuple[int, str], int],
    lifted: frozenset[Constraint],
) -> int:
    """How many VMs of a pool one rack may have: no more than a rack has now, or than an even spread needs."""
    if Constraint.SPREAD in lifted:
        return len(pool.vms)
    zones = pool.demand.zones
    racks = {
        machine.rack
        for machine in scheduler.machines
        if not machine.refusal and (zones is None or machine.availability_zone in zones)
    }
    most = max((count for (owner, _), count in standing.items() if owner == number), default=0)
    return max(most, ceil(len(pool.vms) / max(len(racks), 1)))


# --- who may go --------------------------------------------------------------------------------


def _held_by(
    cluster: Cluster,
    pool: Pool,
    vm: PlacedVm,
    request: RepackRequest,
    pods: ClusterPods | None,
    lifted: frozenset[Constraint],
) -> Constraint | None:
    """What keeps a VM where it is, None where it may be re-created."""
    for constraint, holds in (
        (Constraint.NOT, _is_spared(pool, vm, request.spared)),
        (Constraint.PINNED, bool(pool.demand.pinned)),
        (Constraint.HARD_HINT, _is_hard_hinted(pool)),
        (Constraint.SINGLE_REPLICA, len(pool.demand.numbers) == 1 and not _is_vnf(cluster, pool)),
        (Constraint.QUORUM, _is_needed_for_quorum(pool)),
    ):
        if holds and constraint not in lifted:
            return constraint
    if pods is None:
        return None
    if Constraint.BUDGET not in lifted and drain_is_held_up(pods, {vm.name}):
        return Constraint.BUDGET
    starved = {constraint for _, constraint in starving(pods, pods.standing, {vm.name})} - lifted
    return min(starved, default=None)


def _is_needed_for_quorum(pool: Pool) -> bool:
    """Whether a control plane of several VMs may lose none. One that is alone is held for being that."""
    count = len(pool.vms)
    return pool.control_plane and count > 1 and count - 1 < quorum_of(count)


def _is_vnf(cluster: Cluster, pool: Pool) -> bool:
    """Whether it is a VNFC beside others of its VNF that may stand in for it."""
    return cluster.kind is OwnerKind.GROUP and cluster.count > 1 and len(pool.demand.numbers) > 1


def _is_spared(pool: Pool, vm: PlacedVm, spared: frozenset[str]) -> bool:
    address = str(pool.address)
    return address in spared or any(f"{address}:{name}" in spared for name in vm.names)


def _is_hard_hinted(pool: Pool) -> bool:
    hinted = any(hint.hard for hint in pool.demand.hints)
    return hinted or any(group.hard for group in pool.demand.groups)


def drain_is_held_up(pods: ClusterPods, nodes: set[str]) -> bool:
    """Whether a PodDisruptionBudget keeps these nodes from being drained together."""
    if not pods.cluster.budgets or not any(pod.node in nodes for pod in pods.standing):
        return False
    workloads, _ = take_down(pods, pods.standing, nodes, drained=True)
    return any(workload.held_up_by for workload in workloads)


def starving(
    pods: ClusterPods, standing: Sequence[StandingPod], nodes: Collection[str]
) -> list[tuple[StandingPod, Constraint]]:
    """The pods with hugepages or devices that find no other node while these are away, and what they ask.

    Those of DaemonSets go with their node, and nobody makes a bare Pod anew.
    """
    follows = {workload.key for workload in pods.workloads if workload.kind not in (_DAEMONS, _BARE)}
    asking = [
        (pod, constraint)
        for pod in standing
        if pod.node in nodes and pod.workload in follows
        for constraint in _rare_of(pod.spec)
    ]
    if not asking:
        return []
    _, meanwhile = take_down(pods, standing, nodes, drained=True)
    running = {(pod.workload, pod.number) for pod in meanwhile if pod.node}
    return [(pod, constraint) for pod, constraint in asking if (pod.workload, pod.number) not in running]


def _rare_of(pod: PodSpec) -> Iterable[Constraint]:
    """What a pod asks that not every node has."""
    names = [name for name, amount in pod.requests.others if amount]
    if any(name.startswith(HUGEPAGES) for name in names):
        yield Constraint.HUGEPAGES
    if any("/" in name for name in names):
        yield Constraint.DEVICES


def _pods_of(pods: ClusterPods | None) -> Counter[str]:
    """How many pods each node runs that its going restarts: all but those of DaemonSets."""
    if pods is None:
        return Counter()
    daemons = {workload.key for workload in pods.workloads if workload.kind == _DAEMONS}
    return Counter(pod.node for pod in pods.standing if pod.node and pod.workload not in daemons)


# --- machines ----------------------------------------------------------------------------------


def _hosts(
    scheduler: RackScheduler, sources: Mapping[int, Source], kinds: Sequence[Kind], demand: Demand
) -> tuple[Host, ...]:
    """The machines that may take VMs of a kind, or of the demand."""
    empty = RackScheduler(scheduler.machines, scheduler.spread, scheduler.seed)
    demands = [anybodys(kind.sku, kind.terms) for kind in kinds]
    by_machine: dict[str, list[StandingVm]] = {}
    for standing in scheduler.vms():
        by_machine.setdefault(standing.placement.machine, []).append(standing)
    unknown = frozenset(scheduler.loose_machines())
    hosts: list[Host] = []
    for machine in scheduler.machines:
        admits = frozenset(kind for kind, one in enumerate(demands) if not empty.refusal(machine.name, one))
        demanded = not empty.refusal(machine.name, demand)
        if not admits and not demanded:
            continue
        vms = by_machine.get(machine.name, [])
        hosts.append(_host(machine, vms, sources, admits, demanded, machine.name in unknown))
    return tuple(hosts)


def _host(
    machine: Machine,
    vms: Sequence[StandingVm],
    sources: Mapping[int, Source],
    admits: frozenset[int],
    demanded: bool,
    unknown: bool,
) -> Host:
    """What is free on a machine, and who may leave it."""
    whole = Free(machine.cpus_per_cell, machine.memory_gib_per_cell * 1024, machine.vfs_per_cell)
    cells = [whole] * machine.cells
    leaving: list[list[Source]] = [[] for _ in cells]
    loose: list[StandingVm] = []
    for standing in vms:
        if not standing.placement.cells:
            loose.append(standing)
            continue
        for cell in standing.placement.cells:
            cells[cell] = cells[cell].without(standing.sku)
            if standing.handle in sources:
                leaving[cell].append(sources[standing.handle])
    all_go = all(standing.handle in sources for standing in loose)
    return Host(
        machine=machine,
        cells=tuple(cells),
        sources=tuple(tuple(cell) for cell in leaving),
        admits=admits,
        demanded=demanded,
        disk=machine.disk_gib - sum(standing.sku.disk_gib for standing in vms),
        unknown=unknown,
        loose=tuple(sources[standing.handle] for standing in loose) if all_go else (),
        splits=_splits(cells, loose) if unknown else (),
    )


def _splits(cells: Sequence[Free], loose: Iterable[StandingVm]) -> tuple[tuple[Free, ...], ...]:
    """What may be left of each cell, for every legal split; () where there is none, or too many."""
    base = tuple((max(cell.cpus, 0), max(cell.memory, 0)) for cell in cells)
    shares = tuple(Share.of(standing.sku) for standing in loose)
    if any(share.vfs for share in shares):
        return ()
    splits = Splits(base, shares)
    vfs = [max(cell.vfs, 0) for cell in cells]
    return tuple(
        tuple(Free(cpus, memory, vfs[cell]) for cell, (cpus, memory) in enumerate(left))
        for left in splits.left
    )


def demand_of(pool: Pool, vm: PlacedVm) -> Demand:
    """What the rule is asked for a VM that is re-created: its own machine is tried last."""
    return demand_for(pool.owner, pool.demand, vm.number, vm.placement.machine)
