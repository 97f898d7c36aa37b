"""Compute hosts and flavors as Nova's scheduler and Placement see them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

VCPU, MEMORY, DISK = "VCPU", "MEMORY_MB", "DISK_GB"


class Resource(Struct, frozen=True):
    """Inventory of one resource class of a resource provider in Placement."""

    total: int
    reserved: int = 0
    allocation_ratio: float = 1.0
    min_unit: int = 1
    max_unit: int = 2**31 - 1
    step_size: int = 1

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
    """Compute host. `resources` by class; `aggregates` are the metadata of its aggregates, by name.

    `unschedulable_reason` is "" for a host with an enabled service in state up.
    """

    name: str
    availability_zone: str
    resources: Mapping[str, Resource]
    traits: frozenset[str] = frozenset()
    aggregates: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    hypervisor_version: int = 0
    unschedulable_reason: str = ""


class Flavor(Struct, frozen=True):
    """Flavor. `disk_gib` is the amount allocated by Placement: root, ephemeral and swap disk."""

    name: str
    vcpus: int
    memory_mib: int
    disk_gib: int
    properties: Mapping[str, str] = field(default_factory=dict)
