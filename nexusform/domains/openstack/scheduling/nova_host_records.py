"""Compute hosts and flavors as Nova's scheduler and Placement see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from nexusform.domains.openstack.scheduling.hardware_fit import (
    Count,
    DevicePool,
    Divisor,
    GuestCell,
    HostCell,
)
from nexusform.scheduling.racks.vms import MIB_PER_GIB

VCPU = "VCPU"
PCPU = "PCPU"
MEMORY = "MEMORY_MB"
DISK = "DISK_GB"
# Suffix of a key in the metadata of aggregates, after the name of a weigher.
MULTIPLIER: Final = "_weight_multiplier"
# Status of an image with data to boot from.
ACTIVE: Final = "active"
# Largest number of a CPU.
MAX_CPU: Final = 1 << 16


class Resource(Struct, frozen=True):
    """Inventory of one resource class of a resource provider in Placement."""

    total: Count
    reserved: Count = 0
    # The limit of Placement; it excludes infinity.
    allocation_ratio: Annotated[float, Meta(ge=0, le=3.40282e38)] = 1.0
    min_unit: Count = 1
    max_unit: Count = 2**31 - 1
    step_size: Divisor = 1

    @property
    def capacity(self) -> int:
        """Total amount for allocations."""
        return max(int((self.total - self.reserved) * self.allocation_ratio), 0)

    def find_unit_problem(self, amount: int) -> str:
        """Return why one allocation of this amount is impossible at any usage, or ""."""
        if not self.min_unit <= amount <= self.max_unit:
            return f"one allocation is {self.min_unit} to {self.max_unit}"
        return f"allocations are multiples of {self.step_size}" if amount % self.step_size else ""


class NovaHost(Struct, frozen=True):
    """Compute host.

    `resources` are by class; `aggregates` are the metadata of its aggregates, by name.
    `unschedulable_reason` is "" for a host with an enabled service in state up. With `has_details`
    its NUMA cells, free PCI devices and supported instances (architecture, hypervisor type, VM
    mode) are known. `failed_builds` are the builds that failed on it since the last successful one,
    None if unknown.
    """

    name: str
    availability_zone: str
    resources: Mapping[str, Resource]
    traits: frozenset[str] = frozenset()
    aggregates: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    hypervisor_version: int = 0
    unschedulable_reason: str = ""
    hypervisor_type: str = ""
    has_details: bool = False
    numa_cells: tuple[HostCell, ...] = ()
    device_pools: tuple[DevicePool, ...] = ()
    supported_instances: tuple[tuple[str, ...], ...] = ()
    failed_builds: Count | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a multiplier of an aggregate that is infinite or no number (NaN)."""
        for aggregate, metadata in self.aggregates.items():
            for key, value in metadata.items():
                text = value.strip().lower().lstrip("+-")
                if key.endswith(MULTIPLIER) and text in ("inf", "infinity", "nan"):
                    raise ValueError(f"{key} of aggregate {aggregate} is {value}")


class ServerSize(NamedTuple):
    """Amounts of a flavor's size."""

    vcpus: int = 0
    memory_mib: int = 0
    disk_gib: int = 0

    def add(self, other: ServerSize) -> ServerSize:
        """Return the sum of two sizes."""
        return ServerSize(*(amount + more for amount, more in zip(self, other, strict=True)))

    def subtract(self, other: ServerSize) -> ServerSize:
        """Return the difference of two sizes."""
        return ServerSize(*(amount - less for amount, less in zip(self, other, strict=True)))


class NovaServer(Struct, frozen=True):
    """Server on a host.

    `dedicated_vcpus` are PCPU in Placement, `emulator_vcpus` those of its emulator threads;
    `numa_cells` are those of its host with its share. `image` is "" for an image without requests.
    `other_resources` are further amounts in Placement by class, `unallocated` is the size of the
    flavor beyond the server's amounts in Placement.
    """

    host: str
    name: str = ""
    vcpus: Count = 0
    dedicated_vcpus: Count = 0
    memory_mib: Count = 0
    disk_gib: Count = 0
    flavor: str = ""
    numa_cells: tuple[GuestCell, ...] = ()
    emulator_vcpus: Count = 0
    image: str = ""
    other_resources: Mapping[str, int] = field(default_factory=dict)
    unallocated: Mapping[str, int] = field(default_factory=dict)

    @property
    def sku_name(self) -> str:
        """Name of its flavor with its image."""
        return build_sku_name(self.flavor, self.image)


