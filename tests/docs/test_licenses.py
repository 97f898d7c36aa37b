"""Test of the licenses of dependencies, as the installed packages state them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PERMISSIVE = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CNRI-Python", "ISC", "MIT",
    "MIT-0", "PSF-2.0", "Zlib",
}  # fmt: skip
# Copyleft of single files: an unchanged package asks nothing of other code.
ALLOWED = PERMISSIVE | {"MPL-2.0"}
# Separate libraries of an extra, unchanged.
EXCEPTIONS = {"psycopg": "LGPL-3.0-only", "psycopg-binary": "LGPL-3.0-only"}
# What packages without a license expression write in place of an SPDX id.
NAMES = {
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}


def iterate_requirements() -> Iterator[Requirement]:
    """Yield the requirements of the runtime and of every extra except `dev`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    yield from map(Requirement, project["dependencies"])
    for name, lines in project["optional-dependencies"].items():
        if name != "dev":
            yield from map(Requirement, lines)


def find_dependencies() -> tuple[dict[str, Distribution], list[str]]:
    """Return the installed packages that requirements lead to, and names of absent ones."""
    found: dict[str, Distribution] = {}
    absent: set[str] = set()
    visited: set[tuple[str, str]] = set()
    pending = list(iterate_requirements())
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) in visited:
                continue
            visited.add((name, extra))
            try:
                found[name] = distribution(name)
            except PackageNotFoundError:
                absent.add(name)
                continue
            pending += [
                each
                for each in map(Requirement, found[name].requires or ())
                if each.marker is None or each.marker.evaluate({"extra": extra})
            ]
    return found, sorted(absent)


def read_license(package: Distribution) -> str:
    """Return the license expression of a package, from its classifiers or text if it has none."""
    metadata = package.metadata
    expression = metadata.get("License-Expression")
    if expression:
        return str(expression)
    text = (metadata.get("License") or "").strip()
    classifiers = [
        each.rpartition(" :: ")[2]
        for each in metadata.get_all("Classifier") or ()
        if each.startswith("License :: OSI Approved :: ")
    ]
    # Several classifiers are taken as licenses that all apply.
    names = classifiers or [text]
    return " AND ".join(NAMES.get(name, name) for name in names)


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Return whether one alternative of an expression has allowed licenses only."""
    words = re.findall(r"[()]|[^\s()]+", expression)
    terms = [
        word if word in "()" else {"AND": "and", "OR": "or"}.get(word, str(word in allowed))
        for word in words
    ]
    try:
        return bool(eval(" ".join(terms), {"__builtins__": {}}))
    except (SyntaxError, TypeError):
        # A text that is no expression, such as "see LICENSE".
        return False


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("MIT", True),
        ("Apache-2.0 OR GPL-3.0-only", True),
        ("Apache-2.0 AND GPL-3.0-only", False),
        ("MPL-2.0 AND (Apache-2.0 OR GPL-2.0-only)", True),
        ("GPL-3.0-only", False),
        ("", False),
        ("see LICENSE", False),
        ("UNKNOWN", False),
    ],
)
def test_expression_is_allowed_by_its_parts(expression: str, answer: bool) -> None:
    assert is_allowed(expression, ALLOWED) is answer


def test_license_of_every_dependency_is_allowed() -> None:
    found, absent = find_dependencies()
    required = {
        canonicalize_name(Requirement(line).name)
        for line in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
            "dependencies"
        ]
    }
    assert required <= found.keys()
    licenses = {name: read_license(package) for name, package in sorted(found.items())}
    rejected = {
        name: expression
        for name, expression in licenses.items()
        if not is_allowed(expression, ALLOWED | {EXCEPTIONS.get(name, "")})
    }
    assert rejected == {}
    # An exception that is no longer needed would allow a license unseen.
    present = {name: licenses[name] for name in EXCEPTIONS if name in licenses}
    assert present == {name: EXCEPTIONS[name] for name in present}
    if absent:
        pytest.skip(f"not installed, so not checked: {', '.join(absent)}")
