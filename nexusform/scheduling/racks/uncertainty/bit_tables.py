"""Machines of a rack and racks of a site as bits, by level, and by their number of VMs."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

# The numbers of the set bits of each byte.
_BITS_BY_BYTE: Final = tuple(
    tuple(number for number in range(8) if byte >> number & 1) for byte in range(256)
)
# A bitset of more is halved before its bytes are counted.
_FEW_BITS: Final = 32
# The rack and machine of a placed VM, the bit of the machine, and whether the VM is extra-large.
PlacedVm: TypeAlias = tuple[int, int, int, bool]


class Bitsets:
    """Bitsets of a rack's machines with, or without, extra-large VMs, or of all racks.

    `bits` are by level, and `levels` are ascending.
    """

    __slots__ = ("bits", "levels")

    def __init__(self, bits: dict[int, int], levels: list[int]) -> None:
        self.bits = bits
        self.levels = levels

    def copy(self) -> Bitsets:
        """Return an independent copy."""
        return Bitsets(self.bits.copy(), self.levels.copy())

    def add(self, bit: int, level: int) -> None:
        """Add a machine or rack."""
        bits = self.bits.get(level)
        if bits is None:
            insort(self.levels, level)
            self.bits[level] = bit
        else:
            self.bits[level] = bits | bit

    def move(self, bit: int, level: int, target: Bitsets, new_level: int) -> None:
        """Move a machine or rack to a level of bitsets, mostly of these."""
        bits = self.bits[level] ^ bit
        if bits:
            self.bits[level] = bits
        else:
            del self.bits[level]
            del self.levels[bisect_left(self.levels, level)]
        target.add(bit, new_level)


class VmTables:
    """VMs of a cluster or pool: per rack, and extra-large ones per machine.

    `machine_bits[rack][n]` are the machines of a rack with more than n of these VMs. `rack_bits`
    are the racks of VMs that existed before the sample.
    """

    __slots__ = ("extra_large", "machine_bits", "rack_bits", "racks")

    def __init__(
        self, racks: dict[int, int], extra_large: dict[int, int], machine_bits: dict[int, list[int]]
    ) -> None:
        self.racks = racks
        self.extra_large = extra_large
        self.machine_bits = machine_bits
        self.rack_bits = build_bits(racks)

    def copy(self) -> VmTables:
        """Return an independent copy."""
        machine_bits = {rack: bits.copy() for rack, bits in self.machine_bits.items()}
        return VmTables(self.racks.copy(), self.extra_large.copy(), machine_bits)

    def count(self, vm: PlacedVm) -> None:
        """Count one more VM."""
        rack, machine, bit, is_extra_large = vm
        self.racks[rack] = self.racks.get(rack, 0) + 1
        count_on_machine(self.machine_bits.setdefault(rack, []), bit)
        if is_extra_large:
            self.extra_large[machine] = self.extra_large.get(machine, 0) + 1

    def remove(self, vm: PlacedVm) -> None:
        """Count one VM less."""
        rack, machine, bit, is_extra_large = vm
        self.racks[rack] -= 1
        if not self.racks[rack]:
            del self.racks[rack]
        machine_bits = self.machine_bits[rack]
        highest = max(number for number, bits in enumerate(machine_bits) if bits & bit)
        machine_bits[highest] ^= bit
        if is_extra_large:
            # Those that existed before a sample are counted for clusters alone.
            self.extra_large[machine] = self.extra_large.get(machine, 0) - 1


def count_on_machine(machine_bits: list[int], bit: int) -> None:
    """Count one more VM on a machine, whose bit is given, in the table of its rack."""
    for number, machines in enumerate(machine_bits):
        if not machines & bit:
            machine_bits[number] = machines | bit
            return
    machine_bits.append(bit)


def iterate_by_count(machine_bits: Sequence[int]) -> Iterator[int]:
    """Yield the machines of a rack without VMs of a table, then those with one, two and so on."""
    more = -1
    for bits in machine_bits:
        yield more & ~bits
        more = bits
    yield more


class VmCounters:
    """VMs of a cluster or pool in a sample; `rack_bits` are their racks.

    A cluster with fewer VMs than racks needs no tables: no VM shares a rack with another one. So
    placed VMs are counted when the tables are read.
    """

    __slots__ = ("_is_copied", "_tables", "placed_vms", "rack_bits")

    def __init__(self, tables: VmTables) -> None:
        """Start with the tables of the existing VMs, which all samples share."""
        self._tables = tables
        self._is_copied = False
        self.rack_bits = tables.rack_bits
        # Those that are not counted yet.
        self.placed_vms: list[PlacedVm] = []

    def count_tables(self) -> VmTables:
        """Return the tables with all VMs placed so far."""
        if self.placed_vms:
            self._copy_tables()
            for vm in self.placed_vms:
                self._tables.count(vm)
            self.placed_vms.clear()
        return self._tables

    def add(self, vm: PlacedVm) -> None:
        """Add a VM, which is counted once the tables are read."""
        self.placed_vms.append(vm)
        self.rack_bits |= 1 << vm[0]

    def remove(self, vm: PlacedVm) -> None:
        """Count one VM less."""
        self._copy_tables()
        tables = self.count_tables()
        tables.remove(vm)
        rack = vm[0]
        if rack not in tables.racks:
            self.rack_bits &= ~(1 << rack)

    def _copy_tables(self) -> None:
        """Copy the shared tables before the first change."""
        if not self._is_copied:
            self._tables = self._tables.copy()
            self._is_copied = True


class OwnerCounters(VmCounters):
    """VMs of a cluster in a sample, and those of its pools from their first VM on."""

    __slots__ = ("pools",)

    def __init__(self, tables: VmTables) -> None:
        """Start with the tables of the existing VMs."""
        super().__init__(tables)
        self.pools: dict[int, VmCounters] = {}


def build_bits(items: Iterable[int]) -> int:
    """Return the bitset of some numbers."""
    bits = 0
    for item in items:
        bits |= 1 << item
    return bits


def select_bit(bits: int, number: int) -> int:
    """Select a set bit by a drawn number, and return its position among all bits."""
    count = bits.bit_count()
    if count == 1:
        return bits.bit_length() - 1
    # The number of set bits below the selected one.
    skipped = number % count
    first = 0
    width = bits.bit_length()
    while width > _FEW_BITS:
        half = width >> 1
        lower_bits = bits & (1 << half) - 1
        count = lower_bits.bit_count()
        if skipped < count:
            bits = lower_bits
            width = half
        else:
            skipped -= count
            bits >>= half
            first += half
            width -= half
    while skipped >= (count := len(_BITS_BY_BYTE[bits & 255])):
        skipped -= count
        bits >>= 8
        first += 8
    return first + _BITS_BY_BYTE[bits & 255][skipped]
