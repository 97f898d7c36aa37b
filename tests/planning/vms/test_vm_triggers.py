"""Why VMs come, go, move or stay: every trigger, which one wins, and who is left in peace."""

from __future__ import annotations

import pytest
from msgspec.structs import replace as exchanged

from nexusform.state.objects import InstanceState, State
from tests.planning.harness import (
    RACKS,
    actions,
    agent_pool,
    at,
    change_of,
    cluster,
    good,
    is_empty,
    places,
    plan,
    pool,
    rows,
    state_of,
    triggers,
    warnings,
    without,
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
BASE = RACKS + A + agent_pool("own", "nexus_kubernetes_cluster.a.id", 2) + cluster("b", pools=pool("p", 2)) + PLAIN

PLANE = {"a-control-plane-0", "a-control-plane-1"}
P = {"a-p-0", "a-p-1", "a-p-2"}
Q = {"a-q-0", "a-q-1"}
OWN = {"a-own-0", "a-own-1"}
B = {"b-control-plane-0", "b-p-0", "b-p-1"}


@pytest.fixture(scope="module", name="state")
def _state() -> State:
    return state_of(BASE)


def moved(names: set[str], trigger: str) -> dict[str, tuple[str, str]]:
    return dict.fromkeys(names, ("move", trigger))


def test_everything_is_new_at_first() -> None:
    found = triggers(good(plan(BASE)))
    assert found == dict.fromkeys(PLANE | P | Q | OWN | B | {"v"}, ("place", "new"))


def test_a_plan_on_its_own_result_is_empty(state: State) -> None:
    result = good(plan(BASE, state))
    assert is_empty(result)
    assert result.plan.unchanged_count == len(places(state))


def test_count_up_places_only_the_new(state: State) -> None:
    result = good(
        plan(
            without(BASE, 'count       = 3\n    vm_sku_name = "NC_P46', 'count       = 5\n    vm_sku_name = "NC_P46'),
            state,
        )
    )
    assert triggers(result) == dict.fromkeys(["a-p-3", "a-p-4"], ("place", "scale_out"))


def test_count_down_takes_the_highest_numbers(state: State) -> None:
    result = good(plan(BASE.replace("count       = 3", "count       = 1"), state))
    assert triggers(result) == dict.fromkeys(["a-p-1", "a-p-2"], ("remove", "scale_in"))


def test_count_to_zero_and_back() -> None:
    state = state_of(BASE)
    none = BASE.replace("count       = 3", "count       = 0")
    assert set(triggers(good(plan(none, state))).values()) == {("remove", "scale_in")}
    again = good(plan(BASE, state_of(none, state)))
    assert triggers(again) == dict.fromkeys(P, ("place", "scale_out"))


def test_a_pool_added_to_a_standing_cluster_is_new(state: State) -> None:
    text = BASE.replace(pool("q", 2), pool("extra", 1) + pool("q", 2))
    assert triggers(good(plan(text, state))) == {"a-extra-0": ("place", "new")}


def test_changing_the_order_of_pools_moves_nobody(state: State) -> None:
    p, q = pool("p", 3, BIG, 'labels = { x = "1" }'), pool("q", 2)
    assert triggers(good(plan(BASE.replace(p + q, q + p), state))) == {}


def test_a_pool_taken_out_is_removed(state: State) -> None:
    assert triggers(good(plan(BASE.replace(pool("q", 2), ""), state))) == dict.fromkeys(Q, ("remove", "pool_removed"))


def test_a_separate_pool_taken_out_is_removed(state: State) -> None:
    text = BASE.replace(agent_pool("own", "nexus_kubernetes_cluster.a.id", 2), "")
    assert triggers(good(plan(text, state))) == dict.fromkeys(OWN, ("remove", "pool_removed"))


def test_a_cluster_taken_out_is_removed_and_nobody_else_moves(state: State) -> None:
    text = BASE.replace(cluster("b", pools=pool("p", 2)), "")
    result = good(plan(text, state))
    assert triggers(result) == dict.fromkeys(B, ("remove", "cluster_removed"))
    assert actions(result) == {"nexus_kubernetes_cluster.b": "delete"}


def test_a_plain_vm_taken_out_counts_as_a_cluster(state: State) -> None:
    assert triggers(good(plan(BASE.replace(PLAIN, ""), state))) == {"v": ("remove", "cluster_removed")}


def test_a_plain_vm_with_another_size_counts_as_a_replaced_cluster(state: State) -> None:
    assert triggers(good(plan(BASE.replace("cpu_cores  = 4", "cpu_cores  = 6"), state))) == moved(
        {"v"}, "cluster_replaced"
    )


def test_a_cluster_added_first_in_the_file_moves_nobody(state: State) -> None:
    text = BASE.replace(A, cluster("zero", pools=pool("p", 3, BIG)) + A)
    assert {trigger for _, trigger in triggers(good(plan(text, state))).values()} == {"new"}


@pytest.mark.parametrize(
    ("old", "new", "trigger"),
    [
        (BIG, "NC_P22_112_v1", "sku_changed"),
        ('labels = { x = "1" }', 'labels = { x = "2" }', "labels_changed"),
        ('labels = { x = "1" }', "", "labels_changed"),
        ('labels = { x = "1" }', 'labels = { x = "1" }\navailability_zones = ["r0"]', "zones_changed"),
        ('labels = { x = "1" }', 'labels = { x = "1" }\nmode = "System"', "mode_changed"),
        (
            'labels = { x = "1" }',
            'labels = { x = "1" }\ntaint {\n key = "k"\n effect = "NoSchedule"\n}',
            "taints_changed",
        ),
    ],
)
def test_a_changed_pool_argument_re_places_that_pool_alone(state: State, old: str, new: str, trigger: str) -> None:
    result = good(plan(without(BASE, old, new), state))
    assert triggers(result) == moved(P, trigger)
    assert actions(result) == {"nexus_kubernetes_cluster.a": "update"}


def test_zones_named_in_another_order_or_all_at_once_change_nothing() -> None:
    text = RACKS + cluster("a", pools=pool("p", 2, more='availability_zones = ["r0", "r1"]'))
    state = state_of(text)
    assert is_empty(good(plan(text.replace('"r0", "r1"', '"r1", "r0", "r1"'), state)))
    empty = RACKS + cluster("a", pools=pool("p", 2, more="availability_zones = []"))
    result = good(plan(RACKS + cluster("a", pools=pool("p", 2)), state_of(empty)))
    assert triggers(result) == {}


@pytest.mark.parametrize("mode", ['mode = "User"', "labels = {}", "availability_zones = null"])
def test_writing_a_default_out_moves_nobody(mode: str) -> None:
    state = state_of(RACKS + cluster("a", pools=pool("p", 2)))
    result = good(plan(RACKS + cluster("a", pools=pool("p", 2, more=mode)), state))
    assert triggers(result) == {}


def test_the_same_change_of_a_separate_pool(state: State) -> None:
    text = BASE.replace(
        agent_pool("own", "nexus_kubernetes_cluster.a.id", 2),
        agent_pool("own", "nexus_kubernetes_cluster.a.id", 2, more='mode = "System"'),
    )
    result = good(plan(text, state))
    assert triggers(result) == moved(OWN, "mode_changed")
    assert actions(result) == {"nexus_agent_pool.own": "update"}


def test_another_control_plane_replaces_the_cluster_and_its_separate_pools(state: State) -> None:
    text = BASE.replace(
        'count       = 2\n    vm_sku_name = "NC_G6_28_v1"\n  }\n  \n  agent_pool "p"',
        'count       = 2\n    vm_sku_name = "NC_G12_56_v1"\n  }\n  \n  agent_pool "p"',
    )
    assert text != BASE
    result = good(plan(text, state))
    assert triggers(result) == moved(PLANE | P | Q | OWN, "cluster_replaced")
    assert actions(result) == {"nexus_kubernetes_cluster.a": "delete-create", "nexus_agent_pool.own": "delete-create"}


def test_a_control_plane_may_grow_in_place(state: State) -> None:
    text = without(
        BASE,
        'count       = 2\n    vm_sku_name = "NC_G6_28_v1"\n  }\n  \n  agent_pool "p"',
        'count       = 3\n    vm_sku_name = "NC_G6_28_v1"\n  }\n  \n  agent_pool "p"',
    )
    assert triggers(good(plan(text, state))) == {"a-control-plane-2": ("place", "scale_out")}


def test_another_version_re_places_every_vm_of_the_cluster(state: State) -> None:
    result = good(plan(BASE.replace("1.30", "1.31"), state))
    assert triggers(result) == moved(PLANE | P | Q | OWN, "kubernetes_version_changed")
    assert actions(result) == {"nexus_kubernetes_cluster.a": "update", "nexus_agent_pool.own": "update"}
    assert is_empty(good(plan(BASE.replace("1.30", "1.31"), state_of(BASE.replace("1.30", "1.31"), state))))


def test_a_new_name_is_another_cluster(state: State) -> None:
    text = BASE.replace(
        'resource "nexus_kubernetes_cluster" "b" {', 'resource "nexus_kubernetes_cluster" "b" {\n name = "beta"'
    )
    found = triggers(good(plan(text, state)))
    assert {name: what for name, what in found.items() if name in B} == dict.fromkeys(B, ("remove", "cluster_replaced"))
    assert {what for name, what in found.items() if name not in B} == {("place", "cluster_replaced")}


def on(state: State, machine: str) -> set[str]:
    return {name for name, (host, _) in places(state).items() if host == machine}


OVERRIDE = """machine_count = 4
  dynamic "machine_override" {
    for_each = count.index == 0 ? [1] : []
    labels   = ["r0-bm01"]
    content {
      %s = true
    }
  }"""


def test_cordoning_moves_nobody_and_keeps_the_new_away(state: State) -> None:
    text = BASE.replace("machine_count = 4", OVERRIDE % "cordoned")
    assert triggers(good(plan(text, state))) == {}
    more = good(plan(text.replace('"q" {\n    count       = 2', '"q" {\n    count       = 12'), state))
    assert "r0-bm01" not in {r.target.machine for r in rows(more).values() if r.target}


def test_evacuating_moves_exactly_the_machines_vms_and_they_do_not_return(state: State) -> None:
    text = BASE.replace("machine_count = 4", OVERRIDE % "evacuate")
    result = good(plan(text, state))
    assert on(state, "r0-bm01")
    assert triggers(result) == moved(on(state, "r0-bm01"), "machine_evacuated")
    after = state_of(text, state)
    assert not on(after, "r0-bm01")
    assert triggers(good(plan(BASE, after))) == {}


def test_fewer_machines_move_exactly_the_vms_of_the_highest_slots(state: State) -> None:
    text = BASE.replace("machine_count = 4", "machine_count = count.index == 1 ? 3 : 4")
    assert on(state, "r1-bm04")
    assert triggers(good(plan(text, state))) == moved(on(state, "r1-bm04"), "machine_removed")


def test_more_machines_move_nobody(state: State) -> None:
    assert triggers(good(plan(BASE.replace("machine_count = 4", "machine_count = 7"), state))) == {}


def test_a_rack_taken_out_moves_exactly_its_vms(state: State) -> None:
    result = good(plan(BASE.replace("count         = 3", "count         = 2"), state))
    gone = {name for name, (host, _) in places(state).items() if host.startswith("r2-")}
    assert triggers(result) == moved(gone, "machine_removed")


def test_a_rack_put_under_another_address_creates_its_vms_again(state: State) -> None:
    racks = "".join(
        f'resource "nexus_rack" "x{i}" {{\n  name = "r{i}"\n  site_id = nexus_site.s.id\n  machine_count = 4\n}}\n'
        for i in range(3)
    )
    text = racks + 'resource "nexus_site" "s" {}\n' + BASE.replace(RACKS, "")
    result = good(plan(text, state))
    assert triggers(result) == moved(set(places(state)), "machine_replaced")
    made = [action for action in actions(result).values() if action != "update"]
    assert sorted(made) == [*["create"] * 3, *["delete"] * 3]


def test_a_machine_moved_to_its_own_resource_keeps_its_vms(state: State) -> None:
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
    assert triggers(good(plan(text, state))) == {}


def test_a_described_machine_that_is_cordoned_or_evacuates() -> None:
    own = """
resource "nexus_bare_metal_machine" "own" {
  rack_id     = nexus_rack.r[1].id
  name        = "r1-bm04"
  slot        = 4
  machine_sku = "bom-1.7.3"
  %s
}
"""
    state = state_of(BASE + own % "")
    assert on(state, "r1-bm04")
    for quiet in ("cordoned = true", 'power_state = "Off"', "ready_state = false", 'roles = ["other"]'):
        assert triggers(good(plan(BASE + own % quiet, state))) == {}, quiet
    result = good(plan(BASE + own % "evacuate = true", state))
    assert triggers(result) == moved(on(state, "r1-bm04"), "machine_evacuated")


def test_weaker_hardware_keeps_its_vms_and_warns() -> None:
    text = RACKS.replace("machine_count = 4", 'machine_count = 4\n  machine_sku = "bom-2.0"') + cluster(
        "a", pools=pool("p", 20, "NC_P54_224_v1")
    )
    state = state_of(text)
    result = good(plan(text.replace("bom-2.0", "bom-1.7.3"), state))
    assert triggers(result) == {}
    assert warnings(result)


def test_a_rebuilt_machine_of_the_same_name_keeps_its_vms(state: State) -> None:
    result = good(plan(BASE, state, replaces=("nexus_rack.r[0]",)))
    assert actions(result)["nexus_rack.r[0]"] == "delete-create"
    on_rack = {name: row for name, row in rows(result).items() if row.trigger == "machine_replaced"}
    assert on_rack.keys() == {name for name, (host, _) in places(state).items() if host.startswith("r0-")}
    assert all(row.source == row.target for row in on_rack.values())


def test_another_seed_or_spread_moves_nobody(state: State) -> None:
    scheduler = 'scheduler {\n    rack_spread = "cluster"\n    tie_break_seed = 3\n  }\n}'
    text = BASE.replace('"nexus_site" "s" {}', f'"nexus_site" "s" {{\n  {scheduler}')
    assert triggers(good(plan(text, state))) == {}


def test_replacing_a_resource_re_places_all_its_vms(state: State) -> None:
    result = good(plan(BASE, state, replaces=("nexus_agent_pool.own",)))
    assert triggers(result) == moved(OWN, "requested")
    result = good(plan(BASE, state, replaces=("nexus_kubernetes_cluster.b",)))
    assert triggers(result) == moved(B, "requested")


def test_replacing_a_cluster_replaces_its_separate_pools(state: State) -> None:
    found = triggers(good(plan(BASE, state, replaces=("nexus_kubernetes_cluster.a",))))
    assert found == moved(PLANE | P | Q, "requested") | moved(OWN, "cluster_replaced")


def test_heal_moves_one_vm_to_another_machine(state: State) -> None:
    result = good(plan(BASE, state, replaces=("nexus_kubernetes_cluster.a:a-p-1",)))
    assert triggers(result) == {"a-p-1": ("move", "heal")}
    row = rows(result)["a-p-1"]
    assert row.source is not None
    assert row.target is not None
    assert row.source.machine != row.target.machine


def test_heal_takes_its_own_machine_when_there_is_no_other() -> None:
    text = RACKS.replace("= 3\n", "= 1\n").replace("machine_count = 4", "machine_count = 1") + cluster("a")
    state = state_of(text)
    result = good(plan(text, state, replaces=("nexus_kubernetes_cluster.a:a-control-plane-0",)))
    row = rows(result)["a-control-plane-0"]
    assert (str(row.action), row.trigger, row.source) == ("move", "heal", row.target)


def test_heal_of_a_vm_that_is_not_there_is_refused(state: State) -> None:
    result = plan(BASE, state, replaces=("nexus_kubernetes_cluster.a:a-p-7",))
    assert result.plan.errored


def test_replace_of_an_address_that_is_not_there_is_refused(state: State) -> None:
    assert plan(BASE, state, replaces=("nexus_kubernetes_cluster.zz",)).plan.errored


def drifted(state: State, address: str, gone: str) -> dict[object, object]:
    old = state.instances[at(address)].current
    assert old is not None
    nodes = {n: v for n, v in old.attributes["nodes"].items() if n != gone}
    return {at(address): exchanged(old, attributes={**old.attributes, "nodes": nodes})}


def test_a_node_deleted_behind_our_back_comes_again(state: State) -> None:
    found = drifted(state, "nexus_kubernetes_cluster.a", "a-p-1")
    result = good(plan(BASE, state, refreshed_objects=found))
    assert triggers(result) == {"a-p-1": ("place", "node_deleted")}


def test_an_object_that_is_gone_is_made_again(state: State) -> None:
    result = good(plan(BASE, state, refreshed_objects={at("nexus_kubernetes_cluster.b"): None}))
    assert actions(result)["nexus_kubernetes_cluster.b"] == "create"
    assert set(triggers(result)) == B


def test_a_vm_observed_elsewhere_stays_there(state: State) -> None:
    old = state.instances[at("nexus_kubernetes_cluster.b")].current
    assert old is not None
    node = {
        **old.attributes["nodes"]["b-p-0"],
        "machine": "r2-bm03",
        "rack": "r2",
        "availability_zone": "r2",
        "provenance": "observed",
    }
    found = exchanged(old, attributes={**old.attributes, "nodes": {**old.attributes["nodes"], "b-p-0": node}})
    result = good(plan(BASE, state, refreshed_objects={at("nexus_kubernetes_cluster.b"): found}))
    assert triggers(result) == {}
    after = change_of(result.plan, "nexus_kubernetes_cluster.b").after
    assert after is not None
    assert after["nodes"]["b-p-0"]["machine"] == "r2-bm03"
    assert after["nodes"]["b-p-0"]["provenance"] == "observed"


def test_a_tainted_cluster_is_replaced(state: State) -> None:
    address = at("nexus_kubernetes_cluster.b")
    old = state.instances[address].current
    assert old is not None
    tainted = state.replace_instance(address, InstanceState(exchanged(old, tainted=True)))
    result = good(plan(BASE, tainted))
    assert actions(result) == {"nexus_kubernetes_cluster.b": "delete-create"}
    assert triggers(result) == moved(B, "cluster_replaced")
    assert change_of(result.plan, "nexus_kubernetes_cluster.b").reason == "replace_because_tainted"


# --- several at once: the first of the list ----------------------------------------------------

EVACUATED = ("machine_count = 4", "the machine of a-p-0 is evacuated")


def evacuated(text: str, machine: str) -> str:
    override = (OVERRIDE % "evacuate").replace("r0-bm01", machine).replace("== 0", f"== {machine[1]}")
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
            [('{ x = "1" }', '{ x = "2" }\n mode = "System"\n taint {\n key = "k"\n effect = "NoExecute"\n}')],
            (),
            "labels_changed",
        ),
        (
            [('{ x = "1" }', '{ x = "1" }\n mode = "System"\n taint {\n key = "k"\n effect = "NoExecute"\n}')],
            (),
            "taints_changed",
        ),
    ],
)
def test_of_several_triggers_the_first_of_the_list_is_named(
    state: State, edits: list[tuple[str, str]], replaces: tuple[str, ...], first: str
) -> None:
    text = BASE
    for old, new in edits:
        text = evacuated(text, places(state)["a-p-0"][0]) if new == EVACUATED[1] else text.replace(old, new)
    result = good(plan(text, state, replaces=replaces))
    assert triggers(result)["a-p-0"] == ("move", first)


