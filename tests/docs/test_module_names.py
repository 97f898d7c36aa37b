"""Tests of module names in the documentation: every named module exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FOLDERS = ("nexusform", "tests", "packaging", "examples", "editors")
FILES = {
    f"/{path.relative_to(ROOT)}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")
}
_PATH = re.compile(r"(?<![\w/.<>*{}-])((?:\w+/)*\w+\.py)\b")
_DOTTED = re.compile(r"\bnexusform((?:\.[a-z_]\w*)+)")
# part of Tacker.
_OF_OTHERS = {"kubernetes_mgmt.py"}
# Words after `nexusform.` in file names and expressions.
_NO_MODULES = {"cdx", "json", "lock", "nfstate", "nfvars", "sites", "workspace", "yml"}


def _exists(path: str) -> bool:
    """Return whether a file exists, in any folder."""
    return any(each.endswith(f"/{path}") for each in FILES)


def _find_missing(text: str) -> Iterator[str]:
    yield from (
        path for path in _PATH.findall(text) if not _exists(path) and path not in _OF_OTHERS
    )
    for dotted in _DOTTED.findall(text):
        names = dotted.split(".")[1:]
        # The last name may be defined in the module.
        modules = [
            "/".join(["nexusform", *names[:length]])
            for length in {len(names), max(len(names) - 1, 1)}
        ]
        known = any(
            (ROOT / module).is_dir() or (ROOT / f"{module}.py").is_file() for module in modules
        )
        if names[0] not in _NO_MODULES and not known:
            yield f"nexusform{dotted}"


def test_modules_named_in_pages_exist() -> None:
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in PAGES
        for name in _find_missing(page.read_text(encoding="utf-8"))
    ]
    assert missing == []


def test_names_in_contributing_exist() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    # An example of a new argument.
    names = set(re.findall(r"`(\w+_\w+)`", page)) - {"max_vms_per_rack"}
    sources = [
        path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
    ]
    words = set(re.findall(r"\w+", "\n".join(sources)))
    assert sorted(names - words) == []
