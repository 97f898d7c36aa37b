"""What an export shows of a site: counted, and against what state has of it, as hits and misses by cluster
with the causes that show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

from msgspec import Struct, field

from nexusform.demands import PlacedVm
from nexusform.domains.azure.importers.az_capture import TENANTS
from nexusform.domains.azure.importers.az_machines import COMPUTE
from nexusform.domains.azure.importers.az_model import (
    AzCluster,
    AzInventory,
    AzMachine,
    AzNode,
    AzPlacement,
    AzSite,
    AzVirtualMachine,
)
from nexusform.domains.azure.questions.replay import (
    DELETED,
    LATER,
    NO_ORDER,
    NOT_ALL,
    Batch,
    RealVm,
    Replay,
    replay,
)
from nexusform.forecasts import Record
from nexusform.resource_types.hardware import hardware_of_sku, machine_with
from nexusform.resource_types.machine_facts import default_facts, refusal_of
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST
from nexusform.scheduling.racks.vms import CONTROL_PLANE, Machine, Placement, RackSpread, Terms, VmSku

_DAY = "2024-01-09"
GONE = "the export does not show it"
HOMELESS = "it has no machine"


class VmCheck(Struct, frozen=True):
    """One VM: where state has it and where it is (None: nowhere). `cause` is what the export shows of it."""

    name: str
    recorded: Placement
    observed: Placement | None
    cause: str = ""

    @property
    def on_rack(self) -> bool:
        """Whether it is in the rack where state has it."""
        return self.observed is not None and self.observed.rack == self.recorded.rack

    @property
    def on_machine(self) -> bool:
        """Whether it is on the machine where state has it."""
        return self.observed is not None and self.observed.machine == self.recorded.machine


class ClusterCheck(Struct, frozen=True):
    """The VMs of one object. `address` is its address, `name` what it is called on the site."""

    address: str
    name: str
    vms: tuple[VmCheck, ...]

    @property
    def rack_hits(self) -> int:
        """How many are in the rack where state has them."""
        return sum(vm.on_rack for vm in self.vms)

    @property
    def misses(self) -> tuple[VmCheck, ...]:
        """Those on another machine, or nowhere."""
        return tuple(vm for vm in self.vms if not vm.on_machine)


class SettledClaims(Struct, frozen=True):
    """What became of claims of applied plans: `records` by site, `now` how many were settled just now, and
    `alarms`, what of these was told as certain and is not so.
    """

    records: Mapping[str, Record] = field(default_factory=dict)
    now: int = 0
    alarms: tuple[str, ...] = ()


class RealMachines(Struct, frozen=True):
    """The machines of an export by site and name."""

    machines: Mapping[tuple[str, str], AzMachine]

    @classmethod
    def of(cls, sites: Iterable[AzSite]) -> RealMachines:
        """The machines of all sites of an export."""
        machines: dict[tuple[str, str], AzMachine] = {}
        for site in sites:
            machines |= {(site.name, machine.name): machine for machine in site.inventory.machines}
        return cls(machines)


def check_cluster(
    address: str,
    name: str,
    recorded: Sequence[PlacedVm],
    observed: Sequence[PlacedVm] | None,
    unplaced: Iterable[tuple[str, int | str]],
    reality: RealMachines,
) -> ClusterCheck:
    """Compare the VMs of an object; `observed` None: the export does not show the object. `unplaced` are the
    (pool, number) of VMs that it shows without a machine.
    """
    observed_by_key = {(vm.pool, vm.number): vm for vm in observed or ()}
    homeless = set(unplaced)
    site = name.partition("/")[0]
    checks = []
    for vm in recorded:
        key = (vm.pool, vm.number)
        observed_vm = observed_by_key.get(key)
        if observed_vm is None:
            cause = HOMELESS if key in homeless and observed is not None else GONE
            checks.append(VmCheck(vm.called, vm.placement, None, cause))
            continue
        stays = observed_vm.placement.machine == vm.placement.machine
        cause = "" if stays else _cause(site, vm.placement.machine, reality)
        checks.append(VmCheck(observed_vm.called, vm.placement, observed_vm.placement, cause))
    return ClusterCheck(address, name, tuple(checks))


def _cause(site: str, machine: str, reality: RealMachines) -> str:
    """Why a VM cannot be on the machine where state has it, as far as the export shows it."""
    real = reality.machines.get((site, machine))
    if real is None:
        return f"{machine} is not in the export"
    refusal = refusal_of(real.facts)
    return f"{machine}: {refusal}" if refusal else ""


# --- the replay of a site ----------------------------------------------------------------------


def replay_site(site: AzSite, gone: Mapping[str, int], spreads: Iterable[RackSpread]) -> list[Replay]:
    """What the rule explains of a site under each `rack_spread`.

    `gone` counts by cluster the VMs that state knew and that are not there any more: of what came after such
    a cluster nobody knows what was free.
    """
    inventory = site.inventory
    machines = list(_machines(inventory))
    batches = list(_batches(inventory, gone))
    return [replay(site.name, machines, batches, spread) for spread in spreads]


def _machines(inventory: AzInventory) -> Iterator[Machine]:
    """The compute machines. One that houses VMs was open when they came, whatever it is now."""
    zones = {rack.name: rack.availability_zone or rack.name for rack in inventory.racks}
    housing = {vm.placement.machine for vm in _all_vms(inventory) if vm.placement is not None}
    catalogue = CATALOGUES[NEWEST].machine_skus
    for machine in inventory.machines:
        hardware = catalogue.get(machine.machine_sku or "", machine.hardware)
        if hardware is None:
            continue
        yield machine_with(
            hardware_of_sku(hardware, machine.machine_sku),
            default_facts() if machine.name in housing else machine.facts,
            name=machine.name,
            rack=machine.rack,
            availability_zone=zones.get(machine.rack, machine.rack),
            slot=machine.slot,
        )


def _all_vms(inventory: AzInventory) -> Iterator[AzNode | AzVirtualMachine]:
    for cluster in inventory.clusters:
        yield from cluster.nodes
    yield from inventory.virtual_machines


# A VM after what orders it: time, cluster, place of its pool, and a node's own time.
_TimedVm: TypeAlias = tuple[tuple[str, str, int, str], RealVm]


def _batches(inventory: AzInventory, gone: Mapping[str, int]) -> Iterator[Batch]:
    """The VMs in the order of their creation, as far as it is known. Plain VMs come with their time, nodes
    with their own where it is known, else with their cluster's.
    """
    skus = {**CATALOGUES[NEWEST].vm_skus, **{sku.name: sku for sku in inventory.vm_skus}}
    timed: list[_TimedVm] = []
    for cluster in inventory.clusters:
        timed += _nodes_in_time(cluster, skus)
    timed += _plain_vms_in_time(inventory)
    timed.sort(key=lambda pair: pair[0])
    doubtful = _doubtful(inventory)
    shows_nodes = all(cluster.nodes_listed for cluster in inventory.clusters)
    shows_all = shows_nodes and inventory.listed.issuperset(TENANTS)
    since_gone = False
    for (time, *_), group in groupby(timed, key=lambda pair: pair[0]):
        vms = tuple(vm for _, vm in group)
        since_gone |= vms[0].cluster in gone
        unjudged = _why_unjudged(time, doubtful, since_gone=since_gone) if shows_all else NOT_ALL
        yield Batch(vms, unjudged)


def _why_unjudged(time: str, doubtful: tuple[str, str] | None, *, since_gone: bool) -> str:
    """Why nobody can say what was free at a time, "" where it is known."""
    if not time:
        return NO_ORDER
    if since_gone:
        return DELETED
    return LATER if doubtful is not None and doubtful[0] < time < doubtful[1] else ""


def _doubtful(inventory: AzInventory) -> tuple[str, str] | None:
    """The time in which it is not known what was free: from the first pool that has a node made on a later
    day than the pool (another one may have stood before it) to the last such node.
    """
    spans = []
    for cluster in inventory.clusters:
        pools_made = {pool.name: pool.created_at for pool in cluster.pools}
        for node in cluster.nodes:
            pool_made = pools_made.get(node.pool) or cluster.created_at or ""
            node_made = node.created_at or ""
            is_later_day = node_made[: len(_DAY)] > pool_made[: len(_DAY)]
            if pool_made and is_later_day:
                spans.append((pool_made, node_made))
    if not spans:
        return None
    return min(start for start, _ in spans), max(end for _, end in spans)


def _plain_vms_in_time(inventory: AzInventory) -> Iterator[_TimedVm]:
    """The plain VMs that have a machine, each with what orders it."""
    for vm in inventory.virtual_machines:
        if vm.placement is not None:
            size = f"{vm.shape.cpu_cores} vCPU"
            sku = VmSku(size, vm.shape.cpu_cores, 0, vm.shape.memory_gib, vm.shape.disk_gib)
            real = RealVm(vm.name, vm.name, "vm", sku, Terms(), _placement(vm.placement))
            yield (vm.created_at or "", vm.name, 0, ""), real


def _nodes_in_time(cluster: AzCluster, skus: Mapping[str, VmSku]) -> Iterator[_TimedVm]:
    """The nodes of a cluster that have a machine and a known SKU, each with what orders it."""
    order = {CONTROL_PLANE: 0, **{pool.name: number for number, pool in enumerate(cluster.pools, 1)}}
    zones = {pool.name: pool.availability_zones for pool in cluster.pools}
    zones[CONTROL_PLANE] = cluster.control_plane_zones
    cluster_made = cluster.created_at or ""
    for node in cluster.nodes:
        sku = skus.get(node.vm_sku_name or "")
        if node.placement is None or sku is None:
            continue
        node_made = node.created_at or ""
        pool_zones = zones.get(node.pool) or ()
        terms = Terms(frozenset(pool_zones) if pool_zones else None)
        vm = RealVm(node.name, cluster.name, node.pool, sku, terms, _placement(node.placement))
        place_of_pool = order.get(node.pool, len(order))
        yield (node_made or cluster_made, cluster.name, place_of_pool, node_made), vm


def _placement(place: AzPlacement) -> Placement:
    return Placement(place.machine, place.rack, place.availability_zone or place.rack, ())


class SiteCapture(Struct, frozen=True):
    """What an export holds of one site.

    `closed` are compute machines that take no new VM, with the reason; `skus` the machine SKU ids with what
    they stand for in the catalogue ("" = figures of their own, or unknown) and how many machines have them;
    `homeless` the VMs and nodes without a machine, by name.
    """

    name: str
    racks: int
    machines: int
    compute: int
    clusters: int
    vms: int
    closed: tuple[tuple[str, str], ...]
    skus: tuple[tuple[str, str, int], ...]
    homeless: tuple[str, ...]
    exported_at: str | None
    age_certain: bool


def capture(site: AzSite) -> SiteCapture:
    """Count a site."""
    inventory = site.inventory
    compute = [machine for machine in inventory.machines if COMPUTE in machine.roles]
    refusals = [(machine.name, refusal_of(machine.facts)) for machine in compute]
    skus = Counter((m.machine_sku_id or "", m.machine_sku or "") for m in inventory.machines)
    return SiteCapture(
        name=site.name,
        racks=len(inventory.racks),
        machines=len(inventory.machines),
        compute=len(compute),
        clusters=len(inventory.clusters),
        vms=sum(len(cluster.nodes) for cluster in inventory.clusters) + len(inventory.virtual_machines),
        closed=tuple((name, why) for name, why in refusals if why),
        skus=tuple((sku_id, sku, count) for (sku_id, sku), count in sorted(skus.items())),
        homeless=tuple(_homeless(inventory)),
        exported_at=inventory.exported_at,
        age_certain=inventory.age_certain,
    )


def _homeless(inventory: AzInventory) -> Iterator[str]:
    """The names of nodes and VMs without a machine."""
    for cluster in inventory.clusters:
        yield from (node.name for node in cluster.nodes if node.placement is None)
    yield from (vm.name for vm in inventory.virtual_machines if vm.placement is None)
