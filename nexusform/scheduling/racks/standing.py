"""A VM where it stands, as reports and explanations see it."""

from __future__ import annotations

from msgspec import Struct

from nexusform.scheduling.racks.ledger import Ledger, Record
from nexusform.scheduling.racks.model import Placement, VmName, VmSku


class StandingVm(Struct, frozen=True):
    """One VM on the site."""

    handle: int
    vm: VmName
    sku: VmSku
    placement: Placement


def standing(ledger: Ledger, handle: int, record: Record) -> StandingVm:
    """The ledger's record as a value."""
    placement = ledger.site.placement(record.machine, record.cells)
    return StandingVm(handle, ledger.vm_name(record), ledger.shape(record).sku, placement)
