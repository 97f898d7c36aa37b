"""The ledger's numbers as one demand counts them: live, by the number of a machine or a rack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from nexusform.scheduling.racks.layout import Layout

Figure = Callable[[int], int]


class Counts(dict[int, int]):
    """VMs by the number of a machine or rack; 0 where there is none."""

    __slots__ = ()

    def __missing__(self, item: int) -> int:
        return 0

    def copy(self) -> Counts:
        """The same counts, to be written apart."""
        return Counts(self)


# Figures by the number of a machine or rack: a live list, live counts, or a function.
Figures = list[int] | Counts | Figure


class Tally:
    """VMs of one cluster or pool: per machine, per rack, and (clusters only) extra-large ones per machine."""

    __slots__ = ("extra_large", "machines", "racks")

    def __init__(self, machines: Counts, racks: Counts, extra_large: Counts) -> None:
        self.machines = machines
        self.racks = racks
        self.extra_large = extra_large

    @classmethod
    def empty(cls) -> Tally:
        """Nothing counted yet."""
        return cls(Counts(), Counts(), Counts())

    def copy(self) -> Tally:
        """The same counts, to be written apart."""
        return Tally(self.machines.copy(), self.racks.copy(), self.extra_large.copy())


# The counts of a cluster or pool that has no VM on the site. Never written.
NO_COUNTS: Final = Counts()
NOBODY: Final = Tally(NO_COUNTS, NO_COUNTS, NO_COUNTS)


class Usage(Struct, frozen=True):
    """What stands on a site, and what of it belongs to the demand's cluster and pool.

    By machine: `memory` (GiB used by VMs) and `extra_large` (VMs of such SKUs). By rack: `rack_vms` and
    `rack_memory`. All of it changes as VMs come and go, so a rule may keep a list and read it later.
    """

    layout: Layout
    memory: list[int]
    extra_large: list[int]
    rack_vms: list[int]
    rack_memory: list[int]
    cluster: Tally
    pool: Tally
