from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest

from nexusform.plans.plan import Action, CheckResult, Plan, PlanVerdicts
from nexusform.rendering.json.json_document import (
    build_plan_document,
    build_state_document,
    encode_document,
    expand_document,
    write_json,
)
from nexusform.rendering.notation.hcl_text import build_path_trie
from nexusform.rendering.notation.json_values import (
    LazyArray,
    LazyObject,
    build_sensitive_mask,
    build_unknown_mask,
    build_visible_type,
    redact_value,
)
from nexusform.rendering.report.placement_rows import ShownPlacements
from nexusform.schemas.value_types import STRING, ListType, ObjectType, TupleType
from nexusform.state.objects import State
from nexusform.values.typed_value import UNKNOWN

Golden = Callable[[str, str], None]


def build_document(plan: Plan, **more: Any) -> Any:
    return json.loads(encode_document(build_plan_document(plan, None, **more)))


def test_plan_document_matches_reviewed_file(plans: SimpleNamespace, golden: Golden) -> None:
    document = build_plan_document(
        plans.rich_document(),
        None,
        plans.some_state(),
        registries=plans.registries,
        files=plans.files,
    )
    golden("plan.json", encode_document(document, pretty=True).decode())


def test_state_document_matches_reviewed_file(plans: SimpleNamespace, golden: Golden) -> None:
    golden(
        "state.json",
        encode_document(build_state_document(plans.some_state()), pretty=True).decode(),
    )


@pytest.mark.parametrize(
    "name",
    [
        "added_cluster",
        "every_action",
        "rich_document",
        pytest.param("fleet_and_pods", marks=pytest.mark.of_domains("fleet")),
    ],
)
def test_streamed_compact_and_pretty_documents_are_equal(name: str, plans: SimpleNamespace) -> None:
    document = build_plan_document(getattr(plans, name)(), None, plans.some_state())
    whole = expand_document(document)
    assert json.loads(encode_document(document)) == whole
    assert json.loads(encode_document(document, pretty=True)) == whole
    out = BytesIO()
    write_json(document, out)
    assert out.getvalue() == encode_document(document)


def test_versions_checked_by_readers_are_present(plans: SimpleNamespace) -> None:
    document = build_document(plans.added_cluster())
    assert document["format_version"] == "1.2"
    assert document["terraform_version"] == "1.11.0"
    assert document["nexusform_version"] == "0.1.0"
    assert (document["applyable"], document["complete"], document["errored"]) == (True, True, False)


def test_all_instances_are_listed_with_their_actions(plans: SimpleNamespace) -> None:
    changes = {c["address"]: c for c in build_document(plans.every_action())["resource_changes"]}
    assert changes["nexus_rack.t"]["change"]["actions"] == ["no-op"]
    assert changes["nexus_rack.j"]["change"]["actions"] == ["delete", "create"]
    assert changes["nexus_rack.j"]["change"]["replace_paths"] == [["availability_zone"]]
    assert changes["nexus_rack.j"]["action_reason"] == "replace_because_cannot_update"
    assert changes["nexus_rack.l"]["change"]["actions"] == ["create", "delete"]
    assert changes["nexus_rack.n"]["change"]["actions"] == ["forget"]
    assert changes["data.nexus_inventory.o"]["mode"] == "data"
    assert changes["nexus_rack.old[2]"]["index"] == 2
    assert changes["nexus_rack.i"]["deposed"] == "0a1b2c3d"
    assert changes["nexus_rack.p"]["change"]["importing"] == {"id": "lab/r"}
    assert changes["nexus_rack.s"]["previous_address"] == "nexus_rack.s0"
    assert changes['module.edge["a"].nexus_rack.g']["module_address"] == 'module.edge["a"]'
    assert changes["nexus_rack.a"]["change"]["before"] is None
    assert changes["nexus_rack.c"]["change"]["after"] is None
    assert changes["nexus_rack.a"]["provider_name"] == "nexusform.dev/builtin/simulated"


def test_unknown_scalars_are_omitted_and_marked(plans: SimpleNamespace) -> None:
    change = build_document(plans.every_action())["resource_changes"][0]["change"]
    assert "machines" not in change["after"]
    assert change["after_unknown"] == {"machines": True}


def test_change_has_its_source(plans: SimpleNamespace) -> None:
    change = build_document(plans.added_cluster())["resource_changes"][0]
    assert change["source"] == {"file": "main.nf.hcl", "line": 1, "column": 1, "end_line": 8}


