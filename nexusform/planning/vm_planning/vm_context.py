"""Context of planning VMs: sites, arguments and demand.

There is a prior and a current context of arguments.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Problem,
    Severity,
    build_error,
    has_errors,
    suggest_name,
)
from nexusform.doubts.doubt import Doubt
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import get_mapping
from nexusform.placements.vm_demands import (
    NO_DEMAND,
    PoolDemand,
    VmDemand,
    compute_number_sort_key,
    index_pools,
)
from nexusform.planning.instances.block_planner import BlockPlanner
from nexusform.planning.instances.instance import Instance
from nexusform.planning.vm_planning import site_plans
from nexusform.planning.vm_planning.vm_object import (
    HardHint,
    VmObject,
    find_changed_argument,
    rank_names_by_age,
)
from nexusform.plans.plan import Action
from nexusform.resources.address import Address
from nexusform.resources.graph import sort_topologically
from nexusform.scheduling.racks.vms import Hint, HintScope
from nexusform.scheduling.site_inventory import MachineConflict, PlanInventory

# Owner of a hard hint, its index among the hints, and the attributes of its block.
_ConfiguredHint: TypeAlias = tuple[VmObject, int, Mapping[str, Any]]


class HintTargets:
    """Machines and racks by the `resource_id` of placement hints.

    A `resource_id` is the id of a VM, cluster, VNF, machine or rack.
    """

    def __init__(self, inventory: PlanInventory) -> None:
        """Index the machines and racks by id, as targets of hints.

        Objects with VMs are added later.
        """
        # (machine names, rack names) by id.
        self._hosts: dict[str, site_plans.Targets] = {}
        # Of machines with a block of their own, by rack id.
        names_by_rack: dict[str, set[str]] = {}
        for offer in inventory.machines.values():
            machine = offer.machine
            self._hosts[f"{offer.rack_id}/{machine.name}"] = (
                frozenset({machine.name}),
                frozenset({machine.rack}),
            )
            names_by_rack.setdefault(offer.rack_id, set()).add(machine.name)
        for rack in inventory.racks.values():
            rack_name = frozenset({rack.name})
            machine_names = names_by_rack.get(rack.id, set())
            for machine in rack.machines:
                machine_names.add(machine.name)
                self._hosts[f"{rack.id}/{machine.name}"] = (frozenset({machine.name}), rack_name)
            self._hosts[rack.id] = (frozenset(machine_names), rack_name)
        self._objects: dict[str, VmObject] = {}  # by id
        # By id, then by owner of the hint.
        self._hints_by_target: dict[str, dict[Address, list[_ConfiguredHint]]] = {}

    def add_objects(self, objects: Iterable[VmObject]) -> None:
        """Add the VMs of `objects` as possible targets of hints.

        Their own hard hints are added by target.
        """
        for vm_object in objects:
            values = vm_object.instance.argument_values
            if values is not None and not vm_object.instance.is_removed:
                self._objects[vm_object.instance.type.build_id(values)] = vm_object
                # Its hard hints, in place of earlier ones.
                by_target: dict[str, list[_ConfiguredHint]] = {}
                for index, hint in _iterate_hard_hints(values):
                    if isinstance(hint["resource_id"], str):
                        by_target.setdefault(hint["resource_id"], []).append(
                            (vm_object, index, hint)
                        )
                for target, hints in by_target.items():
                    self._hints_by_target.setdefault(target, {})[vm_object.instance.address] = hints

    def list_incoming_hints(self, vm_object: VmObject) -> list[HardHint]:
        """Return hints for the VMs of an object from the hard hints of placed VMs.

        Only hints with this object as their target count. Affinity to a cluster means any of its
        VMs, so it restricts only an object with a single VM.
        """
        # No VM has a hard hint.
        if not self._hints_by_target:
            return []
        object_id = vm_object.instance.type.build_id(
            get_mapping(vm_object.instance.argument_values)
        )
        hints_by_owner = self._hints_by_target.get(object_id, {})
        is_single = sum(len(pool.numbers) for pool in vm_object.pools) == 1
        hints = []
        for owner, index, attributes in chain.from_iterable(hints_by_owner.values()):
            # Without a location yet, or its own hint.
            if not owner.placements.vms or owner is vm_object:
                continue
            # The target must be with, or away from, the owner's VMs.
            machines, racks = _collect_locations(owner)
            hint = Hint(
                is_affinity=attributes["hint_type"] == "Affinity",
                is_hard=True,
                scope=HintScope(attributes["scope"]),
                machines=machines,
                racks=racks,
                target=f"{owner.instance.address}, whose hint names it",
            )
            if is_single or not hint.is_affinity:
                first_vm = next(iter(owner.placements.vms.values()))
                # Its VMs stay.
                is_existing = not owner.request.actions.recreations
                hints.append(
                    HardHint(
                        owner.instance.address, first_vm.name, index, hint, is_existing=is_existing
                    )
                )
        return hints

    def list_own_hints(self, vm_object: VmObject) -> list[HardHint]:
        """Return the hard hints of an object with one VM.

        Each comes with the index of its `placement_hint` block.
        """
        # Its only pool.
        pool = vm_object.pools[0]
        hints_by_attributes = {
            (hint.target, hint.is_affinity, str(hint.scope)): hint
            for hint in pool.hints
            if hint.is_hard
        }
        hints = []
        for index, attributes in _iterate_hard_hints(get_mapping(vm_object.instance.config)):
            affinity = attributes["hint_type"] == "Affinity"
            hint = hints_by_attributes.get(
                (str(attributes["resource_id"]), affinity, attributes["scope"])
            )
            # None: its target has no location, so it had no effect.
            if hint is not None:
                own_hint = HardHint(
                    vm_object.instance.address, pool.names[0], index, hint, is_existing=False
                )
                # The VM with the hint is only about to be placed.
                hints.append(own_hint)
        return hints

    def __call__(self, resource_id: str) -> site_plans.Targets | None:
        """Return the names of the machines and racks of a hint's target.

        Return None if nothing has this id.
        """
        vm_object = self._objects.get(resource_id)
        return self._hosts.get(resource_id) if vm_object is None else _collect_locations(vm_object)


def _collect_locations(vm_object: VmObject) -> site_plans.Targets:
    """Return the names of the machines and racks of the VMs after the plan."""
    machines: set[str] = set()
    racks: set[str] = set()
    for vm in vm_object.placements.vms.values():
        machines.add(vm.placement.machine)
        racks.add(vm.placement.rack)
    return frozenset(machines), frozenset(racks)


def _iterate_hard_hints(values: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the hard `placement_hint` blocks of a VM with their indexes among all."""
    hints = values.get("placement_hint")
    for index, hint in enumerate(hints if isinstance(hints, list) else ()):
        if hint["scheduling_execution"] == "Hard":
            yield index, hint


