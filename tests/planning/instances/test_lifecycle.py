"""create_before_destroy, ignore_changes, prevent_destroy, replace_triggered_by, conditions, moved,
removed, deposed objects and taint, as far as they bear on placements.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace as exchanged

from nexusform.plans.plan import Action, Mode, StepKind
from nexusform.state.objects import InstanceState, State
from tests.planning.harness import (
    RACKS,
    Unreadable,
    actions,
    agent_pool,
    at,
    attributes,
    change_of,
    cluster,
    errors,
    good,
    is_empty,
    line_of,
    places,
    plan,
    pool,
    rows,
    state_of,
    triggers,
    warnings,
)
from tests.planning.step_runner import check_counts, run

BIG = "NC_P46_224_v1"
FIRST = "lifecycle {\n create_before_destroy = true\n}"
ONE = RACKS.replace("= 3\n", "= 1\n")


def bigger_plane(text: str) -> str:
    """Another control-plane SKU: the cluster is replaced."""
    return text.replace('"NC_G6_28_v1"', '"NC_G12_56_v1"', 1)


# --- create_before_destroy ---------------------------------------------------------------------


def test_what_goes_is_still_known_to_be_replaced_create_first() -> None:
    """Where its delete fails, state goes on saying so."""
    text = ONE + cluster("a", arguments=FIRST) + cluster("b")
    result = good(plan(ONE, state_of(text)))
    assert actions(result) == {"nexus_kubernetes_cluster.a": "delete", "nexus_kubernetes_cluster.b": "delete"}
    assert change_of(result.plan, "nexus_kubernetes_cluster.a").create_before_destroy
    assert not change_of(result.plan, "nexus_kubernetes_cluster.b").create_before_destroy


def test_created_first_the_old_vms_keep_their_places_meanwhile() -> None:
    text = ONE + cluster("a", arguments=FIRST, pools=pool("p", 2, BIG))
    state = state_of(text)
    result = good(plan(bigger_plane(text), state))
    assert actions(result) == {"nexus_kubernetes_cluster.a": "create-delete"}
    for name, row in rows(result).items():
        assert row.source is not None
        assert row.target is not None
        assert (row.action, row.trigger) == ("move", "cluster_replaced")
        if "-p-" in name:
            here, there = row.source, row.target
            assert (here.machine, here.cells) != (there.machine, there.cells)
    run(result.plan, state, 1)
    check_counts(result.plan)


def test_without_room_for_both_creating_first_does_not_fit() -> None:
    text = ONE.replace("machine_count = 4", "machine_count = 1") + cluster(
        "a", arguments=FIRST, pools=pool("p", 1, BIG)
    )
    state = state_of(text)
    assert {d.id for d in errors(plan(bigger_plane(text), state))} == {"insufficient-capacity"}
    assert not plan(bigger_plane(text.replace(FIRST, "")), state_of(text.replace(FIRST, ""))).plan.errored


def test_the_room_of_the_old_is_free_in_the_next_plan() -> None:
    text = ONE + cluster("a", arguments=FIRST, pools=pool("p", 3, BIG))
    after = bigger_plane(text)
    state = state_of(after, state_of(text))
    more = after.replace("count       = 3", "count       = 7")
    assert len(places(state_of(more, state))) == 8


def test_creating_first_spreads_to_what_it_depends_on() -> None:
    text = RACKS + cluster("a") + agent_pool("own", "nexus_kubernetes_cluster.a.id", 1, more=FIRST)
    result = good(plan(bigger_plane(text), state_of(text)))
    assert actions(result) == {"nexus_kubernetes_cluster.a": "create-delete", "nexus_agent_pool.own": "create-delete"}
    run(result.plan, state_of(text), 2)


# --- ignore_changes, prevent_destroy, triggers, conditions ---------------------------------------


def test_an_ignored_count_keeps_what_stands() -> None:
    ignored = 'lifecycle {\n ignore_changes = [agent_pool["np1"].count]\n}'
    text = RACKS + cluster("a", arguments=ignored, pools=pool("np1", 3) + pool("np2", 1))
    state = state_of(text)
    changed = text.replace("count       = 3", "count       = 5")
    assert is_empty(good(plan(changed, state)))
    both = changed.replace('"np2" {\n    count       = 1', '"np2" {\n    count       = 2')
    assert triggers(good(plan(both, state))) == {"a-np2-1": ("place", "scale_out")}


@pytest.mark.parametrize("ignored", ["agent_pool", "all", "[agent_pool]", 'agent_pool["np1"]'])
def test_wider_ignores(ignored: str) -> None:
    listed = ignored if ignored == "all" or ignored.startswith("[") else f"[{ignored}]"
    text = RACKS + cluster("a", arguments=f"lifecycle {{\n ignore_changes = {listed}\n}}", pools=pool("np1", 3))
    state = state_of(text)
    changed = text.replace("count       = 3", "count       = 5").replace(
        'vm_sku_name = "NC_G6_28_v1"\n    \n', f'vm_sku_name = "{BIG}"\n labels = {{ a = "b" }}\n'
    )
    assert changed != text
    assert is_empty(good(plan(changed, state)))


def test_an_ignored_label_re_places_nobody() -> None:
    text = RACKS + cluster(
        "a",
        arguments='lifecycle {\n ignore_changes = [agent_pool["p"].labels]\n}',
        pools=pool("p", 1, more='labels = { a = "b" }'),
    )
    assert is_empty(good(plan(text.replace('"b"', '"c"'), state_of(text))))


def test_destroy_false_forgets_a_removed_object_and_keeps_its_capacity() -> None:
    kept = "lifecycle {\n destroy = false\n}"
    text = RACKS + cluster("a", arguments=kept, pools=pool("p", 3)) + cluster("b", pools=pool("p", 1))
    state = state_of(text)
    kept_objects = [
        str(name) for name, there in state.instances.items() if there.current and there.current.skip_destroy
    ]
    assert kept_objects == ["nexus_kubernetes_cluster.a"]
    # The state remembers it once the block is removed.
    removed = good(plan(RACKS, state))
    assert actions(removed) == {"nexus_kubernetes_cluster.a": "forget", "nexus_kubernetes_cluster.b": "delete"}
    assert {d.id for d in warnings(removed)} == {"object-to-forget"}
    assert {row.action for name, row in rows(removed).items() if name.startswith("a-")} == {"forget"}
    # An existing block decides again, with no other change to the object.
    normal = text.replace(kept, "")
    assert is_empty(good(plan(normal, state)))
    assert actions(plan(RACKS, state_of(normal, state)))["nexus_kubernetes_cluster.a"] == "delete"
    # A removed block outranks the state.
    statement = "removed {\n from = nexus_kubernetes_cluster.a\n lifecycle {\n destroy = true\n }\n}\n"
    assert actions(plan(RACKS + statement, state))["nexus_kubernetes_cluster.a"] == "delete"


def test_destroy_false_forgets_in_destroy_plans_and_with_a_smaller_count() -> None:
    kept = 'count = 2\n name = "a${count.index}"\n lifecycle {\n destroy = false\n}'
    text = RACKS + cluster("a", arguments=kept)
    state = state_of(text)
    fewer = good(plan(text.replace("count = 2", "count = 1"), state))
    assert actions(fewer) == {"nexus_kubernetes_cluster.a[1]": "forget"}
    destroyed = actions(plan(text, state, mode=Mode.DESTROY))
    assert {destroyed[f"nexus_kubernetes_cluster.a[{index}]"] for index in (0, 1)} == {"forget"}
    assert set(destroyed.values()) == {"forget", "delete"}


def test_an_object_with_destroy_false_is_not_replaced() -> None:
    kept = "lifecycle {\n destroy = false\n}"
    text = RACKS + cluster("a", arguments=kept, pools=pool("p", 1))
    result = plan(bigger_plane(text), state_of(text))
    assert {d.id for d in errors(result)} == {"kept-object-to-replace"}


@pytest.mark.parametrize("value", ["var.x", '"no"', "uuid()"])
def test_destroy_is_a_constant(value: str) -> None:
    with pytest.raises(Unreadable):
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
def test_prevent_destroy_takes_an_expression(value: str, found: list[str]) -> None:
    variable = 'variable "stage" {\n  default = "prod"\n}\n'
    text = variable + RACKS + cluster("a", arguments="lifecycle {\n prevent_destroy = null\n}")
    state = state_of(text)
    assert [d.id for d in errors(plan(text.replace("= null", f"= {value}"), state, mode=Mode.DESTROY))] == found


@pytest.mark.parametrize("protection", ["true", "local.protected"])
@pytest.mark.parametrize("how", ["replace", "destroy", "taken out of count"])
def test_prevent_destroy_names_the_instance_and_its_line(how: str, protection: str) -> None:
    guard = f"lifecycle {{\n prevent_destroy = {protection}\n}}"
    text = (
        "locals {\n  protected = true\n}\n"
        + RACKS
        + cluster("a", arguments=guard + '\n count = 1\n name = "a${count.index}"')
    )
    state = state_of(text)
    options = {"mode": Mode.DESTROY} if how == "destroy" else {}
    changed = {"replace": bigger_plane(text), "destroy": text}.get(
        how, text.replace("\n count = 1\n", "\n count = 0\n")
    )
    (found,) = errors(plan(changed, state, **options))
    assert "nexus_kubernetes_cluster.a[0]" in found.detail
    assert line_of(found)[1] == text[: text.index('resource "nexus_kubernetes_cluster"')].count("\n") + 1


def test_replace_triggered_by_another_resource() -> None:
    text = (
        RACKS
        + cluster("a", pools=pool("p", 1))
        + cluster("b", arguments="lifecycle {\n replace_triggered_by = [nexus_kubernetes_cluster.a.agent_pool]\n}")
    )
    state = state_of(text)
    result = good(plan(text.replace('"p" {\n    count       = 1', '"p" {\n    count       = 2'), state))
    assert triggers(result) == {"a-p-1": ("place", "scale_out"), "b-control-plane-0": ("move", "cluster_replaced")}
    assert change_of(result.plan, "nexus_kubernetes_cluster.b").reason == "replace_by_triggers"
    assert triggers(
        good(
            plan(
                text.replace(
                    'count       = 1\n    vm_sku_name = "NC_G6_28_v1"\n  }\n  \n  agent_pool',
                    'count       = 2\n    vm_sku_name = "NC_G6_28_v1"\n  }\n  \n  agent_pool',
                ),
                state,
            )
        )
    ) == {"a-control-plane-1": ("place", "scale_out")}


def test_conditions_see_placements() -> None:
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
    assert not errors(plan(text))
    (found,) = errors(plan(text.replace("== 3", "== 2")))
    assert "shares machines: 3" in found.detail
    assert line_of(found)[1] > 9


def test_a_failing_precondition_stops_the_plan() -> None:
    text = RACKS + cluster(
        "a", arguments='lifecycle {\n precondition {\n condition = path.root == ""\n error_message = "no"\n}\n}'
    )
    (found,) = errors(plan(text))
    assert "no" in found.detail


# --- moved and removed -------------------------------------------------------------------------


def moved(source: str, target: str) -> str:
    return f"\nmoved {{\n from = {source}\n to = {target}\n}}\n"


def test_a_renamed_cluster_keeps_its_vms() -> None:
    text = RACKS + cluster("a", arguments='name = "a"', pools=pool("p", 2))
    state = state_of(text)
    renamed = text.replace('"nexus_kubernetes_cluster" "a"', '"nexus_kubernetes_cluster" "z"')
    result = good(plan(renamed + moved("nexus_kubernetes_cluster.a", "nexus_kubernetes_cluster.z"), state))
    assert triggers(result) == {}
    assert (result.plan.to_add, result.plan.to_change, result.plan.to_destroy) == (0, 0, 0)
    assert result.plan.has_changes
    after = state_of(renamed + moved("nexus_kubernetes_cluster.a", "nexus_kubernetes_cluster.z"), state)
    assert is_empty(good(plan(renamed, after)))


@pytest.mark.parametrize("chain", [True, False])
def test_moves_follow_one_another(chain: bool) -> None:
    text = RACKS + cluster("a", arguments='name = "a"')
    first, second = "nexus_kubernetes_cluster.m", "nexus_kubernetes_cluster.z"
    steps = [moved("nexus_kubernetes_cluster.a", first), moved(first, second)]
    renamed = text.replace('"nexus_kubernetes_cluster" "a"', '"nexus_kubernetes_cluster" "z"')
    result = good(plan(renamed + "".join(steps if chain else reversed(steps)), state_of(text)))
    assert triggers(result) == {}


def test_moves_in_a_circle_are_an_error() -> None:
    text = RACKS + cluster("a") + cluster("b")
    one, other = "nexus_kubernetes_cluster.a", "nexus_kubernetes_cluster.b"
    around = moved(one, other) + moved(other, one)
    assert {d.id for d in errors(plan(RACKS + around, state_of(text)))} == {"cyclic-dependency-in-move-statements"}
    # Nothing stands, and it is told all the same; where both are declared, that is what is wrong.
    assert [d.id for d in errors(plan(RACKS + around))] == ["cyclic-dependency-in-move-statements"]
    assert {d.id for d in errors(plan(text + around, state_of(text)))} == {"moved-object-still-exists"}


def test_what_is_merely_created_triggers_nobody() -> None:
    sites = 'resource "nexus_site" "x" {\n count = 2\n name = "x${count.index}"\n}\n'
    rack = (
        'resource "nexus_rack" "watcher" {\n site_id = nexus_site.x[0].id\n name = "w"\n'
        " machine_count = 1\n lifecycle {\n replace_triggered_by = [nexus_site.x]\n }\n}\n"
    )
    state = state_of(sites + rack)
    grown = good(plan(sites.replace("count = 2", "count = 3") + rack, state))
    assert (grown.plan.to_add, grown.plan.to_destroy) == (1, 0)
    shrunk = good(plan(sites.replace("count = 2", "count = 1") + rack, state))
    assert (shrunk.plan.to_add, shrunk.plan.to_destroy) == (0, 1)
    renamed = good(plan(sites.replace('"x${', '"y${') + rack, state))
    assert change_of(renamed.plan, "nexus_rack.watcher").action is Action.REPLACE


def test_single_to_count_and_back_moves_nobody() -> None:
    text = RACKS + cluster("a", arguments='name = "a"', pools=pool("p", 2))
    counted = text.replace('name = "a"', 'name = "a"\n count = 1')
    state = state_of(text)
    there = good(plan(counted, state))
    assert (triggers(there), there.plan.to_add) == ({}, 0)
    back = good(plan(text, state_of(counted, state)))
    assert (triggers(back), back.plan.to_add) == ({}, 0)


def test_count_to_for_each_with_moved_blocks() -> None:
    text = RACKS + cluster("a", arguments='count = 2\n name = "a${count.index}"')
    keyed = RACKS + cluster("a", arguments='for_each = { x = "a0", y = "a1" }\n name = each.value')
    old, new = "nexus_kubernetes_cluster.a[{}]", 'nexus_kubernetes_cluster.a["{}"]'
    moves = moved(old.format(0), new.format("x")) + moved(old.format(1), new.format("y"))
    result = good(plan(keyed + moves, state_of(text)))
    assert triggers(result) == {}
    assert result.plan.to_destroy == 0


MODULE = {
    "m/main.nf.hcl": 'variable "site" {}\n' + cluster("a", pools=pool("p", 1)).replace("nexus_site.s.id", "var.site")
}
CALL = '\nmodule "m" {\n  source = "./m"\n  site = nexus_site.s.id\n}\n'


def test_into_a_module_and_a_module_renamed() -> None:
    flat = RACKS + cluster("a", pools=pool("p", 1))
    state = state_of(flat)
    into = moved("nexus_kubernetes_cluster.a", "module.m.nexus_kubernetes_cluster.a")
    files = {"main.nf.hcl": RACKS + CALL + into, **MODULE}
    assert triggers(good(plan(files, state))) == {}
    inside = state_of(files, state)
    renamed = RACKS + CALL.replace('"m"', '"n"') + moved("module.m", "module.n")
    result = good(plan({"main.nf.hcl": renamed, **MODULE}, inside))
    assert triggers(result) == {}
    assert result.plan.to_add == 0
    keyed = RACKS + CALL.replace("source", 'for_each = toset(["k"])\n  source') + moved("module.m", 'module.m["k"]')
    result = good(plan({"main.nf.hcl": keyed, **MODULE}, inside))
    assert triggers(result) == {}


def test_the_room_of_a_forgotten_cluster_is_promised_to_nobody() -> None:
    """Its VMs run on: who takes their room would not find it."""
    one = ONE.replace("machine_count = 4", "machine_count = 1")
    state = state_of(one + cluster("a", plane=BIG, pools=pool("p", 1, BIG)))
    forget = "\nremoved {\n from = nexus_kubernetes_cluster.a\n lifecycle {\n destroy = false\n}\n}\n"
    refused = plan(one + forget + cluster("b", plane=BIG, pools=pool("p", 1, BIG)), state)
    assert {d.id for d in errors(refused)} == {"insufficient-capacity"}
    result = good(plan(one + forget, state))
    assert actions(result) == {"nexus_kubernetes_cluster.a": "forget"}
    assert result.plan.to_destroy == 0
    assert any("nexus_kubernetes_cluster.a" in d.detail for d in warnings(result))
    assert {s.kind for s in result.plan.steps} == {StepKind.FORGET}
    assert {(row.action, row.trigger) for row in result.plan.placements} == {("forget", "cluster_removed")}
    (total,) = result.plan.placement_totals
    assert (total.before, total.forgotten, total.after) == (2, 2, 0)
    check_counts(result.plan)


def test_removed_with_destroy_deletes() -> None:
    state = state_of(RACKS + cluster("a"))
    gone = "\nremoved {\n from = nexus_kubernetes_cluster.a\n lifecycle {\n destroy = true\n}\n}\n"
    assert actions(good(plan(RACKS + gone, state))) == {"nexus_kubernetes_cluster.a": "delete"}


# --- deposed and tainted -------------------------------------------------------------------------


def with_deposed(state: State, address: str) -> State:
    current = state.instances[at(address)].current
    assert current is not None
    old = exchanged(current, creation=90)
    return exchanged(state.replace_instance(at(address), InstanceState(current, {"00c0ffee": old})), last_creation=90)


def test_a_deposed_object_is_deleted_by_the_next_plan_and_moves_nobody() -> None:
    text = RACKS + cluster("a", pools=pool("p", 1))
    state = with_deposed(state_of(text), "nexus_kubernetes_cluster.a")
    result = good(plan(text, state))
    assert triggers(result) == {}
    assert result.plan.to_destroy == 1
    (change,) = [c for c in result.plan.changes if c.deposed]
    assert (change.deposed, change.prior_creation) == ("00c0ffee", 90)
    run(result.plan, state, 3, cell=(480, 2240))
    check_counts(result.plan)


def test_a_destroy_takes_deposed_objects_too() -> None:
    text = RACKS + cluster("a")
    state = with_deposed(state_of(text), "nexus_kubernetes_cluster.a")
    result = good(plan(text, state, mode=Mode.DESTROY))
    assert len(run(result.plan, state, 4, cell=(480, 2240)).objects) == 0
    check_counts(result.plan)


def test_an_address_with_nothing_but_a_deposed_object() -> None:
    text = RACKS + cluster("a")
    state = state_of(text)
    only = with_deposed(state, "nexus_kubernetes_cluster.a")
    address = at("nexus_kubernetes_cluster.a")
    only = only.replace_instance(address, InstanceState(None, only.instances[address].deposed))
    result = good(plan(text, only))
    assert (result.plan.to_add, result.plan.to_destroy) == (1, 1)
    assert triggers(result) == {"a-control-plane-0": ("place", "new")}
    gone = good(plan(RACKS, only))
    assert (gone.plan.to_add, gone.plan.to_destroy) == (0, 1)


def test_a_tainted_rack_is_made_again_and_its_vms_with_it() -> None:
    text = RACKS + cluster("a", count=3)
    state = state_of(text)
    address = at("nexus_rack.r[1]")
    current = state.instances[address].current
    assert current is not None
    result = good(plan(text, state.replace_instance(address, InstanceState(exchanged(current, tainted=True)))))
    assert actions(result) == {"nexus_rack.r[1]": "delete-create", "nexus_kubernetes_cluster.a": "update"}
    assert {trigger for _, trigger in triggers(result).values()} == {"machine_replaced"}


# --- late blocks, dynamic pools ------------------------------------------------------------------

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
"""
)


