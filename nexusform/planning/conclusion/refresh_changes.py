"""Rows and changes of a refresh-only plan.

VMs stay, except those on missing machines or observed elsewhere.
"""

from collections.abc import Iterator, Mapping

from nexusform.diagnostics.diagnostic import Diagnostic, build_warning
from nexusform.interfaces.plugins import ResourceType, get_unfinished_message
from nexusform.json_data.plain_data import get_mapping
from nexusform.placement_kinds.placement_kind import VM
from nexusform.placements.vm_demands import index_vms
from nexusform.planning.conclusion.vm_placement_rows import OBSERVED_ELSEWHERE, REASONS
from nexusform.planning.preparation.prior_state import PriorState, iterate_vm_owners
from nexusform.planning.vm_planning import site_plans
from nexusform.planning.vm_planning.vm_object import MACHINE_FORGOTTEN, MACHINE_REMOVED
from nexusform.planning.vm_planning.vm_placement_steps import find_moved_vms
from nexusform.plans.plan import Action, Change, PlacementAction, PlacementChange
from nexusform.plans.site_capacity.occupancy import add_unread_facts
from nexusform.resources.address import Address, compute_address_order
from nexusform.scheduling.racks.vms import Placement
from nexusform.scheduling.site_inventory import add_observed_facts
from nexusform.schemas.block_schema import UNFINISHED_KEY
from nexusform.state.objects import InstanceState, ObjectState, iterate_current_objects


def build_unchanged_changes(instances: Mapping[Address, InstanceState]) -> Iterator[Change]:
    """Yield a no-op change for every object."""
    for address, current in _sort_objects_by_address(instances):
        yield _build_no_op_change(address, current)


def _sort_objects_by_address(
    instances: Mapping[Address, InstanceState],
) -> list[tuple[Address, ObjectState]]:
    return sorted(
        iterate_current_objects(instances), key=lambda item: compute_address_order(item[0])
    )


def build_moved_changes(prior: PriorState) -> Iterator[Change]:
    """Yield a no-op change for every object with a new address (by a `moved` block)."""
    for address in sorted(prior.previous, key=compute_address_order):
        current = prior.get_object(address)
        if current is not None:
            yield _build_no_op_change(address, current, prior.previous[address])


def _build_no_op_change(
    address: Address, current: ObjectState, previous: Address | None = None
) -> Change:
    """Build the change of an object that stays as it is.

    `previous` is its address in state if it moves.
    """
    return Change(
        address=address,
        action=Action.NO_OP,
        before=current.attributes,
        after=current.attributes,
        provider=current.provider,
        creation=current.creation,
        prior_creation=current.creation,
        sensitive_before=current.sensitive,
        sensitive_after=current.sensitive,
        previous_address=previous,
        dependencies=current.dependencies,
        create_before_destroy=current.create_before_destroy,
        tainted_before=current.tainted,
        private=current.private,
    )


def check_unfinished_changes(prior: PriorState) -> Iterator[Diagnostic]:
    """Yield a warning for each object with an unfinished change of an earlier apply.

    It failed or is still in progress.
    """
    for address, current in _sort_objects_by_address(prior.instances):
        unfinished = get_mapping(current.private, UNFINISHED_KEY)
        if unfinished:
            kind = "change-in-progress" if unfinished.get("in_progress") else "change-failed-before"
            summary = str(unfinished.get("brief", ""))
            detail = f"{get_unfinished_message(unfinished)} It stays pending until it is done."
            name = str(address)
            yield build_warning(kind, detail, address=name, block=name, brief=summary)


def build_observed_sites(
    prior: PriorState, types: Mapping[str, ResourceType]
) -> Mapping[str, site_plans.SitePlan]:
    """Return the sites as read by the providers."""
    # The notes of sites have the machines that the configuration lacks.
    objects = [
        (address, add_observed_facts(current.attributes, current.private))
        for address, current in _sort_objects_by_address(prior.instances)
    ]
    inventory = site_plans.build_inventory(objects, types)
    for _, current in _sort_objects_by_address(prior.instances):
        add_unread_facts(inventory, current.attributes, current.private)
    sites, _ = site_plans.build_sites(inventory)
    return sites


def list_observed_rows(
    prior: PriorState, types: Mapping[str, ResourceType], sites: Mapping[str, site_plans.SitePlan]
) -> Iterator[PlacementChange]:
    """Yield a row for every VM on a missing machine, or on another machine than recorded.

    A VM on a missing machine is lost: its row has no target. A VM that a provider observed
    elsewhere is kept (KEEP). The source of its row is the location recorded in state, the target
    the observed one.
    """
    recorded_inventory = site_plans.build_object_inventory(
        prior.state.list_current_objects(), types
    )
    recorded_machines = site_plans.list_machines(recorded_inventory)
    context = site_plans.build_recorded_context(prior, types)
    for address, current, handlers in iterate_vm_owners(
        _sort_objects_by_address(prior.instances), types
    ):
        demand, _ = handlers.build_demand(current.attributes, context, address)
        site_id = str(current.attributes.get("id", "")).partition("/")[0]
        existing = index_vms(handlers.list_existing_vms(current.attributes))
        recorded = prior.get_recorded_object(address) or current
        moved = find_moved_vms(
            existing, handlers.list_existing_vms(recorded.attributes)
        )  # recorded placements
        for key, vm in existing.items():
            machine_key = (site_id, vm.placement.machine)
            has_machine = site_id in sites and vm.placement.machine in sites[site_id].machines
            if has_machine and key not in moved:
                continue
            action = PlacementAction.KEEP
            trigger = OBSERVED_ELSEWHERE
            source: Placement | None = moved.get(key)
            target: Placement | None = vm.placement
            if not has_machine:
                action = PlacementAction.LOSE
                source = vm.placement
                target = None
                # Without a resource in the state, the machine was forgotten before.
                trigger = MACHINE_REMOVED if machine_key in recorded_machines else MACHINE_FORGOTTEN
            yield PlacementChange(
                address=address,
                kind=VM,
                object=vm.name,
                action=action,
                source=source,
                target=target,
                trigger=trigger,
                cluster=demand.cluster if demand is not None else "",
                pool=vm.pool,
                number=vm.number,
                sku=vm.sku_name,
                site_id=site_id,
                reason=REASONS[trigger],
                provenance=vm.provenance,
                platform_name=vm.platform_name or "",
            )
