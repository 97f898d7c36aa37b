"""Rules of Azure for new clusters, agent pools and VMs, of a plan or of another tool's plan.

Azure rejects an object that breaks one at its creation: its predicted VMs will not exist. The names
are those of API 2024-07-01 of Microsoft.NetworkCloud; virtual machines may have longer ones.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.domains.azure.importers.az_changes import (
    CLUSTERS,
    INITIAL_POOLS,
    POOLS,
    VMS,
    AzAction,
    ToolChange,
)
from nexusform.domains.azure.importers.azure_request_bodies import read_hugepages
from nexusform.json_data.plain_data import get_mapping, get_text, list_mappings
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST

_CREATIONS: Final = (AzAction.CREATE, AzAction.REPLACE)
# Kind -> number of characters between the first and the last one.
_INNER_LENGTHS: Final[Mapping[str, int]] = {CLUSTERS: 28, POOLS: 28, VMS: 62}
_PAGE_GIB: Final[Mapping[str, float]] = {"2M": 2 / 1024, "1G": 1}
_GIB: Final = 1024**3
_REJECTED: Final = "creation-rejected-by-azure"


def check_created_objects(changes: Iterable[ToolChange]) -> Iterator[Problem]:
    """Yield a warning for each reason why Azure will reject a new object.

    Checked are names, the System pool of a new cluster, and hugepages within the memory of a node.
    Values known only after apply are not checked.
    """
    for change in changes:
        if change.action not in _CREATIONS:
            continue
        details = list(_describe_invalid_name(change.kind, change.names[-1]))
        properties = get_mapping(change.body, "properties")
        for pool in list_mappings(properties, INITIAL_POOLS):
            if isinstance(pool.get("name"), str):
                details += _describe_invalid_name(POOLS, pool["name"])
            details += _describe_hugepages(pool)
        if change.kind == POOLS:
            details += _describe_hugepages(properties)
        if change.kind == CLUSTERS and _lacks_system_pool(change):
            details.append(
                f"none of its pools has mode System. Set it for one pool in {INITIAL_POOLS}."
            )
        for detail in details:
            text = f"{change.title}: Azure will reject its creation: {detail}"
            yield Problem((change.address,), _REJECTED, text, Severity.WARNING, file=change.file)


# By resource type.
_KINDS: Final = {
    "nexus_kubernetes_cluster": CLUSTERS,
    "nexus_agent_pool": POOLS,
    "nexus_virtual_machine": VMS,
}


def describe_rejections(resource_type: str, attributes: Mapping[str, Any]) -> Iterator[str]:
    """Yield why Azure will reject a new object of a plan, by its planned attributes.

    Checked are names, the System pool of a cluster, and hugepages within the memory of a node.
    """
    kind = _KINDS.get(resource_type)
    if kind is None:
        return
    yield from _describe_invalid_name(kind, get_text(attributes, "name"))
    pools = dict(get_mapping(attributes, "agent_pool"))
    for name in pools:
        yield from _describe_invalid_name(POOLS, name)
    if kind == CLUSTERS and pools:
        modes = {get_text(pool, "mode") for pool in pools.values()}
        if "System" not in modes:
            yield 'none of its pools has mode System. Write mode = "System" in one agent_pool.'
    if kind == POOLS:
        pools = {get_text(attributes, "name"): attributes}
    for name, pool in pools.items():
        for reason in _describe_planned_hugepages(pool):
            yield f"pool {name}: {reason}"


def _describe_planned_hugepages(pool: Mapping[str, Any]) -> Iterator[str]:
    """Yield why the hugepages of a planned pool exceed the memory of its nodes, if they do.

    They are in its kubelet block, or else in its azure block.
    """
    total = sum(read_hugepages(pool).values())
    if not total:
        options = get_mapping(pool, "azure", "body", "properties", "agentOptions")
        body = {"agentOptions": options, "vmSkuName": pool.get("vm_sku_name")}
        yield from _describe_hugepages(body)
        return
    sku = CATALOGUES[NEWEST].vm_skus.get(get_text(pool, "vm_sku_name"))
    requested = total / _GIB
    if sku is not None and requested > sku.memory_gib:
        yield (
            f"hugepages of {requested:,.6g} GiB, and a node of {sku.name} has "
            f"{sku.memory_gib:,.6g} GiB. Reduce extended_resources of its kubelet block."
        )


def _describe_invalid_name(kind: str, name: str) -> Iterator[str]:
    """Yield why Azure rejects a name, if it does."""
    inner = _INNER_LENGTHS.get(kind)
    if inner is None or re.fullmatch(
        rf"[a-zA-Z0-9][a-zA-Z0-9_-]{{0,{inner}}}[a-zA-Z0-9]", name, re.ASCII
    ):
        return
    yield (
        f'the name "{name[:80]}" is invalid. It must have 2 to {inner + 2} letters, digits, "-" '
        'and "_", and start and end with a letter or digit.'
    )


def _lacks_system_pool(change: ToolChange) -> bool:
    """Return whether the initial pools of a new cluster are known, and none has mode System."""
    pools_path = ("properties", INITIAL_POOLS)
    # The unknown value is in the pools, or contains them.
    if any(path[:2] == pools_path[: len(path)] for path in change.unknown):
        return False
    pools = list_mappings(get_mapping(change.body, "properties"), INITIAL_POOLS)
    return bool(pools) and all(get_text(pool, "mode") != "System" for pool in pools)


def _describe_hugepages(pool: Mapping[str, Any]) -> Iterator[str]:
    """Yield why the hugepages of a pool exceed the memory of its nodes, if they do."""
    options = get_mapping(pool, "agentOptions")
    count = options.get("hugepagesCount")
    size = str(options.get("hugepagesSize") or "2M")
    sku = CATALOGUES[NEWEST].vm_skus.get(get_text(pool, "vmSkuName"))
    if not isinstance(count, int) or size not in _PAGE_GIB or sku is None:
        return
    requested = count * _PAGE_GIB[size]
    if requested > sku.memory_gib:
        yield (
            f"{count:,} hugepages of {size} are {requested:,.6g} GiB, and a node of {sku.name} has "
            f"{sku.memory_gib:,.6g} GiB. Reduce hugepagesCount."
        )