class VmContext(Struct, frozen=True):
    """Context of placing the VMs of a plan.

    `prior_context` belongs to prior arguments, `current_context` to current ones; `hints` resolves
    hint targets. `healed_names` are the VMs to re-create by the address of their object (text),
    `explain` the (address, name) of VMs to explain; None = every placed VM.
    `is_recorded_machine(site, machine)` tells whether state contains the resource of a machine, and
    this plan does not merely forget it.
    """

    sites: Mapping[str, site_plans.SitePlan]
    prior_context: site_plans.ResourceTypeContext
    current_context: site_plans.ResourceTypeContext
    hints: HintTargets
    healed_names: Mapping[str, frozenset[str]]
    explain: frozenset[tuple[str, str]] | None
    is_recorded_machine: Callable[[str, str], bool]
    diagnostics: tuple[Diagnostic, ...] = ()


def build_vm_context(blocks: BlockPlanner) -> VmContext:
    """Build what all planners of VMs share.

    It has the sites of the racks and machines planned so far, the SKUs and the hints.
    """
    request = blocks.request
    selection = blocks.selection
    inventory = blocks.inventory
    if inventory.listings:
        recorded = request.recorded_machines
        # A planned rack is not built yet: its machines are not gone.
        inventory.recorded_machines = (
            _list_recorded_machines(blocks, includes_planned=False)
            if recorded is None
            else recorded
        )
    sites, clashes = site_plans.build_sites(inventory, request.split_choice, request.lost_machines)
    _set_recreated_machines(sites, blocks)
    skus, problems = site_plans.collect_vm_skus(request, inventory)
    hints = HintTargets(inventory)
    machines = {site.id: tuple(site.machines.values()) for site in sites.values()}
    names_to_heal = {
        str(address): selection.list_healed_vms(address) for address in blocks.prior.instances
    }
    return VmContext(
        sites=sites,
        prior_context=site_plans.build_prior_context(
            blocks.prior, skus, request.registries.resource_types, inventory.site_skus
        ),
        current_context=site_plans.ResourceTypeContext(
            skus, find_targets=hints, sites=machines, site_skus=inventory.site_skus
        ),
        hints=hints,
        healed_names=names_to_heal if selection.heal else {},
        # None: every VM.
        explain=None if request.includes_rejections else frozenset(request.explain),
        is_recorded_machine=_build_machine_lookup(blocks),
        diagnostics=(
            *[_build_duplicate_machine_error(clash, blocks.instances) for clash in clashes],
            *problems,
        ),
    )


