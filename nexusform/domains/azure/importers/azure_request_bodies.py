"""Azure request bodies of clusters, pools and VMs; the inverse of az_import."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from nexusform.json_data.plain_data import PathStep, get_list, get_mapping, get_text
from nexusform.kubernetes.quantity import InvalidQuantity, parse_quantity
from nexusform.rendering.notation.json_values import omit_empty

# Page size in bytes and in Azure notation, largest first.
_PAGE_SIZES: Final = {"hugepages-1Gi": (2**30, "1G"), "hugepages-2Mi": (2**21, "2M")}

# Upgrade settings of a pool that has none.
UPGRADE_DEFAULTS: Final = {"max_surge": "1", "max_unavailable": "0", "drain_timeout": 1800}
_UPGRADE_SETTINGS: Final = "upgradeSettings"


def build_cluster_properties(values: Mapping[str, Any]) -> dict[str, Any]:
    """Build the `properties` of a cluster, with its initial agent pools."""
    plane = values["control_plane"]
    version = values.get("kubernetes_version")
    pools = {name: build_new_pool_properties(pool) for name, pool in list_pools(values)}
    return {
        **omit_empty({"kubernetesVersion": version}),
        "controlPlaneNodeConfiguration": {
            "count": plane["count"],
            "vmSkuName": plane["vm_sku_name"],
            **_build_zones(plane),
        },
        "initialAgentPoolConfigurations": [{"name": name, **body} for name, body in pools.items()],
    }


def list_pools(values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield name and arguments of each pool of a cluster, in the order of its blocks.

    If that order is unknown, the names are sorted.
    """
    pools = get_mapping(values, "agent_pool")
    for name in values.get("agent_pool_order") or sorted(pools):
        if name in pools:
            yield name, pools[name]


def build_pool_properties(values: Mapping[str, Any]) -> dict[str, Any]:
    """Build the `properties` of a pool.

    The source is an `agent_pool` block (`count`) or a nexus_agent_pool (`node_count`).
    """
    labels = get_mapping(values, "labels")
    taints = get_list(values, "taint")
    settings = get_mapping(values, "upgrade_settings")
    body: dict[str, Any] = {
        "count": values["count"] if "count" in values else values["node_count"],
        "mode": values.get("mode") or "User",
        "vmSkuName": values["vm_sku_name"],
        **_build_zones(values),
    }
    label_bodies = [{"key": key, "value": labels[key]} for key in sorted(labels)]
    taint_bodies = [
        {"key": taint["key"], "value": f"{get_text(taint, 'value')}:{taint['effect']}"}
        for taint in taints
    ]
    body |= omit_empty({"labels": label_bodies, "taints": taint_bodies})
    if settings:
        body[_UPGRADE_SETTINGS] = _build_upgrade_settings(settings)
    return body


def _build_upgrade_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    upgrade = {
        "maxSurge": settings.get("max_surge"),
        "maxUnavailable": settings.get("max_unavailable"),
        "drainTimeout": settings.get("drain_timeout"),
    }
    return {name: value for name, value in upgrade.items() if value is not None}


def build_updated_pool_properties(
    prior: Mapping[str, Any], planned: Mapping[str, Any]
) -> dict[str, Any]:
    """Build the `properties` of an existing pool after an update.

    Azure keeps omitted settings, so removed upgrade settings are sent at their defaults.
    """
    body = build_pool_properties(planned)
    if get_mapping(prior, "upgrade_settings") and _UPGRADE_SETTINGS not in body:
        body[_UPGRADE_SETTINGS] = _build_upgrade_settings(UPGRADE_DEFAULTS)
    return body


def build_new_pool_properties(values: Mapping[str, Any]) -> dict[str, Any]:
    """Build the `properties` of a new pool.

    Azure accepts its hugepages on creation only.
    """
    body = build_pool_properties(values)
    for name, total_bytes in read_hugepages(values).items():
        if name in _PAGE_SIZES:
            page_bytes, azure_size = _PAGE_SIZES[name]
            # Azure takes the number of pages, of one size only.
            return {
                **body,
                "agentOptions": {
                    "hugepagesCount": total_bytes // page_bytes,
                    "hugepagesSize": azure_size,
                },
            }
    return body


def read_hugepages(values: Mapping[str, Any]) -> dict[str, int]:
    """Return the hugepages of a kubelet block in bytes per node: {"hugepages-1Gi": 8589934592}."""
    totals: dict[str, int] = {}
    for name, amounts in get_mapping(values, "kubelet", "extended_resources").items():
        if name.startswith("hugepages-"):
            # One amount, or a list by NUMA cell.
            amounts_by_cell = amounts if isinstance(amounts, list) else [amounts]
            total = sum(_parse_bytes(amount) for amount in amounts_by_cell)
            totals |= {name: total} if total else {}
    return totals


def list_hugepages_problems(
    before: Mapping[str, Any] | None, after: Mapping[str, Any]
) -> list[str]:
    """Return why Azure cannot provide the hugepages of a cluster or pool.

    `before` is None for a new object.
    """
    # A pool with a resource of its own.
    if "agent_pool" not in after:
        return list(_check_pool_hugepages(str(after["name"]), before, after))
    old_pools = get_mapping(before, "agent_pool")
    problems: list[str] = []
    if read_hugepages(after) != read_hugepages(before or {}):
        problems.append(
            "Azure has hugepages of agent pools only. Declare them in the kubelet block of each "
            "agent_pool."
        )
    for name, pool in list_pools(after):
        problems += _check_pool_hugepages(name, old_pools.get(name), pool)
    return problems


