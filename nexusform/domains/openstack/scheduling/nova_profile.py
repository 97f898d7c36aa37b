"""Placement profile of Nova: Placement's allocation candidates, then filters, then weighers.

Source: nova/scheduler and nova/weights.py of Nova 34.0, placement/objects/allocation_candidate.py of Placement 16.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from nexusform.domains.openstack.scheduling.nova_hosts import DISK, MEMORY, VCPU, Flavor, NovaHost, Resource
from nexusform.scheduling.racks.layout import Layout, MachineCapacity
from nexusform.scheduling.racks.profile import MACHINE_KEYS, RACK_KEYS, Profile
from nexusform.scheduling.racks.rule import (
    CapacityCheck,
    CapacityFilter,
    DemandFilter,
    Filter,
    Item,
    MachineFilter,
    MachineLoad,
    RejectionCheck,
    ShortageContext,
    Weigh,
)
from nexusform.scheduling.racks.rules import hints, zones
from nexusform.scheduling.racks.vms import MIB_PER_GIB, Demand, HintScope, Machine, VmSku, convert_to_gib

COMPUTE: Final = "ComputeFilter"
ANTI_AFFINITY: Final = "ServerGroupAntiAffinityFilter"
AFFINITY: Final = "ServerGroupAffinityFilter"
AGGREGATES: Final = "AggregateInstanceExtraSpecsFilter"
CAPABILITIES: Final = "ComputeCapabilitiesFilter"
IMAGE: Final = "ImagePropertiesFilter"
NUMA: Final = "NUMATopologyFilter"
PCI: Final = "PciPassthroughFilter"
# Filters accepted in `enabled_filters`. Those of capabilities, images, NUMA cells and PCI devices reject no
# host for flavors without such properties; other flavors are rejected as not predicted.
FILTERS: Final = (COMPUTE, ANTI_AFFINITY, AFFINITY, AGGREGATES, CAPABILITIES, IMAGE, NUMA, PCI)
DEFAULT_FILTERS: Final = (COMPUTE, CAPABILITIES, IMAGE, ANTI_AFFINITY, AFFINITY)
DEFAULT_MULTIPLIERS: Final[Mapping[str, float]] = {
    "cpu": 1.0,
    "disk": 1.0,
    "hypervisor_version": 1.0,
    "io_ops": -1.0,
    "num_instances": 0.0,
    "ram": 1.0,
    "soft_affinity": 1.0,
    "soft_anti_affinity": 1.0,
}
_TRAIT: Final = "trait:"
_SCOPED_SPEC: Final = "aggregate_instance_extra_specs:"
# Properties with an effect on placement that is not predicted.
_UNPREDICTED: Final = (
    "hw:cpu_policy",
    "hw:cpu_thread_policy",
    "hw:emulator_threads_policy",
    "hw:mem_encryption",
    "hw:mem_page_size",
    "hw:numa_nodes",
    "hw:pci_numa_affinity_policy",
    "pci_passthrough:alias",
    "resources",
    "group_policy",
    "accel:device_profile",
    "capabilities:",
)


# --- hosts and flavors in terms of the scheduler -----------------------------------------------


def build_machine(host: NovaHost, slot: int) -> Machine:
    """Return a host as a machine with one cell: the capacities of Placement. Its rack is its zone."""
    return Machine(
        name=host.name,
        rack=host.availability_zone,
        availability_zone=host.availability_zone,
        slot=slot,
        machine_sku=None,
        cells=1,
        cpus_per_cell=_get_resource(host, VCPU).capacity,
        memory_gib_per_cell=convert_to_gib(_get_resource(host, MEMORY).capacity),
        disk_gib=_get_resource(host, DISK).capacity,
        unschedulable_reason=host.unschedulable_reason,
    )


def build_sku(flavor: Flavor) -> VmSku:
    """Return a flavor as a VM SKU."""
    memory = convert_to_gib(flavor.memory_mib)
    return VmSku(flavor.name, flavor.vcpus, 0, memory, flavor.disk_gib)


def _get_resource(host: NovaHost, resource_class: str) -> Resource:
    return host.resources.get(resource_class, Resource(0))


def _list_amounts(sku: VmSku) -> list[tuple[str, int]]:
    """Return the amounts allocated by Placement for one VM."""
    amounts = [(VCPU, sku.host_vcpus), (MEMORY, sku.memory_mib), (DISK, sku.disk_gib)]
    return [(name, amount) for name, amount in amounts if amount]


# --- filters -----------------------------------------------------------------------------------


def _describe_capacity(_context: ShortageContext) -> str:
    sku = _context.demand.sku
    return (
        f"No host has {sku.host_vcpus} {VCPU}, {sku.memory_mib:,} {MEMORY} and {sku.disk_gib} {DISK} free "
        f"(Placement, {len(_context.machines):,} hosts checked)."
    )


def _build_capacity_check(sku: VmSku) -> CapacityCheck:
    def find_rejection(capacity: MachineCapacity) -> str | None:
        free = {VCPU: capacity.cpus[0], MEMORY: capacity.memory[0], DISK: capacity.disk}
        for name, amount in _list_amounts(sku):
            if free[name] < amount:
                return f"{name}: {free[name]:,} of {amount:,} free"
        return None

    return find_rejection


_CAPACITY: Final = CapacityFilter(
    name="placement",
    build_check=_build_capacity_check,
    describe_shortage=_describe_capacity,
    binding="capacity",
    line="  placement",
)

_COMPUTE: Final = MachineFilter(
    name=COMPUTE,
    find_rejection=lambda machine: machine.unschedulable_reason or None,
    describe_shortage=lambda _context: "No host has a compute service that is up and enabled.",
    line=f"  {COMPUTE}",
)


class _Rules(NamedTuple):
    """Hosts and flavors by name, and the enabled filters."""

    hosts: Mapping[str, NovaHost]
    flavors: Mapping[str, Flavor]
    enabled: frozenset[str]

    def find_rejection(self, demand: Demand, host: NovaHost) -> str:
        """Return the reason why the host is no candidate for the demand at any load, or ""."""
        for name, amount in _list_amounts(demand.sku):
            problem = _get_resource(host, name).find_unit_problem(amount)
            if problem:
                return f"{name} {amount:,}: {problem}"
        flavor = self.flavors.get(demand.sku.name)
        for key, value in flavor.properties.items() if flavor is not None else ():
            reason = self._check_property(key, value, host)
            if reason:
                return reason
        return ""

    def _check_property(self, key: str, value: str, host: NovaHost) -> str:
        """Return why a property of the flavor rejects the host, or ""."""
        if key.startswith(_UNPREDICTED):
            return f"the flavor has {key}, and its effect is not predicted"
        if key.startswith(_TRAIT):
            trait = key.removeprefix(_TRAIT)
            if (value == "required") is not (trait in host.traits) and value in ("required", "forbidden"):
                return f"trait {trait} is {value}"
        if AGGREGATES in self.enabled and (":" not in key or key.startswith(_SCOPED_SPEC)):
            return _check_aggregates(key.removeprefix(_SCOPED_SPEC), value, host)
        return ""


def _check_aggregates(name: str, value: str, host: NovaHost) -> str:
    """Return why no aggregate of the host has the value of a flavor's property, or ""."""
    if value.split(maxsplit=1)[:1] != [value]:
        return f"{name} has an operator ({value}), and its effect is not predicted"
    texts = [metadata[name] for metadata in host.aggregates.values() if name in metadata]
    values = {part.strip() for text in texts for part in text.split(",")}
    return "" if value in values else f"no aggregate of the host has {name}={value}"


