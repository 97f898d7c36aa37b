"""A `python3` for recipes that makes virtual environments with the pip of the tests.

Installing pip into a new environment takes four seconds of processor time.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

_PROGRAM = """#!/bin/sh
"{python}" "$@" $([ "$3" != venv ] || echo --without-pip) || exit $?
[ "$3" = venv ] || exit 0
for place; do :; done
for folder in "$place"/lib/python3*/site-packages; do echo "{packages}" > "$folder/pip.pth"; done
"""


def write_python(folder: Path) -> None:
    """Write the program into a folder for the PATH of a recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "python3"
    packages = sysconfig.get_path("purelib")
    program.write_text(_PROGRAM.format(python=sys.executable, packages=packages))
    program.chmod(0o755)
