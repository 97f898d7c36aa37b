"""Operations of a plan on the VMs of a site, in their order: place, release, occupy."""

from collections.abc import Hashable

from msgspec import Struct

from nexusform.scheduling.racks.uncertainty.arrivals import Arrival
from nexusform.scheduling.racks.vms import Demand, Placement, VmName, VmSku

Token = Hashable


class PlaceOperation(Struct, frozen=True):
    """Placement of a VM.

    `token` identifies it in later operations and in the result. `arrival` is its arrival at a
    platform that may place other VMs of the plan before it; None if the plan decides the order.
    """

    token: Token
    demand: Demand
    arrival: Arrival | None = None


class ReleaseOperation(Struct, frozen=True):
    """Removal of an existing VM."""

    handle: int


class OccupyOperation(Struct, frozen=True):
    """Placement of a VM on a machine not chosen by the plan (a pinned one).

    With `uses_rule_cells` it takes the cells assigned by the rule there, otherwise those of
    `placement`. It has no certainty of its own.
    """

    token: Token
    vm: VmName
    sku: VmSku
    placement: Placement
    uses_rule_cells: bool = False


Operation = PlaceOperation | ReleaseOperation | OccupyOperation