def _set_recreated_machines(sites: Mapping[str, site_plans.SitePlan], blocks: BlockPlanner) -> None:
    """Set the machines re-created by this plan in their sites."""
    missing_addresses = (
        blocks.prior.state.instances.keys() - blocks.prior.instances.keys()
    )  # deleted elsewhere
    destroyed = [instance for instance in blocks.instances.values() if instance.is_destroyed]
    if not missing_addresses and not destroyed:
        # No machine disappears.
        return
    from nexusform.planning.vm_planning.machine_recreation import find_recreated_machines

    for site_id, machines in find_recreated_machines(blocks, sites).items():
        sites[site_id].recreated_machines = machines


def build_destroy_context(blocks: BlockPlanner) -> VmContext:
    """Build the context of a destroy plan.

    It has no sites, because nothing is placed.
    """
    skus, _ = site_plans.collect_vm_skus(blocks.request, blocks.inventory)
    before = site_plans.build_prior_context(
        blocks.prior, skus, blocks.request.registries.resource_types, blocks.inventory.site_skus
    )
    is_recorded_machine = _build_machine_lookup(blocks)
    return VmContext(
        sites={},
        prior_context=before,
        current_context=before,
        hints=HintTargets(blocks.inventory),
        healed_names={},
        explain=frozenset(),
        is_recorded_machine=is_recorded_machine,
    )


def _build_machine_lookup(blocks: BlockPlanner) -> Callable[[str, str], bool]:
    """Return a check whether a machine stays managed or is destroyed by this plan.

    The check takes site id and name of a machine in state. A forgotten machine only
    leaves the state.

    Its first call reads the state.
    """
    list_machines_once = cache(partial(_list_recorded_machines, blocks))
    return lambda site_id, machine: (site_id, machine) in list_machines_once()


def _list_recorded_machines(
    blocks: BlockPlanner, *, includes_planned: bool = True
) -> frozenset[tuple[str, str]]:
    """Return the machines (site, name) in state, without those of forgotten objects.

    They are no longer managed. Without `includes_planned`, only machines of active
    racks are returned.
    """
    forgotten = {
        candidate.address
        for candidate in blocks.instances.values()
        if candidate.action is Action.FORGET
    }
    objects = blocks.prior.state.list_current_objects()
    recorded = [(address, current) for address, current in objects if address not in forgotten]
    inventory = site_plans.build_object_inventory(
        recorded, blocks.request.registries.resource_types
    )
    return site_plans.list_machines(inventory, includes_planned=includes_planned)


