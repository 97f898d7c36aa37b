"""Plans made by hand, and a comparison with files that a person reviews.

NEXUSFORM_REWRITE_GOLDEN=1 writes the files anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nexusform.address import Address, ModuleStep
from nexusform.diagnostics import warning
from nexusform.planning.plan import (
    Action,
    Change,
    CheckResult,
    Drift,
    Mode,
    OutputChange,
    PlacementAction,
    PlacementChange,
    PlacementTable,
    Plan,
    VariableValue,
)
from nexusform.ports import Registries, ResourceType
from nexusform.scheduling.decision import Certainty, Refusal
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting
from nexusform.source import Position, SourceFile, Span
from nexusform.state.model import InstanceState, ObjectState, OutputState, State
from nexusform.values import NUMBER, STRING, UNKNOWN, ListType, MapType, ObjectType, SetType

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    def compare(name: str, text: str) -> None:
        file = GOLDEN / name
        if os.environ.get("NEXUSFORM_REWRITE_GOLDEN"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8"), f"differs from {file}"

    return compare


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
    """The first place where the text stands in the file (ASCII)."""
    at = file.text.index(text)
    return Span(file.name, _position(file.text, at), _position(file.text, at + len(text)))


def _position(text: str, at: int) -> Position:
    before = text[:at]
    return Position(before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1, len(before.encode()))


def address(
    kind: str, name: str, key: Any = None, module: tuple[Any, ...] = (), mode: Any = "managed"
) -> Address:
    return Address(tuple(ModuleStep(m, k) for m, k in module), mode, kind, name, key)


def change(where: Address, action: Action, before: Any, after: Any, **more: Any) -> Change:
    return Change(where, action, before, after, "simulated", 1, 1, **more)


NODE = ObjectType.of({"machine": STRING, "rack": STRING, "provenance": STRING})
POOL = BlockSchema(
    {
        "count": Attribute(NUMBER, "how many", required=True),
        "vm_sku_name": Attribute(STRING, "SKU", required=True),
        "availability_zones": Attribute(SetType(STRING), "zones", optional=True),
        "labels": Attribute(MapType(STRING), "labels", optional=True),
    },
    {
        "taint": NestedBlock(
            BlockSchema({"key": Attribute(STRING, "key", required=True)}), Nesting.LIST, "taints"
        )
    },
)
CONTROL = BlockSchema(
    {name: POOL.attributes[name] for name in ("count", "vm_sku_name", "availability_zones")}
)
CLUSTER = BlockSchema(
    {
        "id": Attribute(STRING, "id", computed=True),
        "name": Attribute(STRING, "name", required=True),
        "site_id": Attribute(STRING, "site", required=True),
        "kubernetes_version": Attribute(STRING, "version", optional=True),
        "nodes": Attribute(MapType(NODE), "nodes", computed=True),
        "node_count": Attribute(NUMBER, "how many", computed=True),
        "hardware_label_keys": Attribute(ListType(STRING), "keys", optional=True),
    },
    {
        "control_plane": NestedBlock(CONTROL, Nesting.SINGLE, "control plane"),
        "agent_pool": NestedBlock(POOL, Nesting.MAP, "pools", label="name"),
    },
)


def _id(attributes: Any) -> str:
    return str(attributes.get("id", ""))


REGISTRIES = Registries(
    {"nexus_kubernetes_cluster": ResourceType("nexus_kubernetes_cluster", 4, CLUSTER, _id)},
)


# --- a cluster that is added to a half-full site ---

D = address("nexus_kubernetes_cluster", "d")


def _spot(rack: int, slot: int, cell: int) -> dict[str, Any]:
    return {
        "machine": f"rack{rack}-bm{slot:02d}",
        "rack": f"rack{rack}",
        "availability_zone": str(rack),
        "numa_cells": [cell],
    }


def _spots() -> dict[str, dict[str, Any]]:
    spots = {f"cluster-d-control-plane-{i}": _spot(i + 1, 4 + i, 0) for i in range(5)}
    spots |= {f"cluster-d-pool1-{i}": _spot(7 + i % 2, 1 + i // 2, 1) for i in range(24)}
    return spots | {f"cluster-d-pool2-{i}": _spot(1 + i % 8, 5 + i // 8, 0) for i in range(24)}


def _nodes(spots: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        name: {"machine": s["machine"], "rack": s["rack"], "provenance": "predicted"}
        for name, s in spots.items()
    }


def _pools(count: int = 24) -> dict[str, Any]:
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
        "nodes": _nodes(_spots()),
        "node_count": 53,
        "hardware_label_keys": [],
        "control_plane": {"count": 5, "vm_sku_name": "NC_G24_112_v1", "availability_zones": None},
        "agent_pool": _pools(),
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
        source,
        target,
        trigger,
        cluster="cluster-d",
        pool=pool,
        number=int(number),
        site_id="lab",
        **more,
    )


def table(pool: str, sku: str, count: int, per_rack: dict[str, int], **more: Any) -> PlacementTable:
    expected = more.pop("expected", len(per_rack))
    low, high = count // expected, -(-count // expected)
    return PlacementTable(
        D, "lab", "cluster-d", pool, sku, count, expected, len(per_rack), (low, high), per_rack, **more
    )


def _tables() -> tuple[PlacementTable, ...]:
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


def added_cluster() -> Plan:
    rows = tuple(
        vm_row(
            name,
            PlacementAction.PLACE,
            "new",
            None,
            spot,
            certainty=Certainty(1.0, 0.25),
            reason="fewest VMs of the pool",
            scores={"pool_vms": 0},
            rejected=(Refusal("rack1-bm01", "fits", "no cell left"),),
        )
        for name, spot in _spots().items()
    )
    pinned = warning(
        "zones-pinned: pool1 of cluster-d is pinned to racks 7 and 8",
        "6 machines will house two VMs of cluster-d because of it. "
        "Without the pin all 53 VMs fit on 53 machines.",
        span_of('availability_zones = ["7", "8"]'),
        block='resource "nexus_kubernetes_cluster" "d"',
        id="zones-pinned",
    )
    source = Span(MAIN.name, Position(1, 1, 0), Position(8, 2, len(MAIN.text) - 1))
    return Plan(
        changes=(change(D, Action.CREATE, None, cluster_d(), source=source, block='resource "x"'),),
        placements=rows,
        placement_tables=_tables(),
        kept=125,
        tie_breaks=100,
        diagnostics=(pinned,),
        timestamp="2026-03-01T00:00:00Z",
        nexusform_version="0.1.0",
    )


def changed_placements() -> Plan:
    spots = _spots()
    names = list(spots)
    moved = names[7]
    after = dict(spots)
    after[moved] = _spot(7, 14, 0)
    for gone in names[-3:]:
        del after[gone]
    rows = [
        vm_row(moved, PlacementAction.MOVE, "machine_evacuated", spots[moved], after[moved]),
        *(vm_row(gone, PlacementAction.REMOVE, "scale_in", spots[gone], None) for gone in names[-3:]),
        vm_row(names[0], PlacementAction.KEEP, "", spots[names[0]], spots[names[0]]),
    ]
    before_attributes = cluster_d()
    pools = _pools()
    pools["pool2"] = pools["pool2"] | {"count": 21}
    after_attributes = cluster_d(nodes=_nodes(after), node_count=50, agent_pool=pools)
    per_rack = {f"rack{i}": 3 if i < 6 else 2 for i in range(1, 9)}
    return Plan(
        changes=(change(D, Action.UPDATE, before_attributes, after_attributes),),
        placements=tuple(rows),
        placement_tables=(
            _tables()[1],
            table("pool2", "NC_P22_112_v1", 21, per_rack, fewest_left_on_a_rack=1),
        ),
        kept=174,
        tie_breaks=0,
    )


def fleet_and_pods() -> Plan:
    web = address("fleet_cluster_resource_placement", "web")
    rows = [
        PlacementChange(
            web,
            "binding",
            "east",
            PlacementAction.PLACE,
            None,
            {"cluster": "east", "state": "Bound"},
            "number_of_clusters_increased",
            cluster="",
            pool="web",
        ),
        PlacementChange(
            web,
            "binding",
            "north",
            PlacementAction.KEEP,
            {"cluster": "north", "state": "Bound"},
            {"cluster": "north", "state": "Bound"},
            "taint_added",
            cluster="",
            pool="web",
        ),
        PlacementChange(
            web,
            "binding",
            "west",
            PlacementAction.UPDATE,
            {"cluster": "west", "state": "Bound"},
            {"cluster": "west", "state": "Bound"},
            "resources_changed",
            cluster="",
            pool="web",
        ),
    ]
    rows += [
        PlacementChange(
            web,
            "pod",
            f"nginx-{i}",
            PlacementAction.PLACE,
            None,
            {
                "cluster": "east",
                "node": f"east-np1-{i}" if i < 3 else None,
                "machine": f"rack{1 + i % 2}-bm01" if i < 3 else None,
                "availability_zone": "1" if i < 3 else None,
            },
            "new",
            cluster="east",
            pool="web/Deployment/nginx",
            number=i,
        )
        for i in range(4)
    ]
    before = {
        "id": "web",
        "name": "web",
        "bindings": {"west": {"state": "Bound"}, "north": {"state": "Bound"}},
    }
    after = before | {"bindings": before["bindings"] | {"east": {"state": "Bound"}}}
    return Plan(changes=(change(web, Action.UPDATE, before, after),), placements=tuple(rows), kept=12)


# --- every action, reason and shape of a value ---


def every_action() -> Plan:
    rack = {"id": "lab/r", "name": "r", "availability_zone": "1", "machine_count": 16}
    old = address("nexus_rack", "old", 2)
    return Plan(
        changes=(
            change(address("nexus_rack", "a"), Action.CREATE, None, rack | {"machines": UNKNOWN}),
            change(address("nexus_rack", "b"), Action.UPDATE, rack, rack | {"machine_count": 17}),
            change(
                address("nexus_rack", "c"),
                Action.DELETE,
                rack,
                None,
                reason="delete_because_no_resource_config",
            ),
            change(old, Action.DELETE, rack, None, reason="delete_because_count_index"),
            change(
                address("nexus_rack", "e", "k"), Action.DELETE, rack, None, reason="delete_because_each_key"
            ),
            change(
                address("nexus_rack", "f"),
                Action.DELETE,
                rack,
                None,
                reason="delete_because_wrong_repetition",
            ),
            change(
                address("nexus_rack", "f", 0),
                Action.DELETE,
                rack,
                None,
                reason="delete_because_wrong_repetition",
            ),
            change(
                address("nexus_rack", "f", "x"),
                Action.DELETE,
                rack,
                None,
                reason="delete_because_wrong_repetition",
            ),
            change(
                address("nexus_rack", "g", module=(("edge", "a"),)),
                Action.DELETE,
                rack,
                None,
                reason="delete_because_no_module",
            ),
            change(
                address("nexus_rack", "h"),
                Action.DELETE,
                rack,
                None,
                reason="delete_because_no_move_target",
                previous_address=address("nexus_rack", "h0"),
            ),
            change(address("nexus_rack", "i"), Action.DELETE, rack, None, deposed="0a1b2c3d"),
            change(
                address("nexus_rack", "j"),
                Action.REPLACE,
                rack,
                rack | {"availability_zone": "2"},
                reason="replace_because_cannot_update",
                replace_paths=(("availability_zone",),),
            ),
            change(
                address("nexus_rack", "k"),
                Action.REPLACE,
                rack,
                rack,
                reason="replace_because_tainted",
                tainted_before=True,
            ),
            change(
                address("nexus_rack", "l"),
                Action.REPLACE_CREATE_FIRST,
                rack,
                rack,
                reason="replace_by_request",
            ),
            change(address("nexus_rack", "m"), Action.REPLACE, rack, rack, reason="replace_by_triggers"),
            change(address("nexus_rack", "n"), Action.FORGET, rack, None),
            change(
                address("nexus_inventory", "o", mode="data"),
                Action.READ,
                None,
                {"directory": "x", "racks": UNKNOWN},
                reason="read_because_config_unknown",
            ),
            change(address("nexus_rack", "p"), Action.NO_OP, rack, rack, importing="lab/r"),
            change(
                address("nexus_rack", "q"),
                Action.UPDATE,
                rack,
                rack | {"machine_count": 15},
                importing="lab/q",
                previous_address=address("nexus_rack", "q0"),
            ),
            change(
                address("nexus_rack", "s"),
                Action.NO_OP,
                rack,
                rack,
                previous_address=address("nexus_rack", "s0"),
            ),
            change(address("nexus_rack", "t"), Action.NO_OP, rack, rack),
        ),
    )


def every_shape() -> Plan:
    before = {
        "id": "x",
        "added_later": None,
        "flag": True,
        "fraction": 0.5,
        "gone": "bye",
        "json": '{"a": 1, "b": [1, 2], "n": null}',
        "list": ["a", "b", "c", "d", "e", "f"],
        "list_of_objects": [{"name": "one", "v": 1}, {"name": "two", "v": 2}, {"name": "three", "v": 3}],
        "map": {"keep": "1", "change": "2", "gone": "3"},
        "now_exposed": "s1",
        "now_secret": "s2",
        "object_to_string": {"a": 1},
        "same": "untouched",
        "secret": "old",
        "secret_kept": "same",
        "spaces": '{"a":1}',
        "text": "one\ntwo\nthree",
        "to_unknown": ["x"],
        "whole_number": 3.0,
    }
    after = before | {
        "added_later": {"k": [], "empty": {}},
        "flag": 1,
        "fraction": 0.25,
        "gone": None,
        "json": '{"a": 1, "b": [1, 3], "n": null, "c": {"d": true}}',
        "list": ["a", "b", "x", "d", "e", "f"],
        "list_of_objects": [
            {"name": "one", "v": 1},
            {"name": "two", "v": UNKNOWN},
            {"name": "three", "v": 3},
        ],
        "map": {"keep": "1", "change": "two", "new key": 'quote " and ${dollar}'},
        "object_to_string": "a",
        "secret": "new",
        "spaces": '{ "a": 1 }',
        "text": "one\n2\nthree",
        "to_unknown": UNKNOWN,
        "whole_number": 4.0,
        "escape": "bell \x07 and colour \x1b[31m",
    }
    return Plan(
        changes=(
            change(
                address("thing", "x"),
                Action.UPDATE,
                before,
                after,
                sensitive_before=(("secret",), ("secret_kept",), ("now_exposed",)),
                sensitive_after=(("secret",), ("secret_kept",), ("now_secret",)),
            ),
            change(
                address("thing", "y"),
                Action.CREATE,
                None,
                after,
                sensitive_after=(("secret",), ("map", "keep")),
            ),
            change(address("thing", "z"), Action.DELETE, before, None, sensitive_before=(("secret",),)),
        ),
        outputs=(
            OutputChange("gone", Action.DELETE, "x", None, STRING, False),
            OutputChange("machines", Action.UPDATE, ["a"], ["a", "b"], ListType(STRING), False),
            OutputChange("new", Action.CREATE, None, UNKNOWN, STRING, False),
            OutputChange("same", Action.NO_OP, 1, 1, NUMBER, False),
            OutputChange("token", Action.UPDATE, "s1", "s2", STRING, True),
        ),
    )


def blocks() -> Plan:
    pools = _pools()
    changed = {
        "pool2": pools["pool2"] | {"taint": [{"key": "new"}]},
        "pool1": pools["pool1"]
        | {"vm_sku_name": "NC_G48_224_v1", "availability_zones": ["1", "8"], "taint": [{"key": "b"}]},
        "pool0": pools["pool2"] | {"count": 1},
    }
    base = cluster_d(nodes={}, node_count=0)
    after = base | {
        "agent_pool": changed,
        "agent_pool_order": ["pool2", "pool1", "pool0"],
        "control_plane": base["control_plane"] | {"vm_sku_name": "NC_G12_56_v1"},
    }
    gone = base | {"agent_pool": {"pool1": pools["pool1"]}, "agent_pool_order": ["pool1"]}
    return Plan(
        changes=(
            change(
                D,
                Action.REPLACE,
                base,
                after,
                reason="replace_because_cannot_update",
                replace_paths=(("control_plane", "vm_sku_name"),),
            ),
            change(address("nexus_kubernetes_cluster", "e"), Action.UPDATE, base, gone),
        ),
    )


def drifted() -> Plan:
    rack = {"id": "lab/r", "name": "r", "machine_count": 16}
    one = address("nexus_rack", "r")
    return Plan(
        changes=(change(one, Action.UPDATE, rack | {"machine_count": 15}, rack),),
        drift=(
            Drift(one, rack, rack | {"machine_count": 15}),
            Drift(address("nexus_rack", "gone"), rack, None),
            Drift(address("nexus_rack", "noise"), rack, rack | {"name": "x"}, relevant=False),
        ),
    )


def refresh_only() -> Plan:
    plan = drifted()
    return Plan(mode=Mode.REFRESH_ONLY, drift=plan.drift, refreshed={plan.drift[0].address: None})


def outputs_only() -> Plan:
    return Plan(outputs=(OutputChange("site", Action.CREATE, None, {"name": "lab"}, STRING, False),))


def rich_document() -> Plan:
    plan = every_shape()
    edge = address("thing", "in_module", "a", module=(("edge", "x"), ("inner", None)))
    return Plan(
        changes=(
            *plan.changes,
            change(
                edge,
                Action.UPDATE,
                {"id": "1", "list": ["a"]},
                {"id": "1", "list": ["a", UNKNOWN]},
                replace_paths=(("list", 0),),
                source=span_of("agent_pool"),
                previous_address=address("thing", "was"),
            ),
            *every_action().changes[15:20],
        ),
        outputs=plan.outputs,
        planned_outputs={
            "machines": OutputState(["a", "b"], ListType(STRING)),
            "token": OutputState("s2", STRING, True),
            "new": OutputState(UNKNOWN, STRING),
        },
        drift=drifted().drift,
        checks=(
            CheckResult("resource", 'thing.x["a"]', "pass"),
            CheckResult("resource", 'thing.x["b"]', "fail", ("no room",)),
            CheckResult("check", "check.spread", "unknown"),
        ),
        variables={
            "zones": VariableValue(["1"], ListType(STRING)),
            "password": VariableValue("hunter2", STRING, sensitive=True),
        },
        placements=changed_placements().placements,
        placement_tables=changed_placements().placement_tables,
        kept=174,
        timestamp="2026-03-01T00:00:00Z",
        nexusform_version="0.1.0",
    )


def some_state() -> State:
    x = address("thing", "x", 0)
    edge = address("thing", "in_module", "a", module=(("edge", "x"), ("inner", None)))
    spare = ObjectState({"id": "old"}, 1)
    return State(
        lineage="l",
        serial=3,
        instances={
            x: InstanceState(
                ObjectState(
                    {
                        "id": "x",
                        "password": "hunter2",
                        "list": ["a", "b"],
                        "text": "one\ntwo\n",
                        "none": None,
                    },
                    2,
                    sensitive=(("password",),),
                    dependencies=("thing.y",),
                    tainted=True,
                ),
                {"0a1b2c3d": spare},
            ),
            edge: InstanceState(ObjectState({"id": "e", "labels": {"a b": 1}}, 3)),
            D: InstanceState(
                ObjectState(
                    cluster_d(
                        nodes={
                            "cluster-d-pool1-0": {
                                "machine": "rack7-bm01",
                                "rack": "rack7",
                                "provenance": "observed",
                            }
                        }
                    ),
                    4,
                )
            ),
        },
        outputs={
            "site": OutputState(
                {"name": "lab", "racks": [1, 2]}, ObjectType.of({"name": STRING, "racks": ListType(NUMBER)})
            ),
            "token": OutputState("hunter2", STRING, True),
        },
    )


@pytest.fixture
def plans() -> SimpleNamespace:
    return SimpleNamespace(
        added_cluster=added_cluster,
        changed_placements=changed_placements,
        fleet_and_pods=fleet_and_pods,
        every_action=every_action,
        every_shape=every_shape,
        blocks=blocks,
        drifted=drifted,
        refresh_only=refresh_only,
        outputs_only=outputs_only,
        rich_document=rich_document,
        some_state=some_state,
        address=address,
        change=change,
        span_of=span_of,
        registries=REGISTRIES,
        files={MAIN.name: MAIN},
        d=D,
    )
