from __future__ import annotations

import shutil
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from nexusform.cli.main import run_command_line
from nexusform.diagnostics.diagnostic import build_error, build_warning
from nexusform.plans.plan import CheckResult, Plan, SeparationViolation
from nexusform.rendering.json.placements_csv import render_csv
from nexusform.rendering.pull_request.junit import render_junit
from nexusform.rendering.pull_request.sarif import build_sarif_document
from nexusform.rendering.report.placement_rows import ShownPlacements
from tests.rendering.pieces import separation_verdict
from tests.rendering.real_plans import RealPlan

EXAMPLE = Path(__file__).parents[3] / "examples" / "nexus-document"


def parse_cases(text: str) -> dict[tuple[str, str], ET.Element]:
    root = ET.fromstring(text)
    found = {(s.get("name") or "", c.get("name") or ""): c for s in root for c in s}
    for suite in (root, *root):
        counted = list(suite.iter("testcase"))
        assert suite.get("tests") == str(len(counted))
        assert suite.get("failures") == str(sum(c.find("failure") is not None for c in counted))
        assert suite.get("errors") == str(sum(c.find("error") is not None for c in counted))
        skipped = str(sum(c.find("skipped") is not None for c in counted))
        # Jenkins rejects the attribute on the root element.
        assert suite.get("skipped") == (None if suite is root else skipped)
    return found


def test_lint_rules_pass_or_fail(examples: Mapping[str, RealPlan]) -> None:
    found = parse_cases(render_junit(examples["nexus-document"].saved.plan))
    assert found["plan", "planning"].find("*") is None
    assert found["lint", "zones-pinned"].find("failure") is None
    assert "6 machines will run two VMs" in (
        found["lint", "zones-pinned"].findtext("system-out") or ""
    )
    assert found["lint", "no-surge-capacity"].find("*") is None
    assert found["checks", "var.step"].find("*") is None


def test_all_findings_are_listed_and_only_errors_fail(plans: SimpleNamespace) -> None:
    told = (
        build_warning("no-surge-capacity", "The upgrade would fail.", address="a.b"),
        build_warning("incomplete-rollout", "It hangs.", address="c.d"),
        build_warning("old-inventory", "Three days.", address="data.e.f"),
    )
    plan = replace(plans.added_cluster(), diagnostics=told)
    found = parse_cases(render_junit(plan))
    for case in (found["lint", "no-surge-capacity"], found["warnings", "Incomplete rollout c.d"]):
        assert [child.tag for child in case] == ["system-out"]
        assert "Warning: " in str(case[0].text)
    old = next(
        case for (suite, _), case in found.items() if case.get("classname") == "old-inventory"
    )
    assert [child.tag for child in old] == ["system-out"]
    ids = {case.get("classname") for case in found.values()} | {name for _, name in found}
    rules = build_sarif_document(plan)["runs"][0]["tool"]["driver"]["rules"]
    assert {rule["id"] for rule in rules} <= ids


