"""Tests of VM triggers: creation, removal, moves, their priority, and unaffected VMs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace as exchanged

from nexusform.plans.plan import Mode
from nexusform.scheduling.racks.vms import Placement
from nexusform.state.objects import InstanceState, State
from tests.planning.harness import (
    RACKS,
    agent_pool,
    at,
    build_state,
    cluster,
    get_change,
    is_empty,
    list_actions,
    list_places,
    list_rows,
    list_triggers,
    list_warnings,
    plan,
    pool,
    replace_passage,
    require_success,
    vms,
)

BIG = "NC_P46_224_v1"
PLAIN = """
resource "nexus_virtual_machine" "v" {
  site_id    = nexus_site.s.id
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 100
}
"""
A = cluster(
    "a",
    arguments='kubernetes_version = "1.30"',
    count=2,
    pools=pool("p", 3, BIG, 'labels = { x = "1" }') + pool("q", 2),
)
BASE = (
    RACKS
    + A
    + agent_pool("own", "nexus_kubernetes_cluster.a.id", 2)
    + cluster("b", pools=pool("p", 2))
    + PLAIN
)

PLANE = {"a-control-plane-0", "a-control-plane-1"}
P = {"a-p-0", "a-p-1", "a-p-2"}
Q = {"a-q-0", "a-q-1"}
OWN = {"a-own-0", "a-own-1"}
B = {"b-control-plane-0", "b-p-0", "b-p-1"}


@pytest.fixture(scope="module", name="state")
def _build_state() -> State:
    return build_state(BASE)


def list_moved_vms(names: set[str], trigger: str) -> dict[str, tuple[str, str]]:
    return dict.fromkeys(names, ("move", trigger))


def test_everything_is_new_in_first_plan() -> None:
    found = list_triggers(require_success(plan(BASE)))
    assert found == dict.fromkeys(PLANE | P | Q | OWN | B | {"v"}, ("place", "new"))


def test_plan_after_apply_is_empty(state: State) -> None:
    result = require_success(plan(BASE, state))
    assert is_empty(result)
    assert result.plan.figures.unchanged_count == len(list_places(state))


def test_scale_out_places_only_new_vms(state: State) -> None:
    result = require_success(
        plan(
            replace_passage(
                BASE,
                'count       = 3\n    vm_sku_name = "NC_P46',
                'count       = 5\n    vm_sku_name = "NC_P46',
            ),
            state,
        )
    )
    assert list_triggers(result) == dict.fromkeys(["a-p-3", "a-p-4"], ("place", "scale_out"))


def test_scale_in_removes_the_highest_numbers(state: State) -> None:
    result = require_success(plan(BASE.replace("count       = 3", "count       = 1"), state))
    assert list_triggers(result) == dict.fromkeys(["a-p-1", "a-p-2"], ("remove", "scale_in"))


def test_count_to_zero_and_back() -> None:
    state = build_state(BASE)
    none = BASE.replace("count       = 3", "count       = 0")
    assert set(list_triggers(require_success(plan(none, state))).values()) == {
        ("remove", "scale_in")
    }
    again = require_success(plan(BASE, build_state(none, state)))
    assert list_triggers(again) == dict.fromkeys(P, ("place", "scale_out"))


def test_pool_added_to_existing_cluster_is_new(state: State) -> None:
    text = BASE.replace(pool("q", 2), pool("extra", 1) + pool("q", 2))
    assert list_triggers(require_success(plan(text, state))) == {"a-extra-0": ("place", "new")}


def test_reordered_pools_move_no_vm(state: State) -> None:
    p = pool("p", 3, BIG, 'labels = { x = "1" }')
    q = pool("q", 2)
    assert list_triggers(require_success(plan(BASE.replace(p + q, q + p), state))) == {}


def test_deleted_pool_is_removed(state: State) -> None:
    assert list_triggers(
        require_success(plan(BASE.replace(pool("q", 2), ""), state))
    ) == dict.fromkeys(Q, ("remove", "pool_removed"))


def test_deleted_separate_pool_is_removed(state: State) -> None:
    text = BASE.replace(agent_pool("own", "nexus_kubernetes_cluster.a.id", 2), "")
    assert list_triggers(require_success(plan(text, state))) == dict.fromkeys(
        OWN, ("remove", "pool_removed")
    )


def test_deleted_cluster_moves_no_other_vm(state: State) -> None:
    text = BASE.replace(cluster("b", pools=pool("p", 2)), "")
    result = require_success(plan(text, state))
    assert list_triggers(result) == dict.fromkeys(B, ("remove", "cluster_removed"))
    assert list_actions(result) == {"nexus_kubernetes_cluster.b": "delete"}


def test_deleted_plain_vm_counts_as_removed_cluster(state: State) -> None:
    assert list_triggers(require_success(plan(BASE.replace(PLAIN, ""), state))) == {
        "v": ("remove", "cluster_removed")
    }


def test_resized_plain_vm_counts_as_replaced_cluster(state: State) -> None:
    assert list_triggers(
        require_success(plan(BASE.replace("cpu_cores  = 4", "cpu_cores  = 6"), state))
    ) == list_moved_vms({"v"}, "cluster_replaced")


def test_cluster_inserted_first_moves_no_vm(state: State) -> None:
    text = BASE.replace(A, cluster("zero", pools=pool("p", 3, BIG)) + A)
    assert {
        trigger for _, trigger in list_triggers(require_success(plan(text, state))).values()
    } == {"new"}


@pytest.mark.parametrize(
    ("old", "new", "trigger"),
    [
        (BIG, "NC_P22_112_v1", "sku_changed"),
        ('labels = { x = "1" }', 'labels = { x = "2" }', "labels_changed"),
        ('labels = { x = "1" }', "", "labels_changed"),
        (
            'labels = { x = "1" }',
            'labels = { x = "1" }\navailability_zones = ["r0"]',
            "zones_changed",
        ),
        ('labels = { x = "1" }', 'labels = { x = "1" }\nmode = "System"', "mode_changed"),
        (
            'labels = { x = "1" }',
            'labels = { x = "1" }\ntaint {\n key = "k"\n effect = "NoSchedule"\n}',
            "taints_changed",
        ),
    ],
)
def test_changed_pool_argument_re_creates_only_that_pool(
    state: State, old: str, new: str, trigger: str
) -> None:
    result = require_success(plan(replace_passage(BASE, old, new), state))
    assert list_triggers(result) == list_moved_vms(P, trigger)
    assert list_actions(result) == {"nexus_kubernetes_cluster.a": "update"}


def test_reordered_or_complete_zones_change_nothing() -> None:
    text = RACKS + cluster("a", pools=pool("p", 2, more='availability_zones = ["r0", "r1"]'))
    state = build_state(text)
    assert is_empty(require_success(plan(text.replace('"r0", "r1"', '"r1", "r0", "r1"'), state)))
    empty = RACKS + cluster("a", pools=pool("p", 2, more="availability_zones = []"))
    result = require_success(plan(RACKS + cluster("a", pools=pool("p", 2)), build_state(empty)))
    assert list_triggers(result) == {}


@pytest.mark.parametrize("mode", ['mode = "User"', "labels = {}", "availability_zones = null"])
def test_explicit_default_moves_no_vm(mode: str) -> None:
    state = build_state(RACKS + cluster("a", pools=pool("p", 2)))
    result = require_success(plan(RACKS + cluster("a", pools=pool("p", 2, more=mode)), state))
    assert list_triggers(result) == {}


def test_changed_argument_of_separate_pool_re_creates_it(state: State) -> None:
    text = BASE.replace(
        agent_pool("own", "nexus_kubernetes_cluster.a.id", 2),
        agent_pool("own", "nexus_kubernetes_cluster.a.id", 2, more='mode = "System"'),
    )
    result = require_success(plan(text, state))
    assert list_triggers(result) == list_moved_vms(OWN, "mode_changed")
    assert list_actions(result) == {"nexus_agent_pool.own": "update"}


def test_changed_control_plane_replaces_cluster_and_separate_pools(state: State) -> None:
    text = BASE.replace(
        'count       = 2\n    vm_sku_name = "NC_G6_28_v1"\n  }\n  \n  agent_pool "p"',
        'count       = 2\n    vm_sku_name = "NC_G12_56_v1"\n  }\n  \n  agent_pool "p"',
    )
    assert text != BASE
    result = require_success(plan(text, state))
    assert list_triggers(result) == list_moved_vms(PLANE | P | Q | OWN, "cluster_replaced")
    assert list_actions(result) == {
        "nexus_kubernetes_cluster.a": "delete-create",
        "nexus_agent_pool.own": "delete-create",
    }


def test_control_plane_can_grow_in_place(state: State) -> None:
    text = replace_passage(
        BASE,
        'count       = 2\n    vm_sku_name = "NC_G6_28_v1"\n  }\n  \n  agent_pool "p"',
        'count       = 3\n    vm_sku_name = "NC_G6_28_v1"\n  }\n  \n  agent_pool "p"',
    )
    assert list_triggers(require_success(plan(text, state))) == {
        "a-control-plane-2": ("place", "scale_out")
    }


def test_changed_version_re_creates_every_vm_of_the_cluster(state: State) -> None:
    result = require_success(plan(BASE.replace("1.30", "1.31"), state))
    assert list_triggers(result) == list_moved_vms(
        PLANE | P | Q | OWN, "kubernetes_version_changed"
    )
    assert list_actions(result) == {
        "nexus_kubernetes_cluster.a": "update",
        "nexus_agent_pool.own": "update",
    }
    assert is_empty(
        require_success(
            plan(BASE.replace("1.30", "1.31"), build_state(BASE.replace("1.30", "1.31"), state))
        )
    )


def test_renamed_cluster_is_another_cluster(state: State) -> None:
    text = BASE.replace(
        'resource "nexus_kubernetes_cluster" "b" {',
        'resource "nexus_kubernetes_cluster" "b" {\n name = "beta"',
    )
    found = list_triggers(require_success(plan(text, state)))
    assert {name: what for name, what in found.items() if name in B} == dict.fromkeys(
        B, ("remove", "cluster_replaced")
    )
    assert {what for name, what in found.items() if name not in B} == {
        ("place", "cluster_replaced")
    }


def list_vms_on(state: State, machine: str) -> set[str]:
    return {name for name, (host, _) in list_places(state).items() if host == machine}


OVERRIDE = """machine_count = 4
  dynamic "machine_override" {
    for_each = count.index == 0 ? [1] : []
    labels   = ["r0-bm01"]
    content {
      %s = true
    }
  }"""


def test_cordon_moves_no_vm_and_excludes_new_vms(state: State) -> None:
    text = BASE.replace("machine_count = 4", OVERRIDE % "cordoned")
    assert list_triggers(require_success(plan(text, state))) == {}
    more = require_success(
        plan(text.replace('"q" {\n    count       = 2', '"q" {\n    count       = 12'), state)
    )
    assert "r0-bm01" not in {r.target.machine for r in list_rows(more).values() if r.target}


def test_evacuation_moves_exactly_its_vms_permanently(state: State) -> None:
    text = BASE.replace("machine_count = 4", OVERRIDE % "evacuate")
    result = require_success(plan(text, state))
    assert list_vms_on(state, "r0-bm01")
    assert list_triggers(result) == list_moved_vms(
        list_vms_on(state, "r0-bm01"), "machine_evacuated"
    )
    after = build_state(text, state)
    assert not list_vms_on(after, "r0-bm01")
    assert list_triggers(require_success(plan(BASE, after))) == {}


def test_fewer_machines_move_exactly_the_vms_of_the_last_slots(state: State) -> None:
    text = BASE.replace("machine_count = 4", "machine_count = count.index == 1 ? 3 : 4")
    assert list_vms_on(state, "r1-bm04")
    assert list_triggers(require_success(plan(text, state))) == list_moved_vms(
        list_vms_on(state, "r1-bm04"), "machine_removed"
    )


def test_more_machines_move_no_vm(state: State) -> None:
    assert (
        list_triggers(
            require_success(plan(BASE.replace("machine_count = 4", "machine_count = 7"), state))
        )
        == {}
    )


def test_deleted_rack_moves_exactly_its_vms(state: State) -> None:
    result = require_success(plan(BASE.replace("count         = 3", "count         = 2"), state))
    gone = {name for name, (host, _) in list_places(state).items() if host.startswith("r2-")}
    assert list_triggers(result) == list_moved_vms(gone, "machine_removed")


def test_rack_at_another_address_re_creates_its_vms(state: State) -> None:
    racks = "".join(
        (
            f'resource "nexus_rack" "x{i}" {{\n  name = "r{i}"\n  site_id = nexus_site.s.id\n  '
            f"machine_count = 4\n}}\n"
        )
        for i in range(3)
    )
    text = racks + 'resource "nexus_site" "s" {}\n' + BASE.replace(RACKS, "")
    result = require_success(plan(text, state))
    assert list_triggers(result) == list_moved_vms(set(list_places(state)), "machine_replaced")
    made = [action for action in list_actions(result).values() if action != "update"]
    assert sorted(made) == [*["create"] * 3, *["delete"] * 3]


def test_machine_moved_to_its_own_resource_keeps_its_vms(state: State) -> None:
    text = (
        BASE.replace("machine_count = 4", "machine_count = count.index == 1 ? 3 : 4")
        + """
