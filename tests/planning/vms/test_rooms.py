"""Machines as they are: hints, pinned VMs, occupied machines, described slots, planned racks."""

from __future__ import annotations

import random

import pytest

from tests.planning.harness import (
    RACKS,
    SITE,
    agent_pool,
    attributes,
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
    vms,
    warnings,
)
from tests.planning.harness import applied as state_after

BIG = "NC_P46_224_v1"
ONE = RACKS.replace("= 3\n", "= 1\n")


def vm(name: str, more: str = "", cpus: int = 4, memory: int = 16, disk: int = 10) -> str:
    return f"""
resource "nexus_virtual_machine" "{name}" {{
  site_id    = nexus_site.s.id
  cpu_cores  = {cpus}
  memory_gib = {memory}
  disk_gib   = {disk}
  {more}
}}
"""


def hint(kind: str, target: str, how: str, scope: str) -> str:
    return f"""placement_hint {{
    hint_type            = "{kind}"
    resource_id          = {target}
    scheduling_execution = "{how}"
    scope                = "{scope}"
  }}"""


def machine(more: str, slot: int = 4, rack: str = "nexus_rack.r[0].id", sku: str = 'machine_sku = "bom-1.7.3"') -> str:
    return f"""
resource "nexus_bare_metal_machine" "m" {{
  rack_id = {rack}
  slot    = {slot}
  {sku}
  {more}
}}
"""


# --- hints ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["Hard", "Soft"])
@pytest.mark.parametrize(("scope", "part"), [("Machine", "machine"), ("Rack", "rack")])
def test_hints_bring_together_and_keep_apart(how: str, scope: str, part: str) -> None:
    # A soft hint about machines is looked at when the rack is chosen: one rack shows it.
    racks = ONE if (how, scope) == ("Soft", "Machine") else RACKS
    text = racks + vm("first") + vm("near", hint("Affinity", "nexus_virtual_machine.first.id", how, scope))
    text += vm("far", hint("AntiAffinity", "nexus_virtual_machine.first.id", how, scope))
    state = state_of(text)
    found = {name: values[part] for name, values in vms(state).items()}
    assert found["near"] == found["first"] != found["far"]
    assert is_empty(good(plan(text, state)))


def test_a_hard_hint_that_nothing_satisfies_does_not_fit_and_a_soft_one_does() -> None:
    text = ONE + vm("first") + vm("far", hint("AntiAffinity", "nexus_virtual_machine.first.id", "Hard", "Rack"))
    (found,) = errors(plan(text))
    assert found.id == "insufficient-capacity"
    assert "s/first" in found.detail
    assert len(places(state_of(text.replace("Hard", "Soft")))) == 2


@pytest.mark.parametrize(("target", "rack"), [('"s/r1"', "r1"), ("nexus_rack.r[2].id", "r2"), ('"s/r1/r1-bm02"', "r1")])
def test_hints_may_name_racks_and_machines(target: str, rack: str) -> None:
    text = RACKS + vm("v", hint("Affinity", target, "Hard", "Rack"))
    assert vms(state_of(text))["v"]["rack"] == rack


def test_a_hint_may_name_a_cluster() -> None:
    text = (
        RACKS + cluster("a", count=2) + vm("v", hint("AntiAffinity", "nexus_kubernetes_cluster.a.id", "Hard", "Rack"))
    )
    found = vms(state_of(text))
    assert found["v"]["rack"] not in {n["rack"] for name, n in found.items() if name != "v"}


def test_a_hint_at_nothing_is_an_error_at_its_line() -> None:
    (found,) = errors(plan(RACKS + vm("v", hint("Affinity", '"s/nothing"', "Hard", "Rack"))))
    assert "s/nothing" in found.detail
    assert line_of(found)[1] > RACKS.count("\n") + 6


def test_a_hinted_vm_stays_when_its_target_moves() -> None:
    text = RACKS + vm("first") + vm("near", hint("Affinity", "nexus_virtual_machine.first.id", "Hard", "Machine"))
    state = state_of(text)
    result = good(plan(text, state, replaces=("nexus_virtual_machine.first:first",)))
    assert triggers(result) == {"first": ("move", "heal")}


