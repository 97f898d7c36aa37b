"""What a plan that only refreshes says of VMs: they stay, but for those whose machine was found gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nexusform.address import address_order
from nexusform.placement_kinds.placement_kind import VM
from nexusform.planning.conclusion.placements import REASONS
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.vms.sites import SitePlan, build_sites, inventory_of
from nexusform.planning.vms.vm_object import MACHINE_REMOVED
from nexusform.plans.plan import Action, Change, PlacementAction, PlacementChange
from nexusform.ports import ResourceType


def unchanged(prior: Prior) -> Iterator[Change]:
    """What stands, as a change that changes nothing."""
    for address in sorted(prior.instances, key=address_order):
        current = prior.object(address)
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


def sites_of(prior: Prior, types: Mapping[str, ResourceType]) -> Mapping[str, SitePlan]:
    """The sites as they were found."""
    standing = [(change.address, change.before or {}) for change in unchanged(prior)]
    return build_sites(inventory_of(standing, types))[0]


def lost_rows(
    prior: Prior, types: Mapping[str, ResourceType], sites: Mapping[str, SitePlan]
) -> Iterator[PlacementChange]:
    """A row for every VM whose machine is not there."""
    for change in unchanged(prior):
        resource_type = types.get(change.address.type)
        if resource_type is None or resource_type.vms is None or change.before is None:
            continue
        site_id = change.id.partition("/")[0]
        site = sites.get(site_id)
        for vm in resource_type.vms.standing(change.before):
            if site is None or vm.placement.machine not in site.machines:
                yield PlacementChange(
                    address=change.address,
                    kind=VM,
                    object=vm.name,
                    action=PlacementAction.LOSE,
                    source=vm.placement,
                    target=None,
                    trigger=MACHINE_REMOVED,
                    cluster=change.id.rpartition("/")[2],
                    pool=vm.pool,
                    number=vm.number,
                    sku=vm.sku_name,
                    site_id=site_id,
                    reason=REASONS[MACHINE_REMOVED],
                    provenance=vm.provenance,
                    platform_name=vm.platform_name or "",
                )
