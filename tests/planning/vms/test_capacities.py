"""Tests of machine properties.

They are hints, pinned VMs, occupied machines, described slots and planned racks.
"""

from __future__ import annotations

import random

import pytest

from tests.planning.harness import (
    RACKS,
    SITE,
    agent_pool,
    attributes,
    build_state,
    cluster,
    get_line,
    is_empty,
    list_errors,
    list_places,
    list_rows,
    list_triggers,
    list_warnings,
    plan,
    pool,
    require_success,
    vms,
)
from tests.planning.harness import build_state_after as state_after

BIG = "NC_P46_224_v1"
ONE = RACKS.replace("= 3\n", "= 1\n")


def build_vm(name: str, more: str = "", cpus: int = 4, memory: int = 16, disk: int = 10) -> str:
    return f"""
resource "nexus_virtual_machine" "{name}" {{
  site_id    = nexus_site.s.id
  cpu_cores  = {cpus}
  memory_gib = {memory}
  disk_gib   = {disk}
  {more}
}}
"""


def build_hint(kind: str, target: str, how: str, scope: str) -> str:
    return f"""placement_hint {{
    hint_type            = "{kind}"
    resource_id          = {target}
    scheduling_execution = "{how}"
    scope                = "{scope}"
  }}"""


def build_machine(
    more: str,
    slot: int = 4,
    rack: str = "nexus_rack.r[0].id",
    sku: str = 'machine_sku = "bom-1.7.3"',
) -> str:
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
def test_hints_co_locate_and_separate_vms(how: str, scope: str, part: str) -> None:
    # A soft hint about machines is evaluated with the choice of the rack, so one rack is enough
    # to test it.
    racks = ONE if (how, scope) == ("Soft", "Machine") else RACKS
    text = (
        racks
        + build_vm("first")
        + build_vm("near", build_hint("Affinity", "nexus_virtual_machine.first.id", how, scope))
    )
    text += build_vm(
        "far", build_hint("AntiAffinity", "nexus_virtual_machine.first.id", how, scope)
    )
    state = build_state(text)
    found = {name: values[part] for name, values in vms(state).items()}
    assert found["near"] == found["first"] != found["far"]
    assert is_empty(require_success(plan(text, state)))


def test_unsatisfiable_hard_hint_fails_and_soft_hint_does_not() -> None:
    text = (
        ONE
        + build_vm("first")
        + build_vm(
            "far", build_hint("AntiAffinity", "nexus_virtual_machine.first.id", "Hard", "Rack")
        )
    )
    (found,) = list_errors(plan(text))
    assert found.id == "insufficient-capacity"
    assert "s/first" in found.detail
    assert len(list_places(build_state(text.replace("Hard", "Soft")))) == 2


@pytest.mark.parametrize(
    ("target", "rack"), [('"s/r1"', "r1"), ("nexus_rack.r[2].id", "r2"), ('"s/r1/r1-bm02"', "r1")]
)
def test_hints_may_name_racks_and_machines(target: str, rack: str) -> None:
    text = RACKS + build_vm("v", build_hint("Affinity", target, "Hard", "Rack"))
    assert vms(build_state(text))["v"]["rack"] == rack


def test_hint_may_name_a_cluster() -> None:
    text = (
        RACKS
        + cluster("a", count=2)
        + build_vm("v", build_hint("AntiAffinity", "nexus_kubernetes_cluster.a.id", "Hard", "Rack"))
    )
    found = vms(build_state(text))
    assert found["v"]["rack"] not in {n["rack"] for name, n in found.items() if name != "v"}


def test_hint_to_unknown_object_is_an_error_at_its_line() -> None:
    (found,) = list_errors(
        plan(RACKS + build_vm("v", build_hint("Affinity", '"s/nothing"', "Hard", "Rack")))
    )
    assert "s/nothing" in found.detail
    assert get_line(found)[1] > RACKS.count("\n") + 6


def test_hinted_vm_stays_if_its_target_moves() -> None:
    text = (
        RACKS
        + build_vm("first")
        + build_vm(
            "near", build_hint("Affinity", "nexus_virtual_machine.first.id", "Hard", "Machine")
        )
    )
    state = build_state(text)
    result = require_success(plan(text, state, replaces=("nexus_virtual_machine.first:first",)))
    assert list_triggers(result) == {"first": ("move", "heal")}


def build_small_racks(racks: int, machines: int) -> str:
    return RACKS.replace("= 3\n", f"= {racks}\n").replace(
        "machine_count = 4", f"machine_count = {machines}"
    )


