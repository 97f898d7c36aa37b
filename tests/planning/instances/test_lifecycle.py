"""Tests of life cycles in relation to placements.

They cover create_before_destroy, ignore_changes, prevent_destroy, replace_triggered_by, conditions,
moved, removed, deposed objects and taint.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace as exchanged

from nexusform.plans.plan import Action, Mode, StepKind
from nexusform.state.objects import InstanceState, State
from tests.planning.harness import (
    RACKS,
    UnreadableConfigurationError,
    agent_pool,
    at,
    attributes,
    build_state,
    cluster,
    get_change,
    get_line,
    is_empty,
    list_actions,
    list_errors,
    list_places,
    list_rows,
    list_triggers,
    list_warnings,
    plan,
    pool,
    require_success,
)
from tests.planning.step_runner import check_counts, run

BIG = "NC_P46_224_v1"
FIRST = "lifecycle {\n create_before_destroy = true\n}"
ONE = RACKS.replace("= 3\n", "= 1\n")


def change_control_plane_sku(text: str) -> str:
    """Change the control-plane SKU to get the cluster replaced."""
    return text.replace('"NC_G6_28_v1"', '"NC_G12_56_v1"', 1)


# --- create_before_destroy ---------------------------------------------------------------------


def test_deleted_object_keeps_create_before_destroy() -> None:
    """If the delete fails, the state still contains the setting."""
    text = ONE + cluster("a", arguments=FIRST) + cluster("b")
    result = require_success(plan(ONE, build_state(text)))
    assert list_actions(result) == {
        "nexus_kubernetes_cluster.a": "delete",
        "nexus_kubernetes_cluster.b": "delete",
    }
    assert get_change(result.plan, "nexus_kubernetes_cluster.a").create_before_destroy
    assert not get_change(result.plan, "nexus_kubernetes_cluster.b").create_before_destroy


def test_create_before_destroy_keeps_old_vms_in_place() -> None:
    text = ONE + cluster("a", arguments=FIRST, pools=pool("p", 2, BIG))
    state = build_state(text)
    result = require_success(plan(change_control_plane_sku(text), state))
    assert list_actions(result) == {"nexus_kubernetes_cluster.a": "create-delete"}
    for name, row in list_rows(result).items():
        assert row.source is not None
        assert row.target is not None
        assert (row.action, row.trigger) == ("move", "cluster_replaced")
        if "-p-" in name:
            here = row.source
            there = row.target
            assert (here.machine, here.cells) != (there.machine, there.cells)
    run(result.plan, state, 1)
    check_counts(result.plan)


def test_create_before_destroy_without_capacity_for_both_is_rejected() -> None:
    text = ONE.replace("machine_count = 4", "machine_count = 1") + cluster(
        "a", arguments=FIRST, pools=pool("p", 1, BIG)
    )
    state = build_state(text)
    assert {d.id for d in list_errors(plan(change_control_plane_sku(text), state))} == {
        "insufficient-capacity"
    }
    assert not plan(
        change_control_plane_sku(text.replace(FIRST, "")), build_state(text.replace(FIRST, ""))
    ).plan.errored


def test_capacity_of_old_object_is_free_in_next_plan() -> None:
    text = ONE + cluster("a", arguments=FIRST, pools=pool("p", 3, BIG))
    after = change_control_plane_sku(text)
    state = build_state(after, build_state(text))
    more = after.replace("count       = 3", "count       = 7")
    assert len(list_places(build_state(more, state))) == 8


def test_create_before_destroy_applies_to_dependencies() -> None:
    text = RACKS + cluster("a") + agent_pool("own", "nexus_kubernetes_cluster.a.id", 1, more=FIRST)
    result = require_success(plan(change_control_plane_sku(text), build_state(text)))
    assert list_actions(result) == {
        "nexus_kubernetes_cluster.a": "create-delete",
        "nexus_agent_pool.own": "create-delete",
    }
    run(result.plan, build_state(text), 2)


# --- ignore_changes, prevent_destroy, triggers, conditions ---------------------------------------


def test_ignored_count_keeps_existing_vms() -> None:
    ignored = 'lifecycle {\n ignore_changes = [agent_pool["np1"].count]\n}'
    text = RACKS + cluster("a", arguments=ignored, pools=pool("np1", 3) + pool("np2", 1))
    state = build_state(text)
    changed = text.replace("count       = 3", "count       = 5")
    assert is_empty(require_success(plan(changed, state)))
    both = changed.replace('"np2" {\n    count       = 1', '"np2" {\n    count       = 2')
    assert list_triggers(require_success(plan(both, state))) == {"a-np2-1": ("place", "scale_out")}


@pytest.mark.parametrize("ignored", ["agent_pool", "all", "[agent_pool]", 'agent_pool["np1"]'])
def test_ignored_pools_or_all_arguments(ignored: str) -> None:
    listed = ignored if ignored == "all" or ignored.startswith("[") else f"[{ignored}]"
    text = RACKS + cluster(
        "a", arguments=f"lifecycle {{\n ignore_changes = {listed}\n}}", pools=pool("np1", 3)
    )
    state = build_state(text)
    changed = text.replace("count       = 3", "count       = 5").replace(
        'vm_sku_name = "NC_G6_28_v1"\n    \n', f'vm_sku_name = "{BIG}"\n labels = {{ a = "b" }}\n'
    )
    assert changed != text
    assert is_empty(require_success(plan(changed, state)))


def test_ignored_label_moves_no_vm() -> None:
    text = RACKS + cluster(
        "a",
        arguments='lifecycle {\n ignore_changes = [agent_pool["p"].labels]\n}',
        pools=pool("p", 1, more='labels = { a = "b" }'),
    )
    assert is_empty(require_success(plan(text.replace('"b"', '"c"'), build_state(text))))


def test_destroy_false_forgets_a_removed_object_and_keeps_its_capacity() -> None:
    kept = "lifecycle {\n destroy = false\n}"
    text = (
        RACKS + cluster("a", arguments=kept, pools=pool("p", 3)) + cluster("b", pools=pool("p", 1))
    )
    state = build_state(text)
    kept_objects = [
        str(name)
        for name, there in state.instances.items()
        if there.current and there.current.skip_destroy
    ]
    assert kept_objects == ["nexus_kubernetes_cluster.a"]
    # The state remembers it once the block is removed.
    removed = require_success(plan(RACKS, state))
    assert list_actions(removed) == {
        "nexus_kubernetes_cluster.a": "forget",
        "nexus_kubernetes_cluster.b": "delete",
    }
    assert {(d.id, d.brief) for d in list_warnings(removed)} == {
        ("object-to-forget", "removed from the state, not destroyed; it stays, unmanaged")
    }
    assert {row.action for name, row in list_rows(removed).items() if name.startswith("a-")} == {
        "forget"
    }
    # An existing block decides again, with no other change to the object.
    normal = text.replace(kept, "")
    assert is_empty(require_success(plan(normal, state)))
    assert (
        list_actions(plan(RACKS, build_state(normal, state)))["nexus_kubernetes_cluster.a"]
        == "delete"
    )
    # A removed block outranks the state.
    statement = (
        "removed {\n from = nexus_kubernetes_cluster.a\n lifecycle {\n destroy = true\n }\n}\n"
    )
    assert list_actions(plan(RACKS + statement, state))["nexus_kubernetes_cluster.a"] == "delete"


def test_destroy_false_forgets_in_destroy_plans_and_with_a_smaller_count() -> None:
    kept = 'count = 2\n name = "a${count.index}"\n lifecycle {\n destroy = false\n}'
    text = RACKS + cluster("a", arguments=kept)
    state = build_state(text)
    fewer = require_success(plan(text.replace("count = 2", "count = 1"), state))
    assert list_actions(fewer) == {"nexus_kubernetes_cluster.a[1]": "forget"}
    destroyed = list_actions(plan(text, state, mode=Mode.DESTROY))
    assert {destroyed[f"nexus_kubernetes_cluster.a[{index}]"] for index in (0, 1)} == {"forget"}
    assert set(destroyed.values()) == {"forget", "delete"}


def test_an_object_with_destroy_false_is_not_replaced() -> None:
    kept = "lifecycle {\n destroy = false\n}"
    text = RACKS + cluster("a", arguments=kept, pools=pool("p", 1))
    result = plan(change_control_plane_sku(text), build_state(text))
    assert {d.id for d in list_errors(result)} == {"kept-object-to-replace"}


@pytest.mark.parametrize("value", ["var.x", '"no"', "uuid()"])
def test_destroy_must_be_constant(value: str) -> None:
    with pytest.raises(UnreadableConfigurationError):
        plan(RACKS + cluster("a", arguments=f"lifecycle {{\n destroy = {value}\n}}"))


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ('var.stage != "prod"', []),
        ('var.stage == "prod"', ["prevented-destroy"]),
        ("null", []),
        ('uuid() == ""', ["invalid-prevent-destroy"]),
        ("var.stage", ["invalid-prevent-destroy"]),
        ("var.nowhere", ["reference-to-undeclared-input-variable"]),
        ("tobool(var.stage)", ["invalid-function-argument"]),
    ],
)
def test_prevent_destroy_accepts_expression(value: str, found: list[str]) -> None:
    variable = 'variable "stage" {\n  default = "prod"\n}\n'
    text = variable + RACKS + cluster("a", arguments="lifecycle {\n prevent_destroy = null\n}")
    state = build_state(text)
    assert [
        d.id
        for d in list_errors(plan(text.replace("= null", f"= {value}"), state, mode=Mode.DESTROY))
    ] == found


@pytest.mark.parametrize("protection", ["true", "local.protected"])
@pytest.mark.parametrize("how", ["replace", "destroy", "taken out of count"])
def test_prevent_destroy_error_names_instance_and_line(how: str, protection: str) -> None:
    guard = f"lifecycle {{\n prevent_destroy = {protection}\n}}"
    text = (
        "locals {\n  protected = true\n}\n"
        + RACKS
        + cluster("a", arguments=guard + '\n count = 1\n name = "a${count.index}"')
    )
    state = build_state(text)
    options = {"mode": Mode.DESTROY} if how == "destroy" else {}
    changed = {"replace": change_control_plane_sku(text), "destroy": text}.get(
        how, text.replace("\n count = 1\n", "\n count = 0\n")
    )
    (found,) = list_errors(plan(changed, state, **options))
    assert "nexus_kubernetes_cluster.a[0]" in found.detail
    assert (
        get_line(found)[1]
        == text[: text.index('resource "nexus_kubernetes_cluster"')].count("\n") + 1
    )


def test_replace_triggered_by_another_resource() -> None:
    text = (
        RACKS
        + cluster("a", pools=pool("p", 1))
        + cluster(
            "b",
            arguments=(
                "lifecycle {\n replace_triggered_by = [nexus_kubernetes_cluster.a.agent_pool]\n}"
            ),
        )
    )
    state = build_state(text)
    result = require_success(
        plan(text.replace('"p" {\n    count       = 1', '"p" {\n    count       = 2'), state)
    )
    assert list_triggers(result) == {
        "a-p-1": ("place", "scale_out"),
        "b-control-plane-0": ("move", "cluster_replaced"),
    }
    assert get_change(result.plan, "nexus_kubernetes_cluster.b").reason == "replace_by_triggers"
    assert list_triggers(
        require_success(
            plan(
                text.replace(
                    'count       = 1\n    vm_sku_name = "NC_G6_28_v1"\n  }\n  \n  agent_pool',
                    'count       = 2\n    vm_sku_name = "NC_G6_28_v1"\n  }\n  \n  agent_pool',
                ),
                state,
            )
        )
    ) == {"a-control-plane-1": ("place", "scale_out")}


def test_conditions_can_use_placements() -> None:
    passing = """lifecycle {
      precondition {
        condition     = length(nexus_site.s.id) > 0
        error_message = "no site"
      }
      postcondition {
        condition     = length(distinct([for n in self.nodes : n.machine])) == 3
        error_message = "shares machines: ${self.node_count}"
      }
    }"""
    text = RACKS + cluster("a", arguments=passing, count=3)
    assert not list_errors(plan(text))
    (found,) = list_errors(plan(text.replace("== 3", "== 2")))
    assert "shares machines: 3" in found.detail
    assert get_line(found)[1] > 9


def test_failed_precondition_stops_plan() -> None:
    text = RACKS + cluster(
        "a",
        arguments=(
            'lifecycle {\n precondition {\n condition = path.root == ""\n error_message = "no"\n'
            "}\n}"
        ),
    )
    (found,) = list_errors(plan(text))
    assert "no" in found.detail


# --- moved and removed -------------------------------------------------------------------------


def build_moved_block(source: str, target: str) -> str:
    return f"\nmoved {{\n from = {source}\n to = {target}\n}}\n"


def test_renamed_cluster_keeps_its_vms() -> None:
    text = RACKS + cluster("a", arguments='name = "a"', pools=pool("p", 2))
    state = build_state(text)
    renamed = text.replace('"nexus_kubernetes_cluster" "a"', '"nexus_kubernetes_cluster" "z"')
    result = require_success(
        plan(
            renamed + build_moved_block("nexus_kubernetes_cluster.a", "nexus_kubernetes_cluster.z"),
            state,
        )
    )
    assert list_triggers(result) == {}
    assert (result.plan.to_add, result.plan.to_change, result.plan.to_destroy) == (0, 0, 0)
    assert result.plan.has_changes
    after = build_state(
        renamed + build_moved_block("nexus_kubernetes_cluster.a", "nexus_kubernetes_cluster.z"),
        state,
    )
    assert is_empty(require_success(plan(renamed, after)))


@pytest.mark.parametrize("chain", [True, False])
def test_chained_moves_are_followed(chain: bool) -> None:
    text = RACKS + cluster("a", arguments='name = "a"')
    first = "nexus_kubernetes_cluster.m"
    second = "nexus_kubernetes_cluster.z"
    steps = [
        build_moved_block("nexus_kubernetes_cluster.a", first),
        build_moved_block(first, second),
    ]
    renamed = text.replace('"nexus_kubernetes_cluster" "a"', '"nexus_kubernetes_cluster" "z"')
    result = require_success(
        plan(renamed + "".join(steps if chain else reversed(steps)), build_state(text))
    )
    assert list_triggers(result) == {}


def test_cyclic_moves_are_an_error() -> None:
    text = RACKS + cluster("a") + cluster("b")
    one = "nexus_kubernetes_cluster.a"
    other = "nexus_kubernetes_cluster.b"
    around = build_moved_block(one, other) + build_moved_block(other, one)
    assert {d.id for d in list_errors(plan(RACKS + around, build_state(text)))} == {
        "cyclic-dependency-in-move-statements"
    }
    # The error needs no existing object. If both blocks are declared, the declaration is the error.
    assert [d.id for d in list_errors(plan(RACKS + around))] == [
        "cyclic-dependency-in-move-statements"
    ]
    assert {d.id for d in list_errors(plan(text + around, build_state(text)))} == {
        "moved-object-still-exists"
    }


def test_created_or_deleted_instance_triggers_no_replacement() -> None:
    sites = 'resource "nexus_site" "x" {\n count = 2\n name = "x${count.index}"\n}\n'
    rack = (
        'resource "nexus_rack" "watcher" {\n site_id = nexus_site.x[0].id\n name = "w"\n'
        " machine_count = 1\n lifecycle {\n replace_triggered_by = [nexus_site.x]\n }\n}\n"
    )
    state = build_state(sites + rack)
    grown = require_success(plan(sites.replace("count = 2", "count = 3") + rack, state))
    assert (grown.plan.to_add, grown.plan.to_destroy) == (1, 0)
    shrunk = require_success(plan(sites.replace("count = 2", "count = 1") + rack, state))
    assert (shrunk.plan.to_add, shrunk.plan.to_destroy) == (0, 1)
    renamed = require_success(plan(sites.replace('"x${', '"y${') + rack, state))
    assert get_change(renamed.plan, "nexus_rack.watcher").action is Action.REPLACE


def test_single_to_count_and_back_moves_no_vm() -> None:
    text = RACKS + cluster("a", arguments='name = "a"', pools=pool("p", 2))
    counted = text.replace('name = "a"', 'name = "a"\n count = 1')
    state = build_state(text)
    there = require_success(plan(counted, state))
    assert (list_triggers(there), there.plan.to_add) == ({}, 0)
    back = require_success(plan(text, build_state(counted, state)))
    assert (list_triggers(back), back.plan.to_add) == ({}, 0)


def test_count_to_for_each_with_moved_blocks() -> None:
    text = RACKS + cluster("a", arguments='count = 2\n name = "a${count.index}"')
    keyed = RACKS + cluster("a", arguments='for_each = { x = "a0", y = "a1" }\n name = each.value')
    old = "nexus_kubernetes_cluster.a[{}]"
    new = 'nexus_kubernetes_cluster.a["{}"]'
    moves = build_moved_block(old.format(0), new.format("x")) + build_moved_block(
        old.format(1), new.format("y")
    )
    result = require_success(plan(keyed + moves, build_state(text)))
    assert list_triggers(result) == {}
    assert result.plan.to_destroy == 0


MODULE = {
    "m/main.nf.hcl": 'variable "site" {}\n'
    + cluster("a", pools=pool("p", 1)).replace("nexus_site.s.id", "var.site")
}
CALL = '\nmodule "m" {\n  source = "./m"\n  site = nexus_site.s.id\n}\n'


def test_move_into_module_and_module_rename() -> None:
    flat = RACKS + cluster("a", pools=pool("p", 1))
    state = build_state(flat)
    into = build_moved_block("nexus_kubernetes_cluster.a", "module.m.nexus_kubernetes_cluster.a")
    files = {"main.nf.hcl": RACKS + CALL + into, **MODULE}
    assert list_triggers(require_success(plan(files, state))) == {}
    inside = build_state(files, state)
    renamed = RACKS + CALL.replace('"m"', '"n"') + build_moved_block("module.m", "module.n")
    result = require_success(plan({"main.nf.hcl": renamed, **MODULE}, inside))
    assert list_triggers(result) == {}
    assert result.plan.to_add == 0
    keyed = (
        RACKS
        + CALL.replace("source", 'for_each = toset(["k"])\n  source')
        + build_moved_block("module.m", 'module.m["k"]')
    )
    result = require_success(plan({"main.nf.hcl": keyed, **MODULE}, inside))
    assert list_triggers(result) == {}


def test_capacity_of_forgotten_cluster_stays_reserved() -> None:
    """Its VMs keep running, so their capacity is not free."""
    one = ONE.replace("machine_count = 4", "machine_count = 1")
    state = build_state(one + cluster("a", plane=BIG, pools=pool("p", 1, BIG)))
    forget = (
        "\nremoved {\n from = nexus_kubernetes_cluster.a\n lifecycle {\n destroy = false\n}\n}\n"
    )
    refused = plan(one + forget + cluster("b", plane=BIG, pools=pool("p", 1, BIG)), state)
    assert {d.id for d in list_errors(refused)} == {"insufficient-capacity"}
    result = require_success(plan(one + forget, state))
    assert list_actions(result) == {"nexus_kubernetes_cluster.a": "forget"}
    assert result.plan.to_destroy == 0
    assert any("nexus_kubernetes_cluster.a" in d.detail for d in list_warnings(result))
    assert {s.kind for s in result.plan.steps} == {StepKind.FORGET}
    assert {(row.action, row.trigger) for row in result.plan.placements} == {
        ("forget", "cluster_removed")
    }
    (total,) = result.plan.figures.placement_totals
    assert (total.before, total.forgotten, total.after) == (2, 2, 0)
    check_counts(result.plan)


def test_removed_block_with_destroy_deletes() -> None:
    state = build_state(RACKS + cluster("a"))
    gone = "\nremoved {\n from = nexus_kubernetes_cluster.a\n lifecycle {\n destroy = true\n}\n}\n"
    assert list_actions(require_success(plan(RACKS + gone, state))) == {
        "nexus_kubernetes_cluster.a": "delete"
    }


# --- deposed and tainted -------------------------------------------------------------------------


def add_deposed_object(state: State, address: str) -> State:
    current = state.instances[at(address)].current
    assert current is not None
    old = exchanged(current, creation=90)
    return exchanged(
        state.replace_instance(at(address), InstanceState(current, {"00c0ffee": old})),
        last_creation=90,
    )


def test_deposed_object_is_deleted_without_moves() -> None:
    text = RACKS + cluster("a", pools=pool("p", 1))
    state = add_deposed_object(build_state(text), "nexus_kubernetes_cluster.a")
    result = require_success(plan(text, state))
    assert list_triggers(result) == {}
    assert result.plan.to_destroy == 1
    (change,) = [c for c in result.plan.changes if c.deposed]
    assert (change.deposed, change.prior_creation) == ("00c0ffee", 90)
    run(result.plan, state, 3, cell=(480, 2240))
    check_counts(result.plan)


def test_destroy_deletes_deposed_objects() -> None:
    text = RACKS + cluster("a")
    state = add_deposed_object(build_state(text), "nexus_kubernetes_cluster.a")
    result = require_success(plan(text, state, mode=Mode.DESTROY))
    assert len(run(result.plan, state, 4, cell=(480, 2240)).objects) == 0
    check_counts(result.plan)


def test_address_with_only_a_deposed_object() -> None:
    text = RACKS + cluster("a")
    state = build_state(text)
    only = add_deposed_object(state, "nexus_kubernetes_cluster.a")
    address = at("nexus_kubernetes_cluster.a")
    only = only.replace_instance(address, InstanceState(None, only.instances[address].deposed))
    result = require_success(plan(text, only))
    assert (result.plan.to_add, result.plan.to_destroy) == (1, 1)
    assert list_triggers(result) == {"a-control-plane-0": ("place", "new")}
    gone = require_success(plan(RACKS, only))
    assert (gone.plan.to_add, gone.plan.to_destroy) == (0, 1)


def test_tainted_rack_is_re_created_with_its_vms() -> None:
    text = RACKS + cluster("a", count=3)
    state = build_state(text)
    address = at("nexus_rack.r[1]")
    current = state.instances[address].current
    assert current is not None
    result = require_success(
        plan(text, state.replace_instance(address, InstanceState(exchanged(current, tainted=True))))
    )
    assert list_actions(result) == {
        "nexus_rack.r[1]": "delete-create",
        "nexus_kubernetes_cluster.a": "update",
    }
    assert {trigger for _, trigger in list_triggers(result).values()} == {"machine_replaced"}


# --- blocks depending on placements, dynamic pools -----------------------------------------------

LATE = (
    RACKS
    + cluster("a", count=3)
    + """
