"""Test files with long cases, stories or running programs that a change can reach.

By the changed paths and the import graph.

`python -m tests.change_reach` prints them, one per line; on stderr what it compares, and what it
leaves out and why. `--all` prints all of them. Instead of them, `--programs` prints the environment
variables of the programs that they run, and `--linted` the changed files that linters read ("." for
all). The change is `git diff $NEXUSFORM_BASE..HEAD`.
Without that variable it is every commit of the 24 hours before HEAD; without history, everything.

A file is a node of the graph. A test reaches the files that it imports, at any depth and also
inside functions, and the examples and documents that it or these name. Two edges are no imports: a
test reaches the conftest.py files above it; and whatever loads the table of domains reaches every
domain, because the table names them as text. Tests of a domain are the exception: they reach the
domains that they or their domain import.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tests.stories import STORIES

ROOT = Path(__file__).parents[1]
# The choice of long cases, and what finds the programs that tests run.
SELECTION = "tests/kill_points.py"
PROGRAMS = frozenset({"tests/programs.py", "tests/domains/openstack/test_nova_decisions.py"})
# Of a program each; NEXUSFORM_PROGRAMS is read for those on the PATH.
PROGRAM_VARIABLE = re.compile(
    r"NEXUSFORM_(?:AXE|AZURITE|CHECKOV|HUB_PROGRAMS|NOVA|PROGRAMS|TACKER)\b"
)
# What ruff, mypy and the import contracts read.
LINTED = (".py", ".pyi", ".toml", "/py.typed")
DOMAIN_TABLE = "nexusform/domain_table.py"
# A change of these may change any test.
GLOBAL = (".ci/", "pyproject.toml", "tests/conftest.py", "tests/kill_points.py")
DAY = 24 * 60 * 60
# Two thousand files are searched, which takes the ast module many seconds.
MODULES = re.compile(r"""^\s*import ([\w.]+)|["']((?:nexusform|tests)\.[\w.]+)["']""", re.MULTILINE)
IMPORTS = re.compile(r"^\s*from ([\w.]+) import (\([^)]*\)|.*)", re.MULTILINE)
NAMES = re.compile(r"\w+")


def run_git(*words: str) -> str | None:
    """Return the output of a git command; None if it fails, for example without a history."""
    result = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else None


def find_base() -> str:
    """Return the commit to compare with: $NEXUSFORM_BASE, or the last one a day before HEAD.

    "" if there is none.
    """
    base = os.environ.get("NEXUSFORM_BASE", "")
    if base:
        return run_git("rev-parse", "--verify", f"{base}^{{commit}}") or ""
    head_time = run_git("show", "-s", "--format=%ct", "HEAD")
    if head_time is None:
        return ""
    return run_git("rev-list", "-1", f"--before={int(head_time) - DAY}", "HEAD") or ""


def list_changed_paths(base: str) -> list[str] | None:
    """Return the changed paths, old and new names of renamed files; None if they are unknown."""
    if not base:
        return None
    text = run_git("diff", "--name-only", "--no-renames", f"{base}..HEAD")
    return None if text is None else text.splitlines()


@cache
def list_files() -> frozenset[str]:
    """Return the Python files of the product and the tests, relative to the root."""
    return frozenset(
        str(path.relative_to(ROOT))
        for folder in ("nexusform", "tests")
        for path in (ROOT / folder).rglob("*.py")
    )


def find_module_file(module: str) -> str | None:
    """Return the file of a module or package of this repository."""
    path = module.replace(".", "/")
    return next(
        (file for file in (f"{path}.py", f"{path}/__init__.py") if file in list_files()), None
    )


@cache
def read_imports(file: str) -> frozenset[str]:
    """Return the files that a file imports, also inside functions."""
    text = (ROOT / file).read_text()
    # The module of a command in a child process is a text: "tests.cli.killed_commands".
    names = {module for found in MODULES.findall(text) for module in found if module}
    for package, imported in IMPORTS.findall(text):
        names.add(package)
        names.update(f"{package}.{name}" for name in NAMES.findall(imported))
    return frozenset(file for file in map(find_module_file, names) if file)


def find_domain(file: str) -> str:
    """Return the domain of a product or test file; "" outside of the domains."""
    parts = file.split("/")
    return parts[2] if len(parts) > 3 and parts[1] == "domains" else ""


def list_folders(file: str) -> list[str]:
    """Return the folders above a file, without the root."""
    parts = file.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


@cache
def find_reach(test: str) -> frozenset[str]:
    """Return the files that a test file reaches."""
    to_visit = [test, *(f"{folder}/conftest.py" for folder in list_folders(test))]
    domain = find_domain(test)
    if domain:
        to_visit.extend(
            file for file in list_files() if file.startswith(f"nexusform/domains/{domain}/")
        )
    reached: set[str] = set()
    while to_visit:
        file = to_visit.pop()
        if file in reached or file not in list_files():
            continue
        reached.add(file)
        to_visit.extend(read_imports(file))
        # An import of a module runs the __init__.py files of the packages above it.
        to_visit.extend(f"{folder}/__init__.py" for folder in list_folders(file))
        if file == DOMAIN_TABLE and not domain:
            to_visit.extend(file for file in list_files() if file.startswith("nexusform/domains/"))
    return frozenset(reached)


@cache
def find_reached_folders(test: str) -> frozenset[str]:
    """Return the folders of the files that a test file reaches."""
    return frozenset(file.rpartition("/")[0] for file in find_reach(test))


def list_long_tests() -> list[str]:
    """Return the test files with long cases, stories or running programs.

    Those that select long cases, or whose conftest.py does, those in folders of stories, and those
    that run programs, also through a module of helpers.
    """
    selecting = [file for file in list_files() if SELECTION in read_imports(file)]
    folders = tuple(
        file.removesuffix("conftest.py") for file in selecting if file.endswith("/conftest.py")
    )
    tests = {file for file in list_files() if Path(file).name.startswith("test_")}
    helpers = {file for file in list_files() - tests if PROGRAMS & read_imports(file)}
    running = PROGRAMS | helpers
    return sorted(
        file
        for file in tests
        if file in selecting
        or file.startswith((*folders, *STORIES))
        or running & {file, *read_imports(file)}
    )


def list_program_variables(tests: Iterable[str]) -> list[str]:
    """Return the environment variables with the paths of programs that test files run."""
    files = {file for test in tests for file in find_reach(test) if file.startswith("tests/")}
    texts = [(ROOT / file).read_text() for file in files]
    return sorted({name for text in texts for name in PROGRAM_VARIABLE.findall(text)})


def list_linted_paths(changed: Iterable[str] | None) -> list[str]:
    """Return the changed paths that linters read; all files as "." if the changes are unknown."""
    if changed is None:
        return ["."]
    return [path for path in changed if path.endswith(LINTED) or path.startswith(".ci/")]


@cache
def find_package_folder(path: str) -> str:
    """Return the nearest folder above a path that has Python files."""
    folders = {file.rpartition("/")[0] for file in list_files()}
    return next((folder for folder in reversed(list_folders(path)) if folder in folders), "")


def is_reached(test: str, changed: Iterable[str]) -> bool:
    """Return whether one of the changed paths can change the result of a test file."""
    reach = find_reach(test)
    # A helper or a fixture may read a file for the test.
    readers = [file for file in reach if file.startswith("tests/")]
    for path in changed:
        if path.startswith(GLOBAL) or path in reach:
            return True
        if path.startswith(("nexusform/", "tests/")):
            # A data file or a deleted module belongs to the nearest folder with Python files.
            if path not in list_files() and find_package_folder(path) in find_reached_folders(test):
                return True
        elif any(names_file(file, path) for file in readers):
            return True
    return False


@cache
def names_file(file: str, path: str) -> bool:
    """Return whether a file of the tests names a path, or reads a folder such as docs whole."""
    text = (ROOT / file).read_text()
    top, _, rest = path.partition("/")
    if not rest:
        return path in text
    if f'"{top}"' not in text and f"{top}/" not in text:
        return False
    lines = [line for line in text.splitlines() if f'"{top}"' in line or f"{top}/" in line]
    # Alone in a list of folders, or with a pattern.
    if any(f'"{top}",' in line or "glob(" in line for line in lines):
        return True
    parts = Path(rest).parts
    return bool(lines) and any(f'"{part}"' in text or f"/{part}" in text for part in parts)


def main() -> None:
    """Print the test files to run with all their cases."""
    base = find_base()
    changed = None if "--all" in sys.argv[1:] else list_changed_paths(base)
    if "--linted" in sys.argv[1:]:
        print("\n".join(list_linted_paths(changed)))
        return
    tests = list_long_tests()
    if changed is None:
        print("all cases of all test files", file=sys.stderr)
        selected = tests
    else:
        print(f"{len(changed)} paths changed since {base[:12]}", file=sys.stderr)
        selected = [test for test in tests if is_reached(test, changed)]
    left_out = [test for test in tests if test not in selected]
    print(f"{len(selected)} of {len(tests)} test files run with all their cases", file=sys.stderr)
    for test in left_out:
        print(f"left out, not reached by the change: {test}", file=sys.stderr)
    shows_programs = "--programs" in sys.argv[1:]
    print("\n".join(list_program_variables(selected) if shows_programs else selected))


if __name__ == "__main__":
    main()
