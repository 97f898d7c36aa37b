"""Consistency of a state: its objects agree, and VMs are on existing cells of their machines.

Observed placements are never errors.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, TypeAlias

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic, build_error, build_warning
from nexusform.diagnostics.phrases import format_first_items, group_by
from nexusform.domain_table import explain_absent_domain
from nexusform.interfaces.plugins import ResourceType
from nexusform.json_data.plain_data import get_text
from nexusform.placements.vm_demands import OBSERVED, PlacedVm, VmDemand, index_pools
from nexusform.planning.preparation.planning_order import index_owners
from nexusform.planning.preparation.prior_state import PriorState, iterate_vm_owners
from nexusform.planning.vm_planning.site_plans import (
    build_object_inventory,
    build_recorded_context,
    build_sites,
    find_sku,
)
from nexusform.plans.site_capacity.occupancy import add_unread_facts
from nexusform.resources.address import Address
from nexusform.resources.graph import sort_topologically
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.vms import MIB_PER_GIB, Machine, VmName, VmSku
from nexusform.scheduling.site_inventory import PlanInventory
from nexusform.state.objects import ObjectState, State

MAXIMUM_NAMED: Final = 20
# Site and name.
_MachineKey: TypeAlias = tuple[str, str]


class _StateVm(Struct, frozen=True):
    address: Address
    demand: VmDemand
    vm: PlacedVm
    sku: VmSku | None  # None: unknown

    @property
    def display_name(self) -> str:
        return f'the VM "{self.vm.name}" of {self.address}'


def check_consistency(
    state: State, types: Mapping[str, ResourceType], providers: Collection[str]
) -> list[Diagnostic]:
    """Return errors for contradictions in the state, and warnings about NUMA cells.

    The warnings are about impossible or overcommitted cells. `providers` are the known
    kinds of providers.
    """
    machines = index_state_machines(state, types)
    vms = list(_iterate_vms(state, types))
    declared_skus = {sku.name for sku in build_state_inventory(state, types).skus.values()}
    cell_findings = list(_check_cells(vms, machines, declared_skus))
    contradicting_cells = [reason for reason, is_contradiction in cell_findings if is_contradiction]
    impossible_cells = [
        reason for reason, is_contradiction in cell_findings if not is_contradiction
    ]
    contradictions = [  # sentences
        *_check_creation_numbers(state),
        *_check_unknown_provider_kinds(state, providers),
        *_check_dependency_cycles(state),
        *_check_duplicates(state, types, vms),
        *contradicting_cells,
    ]
    problems = [_build_contradiction_error(text) for text in contradictions[:MAXIMUM_NAMED]]
    if len(contradictions) > MAXIMUM_NAMED:
        unnamed_count = len(contradictions) - MAXIMUM_NAMED
        problems.append(
            _build_contradiction_error(f"{unnamed_count} more parts of it are invalid.")
        )
    if impossible_cells:
        more = (
            f" {len(impossible_cells) - 1} more are impossible."
            if len(impossible_cells) > 1
            else ""
        )
        cell_warning = build_warning(
            "impossible-numa-cells",
            f"{impossible_cells[0]}{more} The platform reported it, or the hardware or SKU "
            "changed. These cells count as unknown, and the capacity stays reserved. To re-place "
            "the VMs, evacuate the machine.",
        )
        problems.append(cell_warning)
    overcommitted = {
        **_find_overcommitted(vms, machines),
        **dict.fromkeys(_find_impossible_layouts(vms, machines)),
    }
    if overcommitted:
        counts = Counter(name for _, name in overcommitted)
        names = (
            name if counts[name] == 1 else f"{name} ({site_id})" for site_id, name in overcommitted
        )
        overcommit_warning = build_warning(
            "overcommitted-site",
            f"A cell runs more VMs than fit, on {_format_names(names)}. Causes: a smaller machine, "
            "an import, a pinned VM, or an edited state. The VMs are counted; the cells accept no "
            "new VM until they have capacity again.",
        )
        problems.append(overcommit_warning)
    return problems


def check_missing_dependencies(state: State) -> list[Diagnostic]:
    """Return a warning per block with dependents, but no object of its own, in state.

    It may have no instance.
    """
    blocks = {str(address.config_address) for address in state.instances}
    dependencies = (
        (str(address), current.dependencies) for address, current in state.list_current_objects()
    )
    dependents_by_block = index_owners(dependencies)
    return [
        build_warning(
            "missing-dependency",
            f"{_format_names(addresses)} depends on {block}, which has no object. The next apply "
            "updates its dependencies.",
        )
        for block, addresses in dependents_by_block.items()
        if block not in blocks
    ]


def check_missing_machines(state: State, types: Mapping[str, ResourceType]) -> list[Diagnostic]:
    """Return one warning about all VMs on machines not offered by any resource in state.

    Return [] without such VMs.
    """
    machines = index_state_machines(state, types)
    # Names of VMs.
    by_machine: dict[str, list[str]] = {}
    for state_vm in _iterate_vms(state, types):
        machine = state_vm.vm.placement.machine
        if machine and (state_vm.demand.site_id, machine) not in machines:
            by_machine.setdefault(machine, []).append(state_vm.display_name)
    if not by_machine:
        return []
    vm_text = _format_names(chain.from_iterable(by_machine.values()))
    return [
        build_warning(
            "vms-without-machine",
            f"No rack or machine of the state offers {_format_names(by_machine)}, which run "
            f"{vm_text}. Import the rack with `nexusform import ADDRESS ID`, or let the next plan "
            "create it from the configuration.",
        )
    ]


def _format_names(names: Iterable[str]) -> str:
    return format_first_items(list(names), MAXIMUM_NAMED)


def _build_contradiction_error(contradiction: str) -> Diagnostic:
    return build_error(
        "inconsistent-state",
        f"{contradiction} The state was edited by hand or damaged. `nexusform state history` lists "
        "its versions; `nexusform state rollback SERIAL` restores one.",
    )


def _check_creation_numbers(state: State) -> Iterator[str]:
    """Yield contradictions for objects with the same creation number."""
    name_by_number: dict[int, str] = {}
    for address, instance in state.instances.items():
        objects: dict[str, ObjectState] = {}
        for key, deposed in instance.deposed.items():
            objects[f"the deposed object {key} of {address}"] = deposed
        if instance.current is not None:
            objects[str(address)] = instance.current
        for name, recorded in objects.items():
            first = name_by_number.setdefault(recorded.creation, name)
            if first != name:
                yield f"Both {first} and {name} have the creation number {recorded.creation}."


def _check_unknown_provider_kinds(state: State, providers: Collection[str]) -> Iterator[str]:
    """Yield contradictions for objects of an unknown kind of provider."""
    for address, current in state.list_current_objects():
        name = current.provider.partition(".")[0]
        if name not in providers:
            yield (
                f'{address} was created by the provider "{current.provider}", which does not exist.'
                f"{explain_absent_domain(name, 'providers')}"
            )


def _check_dependency_cycles(state: State) -> Iterator[str]:
    """Yield one contradiction with all blocks in a cycle, or depending on one."""
    needs: dict[str, set[str]] = {}
    for address, current in state.list_current_objects():
        block = str(address.config_address)
        needs.setdefault(block, set()).update(current.dependencies)
    # A block may need itself, or blocks that are no longer in the state.
    other_needs = {
        block: (block_needs & needs.keys()) - {block} for block, block_needs in needs.items()
    }
    position = {block: index for index, block in enumerate(other_needs)}
    sortable_blocks = set(sort_topologically(other_needs, position))
    cyclic = [block for block in other_needs if block not in sortable_blocks]
    if cyclic:
        yield f"These objects depend on each other in a cycle: {_format_names(cyclic)}."


def _check_duplicates(
    state: State, types: Mapping[str, ResourceType], vms: Iterable[_StateVm]
) -> Iterator[str]:
    """Yield contradictions for objects with the same id, and VMs with the same name or number."""
    address_by_id: dict[Hashable, str] = {}
    for address, current in state.list_current_objects():
        object_id = get_text(current.attributes, "id")
        if object_id and address.type in types:
            first = address_by_id.setdefault((address.type, object_id), str(address))
            if first != str(address):
                yield f'{first} and {address} have the same id, "{object_id}".'
    vm_by_name: dict[Hashable, _StateVm] = {}
    vm_by_number: dict[Hashable, _StateVm] = {}
    for state_vm in vms:
        demand = state_vm.demand
        vm = state_vm.vm
        same_name = vm_by_name.setdefault((demand.owner, demand.site_id, vm.name), state_vm)
        if same_name is not state_vm:
            yield f"{state_vm.display_name} exists twice: also in {same_name.address}."
        same_number = vm_by_number.setdefault((state_vm.address, vm.pool, vm.number), state_vm)
        if same_number is not state_vm:
            names_of_both = f"{same_number.display_name} and {state_vm.display_name}"
            yield f"{names_of_both} have the same number in one pool, {vm.number}."


def build_state_inventory(state: State, types: Mapping[str, ResourceType]) -> PlanInventory:
    """Build the inventory offered by the objects of a state, with its unread facts."""
    inventory = build_object_inventory(state.list_current_objects(), types)
    for _, current in state.list_current_objects():
        add_unread_facts(inventory, current.attributes, current.private)
    return inventory


def index_state_machines(
    state: State, types: Mapping[str, ResourceType]
) -> dict[tuple[str, str], Machine]:
    """Return the machines offered by racks and machines of the state, by site and name."""
    sites, _ = build_sites(build_state_inventory(state, types))
    return {
        (site.id, name): machine
        for site in sites.values()
        for name, machine in site.machines.items()
    }


def _iterate_vms(state: State, types: Mapping[str, ResourceType]) -> Iterator[_StateVm]:
    """Yield the VMs of a state, each with its object's demand; without a SKU if it is unknown."""
    prior = PriorState(state, state.instances, by_block={}, previous={}, imports={}, diagnostics=())
    context = build_recorded_context(prior, types)
    for address, current, handlers in iterate_vm_owners(state.list_current_objects(), types):
        demand, _ = handlers.build_demand(current.attributes, context, address)
        if demand is None:  # invalid attributes
            continue
        pools = index_pools(demand.pools)
        for vm in handlers.list_existing_vms(current.attributes):
            pool = pools.get(vm.pool)
            # Otherwise `find_sku` assumes one.
            is_known = pool is not None or vm.sku_name in context.skus
            sku = find_sku(vm, pool, context.skus) if is_known else None
            yield _StateVm(address, demand, vm, sku)


