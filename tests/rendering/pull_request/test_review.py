"""Tests of `-report=github-review`: comments for the changed lines of a diff."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.diagnostics.diagnostic import Position, Span, build_error, build_warning
from nexusform.plans.plan import Plan
from nexusform.rendering.pull_request.github_review import DiffLines, build_review, parse_diff
from tests.git_repositories import run_git

SITE = """resource "nexus_site" "lab" {{}}

resource "nexus_rack" "rack" {{
  site_id       = nexus_site.lab.id
  machine_count = 4
}}

resource "nexus_kubernetes_cluster" "web" {{
  site_id = nexus_site.lab.id

  control_plane {{
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
  }}

  agent_pool "workers" {{
    count       = {count}
    vm_sku_name = "NC_P22_112_v1"
  }}
}}
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sites" / "lab").mkdir(parents=True)
    (tmp_path / "sites" / "lab" / "main.nf.hcl").write_text(SITE.format(count=4))
    (tmp_path / "other.txt").write_text("a\n")
    run_git(tmp_path, "init", "-q")
    run_git(tmp_path, "add", ".")
    run_git(tmp_path, "commit", "-q", "-m", "before")
    monkeypatch.chdir(tmp_path / "sites" / "lab")
    return tmp_path


def _build_review(repository: Path, *options: str) -> dict[str, Any]:
    (repository / "pr.diff").write_text(run_git(repository, "diff", *options))
    run_command_line(
        ["plan", f"-report=github-review:{repository}/review.json", f"-diff={repository}/pr.diff"]
    )
    review: dict[str, Any] = json.loads((repository / "review.json").read_text())
    return review


def test_fix_is_a_suggestion_on_its_line(repository: Path) -> None:
    Path("main.nf.hcl").write_text(SITE.format(count=40))
    Path("../../other.txt").write_text("b\n")
    review = _build_review(repository)
    assert review["event"] == "REQUEST_CHANGES"
    assert review["body"].startswith("### nexusform: planning failed")
    (comment,) = review["comments"]
    assert (comment["path"], comment["line"], comment["side"]) == (
        "sites/lab/main.nf.hcl",
        17,
        "RIGHT",
    )
    suggestion = comment["body"].partition("```suggestion\n")[2].partition("\n```")[0]
    # A plan with the suggested line succeeds.
    lines = Path("main.nf.hcl").read_text().splitlines()
    lines[16] = suggestion
    Path("main.nf.hcl").write_text("\n".join(lines))
    assert run_command_line(["plan"]) == 0
    assert _build_review(repository)["event"] == "COMMENT"


def test_fix_with_a_lasting_loss_has_no_button(repository: Path) -> None:
    """Zones of one more rack fit, but all control-plane VMs are on that rack."""
    racks = [
        f"""resource "nexus_rack" "{name}" {{
  site_id       = nexus_site.lab.id
  machine_count = {count}
}}
"""
        for name, count in (("far", 4), ("full", 0), ("wide", 4))
    ]
    zoned = SITE.format(count=1).replace("= 3\n", '= 3\n    availability_zones = ["full"]\n')
    Path("main.nf.hcl").write_text("\n".join([zoned, *racks]))
    review = _build_review(repository)
    assert "Lasting loss: web has all 3 control-plane VMs on" in review["body"]
    assert [comment for comment in review["comments"] if "suggestion" in comment["body"]] == []


def test_lines_outside_the_diff_have_no_comment(repository: Path) -> None:
    Path("main.nf.hcl").write_text(
        SITE.format(count=40).replace('nexus_rack" "rack"', 'nexus_rack" "rack1"')
    )
    review = _build_review(repository, "-U0")
    assert [comment["line"] for comment in review["comments"]] == [17]
    run_git(repository, "commit", "-q", "-a", "-m", "count")
    Path("../../other.txt").write_text("b\n")
    review = _build_review(repository)
    assert (review["event"], review["comments"]) == ("REQUEST_CHANGES", [])


def test_missing_diff_is_an_error(repository: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["plan", f"-report=github-review:{repository}/review.json"]) == 1
    assert "-diff=FILE" in capfd.readouterr().err
    assert (
        run_command_line(["plan", f"-report=github-review:{repository}/review.json", "-diff=none"])
        == 1
    )
    assert '"none" cannot be read' in capfd.readouterr().err


def test_visible_lines_of_a_diff_are_parsed() -> None:
    diff = parse_diff(
        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,4 @@ f\n a\n+b\n c\n-d\n+++ e\n@@ -9 "
        "+9,0 @@\n-z\n"
        "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-q\n--- a/d/x\n+++ b/d/x\n@@ -0,0 +1 @@\n+n\n"
    )
    assert diff.lines == {"x": frozenset({1, 2, 3, 4}), "d/x": frozenset({1})}
    assert diff.find_path("d/x") == "d/x"
    # Two files end with this path.
    assert diff.find_path("./x") == ""
    assert diff.find_path("y") == ""
    assert diff.contains_lines("x", 2, 4)
    assert not diff.contains_lines("x", 4, 5)


def test_most_severe_comment_is_first_and_preexisting_ones_are_marked() -> None:
    span = Span("main.nf.hcl", Position(1, 1, 0), Position(1, 2, 1))
    found = (
        build_warning("no-surge-capacity", "Old.", span, is_preexisting=True),
        build_warning("even-control-plane", "New.", span),
        build_error("insufficient-capacity", "None.", span),
    )
    review = build_review(
        Plan(diagnostics=found), None, {}, DiffLines({"main.nf.hcl": frozenset({1})}), ""
    )
    said = [comment["body"].split("\n\n")[1:] for comment in review["comments"]]
    assert said == [["None."], ["New."], ["Old.", "Not caused by this plan."]]