def _check_pool_hugepages(
    name: str, before: Mapping[str, Any] | None, after: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a problem if Azure cannot provide the hugepages of a pool.

    `before` is None for a new pool.
    """
    pages = read_hugepages(after)
    if before is not None:
        # Any other change re-creates the pool.
        updatable = ("count", "upgradeSettings")
        old_body = build_pool_properties(before)
        body = build_pool_properties(after)
        if omit_members(old_body, updatable) == omit_members(body, updatable):
            if read_hugepages(before) != pages:
                yield (
                    f"Azure cannot change the hugepages of the pool {name} after its creation. "
                    "Undo the change, or add "
                    "a pool with another name, drain this one and remove it."
                )
            return
    # The first value of a size in _PAGE_SIZES is its number of bytes.
    has_whole_pages = (
        size in _PAGE_SIZES and total % _PAGE_SIZES[size][0] == 0 for size, total in pages.items()
    )
    if len(pages) > 1 or not all(has_whole_pages):
        declared = " and ".join(f"{total / 2**20:g} MiB of {size}" for size, total in pages.items())
        sizes = " or ".join(_PAGE_SIZES)
        yield (
            f"The pool {name} declares {declared}. Azure takes hugepages of one size in whole "
            f"pages: {sizes}."
        )


def _parse_bytes(amount: Any) -> int:
    """Parse a quantity of Kubernetes such as "8Gi" to bytes.

    Return 0 for None and an invalid one.
    """
    quantity = parse_quantity(str(amount))
    return 0 if isinstance(quantity, InvalidQuantity) else quantity.round_to_units()


def build_vm_properties(values: Mapping[str, Any]) -> dict[str, Any]:
    """Build the `properties` of a VM without placement hints."""
    disk = {"createOption": "Ephemeral", "deleteOption": "Delete", "diskSizeGB": values["disk_gib"]}
    return {
        "cpuCores": values["cpu_cores"],
        "memorySizeGB": values["memory_gib"],
        "storageProfile": {"osDisk": disk},
    }


def build_placement_hints(
    values: Mapping[str, Any], convert_id: Callable[[str], Any]
) -> list[dict[str, Any]]:
    """Build the placement hints of a VM.

    `convert_id` converts the nexusform id of a target to the value to write.
    """
    return [
        {
            "hintType": hint["hint_type"],
            "resourceId": convert_id(str(hint["resource_id"])),
            "schedulingExecution": hint["scheduling_execution"],
            "scope": hint["scope"],
        }
        for hint in get_list(values, "placement_hint")
    ]


def _build_zones(values: Mapping[str, Any]) -> dict[str, Any]:
    zones = values.get("availability_zones")
    return {"availabilityZones": sorted(zones)} if zones else {}


def read_opaque_body(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body in an azure block, sent to Azure as it is; {} if absent or unknown."""
    return dict(get_known_mapping(values, "azure", "body"))


def get_known_mapping(data: Any, *path: PathStep) -> Mapping[str, Any]:
    """Return the mapping at a path, {} if it is absent or unknown."""
    value = get_mapping(data, *path)
    return value if isinstance(value, Mapping) else {}


def select_members(body: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the members of a body with these names."""
    return {name: part for name, part in body.items() if name in names}


def omit_members(body: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the members of a body without these names."""
    return {name: part for name, part in body.items() if name not in names}


def merge_bodies(base: Any, overlay: Any) -> Any:
    """Merge one body over another; objects merge recursively, everything else is replaced.

    {"a": {"b": 1}, "c": [1]} and {"a": {"d": 2}, "c": [3]} give {"a": {"b": 1, "d": 2}, "c": [3]}.
    """
    if isinstance(base, Mapping) and isinstance(overlay, Mapping):
        return {
            **base,
            **{name: merge_bodies(base.get(name), part) for name, part in overlay.items()},
        }
    return overlay


def diff_request_bodies(before: Any, after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the new and changed members of a body, recursively; removed ones are left out.

    For {"a": {"b": 1, "c": 2}} and {"a": {"b": 1, "c": 3}} it is {"a": {"c": 3}}.
    """
    previous = get_known_mapping(before)
    changes: dict[str, Any] = {}
    for name, part in after.items():
        if name in previous and previous[name] == part:
            continue  # unchanged
        changes[name] = (
            diff_request_bodies(previous.get(name), part) if isinstance(part, Mapping) else part
        )
    return changes


def has_requested_values(observed: Any, requested: Any) -> bool:
    """Return True if the observed value has everything requested.

    An object may have more members. A list must have as many elements, in any order. None equals an
    empty value, but not a requested [] or {}. Example: {"count": 3, "mode": "User"} has the
    requested {"count": 3}, but {"count": 4} has not.
    """
    if isinstance(requested, Mapping):
        if not isinstance(observed, Mapping):
            return False
        return all(
            has_requested_values(observed.get(name), part) for name, part in requested.items()
        )
    if isinstance(requested, list):
        if not isinstance(observed, list) or len(observed) != len(requested):
            return False
        return all(_contains_requested_element(observed, element) for element in requested)
    # None equals "", 0 and False.
    is_absent = None in (requested, observed) and not requested and not observed
    return is_absent or bool(observed == requested)


def _contains_requested_element(observed: list[Any], element: Any) -> bool:
    """Return True if one of the observed elements contains everything requested by an element."""
    return any(has_requested_values(candidate, element) for candidate in observed)
