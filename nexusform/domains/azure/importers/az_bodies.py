"""Our clusters, pools and VMs -> the bodies that Azure takes: the way back of az_adoption."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from nexusform.kubernetes.quantity import Malformed, parse_quantity

# Bytes of a page and how Azure writes its size, larger ones first.
_PAGES: Final = {"hugepages-1Gi": (2**30, "1G"), "hugepages-2Mi": (2**21, "2M")}


def cluster_properties(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the attributes of a cluster say of its body; its pools are those that it is made with."""
    plane = values["control_plane"]
    version = values.get("kubernetes_version")
    pools = {name: new_pool_properties(pool) for name, pool in ordered_pools(values)}
    return {
        **({"kubernetesVersion": version} if version else {}),
        "controlPlaneNodeConfiguration": {
            "count": plane["count"],
            "vmSkuName": plane["vm_sku_name"],
            **_zones(plane),
        },
        "initialAgentPoolConfigurations": [{"name": name, **body} for name, body in pools.items()],
    }


def ordered_pools(values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The pools of a cluster in the order of their blocks."""
    pools = values.get("agent_pool") or {}
    for name in values.get("agent_pool_order") or sorted(pools):
        if name in pools:
            yield name, pools[name]


def pool_properties(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the arguments of an agent pool say of its body, whether a block (`count`) or a resource."""
    labels, taints = values.get("labels") or {}, values.get("taint") or []
    settings = values.get("upgrade_settings") or {}
    upgrade = {
        "maxSurge": settings.get("max_surge"),
        "maxUnavailable": settings.get("max_unavailable"),
        "drainTimeout": settings.get("drain_timeout"),
    }
    body: dict[str, Any] = {
        "count": values["count"] if "count" in values else values["node_count"],
        "mode": values.get("mode") or "User",
        "vmSkuName": values["vm_sku_name"],
        **_zones(values),
    }
    if labels:
        body["labels"] = [{"key": key, "value": labels[key]} for key in sorted(labels)]
    if taints:
        body["taints"] = [
            {"key": taint["key"], "value": f"{taint.get('value') or ''}:{taint['effect']}"}
            for taint in taints
        ]
    if settings:
        body["upgradeSettings"] = {name: value for name, value in upgrade.items() if value is not None}
    return body


def new_pool_properties(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a pool that is made, with what Azure takes then alone: hugepages of its nodes, one size."""
    declared = (values.get("kubelet") or {}).get("extended_resources") or {}
    body = pool_properties(values)
    for name, (size, written) in _PAGES.items():
        amounts = declared.get(name)
        count = sum(map(_bytes, amounts if isinstance(amounts, list) else [amounts])) // size
        if count:
            return {**body, "agentOptions": {"hugepagesCount": count, "hugepagesSize": written}}
    return body


def _bytes(amount: Any) -> int:
    quantity = parse_quantity(str(amount)) if amount is not None else None
    return 0 if quantity is None or isinstance(quantity, Malformed) else quantity.whole()


def vm_properties(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the attributes of a VM say of its body, without placement hints: these name other resources."""
    disk = {"createOption": "Ephemeral", "deleteOption": "Delete", "diskSizeGB": values["disk_gib"]}
    return {
        "cpuCores": values["cpu_cores"],
        "memorySizeGB": values["memory_gib"],
        "storageProfile": {"osDisk": disk},
    }


def placement_hints(values: Mapping[str, Any], resource_id: Callable[[str], Any]) -> list[dict[str, Any]]:
    """The placement hints of a VM's body; `resource_id` says what stands there for an id of ours."""
    return [
        {
            "hintType": hint["hint_type"],
            "resourceId": resource_id(str(hint["resource_id"])),
            "schedulingExecution": hint["scheduling_execution"],
            "scope": hint["scope"],
        }
        for hint in values.get("placement_hint") or []
    ]


def _zones(values: Mapping[str, Any]) -> dict[str, Any]:
    zones = values.get("availability_zones")
    return {"availabilityZones": sorted(zones)} if zones else {}


def body_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The opaque body of an azure block, empty without one and while it is not known."""
    body = (values.get("azure") or {}).get("body")
    return dict(body) if isinstance(body, Mapping) else {}


# --- bodies laid over one another ----------------------------------------------------------------


def merged(under: Any, over: Any) -> Any:
    """A body with another one laid over it; only objects merge, everything else is taken as it is."""
    if isinstance(under, Mapping) and isinstance(over, Mapping):
        return {**under, **{name: merged(under.get(name), part) for name, part in over.items()}}
    return over


def changed_part(before: Any, after: Mapping[str, Any]) -> dict[str, Any]:
    """What of a body is other than before; objects are looked into."""
    known = before if isinstance(before, Mapping) else {}
    changed: dict[str, Any] = {}
    for name, part in after.items():
        if name in known and known[name] == part:
            continue
        changed[name] = changed_part(known.get(name), part) if isinstance(part, Mapping) else part
    return changed


def shows(seen: Any, asked: Any) -> bool:
    """Whether what is seen holds everything that is asked for; lists must be the same but for their order."""
    if isinstance(asked, Mapping):
        return isinstance(seen, Mapping) and all(shows(seen.get(name), part) for name, part in asked.items())
    if isinstance(asked, list):
        return isinstance(seen, list) and len(seen) == len(asked) and all(_in(seen, each) for each in asked)
    if not asked and not seen:
        return asked == seen or asked is None or seen is None
    return bool(seen == asked)


def _in(seen: list[Any], asked: Any) -> bool:
    return any(shows(each, asked) for each in seen)
