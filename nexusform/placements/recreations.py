"""Re-created VMs as data: old and new location by pool."""

from msgspec import Struct

from nexusform.placements.vm_demands import PlacedVm
from nexusform.scheduling.racks.vms import Placement


class RecreatedVm(Struct, frozen=True):
    """Re-created VM: the old VM, and the location of the new one (None: no capacity)."""

    vm: PlacedVm
    placement: Placement | None


class RecreatedPool(Struct, frozen=True):
    """Re-created VMs of one pool; `reason` explains missing capacity, "" if all fit."""

    cluster_id: str
    cluster: str
    pool: str
    sku: str
    vms: tuple[RecreatedVm, ...]
    reason: str = ""

    @property
    def missing(self) -> int:
        """Number of VMs without capacity."""
        return sum(vm.placement is None for vm in self.vms)
