"""Whether what a state says can stand: its objects do not contradict each other, and its VMs are on cells
that their machines have. Places that were observed are never wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from msgspec import Struct

from nexusform.address import Address
from nexusform.demands import PlacedVm, VmDemand
from nexusform.diagnostics import Diagnostic, error, warning
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.vms.sites import build_sites, inventory_of, sku_of, surroundings_before
from nexusform.ports import ResourceType
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.vms import MIB_PER_GIB, Machine, VmName, VmSku
from nexusform.scheduling.world import Inventory
from nexusform.state.objects import ObjectState, State

MOST_NAMED: Final = 20
OBSERVED: Final = "observed"


class _StandingVm(Struct, frozen=True):
    address: Address
    demand: VmDemand
    vm: PlacedVm
    sku: VmSku | None  # None: nothing is known of it

    @property
    def name(self) -> str:
        return f'the VM "{self.vm.name}" of {self.address}'


def state_problems(
    state: State, types: Mapping[str, ResourceType], providers: Collection[str]
) -> list[Diagnostic]:
    """Errors for what cannot be, a warning for machines that hold more than they have. `providers` are the
    kinds of provider that there are.
    """
    machines = standing_machines(state, types)
    vms = list(_standing_vms(state, types))
    odd_cells = list(_cells(vms, machines))
    contradictions = [
        *_creation_numbers(state),
        *_providers(state, providers),
        *_circle(state),
        *_twice(state, types, vms),
        *[why for standing, why in odd_cells if standing.vm.provenance != OBSERVED],
    ]
    problems = [_contradiction(text) for text in contradictions[:MOST_NAMED]]
    if len(contradictions) > MOST_NAMED:
        problems.append(_contradiction(f"{len(contradictions) - MOST_NAMED} more of its parts cannot be so."))
    impossible = [why for standing, why in odd_cells if standing.vm.provenance == OBSERVED]
    if impossible:
        problems.append(_impossible_warning(impossible))
    overfull = [*_overfull(vms, machines), *_without_split(vms, machines)]
    if overfull:
        problems.append(_overfull_warning(overfull))
    return problems


def dependencies_on_nothing(state: State) -> list[Diagnostic]:
    """A warning per block that something depends on and of which nothing stands. It may have no instance."""
    blocks = {str(address.config) for address in state.instances}
    gone: dict[str, list[str]] = {}
    for address, current in _objects(state):
        for block in current.dependencies:
            if block not in blocks:
                gone.setdefault(block, []).append(str(address))
    return [
        warning(
            "dependency-on-what-is-gone",
            f"{_listed(addresses)} is said to depend on {block}, of which nothing stands. The next "
            "apply writes its dependencies anew.",
        )
        for block, addresses in gone.items()
    ]


def vms_on_no_machine(state: State, types: Mapping[str, ResourceType]) -> list[Diagnostic]:
    """A warning about VMs on machines that nothing in the state offers, as after `state rm` of a rack."""
    machines = standing_machines(state, types)
    missing: dict[str, list[str]] = {}
    for standing_vm in _standing_vms(state, types):
        machine = standing_vm.vm.placement.machine
        if machine and (standing_vm.demand.site_id, machine) not in machines:
            missing.setdefault(machine, []).append(standing_vm.name)
    if not missing:
        return []
    standing = _listed(chain.from_iterable(missing.values()))
    return [
        warning(
            "vms-without-a-machine",
            f"No rack or machine of the state offers {_listed(missing)}, where these stand: {standing}. "
            "`nexusform import ADDRESS ID` takes a rack back; the next plan makes one that is only written "
            "in the configuration.",
        )
    ]


def _contradiction(said: str) -> Diagnostic:
    return error(
        "the-state-contradicts-itself",
        f"{said} Somebody changed the state by hand, or it was damaged. `nexusform state history` lists the "
        "versions that are kept, and `nexusform state rollback SERIAL` goes back to one.",
    )


def _listed(names: Iterable[str]) -> str:
    """The first names, and how many more there are."""
    all_names = list(names)
    beyond = len(all_names) - MOST_NAMED
    return ", ".join(all_names[:MOST_NAMED]) + (f" and {beyond} more" if beyond > 0 else "")


def _objects(state: State) -> Iterator[tuple[Address, ObjectState]]:
    """The current objects."""
    for address, instance in state.instances.items():
        if instance.current is not None:
            yield address, instance.current


# --- objects -----------------------------------------------------------------------------------


def _creation_numbers(state: State) -> Iterator[str]:
    """Objects that have the same creation number."""
    first_with: dict[int, str] = {}
    for address, instance in state.instances.items():
        objects: dict[str, ObjectState] = {}
        for key, deposed in instance.deposed.items():
            objects[f"the deposed object {key} of {address}"] = deposed
        if instance.current is not None:
            objects[str(address)] = instance.current
        for name, standing in objects.items():
            first = first_with.setdefault(standing.creation, name)
            if first != name:
                yield f"Both {first} and {name} have the creation number {standing.creation}."


def _providers(state: State, providers: Collection[str]) -> Iterator[str]:
    """Objects made by a provider of a kind that is not among these."""
    for address, current in _objects(state):
        if current.provider.partition(".")[0] not in providers:
            yield f'{address} was made by the provider "{current.provider}", which there is not.'


def _circle(state: State) -> Iterator[str]:
    """The blocks that depend on each other in a circle, or on such."""
    needs: dict[str, set[str]] = {}
    for address, current in _objects(state):
        block = str(address.config)
        needs.setdefault(block, set()).update(current.dependencies)
    open_needs = {block: (named & needs.keys()) - {block} for block, named in needs.items()}
    needed_by: dict[str, list[str]] = {}
    for block, named in open_needs.items():
        for need in named:
            needed_by.setdefault(need, []).append(block)
    # Blocks whose needs are all done are done in turn; those that are left wait for each other.
    ready = [block for block, named in open_needs.items() if not named]
    while ready:
        done = ready.pop()
        for block in needed_by.get(done, ()):
            open_needs[block].discard(done)
            if not open_needs[block]:
                ready.append(block)
    stuck = [block for block, named in open_needs.items() if named]
    if stuck:
        yield f"These depend on each other in a circle: {_listed(stuck)}."


def _twice(state: State, types: Mapping[str, ResourceType], vms: Iterable[_StandingVm]) -> Iterator[str]:
    """Objects of one id, and VMs of one name or number."""
    ids: dict[Hashable, str] = {}
    for address, current in _objects(state):
        object_id = current.attributes.get("id")
        if isinstance(object_id, str) and object_id and address.type in types:
            first = ids.setdefault((address.type, object_id), str(address))
            if first != str(address):
                yield f'{first} and {address} have the same id, "{object_id}".'
    names: dict[Hashable, _StandingVm] = {}
    numbers: dict[Hashable, _StandingVm] = {}
    for standing in vms:
        demand, vm = standing.demand, standing.vm
        same_name = names.setdefault((demand.owner, demand.site_id, vm.name), standing)
        if same_name is not standing:
            yield f"There are two of {standing.name}: the other is of {same_name.address}."
        same_number = numbers.setdefault((standing.address, vm.pool, vm.number), standing)
        if same_number is not standing:
            yield f"{same_number.name} and {standing.name} have the same number in one pool, {vm.number}."


# --- VMs on machines ---------------------------------------------------------------------------


def standing_inventory(state: State, types: Mapping[str, ResourceType]) -> Inventory:
    """What racks, machines and whatever else offers something of the state offer."""
    return inventory_of(((address, current.attributes) for address, current in _objects(state)), types)


def standing_machines(state: State, types: Mapping[str, ResourceType]) -> dict[tuple[str, str], Machine]:
    """The machines that racks and machines of the state offer, by site and name."""
    sites, _ = build_sites(standing_inventory(state, types))
    machines: dict[tuple[str, str], Machine] = {}
    for site in sites.values():
        machines |= {(site.id, name): machine for name, machine in site.machines.items()}
    return machines


def _standing_vms(state: State, types: Mapping[str, ResourceType]) -> Iterator[_StandingVm]:
    """The VMs of a state, each with what its object asks for; without a SKU where nobody knows it."""
    skus = CATALOGUES.get(state.catalogue, CATALOGUES[NEWEST]).vm_skus
    surroundings = surroundings_before(Prior(state, state.instances, {}, {}, {}, ()), skus, types)
    for address, current in _objects(state):
        resource_type = types.get(address.type)
        if resource_type is None or resource_type.vms is None:
            continue
        demand, _ = resource_type.vms.demand(current.attributes, surroundings, address)
        if demand is None:
            continue
        pools = {pool.pool: pool for pool in demand.pools}
        for vm in resource_type.vms.standing(current.attributes):
            pool = pools.get(vm.pool)
            is_known = pool is not None or vm.sku_name in surroundings.skus
            sku = sku_of(vm, pool, surroundings.skus) if is_known else None
            yield _StandingVm(address, demand, vm, sku)


def _cells(vms: Iterable[_StandingVm], machines: Mapping[Any, Machine]) -> Iterator[tuple[_StandingVm, str]]:
    """The VMs that are said to be in cells in which they cannot be, and why not."""
    for standing in vms:
        cells, place = standing.vm.placement.cells, standing.vm.placement
        if not cells:
            continue
        machine = machines.get((standing.demand.site_id, place.machine))
        lacking = [cell for cell in cells if machine is not None and cell >= machine.cells]
        if lacking:
            yield standing, f"{place.machine} has no cell {lacking[0]}, where {standing.name} is said to be."
        elif len(set(cells)) != len(cells):
            yield standing, f"{standing.name} is said to be twice in one cell."
        elif standing.sku is not None and len(cells) != standing.sku.numa_cells:
            size = standing.sku.numa_cells
            yield standing, f"{standing.name} is said to be in {len(cells)} cells, and its size takes {size}."


def _overfull(vms: Iterable[_StandingVm], machines: Mapping[tuple[str, str], Machine]) -> Iterator[str]:
    """The machines of which a cell holds more than it has."""
    cpus: Counter[tuple[str, str, int]] = Counter()
    memory: Counter[tuple[str, str, int]] = Counter()
    vfs: Counter[tuple[str, str, int]] = Counter()
    for standing in vms:
        where = standing.demand.site_id, standing.vm.placement.machine
        if standing.sku is not None and where in machines:
            for cell in standing.vm.placement.cells:
                cpus[*where, cell] += standing.sku.cpus_in_cell
                memory[*where, cell] += standing.sku.mib_in_cell
                vfs[*where, cell] += standing.sku.vfs_in_cell
    overfull = set()
    for site_id, name, cell in cpus:
        machine = machines[site_id, name]
        beyond = cpus[site_id, name, cell] > machine.cpus_per_cell
        beyond |= vfs[site_id, name, cell] > machine.vfs_per_cell
        beyond |= memory[site_id, name, cell] > machine.memory_gib_per_cell * MIB_PER_GIB
        if beyond and name not in overfull:
            overfull.add(name)
            yield name


def _without_split(vms: Iterable[_StandingVm], machines: Mapping[tuple[str, str], Machine]) -> Iterator[str]:
    """The machines on which VMs whose cells nobody told cannot lie in any way."""
    by_site: dict[str, list[_StandingVm]] = {}
    for standing in vms:
        by_site.setdefault(standing.demand.site_id, []).append(standing)
    for site_id, on_site in sorted(by_site.items()):
        without_cells = [
            standing.vm for standing in on_site if standing.sku and not standing.vm.placement.cells
        ]
        loose_names = sorted({vm.placement.machine for vm in without_cells})
        loose = [machines[site_id, name] for name in loose_names if (site_id, name) in machines]
        scheduler = RackScheduler(loose)
        names = {machine.name for machine in loose}
        for number, standing in enumerate(on_site):
            place = standing.vm.placement
            if standing.sku is not None and place.machine in names:
                scheduler.occupy(VmName("standing", "standing", "", number), standing.sku, place)
        yield from scheduler.overfull_machines()


def _impossible_warning(said: list[str]) -> Diagnostic:
    more = f" {len(said) - 1} more are so." if len(said) > 1 else ""
    return warning(
        "cells-that-cannot-be",
        f"{said[0]}{more} That was observed. These cells count as not known, and the room is held.",
    )


def _overfull_warning(names: list[str]) -> Diagnostic:
    return warning(
        "more-stands-than-fits",
        f"More VMs are said to stand in a cell than it has room for, on {_listed(names)}. That is so after a "
        "machine was made smaller, an import or a pinned VM; otherwise somebody changed the state. They "
        "are counted; the cells take no new VM until there is room again.",
    )
