"""Tests of many similar warnings: they do not hide the plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

pytestmark = pytest.mark.of_domains("fleet")
PLACEMENTS = """
resource "fleet_member_cluster" "m" {{
  name = "m"
}}
resource "fleet_cluster_resource_placement" "p" {{
  count = {count}
  name  = "placement-${{count.index}}"
  resource_selector {{
    group   = ""
    version = "v1"
    kind    = "Namespace"
    name    = "ns-${{count.index}}"
  }}
}}
"""


@pytest.mark.parametrize(
    ("count", "told", "more"),
    [(12, 12, ""), (40, 3, "! 37 more: empty-resource-selection placement-3..39")],
)
def test_first_warnings_and_subjects_of_the_rest_are_shown(
    count: int,
    told: int,
    more: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(PLACEMENTS.format(count=count))
    assert run_command_line(["plan", "-no-color"]) == 0
    said = capsys.readouterr().out
    assert said.count("no fleet_hub_manifest adds") == told
    assert ("more: empty-resource-selection" in said) is bool(more)
    assert more in said


def test_comment_and_page_show_the_first_warnings_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Effects of similar placements are also merged, in the terminal and in the comment."""
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(PLACEMENTS.format(count=40))
    assert (
        run_command_line(
            ["plan", "-no-color", "-report=markdown:plan.md", "-report=html:plan.html"]
        )
        == 0
    )
    said = capsys.readouterr().out
    comment = Path("plan.md").read_text()
    page = Path("plan.html").read_text()
    name = "fleet_cluster_resource_placement.p[0..39]"
    assert f"  {name}:\n  + m  -> Bound (placement_created)\n" in said
    assert f"- `+` `{name}`: `m` → **Bound** (placement\\_created)\n" in comment
    told, _, rest = comment.partition("- 37 more empty-resource-selection: placement-3..39\n")
    assert told.count("**Warning** empty-resource-selection") == 3
    assert rest
    assert page.count('<article class="finding warning">') == 3
    assert "Empty resource selection: 37 more</summary>" in page
    # One matrix row for all of them.
    assert page.count('data-head="m"') == 1
