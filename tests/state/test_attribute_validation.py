from __future__ import annotations

import copy
from typing import Any

import pytest

from nexusform.resource_types.registry import build_registries
from nexusform.scheduling.listing.site_listing import (
    ListedMachine,
    ListedVm,
    MachineSize,
    SiteListing,
    SiteMaintenance,
    build_listing_note,
    read_listing,
)
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, NestedBlock, Nesting
from nexusform.schemas.value_types import (
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    SetType,
    TupleType,
)
from nexusform.state.attribute_validation import validate_attributes, validate_private_data
from nexusform.values.typed_value import UNKNOWN

NODE = ObjectType.create(
    {
        "machine": STRING,
        "rack": STRING,
        "numa_cells": ListType(NUMBER),
        "number": NUMBER,
        "labels": MapType(STRING),
        "platform_name": STRING,
    }
)
POOL = BlockSchema({"count": AttributeSchema(NUMBER, "", required=True, minimum=0, maximum=9)})
CLUSTER = BlockSchema(
    {
        "name": AttributeSchema(STRING, "", optional=True, computed=True),
        "zones": AttributeSchema(SetType(STRING), "", optional=True),
        "mode": AttributeSchema(STRING, "", optional=True, choices=("User", "System")),
        "nodes": AttributeSchema(MapType(NODE), "", computed=True),
    },
    {
        "pool": NestedBlock(POOL, Nesting.MAP, ""),
        "control": NestedBlock(POOL, Nesting.SINGLE, "", min_items=1),
    },
)
SOUND: dict[str, Any] = {
    "name": "a",
    "zones": ["1"],
    "mode": "User",
    "control": {"count": 1},
    "pool": {"w": {"count": 2}},
    "pool_order": ["w"],
    "nodes": {
        "a-w-0": {
            "machine": "m",
            "rack": "r",
            "numa_cells": [0],
            "number": 0,
            "platform_name": None,
        }
    },
}


def list_errors(attributes: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (".".join(map(str, wrong.path)), wrong.detail)
        for wrong in validate_attributes(CLUSTER, attributes)
    ]


def test_valid_attributes_have_no_errors() -> None:
    assert list_errors(SOUND) == []


def test_null_unknown_absent_and_extra_attributes_are_valid() -> None:
    assert list_errors(SOUND | {"zones": None, "mode": UNKNOWN, "colour": 3}) == []
    assert list_errors({"name": "a", "control": {"count": UNKNOWN}}) == []


@pytest.mark.parametrize(
    ("path", "value", "where", "message"),
    [
        (("name",), 5, "name", '"name" must be a string.'),
        (("name",), None, "name", '"name" is missing.'),
        (("zones",), "1", "zones", '"zones" must be a list.'),
        (("zones", 0), {}, "zones.0", '"zones" must be a string, not an object.'),
        (("zones", 0), None, "zones.0", '"zones" must be a string, not null.'),
        (("mode",), "Userr", "mode", '"mode" must be one of "User", "System".'),
        (("control",), None, "control", '"control" is missing.'),
        (
            ("control", "count"),
            True,
            "control.count",
            '"count" must be a number, not true or false.',
        ),
        (("control", "count"), 1.5, "control.count", '"count" must be a whole number from 0.'),
        (("control", "count"), 10**30, "control.count", '"count" must be at most 9.'),
        (("pool",), [], "pool", '"pool" must be an object, not a list.'),
        (("pool", "w"), "x", "pool.w", '"w" must be an object.'),
        (("pool", "w", "count"), None, "pool.w.count", '"count" is missing.'),
        (("pool_order", 0), 7, "pool_order.0", '"pool_order" must be a string.'),
        (("nodes", "a-w-0"), 1, "nodes.a-w-0", '"a-w-0" must be an object.'),
        (("nodes", "a-w-0"), None, "nodes.a-w-0", '"a-w-0" must be an object, not null.'),
        (("nodes", "a-w-0", "rack"), None, "nodes.a-w-0.rack", '"rack" is missing.'),
        (("nodes", "a-w-0", "rack"), 7, "nodes.a-w-0.rack", '"rack" must be a string.'),
        (
            ("nodes", "a-w-0", "numa_cells", 0),
            -1,
            "nodes.a-w-0.numa_cells.0",
            '"numa_cells" must be a whole number from 0.',
        ),
        (("nodes", "a-w-0", "number"), None, "nodes.a-w-0.number", '"number" is missing.'),
    ],
)
def test_error_has_the_path_of_the_value(
    path: tuple[Any, ...], value: Any, where: str, message: str
) -> None:
    attributes = copy.deepcopy(SOUND)
    inside: Any = attributes
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value
    assert (where, message) in list_errors(attributes)


def test_node_without_a_machine_needs_no_placement() -> None:
    assert list_errors(SOUND | {"nodes": {"a-w-0": {"machine": None}}}) == []


