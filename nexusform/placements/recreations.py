"""Re-created VMs as data: old and new location by pool."""

from collections.abc import Sequence

from msgspec import Struct

from nexusform.placements.vm_demands import PlacedVm
from nexusform.scheduling.racks.vms import Placement


class RecreatedVm(Struct, frozen=True):
    """Re-created VM: the old VM, and the location of the new one (None: no capacity)."""

    vm: PlacedVm
    placement: Placement | None


class RecreatedPool(Struct, frozen=True):
    """Re-created VMs of one pool; `reason` explains missing capacity, "" if all fit.

    With one of `fixes`, tested changes, all of them fit. `address` is that of their resource.
    """

    cluster_id: str
    cluster: str
    pool: str
    sku: str
    vms: tuple[RecreatedVm, ...]
    reason: str = ""
    fixes: tuple[str, ...] = ()
    address: str = ""

    @property
    def fitting(self) -> int:
        """Number of VMs with capacity."""
        return len(self.vms) - self.missing

    @property
    def missing(self) -> int:
        """Number of VMs without capacity."""
        return sum(vm.placement is None for vm in self.vms)


def count_nodes_up(old_nodes: Sequence[bool], batch: int, *, surges: bool) -> list[int]:
    """Return the number of nodes of a pool up during each batch of an upgrade.

    `old_nodes` has in upgrade order whether each old node is up now; new nodes are up. With surge,
    the old nodes of a batch stay up until the new ones are.
    """
    counts: list[int] = []
    # The nodes before `start` are new ones.
    for start in range(0, len(old_nodes), batch):
        remaining = old_nodes[start if surges else start + batch :]
        counts.append(start + sum(remaining))
    return counts