class Flavor(Struct, frozen=True):
    """Flavor.

    `disk_gib` is the amount allocated by Placement: root, ephemeral and swap disk. `root_disk_gib`
    is the root disk alone, which servers that boot from a volume do not have on their host.
    `ephemeral_gib` and `swap_mib` are the limits of further local disks, None if unknown.
    """

    name: str
    vcpus: Count
    memory_mib: Count
    disk_gib: Count
    properties: Mapping[str, str] = field(default_factory=dict)
    root_disk_gib: Count = 0
    ephemeral_gib: Count | None = None
    swap_mib: Count | None = None

    def __post_init__(self) -> None:
        """Raise ValueError if the root disk is larger than all disks."""
        if self.root_disk_gib > self.disk_gib:
            raise ValueError(f"root_disk_gib {self.root_disk_gib} exceeds {self.disk_gib}")

    @property
    def size(self) -> ServerSize:
        """Its size."""
        return ServerSize(self.vcpus, self.memory_mib, self.disk_gib)

    @property
    def weighed_size(self) -> ServerSize:
        """The size that Nova counts on a host: Placement allocates swap, Nova's host has none.

        Source: ResourceTracker._update_usage of Nova 34.0.
        """
        swap_gib = -(-(self.swap_mib or 0) // MIB_PER_GIB)
        return self.size._replace(disk_gib=max(self.disk_gib - swap_gib, 0))

    @property
    def volume_form(self) -> Flavor:
        """The flavor for servers that boot from a volume: without its root disk."""
        return replace(
            self,
            name=build_sku_name(self.name, "", boots_from_volume=True),
            disk_gib=self.disk_gib - self.root_disk_gib,
            root_disk_gib=0,
        )


class ImageLimits(Struct, frozen=True):
    """What Nova's API checks of an image: its status, and the sizes of flavors for it.

    `size` is in bytes.
    """

    status: str = ACTIVE
    min_ram_mib: Count = 0
    min_disk_gib: Count = 0
    size: Count = 0


def build_sku_name(flavor: str, image: str, *, boots_from_volume: bool = False) -> str:
    """Return the name of a flavor for some servers.

    They have an image with requests of its own, or boot from a volume.
    """
    name = f"{flavor}{_FROM_VOLUME}" if boots_from_volume else flavor
    return f"{name}{_WITH_IMAGE}{image}" if image else name


_FROM_VOLUME: Final = " from volume"
_WITH_IMAGE: Final = " with image "


def is_form_of_flavor(sku_name: str) -> bool:
    """Return whether a SKU is a flavor with an image or on a volume: no name for users."""
    return sku_name.endswith(_FROM_VOLUME) or _WITH_IMAGE in sku_name


def build_host(name: str, values: Mapping[str, Any]) -> NovaHost:
    """Build a host from plain data with sets of CPUs as text, such as "0-3,8".

    Raises ValueError if it is invalid.
    """
    cells = [
        {
            **cell,
            **{key: list(parse_cpus(cell.get(key))) for key in ("shared", "dedicated", "pinned")},
            "siblings": [list(parse_cpus(core)) for core in cell.get("siblings") or ()],
        }
        for cell in values.get("numa_cells") or ()
    ]
    return msgspec.convert({**values, "name": name, "numa_cells": cells}, NovaHost, strict=False)


def build_flavor(name: str, values: Mapping[str, Any]) -> Flavor:
    """Build a flavor from plain data.

    Raises ValueError if it is invalid.
    """
    return msgspec.convert({**values, "name": name}, Flavor, strict=False)


def build_server(values: Mapping[str, Any]) -> NovaServer:
    """Build a server from plain data.

    Raises ValueError if it is invalid.
    """
    cells = [
        {**cell, "pins": list(parse_cpus(cell.get("pins")))}
        for cell in values.get("numa_cells") or ()
    ]
    known_values = {name: value for name, value in values.items() if value is not None}
    return msgspec.convert({**known_values, "numa_cells": cells}, NovaServer, strict=False)


def split_list(text: str) -> list[str]:
    """Return the parts of a text with commas, without blanks and without empty parts."""
    return [part for part in map(str.strip, text.split(",")) if part]


def parse_cpus(text: str | None) -> Iterator[int]:
    """Yield the CPUs of a text such as "0-3,8".

    Raises ValueError.
    """
    for part in split_list(text or ""):
        first, _, last = part.partition("-")
        numbers = range(int(first), int(last or first) + 1)
        if not numbers or numbers[-1] > MAX_CPU:
            raise ValueError(f"{part} are not CPUs")
        yield from numbers
