"""Tests of separation rules on the site of the document and on small sites."""

from __future__ import annotations

import pytest

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.verdicts.separation_rules import format_verdict
from nexusform.plans.plan import SeparationVerdict, SeparationViolation
from nexusform.plans.saved import plan_file
from nexusform.rendering.json.json_placements import build_plan_figures
from nexusform.resources.address import parse_address
from tests.planning.harness import (
    RACKS,
    UnreadableConfigurationError,
    attributes,
    build_state,
    cluster,
    get_line,
    list_errors,
    list_warnings,
    plan,
    pool,
    require_success,
)

EIGHT_RACKS = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  for_each          = toset([for number in range(1, 9) : tostring(number)])
  name              = "rack${each.key}"
  availability_zone = each.key
  site_id           = nexus_site.s.id
  machine_count     = 16
}
"""
EXTRA_LARGE = "NC_P46_224_v1"


def build_zones(*names: str) -> str:
    listed = ", ".join(f'"{name}"' for name in names)
    return f"availability_zones = [{listed}]"


def build_document_clusters(a: str = "", b: str = "", c: str = build_zones("1", "4")) -> str:
    """Return clusters A, B and C of the document.

    Their pools and control planes are in these zones.
    """
    text = cluster(
        "a",
        plane="NC_G12_56_v1",
        count=3,
        pools=pool("pool1", 24, EXTRA_LARGE, a) + pool("pool2", 6, "NC_G6_28_v1", a),
    )
    text = text.replace("count       = 3\n", f"count = 3\n{a}\n", 1)
    other = cluster(
        "b",
        plane="NC_G24_112_v1",
        count=5,
        pools=pool("pool1", 48, EXTRA_LARGE, b) + pool("pool2", 24, "NC_P22_112_v1", b),
    )
    text += other.replace("count       = 5\n", f"count = 5\n{b}\n", 1)
    third = cluster("c", plane="NC_G12_56_v1", count=3, pools=pool("pool1", 12, EXTRA_LARGE, c))
    return text + third.replace("count       = 3\n", f"count = 3\n{a}\n", 1)


def build_rule(*groups: str, scope: str = "machine", more: str = "") -> str:
    bodies = "".join(f"  group {{\n    {body}\n  }}\n" for body in groups)
    return (
        f'resource "nexus_separation_rule" "apart" {{\n  scope = "{scope}"\n  {more}\n{bodies}}}\n'
    )


def build_group(*names: str) -> str:
    return (
        "cluster_ids = [" + ", ".join(f"nexus_kubernetes_cluster.{name}.id" for name in names) + "]"
    )


def get_verdict(result: PlanResult) -> SeparationVerdict:
    (only,) = result.plan.verdicts.separation_verdicts
    return only


def test_clusters_of_the_document_share_machines() -> None:
    text = (
        EIGHT_RACKS
        + build_document_clusters()
        + build_rule(build_group("a", "c"), build_group("b"))
    )
    result = plan(text, samples=20, suggested_fixes=True)
    found = get_verdict(result)
    assert result.plan.errored
    assert (found.satisfied, found.satisfied_count, found.sample_count) == ("never", 0, 20)
    where = {
        row.object: row.target.machine for row in result.plan.placements if row.target is not None
    }
    ours = {machine for name, machine in where.items() if name.startswith(("a-", "c-"))}
    theirs = {machine for name, machine in where.items() if name.startswith("b-")}
    assert {v.machine for v in found.violations} == ours & theirs
    for violation in found.violations:
        assert {where[name] for name in violation.members} == {violation.machine}
        assert violation.violating_member in violation.members
        assert violation.trigger == "new"
    packed = [v for v in found.violations if "extra-large" in v.reason]
    assert packed
    assert all("-pool1-" in v.violating_member for v in packed)
    (problem,) = list_errors(result)
    assert problem.summary == "Separation rule does not hold"
    assert get_line(problem) == (
        "main.nf.hcl",
        text[: text.index("nexus_separation_rule")].count("\n") + 1,
    )
    assert all(v.machine in problem.detail for v in found.violations)
    assert found.violations[0].violating_member in problem.detail


def test_suggested_zone_sets_satisfy_the_rule() -> None:
    text = (
        EIGHT_RACKS
        + build_document_clusters()
        + build_rule(build_group("a", "c"), build_group("b"))
    )
    result = plan(text, samples=5, suggested_fixes=True)
    (problem,) = list_errors(result)
    (way,) = problem.extra["fit"]["suggested_fixes"]
    first, second = (set(group["availability_zones"]) for group in way["groups"])
    assert not first & second
    assert {"1", "4"} <= first
    # The pools need 36 and 63 cells of extra-large size, and a rack has 32.
    assert (len(first), len(second)) == (2, 2)
    tried = (
        EIGHT_RACKS
        + build_document_clusters(build_zones(*first), build_zones(*second))
        + build_rule(build_group("a", "c"), build_group("b"))
    )
    assert get_verdict(require_success(plan(tried, samples=20))).satisfied == "always"


def test_rule_without_a_fix_does_not_block_fixes_of_another_rule() -> None:
    site = build_rule(build_group("a", "c"), build_group("b"), scope="site").replace(
        '"apart"', '"sites"'
    )
    text = (
        EIGHT_RACKS
        + build_document_clusters()
        + build_rule(build_group("a", "c"), build_group("b"))
        + site
    )
    found = {d.address: d for d in list_errors(plan(text, samples=3, suggested_fixes=True))}
    (way,) = found["nexus_separation_rule.apart"].extra["fit"]["suggested_fixes"]
    assert "nexus_separation_rule.sites would still be violated" in way["text"]
    assert not found["nexus_separation_rule.sites"].extra["fit"]["suggested_fixes"]
    first, second = (build_zones(*group["availability_zones"]) for group in way["groups"])
    mended = (
        EIGHT_RACKS
        + build_document_clusters(first, second)
        + build_rule(build_group("a", "c"), build_group("b"))
        + site
    )
    assert [d.address for d in list_errors(plan(mended, samples=3))] == [
        "nexus_separation_rule.sites"
    ]


@pytest.mark.parametrize("scope", ["machine", "rack"])
def test_rule_always_holds_in_disjoint_zones(scope: str) -> None:
    text = EIGHT_RACKS + build_document_clusters(
        build_zones("1", "2", "3", "4"), build_zones("5", "6", "7", "8")
    )
    result = require_success(
        plan(text + build_rule(build_group("a", "c"), build_group("b"), scope=scope), samples=20)
    )
    found = get_verdict(result)
    assert (found.satisfied, found.satisfied_count, found.sample_count, found.violations) == (
        "always",
        20,
        20,
        (),
    )


def test_rule_may_hold_only_for_some_tie_breaks() -> None:
    # Each of four machines runs one cluster. A tie decides the machine of the fifth.
    one_rack = RACKS.replace("count         = 3\n", "count = 1\n", 1)
    text = one_rack + "".join(cluster(name) for name in "abcde")
    found = [
        get_verdict(plan(text + build_rule(build_group(name), build_group("e")), samples=60))
        for name in "abcd"
    ]
    assert [v.satisfied for v in found] == ["sometimes"] * 4
    # In every outcome exactly one of the four clusters shares its machine with the fifth.
    assert sum(v.sample_count - v.satisfied_count for v in found) == 60
    assert sum(v.violations[0].sample is None for v in found) == 1
    (unlucky,) = (v for v in found if v.violations[0].sample is None)
    (violation,) = unlucky.violations
    assert violation.violating_member == "e-control-plane-0"
    refused = plan(text + build_rule(build_group("a"), build_group("e")), samples=60)
    assert refused.plan.errored
    assert (
        not plan(text + build_rule(build_group("a"), build_group("e")), samples=0)
        .plan.verdicts.separation_verdicts[0]
        .sample_count
    )


def test_warn_enforcement_does_not_fail_the_plan() -> None:
    text = RACKS + cluster("a", count=3) + cluster("b", count=3)
    result = require_success(
        plan(
            text
            + build_rule(
                build_group("a"), build_group("b"), scope="rack", more='enforcement = "warn"'
            )
        )
    )
    assert get_verdict(result).satisfied == "never"
    (told,) = list_warnings(result)
    assert "r0" in told.detail


def test_site_scope_with_existing_clusters() -> None:
    text = RACKS + cluster("a", count=1) + cluster("b", count=1)
    standing = build_state(text)
    result = plan(
        text + build_rule(build_group("a"), build_group("b"), scope="site"),
        standing,
        suggested_fixes=True,
    )
    (violation,) = get_verdict(result).violations
    assert (violation.site_id, violation.rack, violation.machine, violation.trigger) == (
        "s",
        "",
        "",
        "",
    )
    assert set(violation.members) == {"a-control-plane-0", "b-control-plane-0"}
    (problem,) = list_errors(result)
    assert "another site" in problem.detail


def test_zone_fix_keeps_existing_vms_in_place_if_possible() -> None:
    first = RACKS + cluster("a", pools=pool("p", 2, more=build_zones("r0")))
    first = first.replace("count       = 1\n", f"count = 1\n{build_zones('r0')}\n", 1)
    standing = build_state(first)
    text = (
        first
        + cluster("b", count=3, pools=pool("p", 9))
        + build_rule(build_group("a"), build_group("b"))
    )
    result = plan(text, standing, suggested_fixes=True)
    assert get_verdict(result).violations
    (problem,) = list_errors(result)
    (way,) = problem.extra["fit"]["suggested_fixes"]
    assert {price["risk"] for price in way["consequences"]} == {"control-plane-on-one-rack"}
    assert next(g["availability_zones"] for g in way["groups"]) == ["r0"]


def test_zone_fix_changes_only_new_clusters_if_possible() -> None:
    first = RACKS + cluster("a")
    standing = build_state(first)
    rack = next(iter(attributes(standing, "nexus_kubernetes_cluster.a")["nodes"].values()))["rack"]
    text = (
        first + cluster("b", count=3) + build_rule(build_group("b"), build_group("a"), scope="rack")
    )
    result = plan(text, standing, suggested_fixes=True)
    (violation,) = get_verdict(result).violations
    assert (violation.rack, violation.trigger) == (rack, "new")
    assert violation.violating_member.startswith("b-")
    assert violation.members[0].startswith("a-")
    (problem,) = list_errors(result)
    (way,) = problem.extra["fit"]["suggested_fixes"]
    assert {price["risk"] for price in way["consequences"]} == {"control-plane-on-one-rack"}
    ours, theirs = (group["availability_zones"] for group in way["groups"])
    assert theirs == [rack]
    assert rack not in ours


def test_groups_by_pool_id_report_the_violating_step() -> None:
    first = RACKS + cluster("a", pools=pool("x", 6))
    standing = build_state(first)
    grown = first.replace("count       = 6", "count       = 12") + cluster("b", pools=pool("y", 12))
    groups = ('pool_ids = ["s/a/x"]', 'pool_ids = ["s/b/y"]')
    found = get_verdict(plan(grown + build_rule(*groups), standing))
    assert found.violations
    assert {name.rpartition("-")[0] for v in found.violations for name in v.members} == {
        "a-x",
        "b-y",
    }
    assert {v.trigger for v in found.violations} <= {"new", "scale_out"}
    assert all(v.violating_member.startswith("b-y") for v in found.violations)


def test_unknown_and_empty_groups_are_errors_with_their_line() -> None:
    text = RACKS + cluster("a")
    result = plan(text + build_rule(build_group("a"), 'cluster_ids = ["s/nobody"]'))
    (problem,) = list_errors(result)
    assert problem.summary == "Unknown cluster"
    assert "s/nobody" in problem.detail
    (problem,) = list_errors(plan(text + build_rule(build_group("a"), "")))
    assert problem.summary == "Empty separation group"
    (problem,) = list_errors(
        plan(text + build_rule(build_group("a"), 'pool_ids = ["s/a/control-plane"]'))
    )
    assert problem.summary == "Overlapping separation groups"
    try:
        found = list_errors(plan(text + build_rule(build_group("a"))))
    except UnreadableConfigurationError as refused:
        found = list(refused.problems)
    assert any("group" in d.detail for d in found)


def test_verdict_is_in_plan_file_but_not_in_state() -> None:
    text = (
        RACKS
        + cluster("a")
        + cluster("b")
        + build_rule(build_group("a"), build_group("b"), scope="rack", more='enforcement="warn"')
    )
    result = require_success(plan(text, samples=10))
    stored = build_state(text)
    (values,) = [
        s.current.attributes
        for a, s in stored.instances.items()
        if a.type == "nexus_separation_rule" and s.current
    ]
    assert set(values) == {"id", "name", "scope", "enforcement", "group"}
    assert not plan(text, stored).plan.has_changes
    saved, _ = plan_file.read_plan_file(plan_file.write_plan_file(result.plan, {}))
    assert saved is not None
    assert saved.plan.verdicts.separation_verdicts == result.plan.verdicts.separation_verdicts
    (shown,) = build_plan_figures(result.plan)["separation_rules"]
    assert shown["address"] == "nexus_separation_rule.apart"
    assert {"enforcement", "holds", "violations"} <= shown.keys()


def build_two_tenants(a: str, b: str, *, plane: str = build_zones("1")) -> str:
    first = cluster("a", pools=pool("p", 12, EXTRA_LARGE, a)).replace(
        "count       = 1\n", f"count = 1\n{plane}\n", 1
    )
    second = cluster("b", pools=pool("p", 40, EXTRA_LARGE, b))
    second = second.replace("count       = 1\n", f"count = 1\n{build_zones('8')}\n", 1)
    return EIGHT_RACKS + first + second + build_rule(build_group("a"), build_group("b"))


@pytest.mark.parametrize(
    ("shared", "rest"), [(5, ""), (6, "\n - likewise m5"), (7, "\n - likewise m5, m6")]
)
def test_error_lists_five_machines_with_vms_and_the_rest_by_name(shared: int, rest: str) -> None:
    violations = [
        SeparationViolation("s", "r", f"m{number}", ("a", "b"), "b", "new", "")
        for number in range(shared)
    ]
    found = SeparationVerdict(
        parse_address("nexus_separation_rule.apart"), "machine", "deny", "never", tuple(violations)
    )
    lines = [f" - m{number} (r): a, b; joined by b (new)" for number in range(5)]
    _, _, listed = format_verdict(found).partition("\n")
    assert listed == "\n".join(lines) + rest


def test_fixes_restore_changed_zones_or_change_the_other_group() -> None:
    text = build_two_tenants(build_zones("1", "4"), build_zones("5", "6", "7", "8"))
    edited = build_two_tenants(build_zones("1", "5"), build_zones("5", "6", "7", "8"))
    state = build_state(text)
    (problem,) = list_errors(plan(edited, state, samples=10, suggested_fixes=True))
    before, others = problem.extra["fit"]["suggested_fixes"]
    assert not before["consequences"]
    assert before["as_before"] == [{"pools": ["a/p"], "availability_zones": ["1", "4"]}]
    assert 'a/p in ["1", "4"], unchanged.' in problem.detail
    assert others["groups"][0]["availability_zones"] == ["1", "5"]
    chosen = others["groups"][1]["availability_zones"]
    assert "5" not in chosen
    require_success(
        plan(build_two_tenants(build_zones("1", "5"), build_zones(*chosen)), state, samples=10)
    )


def test_removed_zones_can_be_restored_by_a_fix() -> None:
    text = build_two_tenants(build_zones("1", "2"), build_zones("5", "6", "7", "8"))
    (problem,) = list_errors(
        plan(build_two_tenants("", ""), build_state(text), samples=10, suggested_fixes=True)
    )
    before = problem.extra["fit"]["suggested_fixes"][0]
    assert not before["consequences"]
    assert {pools for each in before["as_before"] for pools in each["pools"]} == {"a/p", "b/p"}


def test_unselected_rule_is_checked_as_applied() -> None:
    text = EIGHT_RACKS + build_document_clusters(
        build_zones("1", "2", "3", "4"), build_zones("5", "6", "7", "8")
    )
    files = text + build_rule(build_group("a", "c"), build_group("b"))
    state = build_state(files)
    assert get_verdict(plan(files, state, targets=("nexus_site.s",))).satisfied == "always"
    assert (
        get_verdict(plan(files, state, excludes=("nexus_separation_rule.apart",))).satisfied
        == "always"
    )