@pytest.mark.parametrize(
    ("scope", "site"), [("Machine", build_small_racks(1, 2)), ("Rack", build_small_racks(2, 1))]
)
def test_hard_hint_holds_if_its_target_moves(scope: str, site: str) -> None:
    """A healed VM moves to another machine if possible.

    Here it is the one excluded by the hint of the other VM.
    """
    text = site + build_vm("first")
    text += build_vm(
        "far", build_hint("AntiAffinity", "nexus_virtual_machine.first.id", "Hard", scope)
    )
    state = build_state(text)
    result = require_success(plan(text, state, replaces=("nexus_virtual_machine.first:first",)))
    assert list_triggers(result) == {"first": ("move", "heal")}
    assert list_places(state_after(result, state)) == list_places(state)


def test_error_names_the_hint_of_another_vm_as_only_cause() -> None:
    text = build_small_racks(2, 1) + build_vm("first")
    text += build_vm(
        "far", build_hint("AntiAffinity", "nexus_virtual_machine.first.id", "Hard", "Rack")
    )
    state = build_state(text)
    kept = vms(state)["far"]["rack"].removeprefix("r")
    less = text.replace("machine_count = 1", f"machine_count = count.index == {kept} ? 1 : 0")
    (problem,) = list_errors(plan(less, state))
    assert (
        "not on the same rack as nexus_virtual_machine.far, whose hint names it" in problem.detail
    )


@pytest.mark.parametrize("seed", range(8))
def test_hard_hints_hold_over_random_heals(seed: int) -> None:
    chance = random.Random(seed)
    names = ["a", "b", "c", "d"]
    text = build_small_racks(2, 2)
    kept_apart = []
    for position, name in enumerate(names):
        others = chance.sample(names[:position], min(position, 2))
        kept_apart += [(name, other) for other in others]
        hints = [
            build_hint("AntiAffinity", f"nexus_virtual_machine.{o}.id", "Hard", "Machine")
            for o in others
        ]
        text += build_vm(name, "\n  ".join(hints))
    state = build_state(text)
    for _ in range(12):
        healed = chance.sample(names, chance.randint(1, 3))
        replaces = tuple(f"nexus_virtual_machine.{name}:{name}" for name in healed)
        result = plan(text, state, replaces=replaces)
        if list_errors(result):
            continue
        state = state_after(result, state)
        standing = vms(state)
        for one, other in kept_apart:
            assert standing[one]["machine"] != standing[other]["machine"], (healed, one, other)


# --- pinned VMs ----------------------------------------------------------------------------------


def test_pinned_vm_runs_on_its_machine() -> None:
    text = RACKS + build_vm("v", 'machine = "r1-bm03"')
    state = build_state(text)
    assert list_places(state)["v"] == ("r1-bm03", (0,))
    assert is_empty(require_success(plan(text, state)))
    moved = require_success(plan(text.replace("r1-bm03", "r2-bm01"), state))
    assert list_triggers(moved) == {"v": ("move", "cluster_replaced")}


def test_pinned_vm_without_capacity_is_counted_with_a_warning() -> None:
    one = ONE.replace("machine_count = 4", "machine_count = 1")
    text = one + build_vm("v", 'machine = "r0-bm01"', cpus=60, memory=300)
    result = require_success(plan(text))
    assert [(d.summary, get_line(d)[0]) for d in list_warnings(result)] == [
        ("Insufficient pinned machine", "main.nf.hcl")
    ]
    assert is_empty(require_success(plan(text, build_state(text))))
    other = build_vm("other", cpus=48, memory=224)
    assert len(list_places(build_state(text + other))) == 2
    (found,) = list_errors(plan(text + other + other.replace('"other"', '"third"')))
    assert (found.id, found.address) == ("insufficient-capacity", "nexus_virtual_machine.third")


def test_unknown_machine_is_an_error_at_its_line() -> None:
    text = RACKS + build_vm("v", 'machine = "r1-bm33"')
    (found,) = list_errors(plan(text))
    assert "r1-bm33" in found.detail
    assert get_line(found)[1] == text[: text.index("machine = ")].count("\n") + 1


def test_removing_a_pin_moves_no_vm() -> None:
    state = build_state(RACKS + build_vm("v", 'machine = "r1-bm03"'))
    assert list_triggers(require_success(plan(RACKS + build_vm("v"), state))) == {}


