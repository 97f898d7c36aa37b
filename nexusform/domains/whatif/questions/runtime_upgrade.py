"""Runtime upgrade: rack by rack, machines go down with their VMs and come up under the same name.

Source: "Placement during a runtime upgrade" of the placement document, and the platform's upgrade
strategies (Rack, PauseAfterRack, max unavailable).
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import chain, pairwise

from msgspec import Struct

from nexusform.diagnostics.phrases import compute_natural_sort_key as sort_key
from nexusform.domains.whatif.questions.failure_simulation import exclude_nodes_down
from nexusform.domains.whatif.questions.pod_outage import (
    NO_PODS,
    ClusterPods,
    PodsSimulation,
    WorkloadImpact,
    WorkloadOutcome,
    WorkloadVerdict,
)
from nexusform.planning.edits import MachineOutage
from nexusform.planning.hypothesis.start_points import StartPoint
from nexusform.plans.plan import Plan
from nexusform.plans.site_capacity.occupancy import (
    Outage,
    PoolOutages,
    group_outages_by_pool,
    group_vms_down_by_cluster,
)
from nexusform.plans.site_capacity.site_resource_capacity import RuntimeVersion
from nexusform.snapshots.snapshot import SiteSnapshot

# "Upgrades may take up to 4 h + 2 h per rack" (Operator Nexus documentation).
HOURS_BEFORE_RACKS = 4
HOURS_PER_RACK = 2
DRAIN_MINUTES = 10  # maximum per node
# After power is lost, until the control plane replaces pods.
UNHEALTHY_MINUTES = 1


class UpgradeStrategy(StrEnum):
    """Continuation of the upgrade from rack to rack: automatic, or paused."""

    RACK = "Rack"
    PAUSE_AFTER_RACK = "PauseAfterRack"


class UpgradeOptions(Struct, frozen=True):
    """Options of the upgrade.

    `max_unavailable` None means all machines of a rack at once. With `drain`, nodes are drained
    before their machine is shut down. The upgrade continues once `threshold` of a rack's machines
    are back (per cent with `is_percentage`; None: unknown), after `wait_minutes`. With
    `is_from_site`, values not requested are from the site.
    """

    strategy: UpgradeStrategy = UpgradeStrategy.RACK
    max_unavailable: int | None = None
    drain: bool = True
    is_percentage: bool = False
    threshold: int | None = None
    wait_minutes: int = 0
    is_from_site: bool = False

    def compute_max_failed(self, machines: int) -> int | None:
        """Compute the maximum failed machines of a rack without an abort of the upgrade.

        Return None if the threshold is unknown.
        """
        if self.threshold is None:
            return None
        required = (
            -(-machines * self.threshold // 100) if self.is_percentage else self.threshold
        )  # rounded up
        return max(machines - required, 0)


class RequestedUpgradeOptions(Struct, frozen=True):
    """Requested options; None uses the site's."""

    strategy: UpgradeStrategy | None = None
    max_unavailable: int | None = None
    drain: bool = True

    def resolve_for_site(self, site: SiteSnapshot) -> UpgradeOptions:
        """Resolve the options of a site.

        Each option is as requested, else the site's. The default is whole racks one after another.
        """
        site_strategy = site.update_strategy
        # The site does not state one.
        if site_strategy is None:
            strategy = self.strategy or UpgradeStrategy.RACK
            return UpgradeOptions(strategy, self.max_unavailable, self.drain)
        default_strategy = (
            UpgradeStrategy.PAUSE_AFTER_RACK if site_strategy.pauses else UpgradeStrategy.RACK
        )
        return UpgradeOptions(
            strategy=self.strategy or default_strategy,
            max_unavailable=site_strategy.max_unavailable
            if self.max_unavailable is None
            else self.max_unavailable,
            drain=self.drain,
            is_percentage=site_strategy.is_percentage,
            threshold=site_strategy.threshold,
            wait_minutes=site_strategy.wait_minutes,
            is_from_site=True,
        )


class UpgradeWave(Struct, frozen=True):
    """Machines down together; `batch` of `batches` in their rack, from 1.

    `outage` has the pools with VMs down; the VMs return to the same machines. `unmanaged_vms` are
    VMs not managed by nexusform. `workloads` are those with lost pods, if pods are known.
    """

    rack: str
    batch: int
    batches: int
    outage: Outage
    unmanaged_vms: tuple[str, ...]
    workloads: tuple[WorkloadImpact, ...] = ()

    @property
    def vm_count(self) -> int:
        """Number of VMs down, including unmanaged ones."""
        return sum(len(pool.down_vms) for pool in self.outage.pools) + len(self.unmanaged_vms)

    @property
    def is_lost(self) -> bool:
        """Whether a quorum or a pool is lost."""
        return any(pool.is_lost for pool in self.outage.pools)


class UpgradeStop(Struct, frozen=True):
    """Rack stopping the upgrade now: more unhealthy machines than `max_failed`.

    `waves` is the number of waves done by then.
    """

    rack: str
    # Name and reason.
    unhealthy: tuple[tuple[str, str], ...]
    machines: int
    max_failed: int
    waves: int


