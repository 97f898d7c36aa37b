"""Use of NUMA cells, dedicated CPUs and PCI devices of hosts, from the records of their VMs.

The records of a machine are its name, the servers of the inventory (`server ID`) and the flavors of
other VMs in the order of their placement. The inventory counts its servers already: a server
without a record is subtracted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.openstack.scheduling.flavor_requests import HYPERTHREADING, FlavorRequest
from nexusform.domains.openstack.scheduling.hardware_fit import (
    ISOLATE,
    REQUIRE,
    DevicePool,
    GuestCell,
    HostCell,
    HostRatios,
    PciDeviceRequest,
    allocate_pci_devices,
    fit_numa_cells,
    update_host_cells,
)
from nexusform.domains.openstack.scheduling.nova_host_records import (
    DISK,
    MEMORY,
    PCPU,
    VCPU,
    NovaHost,
    NovaServer,
    Resource,
    ServerSize,
)
from nexusform.scheduling.racks.vms import VmSku

SERVER_RECORD: Final = "server "


class NovaHostUsage(Struct, frozen=True):
    """Use of a host.

    `dedicated_vcpus` are PCPU, `fallback_vcpus` VCPU of VMs with dedicated CPUs. The PCPU of
    emulator threads are no vCPUs of a VM: Nova's weigher ignores them. `other_resources` are used
    amounts of further resource classes, `unallocated` the sizes of VMs beyond those in Placement.
    """

    host: NovaHost
    cells: tuple[HostCell, ...]
    pools: tuple[DevicePool, ...]
    dedicated_vcpus: int = 0
    fallback_vcpus: int = 0
    emulator_vcpus: int = 0
    other_resources: Mapping[str, int] = field(default_factory=dict)
    unallocated: ServerSize = ServerSize()

    @property
    def free_dedicated_vcpus(self) -> int:
        """PCPU without a VM."""
        return get_resource(self.host, PCPU).capacity - self.dedicated_vcpus

    def find_missing_resource(self, request: FlavorRequest, classes: Container[str]) -> str:
        """Return why the amounts of other resource classes do not fit, or "".

        Only the `classes` of listed hosts are checked.
        """
        for name, amount in request.other_resources.items():
            resource = get_resource(self.host, name)
            free = resource.capacity - self.other_resources.get(name, 0)
            problem = "" if free >= amount else f"{max(free, 0):,} of {amount:,} free"
            problem = problem or resource.find_unit_problem(amount)
            if problem and name in classes:
                return f"{name}: {problem}"
        return ""

    def count_sizes(
        self, other_resources: Mapping[str, int], unallocated: ServerSize
    ) -> NovaHostUsage:
        """Return the use with the amounts of one more VM that its SKU does not count."""
        if not other_resources and not any(unallocated):
            return self
        used = Counter(self.other_resources)
        used.update(other_resources)
        return replace(self, other_resources=used, unallocated=self.unallocated.add(unallocated))

    def has_dedicated_vcpus(self, request: FlavorRequest) -> bool:
        """Return whether the dedicated CPUs of a VM fit into the free PCPU.

        The host must also fit its thread policy. Hosts with hyperthreading cannot isolate threads,
        and hosts without it lack required threads.
        """
        count = request.dedicated_vcpus
        unfit_policy = ISOLATE if HYPERTHREADING in self.host.traits else REQUIRE
        if request.numa.thread_policy == unfit_policy:
            return False
        return self.free_dedicated_vcpus >= count and not get_resource(
            self.host, PCPU
        ).find_unit_problem(count)

    def has_fallback_vcpus(self, request: FlavorRequest, free_vcpus: int) -> bool:
        """Return whether the dedicated CPUs of a VM fit into the free VCPU instead.

        This is the second query of Nova.
        """
        amount = request.fallback_vcpus
        return 0 < amount <= free_vcpus and not get_resource(self.host, VCPU).find_unit_problem(
            amount
        )

    def can_fit_numa(self, request: FlavorRequest, free_vcpus: int) -> bool:
        """Return whether the NUMA cells of a VM fit; True without NUMA cells.

        `free_vcpus` is the free VCPU. Placement counts dedicated CPUs as PCPU, or in a second query
        as VCPU. If they fit as both, the host is two candidates, and Nova tries both.
        """
        if not request.numa.cells:
            # No limit by NUMA cells.
            return True
        cores = chain.from_iterable(cell.siblings for cell in self.cells)
        has_threads = max(map(len, cores), default=1) > 1
        if request.numa.needs_threads and not has_threads:
            return False
        has_both = self.has_dedicated_vcpus(request) and self.has_fallback_vcpus(
            request, free_vcpus
        )
        return self.fit_numa(request, attempts=2 if has_both else 1) is not None

    def can_fit_devices(self, request: FlavorRequest, _free_vcpus: int) -> bool:
        """Return whether the PCI devices of a VM are free."""
        return self.take_devices(request.devices) is not None

    def fit_numa(self, request: FlavorRequest, attempts: int = 1) -> list[GuestCell] | None:
        """Return the NUMA cells of a VM, None if they do not fit.

        `attempts` is the number of candidates tried by Nova.
        """
        vcpus = get_resource(self.host, VCPU)
        memory = get_resource(self.host, MEMORY)
        ratios = HostRatios(vcpus.allocation_ratio, memory.allocation_ratio)
        devices_by_cell: Counter[int | None] = Counter()
        for pool in self.pools:
            devices_by_cell[pool.numa_node] += pool.count
        can_take = (
            (lambda cells: self.take_devices(request.devices, cells) is not None)
            if request.devices
            else None
        )
        return fit_numa_cells(self.cells, request.numa, ratios, devices_by_cell, can_take, attempts)

    def take_devices(
        self, requests: Sequence[PciDeviceRequest], cells: Sequence[int] = ()
    ) -> list[DevicePool] | None:
        """Return the PCI devices left by requests, None if there are too few.

        `cells` are the host cells of the VM.
        """
        return allocate_pci_devices(
            self.pools, requests, cells, {cell.id: cell.socket for cell in self.cells}
        )

    def add(self, request: FlavorRequest) -> NovaHostUsage:
        """Return the use with one more VM.

        NUMA cells and PCI devices are taken only if they fit. Nova first counts dedicated CPUs as
        PCPU. If only its second attempt succeeds, they are VCPU (the fallback).
        """
        counted = self.count_sizes(request.other_resources, request.unallocated)
        # For a VM without NUMA cells.
        cells: list[GuestCell] | None = []
        if request.numa.cells:
            # None: they do not fit.
            cells = self.fit_numa(request)
        # assumed if the cells of the host are unknown.
        is_first_attempt = cells is not None or not self.cells
        if request.fallback_vcpus == 0 or (is_first_attempt and self.has_dedicated_vcpus(request)):
            usage = replace(
                counted,
                dedicated_vcpus=self.dedicated_vcpus + request.dedicated_vcpus,
                emulator_vcpus=self.emulator_vcpus + request.emulator_vcpus,
            )
        else:
            usage = replace(counted, fallback_vcpus=self.fallback_vcpus + request.fallback_vcpus)
        guest_cells = cells or []
        host_cells = update_host_cells(self.cells, guest_cells, request.numa.thread_policy)
        pools = self.take_devices(request.devices, [cell.id for cell in guest_cells])
        return replace(usage, cells=host_cells, pools=self.pools if pools is None else tuple(pools))


class UsageTable:
    """Uses of hosts by their records.

    `requests` are those of the flavors by name, `servers` those of the inventory.
    """

    def __init__(
        self,
        hosts: Mapping[str, NovaHost],
        requests: Mapping[str, FlavorRequest],
        servers: Mapping[str, NovaServer],
    ) -> None:
        """Start without usages; each is computed on demand and cached by its records."""
        self._hosts = hosts
        self._requests = requests
        self._servers = servers
        # By records: name of a host, then of its VMs.
        self._usages: dict[tuple[str, ...], NovaHostUsage] = {}

    def get_usage(self, records: tuple[str, ...]) -> NovaHostUsage:
        """Return the use of a host with VMs (cached).

        `records` are its name, then "server KEY" or a flavor per VM.
        """
        usage = self._usages.get(records)
        if usage is None:
            *previous, last = records
            # A flavor: add one VM of it.
            if previous and not last.startswith(SERVER_RECORD):
                usage = self._add(self.get_usage(tuple(previous)), last)
            else:
                usage = self._build_usage(records)
            self._usages[records] = usage
        return usage

    def _build_usage(self, records: tuple[str, ...]) -> NovaHostUsage:
        """Return the use of a host.

        `records` are its name, and for each VM "server KEY" for a listed server, or its flavor.
        """
        # The record of a host is its name.
        host = self._hosts[records[0]]
        present = {record for record in records if record.startswith(SERVER_RECORD)}
        usage = NovaHostUsage(host, host.numa_cells, host.device_pools)
        for key, server in self._servers.items():
            if server.host != host.name:
                # A VM of another host.
                continue
            # The host's cells and pools include it, the counts do not.
            if f"{SERVER_RECORD}{key}" in present:
                usage = replace(
                    usage,
                    dedicated_vcpus=usage.dedicated_vcpus + server.dedicated_vcpus,
                    emulator_vcpus=usage.emulator_vcpus + server.emulator_vcpus,
                ).count_sizes(server.other_resources, ServerSize(**server.unallocated))
            else:
                # Not on the host any more.
                # From cells and pools.
                usage = self._subtract_server(usage, server)
        for record in records[1:]:
            if record not in present:
                usage = self._add(usage, record)
        return usage

    def _add(self, usage: NovaHostUsage, flavor: str) -> NovaHostUsage:
        return usage.add(self._requests.get(flavor, FlavorRequest()))

    def build_record(self, key: str) -> str:
        """Return the record of a server of the inventory, "" if only its size counts.

        The record has the form "server KEY".
        """
        server = self._servers[key]
        request = self._requests.get(server.sku_name, FlavorRequest())
        is_recorded = any(
            (
                server.dedicated_vcpus,
                server.numa_cells,
                server.other_resources,
                server.unallocated,
                request.needs_host_details,
            )
        )
        return f"{SERVER_RECORD}{key}" if is_recorded else ""

    def _subtract_server(self, usage: NovaHostUsage, server: NovaServer) -> NovaHostUsage:
        """Return the use without a server; its devices return to pools of its own cells first."""
        request = self._requests.get(server.sku_name, FlavorRequest())
        cells = update_host_cells(
            usage.cells, server.numa_cells, request.numa.thread_policy, sign=-1
        )
        pools = list(usage.pools)
        nodes = [cell.id for cell in server.numa_cells]
        for device in request.devices:
            matching = [pool for pool in pools if pool.has_properties(device.alias.properties)]
            # False, its own cells, first.
            matching.sort(key=lambda pool: pool.numa_node not in nodes)
            if matching:
                pools[pools.index(matching[0])] = replace(
                    matching[0], count=matching[0].count + device.count
                )
            else:
                pools.append(
                    DevicePool(device.count, device.alias.properties, next(iter(nodes), None))
                )
        return replace(usage, cells=cells, pools=tuple(pools))


def get_resource(host: NovaHost, resource_class: str) -> Resource:
    """Return the inventory of a resource class, empty if the host has none."""
    return host.resources.get(resource_class, Resource(0))


def list_amounts(sku: VmSku) -> list[tuple[str, int]]:
    """Return the amounts allocated by Placement for one VM besides dedicated CPUs.

    Amounts of 0 are omitted.
    """
    amounts = [(VCPU, sku.host_vcpus), (MEMORY, sku.memory_mib), (DISK, sku.disk_gib)]
    return [(name, amount) for name, amount in amounts if amount]
