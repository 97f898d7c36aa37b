"""What the resource_id of a placement hint stands for at this moment of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nexusform.planning.vms.sites import SitePlan
from nexusform.planning.vms.surroundings import Targets
from nexusform.planning.vms.vm_phase import VmObject
from nexusform.scheduling.world import Inventory


class HintTargets:
    """Machines and racks by the ids that hints may name: a VM, a cluster or VNF, a machine, a rack."""

    def __init__(self, inventory: Inventory, sites: Mapping[str, SitePlan]) -> None:
        self._racks = {rack.id: rack for rack in inventory.racks.values()}
        self._machines = {
            f"{r.id}/{m.name}": (m.name, r.name) for r in self._racks.values() for m in r.machines
        }
        for offer in inventory.machines.values():
            machine = offer.machine
            self._machines[f"{offer.rack_id}/{machine.name}"] = (machine.name, machine.rack)
        self._sites = sites
        self._objects: dict[str, VmObject] = {}

    def refresh(self, objects: Iterable[VmObject]) -> None:
        """Take in where all VMs stand."""
        for found in objects:
            self.update(found)

    def update(self, found: VmObject) -> None:
        """Take in one instance."""
        values = found.instance.config or found.instance.planned
        if values is not None and not found.going:
            self._objects[found.instance.type.identify(values)] = found

    def __call__(self, resource_id: str) -> Targets | None:
        """Names of machines and racks, or None when nothing has this id."""
        found = self._objects.get(resource_id)
        if found is not None:
            places = [vm.placement for vm in found.placed.values()]
            return frozenset(p.machine for p in places), frozenset(p.rack for p in places)
        if resource_id in self._machines:
            machine, rack = self._machines[resource_id]
            return frozenset({machine}), frozenset({rack})
        rack_offer = self._racks.get(resource_id)
        if rack_offer is not None:
            return frozenset(m.name for m in rack_offer.machines), frozenset({rack_offer.name})
        return None
