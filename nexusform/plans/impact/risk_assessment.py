"""Consequences of a plan: for its objects, then for quorums, racks, workloads and capacity.

`compute_consequences` assesses every plan, hypothetical ones too. Every report, colour and guard
rail is a view of its records.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.phrases import (
    enclose,
    format_count,
    format_list,
    group_by,
    select_word_form,
)
from nexusform.placement_kinds.placement_kind import VM
from nexusform.placement_kinds.registry import KINDS
from nexusform.placements.consequence_record import (
    ALL_ON_ONE_RACK,
    QUORUM_ON_ONE_RACK,
    Consequence,
    ConsequenceCause,
    ConsequenceKind,
)
from nexusform.placements.consequences import ConsequenceSeverity, DataFate
from nexusform.placements.vm_demands import MACHINE_LOST, PlacedVm, compute_number_sort_key
from nexusform.plans.impact.object_consequences import Types, find_object_consequences
from nexusform.plans.impact.object_effects import (
    DISRUPTIVE_EFFECTS,
    Effect,
    Node,
    build_cluster_formatter,
    collect_upgrade_nodes,
    compute_effect,
    describe_lost_vms,
    get_source_node,
)
from nexusform.plans.maintenance import PlannedMachineAction, compute_quorum
from nexusform.plans.plan import Action, PlacementChange, Plan
from nexusform.plans.site_capacity.occupancy import (
    PoolVms,
    SiteVms,
    VmOwnerKind,
    get_owner_kind,
    group_outages_by_pool,
    select_largest_sku_rows,
)
from nexusform.resources.address import Address
from nexusform.scheduling.machine_actions import MACHINE_ACTION_TYPE

_CONTROL_PLANE: Final = "control-plane"
# Changes in batches: most objects are up at any time.
_ROLLING_TRIGGERS: Final = ("kubernetes_version_changed", "template_changed", "override_changed")
# A VM that loses its machine has a consequence of its own.
_RECREATIONS: Final = (Effect.MOVED, Effect.RECREATED, Effect.UNPLACED)
_REPLACEMENTS: Final = (Action.REPLACE, Action.REPLACE_CREATE_FIRST)
# Control-plane VMs without redundancy.
_MAX_FRAGILE: Final = 2
# Names of outages in a text.
_MAX_OUTAGES: Final = 4
# Jobs run to completion, so they are never up or down.
_JOB: Final = "/Job/"


def compute_consequences(
    plan: Plan, types: Types, *, includes_failed: bool = False
) -> tuple[Consequence, ...]:
    """Return the consequences of a plan, those that the state had before it last.

    A plan has both sides: the sites before and after it, and its changes. `types` are the resource
    types by name. A failed plan has only its outages, which do not depend on its placements; with
    `includes_failed`, the consequences of what it could plan.
    """
    if plan.errored and not includes_failed:
        return tuple(_find_outage_losses(plan))
    consequences = list(find_object_consequences(plan, types))
    # By risk and subject: an outage of lost machines repeats no other risk.
    risks: dict[tuple[str, str], Consequence] = {}
    for find_risks in RISK_FINDERS.values():
        for risk in find_risks(plan):
            risks.setdefault((risk.risk, risk.subject), risk)
    consequences += risks.values()
    return tuple(
        sorted(consequences, key=lambda consequence: consequence.since is ConsequenceCause.STATE)
    )


def _find_lost_unmanaged_vms(plan: Plan) -> Iterator[Consequence]:
    """Yield the risk of unmanaged VMs that lose their machine."""
    for text in describe_lost_vms(plan):
        yield Consequence(
            kind=ConsequenceKind.DOWN,
            risk="unmanaged-vms-lost",
            severity=ConsequenceSeverity.LASTING,
            subject="unmanaged VMs",
            before=plan.lost_unmanaged_count,
            text=text,
        )


def _find_lost_capacity(plan: Plan) -> Iterator[Consequence]:
    """Yield the risk of each site without spare capacity, and cluster without surge capacity.

    Only if the plan causes it. A new cluster without surge capacity had none before.
    """
    for row, after in select_largest_sku_rows(plan.site_records.capacity):
        before = row.before.free if row.before is not None else 0
        if before and not after.free_interval.maximum:
            yield Consequence(
                kind=ConsequenceKind.LOSES_CAPACITY,
                risk="spare-capacity-lost",
                severity=ConsequenceSeverity.LASTING,
                subject=row.site,
                text=f"{row.site} has no spare capacity left for {row.sku} (now {before:,})",
                before=before,
            )
        meanwhile = after.free - row.missing_meanwhile
        if row.missing_meanwhile and meanwhile < before:
            yield Consequence(
                kind=ConsequenceKind.LOSES_CAPACITY,
                risk="capacity-missing-meanwhile",
                severity=ConsequenceSeverity.TEMPORARY,
                subject=row.site,
                text=(
                    f"{row.site} has capacity for {meanwhile:,} x {row.sku} during machine "
                    f"actions ({after.free:,} after them)"
                ),
                before=before,
                after=meanwhile,
            )
    has_several_sites = len({row.site_id for row in plan.site_records.capacity}) > 1
    surge_before: set[tuple[str, str]] = set()
    surge_lost: dict[tuple[str, str], str] = {}
    for row in plan.site_records.capacity:
        if row.before is not None:
            surge_before |= {(row.site, cluster) for cluster in row.before.clusters}
        for cluster in sorted(row.new_no_surge_clusters):
            surge_lost.setdefault((row.site, cluster), row.sku)
    for (site, cluster), sku in surge_lost.items():
        name = f"{site}/{cluster}" if has_several_sites else cluster
        is_existing = (site, cluster) in surge_before
        verb = "loses its surge capacity" if is_existing else "has no surge capacity"
        yield Consequence(
            kind=ConsequenceKind.LOSES_CAPACITY,
            risk="surge-capacity-lost",
            severity=ConsequenceSeverity.LASTING if is_existing else ConsequenceSeverity.TEMPORARY,
            subject=name,
            text=f"{name} {verb}: no further {sku} fits for an upgrade",
        )


def _find_rack_dependencies(plan: Plan) -> Iterator[Consequence]:
    """Yield the risk of each control plane that loses its quorum with one rack.

    A site of one rack has no such risk: without that rack, it has no machine at all.
    """
    has_several_sites = len(plan.site_records.sites) > 1
    for site in plan.site_records.sites:
        machines = [machine for machine in site.machines if machine.exists_after]
        if len({machine.facts.rack for machine in machines}) == 1:
            continue
        open_racks = {
            machine.facts.rack for machine in machines if not machine.facts.unschedulable_reasons
        }
        planes = [pool for pool in site.pools if pool.pool == _CONTROL_PLANE]
        for (address, cluster), rows in group_by(
            planes, lambda pool: (pool.address, pool.cluster)
        ).items():
            _, on_rack_before, total_before = _find_fullest_rack(
                vm for row in rows for vm in row.before
            )
            rack, on_rack, total = _find_fullest_rack(vm for row in rows for vm in row.after)
            if not _depends_on_rack(on_rack, total):
                continue
            was_dependent = _depends_on_rack(on_rack_before, total_before)
            is_worse = on_rack * total_before > on_rack_before * total
            was_redundant = total_before > _MAX_FRAGILE and not was_dependent
            # The fullest rack of an even spread.
            best = -(-total // len(open_racks)) if open_racks else total
            is_avoidable = best < on_rack or was_redundant
            name = f"{site.id}/{cluster}" if has_several_sites else cluster
            severity = ConsequenceSeverity.LASTING if is_avoidable else ConsequenceSeverity.NONE
            since = ConsequenceCause.PLAN
            if was_dependent and not is_worse:
                since = ConsequenceCause.STATE
            share = f"all {total}" if on_rack == total else f"{on_rack} of {total}"
            yield Consequence(
                kind=ConsequenceKind.LOSES_REDUNDANCY,
                risk=QUORUM_ON_ONE_RACK if is_avoidable else "too-few-racks-for-quorum",
                severity=severity,
                subject=name,
                address=str(address),
                before=total_before,
                after=total - on_rack,
                text=(
                    f"{name} has {share} control-plane VMs on {rack}; losing that rack breaks etcd "
                    "quorum"
                ),
                since=since,
                is_avoidable=is_avoidable,
            )


def _find_fullest_rack(vms: Iterable[PlacedVm]) -> tuple[str, int, int]:
    """Return the rack with the most VMs, their number, and the number of all VMs."""
    counts = Counter(vm.placement.rack for vm in vms)
    if not counts:
        return "", 0, 0
    # The first by name of several.
    rack = min(counts, key=lambda name: (-counts[name], name))
    return rack, counts[rack], counts.total()


def _depends_on_rack(on_rack: int, total: int) -> bool:
    """Return whether a control plane loses its quorum with a rack.

    One or two VMs lose it with any of them.
    """
    return total > _MAX_FRAGILE and total - on_rack < compute_quorum(total)


def _find_single_racks(plan: Plan) -> Iterator[Consequence]:
    """Yield the risk of each pool, or whole cluster or VNF, whose VMs all end on one rack.

    It has several VMs, which run on several racks before the plan. Where Azure chooses the removed
    VMs, the racks of the others are not known. Control planes have risks of their own.
    """
    chosen = {(row.site_id, row.cluster, row.pool) for row in plan.placements if row.chosen_by}
    titles = _count_sites_by_cluster(plan)
    for site in plan.site_records.sites:
        for cluster, rows in group_by(site.pools, lambda pool: pool.cluster).items():
            name = f"{site.id}/{cluster}" if titles[cluster] > 1 else cluster
            known = [row for row in rows if (site.id, cluster, row.pool) not in chosen]
            rack = _find_new_single_rack(rows) if len(known) == len(rows) else ""
            if rack:
                yield _build_single_rack_risk(name, rows, rack)
                continue
            for pool, pool_rows in group_by(known, lambda row: row.pool).items():
                rack = _find_new_single_rack(pool_rows)
                if rack and pool != _CONTROL_PLANE:
                    yield _build_single_rack_risk(f"{name}/{pool}", pool_rows, rack)


def _find_new_single_rack(rows: Sequence[PoolVms]) -> str:
    """Return the rack that has all of several VMs after the plan, and not before; or ""."""
    before = {vm.placement.rack for row in rows for vm in row.before}
    after = [vm.placement.rack for row in rows for vm in row.after]
    return after[0] if len(after) > 1 and len(set(after)) == 1 < len(before) else ""


def _build_single_rack_risk(name: str, rows: Sequence[PoolVms], rack: str) -> Consequence:
    after = sum(1 for row in rows for _ in row.after)
    return Consequence(
        kind=ConsequenceKind.LOSES_REDUNDANCY,
        risk=ALL_ON_ONE_RACK,
        severity=ConsequenceSeverity.LASTING,
        subject=name,
        address=str(rows[0].address),
        where=(rack,),
        before=sum(1 for row in rows for _ in row.before),
        after=after,
        text=f"{name} has all of its {after:,} VMs on {rack}; losing that rack leaves none",
    )


def _find_upgrade_losses(plan: Plan) -> Iterator[Consequence]:
    """Yield the risk of each pool without a node during its upgrade."""
    format_cluster = build_cluster_formatter(plan.figures.placement_tables)
    for upgrade in plan.impact.upgrades:
        # Control planes have risks of their own.
        for pool in upgrade.pools:
            if pool.pool != _CONTROL_PLANE and pool.vms and not pool.minimum_up:
                name = f"{format_cluster(upgrade)}/{pool.pool}"
                outage = _Outage(name, str(upgrade.address), pool.vms, pool.vms)
                yield _build_pool_outage(outage, "re-created at once")


class _Outage(Struct, frozen=True):
    """VMs of a control plane or pool that are down at once: `down` of `total`.

    `duration` is a clause: `until its machines start`.
    """

    name: str
    address: str
    total: int
    down: int
    duration: str = ""
    severity: ConsequenceSeverity = ConsequenceSeverity.TEMPORARY


def _build_pool_outage(outage: _Outage, event: str, noun: str = "node") -> Consequence:
    """Build the risk of a pool without a node; `event` happens to its nodes: `down at once`."""
    total = outage.total
    subject = select_word_form(total, f"its only {noun} is", f"all {total:,} {noun}s are")
    if outage.down < total:
        subject = f"{outage.down:,} of {total:,} {noun}s are"
    duration = outage.duration or "for some time"
    return Consequence(
        kind=ConsequenceKind.DOWN,
        risk="pool-down",
        severity=outage.severity,
        subject=outage.name,
        address=outage.address,
        before=total,
        text=f"{outage.name} has no {noun} {duration}: {subject} {event}",
    )


def _build_quorum_loss(outage: _Outage, event: str) -> Consequence:
    """Build the risk of a control plane without a quorum; `event` happens to its VMs."""
    duration = enclose(" ", outage.duration)
    vms = f"{outage.down} of {outage.total} control-plane VMs"
    return Consequence(
        kind=ConsequenceKind.DOWN,
        risk="control-plane-quorum-lost",
        severity=outage.severity,
        subject=outage.name,
        address=outage.address,
        before=outage.total,
        after=outage.total - outage.down,
        text=f"{outage.name} loses etcd quorum{duration}: {vms} {event}",
    )


class _VmPool(Struct, frozen=True):
    """Pool of a cluster or VNF, or a plain VM, with VMs that run before and after the plan.

    `before` and `after` are the machines of these VMs by name. `added_machines` are those of new
    VMs, which may not exist yet when others go down.
    """

    owner: VmOwnerKind
    site_id: str
    cluster: str
    pool: str
    address: Address
    title: str
    before: Mapping[str, str]
    after: Mapping[str, str]
    added_machines: tuple[str, ...]


def _list_node_pools(site: SiteVms, titles: Counter[str]) -> Iterator[_VmPool]:
    """Yield the pools of clusters on a site; `titles` counts the sites with a cluster's name."""
    return (pool for pool in _list_vm_pools(site, titles) if pool.owner is VmOwnerKind.NKS)


