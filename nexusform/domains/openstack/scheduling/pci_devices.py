"""PCI devices of a host by count, as nova/pci/stats.py of Nova 34.0."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

_DEVICE_TYPE: Final = "dev_type"
_PHYSICAL_FUNCTION: Final = "type-PF"
_VDPA: Final = "vdpa"
_REMOTE: Final = "remote_managed"
_LIVE_MIGRATABLE: Final = "live_migratable"
LEGACY, PREFERRED, REQUIRED, SOCKET = "legacy", "preferred", "required", "socket"
POLICIES: Final = (LEGACY, PREFERRED, REQUIRED, SOCKET)


class DevicePool(Struct, frozen=True):
    """Free PCI devices with equal properties (vendor_id, product_id, dev_type, tags). `numa_node` None: unknown."""

    count: int
    properties: Mapping[str, str]
    numa_node: int | None = None

    def has_properties(self, wanted: Mapping[str, str]) -> bool:
        """Return whether the devices have these properties; case is ignored."""
        return all(self.properties.get(name, "").lower() == value.lower() for name, value in wanted.items())


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
    """Build an alias from the fields of nova.conf: vendor_id, product_id, device_type, numa_policy."""
    names = {"device_type": _DEVICE_TYPE}
    properties = {
        names.get(name, name): value
        for name, value in settings.items()
        if name not in ("numa_policy", "resource_class", "traits", "capability_type", "name")  # no properties
    }
    if _LIVE_MIGRATABLE in properties:
        is_migratable = properties[_LIVE_MIGRATABLE].lower() in ("true", "yes", "on", "1", "t", "y")
        properties[_LIVE_MIGRATABLE] = str(is_migratable).lower()
    return PciDeviceAlias(properties, settings.get("numa_policy") or LEGACY)


def allocate_pci_devices(
    pools: Sequence[DevicePool],
    requests: Iterable[PciDeviceRequest],
    cells: Collection[int] = (),
    sockets: Mapping[int, int | None] = MappingProxyType({}),
) -> list[DevicePool] | None:
    """Return the pools without the devices of the requests, None if there are too few. `cells` are the host cells of
    the VM; `sockets` has the socket of each host cell. As in Nova, special devices serve only requests for them.
    """
    remaining = list(pools)
    for request in requests:
        wanted = request.alias.properties
        selected: Sequence[DevicePool] = [pool for pool in remaining if pool.has_properties(wanted)]
        if cells:
            selected = _select_near_pools(selected, request, cells, sockets)
        for name, value in ((_DEVICE_TYPE, _PHYSICAL_FUNCTION), (_DEVICE_TYPE, _VDPA), (_REMOTE, "true")):
            if wanted.get(name) != value:
                selected = [pool for pool in selected if pool.properties.get(name) != value]
        if _count_free_devices(selected) < request.count:
            return None
        unallocated = request.count
        for pool in selected:
            allocated = min(unallocated, pool.count)
            index = remaining.index(pool)
            if pool.count > allocated:
                remaining[index] = replace(pool, count=pool.count - allocated)
            else:
                del remaining[index]  # no device is left
            unallocated -= allocated
    return remaining


def _select_near_pools(
    pools: Sequence[DevicePool], request: PciDeviceRequest, cells: Collection[int], sockets: Mapping[int, int | None]
) -> Sequence[DevicePool]:
    """Return the pools usable with these host cells under the NUMA policy of the request, near ones first."""
    near = _select_pools_of_cells(pools, cells)
    if request.numa_policy == REQUIRED or _count_free_devices(near) >= request.count:
        return near  # perhaps too few; the caller checks it
    if request.numa_policy == SOCKET:
        if None in sockets.values():
            return []  # unknown sockets: no device is near
        near_sockets = {sockets.get(cell) for cell in cells}
        near_cells = [cell for cell, socket in sockets.items() if socket in near_sockets]
        return _select_pools_of_cells(pools, near_cells)
    near = _select_pools_of_cells(pools, (*cells, None))  # None: devices without a known cell
    if request.numa_policy == LEGACY or _count_free_devices(near) >= request.count:
        return near
    return sorted(pools, key=lambda pool: pool.numa_node not in (*cells, None))


def _select_pools_of_cells(pools: Iterable[DevicePool], cells: Collection[int | None]) -> list[DevicePool]:
    return [pool for pool in pools if pool.numa_node in cells]


def _count_free_devices(pools: Iterable[DevicePool]) -> int:
    return sum(pool.count for pool in pools)
