"""Forged plans: every one differs from what planning gives of the same, and none ends in a traceback."""

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.plans.plan import Action, Mode, PlacementAction, PlacementChange, Plan, Step, StepKind
from nexusform.plans.saved.plan_comparison import list_different_parts
from nexusform.plans.saved.plan_file import read_plan_file, write_plan_file
from nexusform.resources.address import parse_address
from nexusform.scheduling.racks.vms import Placement
from nexusform.state.objects import EMPTY, State
from tests.planning.harness import applied, good, plan

SITE = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  count         = 4
  name          = "r${count.index}"
  site_id       = nexus_site.s.id
  machine_count = 4
}
resource "nexus_kubernetes_cluster" "a" {
  site_id            = nexus_site.s.id
  name               = "a"
  kubernetes_version = "VERSION"
  depends_on         = [nexus_rack.r]
  control_plane {
    count       = 1
    vm_sku_name = "NC_G12_56_v1"
  }
  agent_pool "p" {
    count       = COUNT
    vm_sku_name = "NC_P22_112_v1"
  }
}
resource "nexus_virtual_machine" "v" {
  count      = VMS
  name       = "v${count.index}"
  site_id    = nexus_site.s.id
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 20
  depends_on = [nexus_rack.r]
}
output "where" {
  value = nexus_kubernetes_cluster.a.nodes["a-p-0"].machine
}
"""


def text(count: int = 4, vms: int = 3, version: str = "v1.29") -> str:
    return SITE.replace("COUNT", str(count)).replace("VMS", str(vms)).replace("VERSION", version)


@cache
def cases() -> list[tuple[Plan, str, State]]:
    """A first plan, then one that scales in and out, an upgrade, one that scales the other way, and the end
    of everything.
    """
    first = plan(text())
    state = applied(first)
    later = [text(2, 4), text(version="v1.30"), text(5, 1), 'resource "nexus_site" "s" {}\n']
    return [(first.plan, text(), EMPTY), *[(good(plan(each, state)).plan, each, state) for each in later]]


@cache
def again(case: int, mode: Mode, targets: tuple[str, ...], replaces: tuple[str, ...]) -> Plan:
    """The plan of a case, made once more as it says that it was asked for."""
    _, files, state = cases()[case]
    return plan(files, state, mode=mode, targets=targets, replaces=replaces).plan


def told(forged: Plan, case: int) -> str:
    """What is said of a plan once it was a file with the right digests."""
    saved, problems = read_plan_file(write_plan_file(forged, {}))
    if saved is None:
        return problems[0].detail
    made = again(case, forged.mode, forged.targets, forged.replaces)
    return ", ".join(list_different_parts(saved.plan, made))


@pytest.mark.parametrize("case", range(5))
def test_a_plan_as_it_was_saved_agrees(case: int) -> None:
    assert told(cases()[case][0], case) == ""


Forge = Callable[[Plan, random.Random], Plan]


def some_step(change: Callable[[Step, Plan, random.Random], Step]) -> Forge:
    def forge(of: Plan, chance: random.Random) -> Plan:
        steps = list(of.steps)
        position = chance.randrange(len(steps))
        steps[position] = change(steps[position], of, chance)
        return replace(of, steps=tuple(steps))

    return forge


def another(values: list[Any], than: Any, chance: random.Random) -> Any:
    return chance.choice([value for value in values if value != than])


def _elsewhere(step: Step, of: Plan, chance: random.Random) -> Step:
    return replace(step, change=another([*range(len(of.changes)), -1, 10_000], step.change, chance))


def _another_kind(step: Step, _of: Plan, chance: random.Random) -> Step:
    return replace(step, kind=another(list(StepKind), step.kind, chance))


def _other_waits(step: Step, of: Plan, chance: random.Random) -> Step:
    waits = set(step.waits_for) ^ {chance.choice([*range(len(of.steps)), 9_999, -1])}
    return replace(step, waits_for=tuple(sorted(waits)))


def _other_planned(step: Step, _of: Plan, chance: random.Random) -> Step:
    forged = {**(step.planned or {}), "name": "mine"}
    return replace(step, planned=chance.choice([forged, {}] if step.planned else [forged]))


def _other_prior(step: Step, _of: Plan, _chance: random.Random) -> Step:
    return replace(step, prior=None if step.prior else {"id": "mine"})


def _another_number(step: Step, of: Plan, chance: random.Random) -> Step:
    return replace(step, id=another([*range(len(of.steps)), 9_999], step.id, chance))


def _unmarked(step: Step, _of: Plan, _chance: random.Random) -> Step:
    return replace(step, main=not step.main)


def a_step_less(of: Plan, chance: random.Random) -> Plan:
    gone = chance.randrange(len(of.steps))
    return replace(of, steps=of.steps[:gone] + of.steps[gone + 1 :])


def a_step_more(of: Plan, chance: random.Random) -> Plan:
    more = replace(chance.choice(of.steps), id=len(of.steps))
    return replace(of, steps=(*of.steps, more))


def in_a_circle(of: Plan, _chance: random.Random) -> Plan:
    first, last = of.steps[0], of.steps[-1]
    steps = [replace(first, waits_for=(last.id,)), *of.steps[1:-1], replace(last, waits_for=(first.id,))]
    return replace(of, steps=tuple(steps))


def a_change_less(of: Plan, chance: random.Random) -> Plan:
    gone = chance.randrange(len(of.changes))
    return replace(of, changes=of.changes[:gone] + of.changes[gone + 1 :])


def _changed(of: Plan, position: int, **fields: Any) -> Plan:
    changes = list(of.changes)
    changes[position] = replace(changes[position], **fields)
    return replace(of, changes=tuple(changes))


def another_action(of: Plan, chance: random.Random) -> Plan:
    position = chance.randrange(len(of.changes))
    return _changed(of, position, action=another(list(Action), of.changes[position].action, chance))


def another_creation(of: Plan, chance: random.Random) -> Plan:
    position = chance.randrange(len(of.changes))
    side = chance.choice(["creation", "prior_creation"])
    return _changed(of, position, **{side: getattr(of.changes[position], side) + chance.choice([-1, 1, 77])})


def another_address(of: Plan, chance: random.Random) -> Plan:
    address = parse_address(chance.choice(["nexus_site.x", "nexus_rack.s", "no_such.type"]))
    return _changed(of, chance.randrange(len(of.changes)), address=address)


def other_values_shown(of: Plan, chance: random.Random) -> Plan:
    position = chance.randrange(len(of.changes))
    side = chance.choice(["before", "after"])
    values = {**(getattr(of.changes[position], side) or {}), "name": "shown"}
    return _changed(of, position, **{side: values})


def _row(of: Plan, chance: random.Random, change: Callable[[PlacementChange], PlacementChange]) -> Plan:
    rows = list(of.placements)
    position = chance.randrange(len(rows))
    rows[position] = change(rows[position])
    return replace(of, placements=tuple(rows))


def another_place_shown(of: Plan, chance: random.Random) -> Plan:
    place = Placement("r0-bm99", "r0", "1", (0,))
    return _row(of, chance, lambda row: replace(row, **{"source" if row.target is None else "target": place}))


def another_row_action(of: Plan, chance: random.Random) -> Plan:
    return _row(of, chance, lambda row: replace(row, action=another(list(PlacementAction), row.action, chance)))


def another_vm_shown(of: Plan, chance: random.Random) -> Plan:
    return _row(of, chance, lambda row: replace(row, object="mine"))


def a_row_less(of: Plan, chance: random.Random) -> Plan:
    gone = chance.randrange(len(of.placements))
    return replace(of, placements=of.placements[:gone] + of.placements[gone + 1 :])


def a_row_twice(of: Plan, chance: random.Random) -> Plan:
    return replace(of, placements=(*of.placements, chance.choice(of.placements)))


def another_site_shown(of: Plan, chance: random.Random) -> Plan:
    return _row(of, chance, lambda row: replace(row, site_id="elsewhere"))


def values_of_a_wrong_type(of: Plan, chance: random.Random) -> Plan:
    """Both sides agree, on what no object of the type can be."""
    made = [i for i, c in enumerate(of.changes) if c.after is not None and c.action is not Action.NO_OP]
    if not made:
        return a_step_less(of, chance)
    position = chance.choice(made)
    after = {**(of.changes[position].after or {}), chance.choice(["name", "nodes", "rack"]): chance.choice([1, [1]])}
    steps = [
        replace(step, planned=after) if step.change == position and step.kind in ("create", "update") else step
        for step in of.steps
    ]
    forged = replace(_changed(of, position, after=after), steps=tuple(steps))
    return forged if forged.changes != of.changes else a_step_less(of, chance)


FORGERS: list[Forge] = [
    some_step(_elsewhere),
    some_step(_another_kind),
    some_step(_other_waits),
    some_step(_other_planned),
    some_step(_other_prior),
    some_step(_another_number),
    some_step(_unmarked),
    a_step_less,
    a_step_more,
    in_a_circle,
    a_change_less,
    another_action,
    another_creation,
    another_address,
    other_values_shown,
    another_place_shown,
    another_row_action,
    another_vm_shown,
    a_row_less,
    a_row_twice,
    another_site_shown,
    values_of_a_wrong_type,
]


@pytest.mark.parametrize("number", range(len(FORGERS)))
def test_every_forged_plan_is_refused(number: int) -> None:
    carried_out = []
    for seed in range(30):
        chance = random.Random(seed)
        case = seed % len(cases())
        genuine, _, _ = cases()[case]
        forged = FORGERS[number](genuine, chance)
        assert forged != genuine
        if told(forged, case) == "":
            carried_out.append(seed)
    assert carried_out == []


def test_any_part_replaced_by_anything_ends_in_no_traceback() -> None:
    parts: list[Any] = [None, -1, 0, 10**9, "x", "", [], {}, [None], {"x": None}, True]
    for seed in range(300):
        chance = random.Random(seed)
        case = seed % len(cases())
        genuine, _, _ = cases()[case]
        position = chance.randrange(len(genuine.changes))
        change = genuine.changes[position]
        side = "after" if change.after is not None else "before"
        values = dict(getattr(change, side))
        values[chance.choice(list(values))] = chance.choice(parts)
        forged = _changed(genuine, position, **{side: values})
        if forged != genuine:
            assert told(forged, case), (seed, change.address)
