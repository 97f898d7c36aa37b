"""Tests of runtime dependencies: every required package is used, and a feature fails without it.

docs/decisions/0001-hcl-parser.md lists the use of each package.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from msgspec import Struct

from tests import commands

ROOT = Path(__file__).parents[1]
# A program after the import of a package is blocked.
WITHOUT = """\
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if (name + ".").startswith({package!r} + "."):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
{program}
"""
COMMAND = "from nexusform.cli.main import run_command_line as run; sys.exit(run({arguments!r}))"

SITE = 'resource "nexus_site" "lab" {}\n'
RACK = 'resource "nexus_rack" "r" {\n  site_id       = nexus_site.lab.id\n  machine_count = 1\n}\n'
SKU = """\
resource "nexus_vm_sku" "gpu" {
  name               = "gpu"
  vcpus              = 8
  memory_gib         = 32
  numa_cells         = 2
  extended_resources = { "nvidia.com/gpu" = [1, 2] }
}
"""
ROUND = """\
resource "nexus_site" "a" {
  name = nexus_site.b.name
}
resource "nexus_site" "b" {
  name = nexus_site.a.name
}
"""
SHARED = 'provider "simulated" {\n  reality = "../reality.json"\n}\n'
IMPORT = SHARED + 'import {\n  to = nexus_site.lab\n  id = "lab"\n}\n'
MANIFEST = (
    'resource "fleet_hub_manifest" "m" {\n  yaml_body = <<-EOT\n    kind: ConfigMap\n  EOT\n}\n'
)


class Feature(Struct, frozen=True):
    """A feature needing a package: a command prints `shown` with it and not without.

    `domain` is the owner of the command or configuration, "" for the engine. `before` was applied
    earlier in the same directory, `elsewhere` in another one.
    """

    package: str
    name: str
    configuration: str
    command: tuple[str, ...]
    shown: str
    before: str = ""
    elsewhere: str = ""
    typed: str = ""
    domain: str = ""


FEATURES = (
    Feature("click", "the command line", SITE, ("plan",), "1 to add"),
    Feature("msgspec", "every record", SITE, ("plan",), "1 to add"),
    Feature("networkx", "naming a circle", ROUND, ("validate",), "nexus_site.a"),
    Feature(
        "networkx", "the drawn graph", SITE + RACK, ("graph",), '"nexus_rack.r" -> "nexus_site.lab"'
    ),
    Feature(
        "deepdiff",
        "what changed inside a value",
        SKU.replace("[1, 2]", "[1, 3]"),
        ("plan",),
        'extended_resources["nvidia.com/gpu"][1] 2 -> 3',
        before=SKU,
    ),
    Feature(
        "hcl2",
        "configuration for imported objects",
        IMPORT,
        ("plan", "-generate-config-out=made.nf.hcl"),
        "1 to import",
        elsewhere=SHARED + 'resource "nexus_site" "s" {\n  name = "lab"\n}\n',
    ),
    Feature(
        "hcl2",
        "the check that other tools read a file",
        "locals {\n  x = !!true\n}\n",
        ("validate", "-portable"),
        "Not readable with hcl2",
    ),
    Feature("yaml", "manifests", MANIFEST, ("validate",), "apiVersion", domain="fleet"),
    Feature(
        "yaml", "yamldecode", SITE, ("console",), '"found"', typed='yamldecode("a: found").a\n'
    ),
    Feature(
        "re2",
        "regular expressions",
        SITE,
        ("console",),
        '"found"',
        typed='regex("f[a-z]+", "a found b")\n',
    ),
)


def _mark_domains(each: Feature | Extra) -> pytest.MarkDecorator:
    return pytest.mark.of_domains(*filter(None, [each.domain]))


def run_without_package(
    directory: Path, package: str, program: str, typed: str = ""
) -> tuple[int, str]:
    """Run a program without the package; return its exit code and output."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(package=package, program=program)],
        cwd=directory,
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "TMPDIR": str(directory),
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]]),
        },
    )
    return done.returncode, done.stdout + done.stderr


def nexusform(
    directory: Path, *arguments: str, package: str = "", typed: str = ""
) -> tuple[int, str]:
    if package:
        return run_without_package(
            directory, package, COMMAND.format(arguments=list(arguments)), typed
        )
    words = [*commands.nexusform(), *arguments]
    done = subprocess.run(
        words, cwd=directory, input=typed, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "feature",
    [
        pytest.param(each, id=f"{each.package}: {each.name}", marks=_mark_domains(each))
        for each in FEATURES
    ],
)
def test_feature_fails_without_its_package(feature: Feature, tmp_path: Path) -> None:
    for name, text in (("elsewhere", feature.elsewhere), ("here", feature.before)):
        directory = tmp_path / name
        directory.mkdir()
        if text:
            (directory / "main.nf.hcl").write_text(text)
            code, output = nexusform(directory, "apply", "-auto-approve")
            assert code == 0, output
    here = tmp_path / "here"
    (here / "main.nf.hcl").write_text(feature.configuration)
    code, output = nexusform(here, *feature.command, package=feature.package, typed=feature.typed)
    assert code != 0
    assert feature.shown not in output
    assert "ModuleNotFoundError" in output
    _, output = nexusform(here, *feature.command, typed=feature.typed)
    assert feature.shown in output


# --- extras --------------------------------------------------------------------------------------


class Extra(Struct, frozen=True):
    """A package, its extra, and a command needing it.

    `domain` is the owner of the command, "" for the engine.
    """

    package: str
    extra: str
    command: tuple[str, ...]
    configuration: str = SITE
    domain: str = ""


