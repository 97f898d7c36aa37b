"""The import-linter contract "file_writers": only one package writes, renames or removes files.

A path of a work tree may lead to any file of the user. Only `nexusform.files` knows links.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, Final

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

PACKAGE: Final = "nexusform/files/"
_MODULES: Final = frozenset({"shutil", "tempfile"})
# `shutil` has more than writers.
_HARMLESS: Final = frozenset({"which", "get_terminal_size", "disk_usage"})
_OS_FUNCTIONS: Final = frozenset((
    "chmod", "chown", "lchmod", "lchown", "link", "makedirs", "mkdir", "mkfifo", "mknod", "remove",
    "removedirs", "rename", "renames", "replace", "rmdir", "symlink", "truncate", "unlink", "utime",
))  # fmt: skip
_PATH_METHODS: Final = frozenset((
    "chmod", "hardlink_to", "lchmod", "mkdir", "rmdir", "symlink_to", "touch", "unlink",
    "write_bytes", "write_text",
))  # fmt: skip
_WRITE_FLAGS: Final = frozenset({"O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND", "O_TRUNC"})


class FileWritersContract(Contract):
    """Allow writers of files in one package; `exempt` modules write elsewhere."""

    exempt = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002 - what is called
        """Check the files."""
        exempt: Any = self.exempt
        problems = find_file_writers(Path.cwd(), frozenset(exempt))
        return ContractCheck(kept=not problems, metadata={"problems": problems})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line for each problem."""
        for problem in check.metadata["problems"]:
            output.print_error(problem, bold=False)


def find_file_writers(root: Path, exempt: frozenset[str]) -> list[str]:
    """Return the calls outside of the package that write, rename or remove a file.

    An exempt module without such a call is a problem, too.
    """
    problems: list[str] = []
    used_exemptions: set[str] = set()
    for path in sorted((root / "nexusform").rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name.startswith(PACKAGE):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        calls = [(node.lineno, _find_writer(node)) for node in ast.walk(tree) if _find_writer(node)]
        if name in exempt:
            used_exemptions.update([name] if calls else [])
            continue
        problems += [f"{name}:{line} uses {writer}: use nexusform.files." for line, writer in calls]
    unused = exempt - used_exemptions
    return problems + [f"{name} writes no file: remove it from exempt." for name in sorted(unused)]


def _find_writer(node: ast.AST) -> str:
    """Return the name of a function that writes files, called or imported; "" for other nodes."""
    if isinstance(node, ast.ImportFrom):
        return _find_imported_writer(node)
    if not isinstance(node, ast.Call):
        return ""
    function = node.func
    if isinstance(function, ast.Name):
        return "open" if function.id == "open" and _has_write_mode(node, 1) else ""
    if not isinstance(function, ast.Attribute):
        return ""
    name = function.attr
    owner = function.value.id if isinstance(function.value, ast.Name) else ""
    if owner in _MODULES:
        return "" if name in _HARMLESS else f"{owner}.{name}"
    if owner == "os":
        is_writer = name in _OS_FUNCTIONS or (name == "open" and _has_write_flag(node))
        return f"os.{name}" if is_writer else ""
    if name in _PATH_METHODS or _is_path_rename(node, name):
        return f"Path.{name}"
    return "open" if name == "open" and _has_write_mode(node, 0) else ""


def _find_imported_writer(node: ast.ImportFrom) -> str:
    names = {alias.name for alias in node.names}
    if node.module in _MODULES and names - _HARMLESS:
        return str(node.module)
    return "os" if node.module == "os" and names & _OS_FUNCTIONS else ""


def _is_path_rename(node: ast.Call, name: str) -> bool:
    """Return whether a call is that of a path with a target: `replace` of a text has two."""
    has_one_argument = len(node.args) == 1 and not node.keywords
    return has_one_argument and name in ("rename", "replace")


def _has_write_mode(node: ast.Call, position: int) -> bool:
    """Return whether the mode of `open` is a literal for writing."""
    modes = [keyword.value for keyword in node.keywords if keyword.arg == "mode"]
    modes += node.args[position : position + 1]
    return any(
        isinstance(mode, ast.Constant)
        and isinstance(mode.value, str)
        and bool({*mode.value} & {*"wax+"})
        for mode in modes
    )


def _has_write_flag(node: ast.Call) -> bool:
    """Return whether the flags of `os.open` write, and the file is not /dev/null."""
    flags = {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    return bool(flags & _WRITE_FLAGS) and "devnull" not in flags