def _build_duplicate_machine_error(
    clash: MachineConflict, instances: Mapping[Address, Instance]
) -> Diagnostic:
    """Build the error for two descriptions of one machine or slot.

    The error is at the second description if that is a block of the plan.
    """
    if clash.attribute == "name":
        detail = (
            f'The machine "{clash.name}" exists twice on site {clash.site_id}: {clash.first} and '
            f"{clash.second} both describe it. Site and name identify a machine; rename or remove "
            "one of them."
        )
    else:
        detail = (
            f"{clash.first} and {clash.second} describe the same slot of one rack. Change one of "
            "the slots."
        )
    instances_by_text = {str(address): instance for address, instance in instances.items()}
    second = instances_by_text.get(clash.second)
    if second is None:
        return build_error("duplicate-machine", detail)
    # A rack describes its machines elsewhere.
    has_argument = second.type.kind is PlanningKind.MACHINE
    return second.build_error(
        "duplicate-machine", detail, path=(clash.attribute,) if has_argument else ()
    )


def compute_demand(vm_object: VmObject, context: VmContext) -> tuple[VmDemand, list[Diagnostic]]:
    """Return the demand of an instance (NO_DEMAND if removed or invalid), and problems.

    Errors make it invalid.
    """
    instance = vm_object.instance
    handlers = instance.type.vms
    assert handlers is not None
    attributes = instance.argument_values
    if instance.is_removed or instance.is_invalid or attributes is None:
        return NO_DEMAND, []
    demand, problems = handlers.build_demand(attributes, context.current_context, instance.address)
    diagnostics = instance.build_diagnostics(problems)
    if demand is None:
        instance.is_invalid = True
        return NO_DEMAND, diagnostics
    site = context.sites.get(demand.site_id)
    # A platform chooses the machines there.
    if site is not None and site.scheduler.profile.platform:
        pools = _sort_pools(demand.pools)
        demand = replace(demand, provenance="predicted", pools=pools)
    elif site is not None:
        # Requests that the site ignores must not distinguish its VMs.
        pools = tuple(
            replace(pool, constraints=pool.constraints.remove_platform_requests())
            for pool in demand.pools
        )
        demand = replace(demand, pools=pools)
    demand = replace(demand, unread=tuple(_list_unread_facts(demand, vm_object, site)))
    # Nothing changes outside the selection.
    if instance.block is None:
        return demand, diagnostics
    target_diagnostics = instance.build_diagnostics(
        _check_demand_targets(demand, vm_object, context)
    )
    diagnostics += target_diagnostics
    if has_errors(target_diagnostics):
        instance.is_invalid = True
        return NO_DEMAND, diagnostics
    return demand, diagnostics


def _sort_pools(pools: Sequence[PoolDemand]) -> tuple[PoolDemand, ...]:
    """Return the pools of an object on a platform of its own: after awaited ones, by name.

    Their order in a document has no meaning there, so it must not change the plan.
    """
    by_name = index_pools(pools)
    position = {name: index for index, name in enumerate(sorted(by_name))}
    awaited = {
        name: [other for other in pool.awaited if other in by_name and other != name]
        for name, pool in by_name.items()
    }
    order = sort_topologically(awaited, position)
    # Heat rejects a cycle; its pools come last, in no order.
    cyclic = by_name.keys() - set(order)
    return (
        *(by_name[name] for name in order),
        *(replace(by_name[name], awaited=()) for name in sorted(cyclic)),
    )