def _check_cells(
    vms: Iterable[_StateVm], machines: Mapping[Any, Machine], declared_skus: Collection[str]
) -> Iterator[tuple[str, bool]]:
    """Yield (sentence, is_contradiction) per VM in impossible NUMA cells.

    A cell is missing or listed twice, or there are too many or too few. In a contradiction, only
    the state can be wrong. Otherwise the platform, the hardware or a SKU may explain it.
    """
    for state_vm in vms:
        is_planned = state_vm.vm.provenance != OBSERVED
        placement = state_vm.vm.placement
        cells = state_vm.vm.placement.cells
        if not cells:  # unknown cells
            continue
        machine = machines.get((state_vm.demand.site_id, placement.machine))
        missing_cells = [cell for cell in cells if machine is not None and cell >= machine.cells]
        if missing_cells:
            cell = missing_cells[0]
            name = state_vm.display_name
            yield (
                f"{placement.machine} has no cell {cell}, which the state records for {name}.",
                False,
            )
        elif len(set(cells)) != len(cells):
            yield f"{state_vm.display_name} is recorded twice in one cell.", is_planned
        elif state_vm.sku is not None and len(cells) != state_vm.sku.numa_cells:
            size = state_vm.sku.numa_cells
            # Of the catalogue: no resource changes it.
            has_fixed_size = state_vm.sku.name not in declared_skus
            reason = (
                f"{state_vm.display_name} is recorded in {len(cells)} cells, but its size needs "
                f"{size}."
            )
            yield reason, is_planned and has_fixed_size


