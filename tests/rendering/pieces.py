"""Parts of hand-written plans: addresses, changes, schemas, rows and tables."""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.diagnostics.diagnostic import Position, SourceFile, Span
from nexusform.interfaces.plugins import PluginRegistries, ResourceType
from nexusform.plans.plan import (
    Action,
    Change,
    PlacementAction,
    PlacementChange,
    PlacementTable,
    SeparationVerdict,
    SeparationViolation,
)
from nexusform.resources.address import Address, ModulePathStep
from nexusform.scheduling.racks.vms import Placement
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, NestedBlock, Nesting
from nexusform.schemas.value_types import NUMBER, STRING, ListType, MapType, ObjectType, SetType

MAIN = SourceFile(
    "main.nf.hcl",
    'resource "nexus_kubernetes_cluster" "d" {\n'
    "  site_id = nexus_site.lab.id\n"
    "\n"
    '  agent_pool "pool1" {\n'
    "    count              = 24\n"
    '    availability_zones = ["7", "8"]\n'
    "  }\n"
    "}\n",
)


def span_of(text: str, file: SourceFile = MAIN) -> Span:
    """Return the span of the first occurrence of an ASCII text in the file."""
    at = file.text.index(text)
    return Span(file.name, _position(file.text, at), _position(file.text, at + len(text)))


def _position(text: str, at: int) -> Position:
    before = text[:at]
    return Position(before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1, len(before.encode()))


def address(
    kind: str, name: str, key: Any = None, module: tuple[Any, ...] = (), mode: Any = "managed"
) -> Address:
    return Address(tuple(ModulePathStep(m, k) for m, k in module), mode, kind, name, key)


def change(where: Address, action: Action, before: Any, after: Any, **more: Any) -> Change:
    return Change(where, action, before, after, "simulated", 1, 1, **more)


NODE = ObjectType.create({"machine": STRING, "rack": STRING, "provenance": STRING})
POOL = BlockSchema(
    {
        "count": AttributeSchema(NUMBER, "how many", required=True),
        "vm_sku_name": AttributeSchema(STRING, "SKU", required=True),
        "availability_zones": AttributeSchema(SetType(STRING), "zones", optional=True),
        "labels": AttributeSchema(MapType(STRING), "labels", optional=True),
    },
    {
        "taint": NestedBlock(
            BlockSchema({"key": AttributeSchema(STRING, "key", required=True)}),
            Nesting.LIST,
            "taints",
        )
    },
)
CONTROL = BlockSchema(
    {name: POOL.attributes[name] for name in ("count", "vm_sku_name", "availability_zones")}
)
CLUSTER = BlockSchema(
    {
        "id": AttributeSchema(STRING, "id", computed=True),
        "name": AttributeSchema(STRING, "name", required=True),
        "site_id": AttributeSchema(STRING, "site", required=True),
        "kubernetes_version": AttributeSchema(STRING, "version", optional=True),
        "nodes": AttributeSchema(MapType(NODE), "nodes", computed=True),
        "node_count": AttributeSchema(NUMBER, "how many", computed=True),
        "hardware_label_keys": AttributeSchema(ListType(STRING), "keys", optional=True),
    },
    {
        "control_plane": NestedBlock(CONTROL, Nesting.SINGLE, "control plane"),
        "agent_pool": NestedBlock(POOL, Nesting.MAP, "pools", label="name"),
    },
)


def _id(attributes: Any) -> str:
    return str(attributes.get("id", ""))


REGISTRIES = PluginRegistries(
    {"nexus_kubernetes_cluster": ResourceType("nexus_kubernetes_cluster", 4, CLUSTER, _id)}
)


# --- a cluster added to a half-full site ---

D = address("nexus_kubernetes_cluster", "d")


def _build_place(rack: int, slot: int, cell: int) -> dict[str, Any]:
    return {
        "machine": f"rack{rack}-bm{slot:02d}",
        "rack": f"rack{rack}",
        "availability_zone": str(rack),
        "numa_cells": [cell],
    }


