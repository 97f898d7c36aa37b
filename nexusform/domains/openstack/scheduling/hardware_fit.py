"""Fit of a VM onto the NUMA cells and the PCI devices of a host.

Source: nova/virt/hardware.py (numa_fit_instance_to_host) and nova/pci/stats.py of Nova 34.0.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, permutations
from typing import Annotated, Final

from msgspec import Meta, Struct, field
from msgspec.structs import replace

SMALL = -1
LARGE = -2
ANY = -3
PAGE_SIZES: Final[Mapping[str, int]] = {"small": SMALL, "large": LARGE, "any": ANY}
DEDICATED = "dedicated"
MIXED = "mixed"
SHARED = "shared"
REQUIRE = "require"
ISOLATE = "isolate"
_KIB: Final = 1024
# Whole numbers in data are exact up to here.
_MAX_COUNT: Final = 2**53
Count = Annotated[int, Meta(ge=0, le=_MAX_COUNT)]
Divisor = Annotated[int, Meta(ge=1, le=_MAX_COUNT)]


class MemoryPages(Struct, frozen=True):
    """Memory pages of one size in a cell."""

    size_kib: Divisor
    total: Count
    used: Count = 0
    reserved: Count = 0

    def can_fit(self, memory_mib: int, *, is_free: bool) -> bool:
        """Return whether memory fits in free pages (`is_free`), or else in all pages.

        It has to be whole pages.
        """
        pages = self.total - self.used - self.reserved if is_free else self.total
        return memory_mib * _KIB <= pages * self.size_kib and memory_mib * _KIB % self.size_kib == 0


class HostCell(Struct, frozen=True):
    """NUMA cell of a host: shared and dedicated CPUs, memory, and their use.

    `siblings` are the threads of each core.
    """

    id: int
    shared: frozenset[int]
    dedicated: frozenset[int]
    siblings: tuple[frozenset[int], ...]
    memory_mib: Count
    pages: tuple[MemoryPages, ...]
    socket: int | None = None
    used_vcpus: Count = 0
    used_memory_mib: Count = 0
    pinned: frozenset[int] = frozenset()

    @property
    def free_cpus(self) -> frozenset[int]:
        """Dedicated CPUs without a VM."""
        return self.dedicated - self.pinned

    @property
    def free_memory_mib(self) -> int:
        """Memory without a VM."""
        return self.memory_mib - self.used_memory_mib


class GuestCell(Struct):
    """NUMA cell of a VM.

    `id` is the one of its host cell once it fits. `page_size` is in KiB, or SMALL, LARGE, ANY.
    `pins` are the CPUs of its dedicated vCPUs, `emulator_pins` the one of its emulator threads.
    """

    id: Count
    vcpus: Count
    memory_mib: Count
    # Data has sizes; requests also have the negative constants.
    page_size: Count | None = None
    pins: tuple[int, ...] = ()
    dedicated_vcpus: Count = 0
    emulator_pins: tuple[int, ...] = ()

    @property
    def shared_vcpus(self) -> int:
        """Number of vCPUs without dedicated CPUs."""
        return self.vcpus - len(self.pins)


class CellRequest(Struct, frozen=True):
    """One NUMA cell of a flavor: its vCPUs, those with dedicated CPUs, and its memory."""

    vcpus: int
    dedicated_vcpus: int
    memory_mib: int


class NumaRequest(Struct, frozen=True):
    """NUMA cells requested by a flavor and an image.

    `cpu_policy` is "", SHARED, DEDICATED or MIXED. With `emulator_cpus` the first cell has one more
    dedicated CPU. With `needs_threads` cores of the host have threads.
    """

    cells: tuple[CellRequest, ...] = ()
    page_size: int | None = None
    cpu_policy: str = ""
    thread_policy: str = ""
    emulator_cpus: int = 0
    needs_threads: bool = False

    @property
    def is_pinned(self) -> bool:
        """Whether vCPUs have dedicated CPUs."""
        return self.cpu_policy in (DEDICATED, MIXED)


class HostRatios(Struct, frozen=True):
    """Allocation ratios: limits of the shared CPUs and of the memory of a cell."""

    cpu: float
    memory: float


def fit_numa_cells(
    cells: Sequence[HostCell],
    request: NumaRequest,
    ratios: HostRatios,
    devices_by_cell: Mapping[int | None, int],
    fit_devices: Callable[[Sequence[int]], bool] | None = None,
    attempts: int = 1,
) -> list[GuestCell] | None:
    """Return the cells of the VM with their host cells, None if they do not fit.

    `devices_by_cell` counts the free PCI devices near each host cell (None: near none).
    `fit_devices` checks those of the VM (None: it has none). Nova tries `attempts` times, once per
    allocation candidate of the host; each try starts with the cell ids set by the former.
    """
    if len(cells) < len(request.cells):
        # Each cell of the VM needs its own host cell.
        return None
    ordered = _sort_host_cells(cells, request, devices_by_cell, has_devices=fit_devices is not None)
    # With their numbers as ids at first; a fitting one gets the id of its host cell.
    guests = [
        GuestCell(
            id=number,
            vcpus=cell.vcpus,
            memory_mib=cell.memory_mib,
            page_size=request.page_size,
            dedicated_vcpus=cell.dedicated_vcpus,
        )
        for number, cell in enumerate(request.cells)
    ]
    for _ in range(attempts):
        if _fit_guest_cells(guests, ordered, request, ratios, fit_devices):
            return guests
    return None


def _fit_guest_cells(
    guests: Sequence[GuestCell],
    cells: Sequence[HostCell],
    request: NumaRequest,
    ratios: HostRatios,
    fit_devices: Callable[[Sequence[int]], bool] | None,
) -> bool:
    """Return whether the guest cells fit on host cells, each on its own, with the PCI devices near.

    The ids of fitting guest cells are set. As in Nova, results are cached by the ids of both cells,
    although a fitting guest cell takes the id of its host cell. So a later permutation may find the
    result of another guest. Only the first cell has emulator threads.
    """
    # whether a guest cell fits, by the ids of the host cell and the guest.
    results: dict[tuple[int, int], bool] = {}
    for candidates in permutations(cells, len(guests)):
        for position, (cell, guest) in enumerate(zip(candidates, guests, strict=True)):
            pair = (cell.id, guest.id)
            if pair not in results:
                emulator_cpus = request.emulator_cpus if position == 0 else 0
                results[pair] = _fit_cell(cell, guest, request, ratios, emulator_cpus)
            if not results[pair]:
                # try the next permutation.
                break
            guest.id = cell.id
        else:
            if fit_devices is None or fit_devices([guest.id for guest in guests]):
                return True
    return False


def _sort_host_cells(
    cells: Sequence[HostCell],
    request: NumaRequest,
    devices_by_cell: Mapping[int | None, int],
    *,
    has_devices: bool,
) -> Sequence[HostCell]:
    """Sort host cells unless all are needed.

    The keys are PCI devices (most first if `has_devices`, else last), CPUs and memory.
    """
    if len(cells) == len(request.cells):
        # Like Nova: all are used anyway.
        return cells
    # later sorts keep the order of ties.
    ordered = sorted(cells, key=lambda cell: cell.free_memory_mib, reverse=True)
    if request.is_pinned:
        ordered.sort(key=lambda cell: len(cell.free_cpus), reverse=True)
    else:
        ordered.sort(key=lambda cell: cell.used_vcpus)
    ordered.sort(key=lambda cell: devices_by_cell.get(cell.id, 0), reverse=has_devices)
    return ordered


def _fit_cell(
    cell: HostCell, guest: GuestCell, request: NumaRequest, ratios: HostRatios, emulator_cpus: int
) -> bool:
    """Return whether a guest cell fits on a host cell.

    Set the guest's page size and, if it is pinned, CPUs and id.
    """
    shared_vcpus = guest.vcpus - guest.dedicated_vcpus
    if not _fit_guest_memory(cell, guest, is_pinned=request.is_pinned) or shared_vcpus > len(
        cell.shared
    ):
        return False
    if request.is_pinned:
        selected_cpus = _select_dedicated_cpus(
            cell, guest.dedicated_vcpus, emulator_cpus, request.thread_policy
        )
        if selected_cpus is None:
            # too few free dedicated CPUs.
            return False
        # Like Nova, the cell keeps its CPUs even if a limit rejects it afterwards.
        guest.pins, guest.emulator_pins = selected_cpus
        guest.id = cell.id
        # Nova rejects a cell without vCPUs.
        if not guest.vcpus:
            return False
    # Allocation ratios limit only cells with shared CPUs.
    return request.cpu_policy == DEDICATED or (
        cell.used_vcpus + shared_vcpus <= len(cell.shared) * ratios.cpu
        and cell.used_memory_mib + guest.memory_mib <= cell.memory_mib * ratios.memory
    )


def _fit_guest_memory(cell: HostCell, guest: GuestCell, *, is_pinned: bool) -> bool:
    """Return whether the host cell has the memory of a guest cell.

    If there are pages, the memory is in pages of the requested size. A request of SMALL, LARGE or
    ANY pages is set to the largest fitting size of them. Pinned VMs and requested pages need free
    memory; other VMs may share it.
    """
    pages = {item.size_kib: item for item in cell.pages}
    # The last one is the smallest.
    sizes = sorted(pages, reverse=True)
    if guest.page_size:
        by_request = {SMALL: sizes[-1:], LARGE: sizes[:-1], ANY: sizes}
        # Else a size in KiB.
        for size in by_request.get(guest.page_size, [guest.page_size]):
            if size in pages and pages[size].can_fit(guest.memory_mib, is_free=True):
                guest.page_size = size
                return True
        return False
    if sizes:
        return pages[sizes[-1]].can_fit(guest.memory_mib, is_free=is_pinned)
    return guest.memory_mib <= (cell.free_memory_mib if is_pinned else cell.memory_mib)


def _select_dedicated_cpus(
    cell: HostCell, count: int, emulator_cpus: int, thread_policy: str
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the CPUs of `count` dedicated vCPUs and those of the emulator threads.

    Return None if too few CPUs are free under the policy for threads. The first choice of vCPUs
    with CPUs left for the emulator threads counts. As in Nova, emulator threads have CPUs only with
    dedicated vCPUs in the cell.
    """
    if count + emulator_cpus > len(cell.free_cpus):
        return None
    free_cores = [core & cell.free_cpus for core in cell.siblings]
    for pins in _list_pin_choices(cell, free_cores, count, thread_policy):
        remaining_cores = free_cores if pins else []
        # The other threads of a used core stay unused.
        if thread_policy == ISOLATE:
            remaining_cores = [core for core in remaining_cores if core.isdisjoint(pins)]
        remaining_cpus = chain.from_iterable(
            sorted(core.difference(pins)) for core in remaining_cores
        )
        emulator_pins = tuple(remaining_cpus)[:emulator_cpus]
        if len(emulator_pins) == emulator_cpus:
            return pins, emulator_pins
    return None


