"""Tests of forged plans: each differs from a new plan of the same input.

None of them causes a traceback.
"""

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.plans.plan import (
    Action,
    Mode,
    PlacementAction,
    PlacementChange,
    Plan,
    Step,
    StepKind,
)
from nexusform.plans.saved.plan_comparison import list_different_parts
from nexusform.plans.saved.plan_file import read_plan_file, write_plan_file
from nexusform.resources.address import parse_address
from nexusform.scheduling.racks.vms import Placement
from nexusform.state.objects import EMPTY, State
from tests.planning.harness import build_state_after, plan, require_success

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


def build_configuration(count: int = 4, vms: int = 3, version: str = "v1.29") -> str:
    return SITE.replace("COUNT", str(count)).replace("VMS", str(vms)).replace("VERSION", version)


@cache
def build_cases() -> list[tuple[Plan, str, State]]:
    """Return five plans of one history.

    They are a first plan, then a scale-in with a scale-out, an upgrade, the reverse scaling, and
    the deletion of everything.
    """
    first = plan(build_configuration())
    state = build_state_after(first)
    later = [
        build_configuration(2, 4),
        build_configuration(version="v1.30"),
        build_configuration(5, 1),
        'resource "nexus_site" "s" {}\n',
    ]
    return [
        (first.plan, build_configuration(), EMPTY),
        *[(require_success(plan(each, state)).plan, each, state) for each in later],
    ]


@cache
def plan_again(case: int, mode: Mode, targets: tuple[str, ...], replaces: tuple[str, ...]) -> Plan:
    """Plan a case again with the options recorded in its plan."""
    _, files, state = build_cases()[case]
    return plan(files, state, mode=mode, targets=targets, replaces=replaces).plan


def compare_forged_plan(forged: Plan, case: int) -> str:
    """Return the differences of a forged plan, after it was saved with correct digests."""
    saved, problems = read_plan_file(write_plan_file(forged, {}))
    if saved is None:
        return problems[0].detail
    made = plan_again(case, forged.options.mode, forged.options.targets, forged.options.replaces)
    return ", ".join(list_different_parts(saved.plan, made))


@pytest.mark.parametrize("case", range(5))
def test_unchanged_saved_plan_agrees(case: int) -> None:
    assert compare_forged_plan(build_cases()[case][0], case) == ""


Forge = Callable[[Plan, random.Random], Plan]


def change_random_step(change: Callable[[Step, Plan, random.Random], Step]) -> Forge:
    def forge(of: Plan, chance: random.Random) -> Plan:
        steps = list(of.steps)
        position = chance.randrange(len(steps))
        steps[position] = change(steps[position], of, chance)
        return replace(of, steps=tuple(steps))

    return forge


def pick_other(values: list[Any], than: Any, chance: random.Random) -> Any:
    return chance.choice([value for value in values if value != than])


def _move_to_other_change(step: Step, of: Plan, chance: random.Random) -> Step:
    return replace(
        step, change=pick_other([*range(len(of.changes)), -1, 10_000], step.change, chance)
    )


def _change_kind(step: Step, _of: Plan, chance: random.Random) -> Step:
    return replace(step, kind=pick_other(list(StepKind), step.kind, chance))


def _change_waits(step: Step, of: Plan, chance: random.Random) -> Step:
    waits = set(step.waits_for) ^ {chance.choice([*range(len(of.steps)), 9_999, -1])}
    return replace(step, waits_for=tuple(sorted(waits)))


def _change_planned_values(step: Step, _of: Plan, chance: random.Random) -> Step:
    forged = {**(step.planned or {}), "name": "mine"}
    return replace(step, planned=chance.choice([forged, {}] if step.planned else [forged]))


def _change_prior_values(step: Step, _of: Plan, _chance: random.Random) -> Step:
    return replace(step, prior=None if step.prior else {"id": "mine"})


def _change_id(step: Step, of: Plan, chance: random.Random) -> Step:
    return replace(step, id=pick_other([*range(len(of.steps)), 9_999], step.id, chance))


def remove_step(of: Plan, chance: random.Random) -> Plan:
    gone = chance.randrange(len(of.steps))
    return replace(of, steps=of.steps[:gone] + of.steps[gone + 1 :])


def duplicate_step(of: Plan, chance: random.Random) -> Plan:
    more = replace(chance.choice(of.steps), id=len(of.steps))
    return replace(of, steps=(*of.steps, more))


def create_cycle(of: Plan, _chance: random.Random) -> Plan:
    first = of.steps[0]
    last = of.steps[-1]
    steps = [
        replace(first, waits_for=(last.id,)),
        *of.steps[1:-1],
        replace(last, waits_for=(first.id,)),
    ]
    return replace(of, steps=tuple(steps))


def remove_change(of: Plan, chance: random.Random) -> Plan:
    gone = chance.randrange(len(of.changes))
    return replace(of, changes=of.changes[:gone] + of.changes[gone + 1 :])


def _replace_change(of: Plan, position: int, **fields: Any) -> Plan:
    changes = list(of.changes)
    changes[position] = replace(changes[position], **fields)
    return replace(of, changes=tuple(changes))