def _build_places() -> dict[str, dict[str, Any]]:
    spots = {f"cluster-d-control-plane-{i}": _build_place(i + 1, 4 + i, 0) for i in range(5)}
    spots |= {f"cluster-d-pool1-{i}": _build_place(7 + i % 2, 1 + i // 2, 1) for i in range(24)}
    return spots | {
        f"cluster-d-pool2-{i}": _build_place(1 + i % 8, 5 + i // 8, 0) for i in range(24)
    }


def _build_nodes(spots: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        name: {"machine": s["machine"], "rack": s["rack"], "provenance": "predicted"}
        for name, s in spots.items()
    }


def _build_pools(count: int = 24) -> dict[str, Any]:
    return {
        "pool1": {
            "count": count,
            "vm_sku_name": "NC_P46_224_v1",
            "availability_zones": ["7", "8"],
            "labels": {"tier": "front", "with space": "x"},
            "taint": [{"key": "a"}, {"key": "b"}],
        },
        "pool2": {
            "count": 24,
            "vm_sku_name": "NC_P22_112_v1",
            "availability_zones": None,
            "labels": None,
            "taint": [],
        },
    }


def cluster_d(**more: Any) -> dict[str, Any]:
    return {
        "id": "lab/cluster-d",
        "name": "cluster-d",
        "site_id": "lab",
        "kubernetes_version": None,
        "nodes": _build_nodes(_build_places()),
        "node_count": 53,
        "hardware_label_keys": [],
        "control_plane": {"count": 5, "vm_sku_name": "NC_G24_112_v1", "availability_zones": None},
        "agent_pool": _build_pools(),
        "agent_pool_order": ["pool1", "pool2"],
    } | more


def vm_row(
    name: str, action: PlacementAction, trigger: str, source: Any, target: Any, **more: Any
) -> PlacementChange:
    pool, _, number = name.removeprefix("cluster-d-").rpartition("-")
    return PlacementChange(
        D,
        "vm",
        name,
        action,
        _build_placement(source),
        _build_placement(target),
        trigger,
        cluster="cluster-d",
        pool=pool,
        number=int(number),
        site_id="lab",
        **more,
    )


def _build_placement(spot: dict[str, Any] | None) -> Placement | None:
    if spot is None:
        return None
    return Placement(
        spot["machine"], spot["rack"], spot["availability_zone"], tuple(spot["numa_cells"])
    )


def table(pool: str, sku: str, count: int, per_rack: dict[str, int], **more: Any) -> PlacementTable:
    expected = more.pop("expected", len(per_rack))
    low = count // expected
    high = -(-count // expected)
    return PlacementTable(
        D,
        "lab",
        "cluster-d",
        pool,
        sku,
        count,
        expected,
        len(per_rack),
        (low, high),
        per_rack,
        **more,
    )


def _build_tables() -> tuple[PlacementTable, ...]:
    return (
        table(
            "control-plane",
            "NC_G24_112_v1",
            5,
            {f"rack{i}": 1 for i in range(1, 6)},
            placed=5,
            racks_certain=0,
        ),
        table(
            "pool1",
            "NC_P46_224_v1",
            24,
            {"rack7": 12, "rack8": 12},
            placed=24,
            racks_certain=24,
            machines_certain=4,
        ),
        table(
            "pool2",
            "NC_P22_112_v1",
            24,
            {f"rack{i}": 3 for i in range(1, 9)},
            placed=24,
            racks_certain=24,
            machines_certain=5,
        ),
    )


def separation_verdict(
    name: str, enforcement: str, holds: str, *violations: SeparationViolation
) -> SeparationVerdict:
    """Return the verdict on nexus_separation_rule.NAME."""
    rule = address("nexus_separation_rule", name)
    return SeparationVerdict(rule, "machine", enforcement, holds, violations)


# Names of the plans of fixture `plans` with object changes, and of all plans.
CHANGE_PLANS = (
    "added_cluster",
    "changed_placements",
    pytest.param("fleet_and_pods", marks=pytest.mark.of_domains("fleet")),
    "every_action",
    "every_shape",
    "blocks",
)
ALL_PLANS = (*CHANGE_PLANS, "drifted", "refresh_only", "outputs_only")
