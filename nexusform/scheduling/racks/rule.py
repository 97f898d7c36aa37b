"""What a rule is: a filter that refuses machines or racks with a reason, or a key that ranks them.

A rule is a record. It is opened for a demand and the site as it stands, once for all VMs of a pool
that come one after the other, and then answers by the number of a machine or rack, from live numbers.
What kind of filter it is, and what a key promises, says how long its answers hold; session.py, the
caches of steps and the counting of free room go by that alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from enum import IntEnum, StrEnum
from typing import NamedTuple, Protocol

from msgspec import Struct

from nexusform.scheduling.racks.layout import Figures, Layout, Room, Usage
from nexusform.scheduling.racks.vms import Demand, Interval, Machine, VmSku

COUNT_BITS = 32
MEMORY_BITS = 48

Refuse = Callable[[int], str | None]
RefuseRoom = Callable[[Room], str | None]


class Item(StrEnum):
    """Of what a rule's numbers are."""

    MACHINE = "machine"
    RACK = "rack"


class PoolKey(NamedTuple):
    """A pool as VMs are counted (owner, pool) and as ties are broken (cluster, pool)."""

    owner: str
    cluster: str
    pool: str


class HousedVm(NamedTuple):
    """A VM by the number of its machine, with its cells."""

    pool: PoolKey
    sku: VmSku
    machine: int
    cells: tuple[int, ...]


class Scene(Protocol):
    """A demand that no machine takes, for the sentence of the filter that refused the last ones."""

    @property
    def demand(self) -> Demand:
        """Whom no machine takes."""

    @property
    def layout(self) -> Layout:
        """The site."""

    @property
    def in_asked_racks(self) -> Sequence[int]:
        """Machines of the racks that the demand asks for."""

    @property
    def machines(self) -> Sequence[int]:
        """Those that every filter before this one passed."""

    def room(self, machine: int) -> Room:
        """What is left on a machine."""

    def holds_when_empty(self, machine: int) -> bool:
        """Whether the machine takes VMs and would take this one if it were empty."""

    def vms(self) -> Iterator[HousedVm]:
        """Every VM of the site, in the order in which they came."""


def stay(_demand: Demand, left: Interval, before: Interval) -> str:
    """How many machines a filter left, worth saying when it refused some."""
    return f"{left} stay" if left != before else ""


class Filter(Struct, frozen=True, kw_only=True):
    """What every filter has. Its file's name, and words.

    `sentence` says for people why no machine is left when this filter refused the last ones; `binding`
    is the same in a word, for programs ("" = the name). In an explanation `count(demand, left, before)`
    says how many machines it left ("" = not worth saying), on the line called `line` ("" = the name).
    """

    name: str
    sentence: Callable[[Scene], str]
    binding: str = ""
    line: str = ""
    count: Callable[[Demand, Interval, Interval], str] = stay


class MachineFilter(Filter, frozen=True, kw_only=True):
    """Looks at a machine as it is described: asked once per site."""

    refuse: Callable[[Machine], str | None]


class RoomFilter(Filter, frozen=True, kw_only=True):
    """Looks at what is left on a machine, for a SKU: asked once for each SKU and room."""

    opens: Callable[[VmSku], RefuseRoom]


class DemandFilter(Filter, frozen=True, kw_only=True):
    """Looks at names and at the demand, not at VMs: its answers hold for as long as the site.

    `reads` is all that it reads of the demand, None when it refuses nothing to it.
    """

    item: Item
    reads: Callable[[Demand], Hashable]
    opens: Callable[[Layout, Demand], Refuse]


class CountFilter(Filter, frozen=True, kw_only=True):
    """Looks at VMs. `opens` gives None when it refuses nothing to the demand, however many VMs come.

    `closing` promises two things: the answer for a machine or rack hangs on the VMs there alone, and
    one more VM of the demand never turns a refusal into consent. Without the promise every VM is placed
    by a look at all machines.
    """

    item: Item
    opens: Callable[[Usage, Demand], Refuse | None]
    closing: bool = False


class Differs(IntEnum):
    """Where a key's figure for a demand may differ from everybody's (a demand without VMs on the site).

    All but ANYWHERE promise: whether the key bears on a demand hangs on its SKU and terms alone; the
    figure of a machine or rack hangs on the VMs there alone; where the cluster (or pool) has VMs it is
    at least everybody's; one more VM of the demand never lowers it. Without the promise every VM is
    placed by a look at all machines.
    """

    NOWHERE = 0
    WHERE_POOL_STANDS = 1
    WHERE_CLUSTER_STANDS = 2
    ANYWHERE = 3


class Key(Struct, frozen=True, kw_only=True):
    """Ranks machines or racks: the lowest figure wins, ties go to the next key.

    `opens` gives the figures (0 or more, below 2 ** `bits`) by number, live, or None when they are 0
    everywhere for the demand. `words(demand, figure)` says it for people, "" = not worth saying;
    `figure` makes of it what programs are told.
    """

    rule: str
    opens: Callable[[Usage, Demand], Figures | None]
    words: Callable[[Demand, int], str]
    figure: Callable[[int], float] = int
    bits: int = COUNT_BITS
    differs: Differs = Differs.ANYWHERE


CellKey = Callable[[Room, int], int]


class KeyPart(Struct, frozen=True):
    """One figure by which candidates are compared.

    The rule's name, the figure (lower wins), and the figure in words for people ("" = not worth saying).
    """

    rule: str
    value: float
    text: str