def test_secrets_appear_only_on_request(plans: SimpleNamespace) -> None:
    def render_document(**more: Any) -> str:
        plan = plans.rich_document()
        state = plans.some_state()
        return json.dumps(build_document(plan, prior=state, **more)) + str(
            expand_document(build_state_document(state, **more))
        )

    assert "hunter2" not in render_document()
    assert render_document(show_sensitive=True).count("hunter2") >= 4
    change = build_document(plans.rich_document())["resource_changes"][0]["change"]
    assert change["before"]["secret"] == "(sensitive value)"
    assert change["before_sensitive"]["secret"] is True
    shown = build_document(plans.rich_document(), show_sensitive=True)["resource_changes"][0][
        "change"
    ]
    assert shown["before"]["secret"] == "old"
    assert shown["before_sensitive"]["secret"] is True


def test_placements_are_listed(plans: SimpleNamespace) -> None:
    document = build_document(plans.added_cluster())
    assert len(document["placement_changes"]) == 53
    assert document["placement_changes"][0] == {
        "address": "nexus_kubernetes_cluster.d",
        "kind": "vm",
        "object": "cluster-d-control-plane-0",
        "action": "place",
        "from": None,
        "to": {
            "machine": "rack1-bm04",
            "rack": "rack1",
            "availability_zone": "1",
            "numa_cells": [0],
        },
        "trigger": "new",
        "reason": "fewest VMs of the pool",
        "scores": {"pool_vms": 0},
        "certainty": {"rack": 1.0, "machine": 0.25, "rack_count": 1.0},
        "provenance": "predicted",
    }
    assert document["placement_tables"][1] == {
        "cluster": "cluster-d",
        "pool": "pool1",
        "vm_sku_name": "NC_P46_224_v1",
        "total_count": 24,
        "expected_racks": 2,
        "actual_racks": 2,
        "expected_vms_per_rack": [12, 12],
        "actual_vms_per_rack": {"rack7": 12, "rack8": 12},
    }
    assert document["separation_rules"] == []
    assert document["diagnostics"][0]["id"] == "zones-pinned"


def test_kept_rows_and_rejections_are_listed_only_with_all(plans: SimpleNamespace) -> None:
    def list_actions(detail: ShownPlacements) -> list[str]:
        document = build_document(plans.changed_placements(), placements=detail)
        return [row["action"] for row in document["placement_changes"]]

    assert list_actions(ShownPlacements.CHANGED) == ["move", "remove", "remove", "remove"]
    assert list_actions(ShownPlacements.ALL)[-1] == "keep"
    everything = build_document(plans.added_cluster(), placements=ShownPlacements.ALL)[
        "placement_changes"
    ]
    assert everything[0]["rejected"] == [
        {"candidate": "rack1-bm01", "rule": "fits", "reason": "no cell left"}
    ]


@pytest.mark.of_domains("fleet")
def test_kept_row_with_trigger_is_always_listed(plans: SimpleNamespace) -> None:
    fleet = build_document(plans.fleet_and_pods())["placement_changes"]
    assert [row["trigger"] for row in fleet if row["action"] == "keep"] == ["taint_added"]


def test_checks_group_their_instances(plans: SimpleNamespace) -> None:
    checks = build_document(plans.rich_document())["checks"]
    assert [(c["address"]["to_display"], c["status"]) for c in checks] == [
        ("check.spread", "unknown"),
        ("thing.x", "fail"),
    ]
    assert checks[1]["instances"][1]["problems"] == [{"message": "no room"}]


def test_checks_of_state_have_the_format_of_plan_checks() -> None:
    kept = [
        {
            "address": {"kind": "resource", "to_display": f"nexus_site.s[{number}]"},
            "instances": [{"address": {"to_display": f"nexus_site.s[{number}]"}, "status": status}],
            "status": status,
        }
        for number, status in enumerate(("pass", "fail"))
    ]
    (check,) = expand_document(build_state_document(State(check_results=tuple(kept))))["checks"]
    assert check["address"] == {
        "kind": "resource",
        "mode": "managed",
        "type": "nexus_site",
        "name": "s",
        "to_display": "nexus_site.s",
    }
    assert check["status"] == "fail"
    assert [instance["address"]["instance_key"] for instance in check["instances"]] == [0, 1]