def _list_vm_pools(site: SiteVms, titles: Counter[str]) -> Iterator[_VmPool]:
    """Yield the pools and plain VMs on a site; `titles` counts the sites with a cluster's name."""
    for (address, cluster, pool_name), rows in group_by(
        site.pools, lambda pool: (pool.address, pool.cluster, pool.pool)
    ).items():
        before: dict[str, str] = {}
        after: dict[str, str] = {}
        # A changed SKU makes a row of its own.
        for row in rows:
            before |= row.machines_before
            after |= row.machines_after
        name = f"{site.id}/{cluster}" if titles[cluster] > 1 else cluster
        yield _VmPool(
            owner=get_owner_kind(address.type),
            site_id=site.id,
            cluster=cluster,
            pool=pool_name,
            address=address,
            title=name if pool_name == _CONTROL_PLANE else f"{name}/{pool_name}",
            before={vm: machine for vm, machine in before.items() if vm in after},
            after={vm: machine for vm, machine in after.items() if vm in before},
            added_machines=tuple(machine for vm, machine in after.items() if vm not in before),
        )


def _count_sites_by_cluster(plan: Plan) -> Counter[str]:
    """Return the number of sites with a cluster of each name."""
    names = {(site.id, pool.cluster) for site in plan.site_records.sites for pool in site.pools}
    return Counter(cluster for _, cluster in names)


