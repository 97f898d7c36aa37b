"""Section of the loss of machines: VMs down, what re-creates them, and what has no place.

Plans under assumptions and `simulate failure` show the same section.
"""

import shlex
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.phrases import enclose, format_count, format_list, select_word_form
from nexusform.placement_kinds.vm_kind import format_short_location
from nexusform.placements.recreations import RecreatedPool, RecreatedVm
from nexusform.plans.machine_losses import MachineLoss, NodeDeletion
from nexusform.plans.site_capacity.occupancy import PoolAvailability, VmOwnerKind
from nexusform.rendering.notation.sample_text import describe_sampled_capacity
from nexusform.rendering.report.report_tree import Row, Section, Table
from nexusform.resource_types.nks_pools import MACHINE_LABEL
from nexusform.scheduling.racks.vms import Interval

_MAX_NAMES: Final = 4
_POOL_HEADERS: Final = ("cluster", "pool", "down", "up", "total", "result")
_CLASS_HEADERS: Final = ("cluster", "pool", "re-created by", "fits now", "fits after", "no place")
_VM_HEADERS: Final = ("VM", "was on", "re-created on")
_AZURE_RULE: Final = (
    "Azure re-creates no VM on its own. It re-creates a node elsewhere once the node is deleted. "
    "That takes up to 30 minutes and may leave racks unbalanced. If the machine returns first, its "
    "VMs start there again. Source: Azure's page on workloads stuck after a power failure of a "
    "bare metal machine (2025-01-30)."
)


class _PoolClasses(Struct, frozen=True):
    """Numbers of the lost VMs of a pool that fit now, after something else, and nowhere."""

    now: Interval
    after: Interval
    never: Interval

    @property
    def is_finding(self) -> bool:
        """Whether a VM may not fit now."""
        return bool(self.after.maximum or self.never.maximum)


_NONE: Final = Interval(0, 0)


def build_loss_section(loss: MachineLoss) -> Section:
    """Build the section of the loss of machines of a site."""
    names = format_list(loss.machines, _MAX_NAMES)
    title = f"Loss of {format_count(len(loss.machines), 'machine')} on {loss.site_id} ({names})"
    tables = [build_pool_table(loss.pools, "VMs down")] if loss.pools else []
    recreations = [*loss.recreations, *loss.replacements]
    if recreations:
        tables += [_build_class_table(loss), _build_vm_table(recreations)]
    return Section(
        title,
        lines=tuple(_describe_loss(loss)),
        commands=tuple(_list_commands(loss)),
        tables=tuple(tables),
        is_finding=any(table.has_findings for table in tables),
        name="losses",
    )


def build_pool_table(pools: Iterable[PoolAvailability], caption: str = "") -> Table:
    """Build a row per pool: VMs down, up and in total, and the consequence."""
    rows = []
    for pool in pools:
        if pool.is_control_plane:
            consequence = f"quorum {'lost' if pool.is_lost else 'kept'} (needs {pool.quorum})"
        else:
            consequence = "no node left" if pool.is_lost else ""
        counts = (len(pool.down_vms), pool.remaining_count, pool.total)
        cells = (pool.cluster, get_pool_name(pool), *map("{:,}".format, counts), consequence)
        rows.append(Row(cells, is_finding=pool.is_lost))
    return Table(_POOL_HEADERS, tuple(rows), number_columns=frozenset({2, 3, 4}), caption=caption)


def get_pool_name(pool: PoolAvailability) -> str:
    """Return the name of a pool in a table."""
    return "(plain VM)" if pool.kind is VmOwnerKind.VM else pool.pool


def _build_class_table(loss: MachineLoss) -> Table:
    """Build a row per pool with the numbers of its VMs per class."""
    plain_vms = {str(pool.address): pool for pool in loss.stay_down if pool.kind is VmOwnerKind.VM}
    rows: list[Row] = []
    for pool, classes in _classify_pools(loss):
        owner = (pool.cluster, pool.pool)
        if pool.address in plain_vms:
            owner = (plain_vms[pool.address].cluster, get_pool_name(plain_vms[pool.address]))
        author = "Azure" if pool in loss.recreations else "apply"
        counts = (classes.now, classes.after, classes.never)
        cells = (*owner, author, *map(str, counts))
        rows.append(Row(cells, is_finding=classes.is_finding))
    return Table(
        _CLASS_HEADERS, tuple(rows), number_columns=frozenset({3, 4, 5}), caption="Re-created VMs"
    )


def _classify_pools(loss: MachineLoss) -> Iterator[tuple[RecreatedPool, _PoolClasses]]:
    """Yield each pool with the numbers of its VMs per class.

    With samples (layouts of unknown NUMA cells), the numbers have bounds.
    """
    sampled_counts = loss.samples.pools if loss.samples is not None else ()
    pools = (*loss.recreations, *loss.replacements)
    for position, pool in enumerate(pools):
        missing = Interval(pool.missing, pool.missing)
        if position < len(sampled_counts):
            missing = sampled_counts[position]
        fitting = Interval(len(pool.vms) - missing.maximum, len(pool.vms) - missing.minimum)
        later = missing if pool.fixes else _NONE
        # Nobody can delete the nodes of a cluster without quorum.
        if pool.cluster_id in loss.unreachable_ids:
            yield pool, _PoolClasses(_NONE, fitting + later, _NONE if pool.fixes else missing)
        else:
            yield pool, _PoolClasses(fitting, later, _NONE if pool.fixes else missing)


