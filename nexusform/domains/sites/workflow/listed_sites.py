"""Where a site that `sites { for_each = ... }` made stands in the data that it was made from."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from nexusform.ports import FileProblem
from nexusform.regular_files import Confinement
from nexusform.workflow.opening.surroundings import read_file

_LARGEST: Final = 16 << 20  # bytes


def where_listed(files: Sequence[str], key: str, root: str, confinement: Confinement) -> str:
    """A sentence that says where a key stands in these files; "" where that is not plain.

    Sought when something is wrong with a site, since most sites never need it.
    """
    written = re.compile(rf"(?<![\w.-])(?P<quote>[\"']?){re.escape(key)}(?P=quote)\s*[:=,]")
    found: list[tuple[str, int]] = []
    for name in files:
        try:
            text = read_file(str(Path(root, name)), _LARGEST, confinement).decode()
        except (FileProblem, UnicodeDecodeError):
            continue
        found += [(name, text.count("\n", 0, each.start()) + 1) for each in written.finditer(text)]
    if len(found) == 1:
        ((name, line),) = found
        return f' "{key}" stands in {name}, line {line}.'
    return f' "{key}" is from {files[0]}.' if len(files) == 1 else ""


def from_root(names: Sequence[str], root: str) -> tuple[str, ...]:
    """Names of files as they are from the directory of the sites."""
    start = os.path.realpath(root)
    return tuple(os.path.relpath(os.path.realpath(Path(root, name)), start) for name in names)