def _build_flavor_filter(rules: _Rules) -> DemandFilter:
    def build_check(layout: Layout, demand: Demand) -> RejectionCheck:
        return lambda number: rules.find_rejection(demand, rules.hosts[layout.machines[number].name]) or None

    def describe_shortage(context: ShortageContext) -> str:
        reasons = (
            rules.find_rejection(context.demand, rules.hosts[context.layout.machines[number].name])
            for number in context.machines
        )
        return "Every host is rejected: " + "; ".join(dict.fromkeys(filter(None, reasons))) + "."

    return DemandFilter(
        name="flavor",
        item=Item.MACHINE,
        select_input=lambda demand: demand.sku,
        build_check=build_check,
        describe_shortage=describe_shortage,
        line="  flavor",
    )


# --- weighers ----------------------------------------------------------------------------------


class _Weigher(NamedTuple):
    """Weigher: its multiplier's name, figure of a host, and the fixed minimum of figures (None: their own)."""

    name: str
    compute: Callable[[Demand, NovaHost, MachineLoad], float]
    minimum: float | None = None


def _compute_free(host: NovaHost, resource_class: str, used: int) -> float:
    resource = _get_resource(host, resource_class)
    return resource.total - resource.reserved - used


def _compute_free_vcpus(host: NovaHost, used: int) -> float:
    resource = _get_resource(host, VCPU)
    return resource.total * resource.allocation_ratio - resource.reserved - used


