"""A `python3` for the recipes of CI: the Python of the tests.

A shim of a version manager starts twenty programs for each start of Python. Installing pip into a
new virtual environment takes four seconds of processor time, so these have the pip of the tests.
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
