"""Tests of severity: warnings and errors are as prominent as their impact."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

CONFIGURATION = """
resource "nexus_site" "lab" {}
resource "nexus_rack" "r" {
  count         = 2
  site_id       = nexus_site.lab.id
  name          = "r${count.index}"
  machine_count = 2
}
resource "nexus_kubernetes_cluster" "core" {
  site_id = nexus_site.lab.id
  control_plane {
    count       = 3
    vm_sku_name = "NC_G6_28_v1"
  }
  depends_on = [nexus_rack.r]
}
"""
Result = tuple[int, str]


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Result]:
    """Run a command line in a directory with a configuration.

    Return the exit code and all output.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    Path("main.nf.hcl").write_text(CONFIGURATION)

    def run_command(*arguments: str) -> Result:
        code = run_command_line(arguments)
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run_command


def test_rename_with_destroyed_vms_comes_first_in_every_report(nf: Callable[..., Result]) -> None:
    assert nf("apply", "-auto-approve")[0] == 0
    Path("main.nf.hcl").write_text(CONFIGURATION.replace('"core"', '"packet_core"'))
    code, text = nf("plan", "-report=markdown:plan.md", "-report=html:plan.html")
    assert code == 0
    assert text.lstrip().startswith("╷\n│ Warning: A rename without a moved block destroys objects")
    assert "3 VMs would be destroyed." in " ".join(text.replace("│", " ").split())
    block = (
        "moved {\n  from = nexus_kubernetes_cluster.core\n  to   = "
        "nexus_kubernetes_cluster.packet_core\n}"
    )
    comment = Path("plan.md").read_text()
    assert f"```hcl\n{block}\n```" in comment.partition("<details>")[0]
    page = Path("plan.html").read_text()
    assert f"<pre><code>{block}</code></pre>" in page
    assert page.index("A rename without a moved block") < page.index('id="racks"')
    Path("moved.nf.hcl").write_text(block)
    assert "Warning" not in nf("plan")[1]


def test_replacement_of_several_instances_names_each(nf: Callable[..., Result]) -> None:
    assert nf("apply", "-auto-approve")[0] == 0
    code, text = nf("plan", "-replace=nexus_rack.r")
    assert code == 1
    assert "  -replace='nexus_rack.r[0]'" in text
    assert "  -replace='nexus_rack.r[1]'" in text
    assert "nexus_site.lab" in nf("plan", "-replace=nexus_site.lab")[1]


def test_plan_without_resources_fails_on_empty(nf: Callable[..., Result]) -> None:
    assert nf("plan", "-fail-on=empty:0")[0] == 0
    Path("main.nf.hcl").write_text("")
    code, text = nf("plan", "-fail-on=empty:0")
    assert code == 1
    assert (
        "the plan contains no resources; -fail-on=empty:0"
        in " ".join(text.replace("│", " ").split()).lower()
    )
