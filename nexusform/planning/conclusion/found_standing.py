"""What a plan that only refreshes says of VMs: they stay, but for those whose machine was found gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nexusform.address import Address, address_order
from nexusform.diagnostics import Diagnostic, warning
from nexusform.placement_kinds.kinds import VM
from nexusform.planning.conclusion.placements import REASONS
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.vms.sites import SitePlan, build_sites, inventory_of, machines_of
from nexusform.planning.vms.vm_object import MACHINE_FORGOTTEN, MACHINE_REMOVED
from nexusform.plans.plan import Action, Change, PlacementAction, PlacementChange
from nexusform.ports import UNFINISHED, ResourceType
from nexusform.state.objects import InstanceState


def unchanged(instances: Mapping[Address, InstanceState]) -> Iterator[Change]:
    """What stands, as a change that changes nothing."""
    for address in sorted(instances, key=address_order):
        current = instances[address].current
        if current is not None:
            values, number = current.attributes, current.creation
            yield Change(address, Action.NO_OP, values, values, current.provider, number, number)


def moved(prior: Prior) -> Iterator[Change]:
    """What stands and moved to another address: that alone is the change."""
    for address in sorted(prior.previous, key=address_order):
        current = prior.object(address)
        if current is not None:
            values, number, marks = current.attributes, current.creation, current.sensitive
            yield Change(
                address,
                Action.NO_OP,
                values,
                values,
                current.provider,
                number,
                number,
                marks,
                marks,
                previous_address=prior.previous[address],
                dependencies=current.dependencies,
                create_before_destroy=current.create_before_destroy,
                tainted_before=current.tainted,
                private=current.private,
            )


def not_done(prior: Prior) -> Iterator[Diagnostic]:
    """What stands and an earlier apply began to change, which failed or goes on: a plan has it to do."""
    for address in sorted(prior.instances, key=address_order):
        current = prior.object(address)
        noted = (current.private or {}).get(UNFINISHED) if current is not None else None
        if noted:
            kind = "change-goes-on" if noted.get("goes_on") else "change-failed-before"
            brief = str(noted.get("brief", ""))
            yield warning(
                kind,
                f"{noted['words']} It is due until it is done.",
                address=str(address),
                block=str(address),
                brief=brief,
            )


def sites_of(prior: Prior, types: Mapping[str, ResourceType]) -> Mapping[str, SitePlan]:
    """The sites as they were found."""
    standing = [(change.address, change.before or {}) for change in unchanged(prior.instances)]
    return build_sites(inventory_of(standing, types))[0]


def lost_rows(
    prior: Prior, types: Mapping[str, ResourceType], sites: Mapping[str, SitePlan]
) -> Iterator[PlacementChange]:
    """A row for every VM whose machine is not there: found to be gone, or forgotten before."""
    recorded = ((a, i.current.attributes) for a, i in prior.state.instances.items() if i.current is not None)
    managed = machines_of(inventory_of(recorded, types))
    for change in unchanged(prior.instances):
        resource_type = types.get(change.address.type)
        if resource_type is None or resource_type.vms is None or change.before is None:
            continue
        site_id = change.id.partition("/")[0]
        site = sites.get(site_id)
        for vm in resource_type.vms.standing(change.before):
            if site is None or vm.placement.machine not in site.machines:
                was_managed = (site_id, vm.placement.machine) in managed
                trigger = MACHINE_REMOVED if was_managed else MACHINE_FORGOTTEN
                yield PlacementChange(
                    address=change.address,
                    kind=VM,
                    object=vm.name,
                    action=PlacementAction.LOSE,
                    source=vm.placement,
                    target=None,
                    trigger=trigger,
                    cluster=change.id.rpartition("/")[2],
                    pool=vm.pool,
                    number=vm.number,
                    sku=vm.sku_name,
                    site_id=site_id,
                    reason=REASONS[trigger],
                    provenance=vm.provenance,
                    platform_name=vm.platform_name or "",
                )
