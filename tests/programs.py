"""Programs beside which tests run: browser, shells, database, sshd, strace, terraform.

The test command of the README needs none. `.ci/run` starts it without them, with
NEXUSFORM_PROGRAMS=none. It installs all but terraform, and then starts the tests beside them that a
change can reach (tests/change_reach.py finds these by their import of this module).
"""

import os
import shutil
import subprocess
from functools import cache

WITHOUT_PROGRAMS = os.environ.get("NEXUSFORM_PROGRAMS") == "none"


def find_program(*names: str, path: str | None = None) -> str | None:
    """Return the path of the first of these programs that is installed; None to skip its tests.

    `path` replaces the PATH of the environment.
    """
    if WITHOUT_PROGRAMS:
        return None
    return next((found for name in names if (found := shutil.which(name, path=path))), None)


@cache
def can_trace_calls() -> bool:
    """Return whether strace is installed and may trace: containers can forbid it."""
    program = find_program("strace")
    if program is None:
        return False
    command = [program, "-qq", "-o", os.devnull, "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
