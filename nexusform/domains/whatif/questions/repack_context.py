"""Context of a repacking: capacity of every NUMA cell, movable VMs, and reasons for immovable ones.

Feasible machines follow from the placement rule (scheduling/racks/profile.py) on the empty site;
the share of a VM in a cell is arithmetic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import chain
from math import ceil
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import group_by
from nexusform.domains.pods.scheduling.cluster_records import ExistingPod
from nexusform.domains.whatif.questions.pod_outage import (
    NO_CLUSTER_PODS,
    NO_PODS,
    ClusterPods,
    simulate_nodes_down,
)
from nexusform.domains.whatif.questions.repack_separation import SeparationRule
from nexusform.placements.vm_demands import PlacedVm
from nexusform.planning.vm_planning.site_plans import build_demand, rebuild_scheduler
from nexusform.plans.maintenance import compute_quorum
from nexusform.scheduling.kubelet import HUGEPAGES
from nexusform.scheduling.racks.layout import Share
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.uncertainty.splits import CellSplits
from nexusform.scheduling.racks.vms import (
    Demand,
    Machine,
    PlacementConstraints,
    ScheduledVm,
    VmSku,
    build_standalone_demand,
)
from nexusform.snapshots.snapshot import PoolSnapshot, SiteSnapshot, VmOwnerSnapshot

_DAEMONS: Final = "DaemonSet"
_BARE: Final = "Pod"


class Constraint(StrEnum):
    """Constraint on moving a VM or placing the demand; each can be lifted."""

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
    """Request for capacity for `want` VMs of a SKU in these zones (None = all).

    At most `moves` VMs are re-created, at most `window` at a time (None = no limit), never those of
    `excluded` (address, or `ADDRESS:OBJECT`). `separation_rules` apply.
    """

    sku: VmSku
    want: int
    zones: frozenset[str] | None = None
    moves: int | None = None
    window: int | None = None
    excluded: frozenset[str] = frozenset()
    separation_rules: tuple[SeparationRule, ...] = ()

    def can_recreate(self, count: int) -> bool:
        """Return True if this many re-creations are allowed.

        `moves` is the limit, None for no limit.
        """
        return self.moves is None or count <= self.moves

    @property
    def demand(self) -> Demand:
        """Demand of one requested VM."""
        return build_standalone_demand(self.sku, PlacementConstraints(zones=self.zones))


class FreeCell(NamedTuple):
    """Free vCPUs, MiB and VFs of one cell."""

    cpus: int
    memory: int
    vfs: int

    def subtract(self, sku: VmSku, count: int = 1) -> FreeCell:
        """Return the remains after this many VMs take or return their share.

        A count below 0 returns it.
        """
        return FreeCell(
            self.cpus - count * sku.cpus_in_cell,
            self.memory - count * sku.mib_in_cell,
            self.vfs - count * sku.vfs_in_cell,
        )

    def has_capacity(self, sku: VmSku) -> bool:
        """Return True if a VM of the SKU fits."""
        # No amount is negative.
        return min(self.subtract(sku)) >= 0


class VmClass(Struct, frozen=True):
    """VMs of equal size and placement constraints."""

    sku: VmSku
    constraints: PlacementConstraints


class MovableVm(Struct, frozen=True):
    """VM that may be re-created: numbers of its pool and class, and number of its pods."""

    pool: int
    vm_class: int
    vm: PlacedVm
    handle: int
    pods: int


class RepackMachine(Struct, frozen=True):
    """Machine open to VMs.

    `cells` is the free capacity with all VMs in known cells. `movable_vms_by_cell` are the movable
    VMs by cell; a multi-cell VM is in each of its cells. With unknown cells, `unknown_cell_vms`
    are the VMs in unknown cells, if all are movable, and `splits` the possible remains of its
    cells while they stay. `admitted` are the classes feasible on it. With `admits_demand` the
    demand is feasible.
    """

    machine: Machine
    cells: tuple[FreeCell, ...]
    movable_vms_by_cell: tuple[tuple[MovableVm, ...], ...]
    admitted: frozenset[int]
    admits_demand: bool
    disk: int
    has_unknown_cells: bool = False
    unknown_cell_vms: tuple[MovableVm, ...] = ()
    splits: tuple[tuple[FreeCell, ...], ...] = ()


class RepackContext(Struct, frozen=True, dict=True):
    """Site as input of a repacking.

    `blocked_by` is the constraint of every immovable VM by name. `limits` are the maximum VMs of a
    pool (by number) per rack afterwards, and `existing` is the current number. `pools` are in
    creation order, and `lifted` are the ignored constraints.
    """

    site: SiteSnapshot
    scheduler: RackScheduler
    pools: tuple[PoolSnapshot, ...]
    clusters: tuple[VmOwnerSnapshot, ...]
    pods: Mapping[str, ClusterPods]
    vm_classes: tuple[VmClass, ...]
    hosts: tuple[RepackMachine, ...]
    blocked_by: Mapping[str, Constraint]
    limits: tuple[int, ...]
    existing: Mapping[tuple[int, str], int]
    lifted: frozenset[Constraint] = NOTHING_LIFTED

    @cached_property
    def all_movable_vms(self) -> tuple[MovableVm, ...]:
        """Every movable VM once, by pool and number."""
        by_handle: dict[int, MovableVm] = {}
        for host in self.hosts:
            for source in chain(host.unknown_cell_vms, *host.movable_vms_by_cell):
                by_handle[source.handle] = source
        return tuple(sorted(by_handle.values(), key=lambda source: source.handle))


def build_repack_context(
    site: SiteSnapshot,
    request: RepackRequest,
    pods: Mapping[str, ClusterPods] = NO_PODS,
    lifted: frozenset[Constraint] = NOTHING_LIFTED,
) -> RepackContext:
    """Build the context of a site.

    The context has its machines with their free cells, its movable VMs, and the constraint on
    each other VM. Constraints in `lifted` are ignored. Pools and classes of VMs are numbered
    by their order.
    """
    pools = site.pools
    # The cluster of each pool.
    clusters = tuple(cluster for cluster in site.clusters for _ in cluster.pools)
    scheduler = _build_scheduler(site, lifted)
    blocked_by: dict[str, Constraint] = {}
    # By handle, the number of the VM in the scheduler.
    movable_vms: dict[int, MovableVm] = {}
    class_numbers: dict[VmClass, int] = {}
    for number, (cluster, pool) in enumerate(zip(clusters, pools, strict=True)):
        cluster_pods = pods.get(cluster.id, NO_CLUSTER_PODS)
        # Count the pods restarted by a drain, by node: pods of DaemonSets stay.
        daemons = {workload.key for workload in cluster_pods.workloads if workload.kind == _DAEMONS}
        pod_counts = Counter(
            pod.node for pod in cluster_pods.existing if pod.workload not in daemons
        )
        for vm in pool.vms:
            constraint = _find_blocking_constraint(pool, vm, request, cluster_pods, lifted)
            if constraint is not None:
                blocked_by[vm.name] = constraint
                continue
            class_number = class_numbers.setdefault(
                VmClass(pool.sku, pool.demand.constraints), len(class_numbers)
            )
            handle = pool.handles[vm.name]
            movable_vms[handle] = MovableVm(
                number, class_number, vm=vm, handle=handle, pods=pod_counts[vm.name]
            )
    hosts = _build_machines(scheduler, movable_vms, tuple(class_numbers), request.demand)
    existing = Counter(
        (number, vm.placement.rack) for number, pool in enumerate(pools) for vm in pool.vms
    )
    return RepackContext(
        site=site,
        scheduler=scheduler,
        pools=pools,
        clusters=clusters,
        pods=pods,
        vm_classes=tuple(class_numbers),
        hosts=hosts,
        blocked_by=blocked_by,
        limits=tuple(
            _compute_rack_limit(number, pool, scheduler, existing, lifted)
            for number, pool in enumerate(pools)
        ),
        existing=existing,
        lifted=lifted,
    )


def _build_scheduler(site: SiteSnapshot, lifted: frozenset[Constraint]) -> RackScheduler:
    """Build a scheduler of the site that ignores the `lifted` constraints.

    With CORDONED, machines closed to new VMs are open; with PLANNED_RACK, machines of planned racks
    exist. VMs keep their handles (ids in a scheduler).
    """
    if not lifted & {Constraint.CORDONED, Constraint.PLANNED_RACK}:
        return site.scheduler.copy()
    machines = list(site.scheduler.machines)
    if Constraint.CORDONED in lifted:
        machines = [replace(machine, unschedulable_reasons=()) for machine in machines]
    if Constraint.PLANNED_RACK in lifted:
        names = {machine.name for machine in machines}
        for rack in site.racks:
            if rack.is_planned:
                machines += [machine for machine in rack.machines if machine.name not in names]
    return rebuild_scheduler(site.scheduler, machines, site.scheduler.list_vms())


def _compute_rack_limit(
    pool_number: int,
    pool: PoolSnapshot,
    scheduler: RackScheduler,
    existing: Mapping[tuple[int, str], int],
    lifted: frozenset[Constraint],
) -> int:
    """Compute the maximum VMs of a pool per rack after the repacking.

    They are as many as in its fullest rack now. The maximum is higher if an even spread over the
    racks open to the pool needs more. `existing` counts VMs by number of the pool and rack.
    """
    if Constraint.SPREAD in lifted:
        return len(pool.vms)
    zones = pool.demand.zones
    racks = {
        machine.rack
        for machine in scheduler.machines
        if not machine.unschedulable_reason
        and (zones is None or machine.availability_zone in zones)
    }
    fullest = max(
        (count for (number, _), count in existing.items() if number == pool_number), default=0
    )
    return max(fullest, ceil(len(pool.vms) / max(len(racks), 1)))


def _find_blocking_constraint(
    pool: PoolSnapshot,
    vm: PlacedVm,
    request: RepackRequest,
    pods: ClusterPods,
    lifted: frozenset[Constraint],
) -> Constraint | None:
    """Find the first constraint to keep a VM in place; None if it is movable.

    Constraints in `lifted` are ignored.
    """
    address = str(pool.address)
    # The user excludes a resource (ADDRESS) or a VM by any of its names (ADDRESS:NAME).
    is_excluded = not request.excluded.isdisjoint(
        [address, *(f"{address}:{name}" for name in vm.names)]
    )
    has_hard_hint = any(hint.is_hard for hint in pool.demand.hints)
    has_hard_hint_or_group = has_hard_hint or any(group.is_hard for group in pool.demand.groups)
    count = len(pool.vms)
    # One VM is missing while it is re-created.
    is_needed_for_quorum = pool.is_control_plane and count > 1 and count - 1 < compute_quorum(count)
    for constraint, applies in (
        (Constraint.NOT, is_excluded),  # flag -not
        (Constraint.PINNED, bool(pool.demand.pinned_machine)),
        (Constraint.HARD_HINT, has_hard_hint_or_group),
        (Constraint.SINGLE_REPLICA, len(pool.demand.numbers) == 1),
        (Constraint.QUORUM, is_needed_for_quorum),
    ):
        if applies and constraint not in lifted:
            return constraint
    if Constraint.BUDGET not in lifted and is_drain_blocked(pods, {vm.name}):
        return Constraint.BUDGET
    violated = {
        constraint for _, constraint in find_pods_without_resources(pods, pods.existing, {vm.name})
    } - lifted
    # The first by name.
    return min(violated, default=None)


def is_drain_blocked(pods: ClusterPods, nodes: set[str]) -> bool:
    """Return True if a PodDisruptionBudget prevents a common drain of these nodes."""
    if not pods.cluster.budgets:
        return False
    # The nodes are empty.
    if not any(pod.node in nodes for pod in pods.existing):
        return False
    workloads, _ = simulate_nodes_down(pods, pods.existing, nodes, is_drained=True)
    return any(workload.blocking_budgets for workload in workloads)


def find_pods_without_resources(
    pods: ClusterPods, existing: Sequence[ExistingPod], nodes: Collection[str]
) -> list[tuple[ExistingPod, Constraint]]:
    """Find the pods with hugepages or devices and no other node while `nodes` are down.

    Return a pair for each kind of resource: the pod, and HUGEPAGES or DEVICES. Ignore pods of
    DaemonSets and bare Pods: they do not move.
    """
    recreated_workloads = {
        workload.key for workload in pods.workloads if workload.kind not in (_DAEMONS, _BARE)
    }
    # Pods that leave, with each kind of special resource.
    candidates: list[tuple[ExistingPod, Constraint]] = []
    for pod in existing:
        if pod.node not in nodes or pod.workload not in recreated_workloads:
            # It does not move.
            continue
        names = [name for name, amount in pod.spec.requests.other_resources if amount]
        if any(name.startswith(HUGEPAGES) for name in names):
            candidates.append((pod, Constraint.HUGEPAGES))
        # An extended resource, such as vendor.com/device.
        if any("/" in name for name in names):
            candidates.append((pod, Constraint.DEVICES))
    if not candidates:
        return []
    _, meanwhile = simulate_nodes_down(pods, existing, nodes, is_drained=True)
    running = {(pod.workload, pod.number) for pod in meanwhile if pod.node}
    return [
        (pod, constraint)
        for pod, constraint in candidates
        if (pod.workload, pod.number) not in running
    ]


def _build_machines(
    scheduler: RackScheduler,
    movable_vms: Mapping[int, MovableVm],
    vm_classes: Sequence[VmClass],
    demand: Demand,
) -> tuple[RepackMachine, ...]:
    """Build the machines of the repacking.

    These machines are able to run, if empty, a VM of the demand or of one of `vm_classes` (VMs of
    equal SKU and constraints, numbered in order). `movable_vms` are by handle, the scheduler's
    number of a VM.
    """
    empty_scheduler = rebuild_scheduler(scheduler, scheduler.machines, vms=())
    demands = [
        build_standalone_demand(vm_class.sku, vm_class.constraints) for vm_class in vm_classes
    ]
    vms_by_machine = group_by(scheduler.list_vms(), lambda existing: existing.placement.machine)
    unknown_machines = frozenset(scheduler.list_machines_with_unknown_cells())
    hosts: list[RepackMachine] = []
    for machine in scheduler.machines:
        rejections = [
            empty_scheduler.find_rejection(machine.name, class_demand) for class_demand in demands
        ]
        admitted = frozenset(number for number, rejection in enumerate(rejections) if not rejection)
        admits_demand = not empty_scheduler.find_rejection(machine.name, demand)
        # No VM may be placed there.
        if not admitted and not admits_demand:
            continue
        vms = vms_by_machine.get(machine.name, [])
        empty_cell = FreeCell(
            machine.cpus_per_cell, machine.memory_mib_per_cell, machine.vfs_per_cell
        )
        # Free capacity by cell number: VMs are subtracted below.
        cells = [empty_cell] * machine.cells
        movable_by_cell: list[list[MovableVm]] = [[] for _ in cells]
        for existing in vms:
            for cell in existing.placement.cells:
                cells[cell] = cells[cell].subtract(existing.sku)
                if existing.handle in movable_vms:
                    movable_by_cell[cell].append(movable_vms[existing.handle])
        unknown_cell_vms = [existing for existing in vms if not existing.placement.cells]
        # VMs in unknown cells leave together or not at all: only then the free capacity of the
        # cells is known.
        is_all_movable = all(existing.handle in movable_vms for existing in unknown_cell_vms)
        movable_unknown_vms = [
            movable_vms[existing.handle] for existing in unknown_cell_vms if is_all_movable
        ]
        host = RepackMachine(
            machine=machine,
            cells=tuple(cells),
            movable_vms_by_cell=tuple(map(tuple, movable_by_cell)),
            admitted=admitted,
            admits_demand=admits_demand,
            disk=machine.disk_gib - sum(existing.sku.disk_gib for existing in vms),
            has_unknown_cells=machine.name in unknown_machines,
            unknown_cell_vms=tuple(movable_unknown_vms),
            splits=_compute_cell_splits(cells, unknown_cell_vms)
            if machine.name in unknown_machines
            else (),
        )
        hosts.append(host)
    return tuple(hosts)


def _compute_cell_splits(
    cells: Sequence[FreeCell], unknown_cell_vms: Iterable[ScheduledVm]
) -> tuple[tuple[FreeCell, ...], ...]:
    """Compute free capacity by cell for every layout of VMs in unknown cells.

    Return () if no layout is legal or known.
    """
    free_cells = tuple((max(cell.cpus, 0), max(cell.memory, 0)) for cell in cells)  # overfull: 0
    shares = tuple(Share.compute(existing.sku) for existing in unknown_cell_vms)
    # Splits do not count VFs.
    if any(share.vfs for share in shares):
        return ()
    # Layouts are not enumerated if there are too many.
    splits = CellSplits(free_cells, shares)
    vfs = [max(cell.vfs, 0) for cell in cells]
    free_by_layout: list[tuple[FreeCell, ...]] = []
    # Free (vCPUs, MiB) of each cell.
    for remains in splits.legal_splits:
        free = [FreeCell(cpus, memory, vfs[cell]) for cell, (cpus, memory) in enumerate(remains)]
        free_by_layout.append(tuple(free))
    return tuple(free_by_layout)


def build_pool_demand(pool: PoolSnapshot, vm: PlacedVm) -> Demand:
    """Build the demand of a re-created VM; its own machine is the last choice."""
    return build_demand(pool.owner, pool.demand, vm.number, vm.placement.machine)


class TimeBudget(Struct, frozen=True):
    """Remaining seconds; None for no limit."""

    seconds_left: Callable[[], float] | None = None

    @property
    def is_exhausted(self) -> bool:
        """Whether no time remains."""
        return self.seconds_left is not None and self.seconds_left() <= 0

    def compute_share(self, part: float) -> float | None:
        """Return this share of the remaining seconds, None without a limit."""
        return None if self.seconds_left is None else max(part * self.seconds_left(), 0.0)

    def split(self, share: float) -> TimeBudget:
        """Return a budget limited to this share of the remaining time."""
        if self.seconds_left is None:
            return self
        remaining_seconds = self.seconds_left
        reserved = (1 - share) * max(remaining_seconds(), 0.0)
        return TimeBudget(lambda: remaining_seconds() - reserved)


NO_TIME_LIMIT: Final = TimeBudget()