class RuntimeUpgrade(Struct, frozen=True):
    """Upgrade of one site.

    `plan` is the hypothetical plan of its outages. `unexpected_order` are two racks in byte order
    against their numeric order (r10 before r2), or (). `runtime` has the current version and the
    offered upgrades. `stop` is the predicted stop.
    """

    site_id: str
    options: UpgradeOptions
    racks: tuple[str, ...]
    plan: Plan
    waves: tuple[UpgradeWave, ...]
    unexpected_order: tuple[str, ...]
    workloads: tuple[WorkloadVerdict, ...] = ()
    runtime: RuntimeVersion | None = None
    stop: UpgradeStop | None = None

    @property
    def pools(self) -> tuple[PoolOutages, ...]:
        """Pools with VMs, and the waves with VMs down."""
        return group_outages_by_pool(self.plan.outages)

    @property
    def has_findings(self) -> bool:
        """Whether availability is lost, or the upgrade stops."""
        return self.is_availability_lost or self.stop is not None

    @property
    def is_availability_lost(self) -> bool:
        """Whether a control plane, pool or workload is lost."""
        is_workload_lost = any(
            workload.outcome is WorkloadOutcome.LOST for workload in self.workloads
        )
        return is_workload_lost or any(wave.is_lost for wave in self.waves)

    @property
    def hours(self) -> int:
        """Maximum hours by the platform's limits, with pauses."""
        pause_hours = -(
            -self.options.wait_minutes * max(len(self.racks) - 1, 0) // 60
        )  # rounded up
        return HOURS_BEFORE_RACKS + HOURS_PER_RACK * len(self.racks) + pause_hours


def simulate_runtime_upgrade(
    start: StartPoint,
    site: SiteSnapshot,
    options: UpgradeOptions,
    pods: Mapping[str, ClusterPods] = NO_PODS,
) -> RuntimeUpgrade:
    """Simulate the upgrade, rack after rack in byte order of their names.

    `pods` are the known pods by cluster id. Raises DiagnosticsError if the state cannot be planned.
    """
    edits: list[MachineOutage] = []
    # Rack, number of the batch and of all batches of the rack.
    positions: list[tuple[str, int, int]] = []
    for rack in site.active_racks:
        names = [machine.name for machine in site.machines_by_rack[rack]]
        size = options.max_unavailable or len(names)
        batches = [tuple(names[first : first + size]) for first in range(0, len(names), size)]
        for number, batch in enumerate(batches, 1):
            title = rack if len(batches) == 1 else f"{rack}, batch {number} of {len(batches)}"
            edits.append(MachineOutage(site.id, batch, title))
            positions.append((rack, number, len(batches)))
    plan = start.plan_site(site.id, edits).plan
    pods = exclude_nodes_down(site, pods, site.machines_down)
    simulations = [
        PodsSimulation(pods[cluster.id], options.drain)
        for cluster in site.clusters
        if cluster.id in pods
    ]
    waves = []
    # In order: pods start each wave where the previous one left them.
    for position, outage in zip(positions, plan.outages, strict=True):
        vms_by_cluster = group_vms_down_by_cluster(outage.pools)
        workloads: list[WorkloadImpact] = []
        for simulation in simulations:
            vms = vms_by_cluster.get(simulation.pods.cluster_id)
            if vms:
                workloads += simulation.run_outage_wave(outage.number, {vm.name for vm in vms})
        unmanaged_vms = site.list_unmanaged_vms(outage.machines)
        waves.append(UpgradeWave(*position, outage, unmanaged_vms, tuple(workloads)))
    # Neighbours in byte order, but not in order of their numbers, such as r10 and r9.
    racks = site.active_racks
    unexpected_pairs = (pair for pair in pairwise(racks) if sort_key(pair[0]) > sort_key(pair[1]))
    return RuntimeUpgrade(
        site_id=site.id,
        options=options,
        racks=racks,
        plan=plan,
        waves=tuple(waves),
        unexpected_order=next(unexpected_pairs, ()),
        workloads=tuple(
            chain.from_iterable(simulation.build_verdicts() for simulation in simulations)
        ),
        runtime=site.runtime,
        stop=_predict_stop(site, options, waves),
    )


def _predict_stop(
    site: SiteSnapshot, options: UpgradeOptions, waves: Iterable[UpgradeWave]
) -> UpgradeStop | None:
    """Find the first rack with more unhealthy machines than may fail: the upgrade stops there.

    Return None if the upgrade does not stop.
    """
    # Number of the last wave of each rack.
    last_wave = {wave.rack: wave.outage.number for wave in waves}
    for rack, number in last_wave.items():
        machines = site.machines_by_rack[rack]
        max_failed = options.compute_max_failed(len(machines))
        unhealthy = [
            (machine.name, machine.health_problems)
            for machine in machines
            if not machine.is_healthy
        ]
        # None: the site states no threshold.
        if max_failed is not None and len(unhealthy) > max_failed:
            return UpgradeStop(rack, tuple(unhealthy), len(machines), max_failed, number)
    return None
