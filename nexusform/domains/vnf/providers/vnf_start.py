"""Comparison of a VNF in Tacker with the values that a step starts from."""

from collections.abc import Mapping

from msgspec import Struct, field

from nexusform.domains.vnf.providers.tacker_operations import VnfInstance


class VnfStart(Struct, frozen=True):
    """Values of a VNF that a step starts from: those of the plan.

    `levels` are scale levels by aspect. `vnfc_ids` are the VNFCs (VMs) to re-create, by name.
    `vnfc_count` is the number of VNFCs that a termination removes, None for other operations.
    """

    levels: Mapping[str, int]
    vnfc_ids: Mapping[str, str] = field(default_factory=dict)
    vnfc_count: int | None = None

    def find_step(self, aspect: str, targets: Mapping[str, int]) -> int:
        """Return the difference from the start to the target level of an aspect."""
        return targets[aspect] - self.levels.get(aspect, 0)


def find_vnf_difference(start: VnfStart, targets: Mapping[str, int], instance: VnfInstance) -> str:
    """Return the message about the first value that is neither the start nor the target.

    "" without one. A level that Tacker does not report counts as unchanged.
    """
    name = instance.name
    if not instance.is_instantiated:
        fact = f"{name} is not instantiated in Tacker"
        return f"{fact}; the plan started from a running VNF. Plan again."
    for aspect, level in instance.scale_levels.items():
        expected = start.levels.get(aspect, level)
        if level not in (expected, targets.get(aspect)):
            return _describe_level(name, aspect, level, f"the plan started from {expected}")
    existing = {vnfc.id for vnfc in instance.vnfcs}
    for vnfc, identifier in start.vnfc_ids.items():
        if identifier not in existing:
            return (
                f"{name} has no VNFC {identifier} in Tacker; the plan started from it as {vnfc}. "
                "Plan again."
            )
    if start.vnfc_count not in (None, len(instance.vnfcs)):
        return (
            f"{name} has {len(instance.vnfcs)} VNFCs in Tacker; the plan started from "
            f"{start.vnfc_count}. Plan again."
        )
    return ""


def find_level_difference(instance: VnfInstance, targets: Mapping[str, int]) -> str:
    """Return the message about the first level that differs from the requested one, or ""."""
    for aspect, level in instance.scale_levels.items():
        if level != targets.get(aspect, level):
            origin = f"this apply requested {targets[aspect]}"
            return _describe_level(instance.name, aspect, level, origin)
    return ""


def _describe_level(name: str, aspect: str, level: int, origin: str) -> str:
    return f"{name} has level {level} of {aspect} in Tacker; {origin}. Plan again."
