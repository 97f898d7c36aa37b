""""""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import build_error
from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.plans.plan import Action, Change, CheckResult, InventoryRead, PlacementAction, Plan
from nexusform.plans.site_capacity.occupancy import MachineVmCount, RackVmCounts
from nexusform.rendering.page.html_page import render_html
from nexusform.rendering.pull_request.plan_comment import render_markdown
from nexusform.rendering.report.rack_picture import MAX_WIDTH, render_rack_picture
from nexusform.rendering.report.report_tree import CodeOrigin
from nexusform.rendering.text.plan_text import PlanTextOptions
from nexusform.rendering.text.plan_text import render_plan as render_short_plan
from tests.planning.harness import (
    RACKS,
    add_consequences,
    build_all_types,
    build_state,
    cluster,
    pool,
    require_success,
)
from tests.planning.harness import plan as plan_of
from tests.rendering.pieces import separation_verdict
from tests.rendering.real_plans import (
    REGISTRIES,
    RealPlan,
    copy_example,
    nexusform,
    plan_directory,
    plan_many_objects,
    render_comment,
    render_failed_plan,
)


@pytest.mark.of_domains("fleet")
def test_fleet_and_pods_match_reviewed_file(
    plans: SimpleNamespace, golden: Callable[[str, str], None]
) -> None:
    golden(
        "markdown/fleet_and_pods.md",
        render_markdown(plans.fleet_and_pods(), plans.files, plans.registries),
    )


def test_comment_starts_with_the_verdict(plans: SimpleNamespace) -> None:
    added = render_markdown(plans.added_cluster(), {}).split("\n")
    assert added[0] == "### nexusform: 1 to add, 53 VMs to place, nothing moves"
    assert added[1].startswith("> [!")
    assert added[2] == "> - **Impact**: no running workload affected"
    assert "\n> - Plan: 1 to add, 0 to change, 0 to destroy.\n" in "\n".join(added)
    moved = render_markdown(plans.changed_placements(), {})
    assert moved.startswith(
        "### nexusform: 1 VM is re-created on another machine, "
        "3 VMs are removed from cluster-d/pool2\n> [!WARNING]\n"
    )
    assert "- `~` `cluster-d-pool1-2` " in moved
    nothing = render_markdown(Plan(), {})
    assert nothing.startswith("### nexusform: no changes\n> [!NOTE]\n")
    assert "\n> - Plan: No changes. Your infrastructure matches the configuration.\n" in nothing


def test_failed_plan_names_its_errors(plans: SimpleNamespace) -> None:
    detail = (
        "No cell is free.\n\nSuggested fixes (tested):\n 1. count = 3 fits.\nNo changes were made."
    )
    plan = replace(
        plans.added_cluster(),
        errored=True,
        diagnostics=(
            build_error("guard-rail", "5 VMs move.", extra={"guard_rail": "moved:0"}),
            build_error(
                "insufficient-capacity",
                detail,
                headline=("3 x NC_P46_224_v1 do not fit"),
                brief="d/p does not fit",
            ),
        ),
    )
    text = render_markdown(plan, {})
    head = "### nexusform: planning failed: d/p does not fit\n> [!CAUTION]\n"
    denied = "> - **Plan failed**: 2 errors. No changes were made.\n"
    assert text.startswith(head + denied)
    assert text.index("do not fit**") < text.index("**Guard rail exceeded**")
    shown = text.split("<details>")[0]
    assert "\n**3 x NC\\_P46\\_224\\_v1 do not fit**\n\nNo cell is free.\n" in shown
    assert "\n\n1. count = 3 fits.\n\n" in shown
    assert "to add" not in text