resource "nexus_bare_metal_machine" "own" {
  rack_id     = nexus_rack.r[1].id
  name        = "r1-bm04"
  slot        = 4
  machine_sku = "bom-1.7.3"
}
"""
    )
    assert list_triggers(require_success(plan(text, state))) == {}


def test_machine_block_can_cordon_or_evacuate() -> None:
    own = """
resource "nexus_bare_metal_machine" "own" {
  rack_id     = nexus_rack.r[1].id
  name        = "r1-bm04"
  slot        = 4
  machine_sku = "bom-1.7.3"
  %s
}
"""
    state = build_state(BASE + own % "")
    assert list_vms_on(state, "r1-bm04")
    for quiet in (
        "cordoned = true",
        'power_state = "Off"',
        "ready_state = false",
        'roles = ["other"]',
    ):
        assert list_triggers(require_success(plan(BASE + own % quiet, state))) == {}, quiet
    result = require_success(plan(BASE + own % "evacuate = true", state))
    assert list_triggers(result) == list_moved_vms(
        list_vms_on(state, "r1-bm04"), "machine_evacuated"
    )


def test_weaker_hardware_keeps_its_vms_with_a_warning() -> None:
    text = RACKS.replace(
        "machine_count = 4", 'machine_count = 4\n  machine_sku = "bom-2.0"'
    ) + cluster("a", pools=pool("p", 20, "NC_P54_224_v1"))
    state = build_state(text)
    result = require_success(plan(text.replace("bom-2.0", "bom-1.7.3"), state))
    assert list_triggers(result) == {}
    assert list_warnings(result)


def test_rebuilt_machine_of_the_same_name_keeps_its_vms(state: State) -> None:
    result = require_success(plan(BASE, state, replaces=("nexus_rack.r[0]",)))
    assert list_actions(result)["nexus_rack.r[0]"] == "delete-create"
    on_rack = {
        name: row for name, row in list_rows(result).items() if row.trigger == "machine_replaced"
    }
    assert on_rack.keys() == {
        name for name, (host, _) in list_places(state).items() if host.startswith("r0-")
    }
    assert all(row.source == row.target for row in on_rack.values())


def test_changed_seed_or_spread_moves_no_vm(state: State) -> None:
    scheduler = 'scheduler {\n    rack_spread = "cluster"\n    tie_break_seed = 3\n  }\n}'
    text = BASE.replace('"nexus_site" "s" {}', f'"nexus_site" "s" {{\n  {scheduler}')
    assert list_triggers(require_success(plan(text, state))) == {}


def test_replaced_resource_re_creates_all_its_vms(state: State) -> None:
    result = require_success(plan(BASE, state, replaces=("nexus_agent_pool.own",)))
    assert list_triggers(result) == list_moved_vms(OWN, "requested")
    result = require_success(plan(BASE, state, replaces=("nexus_kubernetes_cluster.b",)))
    assert list_triggers(result) == list_moved_vms(B, "requested")


def test_replaced_cluster_replaces_its_separate_pools(state: State) -> None:
    found = list_triggers(
        require_success(plan(BASE, state, replaces=("nexus_kubernetes_cluster.a",)))
    )
    assert found == list_moved_vms(PLANE | P | Q, "requested") | list_moved_vms(
        OWN, "cluster_replaced"
    )


def test_heal_moves_one_vm_to_another_machine(state: State) -> None:
    result = require_success(plan(BASE, state, replaces=("nexus_kubernetes_cluster.a:a-p-1",)))
    assert list_triggers(result) == {"a-p-1": ("move", "heal")}
    row = list_rows(result)["a-p-1"]
    assert row.source is not None
    assert row.target is not None
    assert row.source.machine != row.target.machine


def test_heal_uses_the_same_machine_if_there_is_no_other() -> None:
    text = RACKS.replace("= 3\n", "= 1\n").replace(
        "machine_count = 4", "machine_count = 1"
    ) + cluster("a")
    state = build_state(text)
    result = require_success(
        plan(text, state, replaces=("nexus_kubernetes_cluster.a:a-control-plane-0",))
    )
    row = list_rows(result)["a-control-plane-0"]
    assert (str(row.action), row.trigger, row.source) == ("move", "heal", row.target)


def test_heal_of_unknown_vm_is_rejected(state: State) -> None:
    result = plan(BASE, state, replaces=("nexus_kubernetes_cluster.a:a-p-7",))
    assert result.plan.errored


def test_replace_of_unknown_address_is_rejected(state: State) -> None:
    assert plan(BASE, state, replaces=("nexus_kubernetes_cluster.zz",)).plan.errored


def build_drift(state: State, address: str, gone: str) -> dict[object, object]:
    old = state.instances[at(address)].current
    assert old is not None
    nodes = {n: v for n, v in old.attributes["nodes"].items() if n != gone}
    return {at(address): exchanged(old, attributes={**old.attributes, "nodes": nodes})}


def test_node_deleted_outside_nexusform_is_re_created(state: State) -> None:
    found = build_drift(state, "nexus_kubernetes_cluster.a", "a-p-1")
    result = require_success(plan(BASE, state, refreshed_objects=found))
    assert list_triggers(result) == {"a-p-1": ("place", "node_deleted")}


def test_missing_object_is_re_created(state: State) -> None:
    result = require_success(
        plan(BASE, state, refreshed_objects={at("nexus_kubernetes_cluster.b"): None})
    )
    assert list_actions(result)["nexus_kubernetes_cluster.b"] == "create"
    assert set(list_triggers(result)) == B


def test_vm_observed_on_another_machine_stays_there(state: State) -> None:
    old = state.instances[at("nexus_kubernetes_cluster.b")].current
    assert old is not None
    node = {
        **old.attributes["nodes"]["b-p-0"],
        "machine": "r2-bm03",
        "rack": "r2",
        "availability_zone": "r2",
        "provenance": "observed",
    }
    found = exchanged(
        old, attributes={**old.attributes, "nodes": {**old.attributes["nodes"], "b-p-0": node}}
    )
    result = require_success(
        plan(BASE, state, refreshed_objects={at("nexus_kubernetes_cluster.b"): found})
    )
    assert list_triggers(result) == {}
    after = get_change(result.plan, "nexus_kubernetes_cluster.b").after
    assert after is not None
    assert after["nodes"]["b-p-0"]["machine"] == "r2-bm03"
    assert after["nodes"]["b-p-0"]["provenance"] == "observed"


def test_tainted_cluster_is_replaced(state: State) -> None:
    address = at("nexus_kubernetes_cluster.b")
    old = state.instances[address].current
    assert old is not None
    tainted = state.replace_instance(address, InstanceState(exchanged(old, tainted=True)))
    result = require_success(plan(BASE, tainted))
    assert list_actions(result) == {"nexus_kubernetes_cluster.b": "delete-create"}
    assert list_triggers(result) == list_moved_vms(B, "cluster_replaced")
    assert get_change(result.plan, "nexus_kubernetes_cluster.b").reason == "replace_because_tainted"


# --- several triggers at once: the first in the list wins ---------------------------------------

EVACUATED = ("machine_count = 4", "the machine of a-p-0 is evacuated")


def build_evacuation(text: str, machine: str) -> str:
    override = (
        (OVERRIDE % "evacuate").replace("r0-bm01", machine).replace("== 0", f"== {machine[1]}")
    )
    return text.replace("machine_count = 4", override)


@pytest.mark.parametrize(
    ("edits", "replaces", "first"),
    [
        ([EVACUATED, ("1.30", "1.31")], ("nexus_kubernetes_cluster.a:a-p-0",), "heal"),
        ([EVACUATED, ("1.30", "1.31")], ("nexus_kubernetes_cluster.a",), "requested"),
        ([EVACUATED, ("1.30", "1.31"), (BIG, "NC_P22_112_v1")], (), "machine_evacuated"),
        ([("1.30", "1.31"), (BIG, "NC_P22_112_v1")], (), "kubernetes_version_changed"),
        ([(BIG, "NC_P22_112_v1"), ('{ x = "1" }', '{ x = "2" }')], (), "sku_changed"),
        ([('{ x = "1" }', '{ x = "2" }\n availability_zones = ["r0", "r1"]')], (), "zones_changed"),
        (
            [
                (
                    '{ x = "1" }',
                    '{ x = "2" }\n mode = "System"\n taint {\n key = "k"\n effect = "NoExecute"\n}',
                )
            ],
            (),
            "labels_changed",
        ),
        (
            [
                (
                    '{ x = "1" }',
                    '{ x = "1" }\n mode = "System"\n taint {\n key = "k"\n effect = "NoExecute"\n}',
                )
            ],
            (),
            "taints_changed",
        ),
    ],
)
def test_first_of_several_triggers_is_reported(
    state: State, edits: list[tuple[str, str]], replaces: tuple[str, ...], first: str
) -> None:
    text = BASE
    for old, new in edits:
        text = (
            build_evacuation(text, list_places(state)["a-p-0"][0])
            if new == EVACUATED[1]
            else text.replace(old, new)
        )
    result = require_success(plan(text, state, replaces=replaces))
    assert list_triggers(result)["a-p-0"] == ("move", first)


def test_removed_pool_has_priority_over_removed_machine(state: State) -> None:
    text = build_evacuation(BASE, list_places(state)["a-p-0"][0]).replace(
        pool("p", 3, BIG, 'labels = { x = "1" }'), ""
    )
    found = list_triggers(require_success(plan(text, state)))
    assert {what for name, what in found.items() if name in P} == {("remove", "pool_removed")}


def test_heal_with_replaced_cluster() -> None:
    text = BASE.replace('a" {\n  site_id', 'a" {\n  name = "a"\n  site_id')
    state = build_state(text)
    result = require_success(
        plan(
            text, state, replaces=("nexus_kubernetes_cluster.a", "nexus_kubernetes_cluster.a:a-p-0")
        )
    )
    found = list_triggers(result)
    assert found["a-p-0"] == ("move", "heal")
    assert found["a-p-1"] == ("move", "requested")


def test_removed_vms_free_capacity_for_new_ones_in_the_same_plan() -> None:
    one = RACKS.replace("= 3\n", "= 1\n").replace("machine_count = 4", "machine_count = 1")
    text = one + cluster("a", pools=pool("p", 1, BIG))
    state = build_state(text)
    other = one + cluster("b", pools=pool("p", 1, BIG))
    found = list_triggers(require_success(plan(other, state)))
    assert found["a-p-0"] == ("remove", "cluster_removed")
    assert found["b-p-0"] == ("place", "new")
    shrunk = one + cluster("a", pools=pool("p", 0, BIG)) + cluster("b", pools=pool("p", 1, BIG))
    assert list_triggers(require_success(plan(shrunk, state)))["b-p-0"] == ("place", "new")


def test_vm_with_lost_machine_is_placed_before_new_cluster() -> None:
    racks = RACKS.replace("= 3\n", "= 2\n").replace("machine_count = 4", "machine_count = 1")
    state = build_state(racks + cluster("a", pools=pool("p", 1, BIG), plane=BIG))
    (machine,) = {host for host, _ in [list_places(state)["a-p-0"]]}
    lost = 0 if machine.startswith("r0") else 1
    text = racks.replace("machine_count = 1", f"machine_count = count.index == {lost} ? 0 : 1")
    result = plan(
        cluster("b", plane=BIG) + text + cluster("a", pools=pool("p", 1, BIG), plane=BIG), state
    )
    assert list_triggers(result)["a-p-0"] == ("move", "machine_removed")
    assert result.plan.errored
    assert {d.address for d in result.plan.diagnostics if d.id == "insufficient-capacity"} == {
        "nexus_kubernetes_cluster.b"
    }


# --- the last System pool
# --------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.30", "1.31"])
def test_last_system_pool_is_never_replaced(version: str) -> None:
    text = RACKS + cluster(
        "a", arguments='kubernetes_version = "1.30"', pools=pool("p", 1, more='mode = "System"')
    )
    state = build_state(text)
    changed = text.replace('"1.30"', f'"{version}"', 1).replace(
        "mode =", 'labels = { x = "y" }\n    mode ='
    )
    (found,) = plan(changed, state).plan.diagnostics
    assert found.summary == "Last System pool replacement"
    two = pool("p", 1, more='mode = "System"') + pool("q", 1, more='mode = "System"')
    both = RACKS + cluster("a", arguments='kubernetes_version = "1.30"', pools=two)
    other = both.replace("mode =", 'labels = { x = "y" }\n    mode =', 1)
    assert list_triggers(require_success(plan(other, build_state(both)))) == {
        "a-p-0": ("move", "labels_changed")
    }


def test_cluster_without_system_pools_is_reported() -> None:
    system = pool("p", 1, more='mode = "System"')
    user = pool("q", 1)
    state = build_state(RACKS + cluster("a", pools=system + user))
    gone = require_success(plan(RACKS + cluster("a", pools=user), state))
    assert [d.id for d in gone.plan.diagnostics] == ["system-pools-removed"]
    other = require_success(
        plan(RACKS + cluster("a", pools=pool("r", 1, more='mode = "System"')), state)
    )
    assert [d.id for d in other.plan.diagnostics] == ["pool-rename"]
    assert not require_success(plan(RACKS, state)).plan.diagnostics
    assert not require_success(
        plan(RACKS + cluster("a", pools=user), build_state(RACKS + cluster("a", pools=user)))
    ).plan.diagnostics


def test_refresh_only_plan_lists_vms_observed_on_other_machines(state: State) -> None:
    address = at("nexus_kubernetes_cluster.a")
    current = state.instances[address].current
    assert current is not None
    nodes = dict(current.attributes["nodes"])
    name, node = next(iter(nodes.items()))
    other = next(vm for vm in vms(state).values() if vm["machine"] != node["machine"])
    elsewhere = {key: other[key] for key in ("machine", "rack", "availability_zone")} | {
        "numa_cells": None
    }
    nodes[name] = {**node, **elsewhere, "provenance": "observed"}
    observed = exchanged(current, attributes={**current.attributes, "nodes": nodes})
    result = plan(BASE, state, mode=Mode.REFRESH_ONLY, refreshed_objects={address: observed})
    (row,) = require_success(result).plan.placements
    assert (row.object, str(row.action), row.trigger) == (name, "keep", "observed_elsewhere")
    assert isinstance(row.source, Placement)
    assert isinstance(row.target, Placement)
    assert (row.source.machine, row.target.machine, row.cluster) == (
        node["machine"],
        other["machine"],
        "a",
    )


def test_vms_stay_after_a_scale_in_outside_of_nexusform() -> None:
    def build_files(count: int) -> str:
        return RACKS + cluster("a", pools=pool("p", count))

    before = build_state(build_files(5))
    address = at("nexus_kubernetes_cluster.a")
    current = before.instances[address].current
    assert current is not None
    nodes = {name: node for name, node in current.attributes["nodes"].items() if name != "a-p-1"}
    observed = exchanged(current, attributes={**current.attributes, "nodes": nodes})
    reduced = exchanged(before, instances={**before.instances, address: InstanceState(observed)})
    assert list_triggers(plan(build_files(5), reduced)) == {"a-p-1": ("place", "node_deleted")}
    assert list_triggers(plan(build_files(3), reduced)) == {"a-p-4": ("remove", "scale_in")}
    assert list_triggers(plan(build_files(4), reduced)) == {}
    agreed = build_state(build_files(4), reduced)
    assert list_places(agreed) == {
        name: place for name, place in list_places(before).items() if name != "a-p-1"
    }
    assert is_empty(plan(build_files(4), agreed))
    assert list_triggers(plan(build_files(5), agreed)) == {"a-p-1": ("place", "scale_out")}
    # A new cluster has no gaps.
    replaced = plan(build_files(4), agreed, replaces=("nexus_kubernetes_cluster.a",))
    placed = {name for name, (action, _) in list_triggers(replaced).items() if action != "remove"}
    assert {"a-p-1", "a-p-4"} & placed == {"a-p-1"}