def _list_down_machines(plan: Plan, site: SiteVms) -> set[str]:
    """Return the machines of a site that are off or not ready when machine actions begin."""
    action_machines = {
        action.machine
        for action in plan.impact.machine_actions
        if action.site_id == site.id and action.address.type == MACHINE_ACTION_TYPE
    }
    return {
        machine.facts.name
        for machine in site.machines
        if machine.exists_after
        and (machine.was_down if machine.facts.name in action_machines else machine.facts.is_down)
    }


def _find_recreation_losses(plan: Plan) -> Iterator[Consequence]:
    """Yield the consequence of each pool with VMs that leave their machines at once.

    It hurts a pool without any other VM meanwhile. Plain VMs, control planes, replaced objects and
    upgraded pools have consequences of their own.
    """
    upgraded = {
        (upgrade.site_id, upgrade.cluster, pool.pool)
        for upgrade in plan.impact.upgrades
        for pool in upgrade.pools
    }
    replaced = {change.address for change in plan.changes if change.action in _REPLACEMENTS}
    # VMs down at once, by (site id, cluster, pool).
    recreated: dict[tuple[str, str, str], set[str]] = {}
    for row in plan.placements:
        pool_key = (row.site_id, row.cluster, row.pool)
        is_at_once = row.kind == VM and row.trigger not in _ROLLING_TRIGGERS
        if is_at_once and pool_key not in upgraded and compute_effect(row) in _RECREATIONS:
            recreated.setdefault(pool_key, set()).add(row.object)
    # Most plans re-create no VM.
    if not recreated:
        return
    titles = _count_sites_by_cluster(plan)
    for site in plan.site_records.sites:
        down_machines = _list_down_machines(plan, site)
        for pool in _list_vm_pools(site, titles):
            names = recreated.get((site.id, pool.cluster, pool.pool), set())
            has_own = pool.owner is VmOwnerKind.VM or pool.pool == _CONTROL_PLANE
            if not names or has_own or pool.address in replaced:
                continue
            up_count = sum(
                name not in names and machine not in down_machines
                for name, machine in pool.after.items()
            )
            # In a failed plan, re-created VMs may have no machine.
            total = len(names.union(pool.after))
            yield _build_recreation_loss(pool, total, len(names), up_count)


