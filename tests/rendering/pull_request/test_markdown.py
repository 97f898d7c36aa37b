from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from nexusform.diagnostics import error
from nexusform.planning.plan import Action, CheckResult, InventoryRead, Plan
from nexusform.rendering.pull_request.markdown import render_markdown
from tests.rendering.pieces import separation_verdict
from tests.rendering.real_plans import REGISTRIES, RealPlan, many, nexusform, planned

CASES = ["added_cluster", "changed_placements", "every_action", "drifted", "outputs_only"]


@pytest.mark.parametrize("name", CASES)
def test_reads_as_reviewed(name: str, plans: SimpleNamespace, golden: Callable[[str, str], None]) -> None:
    plan = getattr(plans, name)()
    golden(f"markdown/{name}.md", render_markdown(plan, plans.files, plans.registries))


def test_the_verdict_comes_first(plans: SimpleNamespace) -> None:
    added = render_markdown(plans.added_cluster(), {}).split("\n")
    assert added[0] == "### nexusform: 1 to add, nothing moves"
    assert added[2].startswith("**Allowed** · 53 placed, **0 moved**")
    assert added[3] == "Plan: 1 to add, 0 to change, 0 to destroy."
    moved = render_markdown(plans.changed_placements(), {})
    assert moved.startswith("### nexusform: 1 to change, **1 placement moves**")
    assert "**1 moved** (`cluster-d-pool1-2`)" in moved
    nothing = render_markdown(Plan(), {})
    assert nothing.startswith("### nexusform: no changes")
    assert "\nNo changes. Your infrastructure matches the configuration.\n" in nothing


def test_a_refused_plan_says_by_what(plans: SimpleNamespace) -> None:
    plan = replace(
        plans.added_cluster(),
        errored=True,
        diagnostics=(error("does-not-fit", "No cell is free.", headline="3 x NC_P46_224_v1 do not fit"),),
    )
    text = render_markdown(plan, {})
    assert text.startswith("### nexusform: planning failed\n\n**Denied** by does-not-fit\n")
    assert "No cell is free." in text
    assert "to add" not in text


def test_a_denying_separation_rule_is_named(plans: SimpleNamespace) -> None:
    verdict = separation_verdict("core", "deny", "sometimes")
    finding = error("separation", address=str(verdict.address))
    refused = replace(
        plans.added_cluster(),
        errored=True,
        diagnostics=(finding, error("invalid-expression", headline="Also this")),
        separation_rules=(verdict,),
    )
    denied = render_markdown(refused, {})
    assert "**Denied** by separation rule nexus\\_separation\\_rule.core; Also this\n" in denied
    holding = replace(plans.added_cluster(), separation_rules=(replace(verdict, holds="always"),))
    kept = render_markdown(holding, {})
    assert "**Allowed** (separation nexus\\_separation\\_rule.core holds in every outcome)" in kept
    assert "| `nexus_separation_rule.core` | deny | always | 0 |" in kept


def test_the_first_twelve_lines_answer(examples: dict[str, RealPlan]) -> None:
    for name, room in (("nexus-document", "131 | **82**"), ("inventory", "- | 4")):
        real = examples[name]
        lines = render_markdown(real.saved.plan, real.sources, REGISTRIES).split("\n")[:12]
        head = "\n".join(lines)
        assert "**Allowed**" in head
        assert "**0 moved**" in head
        assert re.search(r"racks certain for \d+ of \d+", head)
        assert f"| free cells for NC\\_P46\\_224\\_v1 | {room} |" in head
        assert "the same with any one rack lost" in head
        assert "room for the surge VMs of every cluster" in head
    assert lines[11] == "Inventory: 8 h old"


def test_checks_and_age_are_told(plans: SimpleNamespace) -> None:
    plan = replace(
        plans.added_cluster(),
        checks=(CheckResult("check", "check.a", "pass"), CheckResult("check", "check.b", "fail", ("no",))),
        inventories=(InventoryRead("data.nexus_inventory.a", "2026-02-27T00:00:00Z"), InventoryRead("b", "")),
    )
    head = "\n".join(render_markdown(plan, {}).split("\n")[:12])
    assert "**Allowed** (1 check passes; 1 check fails)" in head
    assert "Inventory: of unknown age (the oldest of 2)" in head


def test_values_cannot_break_out_of_their_fence(plans: SimpleNamespace) -> None:
    plan = plans.every_shape()
    nasty = plan.changes[1].after | {"text": "```\n<script>\n````\n# not a heading"}
    text = render_markdown(replace(plan, changes=(replace(plan.changes[1], after=nasty),)), {})
    assert "\n`````diff\n" in text