def change_action(of: Plan, chance: random.Random) -> Plan:
    position = chance.randrange(len(of.changes))
    return _replace_change(
        of, position, action=pick_other(list(Action), of.changes[position].action, chance)
    )


def change_creation(of: Plan, chance: random.Random) -> Plan:
    position = chance.randrange(len(of.changes))
    side = chance.choice(["creation", "prior_creation"])
    return _replace_change(
        of, position, **{side: getattr(of.changes[position], side) + chance.choice([-1, 1, 77])}
    )


def change_address(of: Plan, chance: random.Random) -> Plan:
    address = parse_address(chance.choice(["nexus_site.x", "nexus_rack.s", "no_such.type"]))
    return _replace_change(of, chance.randrange(len(of.changes)), address=address)


def change_displayed_values(of: Plan, chance: random.Random) -> Plan:
    position = chance.randrange(len(of.changes))
    side = chance.choice(["before", "after"])
    values = {**(getattr(of.changes[position], side) or {}), "name": "shown"}
    return _replace_change(of, position, **{side: values})


def _replace_random_row(
    of: Plan, chance: random.Random, change: Callable[[PlacementChange], PlacementChange]
) -> Plan:
    rows = list(of.placements)
    position = chance.randrange(len(rows))
    rows[position] = change(rows[position])
    return replace(of, placements=tuple(rows))


def change_displayed_place(of: Plan, chance: random.Random) -> Plan:
    place = Placement("r0-bm99", "r0", "1", (0,))
    return _replace_random_row(
        of,
        chance,
        lambda row: replace(row, **{"source" if row.target is None else "target": place}),
    )


def change_row_action(of: Plan, chance: random.Random) -> Plan:
    return _replace_random_row(
        of,
        chance,
        lambda row: replace(row, action=pick_other(list(PlacementAction), row.action, chance)),
    )


def change_displayed_vm(of: Plan, chance: random.Random) -> Plan:
    return _replace_random_row(of, chance, lambda row: replace(row, object="mine"))


def remove_row(of: Plan, chance: random.Random) -> Plan:
    gone = chance.randrange(len(of.placements))
    return replace(of, placements=of.placements[:gone] + of.placements[gone + 1 :])


def duplicate_row(of: Plan, chance: random.Random) -> Plan:
    return replace(of, placements=(*of.placements, chance.choice(of.placements)))


def change_displayed_site(of: Plan, chance: random.Random) -> Plan:
    return _replace_random_row(of, chance, lambda row: replace(row, site_id="elsewhere"))


def use_values_of_wrong_type(of: Plan, chance: random.Random) -> Plan:
    """Change both sides alike, to a value no object of the type can have."""
    made = [
        i for i, c in enumerate(of.changes) if c.after is not None and c.action is not Action.NO_OP
    ]
    if not made:
        return remove_step(of, chance)
    position = chance.choice(made)
    after = {
        **(of.changes[position].after or {}),
        chance.choice(["name", "nodes", "rack"]): chance.choice([1, [1]]),
    }
    steps = [
        replace(step, planned=after)
        if step.change == position and step.kind in ("create", "update")
        else step
        for step in of.steps
    ]
    forged = replace(_replace_change(of, position, after=after), steps=tuple(steps))
    return forged if forged.changes != of.changes else remove_step(of, chance)


FORGERS: list[Forge] = [
    change_random_step(_move_to_other_change),
    change_random_step(_change_kind),
    change_random_step(_change_waits),
    change_random_step(_change_planned_values),
    change_random_step(_change_prior_values),
    change_random_step(_change_id),
    remove_step,
    duplicate_step,
    create_cycle,
    remove_change,
    change_action,
    change_creation,
    change_address,
    change_displayed_values,
    change_displayed_place,
    change_row_action,
    change_displayed_vm,
    remove_row,
    duplicate_row,
    change_displayed_site,
    use_values_of_wrong_type,
]


@pytest.mark.parametrize("number", range(len(FORGERS)))
def test_every_forged_plan_is_rejected(number: int) -> None:
    carried_out = []
    for seed in range(30):
        chance = random.Random(seed)
        case = seed % len(build_cases())
        genuine, _, _ = build_cases()[case]
        forged = FORGERS[number](genuine, chance)
        assert forged != genuine
        if compare_forged_plan(forged, case) == "":
            carried_out.append(seed)
    assert carried_out == []


def test_random_values_cause_no_traceback() -> None:
    parts: list[Any] = [None, -1, 0, 10**9, "x", "", [], {}, [None], {"x": None}, True]
    for seed in range(300):
        chance = random.Random(seed)
        case = seed % len(build_cases())
        genuine, _, _ = build_cases()[case]
        position = chance.randrange(len(genuine.changes))
        change = genuine.changes[position]
        side = "after" if change.after is not None else "before"
        values = dict(getattr(change, side))
        values[chance.choice(list(values))] = chance.choice(parts)
        forged = _replace_change(genuine, position, **{side: values})
        if forged != genuine:
            assert compare_forged_plan(forged, case), (seed, change.address)
