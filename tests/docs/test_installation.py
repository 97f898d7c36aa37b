"""Tests of the installation of nexusform in documents and recipes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.docs.recipe_scripts import CI, SCRIPTS, run_install_script
from tests.git_repositories import run_git

ROOT = Path(__file__).parents[2]
COMMAND = "python packaging/build.py --wheel dist"

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


@pytest.mark.parametrize(
    "name", ["workflow.yml", "sites.yml", "terraform.yml", "explain.yml", "capacity.yml"]
)
def test_workflows_use_the_local_action_with_both_variables(name: str) -> None:
    text = (CI / "github" / name).read_text(encoding="utf-8")
    assert "NEXUSFORM_WHEEL: ${{ vars.NEXUSFORM_WHEEL }}" in text
    assert "NEXUSFORM_SHA256: ${{ vars.NEXUSFORM_SHA256 }}" in text
    for job in yaml.safe_load(text)["jobs"].values():
        steps = [step.get("uses", "").partition("@")[0] for step in job["steps"]]
        (action,) = (step for step in steps if step.endswith("/.github/actions/nexusform"))
        assert steps.index("actions/checkout") < steps.index(action)