def _build_recreation_loss(pool: _VmPool, total: int, count: int, up_count: int) -> Consequence:
    """Build the consequence of a pool: `count` of its VMs are re-created, `up_count` others up."""
    noun = "node" if pool.owner is VmOwnerKind.NKS else "VM"
    if not up_count:
        outage = _Outage(pool.title, str(pool.address), total, count)
        others = ", the others are down" if count < total else ""
        return _build_pool_outage(outage, f"re-created at once{others}", noun)
    verb = select_word_form(count, "is re-created", "are re-created")
    return Consequence(
        kind=ConsequenceKind.RESTARTS,
        risk="vms-recreated",
        severity=ConsequenceSeverity.NONE,
        subject=pool.title,
        address=str(pool.address),
        before=total,
        after=up_count,
        text=f"{pool.title}: {count:,} of {format_count(total, noun)} {verb}",
    )


def _find_machine_action_losses(plan: Plan) -> Iterator[Consequence]:
    """Yield the risk of each control plane or pool that machine actions stop.

    A machine that is switched off stays off, so its VMs stay down.
    """
    titles = _count_sites_by_cluster(plan)
    for site in plan.site_records.sites:
        actions = [
            action
            for action in plan.impact.machine_actions
            if action.site_id == site.id and action.stopped_vms
        ]
        if not actions:
            continue
        has_only_blocks = all(action.address.type == MACHINE_ACTION_TYPE for action in actions)
        for pool in _list_node_pools(site, titles):
            # New nodes count only if the pool has no others.
            machines = tuple(pool.after.values()) or pool.added_machines
            is_control_plane = pool.pool == _CONTROL_PLANE
            # The order of action blocks keeps quorums, or the plan has an error.
            if is_control_plane and has_only_blocks:
                continue
            required = compute_quorum(len(machines)) if is_control_plane else 1
            # The machines that are down when each action runs.
            off = _list_down_machines(plan, site)
            most_down = 0
            for action in actions:
                if action.machine in machines:
                    down_machines = off | {action.machine}
                    most_down = max(most_down, sum(name in down_machines for name in machines))
                if action.leaves_off:
                    off.add(action.machine)
                else:
                    off.discard(action.machine)
            if len(machines) - most_down >= required:
                continue
            all_machines = (*pool.after.values(), *pool.added_machines)
            up_after = sum(name not in off for name in all_machines)
            required_after = compute_quorum(len(all_machines)) if is_control_plane else 1
            outage = _Outage(
                pool.title, str(pool.address), len(machines), most_down, "for some time"
            )
            if up_after < required_after:
                outage = replace(
                    outage,
                    duration="until its machines start",
                    severity=ConsequenceSeverity.LASTING,
                )
            build_loss = _build_quorum_loss if is_control_plane else _build_pool_outage
            yield build_loss(outage, "down at once (machine actions)")


