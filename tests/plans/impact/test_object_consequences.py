"""Tests of destroyed and replaced objects: their names in each report, and the colour of harm."""

from __future__ import annotations

import pytest

from nexusform.plans.impact.consequence_views import list_destroyed_objects
from nexusform.plans.plan import Plan
from nexusform.rendering.pull_request.plan_comment import render_markdown
from nexusform.rendering.report.decision_lines import build_decision_lines
from nexusform.rendering.report.plan_verdict import build_headline
from tests.planning.harness import (
    RACKS,
    add_consequences,
    build_state,
    cluster,
    plan,
    pool,
    require_success,
)

TWO = RACKS + cluster("a", count=3) + cluster("b", pools=pool("p", 4), count=3)


def change(before: str, after: str) -> Plan:
    return add_consequences(require_success(plan(after, build_state(before))).plan)


def find_line(subject: Plan, label: str) -> tuple[str, ...]:
    lines = {line.label: line.texts for line in build_decision_lines(subject)}
    return lines.get(label, ())


def test_destroyed_clusters_are_named_with_the_largest_first() -> None:
    ended = change(TWO, RACKS)
    assert find_line(ended, "Destroys") == ("b (7 VMs)", "a (3 VMs)")
    assert build_headline(ended) == "destroys b (7 VMs) and a (3 VMs)"
    comment = render_markdown(ended, {}).split("\n")
    assert comment[1:5] == [
        "> [!CAUTION]",
        "> - **Destroys**:",
        ">   - b (7 VMs)",
        ">   - a (3 VMs)",
    ]


def test_more_than_five_destroyed_objects_have_a_count() -> None:
    clusters = "".join(cluster(name, count=1) for name in "abcdefg")
    ended = change(RACKS + clusters, RACKS)
    *names, last = find_line(ended, "Destroys")
    assert (names, last) == ([], "a, b, c, d, e and 2 more (1 VM each)")
    assert len(list_destroyed_objects(ended.impact)) == 7
    assert build_headline(ended).startswith("destroys a (1 VM), b (1 VM) and 5 more objects, 7 VMs")


@pytest.mark.parametrize(
    ("before", "after", "alert"),
    [
        (TWO, RACKS + cluster("a", count=3), "CAUTION"),
        (TWO, TWO.replace("count       = 3", "count       = 1"), "CAUTION"),
        (pool("p", 4), pool("p", 3), "NOTE"),
        (pool("p", 3), pool("p", 4), "NOTE"),
    ],
    ids=["cluster deleted", "quorum at risk", "scale-in", "scale-out"],
)
def test_colour_of_the_comment_is_the_harm(before: str, after: str, alert: str) -> None:
    texts = [
        text if text.startswith(RACKS) else RACKS + cluster("a", pools=text, count=3)
        for text in (before, after)
    ]
    comment = render_markdown(change(*texts), {})
    assert comment.split("\n")[1] == f"> [!{alert}]"


def test_rename_without_moved_block_is_in_the_headline() -> None:
    renamed = TWO.replace('"nexus_kubernetes_cluster" "b"', '"nexus_kubernetes_cluster" "new"')
    headline = build_headline(change(TWO, renamed))
    assert headline.startswith("b looks renamed: 7 VMs would be re-created; add this moved block")
    assert "destroys" not in headline


def test_object_with_one_id_at_another_address_is_replaced() -> None:
    header = '"nexus_kubernetes_cluster" "b" {'
    named = TWO.replace(header, f'{header}\n  name = "b"')
    planned = change(named, named.replace(header, header.replace('"b"', '"new"')))
    (record,) = [item for item in planned.impact.consequences if item.subject == "b"]
    assert (record.kind, record.is_lasting) == ("replaced", True)
    assert record.text == "b is deleted and created again with 7 VMs"
    headline = build_headline(planned)
    assert headline.startswith("b is deleted and created again (7 VMs) without this moved block")
    assert "removed" not in headline


VM = """
resource "nexus_virtual_machine" "vm" {
  count      = 3
  site_id    = nexus_site.s.id
  name       = "vm${count.index}"
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 50
}
"""


def test_vm_outside_clusters_loses_its_data_when_it_is_re_created() -> None:
    removed = change(RACKS + VM, RACKS + VM.replace("= 3", "= 1"))
    assert find_line(removed, "Destroys") == ("VM vm1 (data lost)", "VM vm2 (data lost)")
    without_rack = change(RACKS + VM, RACKS.replace("= 3", "= 2", 1) + VM)
    (risk,) = [item for item in without_rack.impact.consequences if item.is_lasting]
    assert risk.text == "VM vm0 is re-created on another machine; its data is lost"
    assert (risk.data, find_line(without_rack, "Replaces")) == ("lost", ("VM vm0 (data lost)",))


@pytest.mark.parametrize(
    ("policy", "severity", "ending"),
    [
        ("", "lasting", "; its data may be lost"),
        ("DiscardAll", "lasting", "; its data is lost"),
        ("Preserve", "none", ""),
    ],
)
def test_disks_of_a_replaced_machine_follow_its_storage_policy(
    policy: str, severity: str, ending: str
) -> None:
    machine = """
resource "nexus_bare_metal_machine" "m" {
  rack_id     = nexus_rack.r[2].id
  name        = "r2-bm02"
  slot        = 2
  machine_sku = "bom-1.7.3"
}
"""
    option = f'  azure {{\n    body = {{ storagePolicy = "{policy}" }}\n  }}\n' if policy else ""
    action = f"""
resource "nexus_bare_metal_machine_action" "x" {{
  machine_id      = nexus_bare_metal_machine.m.id
  action          = "Replace"
  run_id          = "1"
  allow_workloads = true
{option}}}
"""
    text = RACKS + VM + machine
    (risk,) = [item for item in change(text, text + action).impact.consequences if item.runs]
    assert (risk.severity, risk.text) == (severity, f"1 VM on r2-bm02 stops for some time{ending}")


def test_several_renamed_objects_share_a_clause_of_the_headline() -> None:
    keyed = VM.replace("count      = 3", 'for_each   = toset(["0", "1", "2"])')
    renamed = change(RACKS + VM, RACKS + keyed.replace("count.index", "each.key"))
    assert build_headline(renamed) == (
        "VM vm0..2 are deleted and created again (3 VMs) without these 3 moved blocks, 3 VMs to "
        "place"
    )
    many = VM.replace("count      = 3", "count      = 9")
    keyed = many.replace("count      = 9", "for_each = toset([for i in range(9): tostring(i)])")
    keyed = keyed.replace("count.index", "each.key")
    comment = render_markdown(change(RACKS + many, RACKS + keyed), {})
    # One box has all blocks.
    assert comment.count("**A rename without a moved block destroys objects**") == 1
    box, _, _ = comment.partition("**VMs**")
    assert box.count("moved {") == 9
