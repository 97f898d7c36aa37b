"""Graph of draft steps: each change's steps, their waits, and awaited capacity.

Other steps must free that capacity first.

For this it knows the racks and machines of the VMs of an object before and after.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct, field

from nexusform.configuration.declarations.configuration import DEFAULT_PROVIDER
from nexusform.planning.vm_planning.site_plans import SitePlan
from nexusform.planning.vm_planning.vm_object import MACHINE_EVACUATED, ROLLING, VmObject
from nexusform.plans.plan import Action, Change, Step, StepKind
from nexusform.resources.address import Address
from nexusform.resources.graph import sort_topologically
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.uncertainty.certainty import run_operations
from nexusform.scheduling.racks.uncertainty.operations import Operation, ReleaseOperation
from nexusform.scheduling.racks.vms import Placement

# Site and machine.
OnSite: TypeAlias = tuple[str, str]
_Key = TypeVar("_Key", bound=Hashable)


class UsedMachines(Struct, frozen=True):
    """Machines used by an object.

    `occupied` are (site, rack, machine) of its VMs before the plan, `freed_early` the machines
    with capacity freed before anything is placed, `allocated` those of newly placed VMs. The
    resources (addresses as text) of the latter are `offering_addresses`, those of machines under
    evacuation `evacuated_addresses`. With `keeps_old`, the old VMs occupy their capacity until the
    new ones exist.
    """

    occupied: frozenset[tuple[str, str, str]] = frozenset()
    freed_early: frozenset[OnSite] = frozenset()
    allocated: frozenset[OnSite] = frozenset()
    offering_addresses: frozenset[str] = frozenset()
    evacuated_addresses: frozenset[str] = frozenset()
    keeps_old: bool = False


def compute_machine_use(vm_object: VmObject) -> UsedMachines:
    """Return the machines used by the VMs of an object before and after its steps.

    The result also has the addresses of the rack or machine resources that declare them.
    """
    occupied: set[tuple[str, str, str]] = set()
    # Before anything is placed.
    freed_early: set[OnSite] = set()
    for key in vm_object.prior.existing:
        placement = vm_object.get_prior_placement(key)
        occupied.add((vm_object.prior.site_id, placement.rack, placement.machine))
        if vm_object.is_released_early(key):
            freed_early.add((vm_object.prior.site_id, placement.machine))
    request = vm_object.request
    allocated = {
        (request.demand.site_id, vm_object.get_placement(key).machine)
        for key in vm_object.placements.new_handles
    }
    offering_addresses: set[str] = set()
    evacuated_addresses: set[str] = set()
    if request.site is not None:
        address_by_machine = request.site.offering_addresses
        offering_addresses = {address_by_machine.get(machine, "") for _, machine in allocated}
        evacuated = [
            key
            for key, trigger in request.actions.recreations.items()
            if trigger == MACHINE_EVACUATED
        ]
        evacuated_machines = [vm_object.get_prior_placement(key).machine for key in evacuated]
        evacuated_addresses = {
            address_by_machine.get(machine, "") for machine in evacuated_machines
        }
    return UsedMachines(
        occupied=frozenset(occupied),
        freed_early=frozenset(freed_early),
        allocated=frozenset(allocated),
        offering_addresses=frozenset(offering_addresses),
        evacuated_addresses=frozenset(evacuated_addresses),
        keeps_old=vm_object.instance.action is Action.REPLACE_CREATE_FIRST,
    )


# From a step to the steps that it waits for.
Waits: TypeAlias = dict[int, set[int]]
# Larger groups of steps get a gate: many steps waiting for many would make n x m edges.
GATE_ABOVE = 4
# Samples in which another order of objects is tried; None is the plan itself.
_ORDER_SAMPLES = (None, 0, 1, 2)


class DraftStep(Struct):
    """Step under construction: waits are still added.

    `change` is the index of its change in the plan.
    """

    id: int
    kind: StepKind
    change: int
    prior: Mapping[str, Any] | None
    planned: Mapping[str, Any] | None
    waits: set[int] = field(default_factory=set)
    # Of the waits: not a reason to skip this step.
    order_only: set[int] = field(default_factory=set)


def list_step(steps: Mapping[_Key, int], key: _Key) -> list[int]:
    """Return the step with this key as a list, [] without one."""
    return [steps[key]] if key in steps else []


class StepGraph:
    """Steps by id, and the steps that create, delete or release each object.

    `creation_steps` and `deletion_steps` list the steps of a block (its address as text): its
    creates and updates, and its deletes.
    """

    def __init__(self, changes: Sequence[Change]) -> None:
        """Start without steps.

        A step is named by its id, the index in `drafts`; a block by its address as text.
        """
        self.changes = changes
        self.drafts: list[DraftStep] = []
        # The create or update of an object.
        self.apply_step: dict[Address, int] = {}
        # By address and deposed key.
        self.delete_step: dict[tuple[Address, str], int] = {}
        # It removes VMs of an object before its update.
        self.release_step: dict[Address, int] = {}
        # Creates and updates, by block.
        self.creation_steps: dict[str, list[int]] = {}
        self.deletion_steps: dict[str, list[int]] = {}  # by block
        # Results of `get_gate` by name.
        self._gates: dict[tuple[str, str], list[int]] = {}

    def add_step(
        self,
        kind: StepKind,
        change: int,
        prior: Mapping[str, Any] | None,
        planned: Mapping[str, Any] | None,
    ) -> int:
        """Add a step of the change at this index and return its id."""
        draft = DraftStep(len(self.drafts), kind, change, prior, planned)
        self.drafts.append(draft)
        return draft.id

    def add_waits(self, step: int, awaited: Iterable[int]) -> None:
        """Let a step wait for others, but never for itself."""
        self.drafts[step].waits |= set(awaited) - {step}

    def get_gate(self, name: tuple[str, str], steps: list[int]) -> list[int]:
        """Return a few steps as they are, or in place of many a gate.

        A step without work that waits for all of them. The result is kept by `name`.
        """
        if name in self._gates:
            return self._gates[name]
        gate_steps = steps
        if len(steps) > GATE_ABOVE:
            gate = self.add_step(
                StepKind.GATE, self.drafts[steps[0]].change, prior=None, planned=None
            )
            self.add_waits(gate, steps)
            gate_steps = [gate]
        self._gates[name] = gate_steps
        return gate_steps

    def list_steps(self, address: Address) -> list[int]:
        """Return the create or update of an object, then its delete, as far as they exist."""
        return [*list_step(self.apply_step, address), *list_step(self.delete_step, (address, ""))]

    def is_replacement(self, step: int) -> bool:
        """Return whether a delete is followed by a create of the same object.

        Updates of users wait for this create.
        """
        return self.changes[self.drafts[step].change].action is Action.REPLACE

    def build_steps(self) -> list[Step]:
        """Build the steps for apply.

        A step waits for `waits_for` to succeed, and for `follows` (the `order_only` waits of its
        draft) to end with any result.
        """
        return [
            Step(
                id=draft.id,
                kind=draft.kind,
                change=draft.change,
                waits_for=tuple(sorted(draft.waits - draft.order_only)),
                prior=draft.prior,
                planned=draft.planned,
                follows=tuple(sorted(draft.order_only & draft.waits)),
            )
            for draft in self.drafts
        ]


def add_capacity_waits(
    graph: StepGraph,
    machines: Mapping[Address, UsedMachines],
    objects: Mapping[Address, VmObject],
    sites: Mapping[str, SitePlan],
) -> None:
    """Add waits for freed capacity, evacuated machines and the order of placement.

    In a cycle with the waits for references, these new waits are dropped. Example: a delete waits
    for the update of a former user, and this update needs the freed capacity.
    """
    waits = _find_capacity_waits(graph, machines)
    _add_upgrade_waits(graph, objects, waits)
    for step, updates in _find_rolling_waits(graph, objects, sites).items():
        waits.setdefault(step, set()).update(updates)
    for step, previous in _find_placement_order(graph, objects, sites):
        # No other wait orders them.
        if previous not in graph.drafts[step].waits | waits.setdefault(step, set()):
            waits[step].add(previous)
            # A failure of the previous step does not skip this one.
            graph.drafts[step].order_only.add(previous)
    for step, awaited in waits.items():
        graph.drafts[step].waits |= awaited
    remove_cyclic_waits(graph, waits)


def remove_cyclic_waits(graph: StepGraph, waits: Waits) -> None:
    """Remove those of `waits` (added last) between steps stuck in a cycle; all earlier waits stay.

    Stuck are the steps that wait for each other in a cycle, or for such a step: they have no place
    in an order.
    """
    all_waits = {draft.id: draft.waits for draft in graph.drafts}
    ordered_steps = sort_topologically(all_waits, position={step: step for step in all_waits})
    stuck_steps = all_waits.keys() - set(ordered_steps)
    for step in stuck_steps:
        graph.drafts[step].waits -= waits.get(step, set()) & stuck_steps


def _find_capacity_waits(graph: StepGraph, machines: Mapping[Address, UsedMachines]) -> Waits:
    """Return the waits of steps that place VMs.

    They wait for steps that free their machines, and for steps of cordons. An object frees the
    machines of its VMs by its delete step. Without one, a release step frees those of the VMs
    removed before anything is placed.
    """
    # The steps that free capacity, by site and machine.
    freeing: dict[OnSite, set[int]] = {}
    for address, use in machines.items():
        # "": of the current object, not a deposed one.
        delete = graph.delete_step.get((address, ""))
        release = graph.release_step.get(address)
        if delete is not None:
            for site, _, machine in use.occupied:
                freeing.setdefault((site, machine), set()).add(delete)
        elif release is not None:
            for site_and_machine in use.freed_early:
                freeing.setdefault(site_and_machine, set()).add(release)
    waits: Waits = {}
    for address, use in machines.items():
        apply_step = graph.apply_step.get(address)
        # It places no VM.
        if apply_step is None:
            continue
        # Under create_before_destroy the delete of the old VMs comes last, so the new ones cannot
        # wait for it.
        own_delete = graph.delete_step.get((address, "")) if use.keeps_old else None
        for site_and_machine in use.allocated:
            steps = freeing.get(site_and_machine, set())
            waits.setdefault(apply_step, set()).update(steps - {apply_step, own_delete})
    _add_cordon_waits(graph, machines, waits)
    return waits


def _add_upgrade_waits(graph: StepGraph, objects: Mapping[Address, VmObject], waits: Waits) -> None:
    """Let the upgrade of a cluster wait for what the nodes of its separate pools need.

    The platform re-creates these nodes during the update of the cluster. They need the capacity
    that their pool waits for, and the new upgrade settings of the release step of their pool.
    """
    clusters: dict[str, Address] = {}
    pools: list[tuple[Address, str]] = []
    for address, vm_object in objects.items():
        demand = vm_object.request.demand
        if ROLLING in vm_object.request.actions.recreations.values():
            if demand.parent_id:
                pools.append((address, demand.owner))
            else:
                clusters[demand.owner] = address
    for address, owner in pools:
        pool_steps = list_step(graph.apply_step, address)
        awaited = set(list_step(graph.release_step, address))
        for step in pool_steps:
            awaited |= waits.get(step, set())
        for step in list_step(graph.apply_step, clusters[owner]) if owner in clusters else ():
            waits.setdefault(step, set()).update(awaited - {step, *pool_steps})


def _add_cordon_waits(
    graph: StepGraph, machines: Mapping[Address, UsedMachines], waits: Waits
) -> None:
    """Add the waits of objects with VMs on evacuated machines.

    They wait for the updates of the racks or machines. These updates close the machines to new VMs
    (a cordon). Otherwise the VMs might return to them.
    """
    by_text = {str(change.address): change.address for change in graph.changes}
    for address, use in machines.items():
        updates = set()
        for text in use.evacuated_addresses:
            if by_text.get(text) in graph.apply_step:
                updates.add(graph.apply_step[by_text[text]])
        for step in [
            *list_step(graph.release_step, address),
            *list_step(graph.apply_step, address),
        ]:
            waits.setdefault(step, set()).update(updates - {step})


def _find_rolling_waits(
    graph: StepGraph, objects: Mapping[Address, VmObject], sites: Mapping[str, SitePlan]
) -> Waits:
    """Return the waits for Kubernetes upgrades: by step, the update steps it has to wait for.

    The VMs of an upgraded object free their capacity only during its update. An object with VMs
    placed there later waits for this update. Of two upgraded objects, the older one never waits.
    """
    # The addresses of upgraded objects, by VM: (owner, pool, number).
    owners = {}
    # Creation numbers of upgraded objects.
    creation_numbers: dict[Address, int] = {}
    for address, vm_object in objects.items():
        for key, trigger in vm_object.request.actions.recreations.items():
            if trigger == ROLLING:
                owners[vm_object.prior.demand.owner, *key] = address
                creation_numbers[address] = vm_object.instance.prior_creation
    waits: Waits = {}
    for site in sites.values() if owners else ():
        for upgraded, successor in _find_machine_successions(
            site, owners, _map_placed_vms(site, objects)
        ):
            update_step = graph.apply_step.get(upgraded)
            apply_step = graph.apply_step.get(successor)
            if update_step is None or apply_step is None or update_step == apply_step:
                # Without a step in this plan, or the same step.
                continue
            # Older objects are upgraded first. An object without an upgrade (inf) always waits.
            if creation_numbers.get(successor, inf) >= creation_numbers[upgraded]:
                waits.setdefault(apply_step, set()).add(update_step)
    return waits


def _find_placement_order(
    graph: StepGraph, objects: Mapping[Address, VmObject], sites: Mapping[str, SitePlan]
) -> Iterator[tuple[int, int]]:
    """Yield pairs of a step and the step before it.

    Their VMs must be requested in the planned order. A platform such as Azure places VMs in the
    order of the requests. On a site where another order gives the same machines, the steps stay
    concurrent. Objects of the simulation (the default provider) need no order.
    """
    on_platforms = {
        change.address for change in graph.changes if change.provider not in ("", DEFAULT_PROVIDER)
    }
    # Only created, updated and replaced objects have a step there.
    on_platforms &= graph.apply_step.keys()
    if not on_platforms:
        return
    for site in sites.values():
        placed_vms = _map_placed_vms(site, objects)
        # That place VMs, by object in the planned order.
        operations: dict[Address, list[Operation]] = {}
        for operation in site.operations:
            if not isinstance(operation, ReleaseOperation) and operation.token in placed_vms:
                address, _ = placed_vms[operation.token]
                operations.setdefault(address, []).append(operation)
        steps = [graph.apply_step[address] for address in operations if address in on_platforms]
        if len(steps) > 1 and _has_order_effect(site.base, site.operations, operations):
            # Each with its predecessor.
            yield from zip(steps[1:], steps[:-1], strict=True)


def _has_order_effect(
    base: RackScheduler,
    planned: Sequence[Operation],
    operations: Mapping[Address, Sequence[Operation]],
) -> bool:
    """Return whether any VM gets another machine if the objects are placed in another order.

    Two orders are tried: reversed, and with the first object last. The placement runs again from
    `base` for each of them, in the plan and in samples. `planned` are all operations, `operations`
    those that place VMs, by object in the planned order.
    """
    placing = {id(operation) for group in operations.values() for operation in group}
    # Releases and similar operations run first.
    others = [operation for operation in planned if id(operation) not in placing]
    groups = list(operations.values())
    # Two of many.
    orders = (groups[::-1], [*groups[1:], groups[0]])
    # The plan and three samples.
    for sample in _ORDER_SAMPLES:
        planned_placements = run_operations(base, planned, sample)
        for order in orders:
            placements = run_operations(base, [*others, *chain.from_iterable(order)], sample)
            for token, planned_placement in planned_placements.items():
                if _get_machine_of_placement(placements[token]) != _get_machine_of_placement(
                    planned_placement
                ):
                    return True
    return False


def _get_machine_of_placement(placement: Placement | None) -> str:
    return placement.machine if placement is not None else ""


def _map_placed_vms(
    site: SitePlan, objects: Mapping[Address, VmObject]
) -> dict[Hashable, tuple[Address, str]]:
    """Return the VMs placed on a site by handle, the token of their operation.

    The values are the object (address) and the machine.
    """
    placed_vms: dict[Hashable, tuple[Address, str]] = {}
    for address, vm_object in objects.items():
        if vm_object.request.site is site:
            for key, handle in vm_object.placements.new_handles.items():
                placed_vms[handle] = (address, vm_object.get_placement(key).machine)
    return placed_vms


def _find_machine_successions(
    site: SitePlan,
    owners: Mapping[tuple[str, str, int | str], Address],
    placed_vms: Mapping[Hashable, tuple[Address, str]],
) -> Iterator[tuple[Address, Address]]:
    """Yield the objects of upgraded VMs released from a machine.

    Each comes with an object placed there later. `owners` are the objects by VM (owner, pool,
    number), `placed_vms` the placed VMs by handle: object and machine.
    """
    # Objects of upgraded VMs released so far, by machine.
    released_owners: dict[str, set[Address]] = {}
    # Operations are in order of time.
    for operation in site.operations:
        if isinstance(operation, ReleaseOperation):
            released = site.base.get_vm(operation.handle)
            owner = owners.get((released.vm.owner, released.vm.pool, released.vm.number))
            # None: the VM is not upgraded.
            if owner is not None:
                released_owners.setdefault(released.placement.machine, set()).add(owner)
        elif operation.token in placed_vms:
            successor, machine = placed_vms[operation.token]
            for earlier_owner in sorted(released_owners.get(machine, ()), key=str):
                yield earlier_owner, successor