def test_a_pool_that_goes_says_so_even_when_its_machine_goes_too(state: State) -> None:
    text = evacuated(BASE, places(state)["a-p-0"][0]).replace(pool("p", 3, BIG, 'labels = { x = "1" }'), "")
    found = triggers(good(plan(text, state)))
    assert {what for name, what in found.items() if name in P} == {("remove", "pool_removed")}


def test_heal_and_a_replaced_cluster() -> None:
    text = BASE.replace('a" {\n  site_id', 'a" {\n  name = "a"\n  site_id')
    state = state_of(text)
    result = good(plan(text, state, replaces=("nexus_kubernetes_cluster.a", "nexus_kubernetes_cluster.a:a-p-0")))
    found = triggers(result)
    assert found["a-p-0"] == ("move", "heal")
    assert found["a-p-1"] == ("move", "requested")


def test_what_leaves_frees_its_room_for_what_comes_in_the_same_plan() -> None:
    one = RACKS.replace("= 3\n", "= 1\n").replace("machine_count = 4", "machine_count = 1")
    text = one + cluster("a", pools=pool("p", 1, BIG))
    state = state_of(text)
    other = one + cluster("b", pools=pool("p", 1, BIG))
    found = triggers(good(plan(other, state)))
    assert found["a-p-0"] == ("remove", "cluster_removed")
    assert found["b-p-0"] == ("place", "new")
    shrunk = one + cluster("a", pools=pool("p", 0, BIG)) + cluster("b", pools=pool("p", 1, BIG))
    assert triggers(good(plan(shrunk, state)))["b-p-0"] == ("place", "new")