def test_unknown_condition_is_skipped_as_predicted(plans: SimpleNamespace) -> None:
    checks = (CheckResult("output_value", "output.o", "unknown"),)
    found = parse_cases(
        render_junit(
            replace(
                plans.added_cluster(),
                verdicts=replace(plans.added_cluster().verdicts, checks=checks),
            )
        )
    )
    skipped = found["checks", "output.o"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "unknown, predicted"


def test_check_results_are_test_cases(plans: SimpleNamespace) -> None:
    results = (
        CheckResult("check", "check.good", "pass"),
        CheckResult("check", "check.bad", "fail", ("too < few", "twice")),
        CheckResult("resource", "nexus_rack.r", "error", ("broken",)),
        CheckResult("output_value", "output.o", "unknown"),
    )
    found = parse_cases(
        render_junit(
            replace(
                plans.added_cluster(),
                verdicts=replace(plans.added_cluster().verdicts, checks=results),
            )
        )
    )
    bad = found["checks", "check.bad"].find("failure")
    assert bad is not None
    assert bad.get("message") == "too < few; twice"
    assert found["checks", "nexus_rack.r"].find("error") is not None
    assert found["checks", "output.o"].find("skipped") is not None


def test_errors_and_separation_rules_are_test_cases() -> None:
    plan = Plan(
        errored=True,
        diagnostics=(
            build_error(
                "insufficient-capacity", "No room.", headline="Does not fit", address="nexus_x.y"
            ),
        ),
    )
    shared = SeparationViolation("site", "", "m1", ("a-0", "b-0"), "b-0", "new", "")
    verdicts = (
        separation_verdict("a", "deny", "sometimes", shared),
        separation_verdict("b", "warn", "never"),
        separation_verdict("c", "deny", "always"),
    )
    found = parse_cases(
        render_junit(replace(plan, verdicts=replace(plan.verdicts, separation_verdicts=verdicts)))
    )
    broken = found["plan", "Does not fit nexus_x.y"].find("error")
    assert broken is not None
    assert broken.text == "No room."
    outcomes = {
        name[-1]: [e.tag for e in case]
        for (suite, name), case in found.items()
        if suite == "separation rules"
    }
    assert outcomes == {"a": ["failure"], "b": ["skipped"], "c": []}
    broken_rule = found["separation rules", "nexus_separation_rule.a"].find("failure")
    assert broken_rule is not None
    assert broken_rule.text == "machine m1: a-0, b-0; joined by b-0 (new)"


def test_lint_of_failed_plan_is_skipped(examples: Mapping[str, RealPlan]) -> None:
    """Lint rules check only successful plans, so none passed."""
    plan = examples["nexus-document"].saved.plan
    refused = replace(
        plan, errored=True, diagnostics=(build_error("insufficient-capacity", "No room."),)
    )
    lint = [
        case for (suite, _), case in parse_cases(render_junit(refused)).items() if suite == "lint"
    ]
    assert lint
    assert all(case.find("skipped") is not None for case in lint)


def test_disabled_rule_is_skipped_with_its_reason(plans: SimpleNamespace) -> None:
    found = parse_cases(
        render_junit(
            replace(
                plans.added_cluster(),
                verdicts=replace(
                    plans.added_cluster().verdicts, disabled_rules=("shared-machine",)
                ),
            )
        )
    )
    skipped = found["lint", "shared-machine"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "disabled in the configuration"


def test_lint_of_a_plan_without_new_vms_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules have nothing to check without VMs to place, so none passed."""
    shutil.copytree(EXAMPLE, tmp_path / "example", ignore=shutil.ignore_patterns("state"))
    monkeypatch.chdir(tmp_path / "example")
    target = "-target=nexus_site.lab"
    for flags, is_skipped in (([target], True), ([target, "-destroy"], True), ([], False)):
        report = ["-out=p.nfplan", "-report=junit:plan.xml"]
        assert run_command_line(["plan", *report, *flags]) == 0
        assert run_command_line(["show", "-report=junit:saved.xml", "p.nfplan"]) == 0
        for name in ("plan.xml", "saved.xml"):
            found = parse_cases(Path(name).read_text())
            skipped = found["lint", "small-before-large"].find("skipped")
            assert (skipped is not None) == is_skipped
            if skipped is not None:
                assert skipped.get("message") == "not checked: this plan places no VM of a pool"


def test_csv_of_failed_plan_has_no_rows(plans: SimpleNamespace) -> None:
    made = plans.added_cluster()
    assert render_csv(made, ShownPlacements.CHANGED).count("\n") > 1
    assert render_csv(replace(made, errored=True), ShownPlacements.CHANGED).count("\n") == 1


def test_broken_conditions_have_their_positions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assertions = [
        (
            f'  assert {{\n    condition     = {condition}\n    error_message = "Want '
            f'{condition}."\n  }}\n'
        )
        for condition in ("local.one == 2", "local.one == 1", "local.one == 3", "local.one / 0")
    ]
    check = f'check "racks" {{\n{"".join(assertions[:3])}}}\ncheck "other" {{\n{assertions[3]}}}\n'
    Path("main.nf.hcl").write_text(f"locals {{\n  one = 1\n}}\n{check}")
    assert run_command_line(["plan", "-report=junit:p.xml"]) == 0
    found = parse_cases(Path("p.xml").read_text())
    failure = found["checks", "check.racks"].find("failure")
    assert failure is not None
    assert failure.get("message") == "Want local.one == 2.; Want local.one == 3."
    assert (failure.text or "").splitlines() == [
        "check.racks at main.nf.hcl:6: Want local.one == 2.",
        "check.racks at main.nf.hcl:14: Want local.one == 3.",
    ]
    error = found["checks", "check.other"].find("error")
    assert error is not None
    assert error.get("message") == "cannot be evaluated"
    assert error.text == "check.other at main.nf.hcl:20: Error during operation: division by zero."