_REPLACE_ACTION: Final = "Replace"
# Of the VMs on a replaced machine, by its storagePolicy. Without one, Azure decides.
_DISK_FATES: Final = {"Preserve": DataFate.KEPT, "DiscardAll": DataFate.LOST}


def _find_disk_fate(action: PlannedMachineAction) -> DataFate | None:
    """Return the fate of the disks of a replaced machine; None for another action."""
    if action.action != _REPLACE_ACTION:
        return None
    return _DISK_FATES.get(action.options.get("storagePolicy", ""), DataFate.UNKNOWN)


def _find_stopped_vms(plan: Plan) -> Iterator[Consequence]:
    """Yield the VMs that each machine action stops, and the fate of the disks of the machine.

    They stay down if it leaves the machine off.
    """
    for action in plan.impact.machine_actions:
        if not action.stopped_vms:
            continue
        count = len(action.stopped_vms)
        verb = select_word_form(count, "stops", "stop")
        end = "until it starts" if action.leaves_off else "for some time"
        data = _find_disk_fate(action)
        severity = ConsequenceSeverity.NONE
        if action.leaves_off:
            severity = ConsequenceSeverity.TEMPORARY
        elif data in (DataFate.LOST, DataFate.UNKNOWN):
            severity = ConsequenceSeverity.LASTING
        owner = select_word_form(count, "its", "their")
        loss = ""
        if data in (DataFate.LOST, DataFate.UNKNOWN):
            loss = f"; {owner} data {'is' if data is DataFate.LOST else 'may be'} lost"
        yield Consequence(
            kind=ConsequenceKind.DOWN,
            risk="vms-stopped",
            severity=severity,
            subject=action.machine,
            address=str(action.address),
            runs={VM: count},
            data=data,
            before=count,
            text=f"{format_count(count, 'VM')} on {action.machine} {verb} {end}{loss}",
        )


def _find_outage_losses(plan: Plan) -> Iterator[Consequence]:
    """Yield the risk of each control plane or pool that is lost while machines are down.

    The VMs return with their machines.
    """
    has_several_sites = len({outage.site_id for outage in plan.outages}) > 1
    for pool_outages in group_outages_by_pool(plan.outages):
        losses = pool_outages.losses
        if not losses:
            continue
        pool = pool_outages.worst
        name = f"{losses[0].site_id}/{pool.cluster}" if has_several_sites else pool.cluster
        event = f"down at once ({format_list((outage.name for outage in losses), _MAX_OUTAGES)})"
        if pool.is_control_plane:
            loss = _Outage(name, str(pool.address), pool.total, pool.down_count)
            yield _build_quorum_loss(loss, event)
        else:
            loss = _Outage(f"{name}/{pool.pool}", str(pool.address), pool.total, pool.total)
            yield _build_pool_outage(loss, event)


