"""Location of a generated site in the data of `sites { for_each = ... }`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from nexusform.files.regular_files import Confinement
from nexusform.interfaces.plugins import FileProblem
from nexusform.workflow.opening.system_io import read_file

_MAX_BYTES: Final = 16 << 20  # bytes


def describe_data_location(files: Sequence[str], key: str, root: str, confinement: Confinement) -> str:
    """Describe the location of a key in these files; "" if it is ambiguous. Called only for sites with problems."""
    pattern = re.compile(rf"(?<![\w.-])(?P<quote>[\"']?){re.escape(key)}(?P=quote)\s*[:=,]")
    locations: list[tuple[str, int]] = []
    for name in files:
        try:
            text = read_file(str(Path(root, name)), _MAX_BYTES, confinement).decode()
        except (FileProblem, UnicodeDecodeError):
            continue
        locations += [(name, text.count("\n", 0, match.start()) + 1) for match in pattern.finditer(text)]
    if len(locations) == 1:
        ((name, line),) = locations
        return f' "{key}" is set in {name}, line {line}.'
    return f' "{key}" is from {files[0]}.' if len(files) == 1 else ""


def convert_to_relative(names: Sequence[str], root: str) -> tuple[str, ...]:
    """Convert file names to paths relative to the sites' directory."""
    start = os.path.realpath(root)
    return tuple(os.path.relpath(os.path.realpath(Path(root, name)), start) for name in names)
