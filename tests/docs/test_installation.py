"""Tests of the installation of nexusform.

Recipes, documents, and the files of packaging/build.py installed by pip.
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

from tests.docs.recipe_python import write_python
from tests.git_repositories import run_git
from tests.kill_points import long_case, tries_all

ROOT = Path(__file__).parents[2]
CI = ROOT / "docs" / "ci"
BUILD = ROOT / "packaging" / "build.py"
COMMAND = "python packaging/build.py --wheel dist"
HAS_ZIPAPP = (
    sys.version_info[:2] == (3, 11) and sys.platform == "linux" and os.uname().machine == "x86_64"
)
UNREACHABLE = re.compile(
    r"No matching distribution|Could not fetch|Connection|Temporary failure in name resolution"
)

# --- documents ---------------------------------------------------------------------------------

# Each form installs the package of any owner of the name.
# Without \b at the start, which makes the search several times slower.
BY_NAME = [
    re.compile(pattern)
    for pattern in (
        (
            r"pip3?\s+(?:install|download|wheel)\b(?:[^\n|&;]|\\\n)*?(?<!\bof)[\s'\"]nexusform"
            r"(?:\[[\w,]+\])?(?:[=<>~!][^\s'\"]*)?(?=['\"\s`)]|$)"
        ),
        r"pip3?\s+install\s+['\"]?nexusform(?:\[[\w,]+\])?(?:[=<>~!][^\s'\"]*)?(?=['\"\s`)]|$)",
        r"(?:pipx|uvx)\s+(?:install\s+|run\s+)?['\"]?nexusform\b",
        r"uv\s+(?:tool|pip|add)\b[^\n]*\bnexusform\b",
        r"(?m)^\s*(?:-\s+)?['\"]?nexusform(?:\[[\w,]+\])?\s*(?:==|>=|~=)\s*[\d.]+",
        r"nexusform/nexusform\b",
        r"(?:ghcr|docker|quay)\.io/nexusform\b",
        r"brew install nexusform\b",
        r"npm (?:i|install) nexusform\b",
    )
]
EXAMPLES_BY_NAME = [
    "pip install nexusform",
    'python3 -m pip install --quiet --no-deps "nexusform==0.1.0"',
    "pip install 'nexusform[azure]'",
    "`pip install\n'nexusform[kubernetes]'`",
    "pipx install nexusform",
    "uvx nexusform plan",
    "uv tool install nexusform",
    "- uses: nexusform/nexusform/docs/ci/github@v0.1.0",
    "repo: https://github.com/nexusform/nexusform",
    "nexusform>=0.1",
]  # fmt: skip
EXAMPLES_OF_A_FILE = [
    "pip install .",
    "pip install '.[azure]' in a checkout of nexusform",
    "pip install --no-deps wheel/*.whl",
    "uses: ./.github/actions/nexusform",
]


def list_documents() -> list[Path]:
    """Return the files in the repository with text for users."""
    has_history = (ROOT / ".git").exists() and shutil.which("git") is not None
    listed = run_git(ROOT, "ls-files").split() if has_history else []
    folders = ("docs", "examples", "packaging", "editors", "nexusform", "state", ".github", ".ci")
    names = listed or [
        str(path.relative_to(ROOT)) for folder in folders for path in (ROOT / folder).rglob("*")
    ]
    paths = [ROOT / name for name in names if not name.startswith("tests/")]
    return [path for path in paths if path.is_file() and path.suffix not in {".webp", ".png"}]


def find_installations_by_name(text: str) -> list[str]:
    return [match[0] for pattern in BY_NAME for match in pattern.finditer(text)]


@pytest.mark.parametrize("text", EXAMPLES_BY_NAME)
def test_installation_by_name_is_found(text: str) -> None:
    assert find_installations_by_name(text)


@pytest.mark.parametrize("text", EXAMPLES_OF_A_FILE)
def test_installation_of_a_file_is_not_reported(text: str) -> None:
    assert not find_installations_by_name(text)


def test_no_document_installs_nexusform_by_name() -> None:
    found = {
        str(path.relative_to(ROOT)): installations
        for path in list_documents()
        if (
            installations := find_installations_by_name(
                path.read_text(encoding="utf-8", errors="replace")
            )
        )
    }
    assert found == {}


# --- recipes -----------------------------------------------------------------------------------


def read_install_scripts() -> dict[str, str]:
    """Return the installation script of each recipe."""
    action = yaml.safe_load((CI / "github" / "action.yml").read_text(encoding="utf-8"))
    gitlab = list(yaml.safe_load_all((CI / "gitlab.yml").read_text(encoding="utf-8")))[1]
    (gitlab_script,) = [
        line for line in gitlab[".nexusform"]["before_script"] if "pip install" in line
    ]
    return {"github": action["runs"]["steps"][0]["run"], "gitlab": gitlab_script}


SCRIPTS = read_install_scripts()


def run_install_script(
    script: str, worktree: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run an installation script as a runner does."""
    programs = worktree.with_suffix(".bin")
    write_python(programs)
    environment = {
        **{
            name: value
            for name, value in os.environ.items()
            if name not in {"PYTHONPATH", "NEXUSFORM_WHEEL"}
        },
        "PATH": f"{programs}:{os.environ['PATH']}",
        "WORKTREE": str(worktree),
        "RUNNER_TEMP": str(worktree.with_suffix(".tmp")),
        "GITHUB_PATH": str(worktree / "github-path"),
        "CI_PROJECT_DIR": str(worktree),
        **variables,
    }
    words = ["bash", "-e", "-o", "pipefail", "-c", script]
    return subprocess.run(
        words, cwd=worktree, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("recipe", SCRIPTS)
@pytest.mark.parametrize(
    "variables", [{}, {"NEXUSFORM_WHEEL": "dist/a.whl"}, {"NEXUSFORM_SHA256": "0"}]
)
def test_empty_variable_fails_at_the_first_step(
    recipe: str, variables: dict[str, str], tmp_path: Path
) -> None:
    done = run_install_script(SCRIPTS[recipe], tmp_path, **variables)
    assert done.returncode == 1
    assert COMMAND in done.stderr
    assert "NEXUSFORM_WHEEL or NEXUSFORM_SHA256 is empty" in done.stderr


@pytest.mark.parametrize("recipe", SCRIPTS)
def test_file_with_other_hash_is_not_installed(recipe: str, tmp_path: Path) -> None:
    (tmp_path / "nexusform-0.1.0-py3-none-any.whl").write_bytes(b"another wheel")
    variables = {
        "NEXUSFORM_WHEEL": "nexusform-0.1.0-py3-none-any.whl",
        "NEXUSFORM_SHA256": "0" * 64,
    }
    done = run_install_script(SCRIPTS[recipe], tmp_path, **variables)
    assert done.returncode == 1
    assert "DO NOT MATCH THE HASHES" in done.stderr
    # The packages go into an environment of the job, not to the Python of the machine.
    assert (tmp_path.with_suffix(".tmp") / "nexusform-venv" / "bin" / "python").exists()


@pytest.mark.parametrize("name", ["workflow.yml", "sites.yml", "terraform.yml", "explain.yml"])
def test_workflows_use_the_local_action_with_both_variables(name: str) -> None:
    text = (CI / "github" / name).read_text(encoding="utf-8")
    assert "NEXUSFORM_WHEEL: ${{ vars.NEXUSFORM_WHEEL }}" in text
    assert "NEXUSFORM_SHA256: ${{ vars.NEXUSFORM_SHA256 }}" in text
    for job in yaml.safe_load(text)["jobs"].values():
        steps = [step.get("uses", "").partition("@")[0] for step in job["steps"]]
        (action,) = (step for step in steps if step.endswith("/.github/actions/nexusform"))
        assert steps.index("actions/checkout") < steps.index(action)


# --- builds ------------------------------------------------------------------------------------

# Builds install tools and all dependencies: most run in .ci/run if the change can reach them, and
# all in `.ci/crashes` and in the nightly run.


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
