"""Image properties for the choice of hosts, as ImagePropertiesFilter of Nova 34.0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

_ARCHITECTURE, _TYPE, _MODE = "hw_architecture", "img_hv_type", "hw_vm_mode"
# Names in older images.
_LEGACY_NAMES: Final = {"architecture": _ARCHITECTURE, "hypervisor_type": _TYPE, "vm_mode": _MODE}
_CANONICAL_VALUES: Final[Mapping[str, Mapping[str, str]]] = {
    _ARCHITECTURE: {**dict.fromkeys(("i386", "i486", "i586", "x86_32", "x86_32p"), "i686"), "amd64": "x86_64"},
    _TYPE: {"xapi": "xen"},
    _MODE: {"pv": "xen", "hv": "hvm", "baremetal": "hvm"},
}
# Properties with an effect on placement that is not predicted.
_UNPREDICTED: Final = (
    "hw_firmware_stateless",
    "hw_maxphysaddr",
    "hw_mem_encryption",
    "hw_tpm_",
    "img_hv_requested_version",
    "hypervisor_version_requires",
)
_SECURE_BOOT: Final = "os_secure_boot"


def select_host_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties for the choice of hosts, with their current names and values."""
    named = {_LEGACY_NAMES.get(name, name): str(value) for name, value in properties.items()}
    selected = {}
    for name, canonical in _CANONICAL_VALUES.items():
        value = named.get(name, "").lower()
        if value:
            selected[name] = canonical.get(value, value)
    return selected


def find_unpredicted_property(properties: Mapping[str, str]) -> str:
    """Return why no host can be predicted for an image, or ""."""
    unpredicted = next((name for name in properties if name.startswith(_UNPREDICTED)), "")
    if properties.get(_SECURE_BOOT) == "required":
        unpredicted = f"{_SECURE_BOOT}=required"
    return unpredicted and f"the image has {unpredicted}, and its effect is not predicted"


def find_image_rejection(properties: Mapping[str, str], supported: Sequence[Sequence[str]]) -> str:
    """Return why a host with these supported instances rejects an image, or ""."""
    selected = select_host_properties(properties)
    if not selected or any(all(value in instance for value in selected.values()) for instance in supported):
        return ""
    return "the host does not support " + ", ".join(f"{name}={value}" for name, value in selected.items())
