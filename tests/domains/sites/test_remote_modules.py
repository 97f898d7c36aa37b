from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from tests.workflow.module_packages.module_server import build_tar, start_module_server

SITE = """
variable "name" {
  type = string
}
module "lab" {
  source = "SOURCE"
  name   = var.name
}
"""
MODULE = """
variable "name" {
  type = string
}
resource "nexus_site" "s" {
  name = "${file("${path.module}/prefix")}${var.name}"
}
"""
DEFINITION = """
defaults {
  source = "./site"

  backend "local" {
    path = "states/${site.name}.nfstate"
  }
}
site "a" {
  inputs = { name = "a" }
}
site "b" {
  inputs = { name = "b" }
}
"""


@pytest.mark.parametrize("confine", [(), ("-confine",)])
def test_sites_share_the_modules_of_their_root_module(
    confine: tuple[str, ...],
    fleet: Callable[..., None],
    command: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path(".git").mkdir()
    (tmp_path / "repositories").mkdir()
    with start_module_server(tmp_path / "repositories") as server:
        files = {"main.nf.hcl": MODULE, "prefix": "site-"}
        source = server.add_file("/site.tgz", build_tar(files))
        fleet(definition=DEFINITION, site=SITE.replace("SOURCE", source))
        assert command("plan")[0] == 1
        assert run_command_line(["-chdir=site", "init"]) == 0
        monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    code, out, err = command("plan", "-out=p", *confine)
    assert code == 0, out + err
    code, out, err = command("apply", "p")
    assert code == 0, out + err
