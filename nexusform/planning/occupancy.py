"""What a plan says of its sites: machines, who stands on them before and after, and the room that is left.

Frozen, and part of a saved plan: nothing that reads a plan works any of it out again.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from nexusform.address import Address
from nexusform.demands import PlacedVm
from nexusform.scheduling.racks.vms import Machine, Placement, VmSku


class PoolVms(Struct, frozen=True):
    """The VMs of one pool of a resource that have one SKU.

    `kept` stand on both sides of the plan, `left` only before it, `came` only after it: a VM that moves is
    in both of the latter, under one name. Each by number.
    """

    address: Address
    cluster: str
    pool: str
    sku: VmSku
    kept: tuple[PlacedVm, ...] = ()
    left: tuple[PlacedVm, ...] = ()
    came: tuple[PlacedVm, ...] = ()

    @property
    def before(self) -> Iterator[PlacedVm]:
        """The VMs that stand before the plan."""
        yield from self.kept
        yield from self.left

    @property
    def after(self) -> Iterator[PlacedVm]:
        """The VMs that stand after it."""
        yield from self.kept
        yield from self.came


class OutsideVm(Struct, frozen=True):
    """A VM that nexusform does not manage: capacity that an `occupied` block holds."""

    name: str
    sku: VmSku
    placement: Placement


class SiteRack(Struct, frozen=True):
    """A rack, as the plan leaves it (as it was, when it goes); `planned` racks take no VM yet."""

    name: str
    zone: str
    planned: bool = False


class SiteMachine(Struct, frozen=True):
    """A machine, as the plan leaves it (as it was, when it goes), and on which sides it is there."""

    facts: Machine
    before: bool = True
    after: bool = True


class SiteVms(Struct, frozen=True):
    """A site with all that stands on it, pools in the plan's order. A plan in error shows what stands."""

    id: str
    name: str
    racks: tuple[SiteRack, ...] = ()
    machines: tuple[SiteMachine, ...] = ()
    pools: tuple[PoolVms, ...] = ()
    outsiders: tuple[OutsideVm, ...] = ()


class Room(Struct, frozen=True):
    """What is free for one VM SKU on a site at one moment, nothing else being placed.

    `free` VMs fit; `rack_lost` of them are left when the rack that holds most of them is lost
    (`worst_rack`, "" when no rack holds any): the VMs of a lost rack are not created again elsewhere.
    `clusters` are those with a pool of the SKU, in the plan's order, and `no_surge` those of them in
    which such a pool would not find room for the VMs that an upgrade adds first.
    """

    free: int
    rack_lost: int
    worst_rack: str = ""
    clusters: tuple[str, ...] = ()
    no_surge: tuple[str, ...] = ()


class SiteRoom(Struct, frozen=True):
    """The room of one site for one VM SKU in play, which spans `cells` NUMA cells; None where the site
    does not stand.
    """

    site_id: str
    site: str
    sku: str
    cells: int
    before: Room | None = None
    after: Room | None = None