resource "nexus_kubernetes_cluster" "late" {
  count   = length([for n in nexus_kubernetes_cluster.a.nodes : n if n.rack == "r0"]) == 1 ? WANTED : 0
  name    = "late${count.index}"
  site_id = nexus_site.s.id
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
}
"""  # noqa: E501
)


def test_count_depending_on_placement_is_known_in_plan() -> None:
    text = LATE.replace("WANTED", "2")
    state = build_state(text)
    assert {"late0-control-plane-0", "late1-control-plane-0"} <= set(list_places(state))
    assert is_empty(require_success(plan(text, state)))
    fewer = require_success(plan(LATE.replace("WANTED", "1"), state))
    assert list_triggers(fewer) == {"late1-control-plane-0": ("remove", "cluster_removed")}
    run(fewer.plan, state, 5)


def test_vm_of_placement_dependent_block_can_lose_its_machine() -> None:
    text = LATE.replace("WANTED", "3")
    state = build_state(text)
    victim = list_places(state)["late1-control-plane-0"][0]
    rack = int(victim[1])
    lost = int(victim[-1]) - 1
    shrunk = text.replace(
        "machine_count = 4", f"machine_count = count.index == {rack} ? {lost} : 4"
    )
    if not any(
        m.startswith(f"r{rack}-") and int(m[-1]) > lost and "late" not in n
        for n, (m, _) in list_places(state).items()
    ):
        found = list_triggers(require_success(plan(shrunk, state)))
        assert found["late1-control-plane-0"] == ("move", "machine_removed")


def test_pinned_vm_follows_referenced_placement() -> None:
    text = (
        RACKS
        + cluster("a")
        + """
