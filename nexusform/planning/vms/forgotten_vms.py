"""VMs that run on though nobody manages them any more: the rack or machine that they stand on notes them, so
that later plans give their room to nobody (docs/decisions/0012).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec.structs import replace

from nexusform.address import Address
from nexusform.demands import PlacedVm
from nexusform.planning.instances.blocks import Blocks
from nexusform.planning.vms.sites import Thing, lay_ground, sku_of
from nexusform.planning.vms.vm_object import VmObject
from nexusform.planning.vms.vm_world import VmWorld
from nexusform.plans.room.occupancy import note_of
from nexusform.ports import FORGOTTEN, UNMANAGED, Registries
from nexusform.scheduling.racks.vms import VmSku
from nexusform.scheduling.world import Occupied
from nexusform.state.objects import InstanceState, State

Note: TypeAlias = Mapping[str, Any]


def note_forgotten(objects: Iterable[VmObject], blocks: Blocks, world: VmWorld) -> None:
    """Let what makes their machines note the VMs that this plan forgets."""
    by_text = {str(address): instance for address, instance in blocks.instances.items()}
    forgotten: dict[str, list[Occupied]] = {}  # by what makes their machine
    for vms in objects:
        site = world.sites.get(vms.before.demand.site_id) if vms.before.demand is not None else None
        pools = {pool.pool: pool for pool in vms.prior_pools}
        for key in vms.asked.moves.forgotten:
            vm = vms.before.standing.get(key)
            maker = site.offered_by.get(vm.placement.machine) if site is not None and vm is not None else None
            if vm is not None and maker is not None:
                sku = sku_of(vm, pools.get(vm.pool), world.before.skus)
                forgotten.setdefault(maker, []).append(_occupied(vm, sku))
    for maker, left in forgotten.items():
        instance = by_text[maker]
        noted = instance.prior.private if instance.prior is not None else None
        instance.private = _with(instance.private or noted, left)


def remembering(state: State, removed: Collection[Address], registries: Registries) -> State:
    """The state, in which racks and machines note the VMs of objects that are `removed` from it."""
    present = [(address, each.current) for address, each in state.instances.items() if each.current]
    things = [Thing(address, each.attributes, each.creation, each.private) for address, each in present]
    ground = lay_ground(things, registries, state.catalogue or "")
    forgotten: dict[str, list[Occupied]] = {}  # by what makes their machine
    for kind, thing in ground.things:
        if kind.vms is None or thing.address not in removed:
            continue
        site = ground.sites.get(str(thing.attributes.get("id")).partition("/")[0])
        for vm in kind.vms.standing(thing.attributes) if site is not None else ():
            maker = site.offered_by.get(vm.placement.machine) if site is not None else None
            if maker is not None:
                sku = sku_of(vm, None, ground.skus)
                forgotten.setdefault(maker, []).append(_occupied(vm, sku))
    return replace(state, instances=_noting(state.instances, forgotten)) if forgotten else state


def released(state: State, address: Address, name: str) -> State | None:
    """The state without a forgotten VM that a rack or machine notes; None where it notes no such."""
    instance = state.instances.get(address)
    current = instance.current if instance is not None else None
    rows = list((current.private or {}).get(FORGOTTEN) or ()) if current is not None else []
    left = [row for row in rows if row[1] != name]
    if instance is None or current is None or len(left) == len(rows):
        return None
    others = {key: value for key, value in (current.private or {}).items() if key != FORGOTTEN}
    private = {**others, **({FORGOTTEN: left} if left else {})} or None
    return state.with_instance(address, replace(instance, current=replace(current, private=private)))


def forgotten_in(state: State) -> Iterator[tuple[Address, str]]:
    """The forgotten VMs that a state remembers, each with what notes it."""
    for address, instance in state.instances.items():
        private = instance.current.private if instance.current is not None else None
        yield from ((address, str(row[1])) for row in (private or {}).get(FORGOTTEN) or ())


def _noting(
    instances: Mapping[Address, InstanceState], forgotten: Mapping[str, Iterable[Occupied]]
) -> dict[Address, InstanceState]:
    """The instances, with the VMs that each of them is to note."""
    noting = dict(instances)
    for address, instance in instances.items():
        vms = forgotten.get(str(address))
        if vms is not None and instance.current is not None:
            current = replace(instance.current, private=_with(instance.current.private, vms))
            noting[address] = replace(instance, current=current)
    return noting


def _occupied(vm: PlacedVm, sku: VmSku) -> Occupied:
    """A VM as what takes room of its machine."""
    return Occupied(
        vm.placement.machine,
        vm.name,
        sku.host_vcpus,
        -(-int(sku.memory_gib * 1024) // 1024),
        sku.disk_gib,
        sku.numa_cells,
        tuple(vm.placement.cells),
    )


def _with(note: Note | None, vms: Iterable[Occupied]) -> Note:
    """A note with these VMs; of one that it has already, what is said now."""
    coming = {(vm.machine, vm.name): vm for vm in vms}
    rows = [row for row in (note or {}).get(FORGOTTEN) or () if (row[0], row[1]) not in coming]
    return {**(note or {}), FORGOTTEN: [*rows, *note_of(list(coming.values()))[UNMANAGED]]}
