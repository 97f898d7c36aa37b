"""Comparison of an export with state: correct and wrong predictions by cluster, with known causes.

Counts of an export; and the replay of a site, its VMs placed again in creation order, to check if
the placement rule explains their machines. A VM is a hit if its real machine is among the best
machines for some legal split of earlier VMs over NUMA cells, and a certain hit if it is so for all.
Cells are unknown, since no platform reports them. VMs of a pool without a known order are taken in
the order with most hits.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile
from nexusform.diagnostics.phrases import enclose, group_by
from nexusform.domains.azure.importers.az_capture_commands import WORKLOAD_KINDS
from nexusform.domains.azure.importers.az_machines import COMPUTE
from nexusform.domains.azure.importers.az_records import (
    AzCluster,
    AzInventory,
    AzMachine,
    AzNode,
    AzSite,
    AzVirtualMachine,
    AzVmLocation,
)
from nexusform.doubts.doubt import Doubt
from nexusform.doubts.ledger import explain_uncertain_vm
from nexusform.placements.prediction_scores import PredictionRecord
from nexusform.placements.vm_demands import PlacedVm
from nexusform.planning.vm_planning.site_plans import build_scheduler
from nexusform.plans.plan import SeparationVerdict
from nexusform.resource_types.machine_facts import (
    build_hardware,
    build_machine,
    describe_unschedulable_reasons,
    get_default_facts,
)
from nexusform.scheduling.listing.site_listing import ListedSite
from nexusform.scheduling.racks.vms import (
    CONTROL_PLANE,
    Demand,
    Machine,
    Placement,
    PlacementConstraints,
    RackSpread,
    VmName,
    VmSku,
)
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST

NO_ORDER: Final = "its creation time is unknown"
LATER: Final = "nodes were added or re-created later: the earlier placement is unknown"
NOT_ALL: Final = "the site was captured incompletely: free capacity at that time is unknown"
DELETED: Final = "VMs of that time are deleted: free capacity at that time is unknown"
# The date in a timestamp.
_DATE_LENGTH = len("2024-01-09")
MISSING = "it is no longer listed"
UNPLACED = "it has no machine"


class ObservedVm(Struct, frozen=True):
    """Existing VM with its location.

    `name` is the display name.
    """

    name: str
    cluster: str
    pool: str
    sku: VmSku
    constraints: PlacementConstraints
    placement: Placement


class VmCreationBatch(Struct, frozen=True):
    """VMs of one pool created at one time, in unknown order, or one VM.

    `skip_reason` says why they are not checked.
    """

    vms: tuple[ObservedVm, ...]
    skip_reason: str = ""


class MisplacedVm(Struct, frozen=True):
    """VM off the machines preferred by the rule, with some of the best machines."""

    vm: ObservedVm
    best: tuple[str, ...]


class SiteReplay(Struct, frozen=True):
    """Result of a replay of a site under one `rack_spread`.

    `sure` of the `hits` hold for every possible split of NUMA cells; `unjudged` counts VMs by
    reason. `chance` is the number of hits expected from a random choice of feasible machines.
    """

    site: str
    spread: RackSpread
    hits: int
    sure: int
    misses: tuple[MisplacedVm, ...]
    unjudged: Mapping[str, int]
    chance: float = 0.0

    @property
    def judged(self) -> int:
        """Number of VMs checked."""
        return self.hits + len(self.misses)


class _SiteReplayer:
    """Replay of one site under one `rack_spread`."""

    def __init__(self, site: str, machines: Sequence[Machine], spread: RackSpread) -> None:
        """Start a scheduler of the machines under the rule `spread`, with all counts at zero."""
        self.site = site
        self.scheduler = build_scheduler(machines, spread)
        self.machine_names = {machine.name for machine in machines}
        # Placed VMs by cluster and pool.
        self.numbers: Counter[tuple[str, str]] = Counter()
        # VMs on a machine preferred by the rule.
        self.hits = 0
        # Of these: for every possible NUMA use.
        self.sure = 0
        # Expected hits of a random choice.
        self.chance = 0.0
        # VMs on another machine.
        self.misses: list[MisplacedVm] = []
        # VMs placed without a score, by reason.
        self.unjudged: Counter[str] = Counter()

    def run(self, batches: Iterable[VmCreationBatch]) -> SiteReplay:
        """Score and place the batches in order; place a skipped one without a score."""
        for batch in batches:
            if batch.skip_reason:
                self.unjudged[batch.skip_reason] += len(batch.vms)
                for vm in batch.vms:
                    self._place_observed_vm(vm)
            else:
                self._score_batch(batch.vms)
        return SiteReplay(
            self.site,
            self.scheduler.spread,
            self.hits,
            self.sure,
            tuple(self.misses),
            self.unjudged,
            self.chance,
        )

    def _score_batch(self, vms: Sequence[ObservedVm]) -> None:
        """Place the VMs of a batch.

        VMs on a best machine of the placement rule are hits, others are misses. Their order
        is unknown, so the next VM is one on a best machine. If there is none, the first VM is
        a miss. `sure` counts the hits for every possible NUMA use, `chance` the hits expected
        of random machines.
        """
        vms_by_machine = group_by(vms, lambda vm: vm.placement.machine)
        while vms_by_machine:
            first_machine = next(iter(vms_by_machine))
            demand = self._build_demand(vms_by_machine[first_machine][0])
            best = self.scheduler.find_best_machines(demand)
            best_count = len(best.in_some_splits)
            fit_count = self.scheduler.count_fitting_machines(demand, self.machine_names)
            random_hit_chance = best_count / max(fit_count, best_count, 1)
            # Any VM left in the batch may be taken as a hit, so chance has as many tries.
            self.chance += 1 - (1 - random_hit_chance) ** sum(map(len, vms_by_machine.values()))
            # NUMA cells of VMs are unknown: prefer a machine best for every possible split, then
            # one best for some.
            certain_machines = [
                machine for machine in vms_by_machine if machine in best.in_all_splits
            ]
            possible_machines = [
                machine for machine in vms_by_machine if machine in best.in_some_splits
            ]
            machine = [*certain_machines, *possible_machines, first_machine][0]
            vm = vms_by_machine[machine].pop(0)
            if not vms_by_machine[machine]:
                del vms_by_machine[machine]
            if certain_machines or possible_machines:
                self.hits += 1
                self.sure += bool(certain_machines)
            else:
                self.misses.append(MisplacedVm(vm, tuple(sorted(best.in_some_splits)[:3])))
            self._place_observed_vm(vm)

    def _build_demand(self, vm: ObservedVm) -> Demand:
        """Build the demand of a VM with the next number of its pool."""
        number = self.numbers[vm.cluster, vm.pool]
        name = VmName(owner=vm.cluster, cluster=vm.cluster, pool=vm.pool, number=number)
        return Demand(name, vm.sku, vm.constraints)

    def _place_observed_vm(self, vm: ObservedVm) -> None:
        """Place a VM on its real machine with unknown cells."""
        if vm.placement.machine not in self.machine_names:
            # A machine of unknown hardware.
            return
        demand = self._build_demand(vm)
        self.numbers[vm.cluster, vm.pool] += 1
        self.scheduler.add_existing(demand.vm, demand.sku, replace(vm.placement, cells=()))


class VmCheck(Struct, frozen=True):
    """Recorded and observed location of one VM (None: nowhere).

    `cause` is the reason visible in the export.
    """

    name: str
    recorded: Placement
    observed: Placement | None
    cause: str = ""


class ClusterLocationCheck(Struct, frozen=True):
    """VMs of one object, with its address and its name on the site.

    `unread` are clauses on unread facts that make the observed machines uncertain.
    """

    address: str
    name: str
    vms: tuple[VmCheck, ...]
    unread: tuple[str, ...] = ()

    @property
    def rack_hits(self) -> int:
        """Number of VMs in the recorded rack."""
        return sum(
            vm.observed is not None and vm.observed.rack == vm.recorded.rack for vm in self.vms
        )

    @property
    def misses(self) -> tuple[VmCheck, ...]:
        """VMs on another machine, or nowhere."""
        return tuple(
            vm
            for vm in self.vms
            if vm.observed is None or vm.observed.machine != vm.recorded.machine
        )


class VerifiedPredictions(Struct, frozen=True):
    """Predictions of applied plans.

    They are the records by site, the number verified now, and the wrong ones reported as certain.
    """

    records: Mapping[str, PredictionRecord] = field(default_factory=dict)
    new_count: int = 0
    wrong_certain: tuple[str, ...] = ()


class ReconcileResult(Struct, frozen=True):
    """Result of a reconciliation.

    `checks` are compared objects, `absent` objects missing in a complete export, and `uncaptured`
    objects that the export does not cover. `unfinished` are changes of applies in progress or
    failed. `rules` are separation rules on observed VMs. `replays` exist only on request. `spreads`
    has the recorded `rack_spread` by site. `warnings` are kinds not captured, and findings of the
    source. With `is_read_completely`, no list is missing. `predictions` are results of predictions
    of applied plans. `listed` are sites with other hardware or roles than configured, or in
    maintenance. Without a configuration there are only replays (`is_compared_with_state` is False).
    `inventory` is the age of the export, "" for a site that is read now.
    """

    checks: tuple[ClusterLocationCheck, ...] = ()
    absent: tuple[str, ...] = ()
    uncaptured: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_read_completely: bool = True
    rules: tuple[SeparationVerdict, ...] = ()
    listed: tuple[ListedSite, ...] = ()
    replays: tuple[SiteReplay, ...] = ()
    spreads: Mapping[str, RackSpread] = field(default_factory=dict)
    predictions: VerifiedPredictions = field(default_factory=VerifiedPredictions)
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)
    is_compared_with_state: bool = True
    inventory: str = ""

    @property
    def violated_rules(self) -> tuple[SeparationVerdict, ...]:
        """Separation rules violated by the observed VMs."""
        return tuple(rule for rule in self.rules if rule.violations)

    @property
    def unexplained_sites(self) -> tuple[str, ...]:
        """Sites with a VM that the rule places elsewhere, or where no VM could be checked.

        The rule has the recorded `rack_spread`; without a record one that explains all VMs counts.
        """
        rules = group_by(
            (
                replay
                for replay in self.replays
                if self.spreads.get(replay.site, replay.spread) is replay.spread
            ),
            lambda replay: replay.site,
        )
        return tuple(
            site
            for site, replays in rules.items()
            if all(replay.misses or not replay.judged for replay in replays)
        )


def compare_cluster_vms(
    address: str,
    name: str,
    recorded: Sequence[PlacedVm],
    observed: Iterable[PlacedVm],
    unplaced: Iterable[tuple[str, int | str]],
    observed_machines: Mapping[tuple[str, str], AzMachine],
    unread: Sequence[Doubt] = (),
) -> ClusterLocationCheck:
    """Compare the VMs of an object with the observed ones.

    `name` is the site and its own name (`SITE/CLUSTER`). `unplaced` has (pool, number) of VMs
    without a machine. `observed_machines` are the machines of the export by site and name. `unread`
    are facts of the site that are not read.
    """
    observed_by_key = {(vm.pool, vm.number): vm for vm in observed}
    unplaced_keys = set(unplaced)
    site = name.partition("/")[0]
    checks = []
    for vm in recorded:
        key = (vm.pool, vm.number)
        observed_vm = observed_by_key.get(key)
        if observed_vm is None:
            cause = UNPLACED if key in unplaced_keys else MISSING
            checks.append(VmCheck(vm.display_name, vm.placement, observed=None, cause=cause))
            continue
        recorded_machine = vm.placement.machine
        machine = observed_machines.get((site, recorded_machine))
        if observed_vm.placement.machine == recorded_machine:
            cause = ""
        elif machine is None:
            cause = f"{recorded_machine} is no longer listed"
        else:
            # "" if schedulable.
            cause = enclose(f"{recorded_machine}: ", describe_unschedulable_reasons(machine.facts))
        checks.append(VmCheck(observed_vm.display_name, vm.placement, observed_vm.placement, cause))
    # SITE/CLUSTER, SITE/CLUSTER/POOL or SITE/VM.
    owner = name.split("/")[1]
    pools = dict.fromkeys(vm.pool for vm in recorded)
    clauses = [
        explain_uncertain_vm(unread, "", {"VM": owner, "cluster": owner, "agent pool": pool})
        for pool in pools
    ]
    causes = tuple(dict.fromkeys(filter(None, clauses)))
    return ClusterLocationCheck(address, name, tuple(checks), causes)


def run_replays(
    site: AzSite, removed: Collection[str], spreads: Iterable[RackSpread]
) -> list[SiteReplay]:
    """Run the replay (place all VMs again in order of creation) of a site under each `rack_spread`.

    `removed` are clusters with recorded VMs that are no longer listed; after such a cluster the
    free capacity is unknown.
    """
    inventory = site.inventory
    zones = {rack.name: rack.availability_zone or rack.name for rack in inventory.racks}
    occupied = {vm.placement.machine for vm in _list_vms(inventory) if vm.placement is not None}
    machines: list[Machine] = []
    for machine in inventory.machines:
        hardware = machine.find_hardware(CATALOGUES[NEWEST].machine_skus)
        if hardware is not None:
            # A machine with VMs counts as schedulable, regardless of its current facts.
            facts = get_default_facts() if machine.name in occupied else machine.facts
            replayed_machine = build_machine(
                build_hardware(hardware, machine.machine_sku),
                facts,
                name=machine.name,
                rack=machine.rack,
                # A rack without a zone is one of its own.
                availability_zone=zones.get(machine.rack, machine.rack),
                slot=machine.slot,
            )
            machines.append(replayed_machine)
    batches = [
        _skip_uncertain_batch(batch, inventory.unread)
        for batch in _build_creation_batches(inventory, removed)
    ]
    return [_SiteReplayer(site.name, machines, spread).run(batches) for spread in spreads]


def _list_vms(inventory: AzInventory) -> Iterator[AzNode | AzVirtualMachine]:
    for cluster in inventory.clusters:
        yield from cluster.nodes
    yield from inventory.virtual_machines


# Sort key and VM; the key is time, cluster, index of its pool, and the node's own time.
_TimedVm: TypeAlias = tuple[tuple[str, str, int, str], ObservedVm]


def _list_vms_in_creation_order(inventory: AzInventory) -> list[_TimedVm]:
    """Return the VMs, sorted by their keys.

    Time, cluster, index of the pool, and own time of a node.
    """
    skus = {**CATALOGUES[NEWEST].vm_skus, **{sku.name: sku for sku in inventory.vm_skus}}
    timed: list[_TimedVm] = []
    for cluster in inventory.clusters:
        timed += _list_nodes_with_creation_sort_key(cluster, skus)
    for vm in inventory.virtual_machines:
        if vm.placement is not None:
            cpus = vm.shape.cpu_cores
            shape = vm.shape
            sku = VmSku(
                f"{cpus} vCPU",
                cpus,
                emulator_vcpus=0,
                memory_gib=shape.memory_gib,
                disk_gib=shape.disk_gib,
            )
            # A VM outside clusters counts as a cluster of its own.
            single_vm = ObservedVm(
                vm.name, vm.name, "vm", sku, PlacementConstraints(), _build_placement(vm.placement)
            )
            timed.append(((vm.created_at, vm.name, 0, ""), single_vm))
    return sorted(timed, key=lambda pair: pair[0])


def _build_creation_batches(
    inventory: AzInventory, removed: Collection[str]
) -> Iterator[VmCreationBatch]:
    """Yield the VMs in creation order, in batches of one pool and creation time.

    A node without a time has the time of its cluster. The prediction of a batch is skipped for one
    of several reasons. The export is incomplete, the order is unknown, VMs of this or an earlier
    cluster were deleted (`removed`), or the free capacity is uncertain.
    """
    timed = _list_vms_in_creation_order(inventory)
    uncertain_from, uncertain_to = _find_uncertain_capacity_period(inventory)
    has_nodes = all(cluster.has_node_list for cluster in inventory.clusters)
    is_complete = has_nodes and inventory.listed_kinds.issuperset(WORKLOAD_KINDS)
    # The creation time of a removed cluster without any VM left is unknown.
    is_after_removal = not set(removed) <= {vm.cluster for _, vm in timed}
    for (time, *_), group in groupby(timed, key=lambda pair: pair[0]):
        vms = tuple(vm for _, vm in group)
        # And so are all later batches.
        is_after_removal |= vms[0].cluster in removed
        if not is_complete:
            reason = NOT_ALL
        elif not time:
            reason = NO_ORDER
        elif is_after_removal:
            reason = DELETED
        else:
            reason = LATER if uncertain_from < time < uncertain_to else ""
        yield VmCreationBatch(vms, reason)


def _skip_uncertain_batch(batch: VmCreationBatch, unread: Sequence[Doubt]) -> VmCreationBatch:
    """Return a batch, with a reason to skip it if an unread fact may change its machines."""
    if not unread or batch.skip_reason:
        return batch
    # All VMs of a batch have the same owners.
    vm = batch.vms[0]
    owners = {"VM": vm.name, "cluster": vm.cluster, "agent pool": vm.pool}
    return replace(batch, skip_reason=explain_uncertain_vm(unread, "", owners, is_placed=True))


def _find_uncertain_capacity_period(inventory: AzInventory) -> tuple[str, str]:
    """Find start and end of the period with unknown free capacity; ("", "") if there is none.

    A node created on a later day than its pool may replace one on another machine. The period is
    from the creation of the first such pool to that of the last such node.
    """
    # Times of creation of pool and node.
    spans = []
    for cluster in inventory.clusters:
        # "" if unknown.
        pool_times = {pool.name: pool.created_at for pool in cluster.pools}
        for node in cluster.nodes:
            pool_time = pool_times.get(node.pool) or cluster.created_at
            is_on_later_day = node.created_at[:_DATE_LENGTH] > pool_time[:_DATE_LENGTH]
            if pool_time and is_on_later_day:
                spans.append((pool_time, node.created_at))
    if not spans:
        return "", ""
    starts, ends = zip(*spans, strict=True)
    return min(starts), max(ends)


def _list_nodes_with_creation_sort_key(
    cluster: AzCluster, skus: Mapping[str, VmSku]
) -> Iterator[_TimedVm]:
    """Yield each node on a machine, if its SKU is known, with a key to sort by time of creation.

    A node without a time has the time of its cluster. At equal times, the order is by cluster, pool
    (control plane first), and own time.
    """
    order = {
        CONTROL_PLANE: 0,
        **{pool.name: number for number, pool in enumerate(cluster.pools, 1)},
    }
    zones = {pool.name: pool.availability_zones for pool in cluster.pools}
    zones[CONTROL_PLANE] = cluster.control_plane_zones
    for node in cluster.nodes:
        sku = skus.get(node.vm_sku_name)
        if node.placement is None or sku is None:
            # Not on a machine, or of unknown size.
            continue
        constraints = PlacementConstraints(frozenset(zones.get(node.pool, ())) or None)
        vm = ObservedVm(
            node.name, cluster.name, node.pool, sku, constraints, _build_placement(node.placement)
        )
        pool_index = order.get(node.pool, len(order))
        yield (node.created_at or cluster.created_at, cluster.name, pool_index, node.created_at), vm


def _build_placement(location: AzVmLocation) -> Placement:
    """Build the placement of a VM in unknown cells.

    A rack without a zone counts as a zone of its own.
    """
    return Placement(
        location.machine, location.rack, location.availability_zone or location.rack, cells=()
    )


class CapturedSite(Struct, frozen=True):
    """Contents of one site in an export.

    `closed` are unschedulable compute machines with the reason. `skus` are machine SKU ids with
    their catalogue hardware (None: own size, or unknown) and number of machines. `unplaced` are the
    names of VMs and nodes without a machine.
    """

    name: str
    racks: int
    machines: int
    compute: int
    clusters: int
    vms: int
    closed: tuple[tuple[str, str], ...]
    skus: tuple[tuple[str | None, str | None, int], ...]
    unplaced: tuple[str, ...]
    exported_at: str | None
    is_age_certain: bool


def summarize_site(site: AzSite) -> CapturedSite:
    """Count the contents of a site.

    List machines closed to new VMs with the reason, and VMs without machine.
    """
    inventory = site.inventory
    compute = [machine for machine in inventory.machines if COMPUTE in machine.facts["roles"]]
    rejections = [
        (machine.name, describe_unschedulable_reasons(machine.facts)) for machine in compute
    ]
    # Number of machines by SKU id and catalogue hardware; "" for a machine without either.
    skus = Counter((m.machine_sku_id or "", m.machine_sku or "") for m in inventory.machines)
    node_count = sum(len(cluster.nodes) for cluster in inventory.clusters)
    return CapturedSite(
        name=site.name,
        racks=len(inventory.racks),
        machines=len(inventory.machines),
        compute=len(compute),
        clusters=len(inventory.clusters),
        vms=node_count + len(inventory.virtual_machines),
        closed=tuple((name, reason) for name, reason in rejections if reason),
        skus=tuple(
            (sku_id or None, sku or None, count) for (sku_id, sku), count in sorted(skus.items())
        ),
        unplaced=tuple(vm.name for vm in _list_vms(inventory) if vm.placement is None),
        exported_at=inventory.exported_at,
        is_age_certain=inventory.is_age_certain,
    )
