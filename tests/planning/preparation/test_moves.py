"""moved blocks across a tree of modules: everything keeps its object."""

from __future__ import annotations

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.plan import Action, Mode
from nexusform.state.objects import EMPTY
from tests.planning.harness import errors, plan, state_of

ZONE = """
variable "site" {}
variable "zone" {}
resource "nexus_rack" "r" {
  count         = 2
  site_id       = var.site
  name          = "z${var.zone}r${count.index}"
  machine_count = 1
}
"""
REGION = """
variable "name" {}
variable "zones" {}
resource "nexus_site" "s" {
  name = var.name
}
module "zone" {
  source = "./zone"
  count  = length(var.zones)
  site   = nexus_site.s.id
  zone   = var.zones[count.index]
}
"""
ROOT = """
module "region" {
  source   = "./region"
  for_each = { east = ["a", "b"], west = ["c"] }
  name     = each.key
  zones    = each.value
}
"""


def tree(root: str = ROOT, region: str = REGION, zone: str = ZONE) -> dict[str, str]:
    return {"main.nf.hcl": root, "region/main.nf.hcl": region, "region/zone/main.nf.hcl": zone}


def moves(result: PlanResult) -> dict[str, str]:
    assert not errors(result)
    assert {c.action for c in result.plan.changes} == {Action.NO_OP}
    return {str(c.previous_address): str(c.address) for c in result.plan.changes if c.previous_address}


def test_a_renamed_module_takes_everything_below_it_along() -> None:
    renamed = ROOT.replace('module "region"', 'module "area"') + (
        "moved {\n  from = module.region\n  to   = module.area\n}\n"
    )
    found = moves(plan(tree(renamed), state_of(tree())))
    assert len(found) == 8
    assert all(new == old.replace("module.region", "module.area", 1) for old, new in found.items())


def test_count_becomes_for_each_at_every_level() -> None:
    region = REGION.replace("count  = length(var.zones)", "for_each = toset(var.zones)").replace(
        "var.zones[count.index]", "each.key"
    ) + (
        'moved {\n  from = module.zone[0]\n  to   = module.zone["a"]\n}\n'
        'moved {\n  from = module.zone[1]\n  to   = module.zone["b"]\n}\n'
    )
    root = ROOT.replace(', west = ["c"]', "")
    zone = ZONE.replace("count         = 2", 'for_each = toset(["0", "1"])').replace(
        "count.index", "each.key"
    ) + "".join(f'moved {{\n  from = nexus_rack.r[{n}]\n  to   = nexus_rack.r["{n}"]\n}}\n' for n in (0, 1))
    found = moves(plan(tree(root, region, zone), state_of(tree(root))))
    assert found == {
        f'module.region["east"].module.zone[{i}].nexus_rack.r[{n}]': (
            f'module.region["east"].module.zone["{z}"].nexus_rack.r["{n}"]'
        )
        for i, z in ((0, "a"), (1, "b"))
        for n in (0, 1)
    }


def test_chains_and_a_rename_inside_a_module_go_together() -> None:
    zone = ZONE.replace('"nexus_rack" "r"', '"nexus_rack" "final"') + (
        "moved {\n  from = nexus_rack.r\n  to   = nexus_rack.middle\n}\n"
        "moved {\n  from = nexus_rack.middle\n  to   = nexus_rack.final\n}\n"
    )
    renamed = ROOT.replace('module "region"', 'module "area"') + (
        "moved {\n  from = module.region\n  to   = module.area\n}\n"
    )
    found = moves(plan(tree(renamed, zone=zone), state_of(tree())))
    assert found['module.region["west"].module.zone[0].nexus_rack.r[1]'] == (
        'module.area["west"].module.zone[0].nexus_rack.final[1]'
    )
    assert len(found) == 8


def test_a_resource_moves_into_a_module() -> None:
    flat = 'resource "nexus_site" "s" {\n  name = "east"\n}\n'
    root = ROOT.replace('{ east = ["a", "b"], west = ["c"] }', "{ east = [] }") + (
        'moved {\n  from = nexus_site.s\n  to   = module.region["east"].nexus_site.s\n}\n'
    )
    found = moves(plan(tree(root), state_of(flat)))
    assert found == {"nexus_site.s": 'module.region["east"].nexus_site.s'}


def test_what_has_no_name_written_keeps_its_own_under_another_block() -> None:
    block = 'resource "nexus_site" "east" {\n}\n'
    moved = block.replace('"east"', '"west"') + "moved {\n  from = nexus_site.east\n  to   = nexus_site.west\n}\n"
    result = plan(moved, state_of(block))
    assert moves(result) == {"nexus_site.east": "nexus_site.west"}
    (change,) = result.plan.changes
    assert change.after is not None
    assert change.after["name"] == "east"


def test_a_name_that_is_written_no_more_stays() -> None:
    block = 'resource "nexus_site" "s" {\n  name = "east"\n}\n'
    assert moves(plan('resource "nexus_site" "s" {\n}\n', state_of(block))) == {}


# --- statements ----------------------------------------------------------------------------------


def sites(body: str) -> str:
    return f'resource "nexus_site" "x" {{\n{body}\n}}\n'


TWO = sites('count = 2\n name = "s${count.index}"')
ONE = sites('name = "s1"')


def moved(source: str, target: str) -> str:
    return f"moved {{\n  from = {source}\n  to   = {target}\n}}\n"