def test_pinning_a_vm_to_its_current_machine_moves_no_vm() -> None:
    state = build_state(RACKS + build_vm("v"))
    here = list_places(state)["v"][0]
    assert (
        list_triggers(require_success(plan(RACKS + build_vm("v", f'machine = "{here}"'), state)))
        == {}
    )


# --- occupied machines ----------------------------------------------------------------------------


def build_occupied_machine(name: str, cpus: int, memory: int, more: str = "") -> str:
    return (
        f'occupied {{\n name = "{name}"\n cpu_cores = {cpus}\n memory_gib = {memory}\n {more}\n}}\n'
    )


def test_affinity_to_a_rack_counts_machines_with_blocks() -> None:
    racks = SITE + "".join(
        (
            f'resource "nexus_rack" "r{number}" {{\n site_id = nexus_site.s.id\n machine_count = '
            "0\n}\n"
        )
        for number in (1, 2)
    )
    machines = "".join(
        build_machine("", rack=f"nexus_rack.r{number}.id").replace('"m"', f'"m{number}"')
        for number in (1, 2)
    )
    for number in (1, 2):
        for scope in ("Rack", "Machine"):
            hint = build_hint("Affinity", f"nexus_rack.r{number}.id", "Hard", scope)
            assert (
                list_places(build_state(racks + machines + build_vm("v", hint)))["v"][0]
                == f"m{number}"
            )
    to_empty_rack = build_vm("v", build_hint("Affinity", "nexus_rack.r2.id", "Hard", "Rack"))
    first_machine = build_machine("", rack="nexus_rack.r1.id")
    (problem,) = list_errors(plan(racks + first_machine + to_empty_rack))
    assert "on the same rack as s/r2" in problem.detail


def test_occupied_capacity_is_not_allocated() -> None:
    alone = (
        SITE + 'resource "nexus_rack" "r" {\n site_id = nexus_site.s.id\n machine_count = 0\n}\n'
    )
    rack = "nexus_rack.r.id"
    free = alone + build_machine("", rack=rack) + cluster("a", plane=BIG, count=2)
    assert len(list_places(build_state(free))) == 2
    taken = (
        alone
        + build_machine(build_occupied_machine("x", 2, 4), rack=rack)
        + cluster("a", plane=BIG, count=2)
    )
    assert list_errors(plan(taken))[0].id == "insufficient-capacity"
    given = (
        alone
        + build_machine(build_occupied_machine("x", 2, 4, "cells = [1]"), rack=rack)
        + cluster("a", plane=BIG)
    )
    assert list_places(build_state(given))["a-control-plane-0"] == ("m", (0,))
    both = (
        alone
        + build_machine(build_occupied_machine("x", 4, 8, "numa_cells = 2"), rack=rack)
        + cluster("a", plane=BIG)
    )
    assert list_errors(plan(both))[0].id == "insufficient-capacity"
    disk = (
        alone
        + build_machine(build_occupied_machine("x", 2, 4, "disk_gib = 3300"), rack=rack)
        + cluster("a")
    )
    assert "disk" in list_errors(plan(disk))[0].detail


ALONE = SITE + 'resource "nexus_rack" "r" {\n site_id = nexus_site.s.id\n machine_count = 0\n}\n'


def test_cells_stay_unknown_beside_vms_with_unknown_cells() -> None:
    text = (
        ALONE
        + build_machine(build_occupied_machine("a", 40, 200), rack="nexus_rack.r.id")
        + cluster("z", plane="NC_P22_112_v1")
    )
    assert list_places(build_state(text))["z-control-plane-0"] == ("m", ())


def test_cell_numbers_beyond_the_machine_are_an_error() -> None:
    text = ONE + build_machine(build_occupied_machine("x", 2, 4, "cells = [5]"), slot=9)
    found = plan(text)
    assert found.plan.errored
    assert list_errors(found)[0].subject is not None


NEXT = """
resource "nexus_rack" "next" {
  site_id       = nexus_site.s.id
  machine_count = 4
  status        = "planned"
}
"""

# --- described machines and racks
# -------------------------------------------------------------------


def test_machine_block_describes_an_existing_slot_of_the_rack() -> None:
    text = ONE.replace("machine_count = 4", "machine_count = 2") + build_machine(
        'name = "strong"', slot=2, sku='machine_sku = "bom-2.0"'
    )
    result = require_success(plan(text + cluster("a", plane="NC_P54_224_v1", count=2)))
    assert {r.target.machine for r in list_rows(result).values() if r.target} == {"strong"}
    three = plan(text + cluster("a", plane="NC_P54_224_v1", count=3))
    assert list_errors(three)[0].id == "insufficient-capacity"


