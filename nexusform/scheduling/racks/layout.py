"""A site by number, in the order given: its machines and racks, which do not change while VMs come and go
(`Layout`), and what stands on them as one demand counts it (`Usage`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from nexusform.scheduling.racks.vms import Machine


class Layout:
    """One site. Machines and racks are numbers from 0; every list is indexed by one of the two."""

    __slots__ = (
        "index",
        "machine_names",
        "machines",
        "machines_in",
        "rack_index",
        "rack_name",
        "rack_names",
        "rack_of",
        "rack_zone",
    )

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.machines = tuple(machines)
        self.index = {machine.name: number for number, machine in enumerate(self.machines)}
        self.rack_index: dict[str, int] = {}
        self.rack_name: list[str] = []
        self.rack_zone: list[str] = []
        self.rack_of: list[int] = []
        self.machines_in: list[list[int]] = []
        for number, machine in enumerate(self.machines):
            self._add(number, machine)
        # As the tie-break digests them.
        self.machine_names = [machine.name.encode() for machine in self.machines]
        self.rack_names = [name.encode() for name in self.rack_name]

    def _add(self, number: int, machine: Machine) -> None:
        rack = self.rack_index.get(machine.rack)
        if rack is None:
            rack = self.rack_index[machine.rack] = len(self.rack_name)
            self.rack_name.append(machine.rack)
            self.rack_zone.append(machine.availability_zone)
            self.machines_in.append([])
        self.rack_of.append(rack)
        self.machines_in[rack].append(number)


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

    By machine: `memory` (MiB used by VMs) and `extra_large` (VMs of such SKUs). By rack: `rack_vms` and
    `rack_memory`. All of it changes as VMs come and go, so a rule may keep a list and read it later.
    """

    layout: Layout
    memory: list[int]
    extra_large: list[int]
    rack_vms: list[int]
    rack_memory: list[int]
    cluster: Tally
    pool: Tally
