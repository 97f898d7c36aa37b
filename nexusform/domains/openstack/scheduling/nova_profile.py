"""Placement profile of Nova: Placement's allocation candidates, then filters, then weighers.

Source: nova/scheduler and nova/weights.py of Nova 34.0, placement/objects/allocation_candidate.py
of Placement 16.0.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, product
from math import inf
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from nexusform.domains.openstack.scheduling.flavor_requests import (
    CUSTOM,
    TRAIT,
    FlavorRequest,
    find_image_rejection,
    find_unpredicted_property,
    parse_flavor,
    select_host_properties,
    select_image_requests,
)
from nexusform.domains.openstack.scheduling.hardware_fit import (
    PciDeviceAlias,
    build_pci_device_alias,
    count_free_devices,
)
from nexusform.domains.openstack.scheduling.host_usage import (
    NovaHostUsage,
    UsageTable,
    get_resource,
    list_amounts,
)
from nexusform.domains.openstack.scheduling.nova_host_records import (
    ACTIVE,
    DISK,
    MEMORY,
    MULTIPLIER,
    PCPU,
    VCPU,
    Flavor,
    ImageLimits,
    NovaHost,
    NovaServer,
    build_flavor,
    build_host,
    build_server,
    build_sku_name,
    split_list,
)
from nexusform.doubts.doubt import Doubt
from nexusform.json_data.plain_data import get_list, get_mapping
from nexusform.json_data.wrong_values import describe_wrong_value
from nexusform.scheduling.racks.layout import FreeCapacity, NumberedSite
from nexusform.scheduling.racks.profile import MACHINE_KEYS, RACK_KEYS, SchedulerProfile
from nexusform.scheduling.racks.rule import (
    CapacityCheck,
    CapacityFilter,
    DemandFilter,
    Filter,
    MachineFilter,
    MachineLoad,
    RankedItemKind,
    RejectionCheck,
    ShortageContext,
    Weigh,
)
from nexusform.scheduling.racks.rules import hints, zones
from nexusform.scheduling.racks.vms import (
    MIB_PER_GIB,
    Demand,
    HintScope,
    Machine,
    PlacementConstraints,
    UnschedulableReason,
    VmSku,
    convert_to_gib,
)

_Record = TypeVar("_Record")
COMPUTE: Final = "ComputeFilter"
ANTI_AFFINITY: Final = "ServerGroupAntiAffinityFilter"
AFFINITY: Final = "ServerGroupAffinityFilter"
AGGREGATES: Final = "AggregateInstanceExtraSpecsFilter"
CAPABILITIES: Final = "ComputeCapabilitiesFilter"
IMAGE: Final = "ImagePropertiesFilter"
NUMA: Final = "NUMATopologyFilter"
PCI: Final = "PciPassthroughFilter"
# Filters accepted in `enabled_filters`. The one of capabilities rejects no host for flavors without
# such properties; hosts of other flavors are uncertain.
FILTERS: Final = (COMPUTE, ANTI_AFFINITY, AFFINITY, AGGREGATES, CAPABILITIES, IMAGE, NUMA, PCI)
# Further filters of Nova. They are accepted, and may reject any host.
UNPREDICTED_FILTERS: Final = (
    "AggregateImagePropertiesIsolation",
    "AggregateIoOpsFilter",
    "AggregateMultiTenancyIsolation",
    "AggregateNumInstancesFilter",
    "AggregateTypeAffinityFilter",
    "DifferentHostFilter",
    "IoOpsFilter",
    "IsolatedHostsFilter",
    "JsonFilter",
    "MetricsFilter",
    "NumInstancesFilter",
    "SameHostFilter",
    "SimpleCIDRAffinityFilter",
)
DEFAULT_FILTERS: Final = (COMPUTE, CAPABILITIES, IMAGE, ANTI_AFFINITY, AFFINITY)
# Weigher of failed builds: only its multiplier counts (`list_hosts_with_unread_builds`).
BUILD_FAILURE: Final = "build_failure"
DEFAULT_MULTIPLIERS: Final[Mapping[str, float]] = {
    BUILD_FAILURE: 1_000_000.0,
    "cpu": 1.0,
    "disk": 1.0,
    "hypervisor_version": 1.0,
    "io_ops": -1.0,
    "num_instances": 0.0,
    "pci": 1.0,
    "ram": 1.0,
    "soft_affinity": 1.0,
    "soft_anti_affinity": 1.0,
}
# Setting of nova.conf, and argument of a site.
DEFAULT_ZONE: Final = "default_schedule_zone"
_SCOPED_SPEC: Final = "aggregate_instance_extra_specs:"
_MAX_DEVICES: Final = 100
# Nova sets it for hosts with a disabled service, and forbids it in each request of a host.
_DISABLED: Final = "COMPUTE_STATUS_DISABLED"


def build_machine(host: NovaHost, slot: int) -> Machine:
    """Return a host as a machine with one cell: the capacities of Placement.

    Its rack is its zone. The use of its NUMA cells, dedicated CPUs and PCI devices is counted
    apart, by the names (`record`) of the host and its VMs.
    """
    return Machine(
        name=host.name,
        rack=host.availability_zone,
        availability_zone=host.availability_zone,
        slot=slot,
        machine_sku=None,
        cells=1,
        cpus_per_cell=get_resource(host, VCPU).capacity,
        memory_gib_per_cell=convert_to_gib(get_resource(host, MEMORY).capacity),
        disk_gib=get_resource(host, DISK).capacity,
        unschedulable_reasons=(UnschedulableReason(host.unschedulable_reason),)
        if host.unschedulable_reason
        else (),
        record=host.name,
    )


def build_server_sku(server: NovaServer, record: str) -> VmSku:
    """Return the size of a server without emulator threads (0) and dedicated CPUs.

    `record` counts these.
    """
    return VmSku(
        server.name,
        server.vcpus,
        0,
        convert_to_gib(server.memory_mib),
        server.disk_gib,
        record=record,
    )


_COMPUTE: Final = MachineFilter(
    name=COMPUTE,
    find_rejection=lambda machine: machine.unschedulable_reason or None,
    describe_shortage=lambda _context: "No host has a compute service that is up and enabled.",
    line=f"  {COMPUTE}",
)


class _NovaRules(NamedTuple):
    """Hosts, flavors and images by name, with their requests and uses.

    There are also the requests of the flavors, the uses of the hosts, the enabled filters, the
    resource classes that only listed hosts offer, and those of other resource providers.
    """

    hosts: Mapping[str, NovaHost]
    flavors: Mapping[str, Flavor]
    requests: Mapping[str, FlavorRequest]
    images: Mapping[str, Mapping[str, str]]
    image_limits: Mapping[str, ImageLimits]
    table: UsageTable
    enabled: frozenset[str]
    host_classes: frozenset[str]
    other_classes: Sequence[str]
    default_zone: str | None

    def get_request(self, sku: VmSku) -> FlavorRequest:
        """Return the requests of a flavor; those of other SKUs are empty."""
        return self.requests.get(sku.name, FlavorRequest())

    def find_unread_fact(self, sku: VmSku, constraints: PlacementConstraints) -> Doubt | None:
        """Return a fact needed for the prediction of a VM that is not known, or None.

        Such facts are a flavor or image without a known value, the default zone, and those of its
        flavor and image.
        """
        return (
            constraints.unknown_request
            or self._find_unread_zone(constraints)
            or self._find_unread_part(sku, constraints)
        )

    def _find_unread_zone(self, constraints: PlacementConstraints) -> Doubt | None:
        """Return the fact of the default zone of Nova if it is unknown and decides a host."""
        zones = {host.availability_zone for host in self.hosts.values()}
        if self.default_zone is None and not constraints.platform_zone and len(zones) > 1:
            reason = (
                f"These VMs request no zone, and {DEFAULT_ZONE} of nova.conf may select one of "
                f'{", ".join(sorted(zones))}. Set {DEFAULT_ZONE} of the openstack_site, "" if '
                "nova.conf has none."
            )
            return _build_unread_fact(("setting", DEFAULT_ZONE), "value", reason)
        return None

    def _find_unread_part(self, sku: VmSku, constraints: PlacementConstraints) -> Doubt | None:
        """Return an unknown fact about the flavor or the image of a VM, or None.

        Such facts are an unlisted flavor, a PCI alias, a class of resources, a filter not enabled
        in Nova, the NUMA cells and devices of hosts, the image, and the hosts that support it.
        """
        request = self.get_request(sku)
        subject = ("flavor", sku.name)
        flavor = constraints.flavor
        if flavor and flavor not in self.flavors:
            reason = (
                f'The inventory has no flavor "{flavor}", and only its size is known: a flavor may '
                "require traits, aggregates, NUMA cells or devices. Capture flavors.json with the "
                "flavors of all projects (--all)."
            )
            return _build_unread_fact(("flavor", flavor), "properties", reason)
        if unpredicted := self._find_unpredicted_property(sku, constraints.image):
            return unpredicted
        if request.unknown_alias:
            reason = (
                f'The flavor "{sku.name}" has the PCI alias "{request.unknown_alias}". Set it in '
                "pci_aliases of the openstack_site, as in nova.conf."
            )
            return _build_unread_fact(subject, f"PCI alias {request.unknown_alias}", reason)
        unknown_class = next(
            (name for name in request.other_resources if name not in self.host_classes), ""
        )
        if unknown_class:
            reason = (
                f'The flavor "{sku.name}" has resources:{unknown_class}, and the inventory '
                "of hosts does not decide on this class. List all resource providers."
            )
            return _build_unread_fact(subject, f"resources:{unknown_class}", reason)
        device_class = next((name for name in self.other_classes if name.startswith(CUSTOM)), "")
        if request.devices and device_class:
            reason = (
                f'The flavor "{sku.name}" has PCI devices, and resource providers without a host '
                f"have {device_class}: Nova may take its devices from them."
            )
            return _build_unread_fact(subject, "PCI devices in Placement", reason)
        needed_filters = ((NUMA, request.numa.cells), (PCI, request.devices))
        disabled = [
            name for name, objects in needed_filters if objects and name not in self.enabled
        ]
        if disabled:
            reason = (
                f'The flavor "{sku.name}" needs {disabled[0]}, and enabled_filters do not have '
                "it: Nova then checks its cells and devices only on the chosen host, and retries "
                "on others."
            )
            return _build_unread_fact(subject, disabled[0], reason)
        is_described = all(host.has_details for host in self.hosts.values())
        if request.needs_host_details and not is_described:
            reason = (
                f'The NUMA cells and PCI devices for the flavor "{sku.name}" are unknown: '
                f"{_HOW_TO_DESCRIBE}"
            )
            return _build_unread_fact(subject, "NUMA cells and PCI devices of hosts", reason)
        image = constraints.image
        if image not in self.images:
            # It may require traits, NUMA cells or pages of any host.
            reason = (
                f'The inventory has no image "{image}", or several that differ (image-ID.json). '
                "Of several, set the id of one."
                if image
                else "The image of these VMs is unknown. Set image in the block vdu of the "
                "tacker_vnf."
            )
            return _build_unread_fact(("image", image), "properties", reason)
        has_host_properties = bool(select_host_properties(self.images[image]))
        if IMAGE in self.enabled and has_host_properties and not is_described:
            reason = f'The hosts that support the image "{image}" are unknown: {_HOW_TO_DESCRIBE}'
            return _build_unread_fact(("image", image), "supported instances of hosts", reason)
        return None

    def _find_unpredicted_property(self, sku: VmSku, image: str) -> Doubt | None:
        """Return the fact of a property of the flavor or image whose effect is not predicted."""
        flavor = self.flavors.get(sku.name, _NO_FLAVOR)
        unpredicted = self.get_request(sku).unpredicted or next(
            filter(None, map(self._find_unpredicted_comparison, flavor.properties.items())), ""
        )
        subject = ("flavor", sku.name)
        if not unpredicted:
            unpredicted = find_unpredicted_property(self.images.get(image, {}))
            subject = ("image", image)
        if not unpredicted:
            return None
        reason = f"The effect of {unpredicted} on placement is not predicted."
        return _build_unread_fact(subject, unpredicted, reason)

    def _find_unpredicted_comparison(self, item: tuple[str, str]) -> str:
        """Return a property of a flavor if a filter compares it in a way that is not predicted.

        It is about the state of hosts, or it has an operator such as ">= 2".
        """
        key, value = item
        is_of_host = key in _HOST_STATE_FIELDS or key.startswith(_STATISTICS)
        if is_of_host and CAPABILITIES in self.enabled:
            return key
        has_operator = value.split(maxsplit=1)[:1] != [value]
        return key if self._is_of_aggregates(key) and has_operator else ""

    def _is_of_aggregates(self, key: str) -> bool:
        """Return whether a property of a flavor is compared with the metadata of aggregates."""
        is_scoped = ":" not in key or key.startswith(_SCOPED_SPEC)
        return AGGREGATES in self.enabled and is_scoped and not key.startswith(TRAIT)

    def find_refusal(self, demand: Demand) -> str:
        """Return why Nova's API refuses a VM before it looks for a host, or "".

        Source: API._validate_flavor_image_nostatus and _validate_bdm of Nova 34.0.
        """
        flavor = self.flavors.get(demand.sku.name)
        if flavor is None:
            return ""
        image = demand.constraints.image
        limits = self.image_limits.get(image, ImageLimits())
        if limits.status != ACTIVE:
            return f'the image "{image}" is {limits.status}, not active'
        if flavor.memory_mib < limits.min_ram_mib:
            return (
                f'the image "{image}" needs {limits.min_ram_mib:,} MiB of memory (min_ram), and '
                f'the flavor "{flavor.name}" has {flavor.memory_mib:,}'
            )
        disk = flavor.root_disk_gib
        # Without a root disk, Nova checks the volume.
        if disk and limits.min_disk_gib > disk:
            return (
                f'the image "{image}" needs {limits.min_disk_gib:,} GiB of disk (min_disk), and '
                f'the flavor "{flavor.name}" has {disk:,}'
            )
        if disk and limits.size > disk * _BYTES_PER_GIB:
            return f'the image "{image}" is larger than the root disk of the flavor "{flavor.name}"'
        ephemeral_gib, swap_mib = demand.constraints.local_disks
        if flavor.ephemeral_gib is not None and ephemeral_gib > flavor.ephemeral_gib:
            return (
                f"the ephemeral disks of {ephemeral_gib:,} GiB exceed those of the flavor "
                f'"{flavor.name}", {flavor.ephemeral_gib:,} GiB'
            )
        if flavor.swap_mib is not None and swap_mib > flavor.swap_mib:
            return (
                f'the swap of {swap_mib:,} MiB exceeds that of the flavor "{flavor.name}", '
                f"{flavor.swap_mib:,} MiB"
            )
        return self.get_request(demand.sku).problem

    def find_rejection(self, demand: Demand, host: NovaHost) -> str:
        """Return the reason why the host is no candidate for the demand at any load, or ""."""
        if refusal := self.find_refusal(demand):
            return refusal
        constraints = demand.constraints
        zone = constraints.platform_zone or self.default_zone
        if zone and zone != host.availability_zone:
            source = "requested" if constraints.platform_zone else DEFAULT_ZONE
            return f"zone {zone} is {source}"
        if constraints.platform_host not in ("", host.name):
            return f"host {constraints.platform_host} is requested"
        sku = demand.sku
        request = self.get_request(demand.sku)
        for name, amount in list_amounts(sku):
            if problem := get_resource(host, name).find_unit_problem(amount):
                return f"{name} {amount:,}: {problem}"
        image = self.images.get(demand.constraints.image, {})
        if reason := _find_trait_rejection(request.traits, host.traits):
            return reason
        flavor = self.flavors.get(demand.sku.name, _NO_FLAVOR)
        is_requested = bool(constraints.platform_host)
        for item in flavor.properties.items():
            if reason := self._check_flavor_property(item, host, is_requested=is_requested):
                return reason
        if IMAGE in self.enabled and host.has_details:
            return find_image_rejection(image, host.supported_instances)
        return ""

    def _check_flavor_property(
        self, item: tuple[str, str], host: NovaHost, *, is_requested: bool
    ) -> str:
        """Return why a property of the flavor rejects the host, or "".

        A property is about a trait of the host ("trait:NAME"), or about the metadata of its
        aggregates (without a prefix, or with the one for them). Properties with other prefixes
        reject no host here, nor do those whose effect is not predicted. Nova runs no filter for a
        requested host, and nothing later compares its aggregates.
        """
        key, value = item
        if key.startswith(TRAIT):
            trait = key.removeprefix(TRAIT)
            rejected_value = "forbidden" if trait in host.traits else "required"
            return f"trait {trait} is {value}" if value == rejected_value else ""
        is_compared = self._is_of_aggregates(key) and not is_requested
        if not is_compared or self._find_unpredicted_comparison(item):
            return ""
        name = key.removeprefix(_SCOPED_SPEC)
        texts = (metadata.get(name, "") for metadata in host.aggregates.values())
        values = chain.from_iterable(map(split_list, texts))
        return "" if value in values else f"no aggregate of the host has {name}={value}"


def _find_trait_rejection(required: frozenset[str], traits: frozenset[str]) -> str:
    """Return why a host with these traits is no candidate of Placement, or ""."""
    if _DISABLED in traits:
        # Even if its service is enabled.
        return f"trait {_DISABLED} is forbidden"
    missing = sorted(required - traits)
    return f"trait {missing[0]} is required" if missing else ""


def _build_unread_fact(subject: tuple[str, str], field: str, reason: str) -> Doubt:
    return Doubt(*subject, field, file="", line=0, reason=reason)


# Fields and statistics of a host in Nova: ComputeCapabilitiesFilter compares extra specs without a
# prefix with them.
_HOST_STATE_TEXT: Final = (
    "aggregates allocation_candidates cell_uuid consume_from_request cpu_allocation_ratio "
    "cpu_info disk_allocation_ratio disk_mb_used failed_builds free_disk_mb free_ram_mb host "
    "host_ip hypervisor_hostname hypervisor_type hypervisor_version instances io_workload "
    "limits metrics nodename num_instances num_io_ops numa_topology pci_stats "
    "ram_allocation_ratio supported_instances total_usable_disk_gb total_usable_ram_mb update "
    "updated uuid vcpus_total vcpus_used"
)
_HOST_STATE_FIELDS: Final = frozenset(_HOST_STATE_TEXT.split())
_STATISTICS: Final = ("num_task_", "num_vm_", "num_os_type_", "num_proj_")
_NO_FLAVOR: Final = Flavor("", 0, 0, 0)
_BYTES_PER_GIB: Final = 1 << 30
_HOW_TO_DESCRIBE: Final = (
    "set NOVA_DATABASE for the script of `nexusform inventory script -for=openstack` "
    "(compute_nodes.json). Until then "
    "all fitting hosts tie."
)


def _build_capacity_filter(rules: _NovaRules) -> CapacityFilter:
    """Build the filter of Placement's allocation candidates.

    The capacity has one cell per host: index 0.
    """

    def build_check(sku: VmSku) -> CapacityCheck:
        def find_rejection(capacity: FreeCapacity) -> str | None:
            """Return why the free capacity of the host does not fit the VM, or None.

            It covers vCPUs, dedicated CPUs, memory and disk.
            """
            # records: the host, and VMs on it.
            usage = rules.table.get_usage(capacity.records)
            # Without VCPU used for dedicated CPUs.
            free_vcpus = capacity.cpus[0] - usage.fallback_vcpus
            free = {VCPU: free_vcpus, MEMORY: capacity.memory[0], DISK: capacity.disk}
            for name, amount in list_amounts(sku):
                if free[name] < amount:
                    return f"{name}: {free[name]:,} of {amount:,} free"
            missing = usage.find_missing_resource(rules.get_request(sku), rules.host_classes)
            if missing:
                return missing
            if not sku.dedicated_vcpus:
                return None
            request = rules.get_request(sku)
            # Dedicated CPUs are PCPU, or else VCPU as Nova's fallback.
            if usage.has_dedicated_vcpus(request) or usage.has_fallback_vcpus(request, free_vcpus):
                return None
            return f"{PCPU}: {max(usage.free_dedicated_vcpus, 0):,} of {sku.dedicated_vcpus:,} free"

        return find_rejection

    def describe_shortage(context: ShortageContext) -> str:
        sku = context.demand.sku
        cpus = (
            f"{sku.dedicated_vcpus} {PCPU}" if sku.dedicated_vcpus else f"{sku.host_vcpus} {VCPU}"
        )
        others = rules.get_request(sku).other_resources
        more = "".join(f", {amount} {name}" for name, amount in others.items())
        amounts = f"{cpus}{more}, {sku.memory_mib:,} {MEMORY} and {sku.disk_gib} {DISK}"
        return f"No host has {amounts} free (Placement, {len(context.machines):,} hosts checked)."

    return CapacityFilter(
        name="placement",
        build_check=build_check,
        describe_shortage=describe_shortage,
        # The shortage in one word.
        binding="capacity",
        # label in the explanation of a placement.
        line="  placement",
    )


def _build_usage_filter(
    rules: _NovaRules,
    name: str,
    fits: Callable[[NovaHostUsage, FlavorRequest, int], bool],
    subject: str,
) -> CapacityFilter:
    """Build a filter on NUMA cells or PCI devices (`subject`), with the check `fits`.

    Hosts without details pass.
    """

    def build_check(sku: VmSku) -> CapacityCheck:
        request = rules.get_request(sku)

        def find_rejection(capacity: FreeCapacity) -> str | None:
            usage = rules.table.get_usage(capacity.records)
            # Without VCPU used for dedicated CPUs.
            free_vcpus = capacity.cpus[0] - usage.fallback_vcpus
            is_possible = not usage.host.has_details or fits(usage, request, free_vcpus)
            return None if is_possible else f"{subject} do not fit"

        return find_rejection

    return CapacityFilter(
        name=name,
        build_check=build_check,
        describe_shortage=lambda context: (
            f'No host has free {subject} for the flavor "{context.demand.sku.name}" '
            f"({len(context.machines):,} hosts checked)."
        ),
        # The shortage in few words.
        binding=subject,
        # label in the explanation of a placement.
        line=f"  {name}",
    )


def _build_flavor_filter(rules: _NovaRules) -> DemandFilter:
    """Build the filter of hosts unfit for a flavor or image at any load.

    Its check takes the number of a host.
    """

    def build_check(layout: NumberedSite, demand: Demand) -> RejectionCheck:
        return lambda number: (
            rules.find_rejection(demand, rules.hosts[layout.machines[number].name]) or None
        )

    def describe_shortage(context: ShortageContext) -> str:
        hosts = [rules.hosts[context.layout.machines[number].name] for number in context.machines]
        if refusal := rules.find_refusal(context.demand):
            return f"The VM does not run: Nova refuses it because {refusal}."
        # Each once, in order.
        reasons = dict.fromkeys(rules.find_rejection(context.demand, host) for host in hosts)
        return "Every host is rejected: " + "; ".join(reason for reason in reasons if reason) + "."

    return DemandFilter(
        name="flavor",
        item=RankedItemKind.MACHINE,
        select_input=lambda demand: (
            demand.sku,
            demand.constraints.image,
            demand.constraints.platform_zone,
            demand.constraints.platform_host,
            demand.constraints.local_disks,
        ),
        build_check=build_check,
        describe_shortage=describe_shortage,
        # label in the explanation of a placement.
        line="  flavor",
    )


class _Weigher(NamedTuple):
    """Weigher: its multiplier's name, figure of a host, and the fixed minimum of figures.

    -inf: their own.
    """

    name: str
    compute: Callable[[Demand, NovaHostUsage, MachineLoad], float]
    minimum: float = -inf


def _compute_free(host: NovaHost, resource_class: str, used: int) -> float:
    resource = get_resource(host, resource_class)
    return resource.total - resource.reserved - used


def _count_group(demand: Demand, machine: str, *, is_affinity: bool) -> int:
    """Count the VMs on a host in the demand's soft server groups.

    The groups are either of affinity or of anti-affinity.
    """
    return sum(
        dict(hint.vms_by_machine).get(machine, 0)
        for hint in demand.hints
        if (hint.is_hard, hint.is_affinity, hint.scope) == (False, is_affinity, HintScope.MACHINE)
    )


def _compute_free_vcpus(_demand: Demand, usage: NovaHostUsage, load: MachineLoad) -> float:
    """Return the vCPUs of the CPU weigher.

    The limit of the host by its allocation ratio, less those of all its VMs.
    """
    resource = get_resource(usage.host, VCPU)
    capacity = resource.total * resource.allocation_ratio - resource.reserved
    # Of VMs, on dedicated CPUs.
    pinned_vcpus = usage.dedicated_vcpus + usage.fallback_vcpus - usage.emulator_vcpus
    return capacity - (load.vcpus + pinned_vcpus + usage.unallocated.vcpus)


_WEIGHERS: Final = (
    _Weigher("cpu", _compute_free_vcpus, 0),
    _Weigher(
        "disk",
        lambda _demand, usage, load: (
            _compute_free(usage.host, DISK, load.disk_gib + usage.unallocated.disk_gib)
            * MIB_PER_GIB
        ),
        0,
    ),
    _Weigher("hypervisor_version", lambda _demand, usage, _load: usage.host.hypervisor_version),
    _Weigher("io_ops", lambda _demand, _usage, load: load.new_vms, 0),
    _Weigher("num_instances", lambda _demand, _usage, load: load.vms),
    _Weigher(
        "pci",
        lambda _demand, usage, _load: (
            _MAX_DEVICES - min(count_free_devices(usage.pools), _MAX_DEVICES - 1)
        ),
    ),
    _Weigher(
        "ram",
        lambda _demand, usage, load: _compute_free(
            usage.host, MEMORY, load.memory_mib + usage.unallocated.memory_mib
        ),
        0,
    ),
    _Weigher(
        "soft_affinity",
        lambda demand, usage, _load: _count_group(demand, usage.host.name, is_affinity=True),
    ),
    _Weigher(
        "soft_anti_affinity",
        lambda demand, usage, _load: -_count_group(demand, usage.host.name, is_affinity=False),
    ),
)


def _normalize_weights(figures: Sequence[float], minimum: float) -> list[float]:
    """Scale figures like nova.weights.normalize.

    `minimum` (-inf: the lowest one) becomes 0, and the highest figure 1. Equal figures become 0.
    """
    lowest = min(figures) if minimum == -inf else minimum
    highest = max(figures)
    if lowest == highest:
        return [0.0] * len(figures)
    return [(figure - lowest) / (highest - lowest) for figure in figures]


def _get_multiplier(weigher: str, host: NovaHost, multipliers: Mapping[str, float]) -> float:
    """Return the multiplier of a host: the least one of its aggregates, else the configured one.

    Like Nova, ignore those of all its aggregates if one is no number.
    """
    key = f"{weigher}{MULTIPLIER}"
    try:
        values = [float(metadata[key]) for metadata in host.aggregates.values() if key in metadata]
    except ValueError:
        values = []
    return min(values, default=multipliers[weigher])


def _build_weigher(rules: _NovaRules, multipliers: Mapping[str, float]) -> Weigh:
    """Build the function of the weights; all hosts tie if facts are unknown."""

    def weigh(demand: Demand, loads: Sequence[MachineLoad]) -> list[float]:
        """Return the weight of each host.

        The weight is the sum of the weighers' figures, scaled to 0 to 1, times multipliers.
        """
        weights = [0.0] * len(loads)
        if len(loads) < 2 or rules.find_unread_fact(demand.sku, demand.constraints):
            # Nothing to compare, or unknown: all hosts tie.
            return weights
        usages = [rules.table.get_usage(load.records) for load in loads]
        for weigher in _WEIGHERS:
            pairs = zip(usages, loads, strict=True)
            figures = [
                max(weigher.compute(demand, usage, load), weigher.minimum) for usage, load in pairs
            ]
            for index, figure in enumerate(_normalize_weights(figures, weigher.minimum)):
                weights[index] += (
                    _get_multiplier(weigher.name, usages[index].host, multipliers) * figure
                )
        return weights

    return weigh


class NovaSettings(NamedTuple):
    """Settings of nova.conf: [filter_scheduler], and the aliases of [pci] by name.

    `default_zone` is the zone of servers that request none: "" for none, None if unknown.
    """

    enabled_filters: Iterable[str] = DEFAULT_FILTERS
    multipliers: Mapping[str, float] = {}
    subset_size: int = 1
    aliases: Mapping[str, PciDeviceAlias] = {}
    default_zone: str | None = None


def build_nova_settings(values: Mapping[str, Any]) -> NovaSettings:
    """Build the settings from plain data, for example the arguments of an openstack_site."""
    filters = values.get("enabled_filters")
    return NovaSettings(
        # An empty list enables none.
        enabled_filters=DEFAULT_FILTERS if filters is None else filters,
        multipliers={
            name: float(value) for name, value in get_mapping(values, "weight_multipliers").items()
        },
        subset_size=int(values.get("host_subset_size") or 1),
        aliases={
            name: build_pci_device_alias(fields)
            for name, fields in get_mapping(values, "pci_aliases").items()
        },
        default_zone=values.get(DEFAULT_ZONE),
    )


class NovaSite(NamedTuple):
    """Hosts and flavors, the servers on the hosts by id, and the properties of images by name.

    `other_classes` are the resource classes of resource providers that are no listed hosts.
    """

    hosts: Sequence[NovaHost]
    flavors: Sequence[Flavor]
    servers: Mapping[str, NovaServer] = {}
    images: Mapping[str, Mapping[str, str]] = {}
    other_classes: Sequence[str] = ()
    image_limits: Mapping[str, ImageLimits] = {}

    def build_usage_table(self, aliases: Mapping[str, PciDeviceAlias]) -> UsageTable:
        """Build the uses of the hosts."""
        return UsageTable(
            {host.name: host for host in self.hosts}, self.parse_requests(aliases), self.servers
        )

    def parse_requests(self, aliases: Mapping[str, PciDeviceAlias]) -> dict[str, FlavorRequest]:
        """Return the requests of the flavors, and of flavors with images, by name of the SKU."""
        return {
            build_sku_name(flavor.name, image): parse_flavor(
                flavor, aliases, self.images.get(image)
            )
            for flavor, image in self.list_flavors_with_images()
        }

    def list_flavors_with_images(self) -> list[tuple[Flavor, str]]:
        """Return each flavor with "" (no image), and with the name of each image with requests.

        A flavor with a root disk has a second form, without it, for servers on volumes.
        """
        images = [
            name for name, properties in self.images.items() if select_image_requests(properties)
        ]
        volume_forms = [flavor.volume_form for flavor in self.flavors if flavor.root_disk_gib]
        return list(product([*self.flavors, *volume_forms], ("", *images)))

    def build_skus(self) -> dict[str, VmSku]:
        """Return the SKUs of the flavors, alone and with images, by name."""
        requests = self.parse_requests(aliases={})
        skus = {}
        for flavor, image in self.list_flavors_with_images():
            name = build_sku_name(flavor.name, image)
            request = requests[name]
            allocated = flavor.weighed_size.subtract(request.unallocated)
            skus[name] = VmSku(
                name,
                allocated.vcpus,
                request.emulator_vcpus,
                convert_to_gib(allocated.memory_mib),
                allocated.disk_gib,
                # "": uses no NUMA cells, CPUs or devices to count.
                record=name if request.is_counted else "",
                dedicated_vcpus=request.dedicated_vcpus,
            )
        return skus


def list_hosts_with_unread_builds(
    hosts: Sequence[NovaHost], settings: NovaSettings
) -> Sequence[NovaHost]:
    """Return the hosts that Nova may avoid because of failed builds, () if it does not matter.

    Their number is unknown, or was not 0: then each further build changes it.
    """
    multipliers = {**DEFAULT_MULTIPLIERS, **settings.multipliers}
    if len(hosts) < 2:
        return ()
    return [
        host
        for host in hosts
        if host.failed_builds != 0 and _get_multiplier(BUILD_FAILURE, host, multipliers)
    ]


def _build_records(
    source: Mapping[str, Any], field: str, build: Callable[[str, Any], _Record]
) -> dict[str, _Record]:
    """Return the records of a field by name, in the order of names.

    Raises ValueError with the name of an invalid one.
    """
    records = {}
    for name, values in sorted(get_mapping(source, field).items()):
        try:
            records[name] = build(name, values)
        except (AttributeError, TypeError, ValueError) as problem:
            raise ValueError(f'{field}["{name}"]: {describe_wrong_value(problem)}') from None
    return records


def build_nova_site(source: Mapping[str, Any]) -> NovaSite:
    """Build a site from plain data, as of data openstack_inventory.

    Raises ValueError if it is invalid.
    """
    return NovaSite(
        hosts=list(_build_records(source, "hosts", build_host).values()),
        flavors=list(_build_records(source, "flavors", build_flavor).values()),
        servers=_build_records(source, "servers", lambda _key, values: build_server(values)),
        images=get_mapping(source, "images"),
        other_classes=get_list(source, "other_resource_classes"),
        image_limits=_build_records(
            source, "image_limits", lambda _key, values: msgspec.convert(values, ImageLimits)
        ),
    )


def build_nova_profile(site: NovaSite, settings: NovaSettings) -> SchedulerProfile:
    """Build the scheduler profile of a site: the enabled filters, and the weigher of hosts."""
    enabled = frozenset(settings.enabled_filters)
    rules = _NovaRules(
        hosts={host.name: host for host in site.hosts},
        flavors={
            build_sku_name(flavor.name, image): flavor
            for flavor, image in site.list_flavors_with_images()
        },
        requests=site.parse_requests(settings.aliases),
        images=site.images,
        image_limits=site.image_limits,
        table=site.build_usage_table(settings.aliases),
        enabled=enabled,
        host_classes=frozenset(chain.from_iterable(host.resources for host in site.hosts))
        - frozenset(site.other_classes),
        other_classes=site.other_classes,
        default_zone=settings.default_zone,
    )
    filters: tuple[tuple[Filter, bool], ...] = (
        (_COMPUTE, COMPUTE in enabled),
        (_build_flavor_filter(rules), True),
        (_build_capacity_filter(rules), True),
        (
            _build_usage_filter(rules, NUMA, NovaHostUsage.can_fit_numa, "NUMA cells"),
            NUMA in enabled,
        ),
        (
            _build_usage_filter(rules, PCI, NovaHostUsage.can_fit_devices, "PCI devices"),
            PCI in enabled,
        ),
        (zones.FILTER, True),
        # server groups are hints of VMs.
        (hints.FILTER, not enabled.isdisjoint((AFFINITY, ANTI_AFFINITY))),
    )
    return SchedulerProfile(
        filters=tuple(item for item, is_enabled in filters if is_enabled),
        rack_keys=RACK_KEYS,
        machine_keys=MACHINE_KEYS,
        weigh=_build_weigher(rules, {**DEFAULT_MULTIPLIERS, **settings.multipliers}),
        subset_size=settings.subset_size,
        platform="Nova",
        find_unread_fact=rules.find_unread_fact,
    )