def test_secrets_stay_hidden(plans: SimpleNamespace) -> None:
    plan = plans.every_shape()
    text = render_markdown(replace(plan, changes=plan.changes[:1]), {})
    for secret in ('"old"', '"new"', '"s1"', '"s2"'):
        assert secret not in text


# --- like changes, and size --------------------------------------------------------------------


def test_like_changes_are_told_once(tmp_path: Path) -> None:
    real = many(tmp_path, 300)
    text = render_markdown(real.saved.plan, real.sources, REGISTRIES)
    assert "`nexus_rack.r[0]` will be created; likewise `nexus_rack.r[1]`" in text
    assert "and 294 more" in text
    assert text.count('resource "nexus_rack"') == 1


def test_what_is_destroyed_is_named(plans: SimpleNamespace) -> None:
    gone = [
        plans.change(
            plans.address("nexus_rack", f"r{n}"), Action.DELETE, {"id": f"lab/r{n}", "name": f"r{n}"}, None
        )
        for n in range(30)
    ]
    text = render_markdown(Plan(changes=tuple(gone)), {})
    line = next(line for line in text.split("\n") if line.startswith("- `-`"))
    assert all(f"`nexus_rack.r{n}`" in line for n in range(30))


def test_different_updates_stay_apart(plans: SimpleNamespace) -> None:
    changes = [
        plans.change(
            plans.address("nexus_rack", f"r{n}"),
            Action.UPDATE,
            {"id": f"lab/r{n}", "machine_count": 16},
            {"id": f"lab/r{n}", "machine_count": 12 + n % 2},
        )
        for n in range(4)
    ]
    text = render_markdown(Plan(changes=tuple(changes)), {})
    assert (
        "`nexus_rack.r0` will be updated in-place; likewise `nexus_rack.r2`\n  - `machine_count`: `16` → `12`"
        in text
    )
    assert (
        "`nexus_rack.r1` will be updated in-place; likewise `nexus_rack.r3`\n  - `machine_count`: `16` → `13`"
        in text
    )


def _different(plans: SimpleNamespace, count: int = 5000) -> Plan:
    changes = tuple(
        plans.change(
            plans.address("nexus_rack", f"rack_of_aisle_{n}"),
            Action.UPDATE,
            {"id": f"lab/r{n}", "name": f"r{n}", "machine_count": n},
            {"id": f"lab/r{n}", "name": f"r{n}", "machine_count": n + 1},
        )
        for n in range(count)
    )
    return replace(plans.added_cluster(), changes=changes)


def test_five_thousand_different_changes_fit_into_a_comment(plans: SimpleNamespace) -> None:
    plan = _different(plans)
    text = render_markdown(plan, plans.files)
    assert len(text.encode()) <= 65_000
    assert "Plan: 0 to add, 5000 to change, 0 to destroy." in text
    assert "53 placed, **0 moved**" in text
    assert "| cluster-d | pool1 |" in text
    assert "zones-pinned" in text
    assert re.search(r"_Cut to stay within 65,000 bytes: Every change \(", text)
    assert text == render_markdown(plan, plans.files)


@pytest.mark.parametrize("most", [10, 200, 700, 1500, 3000, 8000, 30_000])
def test_no_size_is_exceeded_and_what_matters_stays(most: int, plans: SimpleNamespace) -> None:
    text = render_markdown(_different(plans, 600), plans.files, max_bytes=most)
    assert len(text.encode()) <= most
    assert text.count("```") % 2 == 0 or most < 700
    assert text.count("<details>") == text.count("</details>") or most < 700
    if most >= 700:
        assert "Plan: 0 to add, 600 to change, 0 to destroy." in text
        assert "Every change (left out)" in text or "lines shown" in text


def test_of_many_sites_the_one_that_changes_is_in_the_first_lines(tmp_path: Path) -> None:
    site = """
resource "nexus_site" "NAME" {}
resource "nexus_rack" "NAME" {
  site_id       = nexus_site.NAME.id
  machine_count = 2
}
resource "nexus_kubernetes_cluster" "NAME" {
  site_id    = nexus_site.NAME.id
  name       = "NAME-c"
  depends_on = [nexus_rack.NAME]

  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
}
"""
    text = "".join(site.replace("NAME", name) for name in "abcdef")
    (tmp_path / "main.nf.hcl").write_text(text)
    nexusform(tmp_path, "apply", "-auto-approve")
    grown = site.replace("NAME", "e").replace("count       = 1", "count       = 3")
    (tmp_path / "main.nf.hcl").write_text(text.replace(site.replace("NAME", "e"), grown))
    real = planned(tmp_path)
    first = render_markdown(real.saved.plan, real.sources, REGISTRIES).split("\n")[:12]
    assert "| 3 of 6 sites | a before | a after | b before | b after | e before | e after |" in first
    assert any("**19**" in line for line in first)
