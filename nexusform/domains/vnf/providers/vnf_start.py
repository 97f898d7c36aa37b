"""Comparison of a VNF in Tacker with the values that a step starts from."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.vnf.providers.tacker_operations import VnfInstance


class VnfStart(Struct, frozen=True):
    """Values of a VNF that the next request of a step starts from: first those of the plan.

    `levels` are scale levels by aspect. `vnfc_ids` are the VNFCs (VMs) to re-create, by name.
    `vnfc_count` is the number of VNFCs that a termination removes, None for other operations.
    `completed_aspects` were scaled by an earlier request of the step. `last_result` is the VNF
    after that request, None before the first one. `lineage` is that of the state, "" if a VNF with
    the owner mark of another state may be changed.
    """

    levels: Mapping[str, int]
    vnfc_ids: Mapping[str, str] = field(default_factory=dict)
    vnfc_count: int | None = None
    completed_aspects: frozenset[str] = frozenset()
    last_result: VnfInstance | None = None
    lineage: str = ""

    def follow_request(
        self, result: VnfInstance, completed_levels: Mapping[str, int] | None = None
    ) -> VnfStart:
        """Return the start of the request after one that left `result`.

        `completed_levels` are the levels that it requested. VNFCs to re-create may be removed by
        Tacker's choice, so they are those of the result.
        """
        levels = completed_levels or {}
        return replace(
            self,
            levels={**self.levels, **levels},
            completed_aspects=self.completed_aspects.union(levels),
            vnfc_ids={},
            last_result=result,
        )

    def find_step(self, aspect: str, targets: Mapping[str, int]) -> int:
        """Return the difference from the start to the target level of an aspect."""
        return targets[aspect] - self.levels.get(aspect, 0)


def is_of_another_state(instance: VnfInstance, lineage: str) -> bool:
    """Return whether the owner mark of a VNF names another state than the one of a lineage."""
    owner, separator, _ = instance.owner.partition("/")
    # A mark of earlier versions names no state.
    names_state = bool(separator) and instance.owner.rpartition("#")[0] != instance.object_id
    return names_state and bool(lineage) and owner != lineage


def find_vnf_difference(start: VnfStart, targets: Mapping[str, int], instance: VnfInstance) -> str:
    """Return the message about the first value that is neither the start nor the target.

    Return "" without such a value. A level that Tacker does not report counts as unchanged.
    """
    name = instance.name
    if not instance.is_instantiated:
        fact = f"{name} is not instantiated in Tacker"
        return f"{fact}; the plan started from a running VNF. Plan again."
    if is_of_another_state(instance, start.lineage):
        return (
            f"{name} has the owner mark of another state in Tacker. Remove it from one of the two "
            "states (`nexusform state rm`), or replace the mark by apply -take-ownership."
        )
    for aspect, level in instance.scale_levels.items():
        expected = start.levels.get(aspect, level)
        if aspect in start.completed_aspects and level != expected:
            return _describe_level(name, aspect, level, f"this apply requested {expected}")
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
    return _find_difference_from_result(start.last_result, instance)


def _find_difference_from_result(result: VnfInstance | None, instance: VnfInstance) -> str:
    """Return the message about a value that differs from the result of an earlier request."""
    if result is None:
        return ""
    if result.vim_connections != instance.vim_connections:
        noun = "connections to VIMs"
    elif {vnfc.id for vnfc in result.vnfcs} != {vnfc.id for vnfc in instance.vnfcs}:
        noun = "VNFCs"
    else:
        return ""
    return (
        f"{instance.name} has other {noun} in Tacker than after the last request of this apply. "
        "Plan again."
    )


def find_level_difference(instance: VnfInstance, targets: Mapping[str, int]) -> str:
    """Return the message about the first level that differs from the requested one, or ""."""
    for aspect, level in instance.scale_levels.items():
        if level != targets.get(aspect, level):
            origin = f"this apply requested {targets[aspect]}"
            return _describe_level(instance.name, aspect, level, origin)
    return ""


def _describe_level(name: str, aspect: str, level: int, origin: str) -> str:
    return f"{name} has level {level} of {aspect} in Tacker; {origin}. Plan again."
