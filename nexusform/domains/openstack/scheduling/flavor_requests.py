"""Requests in the properties of a flavor: dedicated CPUs, NUMA cells, memory pages, PCI devices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from nexusform.domains.openstack.scheduling.nova_hosts import Flavor
from nexusform.domains.openstack.scheduling.numa_fit import DEDICATED, ISOLATE, PAGE_SIZES, REQUIRE, NumaRequest
from nexusform.domains.openstack.scheduling.pci_devices import POLICIES, DeviceAlias, DeviceRequest

HYPERTHREADING: Final = "HW_CPU_HYPERTHREADING"
_POLICY: Final = "hw:cpu_policy"
_THREADS: Final = "hw:cpu_thread_policy"
_THREAD_POLICIES: Final = ("prefer", ISOLATE, REQUIRE)
_NODES: Final = "hw:numa_nodes"
_PAGE_SIZE: Final = "hw:mem_page_size"
_ALIAS: Final = "pci_passthrough:alias"
_AFFINITY: Final = "hw:pci_numa_affinity_policy"
# Properties with an effect on placement that is not predicted.
_UNPREDICTED: Final = (
    "hw:cpu_dedicated_mask",
    "hw:cpu_realtime",
    "hw:emulator_threads_policy",
    "hw:maxphysaddr",
    "hw:mem_encryption",
    "hw:numa_cpus",
    "hw:numa_mem",
    "hw:pmem",
    "resources",
    "group_policy",
    "accel:device_profile",
    "capabilities:",
)
_KIB_BY_UNIT: Final = {"": 1 / 1024, "K": 1, "M": 1024, "G": 1024**2, "T": 1024**3}


class FlavorRequest(Struct, frozen=True):
    """Requests of a flavor besides its size. `problem` is a reason why no host can be predicted, else ""."""

    numa: NumaRequest | None = None
    devices: tuple[DeviceRequest, ...] = ()
    dedicated_vcpus: int = 0
    unknown_alias: str = ""
    problem: str = ""

    @property
    def needs_details(self) -> bool:
        """Whether NUMA cells or PCI devices of the hosts count."""
        return self.numa is not None or bool(self.devices) or bool(self.unknown_alias)


def parse_flavor(flavor: Flavor, aliases: Mapping[str, DeviceAlias]) -> FlavorRequest:
    """Parse the properties of a flavor. `aliases` are those of nova.conf by name."""
    properties = flavor.properties
    unpredicted = next((key for key in properties if key.startswith(_UNPREDICTED)), "")
    if unpredicted:
        return FlavorRequest(problem=f"the flavor has {unpredicted}, and its effect is not predicted")
    policy, affinity = properties.get(_POLICY, ""), properties.get(_AFFINITY, "")
    if policy not in ("", "shared", DEDICATED):
        return FlavorRequest(problem=f"the flavor has {_POLICY}={policy}, and its effect is not predicted")
    try:
        numa = _parse_numa(flavor, is_dedicated=policy == DEDICATED)
        counts = _parse_aliases(properties.get(_ALIAS, ""))
    except ValueError as problem:
        return FlavorRequest(problem=str(problem))
    if affinity and affinity not in POLICIES:
        return FlavorRequest(problem=_format_invalid(_AFFINITY, affinity))
    devices = tuple(
        DeviceRequest(aliases[name], count, affinity or aliases[name].numa_policy)
        for name, count in counts
        if name in aliases
    )
    unknown = next((name for name, _ in counts if name not in aliases), "")
    return FlavorRequest(numa, devices, flavor.vcpus if policy == DEDICATED else 0, unknown)


def _parse_numa(flavor: Flavor, *, is_dedicated: bool) -> NumaRequest | None:
    """Return the requested cells; CPUs and pages of a policy need one cell. Raises ValueError."""
    properties = flavor.properties
    nodes, page_size = properties.get(_NODES, ""), _parse_page_size(properties.get(_PAGE_SIZE, ""))
    thread_policy = _parse_thread_policy(properties)
    if thread_policy and not is_dedicated:
        raise ValueError(f"the flavor has {_THREADS} without {_POLICY}={DEDICATED}: Nova rejects its servers")
    if not (nodes or page_size or is_dedicated):
        return None
    if nodes and (not nodes.isdigit() or int(nodes) < 1):
        raise ValueError(_format_invalid(_NODES, nodes))
    cells = int(nodes or 1)
    if flavor.vcpus % cells or flavor.memory_mib % cells:
        raise ValueError(f"the flavor has {_NODES}={cells}, and its vCPUs or memory cannot be divided by it")
    return NumaRequest(cells, flavor.vcpus // cells, flavor.memory_mib // cells, page_size, is_dedicated, thread_policy)


def _parse_thread_policy(properties: Mapping[str, str]) -> str:
    policy = properties.get(_THREADS, "")
    if policy and policy not in _THREAD_POLICIES:
        raise ValueError(_format_invalid(_THREADS, policy))
    by_trait = {"forbidden": ISOLATE, "required": REQUIRE}
    return by_trait.get(properties.get(f"trait:{HYPERTHREADING}", "") if properties.get(_POLICY) else "", policy)


def _parse_page_size(text: str) -> int | None:
    """Return the page size in KiB, or one of PAGE_SIZES. Raises ValueError."""
    if text in PAGE_SIZES or not text:
        return PAGE_SIZES.get(text)
    match = re.fullmatch(r"(\d+)([KMGT]?)B", text)
    if text.isdigit():
        return int(text)
    if match is None:
        raise ValueError(_format_invalid(_PAGE_SIZE, text))
    return int(int(match[1]) * _KIB_BY_UNIT[match[2]])


def _parse_aliases(text: str) -> list[tuple[str, int]]:
    """Return (alias, count) pairs. Raises ValueError."""
    pairs = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, count = part.rpartition(":")
        if not name or not count.strip().isdigit():
            raise ValueError(_format_invalid(_ALIAS, text))
        pairs.append((name.strip(), int(count)))
    return pairs


def _format_invalid(key: str, value: str) -> str:
    return f"the flavor has {key}={value}, and Nova rejects this value"
