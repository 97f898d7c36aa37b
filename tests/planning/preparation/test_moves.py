"""Tests of moved blocks across a tree of modules: every object is kept."""

from __future__ import annotations

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.plan import Action, Mode
from nexusform.state.objects import EMPTY
from tests.planning.harness import build_state, list_errors, plan

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


def build_module_tree(root: str = ROOT, region: str = REGION, zone: str = ZONE) -> dict[str, str]:
    return {"main.nf.hcl": root, "region/main.nf.hcl": region, "region/zone/main.nf.hcl": zone}


def list_moves(result: PlanResult) -> dict[str, str]:
    assert not list_errors(result)
    assert {c.action for c in result.plan.changes} == {Action.NO_OP}
    return {
        str(c.previous_address): str(c.address) for c in result.plan.changes if c.previous_address
    }


def test_renamed_module_moves_all_its_objects() -> None:
    renamed = ROOT.replace('module "region"', 'module "area"') + (
        "moved {\n  from = module.region\n  to   = module.area\n}\n"
    )
    found = list_moves(plan(build_module_tree(renamed), build_state(build_module_tree())))
    assert len(found) == 8
    assert all(new == old.replace("module.region", "module.area", 1) for old, new in found.items())


def test_count_to_for_each_at_every_level() -> None:
    region = REGION.replace("count  = length(var.zones)", "for_each = toset(var.zones)").replace(
        "var.zones[count.index]", "each.key"
    ) + (
        'moved {\n  from = module.zone[0]\n  to   = module.zone["a"]\n}\n'
        'moved {\n  from = module.zone[1]\n  to   = module.zone["b"]\n}\n'
    )
    root = ROOT.replace(', west = ["c"]', "")
    zone = ZONE.replace("count         = 2", 'for_each = toset(["0", "1"])').replace(
        "count.index", "each.key"
    ) + "".join(
        f'moved {{\n  from = nexus_rack.r[{n}]\n  to   = nexus_rack.r["{n}"]\n}}\n' for n in (0, 1)
    )
    found = list_moves(
        plan(build_module_tree(root, region, zone), build_state(build_module_tree(root)))
    )
    assert found == {
        f'module.region["east"].module.zone[{i}].nexus_rack.r[{n}]': (
            f'module.region["east"].module.zone["{z}"].nexus_rack.r["{n}"]'
        )
        for i, z in ((0, "a"), (1, "b"))
        for n in (0, 1)
    }


def test_chained_moves_combine_with_module_rename() -> None:
    zone = ZONE.replace('"nexus_rack" "r"', '"nexus_rack" "final"') + (
        "moved {\n  from = nexus_rack.r\n  to   = nexus_rack.middle\n}\n"
        "moved {\n  from = nexus_rack.middle\n  to   = nexus_rack.final\n}\n"
    )
    renamed = ROOT.replace('module "region"', 'module "area"') + (
        "moved {\n  from = module.region\n  to   = module.area\n}\n"
    )
    found = list_moves(
        plan(build_module_tree(renamed, zone=zone), build_state(build_module_tree()))
    )
    assert found['module.region["west"].module.zone[0].nexus_rack.r[1]'] == (
        'module.area["west"].module.zone[0].nexus_rack.final[1]'
    )
    assert len(found) == 8


def test_resource_moves_into_module() -> None:
    flat = 'resource "nexus_site" "s" {\n  name = "east"\n}\n'
    root = ROOT.replace('{ east = ["a", "b"], west = ["c"] }', "{ east = [] }") + (
        'moved {\n  from = nexus_site.s\n  to   = module.region["east"].nexus_site.s\n}\n'
    )
    found = list_moves(plan(build_module_tree(root), build_state(flat)))
    assert found == {"nexus_site.s": 'module.region["east"].nexus_site.s'}


def test_moved_object_without_configured_name_keeps_its_name() -> None:
    block = 'resource "nexus_site" "east" {\n}\n'
    moved = (
        block.replace('"east"', '"west"')
        + "moved {\n  from = nexus_site.east\n  to   = nexus_site.west\n}\n"
    )
    result = plan(moved, build_state(block))
    assert list_moves(result) == {"nexus_site.east": "nexus_site.west"}
    (change,) = result.plan.changes
    assert change.after is not None
    assert change.after["name"] == "east"


