"""On which racks and machines the VMs of one object stand before a plan, and on which they are placed."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from nexusform.planning.vms.vm_object import VmObject

OnSite: TypeAlias = tuple[str, str]  # site and machine


class MachineUse(Struct, frozen=True):
    """`held` are (site, rack, machine) of the VMs before, `left_early` the machines whose room is free
    before anything is placed, `taken` those of VMs that the plan places, `makers` the addresses (text) of
    what offers these. `keeps_old`: the old VMs hold their room until the new ones stand.
    """

    held: frozenset[tuple[str, str, str]] = frozenset()
    left_early: frozenset[OnSite] = frozenset()
    taken: frozenset[OnSite] = frozenset()
    makers: frozenset[str] = frozenset()
    keeps_old: bool = False


def machine_use(vms: VmObject) -> MachineUse:
    """What the VMs of an object use."""
    held: set[tuple[str, str, str]] = set()
    left_early: set[OnSite] = set()
    if vms.prior_demand is not None:
        site_id = vms.prior_demand.site_id
        for key in vms.standing:
            place = vms.place_before(key)
            held.add((site_id, place.rack, place.machine))
            if vms.leaves_early(key):
                left_early.add((site_id, place.machine))
    taken = set()
    if vms.demand is not None:
        taken = {(vms.demand.site_id, vms.place_after(key).machine) for key in vms.tokens}
    makers = set()
    if vms.site is not None:
        makers = {vms.site.offered_by.get(machine, "") for _, machine in taken}
    return MachineUse(
        frozenset(held), frozenset(left_early), frozenset(taken), frozenset(makers), vms.keeps_old
    )
