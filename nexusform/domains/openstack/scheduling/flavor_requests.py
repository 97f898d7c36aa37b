"""Requests in the properties of a flavor and of an image.

The requests are for dedicated CPUs, NUMA cells, memory pages, PCI devices and hosts.

Source: nova/virt/hardware.py (numa_get_constraints), nova/scheduler/utils.py (ResourceRequest) and,
for images, ImagePropertiesFilter of Nova 34.0.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.documents.scalars import parse_integer
from nexusform.domains.openstack.scheduling.hardware_fit import (
    ANY,
    DEDICATED,
    ISOLATE,
    LARGE,
    MIXED,
    PAGE_SIZES,
    POLICIES,
    REQUIRE,
    SHARED,
    SOCKET,
    CellRequest,
    NumaRequest,
    PciDeviceAlias,
    PciDeviceRequest,
)
from nexusform.domains.openstack.scheduling.nova_host_records import (
    DISK,
    MAX_CPU,
    MEMORY,
    PCPU,
    VCPU,
    Flavor,
    ServerSize,
    split_list,
)

HYPERTHREADING: Final = "HW_CPU_HYPERTHREADING"
TRAIT: Final = "trait:"
_POLICY: Final = "hw:cpu_policy"
_THREADS: Final = "hw:cpu_thread_policy"
_PREFER: Final = "prefer"
_EMULATOR: Final = "hw:emulator_threads_policy"
_MASK: Final = "hw:cpu_dedicated_mask"
_NODES: Final = "hw:numa_nodes"
_CPUS = "hw:numa_cpus"
_MEMORY = "hw:numa_mem"
_PAGE_SIZE: Final = "hw:mem_page_size"
_ALIAS: Final = "pci_passthrough:alias"
_AFFINITY: Final = "hw:pci_numa_affinity_policy"
_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    _POLICY: (SHARED, DEDICATED, MIXED),
    _THREADS: (_PREFER, ISOLATE, REQUIRE),
    _EMULATOR: (ISOLATE, "share"),
    _AFFINITY: POLICIES,
}
_LOCKED_MEMORY: Final = "hw:locked_memory"
_ENCRYPTION: Final = "hw:ephemeral_encryption"
_ENCRYPTION_FORMAT: Final = "hw:ephemeral_encryption_format"
# Trait of a host by a property that needs it, and by the value: None is any true value.
_TRAITS: Final[Mapping[tuple[str, str | None], str]] = {
    ("hw:virtio_packed_ring", None): "COMPUTE_NET_VIRTIO_PACKED",
    ("hw:sound_model", "virtio"): "COMPUTE_SOUND_MODEL_VIRTIO",
    (_ENCRYPTION, None): "COMPUTE_EPHEMERAL_ENCRYPTION",
    **{
        (_ENCRYPTION_FORMAT, name): f"COMPUTE_EPHEMERAL_ENCRYPTION_{name.upper()}"
        for name in ("plain", "luks", "luksv2")
    },
}
_TRUE_VALUES: Final = frozenset({"1", "t", "true", "on", "y", "yes"})
_IMAGE_REQUESTS: Final = (
    *(_POLICY, _THREADS, _NODES, _CPUS, _MEMORY, _PAGE_SIZE, _AFFINITY, _LOCKED_MEMORY),
    *(name for name, _ in _TRAITS),
)
# Properties with an effect on placement that is not predicted.
_UNPREDICTED: Final = (
    "hw:cpu_realtime",
    "hw:maxphysaddr",
    "hw:mem_encryption",
    "hw:pmem",
    "hw:tpm_",
    "group_policy",
    "accel:device_profile",
    "capabilities:",
)
# A group of resources or traits with a name of its own: of one resource provider.
_GROUP: Final = re.compile("(resources|trait)[a-zA-Z0-9_-]{1,64}:")
_RESOURCES: Final = "resources:"
CUSTOM: Final = "CUSTOM_"
# Classes of os_resource_classes 1.1 besides those with this prefix. Nova ignores all others.
_STANDARD_CLASSES: Final = frozenset(
    {
        *(VCPU, PCPU, MEMORY, DISK, "VGPU", "VGPU_DISPLAY_HEAD", "FPGA", "PGPU"),
        *("PCI_DEVICE", "SRIOV_NET_VF", "IPV4_ADDRESS", "MEM_ENCRYPTION_CONTEXT"),
        *("NUMA_SOCKET", "NUMA_CORE", "NUMA_THREAD", "NUMA_MEMORY_MB"),
        *("NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC"),
        "NET_PACKET_RATE_KILOPACKET_PER_SEC",
        "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
        "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
    }
)
# A number without a unit is one of KiB.
_KIB_BY_UNIT: Final = {None: 1, "": 1 / 1024, "K": 1, "M": 1024, "G": 1024**2, "T": 1024**3}


class FlavorRequest(Struct, frozen=True):
    """Requests of a flavor and an image besides the size.

    `numa` has no cells if none are requested.

    `dedicated_vcpus` are PCPU with the `emulator_vcpus`; `fallback_vcpus` are VCPU on hosts without
    PCPU. `problem` is a reason why Nova rejects the flavor, else "". `unpredicted` is a property
    whose effect is not predicted. `other_resources` are amounts
    of further resource classes. `unallocated` is the size of the flavor beyond its amounts in
    Placement (`resources:` replaces amounts): weighers count the flavor's size.
    """

    numa: NumaRequest = NumaRequest()
    devices: tuple[PciDeviceRequest, ...] = ()
    dedicated_vcpus: int = 0
    emulator_vcpus: int = 0
    fallback_vcpus: int = 0
    traits: frozenset[str] = frozenset()
    unknown_alias: str = ""
    problem: str = ""
    unpredicted: str = ""
    other_resources: Mapping[str, int] = field(default_factory=dict)
    unallocated: ServerSize = ServerSize()

    @property
    def needs_host_details(self) -> bool:
        """Whether NUMA cells or PCI devices of the hosts count."""
        return any((self.numa.cells, self.devices, self.unknown_alias))

    @property
    def is_counted(self) -> bool:
        """Whether a VM takes more of a host than the amounts of its SKU."""
        return any((self.needs_host_details, self.other_resources, *self.unallocated))


def select_image_requests(image: Mapping[str, str]) -> dict[str, str]:
    """Return the requests of an image under the names of a flavor's properties.

    "hw_numa_nodes" is "hw:numa_nodes".
    """
    selected = {}
    for name, value in image.items():
        key = name.replace("hw_", "hw:", 1)
        is_required_trait = name.startswith(TRAIT) and value == "required"
        if is_required_trait or key.partition(".")[0] in _IMAGE_REQUESTS:
            selected[key] = str(value)
    return selected


def parse_flavor(
    flavor: Flavor, aliases: Mapping[str, PciDeviceAlias], image: Mapping[str, str] | None = None
) -> FlavorRequest:
    """Parse the properties of a flavor and an image; an error becomes its `problem`.

    `aliases` are those of nova.conf.
    """
    unpredicted = _find_unpredicted(flavor.properties, _UNPREDICTED, "os:secure_boot")
    try:
        request = _parse(flavor, aliases, select_image_requests(image or {}))
    except _UnpredictedError as problem:
        return FlavorRequest(unpredicted=unpredicted or str(problem))
    except ValueError as problem:
        # With such a property, an unread one may make it valid.
        if unpredicted:
            return FlavorRequest(unpredicted=unpredicted)
        return FlavorRequest(problem=str(problem))
    return replace(request, unpredicted=unpredicted) if unpredicted else request


class _UnpredictedError(Exception):
    """Property with an effect that is not predicted; the message is the property."""


def _parse(
    flavor: Flavor, aliases: Mapping[str, PciDeviceAlias], image: Mapping[str, str]
) -> FlavorRequest:
    """Return the requests of a flavor and an image.

    Raises ValueError for invalid properties, and _UnpredictedError. `aliases` are the PCI devices
    requested by name in flavors. `image` are the image's requests under the names of a flavor's
    properties; a conflict of both is invalid.
    """
    properties = flavor.properties
    for values in (properties, image):
        for key, known_values in _VALUES.items():
            if values.get(key, "") not in ("", *known_values):
                raise ValueError(_format_invalid_property(key, values[key]))
    amounts = _parse_amounts(properties)
    numa = _parse_numa_request(flavor, image, amounts)
    if numa.cpu_policy == MIXED:
        # Nova overwrites them.
        amounts = {name: amounts[name] for name in amounts.keys() - {VCPU, PCPU}}
    affinity = _select_property(properties, image, _AFFINITY)
    if image.get(_AFFINITY, affinity) != affinity:
        raise ValueError(_format_property_conflict(_AFFINITY))
    counts = _parse_pci_aliases(properties.get(_ALIAS, ""))
    devices = tuple(
        PciDeviceRequest(aliases[name], number, affinity or aliases[name].numa_policy)
        for name, number in counts
        # The first name without an alias becomes `unknown_alias`.
        if name in aliases
    )
    traits = {key.removeprefix(TRAIT) for key in image if key.startswith(TRAIT)}
    traits.update(_list_traits_of_devices(properties, image))
    if _is_true(_select_property(properties, image, _LOCKED_MEMORY)) and not numa.page_size:
        raise ValueError(f"{_LOCKED_MEMORY} needs {_PAGE_SIZE}: Nova rejects its servers")
    if affinity == SOCKET:
        traits.add("COMPUTE_SOCKET_PCI_NUMA_AFFINITY")
    dedicated = sum(cell.dedicated_vcpus for cell in numa.cells)
    return FlavorRequest(
        numa=numa,
        devices=devices,
        dedicated_vcpus=dedicated + numa.emulator_cpus,
        emulator_vcpus=numa.emulator_cpus,
        # VCPU on hosts without PCPU; none for MIXED, and for requested PCPU.
        fallback_vcpus=dedicated if numa.cpu_policy == DEDICATED and PCPU not in amounts else 0,
        traits=frozenset(traits),
        unknown_alias=next((name for name, _ in counts if name not in aliases), ""),
        other_resources={
            name: amount
            for name, amount in amounts.items()
            if amount and name not in (VCPU, PCPU, MEMORY, DISK)
        },
        unallocated=_compute_unallocated_size(flavor, amounts),
    )


def _parse_amounts(properties: Mapping[str, str]) -> dict[str, int]:
    """Return the amounts in Placement set by `resources:CLASS`, by class.

    They replace those of the flavor's size. Like Nova, ignore unknown classes and values that are
    no whole numbers.
    """
    amounts = {}
    for key, text in properties.items():
        name = key.removeprefix(_RESOURCES)
        amount = parse_integer(text.strip())
        is_class = name.startswith(CUSTOM) or name in _STANDARD_CLASSES
        if name != key and is_class and amount is not None:
            amounts[name] = amount
    return amounts


def _compute_unallocated_size(flavor: Flavor, amounts: Mapping[str, int]) -> ServerSize:
    """Return the size of a flavor beyond its amounts in Placement; below 0 for its swap.

    Raises ValueError if nothing remains to allocate. PCPU, even 0, replace VCPU.
    """
    vcpus = 0 if amounts.get(PCPU) == 0 else flavor.vcpus
    allocated = ServerSize(
        amounts.get(VCPU, vcpus),
        amounts.get(MEMORY, flavor.memory_mib),
        amounts.get(DISK, flavor.disk_gib),
    )
    if not any((*allocated, *amounts.values())):
        raise ValueError(f"{_RESOURCES}* leave no resource to request: Placement rejects this")
    return flavor.weighed_size.subtract(allocated)


def _list_traits_of_devices(
    properties: Mapping[str, str], image: Mapping[str, str]
) -> Iterator[str]:
    """Yield the traits of hosts for devices and encryption of a flavor or an image.

    Raises ValueError if both conflict.
    """
    for (key, value), trait in _TRAITS.items():
        requested = _select_property(properties, image, key)
        if image.get(key, requested) != requested:
            raise ValueError(_format_property_conflict(key))
        needs_key = key != _ENCRYPTION_FORMAT or _is_true(
            _select_property(properties, image, _ENCRYPTION)
        )
        if needs_key and (_is_true(requested) if value is None else requested == value):
            yield trait


def _is_true(text: str) -> bool:
    """Return whether a text is one of the true values of Nova."""
    return text.strip().lower() in _TRUE_VALUES


def _select_property(properties: Mapping[str, str], image: Mapping[str, str], key: str) -> str:
    """Return a property of the flavor, else of the image, else ""."""
    return properties.get(key) or image.get(key, "")


def _find_unpredicted(
    properties: Mapping[str, str], prefixes: tuple[str, ...], secure_boot: str
) -> str:
    """Return a property with an unpredicted effect.

    This is `secure_boot` if required, or a property with one of the prefixes. Otherwise return "".
    """
    if properties.get(secure_boot) == "required":
        return f"{secure_boot}=required"
    return next(
        (name for name in properties if name.startswith(prefixes) or _GROUP.match(name)), ""
    )


def _parse_numa_request(
    flavor: Flavor, image: Mapping[str, str], amounts: Mapping[str, int]
) -> NumaRequest:
    """Return the requested NUMA cells: one for pinned CPUs or pages alone; none without requests.

    Raises ValueError. `image` are the image's requests under the names of a flavor's properties,
    such as "hw:numa_nodes". `amounts` are those of `resources:`; PCPU pin all CPUs.
    """
    flavor_policy = flavor.properties.get(_POLICY, "")
    image_policy = image.get(_POLICY, "")
    # Of images, by the flavor's policy.
    rejected = {MIXED: (DEDICATED,), SHARED: (MIXED, DEDICATED)}
    if image_policy in rejected.get(flavor_policy, ()):
        raise ValueError(_format_property_conflict(_POLICY))
    policy = flavor_policy or image_policy  # "": none
    policy = _apply_requested_cpus(flavor, policy, amounts)
    thread_policy = _parse_thread_policy(flavor.properties, image)
    is_pinned = policy in (DEDICATED, MIXED)
    # emulator threads have a CPU of their own.
    is_isolated = flavor.properties.get(_EMULATOR) == ISOLATE
    for key, is_set in ((_THREADS, thread_policy), (_EMULATOR, is_isolated)):
        if is_set and not is_pinned:
            raise ValueError(
                f"{key} needs {_POLICY}={DEDICATED} or {MIXED}: Nova rejects its servers"
            )
    dedicated = _parse_dedicated_cpu_mask(flavor, policy)
    if flavor.properties.get(_NODES) and image.get(_NODES):
        raise ValueError(_format_property_conflict(_NODES))
    nodes = _select_property(flavor.properties, image, _NODES)
    page_size = _parse_page_size(flavor.properties, image)
    if nodes and not re.fullmatch(r"0{0,9}[1-9][0-9]{0,8}", nodes):
        raise ValueError(_format_invalid_property(_NODES, nodes))
    if not any((nodes, page_size, is_pinned)):
        return NumaRequest()
    cells = _parse_numa_cells(flavor, image, int(nodes or 1), dedicated)
    # Nova's filter wants threads if the flavor or the image requires them, even if the flavor only
    # states a preference.
    needs_threads = policy == DEDICATED and REQUIRE in (
        flavor.properties.get(_THREADS),
        image.get(_THREADS),
    )
    return NumaRequest(cells, page_size, policy, thread_policy, int(is_isolated), needs_threads)


def _apply_requested_cpus(flavor: Flavor, policy: str, amounts: Mapping[str, int]) -> str:
    """Return the CPU policy with the requested VCPU or PCPU of a flavor.

    Raises ValueError if both conflict.
    """
    requested = [name for name in (VCPU, PCPU) if name in amounts]
    if not requested:
        return policy
    text = " and ".join(f"{_RESOURCES}{name}" for name in requested)
    values = [amounts[name] for name in requested]
    if len([value for value in values if value]) > 1:
        raise ValueError(f"{text} are both set: Nova rejects its servers")
    if policy and any(values):
        raise ValueError(f"{text} is set beside {_POLICY}: Nova rejects its servers")
    if policy == DEDICATED:
        # Nova's second query asks for no CPUs.
        raise _UnpredictedError(text)
    emulator_cpus = int(flavor.properties.get(_EMULATOR) == ISOLATE)
    if amounts.get(PCPU) and amounts[PCPU] != flavor.vcpus + emulator_cpus:
        raise ValueError(f"{text} is not the number of its vCPUs: Nova rejects its servers")
    return DEDICATED if amounts.get(PCPU) else policy


def _parse_thread_policy(properties: Mapping[str, str], image: Mapping[str, str]) -> str:
    """Return the policy for threads by a property or a trait, "" for none.

    Raises ValueError if they conflict. The policy of the flavor precedes the one of the image. The
    trait for hyperthreading sets ISOLATE if it is forbidden, and REQUIRE if it is required.
    """
    policy = properties.get(_THREADS, "")
    image_policy = image.get(_THREADS, "")
    # Any policy of the image fits PREFER.
    if policy not in ("", _PREFER) and image_policy not in ("", policy):
        raise ValueError(_format_property_conflict(_THREADS))
    policy = policy or image_policy
    trait_name = f"{TRAIT}{HYPERTHREADING}"
    trait = properties.get(trait_name, image.get(trait_name, ""))
    if policy and trait:
        raise ValueError(f"{_THREADS} is set beside {trait_name}: Nova rejects its servers")
    return {"forbidden": ISOLATE, "required": REQUIRE}.get(trait, policy)


def _parse_dedicated_cpu_mask(flavor: Flavor, policy: str) -> frozenset[int]:
    """Return the vCPUs with dedicated CPUs: all for "dedicated", those of the mask for "mixed".

    Raises ValueError.
    """
    mask = flavor.properties.get(_MASK, "").strip()
    vcpus = frozenset(range(flavor.vcpus))
    # One without the other.
    if bool(mask) is not (policy == MIXED):
        raise ValueError(f"{_POLICY}={MIXED} and {_MASK} need each other: Nova rejects its servers")
    if not mask:
        return vcpus if policy == DEDICATED else frozenset()
    # A mask of exclusions alone excludes from all vCPUs.
    prefix = f"0-{flavor.vcpus - 1}," if mask.startswith("^") else ""
    dedicated = _parse_cpus(f"{prefix}{mask}", _MASK)
    # Some, not all.
    if not frozenset() < dedicated < vcpus:
        raise ValueError(_format_invalid_property(_MASK, mask))
    return dedicated


def _parse_numa_cells(
    flavor: Flavor, image: Mapping[str, str], nodes: int, dedicated: frozenset[int]
) -> tuple[CellRequest, ...]:
    """Return the NUMA cells of a VM, `nodes` in number.

    Raises ValueError. The properties hw:numa_cpus.N and hw:numa_mem.N set the vCPUs and the memory
    of each cell N; without them all cells have the same size: 8 vCPUs in 2 cells are 0 to 3 and 4
    to 7. `dedicated` are the vCPUs with dedicated CPUs.
    """
    cpus = [
        _parse_cpus(text, _CPUS)
        for text in _select_numbered_properties(flavor.properties, image, _CPUS)
    ]
    memory = [
        _parse_number(text, _MEMORY)
        for text in _select_numbered_properties(flavor.properties, image, _MEMORY)
    ]
    if not cpus and not memory:
        cpus_per_cell, remaining_cpus = divmod(flavor.vcpus, nodes)
        memory_per_cell, remaining_memory = divmod(flavor.memory_mib, nodes)
        if remaining_cpus or remaining_memory:
            raise ValueError(
                f"{_NODES} is {nodes}, and the vCPUs or memory of the flavor cannot be "
                "divided by it"
            )
        cpus = [
            frozenset(range(node * cpus_per_cell, (node + 1) * cpus_per_cell))
            for node in range(nodes)
        ]
        memory = [memory_per_cell] * nodes
    if not len(cpus) == len(memory) == nodes:
        raise ValueError(
            f"{_CPUS}.N and {_MEMORY}.N are not set for each of {nodes} cells: Nova rejects "
            "its servers"
        )
    has_every_cpu_once = sorted(chain.from_iterable(cpus)) == list(range(flavor.vcpus))
    if not has_every_cpu_once or sum(memory) != flavor.memory_mib:
        detail = (
            f"{_CPUS}.N and {_MEMORY}.N are not the vCPUs and memory of the flavor: Nova rejects "
            "its servers"
        )
        raise ValueError(detail)
    return tuple(
        CellRequest(len(cell), len(cell & dedicated), mib)
        for cell, mib in zip(cpus, memory, strict=True)
    )


def _select_numbered_properties(
    properties: Mapping[str, str], image: Mapping[str, str], key: str
) -> list[str]:
    """Return the values of key.0, key.1 and so on, until one is missing.

    Raises ValueError if both have key.0.
    """
    first_name = f"{key}.0"
    if first_name in properties and first_name in image:
        raise ValueError(_format_property_conflict(key))
    source = properties if first_name in properties else image
    values: list[str] = []
    while (name := f"{key}.{len(values)}") in source:
        values.append(source[name])
    return values


def _parse_page_size(properties: Mapping[str, str], image: Mapping[str, str]) -> int | None:
    """Return the page size (KiB or of PAGE_SIZES), None if unset.

    An image sets it if the flavor has any or large.
    """
    of_flavor, of_image = (
        _parse_page_size_text(values.get(_PAGE_SIZE, "")) for values in (properties, image)
    )
    if of_image is None:
        return of_flavor
    if of_flavor not in (ANY, LARGE):
        raise ValueError(
            f"the image has {_PAGE_SIZE}, and the flavor neither any nor large: Nova rejects "
            "its servers"
        )
    return of_image


def _parse_page_size_text(text: str) -> int | None:
    """Return the page size in KiB, or one of PAGE_SIZES; None for "".

    Raises ValueError.
    """
    if text in PAGE_SIZES or not text:
        return PAGE_SIZES.get(text)
    match = re.fullmatch(r"([0-9]{1,18})(?:([KMGT]?)B)?", text)
    if match is None:
        raise ValueError(_format_invalid_property(_PAGE_SIZE, text))
    # number and unit; no unit is KiB.
    return int(int(match[1]) * _KIB_BY_UNIT[match[2]])


def _parse_cpus(text: str, key: str) -> frozenset[int]:
    """Return the CPUs of a text: "0-3,^2" are 0, 1 and 3.

    Raises ValueError, with the name of the property `key`.
    """
    cpus: set[int] = set()
    excluded: set[int] = set()
    for part in split_list(text):
        match = re.fullmatch(r"(\^?)\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?", part)
        if match is None:
            raise ValueError(_format_invalid_property(key, text))
        exclusion, first, last = match.groups()
        numbers = range(int(first), int(last or first) + 1)
        # As in "3-1", or too large.
        if not numbers or numbers[-1] > MAX_CPU:
            raise ValueError(_format_invalid_property(key, text))
        (excluded if exclusion else cpus).update(numbers)
    return frozenset(cpus - excluded)


def _parse_number(text: str, key: str) -> int:
    """Return the whole number of the property `key`.

    Raises ValueError, with its name.
    """
    number = parse_integer(text.strip())
    if number is None:
        raise ValueError(_format_invalid_property(key, text))
    return number


def _parse_pci_aliases(text: str) -> list[tuple[str, int]]:
    """Return (alias, number of devices) pairs of a text such as "a:1,b:2".

    Raises ValueError.
    """
    pairs = []
    for part in split_list(text):
        match = re.fullmatch(r"(.+):\s*([0-9]{1,9})", part)
        if match is None:
            raise ValueError(_format_invalid_property(_ALIAS, text))
        pairs.append((match[1].strip(), int(match[2])))
    return pairs


def _format_invalid_property(key: str, value: str) -> str:
    return f"{key} is {value}, and Nova rejects this value"


def _format_property_conflict(key: str) -> str:
    return (
        f"{key} of the flavor conflicts with {key.replace(':', '_')} of the image: Nova rejects "
        "its servers"
    )


_ARCHITECTURE = "hw_architecture"
_TYPE = "img_hv_type"
_MODE = "hw_vm_mode"
# Names in older images.
_LEGACY_NAMES: Final = {"architecture": _ARCHITECTURE, "hypervisor_type": _TYPE, "vm_mode": _MODE}
_CANONICAL_VALUES: Final[Mapping[str, Mapping[str, str]]] = {
    _ARCHITECTURE: {
        **dict.fromkeys(("i386", "i486", "i586", "x86_32", "x86_32p"), "i686"),
        "amd64": "x86_64",
    },
    _TYPE: {"xapi": "xen"},
    _MODE: {"pv": "xen", "hv": "hvm", "baremetal": "hvm"},
}
# Properties with an effect on placement that is not predicted.
_UNPREDICTED_IMAGE_PROPERTIES: Final = (
    "block_device_mapping",
    "img_block_device_mapping",
    "hw_firmware_stateless",
    "hw_maxphysaddr",
    "hw_mem_encryption",
    "hw_tpm_",
    "img_hv_requested_version",
    "hypervisor_version_requires",
)


def select_host_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return architecture, hypervisor type and VM mode of an image, if set.

    They have their current names and values.
    """
    named = {_LEGACY_NAMES.get(name, name): str(value) for name, value in properties.items()}
    selected = {}
    for name, canonical in _CANONICAL_VALUES.items():
        value = named.get(name, "").lower()
        if value:
            selected[name] = canonical.get(value, value)
    return selected


def find_unpredicted_property(properties: Mapping[str, str]) -> str:
    """Return the property of an image whose effect is not predicted, or ""."""
    # A snapshot of a server may have an empty list of volumes.
    filled = {name: value for name, value in properties.items() if value not in ("", "[]")}
    return _find_unpredicted(filled, _UNPREDICTED_IMAGE_PROPERTIES, "os_secure_boot")


def find_image_rejection(properties: Mapping[str, str], supported: Sequence[Sequence[str]]) -> str:
    """Return why a host rejects an image, or "".

    An instance in `supported` has an architecture, type and VM mode. One of these instances must
    have all values requested by the image.
    """
    selected = select_host_properties(properties)
    requested_values = set(selected.values())
    if not selected or any(requested_values.issubset(instance) for instance in supported):
        return ""
    return "the host does not support " + ", ".join(
        f"{name}={value}" for name, value in selected.items()
    )
