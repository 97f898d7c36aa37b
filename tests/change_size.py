"""Size of a change, for the eyes of a reviewer: tokens added and removed in each package.

`python -m tests.change_size` prints a row per package. Nothing asserts these figures. Comments,
docstrings and line breaks do not count, so packing lines changes nothing.
"""

from __future__ import annotations

import io
import tokenize
from collections import Counter

from tests.change_reach import find_base, list_changed_paths, run_git

IGNORED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def count_tokens(text: str) -> Counter[str]:
    """Return how often each token occurs; texts in three quotes and commas do not count."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return Counter(
        token.string
        for token in tokens
        if token.type not in IGNORED and token.string != "," and '"""' not in token.string
    )


def get_package(path: str) -> str:
    """Return the package of a file: `nexusform/planning`, `nexusform/domains/fleet`, `tests`."""
    parts = path.split("/")[:-1]
    if parts[:1] != ["nexusform"]:
        return parts[0] if parts else "."
    return "/".join(parts[: 3 if parts[1:2] == ["domains"] else 2])


def main() -> None:
    """Print the tokens added to and removed from each package by the change."""
    base = find_base()
    paths = [path for path in list_changed_paths(base) or () if path.endswith(".py")]
    added: Counter[str] = Counter()
    removed: Counter[str] = Counter()
    for path in paths:
        before = count_tokens(run_git("show", f"{base}:{path}") or "")
        after = count_tokens(run_git("show", f"HEAD:{path}") or "")
        added[get_package(path)] += (after - before).total()
        removed[get_package(path)] += (before - after).total()
    print(f"Size of the change since {base[:12] or 'the first commit'}, in tokens:")
    for package in sorted(added):
        print(f"  {package:32} +{added[package]:<7} -{removed[package]}")


if __name__ == "__main__":
    main()