def test_name_removed_from_configuration_is_kept() -> None:
    block = 'resource "nexus_site" "s" {\n  name = "east"\n}\n'
    assert list_moves(plan('resource "nexus_site" "s" {\n}\n', build_state(block))) == {}


# --- moved and removed blocks --------------------------------------------------------------------


def build_sites(body: str) -> str:
    return f'resource "nexus_site" "x" {{\n{body}\n}}\n'


TWO = build_sites('count = 2\n name = "s${count.index}"')
ONE = build_sites('name = "s1"')


def build_moved_block(source: str, target: str) -> str:
    return f"moved {{\n  from = {source}\n  to   = {target}\n}}\n"


def list_error_ids(*parts: str) -> list[str]:
    return [each.id for each in list_errors(plan("".join(parts)))]


def test_explicit_move_has_priority_over_implied_move() -> None:
    result = plan(ONE + build_moved_block("nexus_site.x[1]", "nexus_site.x"), build_state(TWO))
    assert not list_errors(result)
    actions = {str(c.address): c.action for c in result.plan.changes}
    assert actions == {"nexus_site.x": Action.NO_OP, "nexus_site.x[0]": Action.DELETE}
    (kept,) = [c for c in result.plan.changes if c.previous_address]
    assert str(kept.previous_address) == "nexus_site.x[1]"


def test_first_instance_is_kept_without_moved_block() -> None:
    result = plan(build_sites('name = "s0"'), build_state(TWO))
    actions = {str(c.address): c.action for c in result.plan.changes}
    assert actions == {"nexus_site.x": Action.NO_OP, "nexus_site.x[1]": Action.DELETE}


def test_moved_object_must_not_be_declared() -> None:
    assert list_error_ids(TWO, build_moved_block("nexus_site.x[1]", "nexus_site.x[5]")) == [
        "moved-object-still-exists"
    ]
    assert list_error_ids(TWO, build_moved_block("nexus_site.x[2]", "nexus_site.x[1]")) == []
    assert list_error_ids(ONE, build_moved_block("nexus_site.x", "nexus_site.y")) == [
        "moved-object-still-exists"
    ]
    keyed = build_sites('for_each = toset(["a"])\n name = each.key')
    chain = build_moved_block("nexus_site.x[0]", 'nexus_site.x["a"]') + build_moved_block(
        'nexus_site.x["a"]', 'nexus_site.x["b"]'
    )
    assert list_error_ids(keyed, chain) == ["moved-object-still-exists"]


def test_two_moves_with_same_source_or_target_are_an_error() -> None:
    apart = build_moved_block("nexus_site.a", "nexus_site.x") + build_moved_block(
        "nexus_site.a", "nexus_site.z"
    )
    assert list_error_ids(ONE, apart) == ["ambiguous-move-statements"]
    together = build_moved_block("nexus_site.a", "nexus_site.x") + build_moved_block(
        "nexus_site.b", "nexus_site.x"
    )
    assert list_error_ids(ONE, together) == ["ambiguous-move-statements"]


def test_all_instances_and_single_instance_are_distinct_sources() -> None:
    both = build_moved_block("nexus_site.b", 'nexus_site.b["l"]') + build_moved_block(
        "nexus_site.b", "nexus_site.a"
    )
    assert list_error_ids(both) == []


def test_removed_object_must_not_be_declared() -> None:
    removed = "removed {\n  from = nexus_site.x\n  lifecycle {\n    destroy = false\n  }\n}\n"
    (problem,) = list_errors(plan(ONE + removed))
    assert problem.id == "removed-resource-still-exists"
    assert problem.subject is not None
    assert list_error_ids(removed) == []
    module = {"main.nf.hcl": 'module "m" {\n source = "./m"\n}\n', "m/main.nf.hcl": ONE}
    module["main.nf.hcl"] += removed.replace("nexus_site.x", "module.m")
    assert [each.id for each in list_errors(plan(module))] == ["removed-module-still-exists"]


