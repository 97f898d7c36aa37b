"""Block devices of a server in a HOT file: its boot volume, its local disks, and refused requests.

Sources: Server._validate_block_device_mapping and _build_block_device_mapping_v2 of Heat 27.0.1,
API._validate_bdm of Nova 34.0.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.documents.yaml_documents import Node, parse_whole_number
from nexusform.domains.vnf.importers.hot_defaults import BOOT_INDEX
from nexusform.domains.vnf.importers.hot_values import ResourceReference, Template, UnresolvedValue
from nexusform.domains.vnf.importers.vnf_records import INVALID_DOCUMENT
from nexusform.domains.vnf.importers.vnf_text import find_first_field
from nexusform.doubts.doubt import Influence

_DEVICES: Final = "block_device_mapping_v2"
_OLD_DEVICES: Final = "block_device_mapping"
_DEVICE_NAME: Final = "device_name"
# Nova's name of the root disk if the image has none.
_OLD_ROOT: Final = "vda"
_BOOT_INDEX: Final = "boot_index"
_VOLUME_SOURCES: Final = ("volume_id", "snapshot_id", "image")
# Messages of Heat and Nova.
_SEVERAL_SOURCES: Final = 'Heat answers "Multiple bootable sources for instance"'
_NO_SOURCE: Final = 'Heat answers "Neither image nor bootable volume is specified"'
_INVALID_SEQUENCE: Final = (
    'Nova answers 400 "Boot sequence for the instance and image/block device mapping combination '
    'is not valid"'
)
_NO_VOLUME_SIZE: Final = (
    "Nova answers 400 \"Images with destination_type 'volume' need to have a non-zero size "
    'specified"; set volume_size'
)
_CONFLICT: Final = (
    "Heat answers that properties of a device cannot be defined at the same time: it needs one of "
    "volume_id, snapshot_id, image, swap_size, and ephemeral_size or ephemeral_format"
)
_SEVERAL_SWAPS: Final = 'Nova answers 400 "More than one swap drive requested"'


class BlockDevices(Struct, frozen=True):
    """Block devices of a server.

    `boot_node` and `boot_image` are the node and the image of the volume that is its root disk,
    None without one. `ephemeral_gib` and `swap_mib` are requested local disks.
    """

    boot_node: Node | None = None
    boot_image: Any = None
    ephemeral_gib: int = 0
    swap_mib: int = 0


def read_block_devices(
    vdu_name: str, properties: Node, template: Template, *, has_image: bool
) -> BlockDevices:
    """Read the devices of a server; report those that are unread or refused."""
    for name in (_DEVICES, _OLD_DEVICES):
        node = properties.get_node(name)
        devices = template.resolve_value(node)
        if node.is_absent or not devices:
            continue
        is_list = isinstance(devices, list) and all(isinstance(item, dict) for item in devices)
        if not is_list or any(
            isinstance(item.get(_BOOT_INDEX), UnresolvedValue) for item in devices
        ):
            reason = "it needs a list of devices" if not is_list else "a boot_index is unknown"
            template.notes.add_unread_fact(
                node, ("server", vdu_name), name, Influence.PLACEMENT, reason=reason, pool=vdu_name
            )
            return BlockDevices()
        if name == _OLD_DEVICES:
            return _read_old_devices(vdu_name, devices, node, template, has_image=has_image)
        refusal = find_refusal(devices, has_image=has_image)
        if refusal:
            detail = f'the server "{vdu_name}" does not run: {refusal}.'
            template.notes.add_error(node, INVALID_DOCUMENT, detail)
        return _read_devices(devices, node, template)
    return BlockDevices()


def is_old_root(device: Mapping[str, Any]) -> bool:
    """Return whether a device of the old list is the root disk, even beside an image.

    Source: API._check_and_transform_bdm of Nova 34.0.
    """
    return str(device.get(_DEVICE_NAME)).removeprefix("/dev/") == _OLD_ROOT


def _read_old_devices(
    vdu_name: str,
    devices: Sequence[Mapping[str, Any]],
    node: Node,
    template: Template,
    *,
    has_image: bool,
) -> BlockDevices:
    """Read the devices of the old list: only volumes and snapshots with a device name."""
    if any(isinstance(device.get(_DEVICE_NAME), UnresolvedValue) for device in devices):
        template.notes.add_unread_fact(
            node,
            ("server", vdu_name),
            _OLD_DEVICES,
            Influence.PLACEMENT,
            reason="a device_name is unknown",
            pool=vdu_name,
        )
        return BlockDevices()
    root = next(filter(is_old_root, devices), None)
    if root is not None:
        return BlockDevices(node, _read_volume_image(root, template))
    if not has_image:
        detail = f'the server "{vdu_name}" does not run: {_INVALID_SEQUENCE}.'
        template.notes.add_error(node, INVALID_DOCUMENT, detail)
    return BlockDevices()


def get_source(device: Mapping[str, Any]) -> str:
    """Return the field that Heat takes as the source of a device, "" without one."""
    if device.get("image_id") and not device.get("image"):
        return "image"
    return next((name for name in BOOT_INDEX.values if device.get(name)), "")


def get_boot_index(device: Mapping[str, Any]) -> int:
    """Return the boot index that Heat sends for a device; below 0: not bootable."""
    index = device.get(_BOOT_INDEX)
    if index is None:
        return BOOT_INDEX.values.get(get_source(device), -1)
    number = parse_whole_number(index)
    return -1 if number is None else number


def find_refusal(devices: Sequence[Mapping[str, Any]], *, has_image: bool) -> str:
    """Return why Heat or Nova refuses the devices of a server, "" if they accept them."""
    if any(_count_sources(device) != 1 for device in devices):
        return _CONFLICT
    volumes = [device for device in devices if get_source(device) in _VOLUME_SOURCES]
    # Of Heat: a device without an index is bootable, too.
    bootable = [device for device in volumes if get_boot_index(device) == 0]
    sources = has_image + len(bootable)
    if sources != 1:
        return _SEVERAL_SOURCES if sources else _NO_SOURCE
    indexes = sorted(
        [
            *([0] if has_image else []),
            *(index for index in map(get_boot_index, devices) if index >= 0),
        ]
    )
    if indexes != list(range(len(indexes))):
        return _INVALID_SEQUENCE
    if any(
        get_source(device) == "image" and device.get("volume_size") in (None, 0, "0")
        for device in devices
    ):
        return _NO_VOLUME_SIZE
    if sum(get_source(device) == "swap_size" for device in devices) > 1:
        return _SEVERAL_SWAPS
    return ""


def _count_sources(device: Mapping[str, Any]) -> int:
    """Return the number of sources of a device; Heat counts both fields of a local disk as one."""
    image = device.get("image", device.get("image_id"))
    local_disk = device.get("ephemeral_size") or device.get("ephemeral_format")
    values = (device.get("volume_id"), device.get("snapshot_id"), device.get("swap_size"))
    return sum(value is not None for value in (*values, image, local_disk))


def _read_devices(
    devices: Sequence[Mapping[str, Any]], node: Node, template: Template
) -> BlockDevices:
    """Return the boot volume and the local disks of devices."""
    boot_device = next(
        (
            device
            for device in devices
            if get_source(device) in _VOLUME_SOURCES and get_boot_index(device) == 0
        ),
        None,
    )
    return BlockDevices(
        boot_node=None if boot_device is None else node,
        boot_image=None if boot_device is None else _read_volume_image(boot_device, template),
        ephemeral_gib=_sum_sizes(devices, "ephemeral_size"),
        swap_mib=_sum_sizes(devices, "swap_size"),
    )


def _sum_sizes(devices: Sequence[Mapping[str, Any]], source: str) -> int:
    """Return the sizes of local disks in all; volume_size replaces that of a device."""
    sizes = (
        parse_whole_number(device.get("volume_size") or device.get(source))
        for device in devices
        if get_source(device) == source
    )
    return sum(size or 0 for size in sizes)


def _read_volume_image(device: Mapping[str, Any], template: Template) -> Any:
    """Return the image of a boot volume: of its device, or of a volume in the template."""
    image = device.get("image") or device.get("image_id")
    volume = device.get("volume_id")
    if image is None and isinstance(volume, ResourceReference) and volume.scope == template.scope:
        body = template.root.get_node("resources", volume.name)
        properties = find_first_field(body, "properties", "Properties")
        image = template.resolve_value(properties.get_node("image"))
    advice = "set image in the block vdu"
    return image or UnresolvedValue("the image of its boot volume", advice)
