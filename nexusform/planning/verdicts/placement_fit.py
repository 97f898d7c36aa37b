"""Certainty and capacity of placements.

Certainty is measured by replaying each site's operations under other seeds. Reports cover pools
without capacity, violated placement groups, and machines smaller than their VMs.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity, build_error
from nexusform.diagnostics.levels import VMS_WITHOUT_MACHINE
from nexusform.diagnostics.phrases import (
    compute_natural_sort_key,
    enclose,
    format_count,
    format_first_items,
    select_word_form,
)
from nexusform.interfaces.plugins import PlanningKind, ResourceType
from nexusform.json_data.plain_data import get_mapping, get_part
from nexusform.placements.prediction_scores import (
    COUNT_PREDICTION,
    MACHINE_PREDICTION,
    VM_PREDICTIONS,
    PredictionRecord,
    lower_share_to_accuracy,
)
from nexusform.placements.vm_demands import (
    OBSERVED,
    PlacedVm,
    PlacementGroupRule,
    PoolDemand,
    index_pools,
)
from nexusform.planning.instances.instance import Instance
from nexusform.planning.plan_request import PlanningStage, Progress
from nexusform.planning.vm_planning.site_plans import SitePlan, build_object_inventory, build_sites
from nexusform.planning.vm_planning.vm_object import ROLLING, HardHint, VmObject
from nexusform.plans.plan import Action
from nexusform.resources.address import Address
from nexusform.scheduling.placement_decision import PlacementCertainty
from nexusform.scheduling.racks.uncertainty.arrivals import REMOVALS
from nexusform.scheduling.racks.uncertainty.certainty import (
    PoolCertainty,
    SamplingResult,
    compute_default_runs,
    repeat_with_samples,
)
from nexusform.scheduling.racks.vms import CONTROL_PLANE, NoFitReason

MAXIMUM_NAMED = 5
DOES_NOT_FIT = "insufficient-capacity"
MISSING_TARGETS = "new-machines-outside-targets"
PINNED_DOES_NOT_FIT = "insufficient-pinned-machine"
VIOLATED_GROUP = "placement-group-violation"


class PoolShortage(Struct, frozen=True):
    """Pool with VMs without capacity.

    `placed_count` counts its VMs with a machine after the plan, `existing_count` those before.
    `binding_hints` are the hard placement hints behind the failures. `surge` is 0, or the number of
    extra VMs of a Kubernetes upgrade without capacity.
    """

    address: Address
    pool: PoolDemand
    site_id: str
    cluster: str
    placed_count: int
    existing_count: int
    binding_hints: tuple[HardHint, ...] = ()
    surge: int = 0

    @property
    def missing_count(self) -> int:
        """Number of VMs without a location."""
        return len(self.pool.numbers) - self.placed_count


class _UnplacedPool(Struct, frozen=True):
    """Pool without capacity, with its object and the reason of its first VM without a location."""

    vm_object: VmObject
    shortage: PoolShortage
    reason: NoFitReason


class PlacementFitFailures(Struct, frozen=True):
    """Errors, and every failed pool."""

    diagnostics: tuple[Diagnostic, ...]
    unplaced: tuple[PoolShortage, ...]


def collect_fit_failures(
    objects: Iterable[VmObject],
    outside_targets: Sequence[Instance] = (),
    forgotten_hosts: Sequence[str] = (),
    *,
    has_targets: bool = False,
    severity: Severity = Severity.ERROR,
) -> PlacementFitFailures:
    """Return one error per pool without enough capacity, and warnings of pinned VMs.

    A hypothetical plan has another `severity`: it shows what fits.

    The placement rule rejects these pinned VMs. With -target (`has_targets`), all pools of sites
    with new racks outside the plan share one error, and are no failures: nothing is known of their
    capacity. `outside_targets` are racks and machines outside the selection, `forgotten_hosts`
    those not managed after the plan.
    """
    # "" without such racks and machines.
    hint = enclose(
        " -target or -exclude excludes these from the plan, so their capacity is unknown: ",
        format_first_items([str(host.address) for host in outside_targets], MAXIMUM_NAMED),
        ".",
    )
    hint += _format_forgotten_hosts(forgotten_hosts)
    new_hosts = [host for host in outside_targets if has_targets and host.prior is None]
    waiting: list[tuple[VmObject, PoolShortage]] = []
    diagnostics: list[Diagnostic] = []
    unplaced: list[_UnplacedPool] = []
    objects = list(objects)
    for vm_object in objects:
        for reason in vm_object.placements.pin_rejections:
            text = f"The rule does not allow {vm_object.instance.address} there: {reason}."
            detail = f"{text} It is counted on that machine anyway."
            pin_problem = Problem(("machine",), PINNED_DOES_NOT_FIT, detail, Severity.WARNING)
            diagnostics.append(vm_object.instance.build_diagnostic(pin_problem))
        for pool in vm_object.pools:
            failures = [
                vm_object.placements.failures[key]
                for key in pool.keys
                if key in vm_object.placements.failures
            ]
            if failures:
                shortage = _build_unplaced_pool(vm_object, pool)
                if any(_may_be_on_site(host, shortage.site_id) for host in new_hosts):
                    waiting.append((vm_object, shortage))
                    continue
                # The reason is the one of the first VM.
                unplaced.append(_UnplacedPool(vm_object, shortage, failures[0]))
    diagnostics += [
        replace(error, severity=severity)
        for error in _build_capacity_errors(objects, unplaced, hint)
    ]
    if waiting:
        diagnostics.insert(0, _build_missing_targets_error(waiting, new_hosts))
    return PlacementFitFailures(tuple(diagnostics), tuple(failed.shortage for failed in unplaced))


def _build_capacity_errors(
    objects: Iterable[VmObject], unplaced: Sequence[_UnplacedPool], hint: str
) -> Iterator[Diagnostic]:
    """Yield the errors of pools without capacity, equal ones once.

    The first one of a site also has the totals of the site.
    """
    errors = [
        _build_capacity_error(failed.vm_object, failed.shortage, failed.reason, hint)
        for failed in unplaced
    ]
    # In reverse order, so that the first pool of a site remains.
    first_by_site = {
        failed.shortage.site_id: (error, failed.shortage)
        for failed, error in zip(reversed(unplaced), reversed(errors), strict=True)
    }
    totals = {
        id(error): _format_failed_pools(objects, unplaced, shortage)
        for error, shortage in first_by_site.values()
    }
    unique_errors: dict[tuple[object, ...], Diagnostic] = {}
    for error in errors:
        unique_errors.setdefault((error.summary, error.detail, error.subject), error)
    for error in unique_errors.values():
        yield replace(error, detail=error.detail + totals.get(id(error), ""))


def _format_failed_pools(
    objects: Iterable[VmObject], unplaced: Iterable[_UnplacedPool], first: PoolShortage
) -> str:
    """Format a sentence on the first of several pools without capacity on a site.

    Return "" for a single one.
    """
    failed_count = sum(failed.shortage.site_id == first.site_id for failed in unplaced)
    if failed_count < 2:
        return ""
    placed_count = 0
    requested_count = 0
    for vm_object in objects:
        if vm_object.request.demand.site_id == first.site_id:
            placed_count += len(vm_object.placements.vms)
            requested_count += sum(len(pool.numbers) for pool in vm_object.pools)
    return (
        f" {_format_pool_name(first)} is the first of {failed_count:,} pools without capacity: "
        f"{placed_count:,} of {requested_count:,} VMs of the site are placed."
    )


def _format_pool_name(shortage: PoolShortage) -> str:
    """Format the name of a pool; a plain VM is its own pool."""
    if shortage.pool.rule_pool:
        return str(shortage.address)
    return "/".join(filter(None, (shortage.cluster, shortage.pool.pool)))


def _may_be_on_site(host: Instance, site_id: str) -> bool:
    """Return whether a rack or machine is of this site; True if its site is unknown."""
    host_site = get_mapping(host.config).get("site_id")
    return not isinstance(host_site, str) or host_site == site_id


def _build_missing_targets_error(
    waiting: Sequence[tuple[VmObject, PoolShortage]], new_hosts: Sequence[Instance]
) -> Diagnostic:
    """Build the error of all VMs without capacity while -target leaves out new racks or machines.

    `waiting` are their objects and pools.
    """
    first_object = waiting[0][0].instance
    objects = dict.fromkeys(str(vm_object.instance.address) for vm_object, _ in waiting)
    hosts = [
        host
        for host in new_hosts
        if any(_may_be_on_site(host, shortage.site_id) for _, shortage in waiting)
    ]
    blocks = dict.fromkeys(str(host.address.config_address) for host in hosts)
    missing = format_count(sum(shortage.missing_count for _, shortage in waiting), "VM")
    verb = select_word_form(len(objects), "needs", "need")
    host_names = format_first_items([str(host.address) for host in hosts], MAXIMUM_NAMED)
    flags = " ".join(f"-target={block}" for block in blocks)
    return build_error(
        MISSING_TARGETS,
        f"{format_first_items(list(objects), MAXIMUM_NAMED)} {verb} machines that -target leaves "
        f"out of this plan: {host_names}. Add {flags}.",
        first_object.block.header_span if first_object.block is not None else None,
        address=str(first_object.address),
        block=first_object.block_header,
        headline=f"-target leaves out new machines: no place for {missing}",
    )


def _build_unplaced_pool(vm_object: VmObject, pool: PoolDemand) -> PoolShortage:
    """Build the record of a pool without enough capacity."""
    demand = vm_object.request.demand
    return PoolShortage(
        address=vm_object.instance.address,
        pool=pool,
        site_id=demand.site_id,
        cluster=demand.cluster,
        placed_count=len(vm_object.placements.vms.keys() & pool.keys),
        existing_count=len(vm_object.prior.existing.keys() & pool.keys),
        binding_hints=tuple(vm_object.placements.binding_hints),
        surge=pool.surge_size if _is_failed_upgrade(vm_object, pool) else 0,
    )


def _is_failed_upgrade(vm_object: VmObject, pool: PoolDemand) -> bool:
    """Return whether an upgrade of Kubernetes re-creates all VMs of the pool that do not fit."""
    recreations = vm_object.request.actions.recreations
    for key in vm_object.placements.failures:
        pool_name, _ = key
        if pool_name == pool.pool and recreations.get(key) != ROLLING:
            return False
    return True


def _build_capacity_error(
    vm_object: VmObject, shortage: PoolShortage, failure: NoFitReason, hint: str
) -> Diagnostic:
    """Build the error of a pool without enough capacity.

    `failure` is the reason of its first VM.
    """
    pool = shortage.pool
    placed_count = shortage.placed_count
    total = len(pool.numbers)
    instance = vm_object.instance
    subject = instance.locate(pool.path)
    pool_name = _format_pool_name(shortage)
    summary = f"{pool_name} does not fit"
    headline = f"{total:,} x {pool.sku.name} do not fit: {placed_count:,} of {total:,} placed"
    reason = failure.reason
    if _is_failed_upgrade(vm_object, pool):
        summary = f"the upgrade of {summary}"
        headline = (
            f"The upgrade of {pool_name} does not fit: {placed_count:,} of {total:,} x "
            f"{pool.sku.name} re-placed"
        )
        reason = f"{_format_upgrade_batches(pool)} {reason}"
    return build_error(
        DOES_NOT_FIT,
        reason + hint,
        subject,
        address=str(instance.address),
        block=instance.block_header,
        headline=headline,
        brief=summary,
        extra={
            "fit": {
                "pool": pool.pool,
                "requested": total,
                "placed": placed_count,
                "binding": failure.binding,
            }
        },
    )


def _format_upgrade_batches(pool: PoolDemand) -> str:
    """Format the batches of an upgrade without enough capacity."""
    prefix = "A new kubernetes_version re-places the VMs in batches"
    if not pool.surge_size:
        return f"{prefix}, and one does not fit after the old one is removed."
    source = (
        "the control plane" if pool.pool == CONTROL_PLANE else f'max_surge = "{pool.max_surge}"'
    )
    subject = select_word_form(pool.surge_size, "it does", "they do")
    return (
        f"{prefix}: {source} adds {format_count(pool.surge_size, 'surge VM')} before it removes "
        f"old ones, and {subject} not fit."
    )


def _format_forgotten_hosts(addresses: Sequence[str]) -> str:
    """Format a hint for errors of missing capacity.

    This plan removes the racks or machines at these addresses from the state, so it does not
    know their machines.
    """
    if not addresses:
        return ""
    names = format_first_items(addresses, MAXIMUM_NAMED)
    pronoun = select_word_form(len(addresses), "it", "them")
    blocks = select_word_form(len(addresses), "block", "blocks")
    return (
        f" This plan forgets {names}, so no machine of {pronoun} is known: omit the removed "
        f"{blocks} of {pronoun}, "
        "or forget the objects there too."
    )


def check_placement_groups(objects: Iterable[VmObject]) -> Iterator[Diagnostic]:
    """Yield a warning per hard anti-affinity group with too many existing VMs at a location."""
    for vm_object in objects:
        if vm_object.instance.is_removed or not vm_object.request.actions.unchanged:
            # No existing VM stays.
            continue
        for rule in vm_object.placement_groups:
            # Only hard anti-affinity has a maximum.
            if rule.is_affinity or not rule.is_hard:
                continue
            excess = dict(_find_excess_group_vms(vm_object, rule))
            if excess:
                yield _build_group_warning(vm_object.instance, rule, excess)


def _build_group_warning(
    instance: Instance, rule: PlacementGroupRule, excess: Mapping[str, list[str]]
) -> Diagnostic:
    """Build the warning of a violated group.

    `excess` are the names of the VMs beyond its maximum, by location.
    """
    names = list(chain.from_iterable(excess.values()))
    options = [f"-replace='{instance.address}:{name}'" for name in names]
    locations = ", ".join(list(excess)[:MAXIMUM_NAMED])
    others = " and others" if len(excess) > MAXIMUM_NAMED else ""
    # The prefix is for rejections of a single VM.
    group = rule.name.removeprefix("the other VMs of ")
    detail = (
        f"{group} allows {rule.max_vms} of its VMs on one {rule.scope}, but more run on "
        f"{locations}{others}. Rules do not move existing VMs. To separate them, re-place: "
        f"{format_first_items(options, MAXIMUM_NAMED, ' ')}."
    )
    return instance.build_diagnostic(Problem((), VIOLATED_GROUP, detail, Severity.WARNING))


def _find_excess_group_vms(
    vm_object: VmObject, rule: PlacementGroupRule
) -> Iterator[tuple[str, list[str]]]:
    """Yield each machine or rack with more than `max_vms` VMs of the group.

    The names of the VMs to move are yielded with it. The first `max_vms` VMs there may stay. VMs
    placed by this plan (with a handle) are not named: the rule applied to them.
    """
    vms_by_location: dict[str, list[PlacedVm]] = {}
    for vm in vm_object.list_placed_vms():
        location = rule.get_location(vm.placement)
        # A rule for the whole site has no location.
        if location and vm.pool in rule.pools:
            vms_by_location.setdefault(location, []).append(vm)
    for location, vms_at_location in vms_by_location.items():
        excess = vms_at_location[rule.max_vms :]
        excess_names = [
            vm.name for vm in excess if (vm.pool, vm.number) not in vm_object.placements.new_handles
        ]
        if excess_names:
            yield location, excess_names


def check_overcommitted_machines(
    instances: Mapping[Address, Instance],
    sites: Mapping[str, SitePlan],
    objects: Iterable[VmObject],
) -> list[Diagnostic]:
    """Return a warning per changed resource with machines smaller than their VMs, or [].

    The resource is a rack or a machine.
    """
    if not any(vm_object.request.actions.unchanged for vm_object in objects):
        # Only VMs already on a machine may exceed its capacity.
        return []
    changed_instances = {
        str(address): instance
        for address, instance in instances.items()
        if instance.type.add_to_inventory and instance.action is not Action.NO_OP
    }
    # Names of machines by the address that offers them.
    too_small: dict[str, list[str]] = {}
    for site in sites.values():
        changed_machines = {
            machine
            for machine, address in site.offering_addresses.items()
            if address in changed_instances
        }
        for machine in _find_overcommitted_machines(site, changed_machines):
            too_small.setdefault(site.offering_addresses[machine], []).append(machine)
    diagnostics = []
    for offering_address, machines in too_small.items():
        detail = (
            f"With these figures {format_first_items(machines, MAXIMUM_NAMED)} of "
            f"{offering_address} cannot hold their "
            "existing VMs. The VMs stay and are counted; the machine accepts no new VM until it "
            "has capacity again."
        )
        problem = Problem((), "machine-smaller-than-vms", detail, Severity.WARNING)
        diagnostics.append(changed_instances[offering_address].build_diagnostic(problem))
    return diagnostics


def _find_overcommitted_machines(site: SitePlan, machines: set[str]) -> list[str]:
    """Return the names among `machines` with too few CPUs, memory or disk.

    Their VMs need them; names are in the order of the site.
    """
    if not machines:
        return []
    # Used CPUs by machine and cell.
    cpus: Counter[tuple[str, int]] = Counter()
    memory: Counter[tuple[str, int]] = Counter()
    disk: Counter[str] = Counter()
    for vm in site.scheduler.list_vms():
        machine = vm.placement.machine
        if machine in machines:
            disk[machine] += vm.sku.disk_gib
            for cell in vm.placement.cells:
                cpus[machine, cell] += vm.sku.cpus_in_cell
                memory[machine, cell] += vm.sku.mib_in_cell

    overcommitted = {
        name for name, used_gib in disk.items() if used_gib > site.machines[name].disk_gib
    }
    for (name, cell), used_cpus in cpus.items():
        machine_facts = site.machines[name]
        if (
            used_cpus > machine_facts.cpus_per_cell
            or memory[name, cell] > machine_facts.memory_mib_per_cell
        ):
            overcommitted.add(name)
    # VMs in unknown cells: no combination of cells has the capacity.
    overcommitted |= machines.intersection(site.scheduler.list_overfull_machines())
    return [name for name in site.machines if name in overcommitted]


def _group_vms_in_missing_cells(
    objects: Iterable[VmObject], changed_addresses: Container[str]
) -> dict[tuple[str, str], list[str]]:
    """Return the names of unchanged VMs in cells that their machine lacks, by site and machine.

    Only the machines of changed resources are checked.
    """
    names: dict[tuple[str, str], list[str]] = {}
    for vm_object, vm in _iterate_unchanged_vms(objects):
        site = vm_object.request.site
        machine = vm.placement.machine
        if (
            site is None
            or machine not in site.machines
            or site.offering_addresses[machine] not in changed_addresses
        ):
            continue
        if max(vm.placement.cells, default=0) >= site.machines[machine].cells:
            names.setdefault((site.id, machine), []).append(vm.name)
    return names


def check_removed_cells(
    instances: Mapping[Address, Instance],
    types: Mapping[str, ResourceType],
    sites: Mapping[str, SitePlan],
    objects: Iterable[VmObject],
) -> Iterator[Diagnostic]:
    """Yield an error per rack or machine losing NUMA cells in use.

    State would record VMs in missing cells.
    """
    changed = {
        str(address): instance
        for address, instance in instances.items()
        if instance.action is not Action.NO_OP
    }
    vms_by_machine = _group_vms_in_missing_cells(objects, changed)
    if not vms_by_machine:
        return
    prior = ((address, instance.prior) for address, instance in instances.items())
    prior_sites, _ = build_sites(build_object_inventory(prior, types))
    for (site_id, name), vm_names in vms_by_machine.items():
        prior_site = prior_sites.get(site_id)
        cells = sites[site_id].machines[name].cells
        if (
            prior_site is None
            or name not in prior_site.machines
            or prior_site.machines[name].cells <= cells
        ):
            # The cells were missing before.
            continue
        yield changed[sites[site_id].offering_addresses[name]].build_error(
            "machine-smaller-than-vms",
            f"{name} has {prior_site.machines[name].cells} NUMA cells, and {cells} after this "
            f"plan. {format_count(len(vm_names), 'VM')} "
            f"{select_word_form(len(vm_names), 'uses', 'use')} the removed cells: "
            f"{format_first_items(vm_names, MAXIMUM_NAMED)}. Set evacuate = true for {name} to "
            "move its VMs, or keep the number of cells.",
        )


def _iterate_unchanged_vms(objects: Iterable[VmObject]) -> Iterator[tuple[VmObject, PlacedVm]]:
    """Yield the unchanged VMs with recorded cells (not observed), each with its object."""
    for vm_object in objects:
        for key in vm_object.request.actions.unchanged:
            vm = vm_object.placements.vms[key]
            if vm.placement.cells and vm.provenance != OBSERVED:
                yield vm_object, vm


def check_changed_sku_cells(
    instances: Iterable[Instance], objects: Iterable[VmObject]
) -> Iterator[Diagnostic]:
    """Yield an error per VM SKU with another number of NUMA cells than its existing VMs use."""
    # SKUs with another number of NUMA cells than before, by name.
    changed = {
        str(instance.planned["name"]): instance
        for instance in instances
        if instance.type.kind is PlanningKind.VM_SKU
        and instance.planned is not None
        and get_part(instance.before, ("numa_cells",)) != instance.planned.get("numa_cells")
    }
    # Names of staying VMs in another number of cells.
    vms_by_sku: dict[str, list[str]] = {}
    for vm_object, vm in _iterate_unchanged_vms(objects if changed else ()):
        pool = index_pools(vm_object.pools).get(vm.pool)
        is_resized = pool is not None and len(vm.placement.cells) != pool.sku.numa_cells
        if vm.sku_name in changed and is_resized:
            vms_by_sku.setdefault(vm.sku_name, []).append(vm.name)
    for sku_name, vm_names in vms_by_sku.items():
        verb = select_word_form(len(vm_names), "uses", "use")
        yield changed[sku_name].build_error(
            "vm-sku-cells-changed",
            f"{format_count(len(vm_names), 'VM')} of {sku_name} {verb} another number of NUMA "
            f"cells: {format_first_items(vm_names, MAXIMUM_NAMED)}. A change of a SKU re-creates "
            "no VM. Add a nexus_vm_sku with another name, and set it in the pools: their VMs are "
            "then re-created.",
            ("numa_cells",),
        )


def check_unlocated_vms(objects: Iterable[VmObject]) -> Iterator[Diagnostic]:
    """Yield a warning per object with existing VMs without a known machine.

    The plan counts them nowhere.
    """
    for vm_object in objects:
        names = sorted(
            (str(record["name"]) for record in vm_object.waiting_vms.values()),
            key=compute_natural_sort_key,
        )
        if names:
            detail = (
                f"The machine of {format_first_items(names, MAXIMUM_NAMED)} is not known, so the "
                "capacity used there "
                "is unknown, and rules about machines are not checked. They stay as they are."
            )
            yield vm_object.instance.build_diagnostic(
                Problem(
                    (),
                    VMS_WITHOUT_MACHINE,
                    detail,
                    Severity.WARNING,
                    site_id=vm_object.request.demand.site_id,
                )
            )


def check_vf_capacity(objects: Iterable[VmObject]) -> list[Diagnostic]:
    """Return a warning per pool with raised `sriov_vfs` if a cell has fewer than its VMs use.

    VFs are the virtual functions of SR-IOV, used as virtual NICs.
    """
    diagnostics: list[Diagnostic] = []
    for vm_object in objects:
        if vm_object.request.site is None:
            continue
        vfs_before = {pool.pool: pool.sku.vfs for pool in vm_object.prior_pools}
        for pool in vm_object.pools:
            # Not raised, or a new pool.
            if pool.sku.vfs <= vfs_before.get(pool.pool, pool.sku.vfs):
                continue
            machines = {
                vm.placement.machine
                for vm in vm_object.placements.vms.values()
                if vm.pool == pool.pool
            }
            machines_short_of_vfs = _find_vf_shortages(vm_object.request.site, machines)
            if machines_short_of_vfs:
                detail = (
                    f"With {pool.sku.vfs} VFs for each VM, cells of "
                    f"{format_first_items(machines_short_of_vfs, MAXIMUM_NAMED)} have fewer than "
                    "their VMs use. "
                    "The VMs stay and are counted; such a cell accepts no new VM with VFs until "
                    "enough are free."
                )
                problem = Problem(
                    (*pool.path, "sriov_vfs"), "insufficient-cell-vfs", detail, Severity.WARNING
                )
                diagnostics.append(vm_object.instance.build_diagnostic(problem))
    return diagnostics


def _find_vf_shortages(site: SitePlan, machines: set[str]) -> list[str]:
    """Return the machines with too few SR-IOV virtual functions (VFs) in a NUMA cell.

    The VFs are needed by the VMs of the machine. Machines are in site order.
    """
    # By machine and cell.
    used_vfs: Counter[tuple[str, int]] = Counter()
    for vm in site.scheduler.list_vms():
        if vm.placement.machine in machines:
            for cell in vm.placement.cells:
                used_vfs[vm.placement.machine, cell] += vm.sku.vfs_in_cell
    exceeded = {
        name for (name, _), vfs in used_vfs.items() if vfs > site.machines[name].vfs_per_cell
    }
    return [name for name in site.machines if name in exceeded]


def lower_certainty_to_accuracy(
    certainty: Mapping[str, SamplingResult], records: Mapping[str, PredictionRecord]
) -> dict[str, SamplingResult]:
    """Return the certainties by site, lowered to the accuracy of earlier predictions.

    Only predictions verified on the site count.
    """
    # It is unchanged for sites without verified predictions.
    adjusted = dict(certainty)
    for site_id in certainty.keys() & records.keys():
        record = records[site_id]
        site_certainty = certainty[site_id]
        vms = {
            token: _lower_vm_certainty(vm_certainty, record)
            for token, vm_certainty in site_certainty.vms.items()
        }
        pools = {
            key: _lower_pool_certainty(pool, record) for key, pool in site_certainty.pools.items()
        }
        adjusted[site_id] = replace(site_certainty, vms=vms, pools=pools)
    return adjusted


def _lower_vm_certainty(
    certainty: PlacementCertainty, record: PredictionRecord
) -> PlacementCertainty:
    """Lower the certainty of a VM's rack, machine and count per rack.

    The limit is the accuracy of earlier predictions. If any of the three falls, the result has the
    former ones as `measured`.
    """
    measured = (certainty.rack, certainty.machine, certainty.rack_count)
    rack, machine, count = (
        lower_share_to_accuracy(record, subject, share)
        for subject, share in zip(VM_PREDICTIONS, measured, strict=True)
    )
    if (rack, machine, count) == measured:
        return certainty
    return replace(certainty, rack=rack, machine=machine, rack_count=count, measured=measured)


def _lower_pool_certainty(pool: PoolCertainty, record: PredictionRecord) -> PoolCertainty:
    """Return a pool without the figures that earlier predictions got partly wrong.

    These were counted as certain.
    """
    # 1 is certain.
    if lower_share_to_accuracy(record, MACHINE_PREDICTION, 1) < 1:
        pool = replace(pool, vms_on_certain_machines=0, is_tie_certain=False)
    if lower_share_to_accuracy(record, COUNT_PREDICTION, 1) < 1:
        pool = replace(pool, certain_racks=())
    return pool


def _build_progress_callback(progress: Progress, before: int, total: int) -> Callable[[int], None]:
    """Return a callback for the samples of one site.

    It reports their number with those `before`, of other sites.
    """
    return lambda sample_count: progress(PlanningStage.SAMPLES, before + sample_count, total)


def measure_site_certainties(
    sites: Mapping[str, SitePlan],
    samples: int | None,
    *,
    progress: Progress,
    first: int = 0,
    keep_outcomes: bool = False,
) -> tuple[int, dict[str, SamplingResult]]:
    """Measure the certainty of the placements of every site by repeating them in samples.

    Each sample makes other random choices, from the seed `first` on. Return the number of samples
    (0 if nothing was placed), and the certainties by site id. With `samples` None, the number
    follows from that of the VMs. `keep_outcomes` adds the placements of each sample.
    """
    placed_count = sum(len(site.placed_demands) for site in sites.values())
    if placed_count == 0:
        return 0, {}
    sample_count = compute_default_runs(placed_count) if samples is None else samples
    certainty: dict[str, SamplingResult] = {}
    active_sites = {
        site_id: site for site_id, site in sites.items() if site.operations and sample_count
    }
    for site_id, site in active_sites.items():
        # Samples of all sites.
        finished = len(certainty) * sample_count
        total = len(active_sites) * sample_count
        outcome = repeat_with_samples(
            site.base,
            site.operations,
            sample_count,
            first=first,
            keep_outcomes=keep_outcomes,
            on_progress=_build_progress_callback(progress, finished, total),
        )
        untried = outcome.untried or (REMOVALS if site.has_arrivals_after_removals else "")
        certainty[site_id] = replace(outcome, untried=untried)
    return sample_count, certainty