def _list_unread_facts(
    demand: VmDemand, vm_object: VmObject, site: site_plans.SitePlan | None
) -> Iterator[Doubt]:
    """Yield the unread facts about the VMs of a demand, each with its resource and site.

    They are those of its documents, and those that the site's profile needs for a pool.
    """
    address = str(vm_object.instance.address)
    platform = site.scheduler.profile.platform if site is not None else ""
    for fact in demand.unread:
        if not platform or fact.reading_platform != platform:
            yield replace(fact, address=address, site_id=demand.site_id)
    if site is None:
        return
    for pool in demand.pools:
        fact_of_pool = site.scheduler.profile.find_unread_fact(pool.sku, pool.constraints)
        if fact_of_pool is not None:
            yield replace(fact_of_pool, address=address, site_id=demand.site_id, pool=pool.pool)


def keep_existing_numbers(pool: PoolDemand, cluster: str, vm_object: VmObject) -> PoolDemand:
    """Return a pool with the numbers of its remaining VMs, then the lowest free numbers.

    A platform chooses the VMs to remove, so the numbers may have gaps: VMs after a gap stay. The
    highest numbers leave first, or the newest VMs. Example: of the VMs 0, 2 and 5, a count of 2
    keeps 0 and 2, and a count of 4 adds number 1.
    """
    # With and without a machine.
    prior_keys = (*vm_object.prior.existing, *vm_object.prior.unplaced)
    existing_numbers = [number for name, number in prior_keys if name == pool.pool]
    if not (pool.removes_newest or pool.count_path) or set(existing_numbers) <= set(pool.numbers):
        # Without a count (plain VMs and VNFs), or no VM has a number above the count.
        return pool
    kept_numbers = sorted(existing_numbers, key=compute_number_sort_key)
    if pool.removes_newest:
        # VMs of an unrecorded age count as the oldest.
        ages = rank_names_by_age(vm_object.instance.prior_note)
        kept_numbers.sort(key=lambda number: ages.get(f"{cluster}-{pool.pool}-{number}", -1))
    size = len(pool.numbers)
    kept_numbers = kept_numbers[:size]
    free_numbers = sorted(set(pool.numbers).difference(kept_numbers), key=compute_number_sort_key)
    numbers = sorted(
        [*kept_numbers, *free_numbers[: size - len(kept_numbers)]], key=compute_number_sort_key
    )
    return replace(
        pool,
        numbers=tuple(numbers),
        names=tuple(f"{cluster}-{pool.pool}-{number}" for number in numbers),
    )


def _check_demand_targets(
    demand: VmDemand, vm_object: VmObject, context: VmContext
) -> Iterator[Problem]:
    """Yield errors for missing sites, zones and machines, and warnings for facts.

    These are facts that the placement rule lacks. A missing zone is only a warning if the existing
    VMs can stay.
    """
    site = context.sites.get(demand.site_id)
    if site is None:
        known_ids = sorted(context.sites)
        hint = suggest_name(demand.site_id, known_ids)
        # With -target, the configuration may have others.
        known_text = (
            f" Known sites: {', '.join(known_ids)}."
            if known_ids
            else " This plan has no site. Write a reference such as nexus_site.NAME.id, so that "
            "-target includes the site."
        )
        # A pool with its own resource has the site of its cluster.
        path = () if demand.parent_id else ("site_id",)
        yield Problem(
            path, "unknown-site", f'No site has the id "{demand.site_id}".{hint}{known_text}'
        )
        return
    zones = site.list_zones()
    for pool in demand.pools:
        fact = site.scheduler.profile.find_unread_fact(pool.sku, pool.constraints)
        if fact is not None:
            yield Problem(pool.path, "uncertain-placement", fact.reason, Severity.WARNING)
        missing_zones = sorted(pool.configured_zones - set(zones))
        if missing_zones:
            problem = _build_unknown_zones_problem(pool, demand.site_id, missing_zones, zones)
            yield (
                replace(problem, severity=Severity.WARNING)
                if _can_vms_stay(pool, vm_object, site)
                else problem
            )
        if pool.pinned_machine and pool.pinned_machine not in site.machines:
            hint = suggest_name(pool.pinned_machine, site.machines)
            detail = f'Site {site.id} has no machine "{pool.pinned_machine}".{hint}'
            yield Problem(("machine",), "unknown-machine", detail)


