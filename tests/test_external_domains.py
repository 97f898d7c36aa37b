"""Domains of other distributions: a toy one is built, installed, used, and rejected."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOY = ROOT / "tests" / "toy_domain"
CONFIGURATION = """
provider "file_site" {}
data "rack_list" "all" {
  file = "racks.txt"
}
resource "nexus_site" "s" {
  provider = file_site
  name     = "osl"
}
resource "nexus_rack" "r" {
  provider          = file_site
  for_each          = data.rack_list.all.machines
  name              = each.key
  site_id           = nexus_site.s.id
  availability_zone = "1"
  machine_count     = each.value
}
"""


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the toy domain, and install it into a directory of its own."""
    pytest.importorskip("setuptools")
    source = tmp_path_factory.mktemp("source")
    target = tmp_path_factory.mktemp("installed")
    for path in TOY.rglob("*.py"):
        copy = source / path.relative_to(TOY)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text())
    (source / "pyproject.toml").write_text((TOY / "pyproject.toml").read_text())
    words = ["install", "-q", "--no-deps", "--no-build-isolation", f"--target={target}", source]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    return target


def run_with(path: Path, directory: Path, *arguments: str) -> tuple[int, str]:
    """Run nexusform with another directory of distributions; return its exit code and output."""
    done = subprocess.run(
        [sys.executable, "-m", "nexusform", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, " ".join((done.stdout + done.stderr).replace("│", " ").split())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "main.nf.hcl").write_text(CONFIGURATION)
    (tmp_path / "racks.txt").write_text("rack1 6\nrack2 4\n")
    return tmp_path


def copy_with(installed: Path, target: Path, old: str, new: str) -> Path:
    """Return a copy of the installed domain with another declaration."""
    subprocess.run(["cp", "-r", installed, target], check=True)
    file = target / "rack_list" / "__init__.py"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    return target


def test_document_and_provider_of_another_distribution_are_used(
    installed: Path, project: Path
) -> None:
    assert run_with(installed, project, "version")[1].endswith(
        "+ domain of nexusform-rack-list 0.1"
    )
    code, output = run_with(installed, project, "apply", "-auto-approve")
    assert code == 0, output
    reality = json.loads((project / "site.json").read_text())
    assert "osl/rack2" in json.dumps(reality)
    code, output = run_with(installed, project, "plan")
    assert (code, "No changes" in output) == (0, True), output
    (project / "racks.txt").write_text("rack1 six\n")
    code, output = run_with(installed, project, "plan")
    assert code == 1
    assert "A line is not NAME MACHINES" in output
    assert "main.nf.hcl line 4" in output


def test_domain_of_another_version_is_rejected_by_name(
    installed: Path, project: Path, tmp_path: Path
) -> None:
    other = copy_with(installed, tmp_path / "other", "interface_version=1", "interface_version=9")
    code, output = run_with(other, project, "plan")
    assert code == 1
    assert (
        'The domain "rack_list" of nexusform-rack-list 0.1 is not used: it is written for '
        "interface version 9, and this nexusform has 1. Install a version of it" in output
    )
    assert "is not used" in run_with(other, project, "version")[1]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("DOMAIN =", "DOMAIN = 1 / 0 and", "it cannot be imported (ZeroDivisionError"),
        ("DOMAIN = ", "DOMAIN, _ = 3, ", "its entry point is no DomainDeclaration"),
        (
            '"rack_list": "rack_list"',
            '"nexus_inventory": "rack_list"',
            '"nexus_inventory" is already a name of the domain "azure"',
        ),
    ],
)
@pytest.mark.of_domains("azure")
def test_unusable_domain_ends_no_command(
    old: str, new: str, reason: str, installed: Path, project: Path, tmp_path: Path
) -> None:
    other = copy_with(installed, tmp_path / "other", old, new)
    code, output = run_with(other, project, "plan")
    assert (code, reason in output, "Traceback" in output) == (1, True, False), output
    assert run_with(other, project, "fmt")[0] == 0
