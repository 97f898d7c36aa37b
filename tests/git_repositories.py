"""Git in repositories of tests, which skip where git is not installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SETTINGS = (
    *("-c", "user.name=test"),
    *("-c", "user.email=test@example.com"),
    *("-c", "init.defaultBranch=main"),
    # No hooks of this machine.
    *("-c", "core.hooksPath="),
)


def run_git(directory: Path | str, *words: str) -> str:
    """Run git in a directory, and return its output."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    done = subprocess.run(
        ["git", *SETTINGS, *words], cwd=directory, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()
