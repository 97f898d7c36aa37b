"""VMs that keep running unmanaged, recorded in the note of their rack or machine.

Later plans therefore do not allocate their capacity (docs/decisions/0012).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from math import ceil
from typing import Any, TypeAlias

from msgspec.structs import replace

from nexusform.interfaces.plugins import PluginRegistries
from nexusform.json_data.plain_data import get_list, get_mapping
from nexusform.placements.vm_demands import PlacedVm, index_pools
from nexusform.planning.instances.block_planner import BlockPlanner
from nexusform.planning.vm_planning.site_plans import (
    SiteObject,
    SitePlan,
    build_site_layout,
    find_sku,
)
from nexusform.planning.vm_planning.vm_context import VmContext
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.plans.site_capacity.occupancy import build_unmanaged_vms_note
from nexusform.resources.address import Address
from nexusform.scheduling.racks.vms import VmSku
from nexusform.scheduling.site_inventory import OccupiedCapacity
from nexusform.schemas.block_schema import FORGOTTEN_KEY, UNMANAGED_KEY
from nexusform.state.objects import EMPTY_INSTANCE, State, replace_note_entry

Note: TypeAlias = Mapping[str, Any]


def record_forgotten_vms(
    objects: Iterable[VmObject], blocks: BlockPlanner, context: VmContext
) -> None:
    """Record the VMs forgotten by this plan in the resources of their machines.

    Forgotten VMs are no longer managed, but keep running.
    """
    instances_by_text = {str(address): instance for address, instance in blocks.instances.items()}
    # By the address that offers their machine.
    forgotten: dict[str, list[OccupiedCapacity]] = {}
    for vm_object in objects:
        site = context.sites.get(vm_object.prior.site_id)
        # No rack or machine is left to record them.
        if site is None:
            continue
        pools = index_pools(vm_object.prior_pools)
        for key in vm_object.request.actions.forgets:
            vm = vm_object.prior.existing.get(key)
            # It has no machine.
            if vm is None:
                continue
            sku = find_sku(vm, pools.get(vm.pool), context.prior_context.get_skus(site.id))
            _add_occupied_capacity(forgotten, site, vm, sku)
    for offering_address, vms_to_record in forgotten.items():
        instance = instances_by_text[offering_address]
        instance.private = _merge_vms_into_note(
            instance.private or instance.prior_note, vms_to_record
        )


def add_forgotten_vms(
    state: State, removed: Collection[Address], registries: PluginRegistries
) -> State:
    """Return the state with the VMs of `removed` objects recorded in private notes.

    The notes are those of the racks or machines of the VMs. The VMs keep running, unmanaged. The
    objects are still in the state.
    """
    site_objects = [
        SiteObject(address, current.attributes, current.creation, current.private)
        for address, current in state.list_current_objects()
    ]
    layout = build_site_layout(site_objects, registries, state.catalogue)
    # By the address that offers their machine.
    forgotten: dict[str, list[OccupiedCapacity]] = {}
    for resource_type, site_object in layout.objects:
        if resource_type.vms is None or site_object.address not in removed:
            continue
        site_id, _, _ = str(site_object.attributes.get("id")).partition("/")  # of "SITE/NAME"
        site = layout.sites.get(site_id)
        # No rack or machine can record its VMs.
        if site is None:
            continue
        skus = layout.context.get_skus(site_id)
        attributes = site_object.attributes
        demand, _ = resource_type.vms.build_demand(attributes, layout.context, site_object.address)
        pools = index_pools(demand.pools if demand is not None else ())
        for vm in resource_type.vms.list_existing_vms(attributes):
            _add_occupied_capacity(forgotten, site, vm, find_sku(vm, pools.get(vm.pool), skus))
    updated = dict(state.instances)
    for address, instance in state.instances.items():
        vms = forgotten.get(str(address))
        if vms is not None and instance.current is not None:
            current = replace(
                instance.current, private=_merge_vms_into_note(instance.current.private, vms)
            )
            updated[address] = replace(instance, current=current)
    return replace(state, instances=updated)


def release_forgotten_vm(state: State, address: Address, name: str) -> State | None:
    """Return the state without the record of an unmanaged VM in a rack or machine.

    Return None without such a record.
    """
    instance = state.instances.get(address, EMPTY_INSTANCE)
    current = instance.current
    if current is None:
        return None
    rows = get_list(current.private, FORGOTTEN_KEY)
    # A row begins with the machine and the name.
    remaining_rows = [row for row in rows if row[1] != name]
    if len(remaining_rows) == len(rows):
        return None
    private = replace_note_entry(current.private, FORGOTTEN_KEY, remaining_rows)
    return state.replace_instance(
        address, replace(instance, current=replace(current, private=private))
    )


def list_forgotten_vms(state: State) -> Iterator[tuple[Address, str]]:
    """Yield the forgotten VMs recorded in a state, each with the address that records it.

    They are no longer managed.
    """
    for address, current in state.list_current_objects():
        # A row begins with machine and name.
        for _, name, *_ in get_list(current.private, FORGOTTEN_KEY):
            yield address, str(name)


def _add_occupied_capacity(
    capacities: dict[str, list[OccupiedCapacity]], site: SitePlan, vm: PlacedVm, sku: VmSku
) -> None:
    """Add a VM as occupied capacity under the rack or machine that offers its machine.

    It is added under the address of that resource, if there is one.
    """
    offering_address = site.offering_addresses.get(vm.placement.machine)
    if offering_address is None:
        return
    capacity = OccupiedCapacity(
        machine=vm.placement.machine,
        name=vm.name,
        cpu_cores=sku.host_vcpus,
        # Without fractions of a MiB, rounded up.
        memory_gib=ceil(int(sku.memory_gib * 1024) / 1024),
        disk_gib=sku.disk_gib,
        cells=sku.numa_cells,
        cell_numbers=tuple(vm.placement.cells),
    )
    capacities.setdefault(offering_address, []).append(capacity)


def _merge_vms_into_note(note: Note | None, vms: Iterable[OccupiedCapacity]) -> Note:
    """Return the private note with VMs added to its record of forgotten (no longer managed) ones.

    They replace rows of the same machine and name.
    """
    vms_by_location = {(vm.machine, vm.name): vm for vm in vms}
    # A row begins with the machine and the name.
    older_rows = [
        row for row in get_list(note, FORGOTTEN_KEY) if tuple(row[:2]) not in vms_by_location
    ]
    # Forgotten VMs have the same rows.
    new_rows = build_unmanaged_vms_note(vms_by_location.values())[UNMANAGED_KEY]
    return {**get_mapping(note), FORGOTTEN_KEY: [*older_rows, *new_rows]}