resource "nexus_virtual_machine" "w" {
  site_id    = nexus_site.s.id
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 10
  machine    = nexus_kubernetes_cluster.a.nodes["a-control-plane-0"].machine
}
"""
    )
    state = build_state(text)
    assert list_places(state)["w"][0] == list_places(state)["a-control-plane-0"][0]
    assert is_empty(require_success(plan(text, state)))
    healed = require_success(
        plan(text, state, replaces=("nexus_kubernetes_cluster.a:a-control-plane-0",))
    )
    target = list_rows(healed)["w"].target
    there = list_rows(healed)["a-control-plane-0"].target
    assert target is not None
    assert there is not None
    assert target.machine == there.machine


def test_dynamic_pools_are_added_and_removed() -> None:
    text = RACKS + cluster(
        "a",
        pools="""
  dynamic "agent_pool" {
    for_each = NAMES
    labels   = [agent_pool.value]
    content {
      count       = 1
      vm_sku_name = "NC_G6_28_v1"
    }
  }
""",
    )
    state = build_state(text.replace("NAMES", '["x", "y"]'))
    result = require_success(plan(text.replace("NAMES", '["z", "y"]'), state))
    assert list_triggers(result) == {"a-x-0": ("remove", "pool_removed"), "a-z-0": ("place", "new")}
    assert list(attributes(state, "nexus_kubernetes_cluster.a")["nodes"]) == [
        "a-control-plane-0",
        "a-x-0",
        "a-y-0",
    ]


def test_outputs_can_refer_to_placements() -> None:
    text = (
        RACKS
        + cluster("a")
        + (
            '\noutput "m" {\n value = '
            'nexus_kubernetes_cluster.a.nodes["a-control-plane-0"].machine\n}\n'
        )
    )
    result = require_success(plan(text))
    assert (
        result.plan.root_values.planned_outputs["m"].value
        == list_places(build_state(text))["a-control-plane-0"][0]
    )


@pytest.mark.parametrize(
    ("ignored", "labels"),
    [
        ("group[0]", ["old", "new"]),
        ("group[1].workload_selector.match_labels", ["new", "old"]),
        ('group[1].workload_selector.match_labels["a"]', ["new", "old"]),
        ("group[7]", ["new", "new"]),
    ],
)
def test_ignored_block_of_a_list(ignored: str, labels: list[str]) -> None:
    group = 'group {\n workload_selector {\n match_labels = { a = "old" }\n }\n}\n'
    rule = 'resource "nexus_separation_rule" "s" {\n name = "s"\n scope = "rack"\n' + group + group
    text = rule + f"lifecycle {{\n ignore_changes = [{ignored}]\n }}\n}}\n"
    result = require_success(plan(text.replace("old", "new"), build_state(text)))
    after = result.plan.changes[0].after
    assert after is not None
    assert [each["workload_selector"]["match_labels"]["a"] for each in after["group"]] == labels
