"""Tests of sites that were not read.

`sites plan -detailed-exitcode` cannot exclude changes there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

pytestmark = pytest.mark.of_domains("azure")
EXPORT = Path(__file__).parents[1] / "azure" / "importers" / "cases" / "azure" / "clusters-070"
DEFINITION = """
site "dev" {
  source = "./site"

  backend "local" {
    path = "site/state/nexusform.nfstate"
  }
}
"""


def test_plan_without_changes_of_an_unread_site_exits_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., tuple[int, str, str]]
) -> None:
    monkeypatch.setenv("NF_CACHE_DIR", str(tmp_path / "cache"))
    shutil.copytree(EXPORT, tmp_path / "site" / "export")
    monkeypatch.chdir(tmp_path / "site")
    assert run_command_line(["import", "-from=export", "-generate-config-out=site.nf.hcl"]) == 0
    monkeypatch.chdir(tmp_path)
    Path("nexusform.sites.hcl").write_text(DEFINITION)
    code, _, err = command("plan", "-detailed-exitcode")
    assert code == 0, err
    # The export of another site.
    for path in Path("site/export").iterdir():
        path.write_text(
            path.read_text()
            .replace("b37dev08", "c48abc")
            .replace("dev08-0a105e4eb74b", "elsewhere")
        )
    code, out, err = command("plan", "-detailed-exitcode", "-json")
    assert code == 1, err
    assert "does not contain the site" in json.dumps(json.loads(out))
    assert command("plan")[0] == 0