def ids(*parts: str) -> list[str]:
    return [each.id for each in errors(plan("".join(parts)))]


def test_an_explicit_move_comes_before_the_implied_one() -> None:
    result = plan(ONE + moved("nexus_site.x[1]", "nexus_site.x"), state_of(TWO))
    assert not errors(result)
    actions = {str(c.address): c.action for c in result.plan.changes}
    assert actions == {"nexus_site.x": Action.NO_OP, "nexus_site.x[0]": Action.DELETE}
    (kept,) = [c for c in result.plan.changes if c.previous_address]
    assert str(kept.previous_address) == "nexus_site.x[1]"


def test_without_statements_the_first_instance_stays() -> None:
    result = plan(sites('name = "s0"'), state_of(TWO))
    actions = {str(c.address): c.action for c in result.plan.changes}
    assert actions == {"nexus_site.x": Action.NO_OP, "nexus_site.x[1]": Action.DELETE}


def test_what_moved_may_not_be_declared_any_more() -> None:
    assert ids(TWO, moved("nexus_site.x[1]", "nexus_site.x[5]")) == ["moved-object-still-exists"]
    assert ids(TWO, moved("nexus_site.x[2]", "nexus_site.x[1]")) == []
    assert ids(ONE, moved("nexus_site.x", "nexus_site.y")) == ["moved-object-still-exists"]
    keyed = sites('for_each = toset(["a"])\n name = each.key')
    chain = moved("nexus_site.x[0]", 'nexus_site.x["a"]') + moved('nexus_site.x["a"]', 'nexus_site.x["b"]')
    assert ids(keyed, chain) == ["moved-object-still-exists"]


def test_nothing_moves_to_two_places_and_nothing_comes_from_two() -> None:
    apart = moved("nexus_site.a", "nexus_site.x") + moved("nexus_site.a", "nexus_site.z")
    assert ids(ONE, apart) == ["ambiguous-move-statements"]
    together = moved("nexus_site.a", "nexus_site.x") + moved("nexus_site.b", "nexus_site.x")
    assert ids(ONE, together) == ["ambiguous-move-statements"]


def test_all_instances_and_the_only_one_are_two_things() -> None:
    both = moved("nexus_site.b", 'nexus_site.b["l"]') + moved("nexus_site.b", "nexus_site.a")
    assert ids(both) == []


def test_what_was_removed_may_not_be_declared_any_more() -> None:
    removed = "removed {\n  from = nexus_site.x\n  lifecycle {\n    destroy = false\n  }\n}\n"
    (problem,) = errors(plan(ONE + removed))
    assert problem.id == "removed-resource-still-exists"
    assert problem.subject is not None
    assert ids(removed) == []
    module = {"main.nf.hcl": 'module "m" {\n source = "./m"\n}\n', "m/main.nf.hcl": ONE}
    module["main.nf.hcl"] += removed.replace("nexus_site.x", "module.m")
    assert [each.id for each in errors(plan(module))] == ["removed-module-still-exists"]


def test_what_was_removed_is_not_looked_for_where_nothing_is_taken_away() -> None:
    """As Terraform 1.11 has it: a refresh says nothing of such blocks, nor does the end of nothing."""
    removed = "removed {\n  from = nexus_site.x\n  lifecycle {\n    destroy = false\n  }\n}\n"
    state = state_of(ONE)
    assert errors(plan(ONE + removed, state, mode=Mode.REFRESH_ONLY)) == []
    assert errors(plan(ONE + removed, mode=Mode.DESTROY)) == []
    (problem,) = errors(plan(ONE + removed, state, mode=Mode.DESTROY))
    assert problem.id == "removed-resource-still-exists"


def test_an_object_keeps_its_type_whether_it_stands_or_not() -> None:
    rack = 'resource "nexus_rack" "x" {\n  site_id = "lab"\n  machine_count = 1\n}\n'
    both = rack + moved("nexus_site.x", "nexus_rack.x")
    for state in (EMPTY, state_of(ONE)):
        (problem,) = [each for each in errors(plan(both, state)) if each.id.startswith("moved")]
        assert problem.id == "moved-to-another-type"
        assert problem.subject is not None
    still_there = errors(plan(ONE + both))
    assert [each.id for each in still_there if each.id.startswith("moved")] == ["moved-to-another-type"]


def test_nothing_follows_from_statements_that_cannot_be_followed() -> None:
    both = ONE + ONE.replace('"x"', '"y"').replace("s1", "s2")
    result = plan(both + moved("nexus_site.x", "nexus_site.y"), state_of(both))
    assert [each.id for each in result.plan.diagnostics] == ["moved-object-still-exists"]


def test_the_reason_of_what_moved_to_nowhere_is_that() -> None:
    rest = sites("count = 1").replace('"x"', '"rest"')
    result = plan(rest + moved("nexus_site.x", "nexus_site.y"), state_of(ONE))
    gone = next(change for change in result.plan.changes if change.action is Action.DELETE)
    assert (str(gone.address), gone.reason) == ("nexus_site.y", "delete_because_no_move_target")


def test_what_is_forgotten_says_why() -> None:
    removed = "removed {\n  from = nexus_site.x\n  lifecycle {\n    destroy = false\n  }\n}\n"
    (change,) = plan(removed, state_of(ONE)).plan.changes
    assert (change.action, change.reason) == (Action.FORGET, "delete_because_no_resource_config")
