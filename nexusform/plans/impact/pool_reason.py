"""Reasons for the placement of a pool's VMs, as reported by `explain`."""

from __future__ import annotations

from msgspec import Struct

from nexusform.plans.plan import PlacementTable
from nexusform.resources.address import Address


class VmCountByTrigger(Struct, frozen=True):
    """Number of VMs of a pool placed for one reason; `serial` is that of the apply, None: this plan."""

    trigger: str
    serial: int | None
    count: int


class PoolPlacement(Struct, frozen=True):
    """One pool: its row of the placement table, its zones (None: all), its VMs and their origins."""

    address: Address
    table: PlacementTable
    zones: tuple[str, ...] | None
    origins: tuple[VmCountByTrigger, ...]
    objects: tuple[str, ...]

    @property
    def missing_count(self) -> int:
        """Number of VMs of the pool without a rack."""
        return self.table.total_count - sum(self.table.actual_vms_per_rack.values())