def test_members_with_choices_are_required() -> None:
    """A binding of an edited state has a state that the planner knows."""
    binding = ObjectType.create({"state": STRING, "previous": STRING})
    choices = {"state": ("Bound", "Scheduled"), "previous": (None, "Bound")}
    attribute = AttributeSchema(MapType(binding), "", computed=True, member_choices=choices)
    schema = BlockSchema({"bindings": attribute})

    def list_details(item: object) -> list[str]:
        problems = validate_attributes(schema, {"bindings": {"a": item}})
        return [f"{'.'.join(map(str, item.path))}: {item.detail}" for item in problems]

    assert list_details({"state": "Bound", "previous": None}) == []
    assert list_details({"state": UNKNOWN}) == list_details(UNKNOWN) == []
    wrong = 'bindings.a.state: "state" must be one of "Bound", "Scheduled"'
    assert list_details({}) == [f"{wrong}, not null."]
    assert list_details({"state": "Lost"}) == [f"{wrong}."]
    assert list_details({"state": "Bound", "previous": "Lost"}) == [
        'bindings.a.previous: "previous" must be one of null, "Bound".'
    ]
    assert list_details(3) == ['bindings.a: "a" must be an object.']


STATUS = ObjectType.create(
    {"cluster": STRING, "conditions": ListType(ObjectType.create({"type": STRING, "text": STRING}))}
)
RECORDED = BlockSchema(
    {
        "statuses": AttributeSchema(
            ListType(STATUS), "", computed=True, required_members=("conditions.type",)
        )
    },
    private={
        "health": AttributeSchema(STRING, "", choices=("good", "bad")),
        "bodies": AttributeSchema(MapType(ObjectType.create({})), ""),
        "rows": AttributeSchema(ListType(TupleType((STRING, NUMBER))), ""),
    },
)


def test_only_required_members_of_objects_must_be_present() -> None:
    # Other members may be absent: an earlier version did not write them.
    assert (
        validate_attributes(RECORDED, {"statuses": [{"conditions": [{"type": "Applied"}]}]}) == []
    )
    wrong = {"statuses": [{"conditions": [{"text": "x"}, {"type": None}]}]}
    assert [(problem.path, problem.detail) for problem in validate_attributes(RECORDED, wrong)] == [
        (("statuses", 0, "conditions", 0, "type"), '"type" is missing.'),
        (("statuses", 0, "conditions", 1, "type"), '"type" is missing.'),
    ]


def test_private_data_is_checked_where_the_schema_has_it() -> None:
    sound = {"health": "good", "bodies": {"a": {"b": 1}}, "rows": [["x", 1]], "other": 7}
    assert validate_private_data(RECORDED, sound) == []
    assert validate_private_data(RECORDED, {"health": None}) == []
    assert validate_private_data(RECORDED, None) == []
    assert validate_private_data(CLUSTER, {"health": 3}) == []
    wrong = {"health": "x", "bodies": {"a": None}, "rows": [["x"], ["x", "y"], None]}
    problems = validate_private_data(RECORDED, wrong)
    assert [problem.path for problem in problems] == [
        ("private", "health"),
        ("private", "bodies", "a"),
        ("private", "rows", 0),
        ("private", "rows", 1, 1),
        ("private", "rows", 2),
    ]
    assert problems[2].detail == "This list must have 2 values, not 1."


@pytest.mark.parametrize("kind", ["nexus_rack", "nexus_kubernetes_cluster", "nexus_site"])
@pytest.mark.parametrize(
    ("entry", "path", "detail"),
    [
        ({"forgotten": [["bm1", "vm"]]}, ("forgotten", 0), "have 6 to 7 values, not 2."),
        ({"forgotten": 7}, ("forgotten",), '"forgotten" must be a list.'),
        (
            {"unmanaged": [["bm1", "vm", None, 1, 0, 1]]},
            ("unmanaged", 0, 2),
            "number from 0, not null.",
        ),
        ({"unmanaged": [["bm1", "vm", 1, 1, 0, 1, 5]]}, ("unmanaged", 0, 6), "must be a list."),
        (
            {"unmanaged": [["bm1", "vm", -4, 1, 0, 1]]},
            ("unmanaged", 0, 2),
            "a whole number from 0.",
        ),
        ({"unmanaged": [["bm1", "vm", 1.5, 1, 0, 1]]}, ("unmanaged", 0, 2), "whole number from 0."),
        ({"forgotten": [["bm1", "vm", 1, 1, 0, 1.5]]}, ("forgotten", 0, 5), "whole number from 0."),
        (
            {"unmanaged": [["bm1", "vm", 1, 1, 0, 1, [-1]]]},
            ("unmanaged", 0, 6, 0),
            "whole number from 0.",
        ),
        (
            {"unmanaged": [["bm1", "vm", 1, 1, 0, 1, [0.5]]]},
            ("unmanaged", 0, 6, 0),
            "whole number from 0.",
        ),
        ({"unread": [["server", "a"]]}, ("unread", 0), "have 7 values, not 2."),
        ({"unfinished": "x"}, ("unfinished",), '"unfinished" must be an object.'),
        ({"unfinished": {"message": 5}}, ("unfinished", "message"), "must be a string."),
        ({"placed": [[1, "new"]]}, ("placed", 0), "have 3 values, not 2."),
        ({"placed": [["a", "new", []]]}, ("placed", 0, 0), "a whole number from 0."),
        ({"previous_machines": {"vm": 5}}, ("previous_machines", "vm"), "must be a string."),
    ],
)
def test_common_entries_of_private_data_are_checked_for_every_type(
    kind: str, entry: dict[str, Any], path: tuple[str | int, ...], detail: str
) -> None:
    schema = build_registries().resource_types[kind].schema
    (problem,) = validate_private_data(schema, entry)
    assert problem.path == ("private", *path)
    assert problem.detail.endswith(detail)