def _list_pin_choices(
    cell: HostCell, free_cores: Sequence[frozenset[int]], count: int, thread_policy: str
) -> Iterator[tuple[int, ...]]:
    """Yield the ways to choose `count` free CPUs under a policy for threads, in the order of Nova.

    ISOLATE takes one thread of each wholly free core. The others take as many threads per core as
    possible: REQUIRE at least two, any other policy also one, or in the end any free CPUs.
    `free_cores` are the free threads by core. With the cores {0, 4} and {1, 5}, 2 CPUs may be (0,
    4), then (0, 1); ISOLATE has (0, 1) only.
    """
    threads_per_core = max(map(len, cell.siblings), default=1)
    # threads to take per core, and the free ones that the core must have.
    layouts: Iterable[tuple[int, int]]
    if thread_policy == ISOLATE:
        # As in Nova, with several threads per core only in a cell with the same CPUs as dedicated
        # and shared ones.
        can_isolate = threads_per_core == 1 or cell.dedicated == cell.shared
        layouts = [(1, threads_per_core)] if can_isolate and count else []
    else:
        most_free = max(map(len, free_cores), default=0)
        fewest = 2 if thread_policy == REQUIRE else 1
        layouts = ((threads, threads) for threads in range(most_free, fewest - 1, -1))
    for threads, required_threads in layouts:
        cores = [sorted(core)[:threads] for core in free_cores if len(core) >= required_threads]
        if threads * len(cores) >= count:
            yield tuple(chain.from_iterable(cores))[:count]
    all_cpus = tuple(chain.from_iterable(map(sorted, free_cores)))
    if thread_policy not in (ISOLATE, REQUIRE) and len(all_cpus) >= count:
        yield all_cpus[:count]