def small(racks: int, machines: int) -> str:
    return RACKS.replace("= 3\n", f"= {racks}\n").replace("machine_count = 4", f"machine_count = {machines}")


@pytest.mark.parametrize(("scope", "site"), [("Machine", small(1, 2)), ("Rack", small(2, 1))])
def test_a_hard_hint_holds_when_its_target_moves(scope: str, site: str) -> None:
    """A healed VM goes elsewhere where it can: here that is where the other VM wants it not to be."""
    text = site + vm("first")
    text += vm("far", hint("AntiAffinity", "nexus_virtual_machine.first.id", "Hard", scope))
    state = state_of(text)
    result = good(plan(text, state, replaces=("nexus_virtual_machine.first:first",)))
    assert triggers(result) == {"first": ("move", "heal")}
    assert places(state_after(result, state)) == places(state)


def test_where_only_the_hint_of_another_refuses_the_plan_says_so() -> None:
    text = small(2, 1) + vm("first")
    text += vm("far", hint("AntiAffinity", "nexus_virtual_machine.first.id", "Hard", "Rack"))
    state = state_of(text)
    kept = vms(state)["far"]["rack"].removeprefix("r")
    less = text.replace("machine_count = 1", f"machine_count = count.index == {kept} ? 1 : 0")
    (problem,) = errors(plan(less, state))
    assert "not on the same rack as nexus_virtual_machine.far, whose hint names it" in problem.detail


@pytest.mark.parametrize("seed", range(8))
def test_hard_hints_hold_over_random_walks_of_heals(seed: int) -> None:
    chance = random.Random(seed)
    names = ["a", "b", "c", "d"]
    text = small(2, 2)
    kept_apart = []
    for position, name in enumerate(names):
        others = chance.sample(names[:position], min(position, 2))
        kept_apart += [(name, other) for other in others]
        hints = [hint("AntiAffinity", f"nexus_virtual_machine.{o}.id", "Hard", "Machine") for o in others]
        text += vm(name, "\n  ".join(hints))
    state = state_of(text)
    for _ in range(12):
        healed = chance.sample(names, chance.randint(1, 3))
        replaces = tuple(f"nexus_virtual_machine.{name}:{name}" for name in healed)
        result = plan(text, state, replaces=replaces)
        if errors(result):
            continue
        state = state_after(result, state)
        standing = vms(state)
        for one, other in kept_apart:
            assert standing[one]["machine"] != standing[other]["machine"], (healed, one, other)


# --- pinned VMs ----------------------------------------------------------------------------------


def test_a_pinned_vm_stands_where_it_was_put() -> None:
    text = RACKS + vm("v", 'machine = "r1-bm03"')
    state = state_of(text)
    assert places(state)["v"] == ("r1-bm03", (0,))
    assert is_empty(good(plan(text, state)))
    moved = good(plan(text.replace("r1-bm03", "r2-bm01"), state))
    assert triggers(moved) == {"v": ("move", "cluster_replaced")}


def test_a_pinned_vm_that_does_not_fit_is_counted_with_a_warning() -> None:
    one = ONE.replace("machine_count = 4", "machine_count = 1")
    text = one + vm("v", 'machine = "r0-bm01"', cpus=60, memory=300)
    result = good(plan(text))
    assert [(d.summary, line_of(d)[0]) for d in warnings(result)] == [("Insufficient pinned machine", "main.nf.hcl")]
    assert is_empty(good(plan(text, state_of(text))))
    other = vm("other", cpus=48, memory=224)
    assert len(places(state_of(text + other))) == 2
    (found,) = errors(plan(text + other + other.replace('"other"', '"third"')))
    assert (found.id, found.address) == ("insufficient-capacity", "nexus_virtual_machine.third")


def test_a_machine_that_is_not_there_is_an_error_at_its_line() -> None:
    text = RACKS + vm("v", 'machine = "r1-bm33"')
    (found,) = errors(plan(text))
    assert "r1-bm33" in found.detail
    assert line_of(found)[1] == text[: text.index("machine = ")].count("\n") + 1


