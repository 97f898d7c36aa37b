"""Rule types: filters reject machines or racks with a reason, keys rank them.

A rule is a record. It is opened for a demand and the current site, once for all successive VMs of a
pool. It then answers by the number of a machine or rack, from live numbers. The kind of a filter,
and the dependence of a key, define how long its answers hold. session.py, the step caches and the
counts of free capacity rely on these alone.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from enum import IntEnum, StrEnum
from typing import NamedTuple, Protocol

from msgspec import Struct

from nexusform.scheduling.racks.layout import Figures, FreeCapacity, NumberedSite, Usage
from nexusform.scheduling.racks.vms import Demand, Interval, Machine, VmSku

COUNT_BITS = 32
MEMORY_BITS = 48

RejectionCheck = Callable[[int], str | None]
CapacityCheck = Callable[[FreeCapacity], str | None]


class RankedItemKind(StrEnum):
    """Kind of items with the numbers read by a rule."""

    MACHINE = "machine"
    RACK = "rack"


class PoolKey(NamedTuple):
    """Pool as used for VM counts (owner, pool) and for samples (cluster, pool)."""

    owner: str
    cluster: str
    pool: str


class MachineVm(NamedTuple):
    """VM with the number of its machine and its cells."""

    pool: PoolKey
    sku: VmSku
    machine: int
    cells: tuple[int, ...]


class ShortageContext(Protocol):
    """Context of a demand without machine.

    The message of the filter that rejected the last machines needs it.
    """

    @property
    def demand(self) -> Demand:
        """Demand that fits on no machine."""

    @property
    def layout(self) -> NumberedSite:
        """Site layout."""

    @property
    def machines_in_requested_racks(self) -> Sequence[int]:
        """Machines of the racks allowed by the demand."""

    @property
    def machines(self) -> Sequence[int]:
        """Machines that passed every earlier filter."""

    def get_free_capacity(self, machine: int) -> FreeCapacity:
        """Return the free capacity of a machine."""

    def can_host_when_empty(self, machine: int) -> bool:
        """Check whether the machine takes VMs and would fit this one if it were empty."""

    def list_vms(self) -> Iterator[MachineVm]:
        """List every VM of the site, in the order of addition."""


def describe_remaining_machines(_demand: Demand, remaining: Interval, before: Interval) -> str:
    """Return a text such as `12 stay` on the machines left after a filter.

    Return "" if it rejected none.
    """
    return f"{remaining} stay" if remaining != before else ""


class Filter(Struct, frozen=True, kw_only=True):
    """Common fields of all filters.

    `describe_shortage` explains why no machine is left when this filter rejected the last ones;
    `binding` is the same in one word, for programs ("" = the name). In an explanation
    `describe_remaining(demand, remaining, before)` gives the number of remaining machines ("" = not
    shown), on the line called `line` ("" = the name).
    """

    name: str
    describe_shortage: Callable[[ShortageContext], str]
    binding: str = ""
    line: str = ""
    describe_remaining: Callable[[Demand, Interval, Interval], str] = describe_remaining_machines


class MachineFilter(Filter, frozen=True, kw_only=True):
    """Filter on the description of a machine: evaluated once per site."""

    find_rejection: Callable[[Machine], str | None]


class CapacityFilter(Filter, frozen=True, kw_only=True):
    """Filter on the free capacity of a machine for a SKU.

    It is evaluated once for each SKU and capacity.
    """

    build_check: Callable[[VmSku], CapacityCheck]


class DemandFilter(Filter, frozen=True, kw_only=True):
    """Filter on names and on the demand, independent of VMs.

    Its answers hold for the lifetime of the site. `select_input` returns everything it reads of the
    demand, or None if it rejects nothing.
    """

    item: RankedItemKind
    select_input: Callable[[Demand], Hashable]
    build_check: Callable[[NumberedSite, Demand], RejectionCheck]


class CountFilter(Filter, frozen=True, kw_only=True):
    """Filter on VMs.

    `build_check` returns None if it rejects nothing for the demand, for any number of VMs.
    `is_monotonic` promises two things: the answer for a machine or rack depends on its VMs alone,
    and one more VM of the demand never turns a rejection into acceptance. Without the promise a
    scan of all machines places every VM.
    """

    item: RankedItemKind
    build_check: Callable[[Usage, Demand], RejectionCheck | None]
    is_monotonic: bool = False


class KeyDependence(IntEnum):
    """Scope of differences between a key's figure for a demand and the neutral one.

    The neutral figure is that of a demand without VMs on the site. All but UNBOUNDED promise: the
    relevance of a key for a demand depends on its SKU and constraints alone; the figure of a
    machine or rack depends on its VMs alone; if the cluster (or pool) has VMs there, it is at least
    the neutral one; one more VM of the demand never lowers it. Without the promise a scan of all
    machines places every VM.
    """

    NONE = 0
    POOL = 1
    CLUSTER = 2
    UNBOUNDED = 3


class RankingKey(Struct, frozen=True, kw_only=True):
    """Ranking of machines or racks: the lowest figure wins, the next key breaks ties.

    `build_figures` returns the figures (0 or more, below 2 ** `bits`) by number, live, or None if
    they are 0 everywhere for the demand. `describe(demand, figure)` returns a text for people, "" =
    not shown; `convert_figure` converts the figure for programs.
    """

    rule: str
    build_figures: Callable[[Usage, Demand], Figures | None]
    describe: Callable[[Demand, int], str]
    convert_figure: Callable[[int], float] = int
    bits: int = COUNT_BITS
    dependence: KeyDependence = KeyDependence.UNBOUNDED


CellKey = Callable[[FreeCapacity, int], int]


class RankingFigure(Struct, frozen=True):
    """Figure in a comparison of candidates.

    The rule's name, the figure (lower wins), and its text ("" = not shown).
    """

    rule: str
    value: float
    text: str


class MachineLoad(NamedTuple):
    """Machine with the totals and records of its VMs, for a weigher.

    `new_vms` are the VMs placed by this plan.
    """

    machine: Machine
    vcpus: int
    memory_mib: int
    disk_gib: int
    vms: int
    new_vms: int
    records: tuple[str, ...] = ()


# Weights of the machines for a demand, in the same order: the highest wins.
Weigh = Callable[[Demand, Sequence[MachineLoad]], Sequence[float]]