def test_a_vm_that_lost_its_machine_comes_before_a_new_cluster() -> None:
    racks = RACKS.replace("= 3\n", "= 2\n").replace("machine_count = 4", "machine_count = 1")
    state = state_of(racks + cluster("a", pools=pool("p", 1, BIG), plane=BIG))
    (machine,) = {host for host, _ in [places(state)["a-p-0"]]}
    lost = 0 if machine.startswith("r0") else 1
    text = racks.replace("machine_count = 1", f"machine_count = count.index == {lost} ? 0 : 1")
    result = plan(cluster("b", plane=BIG) + text + cluster("a", pools=pool("p", 1, BIG), plane=BIG), state)
    assert triggers(result)["a-p-0"] == ("move", "machine_removed")
    assert result.plan.errored
    assert {d.address for d in result.plan.diagnostics if d.id == "insufficient-capacity"} == {
        "nexus_kubernetes_cluster.b"
    }


# --- the last System pool --------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.30", "1.31"])
def test_the_last_system_pool_is_not_replaced_whatever_else_changes(version: str) -> None:
    text = RACKS + cluster("a", arguments='kubernetes_version = "1.30"', pools=pool("p", 1, more='mode = "System"'))
    state = state_of(text)
    changed = text.replace('"1.30"', f'"{version}"', 1).replace("mode =", 'labels = { x = "y" }\n    mode =')
    (found,) = plan(changed, state).plan.diagnostics
    assert found.summary == "Last System pool replacement"
    two = pool("p", 1, more='mode = "System"') + pool("q", 1, more='mode = "System"')
    both = RACKS + cluster("a", arguments='kubernetes_version = "1.30"', pools=two)
    other = both.replace("mode =", 'labels = { x = "y" }\n    mode =', 1)
    assert triggers(good(plan(other, state_of(both)))) == {"a-p-0": ("move", "labels_changed")}


def test_a_cluster_that_loses_its_system_pools_is_told() -> None:
    system = pool("p", 1, more='mode = "System"')
    user = pool("q", 1)
    state = state_of(RACKS + cluster("a", pools=system + user))
    gone = good(plan(RACKS + cluster("a", pools=user), state))
    assert [d.id for d in gone.plan.diagnostics] == ["system-pools-removed"]
    other = good(plan(RACKS + cluster("a", pools=pool("r", 1, more='mode = "System"')), state))
    assert not other.plan.diagnostics
    assert not good(plan(RACKS, state)).plan.diagnostics
    assert not good(plan(RACKS + cluster("a", pools=user), state_of(RACKS + cluster("a", pools=user)))).plan.diagnostics
