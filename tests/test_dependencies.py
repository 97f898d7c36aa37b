"""Tests of runtime dependencies: every required package is used, and a feature fails without it.

docs/decisions/0001-hcl-parser.md lists the use of each package.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from msgspec import Struct

from nexusform.cli.main import run_command_line
from nexusform.diagnostics.missing_packages import EXTRAS, find_extra
from tests import commands
from tests.docs.bare_environments import (
    PROJECT,
    create_environment,
    find_distributions,
    list_requirements,
    normalize_name,
)

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
    Feature(
        "httpx2",
        "a state on an HTTP server",
        'nexusform {\n  backend "http" {\n    address = "http://127.0.0.1:1/s"\n  }\n}\n',
        ("plan",),
        "the connection was refused",
        domain="remote_state",
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
VAULT = (
    PASSPHRASE.replace("pbkdf2", "azure_vault")
    .replace(
        'passphrase = "correct horse battery staple"', 'vault_uri = "https://a.vault.azure.net"'
    )
    .replace("}", '\n      key_name  = "k"\n    }', 1)
)
FLEET = 'provider "fleet" {}\ndata "fleet_hub" "h" {}\n'
IMPORT_FROM_AZURE = ("import", "-from=azure", "-generate-config-out=site.nf.hcl")
REPACK = ("simulate", "repack", "-sku=NC_P46_224_v1")
DASK = ("sites", "plan", "-engine=dask://127.0.0.1:1")
USES = (
    Extra("boto3", "s3", ("plan",), build_backend("s3", S3_BUCKET), "remote_state"),
    Extra("psycopg", "postgres", ("plan",), build_backend("postgres", DATABASE), "remote_state"),
    Extra(
        "azure.storage", "azure", ("plan",), build_backend("azurerm", AZURE_BLOB), "remote_state"
    ),
    Extra("cryptography", "encryption", ("apply", "-auto-approve"), PASSPHRASE + SITE),
    Extra("azure.keyvault", "azure", ("apply", "-auto-approve"), VAULT + SITE),
    Extra("pygls", "editor", ("lsp",), domain="editor"),
    Extra("distributed", "cluster", DASK, domain="sites"),
    Extra("highspy", "optimize", REPACK, domain="whatif"),
    Extra("lightkube", "kubernetes", ("plan",), FLEET, domain="hub"),
    Extra("azure.mgmt.networkcloud", "azure", IMPORT_FROM_AZURE, domain="azure"),
    Extra("azure.identity", "azure", IMPORT_FROM_AZURE, domain="azure"),
)


def _assert_extra_is_named(extra: Extra, code: int, output: str) -> None:
    text = " ".join(output.replace("│", " ").split())
    assert code != 0, output
    assert f"pip install '.[{extra.extra}]'" in text, output
    assert "Traceback" not in text, output
    assert "Internal error" not in text, output


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a kubeconfig of a hub, so that only the package is missing."""
    (tmp_path / "kubeconfig").write_text("apiVersion: v1\nkind: Config\n")
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("AZURE_SUBSCRIPTION_ID", "00000000-0000-0000-0000-000000000000")
    monkeypatch.setenv("ARM_SUBSCRIPTION_ID", "00000000-0000-0000-0000-000000000000")


@pytest.mark.usefixtures("kubeconfig")
@pytest.mark.parametrize(
    "extra", [pytest.param(each, id=each.package, marks=_mark_domains(each)) for each in USES]
)
def test_missing_package_error_names_its_extra(extra: Extra, tmp_path: Path) -> None:
    (tmp_path / "main.nf.hcl").write_text(extra.configuration)
    code, output = nexusform(tmp_path, *extra.command, package=extra.package)
    _assert_extra_is_named(extra, code, output)


@pytest.mark.usefixtures("kubeconfig")
def test_bare_install_names_the_extra_of_each_use(tmp_path: Path) -> None:
    """All packages of all extras are missing."""
    create_environment(tmp_path / "bare")
    for number, extra in enumerate(USES):
        if extra.domain and not (ROOT / "nexusform" / "domains" / extra.domain).exists():
            continue
        here = tmp_path / str(number)
        here.mkdir()
        (here / "main.nf.hcl").write_text(extra.configuration)
        words = [tmp_path / "bare" / "bin" / "nexusform", *extra.command]
        variables = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(
            words, cwd=here, env=variables, input="", capture_output=True, text=True, check=False
        )
        _assert_extra_is_named(extra, done.returncode, done.stdout + done.stderr)