def test_failed_plan_of_a_real_site_matches_reviewed_file(
    tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    text = render_failed_plan(tmp_path)
    assert "\n1. count = " in text.split("<details>")[0]
    golden("markdown/refused.md", text)


def test_violated_rule_lists_its_suggested_fixes(
    tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    golden("markdown/separation_refused.md", render_comment(copy_example("separation", tmp_path)))


def test_samples_that_violate_a_separation_rule_are_counted(plans: SimpleNamespace) -> None:
    verdict = replace(
        separation_verdict("core", "warn", "sometimes"), sample_count=100, satisfied_count=47
    )
    comment = render_markdown(
        replace(
            plans.added_cluster(),
            verdicts=replace(plans.added_cluster().verdicts, separation_verdicts=(verdict,)),
        ),
        {},
    )
    assert "core may be violated (in 53 of 100 samples)" in comment.replace("\\", "")


def test_denying_separation_rule_is_named(plans: SimpleNamespace) -> None:
    verdict = separation_verdict("core", "deny", "sometimes")
    finding = build_error("separation", address=str(verdict.address))
    refusing = replace(
        plans.added_cluster(),
        errored=True,
        diagnostics=(finding, build_error("invalid-expression", headline="Also this")),
        verdicts=replace(plans.added_cluster().verdicts, separation_verdicts=(verdict,)),
    )
    denied = render_markdown(refusing, {})
    rule = "separation rule nexus\\_separation\\_rule.core"
    assert denied.startswith(
        f"### nexusform: planning failed: {rule} does not hold, and 1 more error\n"
    )
    assert "> - **Plan failed**: 2 errors. No changes were made.\n" in denied
    holding = replace(
        plans.added_cluster(),
        verdicts=replace(
            plans.added_cluster().verdicts,
            separation_verdicts=(replace(verdict, satisfied="always"),),
        ),
    )
    kept = render_markdown(holding, {})
    assert "- **Separation**: core holds, in the plan" in kept
    assert "- `nexus_separation_rule.core` (machine, deny) holds always" in kept


def test_comment_is_narrow(examples: Mapping[str, RealPlan]) -> None:
    for name, real in examples.items():
        shown = render_markdown(real.saved.plan, real.sources, REGISTRIES).split("<details>")[0]
        rows = [line for line in shown.split("\n") if line.startswith("|")]
        assert all(row.count(" | ") <= 2 for row in rows), name
        for picture in re.findall(r"\n```text\n(.*?)\n```", shown, re.DOTALL):
            assert max(map(len, picture.split("\n"))) <= 38, name


def test_visible_part_reports_every_warning_once(examples: Mapping[str, RealPlan]) -> None:
    for real in examples.values():
        shown = render_markdown(real.saved.plan, real.sources, REGISTRIES).split("<details>")[0]
        for finding in real.saved.plan.diagnostics:
            assert shown.count(f"{finding.id}: {finding.brief.split(': ')[0]}") <= 1
            assert finding.summary not in shown


def test_certainty_is_either_reported_or_not_computed(examples: Mapping[str, RealPlan]) -> None:
    for real in examples.values():
        shown = render_markdown(real.saved.plan, real.sources, REGISTRIES)
        for line in shown.split("\n"):
            assert not ("not computed" in line and re.search(r"\d of \d", line)), line


@pytest.mark.of_domains("fleet")
def test_certainty_covers_only_vms(examples: Mapping[str, RealPlan]) -> None:
    fleet = render_markdown(examples["end-to-end"].saved.plan, {}, REGISTRIES)
    line = "- rack counts exact for 4 of 14 VMs if the placement rule holds (not verified"
    assert line in " ".join(fleet.replace("\n> ", " ").split())
    assert ">   - Pods: 10 to place, 0 to move, 0 to remove, 0 kept\n" in fleet


def test_moves_are_reported_with_origin_and_target(examples: Mapping[str, RealPlan]) -> None:
    real = examples["evacuated"]
    origin = CodeOrigin("https://code.example/o/r/blob/0123", "lab", "0123456789abcdef")
    text = render_markdown(real.saved.plan, real.sources, REGISTRIES, origin=origin)
    first_screen, _, below = text.partition("<details>")
    move = "rack3-bm12 → **rack3-bm13** (machine\\_evacuated; 14 % certain)"
    assert f"- `~` `cluster-a-pool1-5` {move}\n" in first_screen
    assert "tie-break" not in first_screen
    assert "cluster-a-pool1-5` |" not in below
    cause = "Cause: [main.nf.hcl:17](https://code.example/o/r/blob/0123/lab/main.nf.hcl#L17)."
    assert cause in text
    assert "before  1211  1212  2112  1222\nafter   2221  1212  21xx  2222\n" in text
    assert "\nNot caused by this plan: cluster-d/pool1: an upgrade would fail" in text
    assert text.count("46 -> 43 x NC\\_P46\\_224\\_v1") == 1
    assert "| spare capacity" not in text
    assert "\ncommit `0123456789ab`" in text


def test_checks_and_inventory_age_are_reported(plans: SimpleNamespace) -> None:
    plan = replace(
        plans.added_cluster(),
        start=replace(plans.added_cluster().start, timestamp="2026-02-28T14:00:00Z"),
        verdicts=replace(
            plans.added_cluster().verdicts,
            checks=(
                CheckResult("check", "check.a", "pass"),
                CheckResult("check", "check.b", "fail", ("no",)),
            ),
        ),
        observed=replace(
            plans.added_cluster().observed,
            inventories=(
                InventoryRead("data.nexus_inventory.a", "2026-02-27T00:00:00Z", is_stale=True),
                InventoryRead("b", "", is_stale=True),
            ),
        ),
    )
    head = render_markdown(plan, {}).split("\n\n")[0]
    assert "\n> [!WARNING]\n" in head
    assert "\n- **Conditions**: 1 holds, 1 fails (predicted).\n" in render_markdown(plan, {})
    assert "\n**inventory of unknown age (the oldest of 2)**" in render_markdown(plan, {})
    young = replace(
        plan,
        observed=replace(plan.observed, inventories=(InventoryRead("a", "2026-02-28T06:00:00Z"),)),
    )
    assert "inventory" not in render_markdown(young, {}).split("\n\n")[0]
    assert "\ninventory 8 h old\n" in render_markdown(young, {})
    old = replace(
        plan,
        observed=replace(
            plan.observed, inventories=(InventoryRead("a", "2026-02-20T06:00:00Z", is_stale=True),)
        ),
    )
    assert "\n**inventory 8 days old**" in render_markdown(old, {})


def test_values_cannot_escape_their_code_fence(plans: SimpleNamespace) -> None:
    plan = plans.every_shape()
    nasty = plan.changes[1].after | {"text": "```\n<script>\n````\n# not a heading"}
    text = render_markdown(replace(plan, changes=(replace(plan.changes[1], after=nasty),)), {})
    assert "\n`````diff\n" in text


def test_secrets_stay_hidden(plans: SimpleNamespace) -> None:
    plan = plans.every_shape()
    text = render_markdown(replace(plan, changes=plan.changes[:1]), {})
    for secret in ('"old"', '"new"', '"s1"', '"s2"'):
        assert secret not in text


# --- similar changes, and size -----------------------------------------------------------------


def test_similar_changes_are_reported_once(tmp_path: Path) -> None:
    real = plan_many_objects(tmp_path, 300)
    text = render_markdown(real.saved.plan, real.sources, REGISTRIES)
    assert "- `+` `nexus_rack.r[0..299]` r0..299: 2 machines each" in text
    assert text.count('resource "nexus_rack"') == 1


def test_destroyed_objects_are_named(plans: SimpleNamespace) -> None:
    gone = [
        plans.change(
            plans.address("nexus_rack", f"r{n}"),
            Action.DELETE,
            {"id": f"lab/r{n}", "name": f"r{n}"},
            None,
        )
        for n in range(30)
    ]
    text = render_markdown(Plan(changes=tuple(gone)), {})
    assert "\n- `-` `nexus_rack.r0..29`" in text


def test_different_updates_are_listed_separately(plans: SimpleNamespace) -> None:
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
    assert "`nexus_rack.r0`" in text
    assert text.count("machine\\_count 16 -> 12") == text.count("machine\\_count 16 -> 13") == 2


def _build_different_changes(plans: SimpleNamespace, count: int = 5000) -> Plan:
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
    plan = _build_different_changes(plans)
    text = render_markdown(plan, plans.files)
    assert len(text.encode()) <= 65_000
    assert "Plan: 0 to add, 5,000 to change, 0 to destroy." in text
    assert "> - **Placements**: 53 to place, 0 to move, 0 to remove, 125 kept\n" in text
    assert "- `cluster-d/pool1`: 24 VMs, " in text
    assert "zones-pinned" in text
    assert re.search(r"_Cut to stay within 65,000 bytes: Every change \(", text)
    assert text == render_markdown(plan, plans.files)


@pytest.mark.parametrize("most", [10, 200, 700, 1500, 3000, 8000, 30_000])
def test_size_limit_holds_and_important_parts_stay(most: int, plans: SimpleNamespace) -> None:
    text = render_markdown(_build_different_changes(plans, 600), plans.files, max_bytes=most)
    assert len(text.encode()) <= most
    assert text.count("```") % 2 == 0 or most < 700
    assert text.count("<details>") == text.count("</details>") or most < 700
    if most >= 700:
        assert "Plan: 0 to add, 600 to change, 0 to destroy." in text
        assert "Every change (left out)" in text or "lines shown" in text


def test_only_the_changed_one_of_many_sites_has_capacity(tmp_path: Path) -> None:
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
    real = plan_directory(tmp_path)
    text = render_markdown(real.saved.plan, real.sources, REGISTRIES)
    assert "| before | after |" not in text.split("<details>")[0]
    assert ">   - other 5 sites unchanged\n" in text
    head = text.split("\n```text")[0]
    assert "| **e** | 3 (+2) | 2 to place |\n\n5 sites unchanged: a, b, c, d, f.\n" in head
    assert "\ne/e     1\nbefore  " in text
    shown = render_short_plan(
        real.saved.plan, real.sources, PlanTextOptions(registries=REGISTRIES, width=80)
    )
    assert shown.startswith(
        "Sites:\n  site  VMs     changes\n  e     3 (+2)  2 to place\n  5 sites unchanged: a, "
        "b, c, d, f.\n"
    )
    assert "\n             other 5 sites unchanged\n" in shown
    page = render_html(real.saved.plan, real.sources, REGISTRIES)
    assert '<a href="#site=e">e</a>' in page
    assert "**19**" in text


def build_rack(name: str, *machines: tuple[int | None, int | None, bool]) -> RackVmCounts:
    return RackVmCounts("lab", name, tuple(MachineVmCount(*machine) for machine in machines), 0)


def test_before_line_is_above_after_line() -> None:
    changed = build_rack(
        "rack3", (1, 2, False), (2, 0, True), (0, 0, True), (12, 12, False), (None, 1, False)
    )
    assert render_rack_picture([changed]) == [
        "rack3   1     5",
        "before  120+  .",
        "after   2xx+  1",
        "digit: VMs on that machine",
        "x: out of service",
        ".: no machine",
        "+: ten or more",
    ]


def test_new_rack_has_one_line() -> None:
    assert render_rack_picture([build_rack("r1", (None, 1, False), (None, 0, False))])[:1] == [
        "r1      10"
    ]


def test_lines_of_rack_pictures_fit_a_phone() -> None:
    many = [
        build_rack(f"a-rack-with-a-very-long-name-indeed-{n}", *[(1, 2, False)] * 50)
        for n in range(9)
    ]
    picture = render_rack_picture(many)
    assert max(map(len, picture)) <= MAX_WIDTH
    assert "and 5 more racks" in picture
    assert render_rack_picture([]) == []


def test_plan_without_object_changes_has_its_own_headline(plans: SimpleNamespace) -> None:
    refreshed = render_markdown(plans.refresh_only(), plans.files, plans.registries)
    assert refreshed.startswith(
        "### nexusform: 3 objects changed outside of nexusform, nothing moves\n"
    )
    assert "- `-` `nexus_rack.gone` r: has been deleted\n" in refreshed.split("<details>")[0]
    old = plans.drifted().changes[0].address
    new = plans.drifted().observed.drift[1].address
    moved = Change(new, Action.NO_OP, {}, {}, "simulated", 1, 1, previous_address=old)
    renamed = render_markdown(Plan(changes=(moved,)), plans.files, plans.registries)
    assert renamed.startswith("### nexusform: 1 to rename, nothing moves\n")
    assert "- `nexus_rack.gone` moved from nexus\\_rack.r\n" in renamed.split("<details>")[0]
    taken = replace(moved, importing="lab/gone", previous_address=None)
    imported = render_markdown(Plan(changes=(taken,)), plans.files, plans.registries)
    assert imported.startswith("### nexusform: 1 to import, nothing moves\n")
    assert '- `nexus_rack.gone` imported from "lab/gone"\n' in imported.split("<details>")[0]


@pytest.mark.of_domains("fleet")
def test_unchanged_objects_are_counted_by_kind(plans: SimpleNamespace) -> None:
    plan = plans.fleet_and_pods()
    bindings = tuple(row for row in plan.placements if row.kind == "binding")
    kept = sum(row.action is PlacementAction.KEEP for row in bindings)
    comment = render_markdown(
        replace(plan, placements=bindings, figures=replace(plan.figures, unchanged_count=kept)),
        plans.files,
    )
    assert (
        "> - **Placements**: 1 to place, 0 to move, 0 to remove, 1 kept, 1 to update\n" in comment
    )


def test_many_moves_are_grouped_by_pool_and_listed_below(plans: SimpleNamespace) -> None:
    plan = plans.changed_placements()
    move = next(row for row in plan.placements if row.action is PlacementAction.MOVE)
    many = tuple(replace(move, object=f"vm-{number}", number=number) for number in range(40))
    comment = render_markdown(replace(plan, placements=many), plans.files)
    open_part, _, below = comment.partition("<details>")
    assert "`vm-0..39` rack7" in open_part
    assert "`vm-39`" not in open_part
    assert "| `vm-39` |" in below
    few = render_markdown(replace(plan, placements=many[:15]), plans.files)
    assert "- `~` `vm-14` " in few.split("<details>")[0]
    assert "Every VM" not in few


def test_pictures_show_changed_racks_sorted_by_name() -> None:
    kept = build_rack("rack2", (3, 3, False), (1, 1, True))
    racks = [
        build_rack("rack10", (2, 0, False)),
        kept,
        build_rack("rack9", (1, 0, False)),
        build_rack("rack1", (0, 1, False)),
    ]
    picture = render_rack_picture(racks)
    assert [line.split()[0] for line in picture if line.startswith("rack")] == [
        "rack1",
        "rack9",
        "rack10",
    ]
    assert render_rack_picture([kept]) == []


def test_replace_flag_is_reported_as_cause(
    plans: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No more than the causes.
    monkeypatch.setattr("nexusform.rendering.report.plan_sections._MAX_CAUSES", 1)
    plan = plans.changed_placements()
    by_flag = tuple(replace(row, trigger="requested") for row in plan.placements)
    comment = render_markdown(replace(plan, placements=by_flag), plans.files)
    assert "\nCause: `-replace`." in comment


@pytest.mark.parametrize(
    ("actions", "labels"),
    [
        ((Action.DELETE,), ["Destroys"]),
        ((Action.REPLACE, Action.REPLACE), ["Replaces"]),
        ((Action.DELETE, Action.REPLACE), ["Destroys", "Replaces"]),
    ],
)
def test_block_names_destroyed_and_replaced_objects_once(
    actions: tuple[Action, ...], labels: list[str], plans: SimpleNamespace
) -> None:
    address = plans.drifted().changes[0].address
    changes = tuple(Change(address, action, {}, {}, "simulated", 1, 1) for action in actions)
    comment = render_markdown(add_consequences(Plan(changes=changes)), plans.files)
    assert re.findall(r"\*\*(Destroys|Replaces)\*\*", comment) == labels
    assert "to destroy" not in comment.split("- Plan: ")[0]


def test_verdict_reports_forgotten_vms_and_lost_hosts(plans: SimpleNamespace) -> None:
    plan = plans.changed_placements()
    row = next(row for row in plan.placements if row.action == "remove")
    for action, said, alert in (
        ("forget", "1 VM to forget (it keeps", "WARNING"),
        ("host_lost", "1 VM loses its machine", "CAUTION"),
    ):
        told = add_consequences(
            replace(plan, placements=(replace(row, action=PlacementAction(action)),))
        )
        head = render_markdown(told, {}).split("\n\n")[0]
        assert f"> - **Impact**: {said}" in head
        assert f"[!{alert}]" in head


def test_many_equal_pools_share_one_row() -> None:
    clusters = "\n".join(cluster(f"c{number:02}", pools=pool("p", 2)) for number in range(7))
    made = require_success(plan_of(RACKS + clusters))
    few = render_markdown(add_site_capacity(made, build_all_types()).plan, {})
    many = "\n".join(cluster(f"c{number:02}", pools=pool("p", 1)) for number in range(9))
    made = require_success(plan_of(RACKS + many + cluster("other", pools=pool("p", 3))))
    text = render_markdown(add_site_capacity(made, build_all_types()).plan, {})
    assert few.count("\n- `c0") == 14
    visible = text.partition("<details>")[0].splitlines()
    rows = [line for line in visible if line.startswith(("- `c", "- `other"))]
    assert rows == [
        "- `c00..08, other/control-plane`: 10 x 1 VMs, 1 on 1 rack each",
        "- `c00..08/p`: 9 x 1 VMs, 1 on 1 rack each",
        "- `other/p`: 3 VMs, 1 on r0..2",
    ]


def test_re_creation_in_place_is_predicted_if_azure_picks_the_machine() -> None:
    text = RACKS + cluster("a", pools=pool("p", 1))
    state = build_state(text)
    recreated = require_success(plan_of(text, state, replaces=("nexus_kubernetes_cluster.a",)))
    comment = render_markdown(recreated.plan, build_all_types())
    assert re.search(
        r"^- `~` `a-p-0` re-created, probably on the same machine: \*\*r\S+\*\*",
        comment,
        re.MULTILINE,
    )
    rebuilt = require_success(
        plan_of(text, state, replaces=("nexus_rack.r[0]", "nexus_rack.r[1]", "nexus_rack.r[2]"))
    )
    comment = render_markdown(rebuilt.plan, build_all_types())
    assert re.search(r"^- `~` `a-p-0` to re-create in place: \*\*r\S+\*\*", comment, re.MULTILINE)


def test_rejected_change_is_among_every_change(plans: SimpleNamespace) -> None:
    plan = plans.added_cluster()
    change = next(change for change in plan.changes if change.action is Action.CREATE)
    rejected = replace(
        plan,
        errored=True,
        verdicts=replace(plan.verdicts, rejected=frozenset({str(change.address)})),
    )
    every_change = render_markdown(rejected, {}, REGISTRIES).partition("Every change")[2]
    assert f"# {change.address} will be created (rejected)" in every_change


ACTIONS = """
resource "nexus_site" "lab" {}

resource "nexus_rack" "r" {
  name          = "r1"
  site_id       = nexus_site.lab.id
  machine_count = 0
}

resource "nexus_bare_metal_machine" "m" {
  count   = 2
  name    = "m${count.index}"
  rack_id = nexus_rack.r.id
  slot    = count.index + 1

  machine_sku = "bom-1.7.3"
}
"""
RESTARTS = """
resource "nexus_bare_metal_machine_action" "restart" {
  count      = 2
  machine_id = nexus_bare_metal_machine.m[count.index].id
  action     = "Restart"
  run_id     = "1"
}
"""


def test_each_window_of_machine_actions_is_an_item() -> None:
    made = require_success(plan_of(ACTIONS + RESTARTS, build_state(ACTIONS)))
    lines = render_markdown(made.plan, {}, build_all_types()).splitlines()
    windows = [line for line in lines if "Window" in line]
    assert len(windows) == 2
    assert all(line.startswith("- Window") for line in windows)