def build_backend(kind: str, settings: str) -> str:
    return f'nexusform {{\n  backend "{kind}" {{\n    {settings}\n  }}\n}}\n'


PASSPHRASE = """\
nexusform {
  encryption {
    key_provider "pbkdf2" "p" {
      passphrase = "correct horse battery staple"
    }
    method "aes_gcm" "m" {
      keys = key_provider.pbkdf2.p
    }
    state {
      method = method.aes_gcm.m
    }
  }
}
"""
AZURE_BLOB = 'storage_account_name = "a"\n    container_name = "c"\n    key = "k"'
S3_BUCKET = 'bucket = "b"\n    key = "k"\n    region = "eu-west-1"'
DATABASE = 'conn_str = "postgres://localhost:1/x"'
EXTRAS = (
    Extra(
        "boto3",
        "s3",
        ("plan",),
        build_backend("s3", 'bucket = "b"\n    key = "k"\n    region = "eu-west-1"'),
        "remote_state",
    ),
    Extra(
        "psycopg",
        "postgres",
        ("plan",),
        build_backend("postgres", 'conn_str = "postgres://localhost:1/x"'),
        "remote_state",
    ),
    Extra(
        "azure.storage", "azure", ("plan",), build_backend("azurerm", AZURE_BLOB), "remote_state"
    ),
    Extra("cryptography", "encryption", ("apply", "-auto-approve"), PASSPHRASE + SITE),
    Extra("pygls", "editor", ("lsp",), domain="editor"),
    Extra(
        "distributed", "cluster", ("sites", "plan", "-engine=dask://127.0.0.1:1"), domain="sites"
    ),
    Extra("highspy", "optimize", ("simulate", "repack", "-sku=NC_P46_224_v1"), domain="whatif"),
)


@pytest.mark.parametrize(
    "extra", [pytest.param(each, id=each.package, marks=_mark_domains(each)) for each in EXTRAS]
)
def test_missing_package_error_names_its_extra(extra: Extra, tmp_path: Path) -> None:
    (tmp_path / "main.nf.hcl").write_text(extra.configuration)
    code, output = nexusform(tmp_path, *extra.command, package=extra.package)
    assert code != 0, output
    assert f"'.[{extra.extra}]'" in output
    assert "Traceback" not in output


@pytest.mark.of_domains("azure")
def test_azure_actions_fail_without_their_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("azure.mgmt.networkcloud")
    pytest.importorskip("lightkube")
    from tests.domains.azure.providers.arm_server import ArmServer
    from tests.domains.azure.providers.azure_sites import (
        CLUSTER_ID,
        build_existing_site,
        write_project,
    )

    server = ArmServer(tmp_path)
    server.site = build_existing_site()
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NF_KUBECONFIG_DIR", "kube")
    here = tmp_path / "here"
    write_project(here)
    adopt = ("import", "-from=azure", "-generate-config-out=site.nf.hcl")
    try:
        for package in ("azure.mgmt.networkcloud", "azure.identity"):
            code, output = nexusform(here, *adopt, package=package)
            assert (code, "'.[azure]'" in output, "Traceback" in output) == (1, True, False), output
        code, output = nexusform(here, *adopt)
        assert code == 0, output
        node = next(
            n["name"] for n in server.site.properties(CLUSTER_ID)["nodes"] if "web" in n["name"]
        )
        anew = ("apply", "-auto-approve", f"-replace=nexus_kubernetes_cluster.c:{node}")
        for package in ("lightkube", "httpx2"):
            code, output = nexusform(here, *anew, package=package)
            assert (code, "'.[kubernetes]'" in output, "Traceback" in output) == (1, True, False), (
                output
            )
        _, output = nexusform(here, "apply", "-resume")
        assert "kube/c.yaml cannot be used" in " ".join(output.replace("│", " ").split()), output
    finally:
        server.close()


def test_every_package_of_an_extra_is_tested() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    asked = {
        line.partition(">")[0] for name, lines in extras.items() if name != "dev" for line in lines
    }
    imported_as = {
        "azure-storage-blob": "azure.storage",
        "psycopg[binary]": "psycopg",
        "azure-mgmt-networkcloud": "azure.mgmt.networkcloud",
        "azure-identity": "azure.identity",
    }
    elsewhere = {
        "azure-keyvault-keys",
        "cel-expr-python",
    }  # tests/encryption, test_device_claims.py
    in_a_story = {"azure.mgmt.networkcloud", "azure.identity", "lightkube", "httpx2"}
    names = {imported_as.get(name, name) for name in asked - elsewhere}
    assert names == {extra.package for extra in EXTRAS} | in_a_story


def test_hcl2_check_reads_the_same_values() -> None:
    file = ROOT / "tests" / "language" / "test_hcl2_agreement.py"
    collect = f"import pytest; sys.exit(pytest.main(['--collect-only', '-qq', {str(file)!r}]))"
    assert run_without_package(ROOT, "", collect)[0] == 0
    assert run_without_package(ROOT, "hcl2", collect)[0] != 0


def test_every_required_package_has_a_feature_here() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {requirement.split(">")[0] for requirement in project["dependencies"]}
    imported_as = {"python-hcl2": "hcl2", "pyyaml": "yaml", "google-re2": "re2"}
    elsewhere = {"rich", "orjson"}
    assert {imported_as.get(name, name) for name in asked} - elsewhere == {
        f.package for f in FEATURES
    }
