"""Tests of the files of packaging/build.py, built twice and installed.

Builds install tools and all dependencies: most run in .ci/run if the change can reach them, and
all in `.ci/crashes` and in the nightly run. The text of documents cannot change their results, so
it is tested elsewhere.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.docs.recipe_scripts import SCRIPTS, run_install_script
from tests.kill_points import long_case, tries_all

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "packaging" / "build.py"
HAS_ZIPAPP = (
    sys.version_info[:2] == (3, 11) and sys.platform == "linux" and os.uname().machine == "x86_64"
)
UNREACHABLE = re.compile(
    r"No matching distribution|Could not fetch|Connection|Temporary failure in name resolution"
)


def build(tools: str, directory: Path, *flags: str, umask: int) -> dict[str, Path]:
    """Build from another directory with a file mask; return the files by suffix.

    `tools` is a Python with them.
    """
    directory.mkdir()
    arguments = [*flags, str(directory)]
    program = (
        f"import build, sys; build.create_environment = lambda *_: {tools!r}; "
        f"sys.exit(build.main({arguments!r}))"
    )
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "PYTHONPATH": str(BUILD.parent)}
    command = ["bash", "-c", f'umask {umask:03o} && exec "$@"', "-", sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    skip_if_unreachable(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    return {file.suffix: file for file in directory.iterdir()}


def skip_if_unreachable(text: str) -> None:
    if UNREACHABLE.search(text) and "NEXUSFORM_NEED_SERVERS" not in os.environ:
        pytest.skip("the package index is not reachable")


def fill_once(factory: pytest.TempPathFactory, name: str, fill: Callable[[Path], object]) -> Path:
    """Return a directory that all workers of the run share, filled by the first that needs it.

    The others wait for it. A directory whose filling failed is filled again.
    """
    base = factory.getbasetemp()
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    directory = run / name
    complete = run / f"{name}.complete"
    with (run / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(directory, ignore_errors=True)
            fill(directory)
            complete.touch()
    return directory


def create_tools(directory: Path) -> None:
    program = "import build, os, sys; build.create_environment(build.Path(sys.argv[1]), os.environ)"
    environment = {**os.environ, "PYTHONPATH": str(BUILD.parent), "PIP_COMPILE": "0"}
    command = [sys.executable, "-c", program, str(directory)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    skip_if_unreachable(done.stderr)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a Python with the build tools, shared by two builds."""
    return str(fill_once(tmp_path_factory, "tools", create_tools) / "bin" / "python")


@pytest.fixture(scope="module")
def built(tools: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the files of the first build, by suffix."""
    flags = [] if HAS_ZIPAPP else ["--wheel"]
    directory = fill_once(
        tmp_path_factory, "first", lambda target: build(tools, target, *flags, umask=0o022)
    )
    return {file.suffix: file for file in directory.iterdir()}


@pytest.mark.slow
@pytest.mark.skipif(not tries_all(), reason="tried by .ci/nightly and .ci/crashes")
def test_two_builds_are_equal_in_bytes(tools: str, built: dict[str, Path], tmp_path: Path) -> None:
    again = build(tools, tmp_path / "second", *([] if HAS_ZIPAPP else ["--wheel"]), umask=0o077)
    assert again.keys() == built.keys()
    assert [
        suffix for suffix, file in again.items() if file.read_bytes() != built[suffix].read_bytes()
    ] == []


@pytest.mark.slow
@long_case
def test_sdist_has_sources_docs_and_no_tests(built: dict[str, Path]) -> None:
    with tarfile.open(built[".gz"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "packaging/build.py",
        "packaging/constraints.txt",
        "docs/README.md",
        "nexusform/cli/main.py",
    } <= names
    assert not [name for name in names if name.startswith(("tests", ".git"))]


@pytest.mark.slow
@long_case
def test_wheel_has_the_hashes_of_its_dependencies(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built[".whl"]) as archive:
        (name,) = [
            name for name in archive.namelist() if name.endswith("share/nexusform/constraints.txt")
        ]
        assert archive.read(name) == (ROOT / "packaging" / "constraints.txt").read_bytes()


@pytest.mark.slow
@long_case
@pytest.mark.parametrize("recipe", ["github"])
def test_recipe_installs_the_wheel(recipe: str, built: dict[str, Path], tmp_path: Path) -> None:
    wheel = built[".whl"]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    variables = {"NEXUSFORM_WHEEL": str(wheel), "NEXUSFORM_SHA256": digest, "PIP_COMPILE": "0"}
    done = run_install_script(SCRIPTS[recipe], tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    programs = (tmp_path / "github-path").read_text(encoding="utf-8").strip()
    assert_plans_the_example([f"{programs}/nexusform"])


@pytest.mark.slow
@long_case
def test_pipx_installs_the_wheel(built: dict[str, Path], tmp_path: Path) -> None:
    """As in docs/ci/README.md and in the job `install` of a release."""
    release = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    script = release["jobs"]["install"]["steps"][-1]["run"]
    assert script.startswith("pipx install ./nexusform-*.whl\n")
    venv = tmp_path / "tools"
    environment = {
        **os.environ,
        "PIPX_HOME": str(tmp_path / "home"),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "PATH": f"{tmp_path / 'bin'}:{venv / 'bin'}:{os.environ['PATH']}",
        "PIP_COMPILE": "0",
        "GITHUB_WORKSPACE": str(ROOT),
    }
    environment.pop("PYTHONPATH", None)
    commands = f"{sys.executable} -m venv {venv} && pip install -q pipx && {script}"
    done = subprocess.run(
        ["bash", "-e", "-c", commands],
        cwd=built[".whl"].parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    skip_if_unreachable(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "Plan: 14 to add, 0 to change, 0 to destroy."


@pytest.mark.slow
@long_case
@pytest.mark.skipif(not HAS_ZIPAPP, reason="the zipapp is for CPython 3.11 on linux-x86_64")
def test_zipapp_plans(built: dict[str, Path], tmp_path: Path) -> None:
    assert_plans_the_example([sys.executable, str(built[".pyz"])], SHIV_ROOT=str(tmp_path))


def assert_plans_the_example(command: list[str], **variables: str) -> None:
    """Check the last line of the plan of an example."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG"}}
    done = subprocess.run(
        [*command, f"-chdir={ROOT / 'examples' / 'nexus-document'}", "plan"],
        env={**kept, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "Plan: 14 to add, 0 to change, 0 to destroy."
