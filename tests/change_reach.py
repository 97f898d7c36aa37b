"""Test files with long cases, stories or running programs that a change can reach.

By the changed paths and the import graph.

`python -m tests.change_reach` prints them, one per line; on stderr what it compares, and what it
leaves out and why. `--all` prints all of them. Instead of them, `--programs` prints the environment
variables of the programs that they run, and `--linted` the changed files that linters read ("." for
all). The change is `git diff $NEXUSFORM_BASE..HEAD`.
Without that variable it is every commit of the 24 hours before HEAD; without history, everything.

A file is a node of the graph. A test reaches the files that it imports, at any depth and also
inside functions, and the examples and documents that it or these name. Three edges are no imports:
a test reaches the conftest.py files above it. Whatever loads the table of domains reaches every
domain, because the table names them as text; tests of a domain are the exception. And a test
reaches the domains with names that it uses: types, providers, backends, commands and values of
flags (NAME_FORMS). It uses those in its text, in the test modules that it imports, in the data
files of their folders, and in the examples that they name.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from tests.stories import STORIES

ROOT = Path(__file__).parents[1]
# The choice of long cases, and what finds the programs that tests run.
SELECTION = "tests/kill_points.py"
PROGRAMS = frozenset({"tests/programs.py", "tests/domains/openstack/test_nova_decisions.py"})
# Of a program each; NEXUSFORM_PROGRAMS is read for those on the PATH.
PROGRAM_VARIABLE = re.compile(
    r"NEXUSFORM_(?:AXE|AZURITE|CHECKOV|HEAT|HUB_PROGRAMS|KUBEFLEET_JUDGE|NOVA|PROGRAMS|TACKER)\b"
)
# What ruff, mypy and the import contracts read.
LINTED = (".py", ".pyi", ".toml", "/py.typed")
DOMAIN_TABLE = "nexusform/domain_table.py"
DOMAINS = "nexusform/domains"
# A change of these may change any test.
GLOBAL = (".ci/", "pyproject.toml", "tests/conftest.py", "tests/kill_points.py")
DAY = 24 * 60 * 60
# Two thousand files are searched, which takes the ast module many seconds.
MODULES = re.compile(r"""^\s*import ([\w.]+)|["']((?:nexusform|tests)\.[\w.]+)["']""", re.MULTILINE)
# A test that runs the program in a process of its own.
PROGRAM_RUN = '"-m", "nexusform"'
IMPORTS = re.compile(r"^\s*from ([\w.]+) import (\([^)]*\)|.*)", re.MULTILINE)
NAMES = re.compile(r"\w+")
# How tests and configurations write the names of a domain, by field of its entry in the table. The
# group is the name.
NAME_FORMS = {
    "resource_types": re.compile(r"\b([a-z]+_\w+)"),
    "data_sources": re.compile(r"\b([a-z]+_\w+)"),
    "providers": re.compile(r"\bprovider\b\W+(\w+)"),
    "backends": re.compile(r"\bbackend\b\W+(\w+)"),
    # As the first word of a text, or after the program.
    "commands": re.compile(r"""(?:["'`]|\bnexusform )([a-z]+)(?=["'` ])"""),
    "simulates": re.compile(r"\bsimulate\b\W+(\w+)"),
    "exports": re.compile(r"-format=([\w-]+)"),
    "export_scripts": re.compile(r"-for=([\w-]+)"),
    "imports": re.compile(r"-from=([\w-]*)"),
    "reconcilers": re.compile(r"-from=([\w-]*)"),
    "checkers": re.compile(r"-check-with=([\w-]+)"),
    "losses": re.compile(r"\blost:([\w-]+)"),
}
# The name of any directory in `imports`.
ANY_DIRECTORY = "DIR"


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
def read_text(file: str) -> str:
    """Return the text of a file, relative to the root."""
    return (ROOT / file).read_text(errors="replace")


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
    text = read_text(file)
    # The module of a command in a child process is a text: "tests.cli.killed_commands".
    names = {module for found in MODULES.findall(text) for module in found if module}
    if PROGRAM_RUN in text:
        names.add("nexusform.__main__")
    for package, imported in IMPORTS.findall(text):
        names.add(package)
        names.update(f"{package}.{name}" for name in NAMES.findall(imported))
    return frozenset(file for file in map(find_module_file, names) if file)


def find_domain(file: str) -> str:
    """Return the domain of a product or test file; "" outside of the domains."""
    parts = file.split("/")
    return parts[2] if len(parts) > 3 and parts[1] == "domains" else ""


@cache
def list_folders(file: str) -> tuple[str, ...]:
    """Return the folders above a file, without the root."""
    parts = file.split("/")
    return tuple("/".join(parts[:length]) for length in range(1, len(parts)))


def follow_imports(files: Iterable[str], follows_table: bool) -> frozenset[str]:
    """Return files, and the files that they import at any depth.

    `follows_table`: the table of domains imports every domain.
    """
    to_visit = [*files]
    reached: set[str] = set()
    while to_visit:
        file = to_visit.pop()
        if file in reached or file not in list_files():
            continue
        reached.add(file)
        to_visit.extend(read_imports(file))
        # An import of a module runs the __init__.py files of the packages above it.
        to_visit.extend(f"{folder}/__init__.py" for folder in list_folders(file))
        if file == DOMAIN_TABLE and follows_table:
            to_visit.extend(file for file in list_files() if file.startswith(f"{DOMAINS}/"))
    return frozenset(reached)


@cache
def find_domain_reach(domain: str) -> frozenset[str]:
    """Return the files of a domain, and the files that they import."""
    folder = f"{DOMAINS}/{domain}/"
    files = [file for file in list_files() if file.startswith(folder)]
    return follow_imports(files, follows_table=False)


@cache
def read_domain_names() -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Return the domains of each name that users write, by field of the entries.

    The table is read as text: its packages may not be installed yet.
    """
    names: dict[str, dict[str, frozenset[str]]] = {field: {} for field in NAME_FORMS}
    for call in ast.walk(ast.parse((ROOT / DOMAIN_TABLE).read_text())):
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != "DomainDeclaration":
            continue
        fields = {keyword.arg: keyword.value for keyword in call.keywords}
        domain = ast.literal_eval(fields["name"])
        for field in NAME_FORMS.keys() & fields.keys():
            for key in fields[field].keys:
                name = ast.literal_eval(key)
                names[field][name] = names[field].get(name, frozenset()) | {domain}
    return names


@cache
def read_text_without_tests(file: str) -> str:
    """Return the text of a module that tests import: the tests in it run elsewhere."""
    text = read_text(file)
    if not Path(file).name.startswith("test_"):
        return text
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            first = min([node, *node.decorator_list], key=lambda part: part.lineno).lineno
            last = node.end_lineno or first
            lines[first - 1 : last] = [""] * (last - first + 1)
    return "\n".join(lines)


@cache
def find_named_domains(text: str) -> frozenset[str]:
    """Return the domains with names that a text uses."""
    domains: set[str] = set()
    for field, form in NAME_FORMS.items():
        names = read_domain_names()[field]
        any_name = names.get(ANY_DIRECTORY, frozenset())
        # Most texts have no name of most fields, which a search for a plain text tells quickly.
        if any_name or any(name in text for name in names):
            for name in {*form.findall(text)}:
                domains |= names.get(name, any_name)
    return frozenset(domains)


@cache
def list_data_files() -> Mapping[str, tuple[str, ...]]:
    """Return the files that tests read, by their nearest folder with Python files.

    Examples have none: "".
    """
    files: dict[str, list[str]] = {}
    for folder in ("tests", "examples"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix not in {".py", ".pyc"}:
                file = str(path.relative_to(ROOT))
                files.setdefault(find_package_folder(file), []).append(file)
    return {folder: tuple(sorted(paths)) for folder, paths in files.items()}


@cache
def find_domains_of_data(folder: str) -> frozenset[str]:
    """Return the domains that the data files of a folder of tests name."""
    texts = map(read_text, list_data_files().get(folder, ()))
    return frozenset[str]().union(*map(find_named_domains, texts))


@cache
def find_domains_of_examples(file: str) -> frozenset[str]:
    """Return the domains that the examples name that a file of the tests reads."""
    texts = [read_text(path) for path in list_data_files()[""] if names_file(file, path)]
    return frozenset[str]().union(*map(find_named_domains, texts))


@cache
def find_reach(test: str) -> frozenset[str]:
    """Return the files that a test file reaches."""
    starts = [test, *(f"{folder}/conftest.py" for folder in list_folders(test))]
    domain = find_domain(test)
    reached = follow_imports(starts, follows_table=not domain)
    domains = {*find_named_domains(read_text(test)), *([domain] if domain else [])}
    for file in reached:
        if file.startswith("tests/"):
            if file != test:
                domains |= find_named_domains(read_text_without_tests(file))
            domains |= find_domains_of_data(file.rpartition("/")[0])
            domains |= find_domains_of_examples(file)
    return reached.union(*map(find_domain_reach, domains))


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
    texts = map(read_text, files)
    return sorted({name for text in texts for name in PROGRAM_VARIABLE.findall(text)})


def list_linted_paths(changed: Iterable[str] | None) -> list[str]:
    """Return the changed paths that linters read; all files as "." if the changes are unknown."""
    if changed is None:
        return ["."]
    return [path for path in changed if path.endswith(LINTED) or path.startswith(".ci/")]


@cache
def list_package_folders() -> frozenset[str]:
    """Return the folders with Python files."""
    return frozenset(file.rpartition("/")[0] for file in list_files())


@cache
def find_package_folder(path: str) -> str:
    """Return the nearest folder above a path that has Python files."""
    folders = list_package_folders()
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
def list_lines_about(file: str, folder: str) -> tuple[str, ...]:
    """Return the lines of a file of the tests that name a folder of the root, such as docs."""
    text = read_text(file)
    if f'"{folder}"' not in text and f"{folder}/" not in text:
        return ()
    lines = text.splitlines()
    return tuple(line for line in lines if f'"{folder}"' in line or f"{folder}/" in line)


@cache
def names_file(file: str, path: str) -> bool:
    """Return whether a file of the tests names a path, or reads a folder such as docs whole."""
    text = read_text(file)
    top, _, rest = path.partition("/")
    if not rest:
        return path in text
    lines = list_lines_about(file, top)
    if not lines:
        return False
    # Alone in a list of folders, or with a pattern.
    if any(f'"{top}",' in line or "glob(" in line for line in lines):
        return True
    parts = Path(rest).parts
    return any(f'"{part}"' in text or f"/{part}" in text for part in parts)


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