def update_host_cells(
    cells: Sequence[HostCell], guests: Iterable[GuestCell], thread_policy: str = "", sign: int = 1
) -> tuple[HostCell, ...]:
    """Return the host cells with the guest cells of a VM added or removed.

    `sign` is 1 to add, -1 to remove.
    """
    changed = {cell.id: cell for cell in cells}
    for guest in guests:
        # Other cells are ignored.
        if guest.id in changed:
            changed[guest.id] = _update_host_cell(changed[guest.id], guest, thread_policy, sign)
    return tuple(changed.values())


def _update_host_cell(cell: HostCell, guest: GuestCell, thread_policy: str, sign: int) -> HostCell:
    """Return a host cell with a guest cell added (`sign` 1) or removed (`sign` -1).

    Its memory counts in pages of its size, by default the smallest. With ISOLATE the whole cores of
    its CPUs are used. The use never falls below 0.
    """
    # Without page sizes of the host, `size` matches none: only the memory of the cell counts.
    size = guest.page_size or min((item.size_kib for item in cell.pages), default=0)
    pages = list(cell.pages)
    for index, item in enumerate(pages):
        if item.size_kib == size:
            pages[index] = replace(
                item, used=max(item.used + sign * guest.memory_mib * _KIB // size, 0)
            )
    pins = frozenset((*guest.pins, *guest.emulator_pins))
    if thread_policy == ISOLATE:
        pins = pins.union(*(core for core in cell.siblings if core & pins))
    return replace(
        cell,
        pages=tuple(pages),
        used_memory_mib=max(cell.used_memory_mib + sign * guest.memory_mib, 0),
        used_vcpus=max(cell.used_vcpus + sign * guest.shared_vcpus, 0),
        pinned=cell.pinned | pins if sign > 0 else cell.pinned - pins,
    )


_DEVICE_TYPE: Final = "dev_type"
_LIVE_MIGRATABLE: Final = "live_migratable"
# Fields of a PCI alias in nova.conf, without those for devices in Placement.
ALIAS_FIELDS: Final = (
    *("vendor_id", "product_id", "device_type", "numa_policy"),
    *(_LIVE_MIGRATABLE, "capability_type", "name"),
)
LEGACY = "legacy"
PREFERRED = "preferred"
REQUIRED = "required"
SOCKET = "socket"
POLICIES: Final = (LEGACY, PREFERRED, REQUIRED, SOCKET)


class DevicePool(Struct, frozen=True):
    """Free PCI devices with equal properties (vendor_id, product_id, dev_type, tags).

    `numa_node` None means unknown.
    """

    count: Count
    properties: Mapping[str, str]
    numa_node: int | None = None

    def has_properties(self, wanted: Mapping[str, str]) -> bool:
        """Return whether the devices have these properties; case is ignored."""
        return all(
            self.properties.get(name, "").lower() == value.lower() for name, value in wanted.items()
        )


class PciDeviceAlias(Struct, frozen=True):
    """Alias of [pci] alias in nova.conf: properties of its devices, and their NUMA policy."""

    properties: Mapping[str, str] = field(default_factory=dict)
    numa_policy: str = LEGACY


class PciDeviceRequest(Struct, frozen=True):
    """Number of devices of one alias."""

    alias: PciDeviceAlias
    count: int
    numa_policy: str = LEGACY


def build_pci_device_alias(settings: Mapping[str, str]) -> PciDeviceAlias:
    """Build an alias from the fields of nova.conf.

    They are vendor_id, product_id, device_type and numa_policy.
    """
    names = {"device_type": _DEVICE_TYPE}
    properties = {
        names.get(name, name): value
        for name, value in settings.items()
        if name
        not in (
            "numa_policy",
            "resource_class",
            "traits",
            "capability_type",
            "name",
        )  # no properties
    }
    if _LIVE_MIGRATABLE in properties:
        is_migratable = properties[_LIVE_MIGRATABLE].lower() in ("true", "yes", "on", "1", "t", "y")
        properties[_LIVE_MIGRATABLE] = str(is_migratable).lower()
    return PciDeviceAlias(properties, settings.get("numa_policy") or LEGACY)


def allocate_pci_devices(
    pools: Sequence[DevicePool],
    requests: Iterable[PciDeviceRequest],
    cells: Collection[int] = (),
    sockets: Mapping[int, int | None] = {},
) -> list[DevicePool] | None:
    """Return the pools without the devices of the requests, None if there are too few.

    `cells` are the host cells of the VM; with () the devices of any cell are allowed. `sockets` has
    the socket of each host cell.
    """
    remaining = list(pools)
    for request in requests:
        wanted = request.alias.properties
        selected: Sequence[DevicePool] = [pool for pool in remaining if pool.has_properties(wanted)]
        if cells:
            selected = _select_near_pools(selected, request, cells, sockets)
        # As in Nova, these special devices serve only requests for them.
        for name, value in (
            (_DEVICE_TYPE, "type-PF"),
            (_DEVICE_TYPE, "vdpa"),
            ("remote_managed", "true"),
        ):
            if wanted.get(name) != value:
                selected = [pool for pool in selected if pool.properties.get(name) != value]
        if count_free_devices(selected) < request.count:
            return None
        unallocated = request.count
        for pool in selected:
            allocated = min(unallocated, pool.count)
            index = remaining.index(pool)
            if pool.count > allocated:
                remaining[index] = replace(pool, count=pool.count - allocated)
            else:
                # No device is left.
                del remaining[index]
            unallocated -= allocated
    return remaining


def _select_near_pools(
    pools: Sequence[DevicePool],
    request: PciDeviceRequest,
    cells: Collection[int],
    sockets: Mapping[int, int | None],
) -> Sequence[DevicePool]:
    """Return the pools usable by a VM on these host cells, near ones first.

    The NUMA policy of the request decides. REQUIRED allows devices of its cells only, SOCKET those
    of its sockets, LEGACY also those without a known cell, and PREFERRED any. The devices may be
    too few; the caller checks it.
    """
    near = _select_pools_of_cells(pools, cells)
    if request.numa_policy == REQUIRED or count_free_devices(near) >= request.count:
        return near
    if request.numa_policy == SOCKET:
        if None in sockets.values():
            # Unknown sockets: no device is near.
            return []
        near_sockets = {sockets.get(cell) for cell in cells}
        near_cells = [cell for cell, socket in sockets.items() if socket in near_sockets]
        return _select_pools_of_cells(pools, near_cells)
    # None: devices without a known cell.
    near = _select_pools_of_cells(pools, (*cells, None))
    if request.numa_policy == LEGACY or count_free_devices(near) >= request.count:
        return near
    # False, near, first.
    return sorted(pools, key=lambda pool: pool not in near)


def _select_pools_of_cells(
    pools: Iterable[DevicePool], cells: Collection[int | None]
) -> list[DevicePool]:
    return [pool for pool in pools if pool.numa_node in cells]


def count_free_devices(pools: Iterable[DevicePool]) -> int:
    """Return the number of free devices in these pools."""
    return sum(pool.count for pool in pools)