def test_checks_of_edited_state_are_unchanged() -> None:
    kept = (
        {"address": {"kind": "resource", "to_display": "no address"}, "instances": []},
        {"odd": 1},
    )
    assert expand_document(build_state_document(State(check_results=kept)))["checks"] == list(kept)


def test_planned_values_contain_future_objects(plans: SimpleNamespace) -> None:
    root = build_document(plans.rich_document())["planned_values"]["root_module"]
    addresses = [r["address"] for r in root["resources"]]
    assert "thing.z" not in addresses
    assert "nexus_rack.n" not in addresses
    edge = root["child_modules"][0]
    assert edge["address"] == 'module.edge["x"]'
    assert edge["child_modules"][0]["resources"][0]["values"] == {"id": "1", "list": ["a", None]}


def test_empty_state_has_no_values() -> None:
    from nexusform.state.objects import EMPTY

    assert expand_document(build_state_document(EMPTY)) == {
        "format_version": "1.0",
        "terraform_version": "1.11.0",
    }


def test_masks_mirror_the_shape() -> None:
    plain = {"a": {"b": UNKNOWN, "c": 1}, "l": [1, UNKNOWN], "k": [1], "m": {"x": 1}, "s": 1}
    assert build_unknown_mask(plain) == {"a": {"b": True}, "l": [False, True]}
    marks = build_path_trie([("a", "c"), ("k", 0)])
    assert build_sensitive_mask(plain, marks) == {"a": {"c": True}, "k": [True]}
    assert build_path_trie([(), ("a",)]) is True
    assert build_path_trie([("a", "b"), ("a",)]) == {"a": True}


def test_types_of_sensitive_values_name_no_attributes() -> None:
    assert build_visible_type(TupleType(()), is_hidden=True) == ["tuple", []]
    assert build_visible_type(ListType(TupleType((STRING,))), is_hidden=True) == [
        "list",
        ["tuple", ["string"]],
    ]
    assert (
        build_visible_type(TupleType((ObjectType.create({"key": STRING}),)), is_hidden=True)
        == "dynamic"
    )
    assert build_visible_type(ObjectType(()), is_hidden=True) == "dynamic"


def test_redaction_keeps_the_shape_except_for_sensitive_keys() -> None:
    plain = {"s": "x", "n": 5, "b": True, "l": ["a", 1], "m": {"k": "v"}, "none": None}
    assert redact_value(plain, dict.fromkeys(plain, True)) == {
        "s": "(sensitive value)",
        "n": None,
        "b": None,
        "l": ["(sensitive value)", None],
        "m": {},
        "none": None,
    }
    assert redact_value(plain, True) == {}


def test_large_numbers_and_lone_surrogates_are_encoded() -> None:
    """Strict readers of JSON reject half of a surrogate pair, so it is replaced."""
    document = LazyObject(
        rows=LazyArray(lambda: [2**80, "\ud800", {"deep": 2**70}]),
        empty=LazyArray(list),
        none=LazyObject(),
    )
    for pretty in (False, True):
        assert json.loads(encode_document(document, pretty=pretty)) == {
            "rows": [2**80, "\ufffd", {"deep": 2**70}],
            "empty": [],
            "none": {},
        }


def test_every_action_has_a_name() -> None:
    from nexusform.rendering.json.json_diagnostics import ACTIONS

    assert set(ACTIONS) == set(Action)


def test_addresses_of_checks_are_split_into_parts() -> None:
    key = 'module.m["a.b"]'
    checks = (
        CheckResult("output_value", f"{key}.output.o", "pass"),
        CheckResult("resource", f"{key}.nexus_site.s[1]", "pass"),
        CheckResult("check", "check.c", "pass"),
        CheckResult("input_variable", "var.v", "pass"),
    )
    document = build_document(Plan(verdicts=PlanVerdicts(checks=checks)))
    check, resource, output, variable = document["checks"]
    assert variable["address"] == {"kind": "var", "name": "v", "to_display": "var.v"}
    assert (output["address"]["name"], output["address"]["module"]) == ("o", "module.m")
    assert output["instances"][0]["address"]["module"] == key
    assert (resource["address"]["mode"], resource["address"]["type"]) == ("managed", "nexus_site")
    assert resource["instances"][0]["address"]["instance_key"] == 1
    assert check["address"] == {"kind": "check", "name": "c", "to_display": "check.c"}