def _can_vms_stay(pool: PoolDemand, vm_object: VmObject, site: site_plans.SitePlan) -> bool:
    """Return whether the VMs of a pool with missing zones can stay.

    They can stay if the zones are the same and no machine is removed.
    """
    zones_before = {prior.pool: prior.zones for prior in vm_object.prior_pools}
    if pool.pool not in zones_before or zones_before[pool.pool] != pool.zones:
        return False
    machines = {
        vm.placement.machine for vm in vm_object.prior.existing.values() if vm.pool == pool.pool
    }
    return machines <= site.machines.keys()


def _build_unknown_zones_problem(
    pool: PoolDemand, site_id: str, missing: Iterable[str], zones: Iterable[str]
) -> Problem:
    """Build the problem of `missing` zones requested by a pool, with the `zones` of the site."""
    zone_text = ", ".join(f'"{zone}"' for zone in zones) or "none"
    names = ", ".join(f'"{zone}"' for zone in missing)
    return Problem(
        (*pool.path, "availability_zones"),
        "unknown-availability-zone",
        f"No rack of site {site_id} is in zone {names}. Zones of the site: {zone_text}. Use one of "
        "these, or omit availability_zones to allow all.",
    )


def check_system_pools(objects: Sequence[VmObject]) -> Iterator[Diagnostic]:
    """Check that each cluster has a System pool at all times, as Azure requires.

    A System pool is an agent pool of mode System. A change that re-creates the VMs of a pool
    deletes and creates the pool. For the only System pool, this is an error. A plan that leaves a
    cluster without any System pool gets a warning. New and replaced clusters are not checked.
    """
    # The numbers of System pools by cluster.
    before: Counter[str] = Counter()
    after: Counter[str] = Counter()
    for vm_object in objects:
        before[vm_object.prior.demand.owner] += sum(
            pool.is_system for pool in vm_object.prior_pools
        )
        after[vm_object.request.demand.owner] += sum(pool.is_system for pool in vm_object.pools)
    # New, removed, unselected and replaced objects do not change single pools.
    remaining = [
        vm_object
        for vm_object in objects
        if vm_object.pools
        and vm_object.instance.block is not None
        and not vm_object.instance.is_replaced
    ]
    for vm_object in remaining:
        # Else another System pool stays meanwhile, or there was none.
        if before[vm_object.prior.demand.owner] == 1:
            yield from _check_only_system_pool(vm_object)
    for vm_object in remaining:
        prior = vm_object.prior.demand
        # Pools in blocks of their own have a parent, and count for their cluster.
        if before[prior.owner] and not after[prior.owner] and not prior.parent_id:
            detail = (
                f"The change leaves {prior.cluster} without a pool of mode System. Azure does not "
                "delete the last one. Keep one, or add another."
            )
            warning = Problem((), "system-pools-removed", detail, Severity.WARNING)
            yield vm_object.instance.build_diagnostic(warning)


def _check_only_system_pool(vm_object: VmObject) -> Iterator[Diagnostic]:
    """Yield an error if a changed argument replaces the only System pool of a cluster.

    The pool with its VMs is deleted and created, even if these VMs are re-created
    for another reason.
    """
    requested_pools = index_pools(vm_object.pools)
    pools_with_vms = {name for name, _ in vm_object.prior.existing}
    for pool in vm_object.prior.demand.pools:
        if not pool.is_system or pool.pool not in requested_pools.keys() & pools_with_vms:
            # A removed pool is reported by a warning.
            continue
        if find_changed_argument(pool, requested_pools[pool.pool]):
            yield vm_object.instance.build_error(
                "last-system-pool-replacement",
                f"The change deletes and creates {pool.pool}, the only pool of "
                f"{vm_object.prior.demand.cluster} with mode System. A cluster always needs one. "
                "Use two steps: add a second pool with mode System and apply; then change "
                f"{pool.pool} and apply again.",
                pool.path,
            )