def _count_group(demand: Demand, machine: str, *, is_affinity: bool) -> int:
    """Count the VMs on a host of the demand's soft groups."""
    return sum(
        dict(hint.vms_by_machine).get(machine, 0)
        for hint in demand.hints
        if not hint.is_hard and hint.is_affinity is is_affinity and hint.scope is HintScope.MACHINE
    )


_WEIGHERS: Final = (
    _Weigher("cpu", lambda _demand, host, load: _compute_free_vcpus(host, load.vcpus), 0),
    _Weigher("disk", lambda _demand, host, load: _compute_free(host, DISK, load.disk_gib) * MIB_PER_GIB, 0),
    _Weigher("hypervisor_version", lambda _demand, host, _load: host.hypervisor_version),
    _Weigher("io_ops", lambda _demand, _host, load: load.new_vms, 0),
    _Weigher("num_instances", lambda _demand, _host, load: load.vms),
    _Weigher("ram", lambda _demand, host, load: _compute_free(host, MEMORY, load.memory_mib), 0),
    _Weigher("soft_affinity", lambda demand, host, _load: _count_group(demand, host.name, is_affinity=True)),
    _Weigher("soft_anti_affinity", lambda demand, host, _load: -_count_group(demand, host.name, is_affinity=False)),
)


def _normalize_weights(figures: Sequence[float], minimum: float | None) -> list[float]:
    """Scale the figures to 0 to 1, as nova.weights.normalize; all 0 if they are equal."""
    lowest = min(figures) if minimum is None else minimum
    highest = max(figures)
    if lowest == highest:
        return [0.0] * len(figures)
    return [(figure - lowest) / (highest - lowest) for figure in figures]


def _get_multiplier(weigher: str, host: NovaHost, multipliers: Mapping[str, float]) -> float:
    """Return the multiplier of a host: the least one of its aggregates, else the configured one."""
    key = f"{weigher}_weight_multiplier"
    values = [float(metadata[key]) for metadata in host.aggregates.values() if _is_number(metadata.get(key))]
    return min(values, default=multipliers[weigher])


def _is_number(text: str | None) -> bool:
    try:
        float(text or "")
    except ValueError:
        return False
    return True


def _build_weigher(hosts: Mapping[str, NovaHost], multipliers: Mapping[str, float]) -> Weigh:
    def weigh(demand: Demand, loads: Sequence[MachineLoad]) -> list[float]:
        weights = [0.0] * len(loads)
        for weigher in _WEIGHERS if len(loads) > 1 else ():
            figures = [weigher.compute(demand, hosts[load.machine.name], load) for load in loads]
            if weigher.minimum is not None:
                figures = [max(figure, weigher.minimum) for figure in figures]
            for index, figure in enumerate(_normalize_weights(figures, weigher.minimum)):
                multiplier = _get_multiplier(weigher.name, hosts[loads[index].machine.name], multipliers)
                weights[index] += multiplier * figure
        return weights

    return weigh


def build_nova_profile(
    hosts: Iterable[NovaHost],
    flavors: Iterable[Flavor],
    enabled_filters: Iterable[str] = DEFAULT_FILTERS,
    multipliers: Mapping[str, float] | None = None,
    subset_size: int = 1,
) -> Profile:
    """Build the profile of a site. Server groups are hints of its VMs."""
    enabled = frozenset(enabled_filters)
    by_name = {host.name: host for host in hosts}
    rules = _Rules(by_name, {flavor.name: flavor for flavor in flavors}, enabled)
    filters: list[Filter] = [_COMPUTE] if COMPUTE in enabled else []
    filters += [_build_flavor_filter(rules), _CAPACITY, zones.FILTER]
    if {AFFINITY, ANTI_AFFINITY} & enabled:
        filters.append(hints.FILTER)
    return Profile(
        filters=tuple(filters),
        rack_keys=RACK_KEYS,
        machine_keys=MACHINE_KEYS,
        weigh=_build_weigher(by_name, {**DEFAULT_MULTIPLIERS, **(multipliers or {})}),
        subset_size=subset_size,
        platform="Nova",
    )
