"""Machines, VM SKUs, demands and placements: the words of VM placement.

Frozen; no behaviour beyond arithmetic on one value.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from fractions import Fraction
from math import ceil
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.scheduling.decision import Place
from nexusform.words import form

CONTROL_PLANE = "control-plane"
DEFAULT_SEED = 8
MIB_PER_GIB: Final = 1024
# SR-IOV virtual functions that tenants get of each NUMA cell (inferred for figures of a machine's own).
VFS_PER_CELL = 30


class RackSpread(StrEnum):
    """What is counted first when a rack is chosen: VMs of the pool, or of the whole cluster."""

    POOL = "pool"
    CLUSTER = "cluster"


def gib(mib: int) -> float:
    """So many MiB in GiB; a whole number where it is one."""
    return mib // MIB_PER_GIB if mib % MIB_PER_GIB == 0 else mib / MIB_PER_GIB


def whole_mib(memory_gib: float | Fraction) -> float:
    """So many GiB in whole MiB, rounded up, as GiB."""
    return gib(ceil(memory_gib * MIB_PER_GIB))


class MachineSku(Struct, frozen=True):
    """A bare-metal server type: NUMA cells, vCPUs and GiB per cell, ephemeral disk in GiB."""

    name: str
    cells: int
    cpus_per_cell: int
    memory_gib_per_cell: int
    disk_gib: int


class VmSku(Struct, frozen=True):
    """A VM size. `vcpus` are guest vCPUs; the host gives `host_vcpus` = guest + emulator threads.

    `numa_cells` is the number of cells it spans; every cell gives ceil(host_vcpus / cells) vCPUs
    and its share of the memory, which is counted in MiB, rounded up: `memory_gib` may have a fraction.
    `machine_skus` names the hardware that lists it; empty = any.
    `kind` is the type letter G, P, E or L, or "" for a SKU of the user's own. `extended` are further
    resources of a node of this size, per cell of the node: they decide about pods, not about VMs. `vfs`
    are the SR-IOV virtual functions that each VM takes, as its pool declares.
    """

    name: str
    vcpus: int
    emulator_vcpus: int
    memory_gib: float
    disk_gib: int
    numa_cells: int = 1
    extra_large: bool = False
    machine_skus: tuple[str, ...] = ()
    kind: str = ""
    extended: tuple[tuple[str, tuple[int, ...]], ...] = ()
    vfs: int = 0

    @property
    def host_vcpus(self) -> int:
        """Host vCPUs taken on the machine."""
        return self.vcpus + self.emulator_vcpus

    @property
    def cpus_in_cell(self) -> int:
        """Host vCPUs taken in each of its cells."""
        return -(-self.host_vcpus // self.numa_cells)

    @property
    def memory_mib(self) -> int:
        """MiB of memory, rounded up."""
        return ceil(self.memory_gib * MIB_PER_GIB)

    @property
    def mib_in_cell(self) -> int:
        """MiB taken in each of its cells."""
        return -(-self.memory_mib // self.numa_cells)

    @property
    def memory_in_cell(self) -> float:
        """GiB taken in each of its cells."""
        return gib(self.mib_in_cell)

    @property
    def vfs_in_cell(self) -> int:
        """VFs taken in each of its cells."""
        return -(-self.vfs // self.numa_cells)

    @property
    def title(self) -> str:
        """Its name, with the VFs that a pool adds to it."""
        return f"{self.name} + {self.vfs} {form(self.vfs, 'VF')}" if self.vfs else self.name


class Machine(Struct, frozen=True):
    """A bare-metal machine as it stands in a plan. Names are unique on a site.

    `machine_sku` is None when the machine is described by figures of its own (then any VM SKU
    passes the hardware check). `refusal` says why it takes no new VM ("cordoned", ...), "" when
    it is schedulable; its VMs stay and count either way.
    """

    name: str
    rack: str
    availability_zone: str
    slot: int
    machine_sku: str | None
    cells: int
    cpus_per_cell: int
    memory_gib_per_cell: int
    disk_gib: int
    refusal: str = ""
    vfs_per_cell: int = VFS_PER_CELL


class VmName(Struct, frozen=True):
    """Whose VM it is, as the placement rule counts and breaks ties: cluster, pool, number.

    `owner` tells clusters of different kinds with one name apart when VMs are counted (an NKS
    cluster and a VNF may both be called "a"); the tie-break text uses `cluster` alone.
    """

    owner: str
    cluster: str
    pool: str
    number: int | str


class HintScope(StrEnum):
    """What a placement hint speaks of."""

    MACHINE = "Machine"
    RACK = "Rack"


class Hint(Struct, frozen=True):
    """Be with (`affinity`) or away from a target: machines or racks by name.

    Hard hints filter between steps 2 and 3; soft ones count as violated or not, first key of step 3 (rack
    scope) or step 4 (machine scope). `target` is what the user named, for the reason.
    """

    affinity: bool
    hard: bool
    scope: HintScope
    machines: frozenset[str]
    racks: frozenset[str]
    target: str


class Terms(Struct, frozen=True):
    """What a pool (or a VM) asks of the placement rule beside its SKU: the arguments of the rules.

    `zones` None = all. Whoever has a pool hands its terms on whole, so a new argument is one more field.
    """

    zones: frozenset[str] | None = None
    hints: tuple[Hint, ...] = ()


ANYWHERE = Terms()


class Demand(Struct, frozen=True):
    """A VM that wants a machine.

    `last_resort` is a machine tried only when no other candidate is left (heal).
    """

    vm: VmName
    sku: VmSku
    terms: Terms = ANYWHERE
    last_resort: str | None = None

    @property
    def zones(self) -> frozenset[str] | None:
        """The zones asked for; None = all."""
        return self.terms.zones

    @property
    def hints(self) -> tuple[Hint, ...]:
        """The placement hints, hard and soft."""
        return self.terms.hints


def anybodys(sku: VmSku, terms: Terms = ANYWHERE) -> Demand:
    """A VM of a pool that has no other on the site: to ask how much room there is."""
    return Demand(VmName("", "", "", 0), sku, terms)


def common_terms(pools: Iterable[Terms]) -> Terms:
    """What pools ask of the rule alike, wherever they may stand and whoever is near them."""
    different = {replace(terms, zones=None, hints=()) for terms in pools}
    return different.pop() if len(different) == 1 else ANYWHERE


class Interval(Struct, frozen=True):
    """A count of which bounds are known, `least` and `most`; they are equal where the count is."""

    least: int
    most: int

    @property
    def exact(self) -> bool:
        """Whether the count is known."""
        return self.least == self.most

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.least + other.least, self.most + other.most)

    def __str__(self) -> str:
        return f"{self.least:,}" if self.exact else f"{self.least:,} to {self.most:,}"


NONE_FITS = Interval(0, 0)


def total(intervals: Iterable[Interval]) -> Interval:
    """The sum of counts that hang on nothing in common."""
    return sum(intervals, NONE_FITS)


class Placement(Place, frozen=True):
    """Where a VM stands. `cells` ascending, numbered from 0; () where the platform did not tell them."""

    machine: str
    rack: str
    availability_zone: str
    cells: tuple[int, ...]


class StandingVm(Struct, frozen=True):
    """One VM on the site, where it stands, as reports and explanations see it."""

    handle: int
    vm: VmName
    sku: VmSku
    placement: Placement