def test_removed_blocks_are_not_checked_if_nothing_is_deleted() -> None:
    """As in Terraform 1.11: a refresh and the destroy of an empty state ignore such blocks."""
    removed = "removed {\n  from = nexus_site.x\n  lifecycle {\n    destroy = false\n  }\n}\n"
    state = build_state(ONE)
    assert list_errors(plan(ONE + removed, state, mode=Mode.REFRESH_ONLY)) == []
    assert list_errors(plan(ONE + removed, mode=Mode.DESTROY)) == []
    (problem,) = list_errors(plan(ONE + removed, state, mode=Mode.DESTROY))
    assert problem.id == "removed-resource-still-exists"


def test_move_to_another_type_is_an_error_with_and_without_state() -> None:
    rack = 'resource "nexus_rack" "x" {\n  site_id = "lab"\n  machine_count = 1\n}\n'
    both = rack + build_moved_block("nexus_site.x", "nexus_rack.x")
    for state in (EMPTY, build_state(ONE)):
        (problem,) = [
            each for each in list_errors(plan(both, state)) if each.id.startswith("moved")
        ]
        assert problem.id == "moved-to-another-type"
        assert problem.subject is not None
    still_there = list_errors(plan(ONE + both))
    assert [each.id for each in still_there if each.id.startswith("moved")] == [
        "moved-to-another-type"
    ]


def test_invalid_move_has_no_effect() -> None:
    both = ONE + ONE.replace('"x"', '"y"').replace("s1", "s2")
    result = plan(both + build_moved_block("nexus_site.x", "nexus_site.y"), build_state(both))
    assert [each.id for each in result.plan.diagnostics] == ["moved-object-still-exists"]


def test_move_to_undeclared_address_is_the_delete_reason() -> None:
    rest = build_sites("count = 1").replace('"x"', '"rest"')
    result = plan(rest + build_moved_block("nexus_site.x", "nexus_site.y"), build_state(ONE))
    gone = next(change for change in result.plan.changes if change.action is Action.DELETE)
    assert (str(gone.address), gone.reason) == ("nexus_site.y", "delete_because_no_move_target")


def test_forgotten_object_has_a_reason() -> None:
    removed = "removed {\n  from = nexus_site.x\n  lifecycle {\n    destroy = false\n  }\n}\n"
    (change,) = plan(removed, build_state(ONE)).plan.changes
    assert (change.action, change.reason) == (Action.FORGET, "delete_because_no_resource_config")


def build_removed_block(address: str, *, destroy: bool) -> str:
    return (
        f"removed {{\n  from = {address}\n  lifecycle {{\n    destroy = {str(destroy).lower()}\n  "
        "}\n}\n"
    )


def test_first_of_contradicting_removed_blocks_of_an_address_counts() -> None:
    """Terraform 1.11 decides all of these cases in the same way."""
    keep, destroy = (build_removed_block("nexus_site.x", destroy=value) for value in (False, True))
    for text, action in ((keep + destroy, Action.FORGET), (destroy + keep, Action.DELETE)):
        (change,) = plan(text, build_state(ONE)).plan.changes
        assert change.action is action


def test_object_is_kept_if_a_removed_block_of_it_or_of_its_module_keeps_it() -> None:
    module = {"main.nf.hcl": 'module "m" {\n  source = "./m"\n}\n', "m/main.nf.hcl": ONE}
    state = build_state(module)
    for keeps_module in (True, False):
        blocks = [
            build_removed_block("module.m", destroy=not keeps_module),
            build_removed_block("module.m.nexus_site.x", destroy=keeps_module),
        ]
        for text in ("".join(blocks), "".join(reversed(blocks))):
            (change,) = plan(text, state).plan.changes
            assert change.action is Action.FORGET


def test_removed_block_of_the_root_module_counts_before_that_of_a_module() -> None:
    module = {"main.nf.hcl": 'module "m" {\n  source = "./m"\n}\n', "m/main.nf.hcl": ONE}
    state = build_state(module)
    module["main.nf.hcl"] += build_removed_block("module.m.nexus_site.x", destroy=True)
    module["m/main.nf.hcl"] = build_removed_block("nexus_site.x", destroy=False)
    (change,) = plan(module, state).plan.changes
    assert change.action is Action.DELETE
