"""moved blocks across a tree of modules: everything keeps its object."""

from __future__ import annotations

from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.plan import Action
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
    moved = (
        block.replace('"east"', '"west"') + "moved {\n  from = nexus_site.east\n  to   = nexus_site.west\n}\n"
    )
    result = plan(moved, state_of(block))
    assert moves(result) == {"nexus_site.east": "nexus_site.west"}
    (change,) = result.plan.changes
    assert change.after is not None
    assert change.after["name"] == "east"


def test_a_name_that_is_written_no_more_stays() -> None:
    block = 'resource "nexus_site" "s" {\n  name = "east"\n}\n'
    assert moves(plan('resource "nexus_site" "s" {\n}\n', state_of(block))) == {}
