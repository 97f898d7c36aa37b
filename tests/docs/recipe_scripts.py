"""The installation scripts of the CI recipes, run as on a runner."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import yaml

from tests.docs.recipe_python import write_python

CI = Path(__file__).parents[2] / "docs" / "ci"


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