def test_taking_the_pin_away_moves_nobody() -> None:
    state = state_of(RACKS + vm("v", 'machine = "r1-bm03"'))
    assert triggers(good(plan(RACKS + vm("v"), state))) == {}


def test_pinning_a_vm_where_it_stands_moves_nobody() -> None:
    state = state_of(RACKS + vm("v"))
    here = places(state)["v"][0]
    assert triggers(good(plan(RACKS + vm("v", f'machine = "{here}"'), state))) == {}


# --- occupied machines ----------------------------------------------------------------------------


def occupied(name: str, cpus: int, memory: int, more: str = "") -> str:
    return f'occupied {{\n name = "{name}"\n cpu_cores = {cpus}\n memory_gib = {memory}\n {more}\n}}\n'


def test_capacity_that_others_hold_is_not_given_away() -> None:
    alone = SITE + 'resource "nexus_rack" "r" {\n site_id = nexus_site.s.id\n machine_count = 0\n}\n'
    rack = "nexus_rack.r.id"
    free = alone + machine("", rack=rack) + cluster("a", plane=BIG, count=2)
    assert len(places(state_of(free))) == 2
    taken = alone + machine(occupied("x", 2, 4), rack=rack) + cluster("a", plane=BIG, count=2)
    assert errors(plan(taken))[0].id == "insufficient-capacity"
    given = alone + machine(occupied("x", 2, 4, "cells = [1]"), rack=rack) + cluster("a", plane=BIG)
    assert places(state_of(given))["a-control-plane-0"] == ("m", (0,))
    both = alone + machine(occupied("x", 4, 8, "numa_cells = 2"), rack=rack) + cluster("a", plane=BIG)
    assert errors(plan(both))[0].id == "insufficient-capacity"
    disk = alone + machine(occupied("x", 2, 4, "disk_gib = 3300"), rack=rack) + cluster("a")
    assert "disk" in errors(plan(disk))[0].detail


ALONE = SITE + 'resource "nexus_rack" "r" {\n site_id = nexus_site.s.id\n machine_count = 0\n}\n'


def test_beside_vms_whose_cells_nobody_told_cells_stay_unknown() -> None:
    text = ALONE + machine(occupied("a", 40, 200), rack="nexus_rack.r.id") + cluster("z", plane="NC_P22_112_v1")
    assert places(state_of(text))["z-control-plane-0"] == ("m", ())


def test_numbers_of_cells_beyond_the_machine_are_an_error() -> None:
    text = ONE + machine(occupied("x", 2, 4, "cells = [5]"), slot=9)
    found = plan(text)
    assert found.plan.errored
    assert errors(found)[0].subject is not None


NEXT = """
resource "nexus_rack" "next" {
  site_id       = nexus_site.s.id
  machine_count = 4
  status        = "planned"
}
"""

# --- described machines and racks -------------------------------------------------------------------


def test_a_machine_block_describes_the_racks_own_slot() -> None:
    text = ONE.replace("machine_count = 4", "machine_count = 2") + machine(
        'name = "strong"', slot=2, sku='machine_sku = "bom-2.0"'
    )
    result = good(plan(text + cluster("a", plane="NC_P54_224_v1", count=2)))
    assert {r.target.machine for r in rows(result).values() if r.target} == {"strong"}
    three = plan(text + cluster("a", plane="NC_P54_224_v1", count=3))
    assert errors(three)[0].id == "insufficient-capacity"


def test_another_slot_is_an_additional_machine() -> None:
    text = (
        ONE.replace("machine_count = 4", "machine_count = 1") + machine("", slot=7) + cluster("a", plane=BIG, count=4)
    )
    assert {m for m, _ in places(state_of(text)).values()} == {"r0-bm01", "m"}


def test_two_machines_in_one_slot_are_an_error() -> None:
    text = ONE + machine("", slot=9) + machine("", slot=9).replace('"m"', '"n"')
    (found,) = errors(plan(text))
    assert "slot" in found.detail