def _build_vm_table(pools: Iterable[RecreatedPool]) -> Table:
    """Build a row per lost VM with its old and new location; one without capacity is a finding."""
    rows = []
    for pool in pools:
        for vm in pool.vms:
            location = "no capacity"
            if vm.placement is not None:
                location = format_short_location(vm.placement)
            cells = (vm.vm.name, format_short_location(vm.vm.placement), location)
            rows.append(Row(cells, is_finding=vm.placement is None))
    return Table(_VM_HEADERS, tuple(rows), caption="Each VM", fold_title="Each VM")


def _describe_loss(loss: MachineLoss) -> Iterator[str]:
    """Yield sentences about what happens by itself, by an operator, and after something else."""
    if loss.machines_down:
        names = format_list(loss.machines_down, _MAX_NAMES)
        verb = select_word_form(len(loss.machines_down), "is", "are")
        yield (
            f"{format_count(len(loss.machines_down), 'other machine')} {verb} down already, "
            f"with all VMs: {names}."
        )
    if loss.deletions:
        yield _AZURE_RULE
    unreachable = loss.unreachable_clusters
    if unreachable:
        yield (
            f"Without quorum the control plane of {format_list(unreachable)} is down: its nodes "
            "cannot be deleted. Recover a machine first."
        )
    for pool, classes in _classify_pools(loss):
        if pool.missing:
            yield from _describe_shortage(pool)
        elif classes.never.maximum:
            yield f"{pool.cluster}/{pool.pool}: whether all fit depends on NUMA cells."
    if loss.samples is not None:
        yield f"NUMA cells: {describe_sampled_capacity(loss.samples)}"
    for stopped_pool in loss.stay_down:
        yield f"Down until the machine returns: {describe_waiting_vms(stopped_pool, loss)}."
    if loss.unmanaged_vms:
        yield f"Outside nexusform, down: {format_list(loss.unmanaged_vms)}."


def _describe_shortage(pool: RecreatedPool) -> Iterator[str]:
    """Yield why VMs of a pool have no place, and after which tested changes they have one."""
    yield (f"{pool.cluster}/{pool.pool}: {pool.fitting:,} of {len(pool.vms):,} fit. {pool.reason}")
    if pool.fixes:
        fixes = " ".join(f"({number}) {text}" for number, text in enumerate(pool.fixes, 1))
        yield f"{pool.cluster}/{pool.pool}: all fit after one of these changes (tested): {fixes}"


def describe_waiting_vms(pool: PoolAvailability, loss: MachineLoss) -> str:
    """Describe VMs down until their machine returns, and where an apply re-creates them."""
    locations = {
        vm.vm.name: vm
        for replaced in loss.replacements
        if replaced.address == str(pool.address)
        for vm in replaced.vms
    }
    texts = [
        f"{vm.name}{enclose(' (', _describe_replacement(locations.get(vm.name)), ')')}"
        for vm in pool.down_vms
    ]
    condition = ", unless its block names a machine" if pool.kind is VmOwnerKind.VM else ""
    return f"{format_list(texts, _MAX_NAMES)}{condition}"


def _describe_replacement(vm: RecreatedVm | None) -> str:
    """Describe where an apply re-creates a VM; "" if that is not known."""
    if vm is None:
        return ""
    if vm.placement is None:
        return "no capacity elsewhere"
    return f"an apply re-creates it on {vm.placement.machine}"


def _list_commands(loss: MachineLoss) -> Iterator[str]:
    """Yield the commands with which nodes and VMs are re-created elsewhere."""
    for deletion in loss.deletions:
        note = "" if deletion.is_reachable else ", no quorum"
        yield f"# {deletion.cluster} ({format_count(len(deletion.nodes), 'node')}{note})"
        yield build_deletion_command(deletion)
    for pool in loss.stay_down:
        # A plain VM is its resource.
        if pool.kind is VmOwnerKind.VM:
            yield f"nexusform apply -replace='{pool.address}'"
            continue
        for vm in pool.down_vms:
            yield f"nexusform apply -replace='{pool.address}:{vm.name}'"


def build_deletion_command(deletion: NodeDeletion) -> str:
    """Return the command for the cluster; the kubectl context has the name of the cluster."""
    kubectl = f"kubectl --context={shlex.quote(deletion.cluster)}"
    if len(deletion.machines) == 1:
        return f"{kubectl} delete node -l {MACHINE_LABEL}={deletion.machines[0]}"
    return f"{kubectl} delete node -l '{MACHINE_LABEL} in ({','.join(deletion.machines)})'"
