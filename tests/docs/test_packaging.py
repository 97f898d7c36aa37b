"""Tests of packaging: hooks, the release, the image."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import nexusform
from nexusform.cli.main import run_command_line

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HOOKS = {
    hook["id"]: hook
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
}


@pytest.mark.parametrize(
    ("hook", "name", "code"),
    [
        ("nexusform-fmt", "lon/main.nf.hcl", 0),
        ("nexusform-fmt", "lon/a.nftest.hcl", 0),
        ("nexusform-validate", "lon/main.nf.hcl", 1),
    ],
)
def test_hook_processes_its_files(
    hook: str, name: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lon").mkdir()
    Path(name).write_text('resource "nexus_site" "a" {\nnme="x"\n}\n')
    assert re.search(HOOKS[hook]["files"], name)
    assert not re.search(HOOKS[hook]["files"], "lon/main.tf")
    program, *words = HOOKS[hook]["entry"].split()
    assert program in PROJECT["scripts"]
    assert run_command_line([*words, name]) == code
    if hook == "nexusform-fmt":
        assert Path(name).read_text() == 'resource "nexus_site" "a" {\n  nme = "x"\n}\n'


def test_validate_accepts_root_modules_and_files_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("lon", "ber"):
        Path(name).mkdir()
        Path(name, "main.nf.hcl").write_text(f'output "a" {{ value = local.{name} }}\n')
    assert run_command_line(["validate", "lon/main.nf.hcl", "ber", "lon"]) == 1
    told = capfd.readouterr().err
    assert told.count("on lon/main.nf.hcl line 1") == 1
    assert told.count("on ber/main.nf.hcl line 1") == 1
    assert run_command_line(["validate", "nowhere"]) == 1


def test_image_is_built_from_existing_files() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    shown = set((ROOT / ".dockerignore").read_text(encoding="utf-8").split())
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE):
        for name in line.split()[:-1]:
            assert (ROOT / name).exists()
            assert f"!{name}" in shown


CONSTRAINTS = (ROOT / "packaging" / "constraints.txt").read_text(encoding="utf-8")
EXTRAS = ("azure", "encryption", "kubernetes", "postgres", "s3")


MORE_EXTRAS = ("cluster", "devices", "editor", "optimize")


@pytest.mark.parametrize(
    "name", ["constraints.txt", "constraints-extras.txt", "release_requirements.txt"]
)
def test_every_pinned_package_has_its_hashes(name: str) -> None:
    text = (ROOT / "packaging" / name).read_text(encoding="utf-8")
    entries = re.findall(
        r"(?m)^([a-z0-9-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", text
    )
    assert len(entries) == len(re.findall(r"(?m)^[^#\s]", text)) > 30


def test_every_extra_is_pinned_and_versions_agree() -> None:
    from packaging.requirements import Requirement

    every = set(PROJECT["optional-dependencies"]) - {"dev"}
    assert every == {*EXTRAS, *MORE_EXTRAS}
    pins = re.compile(r"(?m)^([a-z0-9-]+)==(\S+)")
    pinned = dict(pins.findall(CONSTRAINTS))
    for name in ("constraints-extras.txt", "release_requirements.txt"):
        more = dict(pins.findall((ROOT / "packaging" / name).read_text(encoding="utf-8")))
        assert {package: pinned[package] for package in more if package in pinned} == {
            package: version for package, version in more.items() if package in pinned
        }
        if name == "constraints-extras.txt":
            asked = [
                each for extra in MORE_EXTRAS for each in PROJECT["optional-dependencies"][extra]
            ]
            for requirement in map(Requirement, [*PROJECT["dependencies"], *asked]):
                assert requirement.specifier.contains(more[requirement.name.lower()]), requirement


def test_workflows_build_on_a_clean_machine() -> None:
    jobs = yaml.safe_load(
        (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    )["jobs"]
    assert (jobs["package"]["needs"], jobs["install"]["needs"]) == ("install", "build")
    build = "\n".join(step.get("run", "") for step in jobs["build"]["steps"])
    assert ".ci/run" not in build
    installs = [line for line in build.splitlines() if "pip install" in line]
    assert installs
    assert all("--require-hashes" in line or "--no-deps release/" in line for line in installs)
    assert "sha256sum" in build
    # Environments running the program have its dependencies.
    for environment in re.findall(r"(\w+)/bin/python ", build):
        assert any(
            f"{environment}/bin/pip" in line and "packaging/constraints.txt" in line
            for line in installs
        )


def test_workflows_leave_no_token_and_publish_the_tested_commit() -> None:
    """Tests run packages without hashes, and could read a token in .git/config.

    A tag may have moved since the tests.
    """
    workflows = [
        yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in (ROOT / ".github/workflows").iterdir()
    ]
    steps = [
        step for workflow in workflows for job in workflow["jobs"].values() for step in job["steps"]
    ]
    for name, setting, value in (
        ("actions/checkout", "persist-credentials", False),
        ("docker/build-push-action", "context", "."),
    ):
        found = [
            step["with"][setting] for step in steps if step.get("uses", "").startswith(f"{name}@")
        ]
        assert found
        assert set(found) == {value}
    publications = [step["run"] for step in steps if "gh release create" in step.get("run", "")]
    assert ["--verify-tag" in command for command in publications] == [True]


def test_hashed_installs_accept_wheels_only() -> None:
    """A source distribution would be built by tools without pinned version and hash."""
    paths = [
        *(ROOT / ".github" / "workflows").iterdir(),
        ROOT / "Dockerfile",
        *(ROOT / "docs" / "ci").rglob("*.yml"),
    ]
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    installs = [
        line.strip() for line in lines if "pip install" in line and "--require-hashes" in line
    ]
    assert len(installs) > 4
    assert [line for line in installs if "--only-binary=:all:" not in line] == []


def test_image_with_attestations_uses_buildx() -> None:
    """The driver `docker` of a runner supports neither SBOM nor provenance."""
    jobs = yaml.safe_load(
        (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    )["jobs"]
    actions = [step.get("uses", "").partition("@")[0] for step in jobs["image"]["steps"]]
    assert actions.index("docker/setup-buildx-action") < actions.index("docker/build-push-action")


def test_pinned_versions_satisfy_the_requirements() -> None:
    from packaging.requirements import Requirement

    pinned = dict(re.findall(r"(?m)^([a-z0-9-]+)==(\S+)", CONSTRAINTS))
    asked = [
        *PROJECT["dependencies"],
        *(each for extra in EXTRAS for each in PROJECT["optional-dependencies"][extra]),
    ]
    for requirement in map(Requirement, asked):
        assert requirement.specifier.contains(pinned[requirement.name.lower()]), requirement


# Published: GHSA-m5vv-6r4h-3vj9, CVE-2024-12797, CVE-2025-67221. Before 1.20, azure-identity starts
# az by a shell, which a sandboxed run rejects.
SAFE = {"azure-identity": "1.20", "cryptography": "44.0.1", "orjson": "3.11.5"}


@pytest.mark.parametrize("name", SAFE)
def test_minimum_versions_exclude_published_vulnerabilities(name: str) -> None:
    from packaging.requirements import Requirement
    from packaging.version import Version

    every = [
        *PROJECT["dependencies"],
        *(each for extra in EXTRAS for each in PROJECT["optional-dependencies"][extra]),
    ]
    (requirement,) = (one for one in map(Requirement, every) if one.name == name)
    (lower,) = (Version(one.version) for one in requirement.specifier if one.operator == ">=")
    assert lower >= Version(SAFE[name])


def test_recipes_and_image_install_pinned_versions() -> None:
    for name in ("Dockerfile", "docs/ci/github/action.yml", "docs/ci/gitlab.yml"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "--require-hashes" in text
        assert "constraints.txt" in text


def test_project_urls_have_one_source() -> None:
    urls = PROJECT.get("urls", {})
    assert bool(urls) == bool(nexusform.PROJECT_URL)
    assert all(url.startswith(nexusform.PROJECT_URL) for url in urls.values())


def test_source_distribution_has_docs_and_no_tests() -> None:
    lines = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()
    assert {"graft docs", "graft examples", "prune tests"} <= set(lines)


def test_image_and_recipe_use_one_base_image_digest() -> None:
    named = re.compile(r"python:3\.\d+-slim@sha256:[0-9a-f]{64}")
    in_image = named.findall((ROOT / "Dockerfile").read_text())
    in_recipe = named.findall((ROOT / "docs" / "ci" / "gitlab.yml").read_text())
    assert len(in_image) == 1
    assert in_image == in_recipe