def test_one_machine_name_twice_on_a_site_is_an_error() -> None:
    text = RACKS + machine('name = "r1-bm02"', slot=9)
    (found,) = errors(plan(text))
    assert "r1-bm02" in found.detail


def test_a_planned_rack_takes_no_vms_until_it_is_active() -> None:
    text = ONE + NEXT
    text += cluster("a", pools=pool("p", 6))
    state = state_of(text)
    assert not any(m.startswith("next") for m, _ in places(state).values())
    active = text.replace('"planned"', '"active"')
    assert triggers(good(plan(active, state))) == {}
    more = active.replace("count       = 6", "count       = 9")
    assert any(m.startswith("next") for m, _ in places(state_of(more, state)).values())


def test_a_zone_that_only_a_planned_rack_has_is_an_error() -> None:
    text = ONE + NEXT
    (found,) = errors(plan(text + cluster("a", pools=pool("p", 1, more='availability_zones = ["next"]'))))
    assert "next" in found.detail
    assert '"r0"' in found.detail


def test_a_rack_that_becomes_planned_loses_its_vms() -> None:
    text = RACKS.replace("machine_count = 4", 'machine_count = 4\n status = "active"') + cluster("a", count=3)
    state = state_of(text)
    result = good(plan(text.replace('"active"', 'count.index == 0 ? "planned" : "active"'), state))
    gone = {name for name, (m, _) in places(state).items() if m.startswith("r0")}
    assert set(triggers(result)) == gone


def test_plain_vms_and_clusters_of_one_name_do_not_count_together() -> None:
    text = RACKS + cluster("a", count=3) + vm("a1")
    assert len({m for m, _ in places(state_of(text)).values()}) == 4


def test_a_user_sku_is_placed_and_may_be_extra_large() -> None:
    own = 'resource "nexus_vm_sku" "xl" {\n vcpus = 40\n memory_gib = 200\n extra_large = true\n}\n'
    text = RACKS + own + cluster("a", pools=pool("p", 3, "xl")) + cluster("b", pools=pool("p", 3, "xl"))
    found = places(state_of(text))
    a = {m for name, (m, _) in found.items() if name.startswith("a-p")}
    b = {m for name, (m, _) in found.items() if name.startswith("b-p")}
    assert a == b
    assert len(a) == 3


def test_a_vm_across_two_cells_lists_both() -> None:
    text = RACKS + cluster("a", pools=pool("p", 1, "NC_E94_448_v1"))
    assert places(state_of(text))["a-p-0"][1] == (0, 1)
    assert errors(plan(RACKS + cluster("a", plane="NC_E94_448_v1")))


def test_labels_of_nodes_are_known_in_the_plan() -> None:
    text = RACKS + cluster("a", pools=pool("p", 1, more='labels = { x = "y" }'))
    text += agent_pool("own", "nexus_kubernetes_cluster.a.id", 1)
    text += '\noutput "labels" {\n value = nexus_kubernetes_cluster.a.nodes["a-p-0"].labels\n}\n'
    result = good(plan(text))
    node = rows(result)["a-p-0"].target
    assert node is not None
    assert result.plan.planned_outputs["labels"].value == {
        "x": "y",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "NC_G6_28_v1",
        "topology.kubernetes.io/zone": node.availability_zone,
        "topology.kubernetes.io/baremetalmachine": node.machine,
        "kubernetes.io/hostname": "a-p-0",
    }
    values = attributes(state_of(text), "nexus_kubernetes_cluster.a")
    assert values["node_count"] == 2
    assert "labels" not in values["nodes"]["a-p-0"]


def test_vm_skus_of_less_than_a_gib_take_no_whole_one() -> None:
    own = 'resource "nexus_vm_sku" "tiny" {\n vcpus = 1\n memory_gib = 0.5\n disk_gib = 0\n}\n'
    refused = errors(plan(RACKS + own.replace("0.5", "0")))
    assert [problem.id for problem in refused] == ["invalid-number"]
    assert not errors(plan(RACKS + own))
