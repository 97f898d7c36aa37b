"""Warnings that many objects have alike do not bury the plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.cli.main import run

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
    ("count", "told", "more"), [(12, 12, ""), (40, 3, "!  37 more: selector-selects-nothing placement-3..39")]
)
def test_the_first_few_and_of_whom_the_others_are(
    count: int,
    told: int,
    more: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(PLACEMENTS.format(count=count))
    assert run(["plan", "-no-color"]) == 0
    said = capsys.readouterr().out
    assert said.count("no fleet_hub_manifest brings") == told
    assert ("more: selector" in said) is bool(more)
    assert more in said
