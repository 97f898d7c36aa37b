"""Operations of Tacker for the change of one VNF, in the order of an apply: each with its VNFCs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from nexusform.domains.vnf.importers.vnf_records import compute_vdu_counts
from nexusform.domains.vnf.types.vnf_documents import (
    compute_first_levels,
    compute_target_levels,
    has_known_documents,
    has_standard_user_data,
    read_documents,
)
from nexusform.plans.plan import Change

_INSTANTIATE = "INSTANTIATE"
_SCALE = "SCALE"
_HEAL = "HEAL"


class PlannedOperation(Struct, frozen=True):
    """Operation with the names of its added and removed VNFCs by VDU."""

    operation: str
    added: Mapping[str, tuple[str, ...]]
    removed: Mapping[str, tuple[str, ...]]


def list_operations(change: Change, operation: str, request: Mapping[str, Any]) -> Iterator[PlannedOperation]:
    """Yield the operations of a change: `request` is its grant request, and `operation` the one of the whole.

    Tacker instantiates at an instantiation level and scales one aspect at a time.
    """
    added = _group_names_by_vdu(request["addResources"])
    removed = _group_names_by_vdu(request["removeResources"])
    attributes = change.after or change.before or {}
    if operation == "TERMINATE" or not has_known_documents(attributes):
        yield _build_operation(operation, added, removed)
        return
    vnf = read_documents(attributes).vnf
    if operation == _INSTANTIATE:
        levels: Mapping[str, int] = compute_first_levels(vnf, attributes)
        counts = compute_vdu_counts(vnf, attributes.get("instantiation_level") or "").numbers
        yield _build_operation(operation, _take_vnfc_names(added, counts), {})
    else:
        levels = compute_target_levels(change.before or {})
        healed = {vdu: [name for name in names if name in removed.get(vdu, [])] for vdu, names in added.items()}
        for vdu, names in healed.items():
            added[vdu] = [name for name in added[vdu] if name not in names]
            removed[vdu] = [name for name in removed.get(vdu, []) if name not in names]
    steps = {name: level - levels.get(name, 0) for name, level in compute_target_levels(attributes).items()}
    changed = [aspect for aspect in vnf.aspects if steps.get(aspect.name)]
    for aspect in sorted(changed, key=lambda aspect: (steps[aspect.name] > 0, aspect.name)):
        start = levels.get(aspect.name, 0)
        end = start + steps[aspect.name]
        counts = {step.vdu: abs(step.sum_increments(end) - step.sum_increments(start)) for step in aspect.steps}
        if steps[aspect.name] > 0:
            yield _build_operation(_SCALE, _take_vnfc_names(added, counts), {})
        else:
            yield _build_operation(_SCALE, {}, _take_vnfc_names(removed, counts))
    if any(added.values()) or any(removed.values()):
        yield _build_operation(_SCALE, added, removed)
    if operation != _INSTANTIATE and any(healed.values()):
        yield _build_operation(_HEAL, healed, healed)


def build_zone_ids(change: Change, names: list[str]) -> dict[str, str]:
    """Return the zone id of each added VNFC, as OpenStack reads it.

    With the standard user data each VNFC has its own zone and host. The default user data uses the zone of one
    VNFC for its whole VDU: then only a zone shared by all of them is granted, and Nova selects the host.
    """
    attributes = change.after or {}
    vnfcs: Mapping[str, Mapping[str, Any]] = attributes.get("vnfcs") or {}
    if has_standard_user_data(attributes):
        return {name: f"{vnfcs[name]['availability_zone']}:{vnfcs[name]['machine']}" for name in names}
    zones: dict[str, set[str]] = {}
    for vnfc in vnfcs.values():
        zones.setdefault(vnfc["vdu"], set()).add(vnfc["availability_zone"])
    return {name: vnfcs[name]["availability_zone"] for name in names if len(zones[vnfcs[name]["vdu"]]) == 1}


def build_healed_zones(change: Change, operation: PlannedOperation) -> dict[str, str]:
    """Return the zone ids of healed VNFCs by their names in the HOT file of the standard user data."""
    attributes = change.after or {}
    if operation.operation != _HEAL or not has_standard_user_data(attributes):
        return {}
    names = [name for vdu_names in operation.added.values() for name in vdu_names]
    vnfcs, zones = attributes.get("vnfcs") or {}, build_zone_ids(change, names)
    return {f"{vnfcs[name]['vdu']}-{vnfcs[name]['number']}": zones[name] for name in names}


def _group_names_by_vdu(resources: list[Mapping[str, Any]]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for resource in resources:
        name = resource["resource"]["resourceId"] if "resource" in resource else resource["id"]
        names.setdefault(resource["vduId"], []).append(name)
    return names


def _take_vnfc_names(pool: dict[str, list[str]], counts: Mapping[str, int]) -> dict[str, list[str]]:
    """Remove names from a pool by VDU, and return them."""
    taken = {}
    for vdu, count in counts.items():
        taken[vdu], pool[vdu] = pool.get(vdu, [])[:count], pool.get(vdu, [])[count:]
    return taken


def _build_operation(
    operation: str, added: Mapping[str, list[str]], removed: Mapping[str, list[str]]
) -> PlannedOperation:
    return PlannedOperation(
        operation,
        {vdu: tuple(names) for vdu, names in added.items() if names},
        {vdu: tuple(names) for vdu, names in removed.items() if names},
    )