def _find_control_plane_losses(plan: Plan) -> Iterator[Consequence]:
    """Yield the risk of each control plane that loses its quorum, or shrinks to one or two VMs.

    With one or two, the loss of a single VM breaks the quorum, because a majority of the VMs must
    be up. VMs of a scale-out are no members yet when others go down. Members on machines that are
    off or not ready count as down.
    """
    # Control-plane VMs down at once, by (site id, cluster).
    down: dict[tuple[str, str], set[str]] = {}
    # Clusters with fewer or re-created members.
    changed: set[tuple[str, str]] = set()
    # VMs that do not run before the plan, by cluster.
    placed: Counter[tuple[str, str]] = Counter()
    # Added minus removed and lost control-plane VMs, by cluster.
    growth: Counter[tuple[str, str]] = Counter()
    for row in plan.placements:
        if row.kind != VM or row.pool != _CONTROL_PLANE:
            continue
        cluster = (row.site_id, row.cluster)
        effect = compute_effect(row)
        # One VM after another.
        is_rolling = row.trigger in _ROLLING_TRIGGERS
        if effect in DISRUPTIVE_EFFECTS and not is_rolling:
            down.setdefault(cluster, set()).add(row.object)
            changed.add(cluster)
        if effect is Effect.PLACED:
            growth[cluster] += 1
            placed[cluster] += 1
        # A member on a machine that an assumption loses stays one.
        elif effect in (Effect.REMOVED, Effect.LOST) and row.trigger != MACHINE_LOST:
            growth[cluster] -= 1
            changed.add(cluster)
    # A replaced cluster has a record of its own.
    replaced = {change.address for change in plan.changes if change.action in _REPLACEMENTS}
    stopped = _count_stopped_members(plan, changed, down)
    format_cluster = build_cluster_formatter(plan.figures.placement_tables)
    for table in plan.figures.placement_tables:
        # Not for a removed control plane.
        is_removed = not table.total_count or table.address in replaced
        if table.pool != _CONTROL_PLANE or is_removed:
            continue
        cluster = (table.site_id, table.cluster)
        after = table.total_count
        before = after - growth[cluster]
        members = after - placed[cluster]
        yield from _build_control_plane_losses(
            _ControlPlane(
                name=format_cluster(table),
                address=str(table.address),
                before=before,
                after=after,
                members=members,
                recreated=len(down.get(cluster, ())),
                stopped=stopped[cluster],
            )
        )


class _ControlPlane(Struct, frozen=True):
    """Numbers of VMs of a control plane before and after the plan.

    `members` run before it and stay; of these, `recreated` VMs and `stopped` ones are down at once.
    """

    name: str
    address: str
    before: int
    after: int
    members: int
    recreated: int
    stopped: int


def _build_control_plane_losses(plane: _ControlPlane) -> Iterator[Consequence]:
    """Yield the consequence of a control plane with re-created, stopped or fewer VMs."""
    down_count = plane.recreated + plane.stopped
    # No majority remains.
    if down_count and down_count * 2 >= plane.members:
        lasting = ConsequenceSeverity.LASTING
        outage = _Outage(plane.name, plane.address, plane.members, down_count, severity=lasting)
        yield _build_quorum_loss(outage, f"down at once{_describe_stopped_members(plane.stopped)}")
    elif plane.after <= _MAX_FRAGILE < plane.before:
        yield Consequence(
            kind=ConsequenceKind.LOSES_REDUNDANCY,
            risk="control-plane-shrinks",
            severity=ConsequenceSeverity.LASTING,
            subject=plane.name,
            address=plane.address,
            before=plane.before,
            after=plane.after,
            text=(
                f"{plane.name} keeps {plane.after} of {plane.before} control-plane VMs; losing one "
                "breaks etcd quorum"
            ),
        )
    elif plane.recreated:
        verb = select_word_form(plane.recreated, "is", "are")
        vms = f"{plane.recreated} of {plane.members} control-plane VMs"
        yield Consequence(
            kind=ConsequenceKind.RESTARTS,
            risk="vms-recreated",
            severity=ConsequenceSeverity.NONE,
            subject=plane.name,
            address=plane.address,
            before=plane.members,
            after=plane.members - down_count,
            text=f"{plane.name}: {vms} {verb} re-created",
        )


def _describe_stopped_members(count: int) -> str:
    """Return the part of a risk about members on machines off or not ready; "" for none."""
    if not count:
        return ""
    machines = select_word_form(count, "a machine that is", "machines that are")
    return f" ({count} on {machines} off or not ready)"


