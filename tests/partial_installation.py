"""Installations of nexusform without some domains: folders of links to the files of the package."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "nexusform"


def install_without(domains: Iterable[str], target: Path) -> dict[str, str]:
    """Link the package without the folders of some domains into a new folder.

    Return the variables that let Python import it.
    """
    absent = {*domains}
    package = target / "nexusform"
    (package / "domains").mkdir(parents=True)
    for path in PACKAGE.iterdir():
        if path.name not in ("domains", "__pycache__"):
            (package / path.name).symlink_to(path)
    for path in (PACKAGE / "domains").iterdir():
        if path.name not in {"__pycache__", *absent}:
            (package / "domains" / path.name).symlink_to(path)
    return {"PYTHONPATH": str(target)}


def run_installed(directory: Path, *arguments: str, **variables: str) -> str:
    """Return stdout and stderr of a command of the installation in these variables."""
    result = subprocess.run(
        [sys.executable, "-m", "nexusform", *arguments],
        cwd=directory,
        env={**os.environ, **variables},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in result.stderr
    assert "Internal error" not in result.stderr
    return result.stdout + result.stderr
