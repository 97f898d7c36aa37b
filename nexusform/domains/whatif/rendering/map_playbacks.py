"""Steps of upgrades and failures on the map of a page."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, TypeAlias

from nexusform.diagnostics.phrases import enclose, format_count, format_first_items
from nexusform.domains.whatif.questions.failure_simulation import Failure
from nexusform.domains.whatif.questions.kubernetes_upgrade import KubernetesUpgrade
from nexusform.domains.whatif.questions.repack_planning import RepackResult
from nexusform.domains.whatif.questions.runtime_upgrade import RuntimeUpgrade
from nexusform.plans.site_capacity.occupancy import PoolAvailability, SiteMachine, SiteRack
from nexusform.rendering.report.playback import Playback, PlaybackStep, PoolEffect
from nexusform.rendering.report.rack_map import OUTSIDE, ChangeMark, MapVm, SiteMap, build_site_map
from nexusform.scheduling.racks.vms import Placement
from nexusform.snapshots.snapshot import SiteSnapshot

# Cluster id, name.
_VmKey: TypeAlias = tuple[str, str]
_NO_CHANGES: Final[Mapping[_VmKey, Placement | None]] = {}


def build_current_playback(site: SiteSnapshot) -> Playback:
    """Build the current state of a site without steps."""
    return Playback(_build_site_map(site, _NO_CHANGES), steps=())


def build_runtime_upgrade_playback(site: SiteSnapshot, upgrade: RuntimeUpgrade) -> Playback:
    """Build the steps of a runtime upgrade, wave by wave."""
    steps = [PlaybackStep("Before the upgrade")]
    for wave in upgrade.waves:
        # Format the title, as `Wave 3 of 8: rack3, 26 VMs down; lost meanwhile:
        # cluster-d / control-plane`.
        outage = wave.outage
        lost_pools = [f"{pool.cluster} / {pool.pool}" for pool in outage.pools if pool.is_lost]
        loss = enclose("; lost meanwhile: ", ", ".join(lost_pools))
        prefix = f"Wave {outage.number} of {len(upgrade.waves)}: {outage.name}"
        title = f"{prefix}, {format_count(wave.vm_count, 'VM')} down{loss}"
        steps.append(
            PlaybackStep(
                title, failed_machines=outage.machines, figures=_build_pool_effects(outage.pools)
            )
        )
    return Playback(_build_site_map(site, _NO_CHANGES), (*steps, PlaybackStep("After the upgrade")))


def _build_pool_effects(pools: Iterable[PoolAvailability]) -> tuple[PoolEffect, ...]:
    """Build the figures of VMs up by pool."""
    return tuple(
        PoolEffect(
            f"{pool.cluster} / {pool.pool}",
            f"{pool.remaining_count:,} of {pool.total:,} up",
            pool.is_lost,
        )
        for pool in pools
    )


def build_failure_playback(site: SiteSnapshot, failure: Failure) -> Playback:
    """Build the three steps of a failure.

    They are before it, with VMs down, and with VMs re-created elsewhere.
    """
    placements_after: dict[_VmKey, Placement | None] = {}
    for pool in failure.pools:
        placements_after.update({(pool.cluster_id, vm.name): None for vm in pool.down_vms})
    down_count = len(placements_after) + len(failure.unmanaged_vms)
    for recreation in failure.recreations:
        placements_after.update(
            {
                (recreation.cluster_id, replacement.vm.name): replacement.placement
                for replacement in recreation.vms
            }
        )
    recreated_count = sum(placement is not None for placement in placements_after.values())
    site_map = _build_site_map(site, placements_after, frozenset(failure.machines))
    affected = tuple(
        number for number, vm in enumerate(site_map.vms) if vm.mark is not ChangeMark.KEPT
    )
    steps = (
        PlaybackStep("Before the failure"),
        PlaybackStep(
            f"{failure.lost} is lost: {format_count(down_count, 'VM')} down",
            failed_machines=failure.machines,
            figures=_build_pool_effects(failure.pools),
        ),
        PlaybackStep(
            f"{format_count(recreated_count, 'VM')} of {down_count} re-created elsewhere",
            failure.machines,
            affected,
        ),
    )
    return Playback(
        site_map, steps, moved_label="is re-created elsewhere", removed_label="stays down"
    )


def build_kubernetes_upgrade_playback(site: SiteSnapshot, upgrade: KubernetesUpgrade) -> Playback:
    """Build the steps of a Kubernetes upgrade on the site map.

    There is a step for each batch of nodes, with its VMs replaced. A batch without capacity changes
    nothing; the title of its step has a remark.
    """
    batches = [(pool, batch) for pool in upgrade.pools for batch in pool.batches]
    moves = chain.from_iterable(batch.moves for _, batch in batches if batch.fits)
    site_map = _build_site_map(
        site, {(upgrade.cluster_id, move.vm.name): move.placement for move in moves}
    )
    cluster = upgrade.course.cluster
    # Numbers in the map.
    numbers = {vm.name: number for number, vm in enumerate(site_map.vms) if vm.cluster == cluster}
    steps = [PlaybackStep("Before the upgrade")]
    for pool, batch in batches:
        # Format the title: `pool1, batch 3 of 24: cluster-d-pool1-2, 23 of 24 nodes up`.
        names = [move.vm.name for move in batch.moves]
        course = pool.course
        prefix = f"{course.pool}, batch {batch.number} of {course.batches}"
        if batch.fits:
            nodes = format_first_items(names, 3)
            title = f"{prefix}: {nodes}, {batch.up:,} of {course.count:,} nodes up"
            steps.append(PlaybackStep(title, affected_vms=tuple(numbers[name] for name in names)))
        else:
            missing = format_first_items(batch.missing_names, 3)
            steps.append(PlaybackStep(f"{prefix}: no capacity for the new {missing}"))
    last_title = "Where the upgrade stops" if upgrade.blocked_pools else "After the upgrade"
    return Playback(
        site_map,
        (*steps, PlaybackStep(last_title)),
        moved_label="is replaced by a new VM elsewhere",
    )


def build_repack_playback(site: SiteSnapshot, repack: RepackResult) -> Playback:
    """Build the steps of a repacking, one per window.

    The map has every VM at its first and its final location.
    """
    placements_after: dict[_VmKey, Placement | None] = {}
    # By number of the pool.
    clusters = [cluster for cluster in site.clusters for _ in cluster.pools]
    for window in repack.windows:
        for step in window.steps:
            placements_after[clusters[step.source.pool].id, step.source.vm.name] = step.target
    site_map = _build_site_map(site, placements_after)
    # Numbers of VMs in the map.
    numbers = {(vm.address, vm.name): number for number, vm in enumerate(site_map.vms)}
    steps = [PlaybackStep("Before the repacking")]
    for window_number, window in enumerate(repack.windows, 1):
        vms = tuple(
            numbers[str(site.pools[step.source.pool].address), step.source.vm.name]
            for step in window.steps
        )
        title = (
            f"Window {window_number} of {len(repack.windows)}: {format_count(len(vms), 'VM')} "
            "re-created"
        )
        steps.append(PlaybackStep(title, affected_vms=vms))
    last_step = (
        PlaybackStep("After the repacking")
        if repack.windows
        else PlaybackStep("Nothing is re-created")
    )
    return Playback(site_map, (*steps, last_step), moved_label="is re-created elsewhere")


def _build_site_map(
    site: SiteSnapshot,
    placements_after: Mapping[_VmKey, Placement | None],
    lost: frozenset[str] = frozenset(),
) -> SiteMap:
    """Build the map of a site before and after.

    `placements_after` has the new locations of VMs of pools that move, None if they are down. VMs
    without a pool on `lost` machines are down, too. Other VMs stay.
    """
    racks = [SiteRack(rack.name, rack.availability_zone, rack.is_planned) for rack in site.racks]
    machines = [
        SiteMachine(facts)
        for rack in site.racks
        for facts in site.machines_by_rack.get(rack.name, ())
    ]
    return build_site_map(
        site.id, site.name, racks, machines, list(_build_map_vms(site, placements_after, lost))
    )


def _build_map_vms(
    site: SiteSnapshot, placements_after: Mapping[_VmKey, Placement | None], lost: frozenset[str]
) -> Iterator[MapVm]:
    """Build the VMs of pools, then those without a pool, with locations before and after.

    A location of None means that the VM is not placed or lost.
    """
    pool_handles: set[int] = set()
    for cluster in site.clusters:
        for pool in cluster.pools:
            pool_handles.update(pool.handles.values())
            for vm in pool.vms:
                placement_after = placements_after.get((cluster.id, vm.name), vm.placement)
                yield MapVm(
                    name=vm.name,
                    address=str(pool.address),
                    cluster=cluster.name,
                    pool=pool.name,
                    sku=pool.sku,
                    mark=_get_vm_mark(vm.placement, placement_after),
                    before=vm.placement,
                    after=placement_after,
                )
    for existing in site.scheduler.list_vms():
        if existing.handle in pool_handles:
            continue  # yielded above
        location = existing.placement
        # The VM is not re-created elsewhere.
        placement_after = None if location.machine in lost else location
        yield MapVm(
            name=existing.vm.cluster,
            address="",
            cluster=OUTSIDE,
            pool="",
            sku=existing.sku,
            mark=_get_vm_mark(location, placement_after),
            before=location,
            after=placement_after,
        )


def _get_vm_mark(before: Placement, after: Placement | None) -> ChangeMark:
    """Return the mark of a VM by its locations."""
    if after is None:
        return ChangeMark.REMOVED
    return ChangeMark.KEPT if before == after else ChangeMark.MOVED