def _count_stopped_members(
    plan: Plan,
    clusters: AbstractSet[tuple[str, str]],
    down: Mapping[tuple[str, str], AbstractSet[str]],
) -> Counter[tuple[str, str]]:
    """Count the control-plane VMs that stay on machines off or not ready, by (site id, cluster).

    Only VMs of these `clusters` count, without the VMs in `down`.
    """
    stopped: Counter[tuple[str, str]] = Counter()
    # Most plans change no control plane.
    if not clusters:
        return stopped
    titles = _count_sites_by_cluster(plan)
    for site in plan.site_records.sites:
        machines = _list_down_machines(plan, site)
        if not machines:
            continue
        for pool in _list_node_pools(site, titles):
            cluster = (site.id, pool.cluster)
            if pool.pool == _CONTROL_PLANE and cluster in clusters:
                names = down.get(cluster, set())
                stopped[cluster] += sum(
                    name not in names and machine in machines
                    for name, machine in pool.after.items()
                )
    return stopped


# Time of the removal of a node: the upgrade batch of its pool, or immediately.
_RemovalTime: TypeAlias = tuple[str, str, str, int]
_IMMEDIATE: Final[_RemovalTime] = ("", "", "", 0)


class _Replicas(Struct):
    """The pods of a workload on one cluster.

    `up` pods are up throughout; the others have removal times and effects. `removed` pods are
    deleted, `new` ones are created.
    """

    up: int = 0
    removed: int = 0
    new: int = 0
    removal_times: set[_RemovalTime] = field(default_factory=set)
    effects: Counter[Effect] = field(default_factory=Counter)


def _find_workload_losses(plan: Plan) -> Iterator[Consequence]:
    """Yield the risk of each workload that has no pod at all for some time, or permanently."""
    removal_times = _compute_removal_times(plan)
    # By (address, workload name).
    workloads: dict[tuple[str, str], _Replicas] = {}
    for row in plan.placements:
        # A pod of a workload (`pool`) other than a job.
        if KINDS[row.kind].runs_on_vms and _JOB not in row.pool:
            _add_pod_effect(
                workloads.setdefault((str(row.address), row.pool), _Replicas()), row, removal_times
            )
    protected_workloads: set[str] = set()
    for upgrade in plan.impact.upgrades:
        protected_workloads |= {f"{upgrade.cluster}/{name}" for name in upgrade.protected_workloads}
    for (address, name), replicas in workloads.items():
        downtime = list(
            _describe_downtime(name, replicas, is_protected=name in protected_workloads)
        )
        waiting = sum(replicas.effects[effect] for effect in (Effect.UNPLACED, Effect.LOST))
        if waiting and not any(severity is ConsequenceSeverity.LASTING for severity, _ in downtime):
            yield _build_workload_shrinkage(name, address, replicas, waiting)
        for severity, text in downtime:
            is_lasting = severity is ConsequenceSeverity.LASTING
            yield Consequence(
                kind=ConsequenceKind.ENDS if is_lasting else ConsequenceKind.DOWN,
                risk="workload-lost" if is_lasting else "workload-down",
                severity=severity,
                subject=name,
                address=address,
                before=replicas.removed + replicas.effects.total(),
                after=0,
                text=text,
            )


def _build_workload_shrinkage(
    name: str, address: str, replicas: _Replicas, waiting: int
) -> Consequence:
    """Build the risk of a workload with pods that fit on no node after the plan."""
    total = replicas.up + replicas.removed + replicas.effects.total()
    verb = select_word_form(waiting, "loses its node and fits", "lose their nodes and fit")
    return Consequence(
        kind=ConsequenceKind.SHRINKS,
        risk="workload-shrinks",
        severity=ConsequenceSeverity.LASTING,
        subject=name,
        address=address,
        before=total,
        after=total - waiting,
        text=f"{name}: {waiting:,} of {format_count(total, 'pod')} {verb} on no other",
    )


def _describe_downtime(
    name: str, replicas: _Replicas, *, is_protected: bool
) -> Iterator[tuple[ConsequenceSeverity, str]]:
    """Yield severity and text for a workload without any pod for some time or permanently.

    Each of its pods is removed, disrupted or new. Yield nothing if disrupted pods are replaced
    before the next ones stop. With `is_protected` a PodDisruptionBudget lets the drain wait
    for new pods.
    """
    # Otherwise a pod is up at any time.
    if replicas.up:
        return
    # Pods are only removed and created.
    if not replicas.effects:
        # Otherwise the workload is deleted or new.
        if replicas.removed and replicas.new:
            replica_text = select_word_form(
                replicas.removed,
                "its only replica is",
                f"all of its {replicas.removed:,} replicas are",
            )
            yield (
                ConsequenceSeverity.TEMPORARY,
                f"{name} is down for some time: {replica_text} re-created",
            )
        return
    text = _describe_replica_effects(replicas.effects)
    # No pod comes back.
    if replicas.effects.keys().isdisjoint((Effect.MOVED, Effect.RECREATED)):
        yield ConsequenceSeverity.LASTING, f"{name} has no replica left: {text}"
    # All pods are down at once: their nodes are lost without a drain, or drained in one batch.
    elif replicas.removal_times == {_IMMEDIATE} or (
        len(replicas.removal_times) == 1 and not is_protected
    ):
        yield ConsequenceSeverity.TEMPORARY, f"{name} is down for some time: {text}"