def test_common_entries_of_private_data_may_be_absent_or_sound() -> None:
    schema = build_registries().resource_types["nexus_rack"].schema
    row = ["bm1", "vm", 8, 32.5, 100, 2]
    sound = {
        "forgotten": [row, [*row, [0, 1]]],
        "unmanaged": None,
        "unread": [["server", "a", "x", "base_hot", 14, "placement", ""]],
        "unfinished": {"message": "It failed.", "parts": [], "times": 1},
        "placed": [[3, "scale_out", ["vm-1"]]],
        "observed": {"bm1": {"power_state": "On", "since": None, "later": 1}},
    }
    assert validate_private_data(schema, sound) == []


@pytest.mark.parametrize(
    ("listed", "path"),
    [
        ([], ()),
        ({"racks": 5}, ("racks",)),
        ({"machines": [["bm1", "r1"]]}, ("machines", 0)),
        ({"machines": [["bm1", "r1", "x", "", "", None, [], []]]}, ("machines", 0, 2)),
        ({"machines": [["bm1", "r1", 1, "", "", [1, 2], [], []]]}, ("machines", 0, 5)),
        (
            {"machines": [["bm1", "r1", 1, "", "", None, [], [["vm", 1, 1, 1, -1]]]]},
            ("machines", 0, 7, 0, 4),
        ),
        ({"is_complete": "no"}, ("is_complete",)),
        ({"maintenance": "Updating"}, ("maintenance",)),
    ],
)
def test_the_listing_of_a_site_is_checked(listed: Any, path: tuple[str | int, ...]) -> None:
    schema = build_registries().resource_types["nexus_site"].schema
    (problem,) = validate_private_data(schema, {"listed": listed})
    assert problem.path == ("private", "listed", *path)


def test_a_sound_listing_of_a_site_is_read() -> None:
    schema = build_registries().resource_types["nexus_site"].schema
    machine = ListedMachine("bm1", "r1", 1, vms=(ListedVm("vm", 1, 2, 3, 1),))
    sized = ListedMachine("bm2", "r1", 2, "x", "y", MachineSize(2, 1, 1, 1), ("compute-plane",))
    for listing in (
        SiteListing(),
        SiteListing({"r1": "zone1"}, (machine, sized), False, ("r2",), SiteMaintenance("Updating")),
    ):
        note = build_listing_note(listing)
        assert validate_private_data(schema, note) == []
        assert read_listing(note["listed"]) == listing
    edited = {"racks": {"r1": None}, "machines": [["bm1", "r1", 2.0, "", "", None, [], []]]}
    assert validate_private_data(schema, {"listed": {**edited, "maintenance": None}}) == []
    listing = read_listing({**edited, "maintenance": None})
    assert listing is not None
    assert listing.machines[0].slot == 2


@pytest.mark.parametrize(
    ("kind", "observed", "path"),
    [
        ("nexus_rack", {"bm1": 3}, ("bm1",)),
        ("nexus_rack", {"bm1": {"power_state": True}}, ("bm1", "power_state")),
        ("nexus_bare_metal_machine", {"cordoned_by_action": "no"}, ("cordoned_by_action",)),
        ("nexus_bare_metal_machine", [], ()),
    ],
)
def test_observed_facts_of_machines_are_checked(
    kind: str, observed: Any, path: tuple[str, ...]
) -> None:
    schema = build_registries().resource_types[kind].schema
    problems = validate_private_data(schema, {"observed": observed})
    assert [problem.path for problem in problems] == [("private", "observed", *path)]


@pytest.mark.parametrize(
    ("name", "items", "path"),
    [
        ("selected_resources", [{"kind": "ConfigMap", "name": "a"}], ("group",)),
        ("evictions", [{"name": "e", "executed": True}], ("cluster_name",)),
        ("evictions", [{"name": "e", "cluster_name": "c"}], ("executed",)),
        ("placement_statuses", [{"cluster_name": "c"}], ("conditions",)),
    ],
)
def test_recorded_members_of_a_placement_are_required(
    name: str, items: list[dict[str, Any]], path: tuple[str, ...]
) -> None:
    types = build_registries().resource_types
    schema = types["fleet_cluster_resource_placement"].schema
    # Only this attribute, without the required arguments.
    problems = [
        problem for problem in validate_attributes(schema, {name: items}) if problem.path[0] == name
    ]
    assert problems[0].path == (name, 0, *path)
    assert problems[0].detail == f'"{path[-1]}" is missing.'
