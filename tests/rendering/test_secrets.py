"""Tests of sensitive variables: their values are in no form of a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.cli.report_flag import FORMATS
from tests.rendering.real_plans import SMALL, nexusform

SECRET = "hunter2-of-the-lab"
WORKERS = """1
    labels      = { token = var.token, plain = "${var.token}!" }"""
SITE = """"nexus_site" "s" {
  lifecycle {
    precondition {
      condition     = CHECK
      error_message = "The token is ${var.token}."
    }
  }
}"""
MAIN = SMALL.replace("MORE", "").replace("WORKERS", WORKERS).replace('"nexus_site" "s" {}', SITE)
VARIABLE = 'variable "token" {\n  type      = string\n  sensitive = true\n}\n\n'
OUTPUT = 'output "token" {\n  value     = var.token\n  sensitive = true\n}\n'


@pytest.mark.parametrize("passes", [True, False])
def test_no_report_contains_a_secret(
    passes: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = MAIN.replace("CHECK", 'var.token != ""' if passes else 'var.token == ""')
    (tmp_path / "main.nf.hcl").write_text(VARIABLE + text + OUTPUT)
    reports = [f"-report={name}:{tmp_path / name}" for name in FORMATS]
    diff = tmp_path / "pull-request.diff"
    diff.write_text("+++ b/main.nf.hcl\n@@ -1,99 +1,99 @@\n" + " \n" * 99)
    nexusform(
        tmp_path, "plan", f"-var=token={SECRET}", f"-diff={diff}", *reports, code=0 if passes else 1
    )
    for name in FORMATS:
        content = (tmp_path / name).read_text(encoding="utf-8")
        assert content
        assert SECRET not in content, name
        assert "hunter2" not in content, name
    shown = capfd.readouterr()
    assert "hunter2" not in shown.out + shown.err
    if passes:
        assert "(sensitive value)" in (tmp_path / "html").read_text(encoding="utf-8")