def _add_pod_effect(
    replicas: _Replicas, pod: PlacementChange, removal_times: Mapping[Node, _RemovalTime]
) -> None:
    """Add the effect of the plan on one pod to the counts of its workload (`replicas`).

    The effect is up, removed, new, or disrupted. A pod replaced in a rolling update counts as up.
    For a disrupted pod, add the time when its node is removed.
    """
    effect = compute_effect(pod)
    # An unplaced pod stays down.
    is_rolling = pod.trigger in _ROLLING_TRIGGERS and effect is not Effect.UNPLACED
    if is_rolling or effect in (Effect.UNCHANGED, Effect.UPDATED):
        replicas.up += 1
    elif effect is Effect.REMOVED:
        replicas.removed += 1
    elif effect is Effect.PLACED:
        replicas.new += 1
    elif effect in DISRUPTIVE_EFFECTS:
        # A node outside of rolling upgrades is removed at once.
        replicas.removal_times.add(removal_times.get(get_source_node(pod), _IMMEDIATE))
        replicas.effects[effect] += 1


def _compute_removal_times(plan: Plan) -> dict[Node, _RemovalTime]:
    """Return the removal time of each node in a batched upgrade.

    A node has two keys if the platform gives it another name. A time is not a clock time, but a
    pool (site id, cluster, pool) with the number of a batch. Azure upgrades the nodes of a pool in
    the order of their numbers, one batch at a time.
    """
    batch_sizes: dict[tuple[str, str, str], int] = {}
    for upgrade in plan.impact.upgrades:
        if upgrade.is_rolling:
            for pool in upgrade.pools:
                batch_sizes[upgrade.site_id, upgrade.cluster, pool.pool] = max(
                    pool.batch or pool.concurrent_vms, 1
                )
    # Nodes so far, by (site id, cluster, pool).
    removed_counts: Counter[tuple[str, str, str]] = Counter()
    # By identity of the row, because a node has several names.
    batches: dict[int, _RemovalTime] = {}
    nodes = {
        node: row
        for node, row in collect_upgrade_nodes(plan).items()
        if row.trigger in _ROLLING_TRIGGERS
    }
    # Each row once.
    rows = {id(row): row for row in nodes.values()}
    for row in sorted(rows.values(), key=lambda row: compute_number_sort_key(row.number)):
        pool_key = (row.site_id, row.cluster, row.pool)
        # Nodes in order of number.
        batches[id(row)] = (*pool_key, removed_counts[pool_key] // batch_sizes[pool_key])
        removed_counts[pool_key] += 1
    return {node: batches[id(row)] for node, row in nodes.items()}


_VERBS: Final = {
    Effect.MOVED: ("moves", "move"),
    Effect.RECREATED: ("is re-created", "are re-created"),
    Effect.UNPLACED: ("loses its node", "lose their nodes"),
    Effect.LOST: ("loses its node", "lose their nodes"),
}


def _describe_replica_effects(effects: Mapping[Effect, int]) -> str:
    """Describe the numbers of disrupted pods of a workload by effect.

    Return `its only replica moves`, `all of its 3 replicas move` or `of its 3 replicas 1 moves and
    2 lose their nodes`.
    """
    verbs: Counter[tuple[str, str]] = Counter()
    for effect, count in effects.items():
        # Two effects share a verb.
        verbs[_VERBS[effect]] += count
    total = sum(verbs.values())
    if len(verbs) == 1:
        ((verb, plural_verb),) = verbs
        return select_word_form(
            total,
            f"its only replica {verb}",
            f"all of its {format_count(total, 'replica')} {plural_verb}",
        )
    texts = [f"{count:,} {select_word_form(count, *verb)}" for verb, count in verbs.items()]
    return f"of its {format_count(total, 'replica')} {format_list(texts)}"


# In the order of the report.
RISK_FINDERS: Final[dict[str, Callable[[Plan], Iterator[Consequence]]]] = {
    "unmanaged VMs": _find_lost_unmanaged_vms,
    "control planes": _find_control_plane_losses,
    "racks": _find_rack_dependencies,
    "single racks": _find_single_racks,
    "upgrades": _find_upgrade_losses,
    "machine actions": _find_machine_action_losses,
    "stopped VMs": _find_stopped_vms,
    "leaving nodes": _find_recreation_losses,
    "outages": _find_outage_losses,
    "workloads": _find_workload_losses,
    "capacity": _find_lost_capacity,
}
