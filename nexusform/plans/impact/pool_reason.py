"""How the VMs of a pool came to be where they are, as `explain` tells it."""

from __future__ import annotations

from msgspec import Struct

from nexusform.address import Address
from nexusform.plans.plan import PlacementTable


class Coming(Struct, frozen=True):
    """How many VMs of a pool came for one reason; `serial` is that of the apply, None: this plan."""

    trigger: str
    serial: int | None
    count: int


class PoolReason(Struct, frozen=True):
    """One pool: its row of the placement table, its zones (None: all), how its VMs came, their names."""

    address: Address
    table: PlacementTable
    zones: tuple[str, ...] | None
    came: tuple[Coming, ...]
    objects: tuple[str, ...]

    @property
    def missing(self) -> int:
        """VMs of the pool that stand on no rack."""
        return self.table.total_count - sum(self.table.actual_vms_per_rack.values())