def test_a_count_that_depends_on_a_placement_is_known_in_the_plan() -> None:
    text = LATE.replace("WANTED", "2")
    state = state_of(text)
    assert {"late0-control-plane-0", "late1-control-plane-0"} <= set(places(state))
    assert is_empty(good(plan(text, state)))
    fewer = good(plan(LATE.replace("WANTED", "1"), state))
    assert triggers(fewer) == {"late1-control-plane-0": ("remove", "cluster_removed")}
    run(fewer.plan, state, 5)


def test_a_late_block_loses_a_machine_too() -> None:
    text = LATE.replace("WANTED", "3")
    state = state_of(text)
    victim = places(state)["late1-control-plane-0"][0]
    rack = int(victim[1])
    lost = int(victim[-1]) - 1
    shrunk = text.replace("machine_count = 4", f"machine_count = count.index == {rack} ? {lost} : 4")
    if not any(
        m.startswith(f"r{rack}-") and int(m[-1]) > lost and "late" not in n for n, (m, _) in places(state).items()
    ):
        found = triggers(good(plan(shrunk, state)))
        assert found["late1-control-plane-0"] == ("move", "machine_removed")


def test_a_pinned_vm_follows_the_placement_it_refers_to() -> None:
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
    state = state_of(text)
    assert places(state)["w"][0] == places(state)["a-control-plane-0"][0]
    assert is_empty(good(plan(text, state)))
    healed = good(plan(text, state, replaces=("nexus_kubernetes_cluster.a:a-control-plane-0",)))
    target = rows(healed)["w"].target
    there = rows(healed)["a-control-plane-0"].target
    assert target is not None
    assert there is not None
    assert target.machine == there.machine


def test_dynamic_pools_come_and_go() -> None:
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
    state = state_of(text.replace("NAMES", '["x", "y"]'))
    result = good(plan(text.replace("NAMES", '["z", "y"]'), state))
    assert triggers(result) == {"a-x-0": ("remove", "pool_removed"), "a-z-0": ("place", "new")}
    assert list(attributes(state, "nexus_kubernetes_cluster.a")["nodes"]) == ["a-control-plane-0", "a-x-0", "a-y-0"]


def test_references_to_placements_reach_outputs() -> None:
    text = (
        RACKS
        + cluster("a")
        + '\noutput "m" {\n value = nexus_kubernetes_cluster.a.nodes["a-control-plane-0"].machine\n}\n'
    )
    result = good(plan(text))
    assert result.plan.planned_outputs["m"].value == places(state_of(text))["a-control-plane-0"][0]
