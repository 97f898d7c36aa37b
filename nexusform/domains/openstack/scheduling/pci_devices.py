"""PCI devices of a host by count, as nova/pci/stats.py of Nova 34.0."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
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
        if name not in ("numa_policy", "resource_class", "traits", "capability_type", "name")
    }
    if _LIVE_MIGRATABLE in properties:
        is_migratable = properties[_LIVE_MIGRATABLE].lower() in ("true", "yes", "on", "1", "t", "y")
        properties[_LIVE_MIGRATABLE] = str(is_migratable).lower()
    return PciDeviceAlias(properties, settings.get("numa_policy") or LEGACY)


def allocate_pci_devices(
    pools: Sequence[DevicePool],
    requests: Iterable[PciDeviceRequest],
    cells: Collection[int] = (),
    sockets: Mapping[int, int | None] | None = None,
) -> list[DevicePool] | None:
    """Return the pools after the requests took their devices, None if there are too few. `cells` are the host cells of
    the VM; `sockets` are those of all host cells.
    """
    left = list(pools)
    for request in requests:
        selected = _select_pools(left, request, cells, sockets or {})
        if sum(pool.count for pool in selected) < request.count:
            return None
        missing = request.count
        for pool in selected:
            taken = min(missing, pool.count)
            index = next(number for number, item in enumerate(left) if item is pool)
            left[index : index + 1] = [replace(pool, count=pool.count - taken)] if pool.count > taken else []
            missing -= taken
            if not missing:
                break
    return left


def _select_pools(
    pools: Sequence[DevicePool], request: PciDeviceRequest, cells: Collection[int], sockets: Mapping[int, int | None]
) -> Sequence[DevicePool]:
    wanted = request.alias.properties
    selected: Sequence[DevicePool] = [pool for pool in pools if pool.has_properties(wanted)]
    if cells:
        selected = _select_near_pools(selected, request, cells, sockets)
    for name, value in ((_DEVICE_TYPE, _PHYSICAL_FUNCTION), (_DEVICE_TYPE, _VDPA), (_REMOTE, "true")):
        if wanted.get(name) != value:
            selected = [pool for pool in selected if pool.properties.get(name) != value]
    return selected


def _select_near_pools(
    pools: Sequence[DevicePool], request: PciDeviceRequest, cells: Collection[int], sockets: Mapping[int, int | None]
) -> Sequence[DevicePool]:
    """Return the pools near these cells, as far as the policy requires or prefers them."""
    near = [pool for pool in pools if pool.numa_node in cells]
    if request.numa_policy == REQUIRED or _count_free_devices(near) >= request.count:
        return near
    if request.numa_policy == SOCKET:
        near_sockets = {sockets.get(cell) for cell in cells}
        if None in sockets.values():
            return []
        near_cells = [cell for cell, socket in sockets.items() if socket in near_sockets]
        return [pool for pool in pools if pool.numa_node in near_cells]
    near = [pool for pool in pools if pool.numa_node in (*cells, None)]
    if request.numa_policy == LEGACY or _count_free_devices(near) >= request.count:
        return near
    return sorted(pools, key=lambda pool: pool.numa_node not in (*cells, None))


def _count_free_devices(pools: Iterable[DevicePool]) -> int:
    return sum(pool.count for pool in pools)