def _find_overcommitted(
    vms: Iterable[_StateVm], machines: Mapping[_MachineKey, Machine]
) -> dict[_MachineKey, None]:
    """Return the keys of the machines with an overused NUMA cell, each once.

    More CPUs, memory or VFs are used than it has.
    """
    used: dict[tuple[str, str, int], list[VmSku]] = {}
    for state_vm in vms:
        if state_vm.sku is not None:
            for cell in state_vm.vm.placement.cells:
                key = state_vm.demand.site_id, state_vm.vm.placement.machine, cell
                used.setdefault(key, []).append(state_vm.sku)
    overcommitted: dict[_MachineKey, None] = {}
    for (site_id, name, _), skus in used.items():
        machine = machines.get((site_id, name))
        if machine is None:
            continue
        limits = (
            machine.cpus_per_cell,
            machine.vfs_per_cell,
            machine.memory_gib_per_cell * MIB_PER_GIB,
        )
        demands = [(sku.cpus_in_cell, sku.vfs_in_cell, sku.mib_in_cell) for sku in skus]
        # CPUs, VFs, MiB.
        totals = [sum(column) for column in zip(*demands, strict=True)]
        for total, limit in zip(totals, limits, strict=True):
            if total > limit:
                overcommitted[site_id, name] = None
    return overcommitted


def _find_impossible_layouts(
    vms: Iterable[_StateVm], machines: Mapping[_MachineKey, Machine]
) -> Iterator[_MachineKey]:
    """Yield the keys of the machines on which VMs in unknown NUMA cells do not fit.

    However they are laid out.

    VMs of an unknown SKU are not counted.
    """
    vms_by_machine = group_by(
        vms, lambda state_vm: (state_vm.demand.site_id, state_vm.vm.placement.machine)
    )
    for key, machine_vms in sorted(vms_by_machine.items()):
        has_unknown_cells = any(not state_vm.vm.placement.cells for state_vm in machine_vms)
        # The state lacks the machine, or the cells need no search.
        if key not in machines or not has_unknown_cells:
            continue
        scheduler = RackScheduler([machines[key]])
        for number, state_vm in enumerate(machine_vms):
            if state_vm.sku is not None:
                # Any name, different for each VM.
                name = VmName("existing", "existing", pool="", number=number)
                scheduler.add_existing(name, state_vm.sku, state_vm.vm.placement)
        # It has tried every layout.
        if scheduler.list_overfull_machines():
            yield key
