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
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path(".git").mkdir()
    (tmp_path / "repositories").mkdir()
    with start_module_server(tmp_path / "repositories") as server:
        files = {"main.nf.hcl": MODULE, "prefix": "site-"}
        source = server.add_file("/site.tgz", build_tar(files))
        fleet(definition=DEFINITION, site=SITE.replace("SOURCE", source))
        assert command("plan")[0] == 1
        # The directory of the sites has no configuration of its own.
        assert run_command_line(["init"]) == 0
    capsys.readouterr()
    code, out, err = command("plan", "-out=p", *confine)
    assert code == 0, out + err
    code, out, err = command("apply", "p")
    assert code == 0, out + err


def test_init_prepares_each_root_module_of_the_sites(
    fleet: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "repositories").mkdir()
    with start_module_server(tmp_path / "repositories") as server:
        source = server.add_file("/site.tgz", build_tar({"main.nf.hcl": MODULE, "prefix": "-"}))
        second = '\nsite "c" {\n  source = "./other"\n  inputs = { name = "c" }\n}\n'
        fleet(definition=DEFINITION + second, site=SITE.replace("SOURCE", source))
        Path("other").mkdir()
        Path("other/main.nf.hcl").write_text(SITE.replace("SOURCE", source))
        assert run_command_line(["init"]) == 0
        out = capsys.readouterr().out
        assert "Root module other:" in out
        assert "Root module site:" in out
        for directory in ("other", "site"):
            assert Path(directory, ".nexusform.lock.hcl").exists()
            assert Path(directory, ".nexusform/modules/lab/main.nf.hcl").exists()
        # An error of a root module fails.
        Path("other/main.nf.hcl").write_text("resource {")
        assert run_command_line(["init"]) == 1
        assert "other/main.nf.hcl" in capsys.readouterr().err


@pytest.mark.parametrize("configuration", ["", 'output "n" {\n  value = 1\n}\n'])
def test_unreadable_file_of_sites_is_an_error_of_init(
    configuration: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if configuration:
        Path("main.nf.hcl").write_text(configuration)
    Path("nexusform.sites.hcl").write_bytes(b"a\xff")
    assert run_command_line(["init"]) == 1
    text = capsys.readouterr().err
    assert '"nexusform.sites.hcl" is not UTF-8' in text
    assert "contains no nexusform configuration files" not in text