def test_missing_package_in_any_place_is_no_internal_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = ModuleNotFoundError("No module named 'lightkube'", name="lightkube")

    def raise_missing_package(*_: object, **__: object) -> None:
        raise missing

    monkeypatch.setattr("nexusform.cli.main.ROOT.main", raise_missing_package)
    assert run_command_line(["version"]) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert "needs the package lightkube: pip install '.[kubernetes]'" in error
    missing.name = "click"
    assert run_command_line(["version"]) == 1
    assert "Internal error" in capsys.readouterr().err


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
        code, output = nexusform(here, *anew, package="lightkube")
        assert (code, "'.[kubernetes]'" in output, "Traceback" in output) == (1, True, False), (
            output
        )
        _, output = nexusform(here, "apply", "-resume")
        assert "kube/c.yaml cannot be used" in " ".join(output.replace("│", " ").split()), output
    finally:
        server.close()


# --- imports of packages of extras --------------------------------------------------------------


@cache
def read_imported_modules(path: Path) -> frozenset[str]:
    """Return the modules that a file imports, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return frozenset(names)


def list_product_files() -> list[Path]:
    return sorted((ROOT / "nexusform").rglob("*.py"))


def list_packages_of_other_programs() -> set[str]:
    """Return the packages beside nexusform that only its child processes import."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    (modules,) = [
        override["module"]
        for override in tools["mypy"]["overrides"]
        if "nova.*" in override["module"]
    ]
    return {module.partition(".")[0] for module in modules}


def find_extras_of_imports() -> dict[str, set[str]]:
    """Return the extras that install each imported package, by the first part of its name.

    Without required packages.
    """
    installed = packages_distributions()
    required = set(find_distributions(list_requirements([])))
    names = [name for name in PROJECT["optional-dependencies"] if name != "dev"]
    of_extras = {name: set(find_distributions(list_requirements([name]))) for name in names}
    modules = {name for path in list_product_files() for name in read_imported_modules(path)}
    tops = {name.partition(".")[0] for name in modules}
    tops -= {*sys.stdlib_module_names, "nexusform", *list_packages_of_other_programs()}
    extras: dict[str, set[str]] = {}
    for top in tops:
        needed = {normalize_name(name) for name in installed.get(top, [])}
        if not needed or needed - required:
            extras[top] = {name for name, packages in of_extras.items() if packages & needed}
    return extras


def test_every_imported_package_of_an_extra_has_its_command() -> None:
    found = find_extras_of_imports()
    assert EXTRAS.keys() == found.keys()
    wrong = {top: extras for top, extras in found.items() if EXTRAS[top] not in extras}
    assert wrong == {}


def find_domain(path: Path) -> str:
    parts = path.relative_to(ROOT / "nexusform").parts
    return parts[1] if parts[0] == "domains" and len(parts) > 2 else ""


def list_uses() -> Iterator[tuple[str, str]]:
    """Yield each domain, "" for the engine, with each extra that it imports.

    Also through a module of the engine, such as the HTTP client of a provider.
    """
    of_module: dict[str, set[str]] = defaultdict(set)
    for path in list_product_files():
        extras = {
            extra
            for name in read_imported_modules(path)
            if (extra := find_extra(ImportError(name=name)))
        }
        if extras and not find_domain(path):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            of_module[module] |= extras
        yield from ((find_domain(path), extra) for extra in extras)
    for path in list_product_files():
        for name in read_imported_modules(path) & of_module.keys():
            yield from ((find_domain(path), extra) for extra in of_module[name])


# Uses that only a server, a cluster or a program starts, with the test of their message.
OTHER_USES = {
    ("azure", "kubernetes"): "tests/test_dependencies.py",
    ("pods", "devices"): "tests/domains/pods/planning/test_device_claims.py",
}
# Their only message is that of any missing package.
ANYWHERE = {("program_checks", "kubernetes"), ("", "kubernetes")}


def test_every_use_of_an_extra_is_tried_without_it() -> None:
    tried = {(use.domain, use.extra) for use in USES}
    uses = set(list_uses())
    for (_, extra), test in OTHER_USES.items():
        assert f"'.[{extra}]'" in (ROOT / test).read_text()
    assert uses - tried - OTHER_USES.keys() - ANYWHERE == set()
    domains = {path.name for path in (ROOT / "nexusform" / "domains").iterdir()}
    assert {use for use in tried - uses if use[0] in domains | {""}} == set()


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