def test_machine_block_with_another_slot_adds_a_machine() -> None:
    text = (
        ONE.replace("machine_count = 4", "machine_count = 1")
        + build_machine("", slot=7)
        + cluster("a", plane=BIG, count=4)
    )
    assert {m for m, _ in list_places(build_state(text)).values()} == {"r0-bm01", "m"}


def test_two_machines_in_one_slot_are_an_error() -> None:
    text = ONE + build_machine("", slot=9) + build_machine("", slot=9).replace('"m"', '"n"')
    (found,) = list_errors(plan(text))
    assert "slot" in found.detail


def test_duplicate_machine_name_on_a_site_is_an_error() -> None:
    text = RACKS + build_machine('name = "r1-bm02"', slot=9)
    (found,) = list_errors(plan(text))
    assert "r1-bm02" in found.detail


def test_planned_rack_gets_no_vms_until_active() -> None:
    text = ONE + NEXT
    text += cluster("a", pools=pool("p", 6))
    state = build_state(text)
    assert not any(m.startswith("next") for m, _ in list_places(state).values())
    active = text.replace('"planned"', '"active"')
    assert list_triggers(require_success(plan(active, state))) == {}
    more = active.replace("count       = 6", "count       = 9")
    assert any(m.startswith("next") for m, _ in list_places(build_state(more, state)).values())


def test_zone_of_only_a_planned_rack_is_an_error() -> None:
    text = ONE + NEXT
    (found,) = list_errors(
        plan(text + cluster("a", pools=pool("p", 1, more='availability_zones = ["next"]')))
    )
    assert "next" in found.detail
    assert '"r0"' in found.detail


def test_rack_changed_to_planned_loses_its_vms() -> None:
    text = RACKS.replace("machine_count = 4", 'machine_count = 4\n status = "active"') + cluster(
        "a", count=3
    )
    state = build_state(text)
    result = require_success(
        plan(text.replace('"active"', 'count.index == 0 ? "planned" : "active"'), state)
    )
    gone = {name for name, (m, _) in list_places(state).items() if m.startswith("r0")}
    assert set(list_triggers(result)) == gone


def test_plain_vms_and_clusters_of_one_name_are_counted_separately() -> None:
    text = RACKS + cluster("a", count=3) + build_vm("a1")
    assert len({m for m, _ in list_places(build_state(text)).values()}) == 4


def test_user_sku_is_placed_and_may_be_extra_large() -> None:
    own = 'resource "nexus_vm_sku" "xl" {\n vcpus = 40\n memory_gib = 200\n extra_large = true\n}\n'
    text = (
        RACKS
        + own
        + cluster("a", pools=pool("p", 3, "xl"))
        + cluster("b", pools=pool("p", 3, "xl"))
    )
    found = list_places(build_state(text))
    a = {m for name, (m, _) in found.items() if name.startswith("a-p")}
    b = {m for name, (m, _) in found.items() if name.startswith("b-p")}
    assert a == b
    assert len(a) == 3


def test_vm_across_two_cells_lists_both() -> None:
    text = RACKS + cluster("a", pools=pool("p", 1, "NC_E94_448_v1"))
    assert list_places(build_state(text))["a-p-0"][1] == (0, 1)
    assert list_errors(plan(RACKS + cluster("a", plane="NC_E94_448_v1")))


def test_node_labels_are_known_in_the_plan() -> None:
    text = RACKS + cluster("a", pools=pool("p", 1, more='labels = { x = "y" }'))
    text += agent_pool("own", "nexus_kubernetes_cluster.a.id", 1)
    text += '\noutput "labels" {\n value = nexus_kubernetes_cluster.a.nodes["a-p-0"].labels\n}\n'
    result = require_success(plan(text))
    node = list_rows(result)["a-p-0"].target
    assert node is not None
    assert result.plan.root_values.planned_outputs["labels"].value == {
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
    values = attributes(build_state(text), "nexus_kubernetes_cluster.a")
    assert values["node_count"] == 2
    assert "labels" not in values["nodes"]["a-p-0"]


def test_vm_sku_below_one_gib_uses_a_fraction() -> None:
    own = 'resource "nexus_vm_sku" "tiny" {\n vcpus = 1\n memory_gib = 0.5\n disk_gib = 0\n}\n'
    refused = list_errors(plan(RACKS + own.replace("0.5", "0")))
    assert [problem.id for problem in refused] == ["invalid-number"]
    assert not list_errors(plan(RACKS + own))
