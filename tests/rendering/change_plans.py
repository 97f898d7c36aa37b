"""Plans with every action, reason and value shape, and a state."""

from __future__ import annotations

from nexusform.plans.plan import (
    Action,
    CheckResult,
    Drift,
    Mode,
    Observations,
    OutputChange,
    PlacementFigures,
    Plan,
    PlannedOptions,
    PlanStart,
    PlanVerdicts,
    RootValues,
    VariableValue,
)
from nexusform.schemas.value_types import NUMBER, STRING, ListType, ObjectType
from nexusform.state.objects import InstanceState, ObjectState, OutputState, State
from nexusform.values.typed_value import UNKNOWN
from tests.rendering.pieces import D, _build_pools, address, change, cluster_d, span_of
from tests.rendering.placement_plans import changed_placements

# --- every action, reason and value shape ---


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
                address("nexus_rack", "e", "k"),
                Action.DELETE,
                rack,
                None,
                reason="delete_because_each_key",
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
            change(
                address("nexus_rack", "m"), Action.REPLACE, rack, rack, reason="replace_by_triggers"
            ),
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
        )
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
        "list_of_objects": [
            {"name": "one", "v": 1},
            {"name": "two", "v": 2},
            {"name": "three", "v": 3},
        ],
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
            change(
                address("thing", "z"), Action.DELETE, before, None, sensitive_before=(("secret",),)
            ),
        ),
        root_values=RootValues(
            outputs=(
                OutputChange("gone", Action.DELETE, "x", None, STRING, False),
                OutputChange("machines", Action.UPDATE, ["a"], ["a", "b"], ListType(STRING), False),
                OutputChange("new", Action.CREATE, None, UNKNOWN, STRING, False),
                OutputChange("same", Action.NO_OP, 1, 1, NUMBER, False),
                OutputChange("token", Action.UPDATE, "s1", "s2", STRING, True),
            )
        ),
    )


def blocks() -> Plan:
    pools = _build_pools()
    changed = {
        "pool2": pools["pool2"] | {"taint": [{"key": "new"}]},
        "pool1": pools["pool1"]
        | {
            "vm_sku_name": "NC_G48_224_v1",
            "availability_zones": ["1", "8"],
            "taint": [{"key": "b"}],
        },
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
        )
    )


def drifted() -> Plan:
    rack = {"id": "lab/r", "name": "r", "machine_count": 16}
    one = address("nexus_rack", "r")
    return Plan(
        changes=(change(one, Action.UPDATE, rack | {"machine_count": 15}, rack),),
        observed=Observations(
            drift=(
                Drift(one, rack, rack | {"machine_count": 15}),
                Drift(address("nexus_rack", "gone"), rack, None),
                Drift(address("nexus_rack", "noise"), rack, rack | {"name": "x"}, relevant=False),
            )
        ),
    )


def refresh_only() -> Plan:
    plan = drifted()
    return Plan(
        options=PlannedOptions(mode=Mode.REFRESH_ONLY),
        observed=Observations(
            drift=plan.observed.drift, refreshed_objects={plan.observed.drift[0].address: None}
        ),
    )


def outputs_only() -> Plan:
    return Plan(
        root_values=RootValues(
            outputs=(OutputChange("site", Action.CREATE, None, {"name": "lab"}, STRING, False),)
        )
    )


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
        root_values=RootValues(
            outputs=plan.root_values.outputs,
            planned_outputs={
                "machines": OutputState(["a", "b"], ListType(STRING)),
                "token": OutputState("s2", STRING, True),
                "new": OutputState(UNKNOWN, STRING),
            },
            variables={
                "zones": VariableValue(["1"], ListType(STRING)),
                "password": VariableValue("hunter2", STRING, sensitive=True),
            },
        ),
        observed=Observations(drift=drifted().observed.drift),
        verdicts=PlanVerdicts(
            checks=(
                CheckResult("resource", 'thing.x["a"]', "pass"),
                CheckResult("resource", 'thing.x["b"]', "fail", ("no room",)),
                CheckResult("check", "check.spread", "unknown"),
            )
        ),
        placements=changed_placements().placements,
        figures=PlacementFigures(
            placement_tables=changed_placements().figures.placement_tables, unchanged_count=174
        ),
        start=PlanStart(timestamp="2026-03-01T00:00:00Z", nexusform_version="0.1.0"),
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
                {"name": "lab", "racks": [1, 2]},
                ObjectType.create({"name": STRING, "racks": ListType(NUMBER)}),
            ),
            "token": OutputState("hunter2", STRING, True),
        },
    )
