"""The import-linter contract "network_imports": only one package accesses servers.

Standard modules such as `http.client` are submodules, and import-linter squashes them: so this
contract reads the files.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, Final

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

CLIENTS: Final = (
    "httpx",
    "httpx2",
    "urllib.request",
    "urllib3",
    "http.client",
    "requests",
    "socket",
    "aiohttp",
)
PACKAGE: Final = "nexusform/network/"


class NetworkImportsContract(Contract):
    """Allow network clients in one package; `exempt` modules use sockets for other purposes."""

    exempt = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002 - what is called
        """Check the files."""
        exempt: Any = self.exempt
        problems = find_network_imports(Path.cwd(), frozenset(exempt))
        return ContractCheck(kept=not problems, metadata={"problems": problems})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line for each problem."""
        for problem in check.metadata["problems"]:
            output.print_error(problem, bold=False)


def find_network_imports(root: Path, exempt: frozenset[str]) -> list[str]:
    """Return the imports of network clients outside of the package."""
    problems = []
    for path in sorted((root / "nexusform").rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name.startswith(PACKAGE) or name in exempt:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                modules = [
                    str(node.module),
                    *(f"{node.module}.{alias.name}" for alias in node.names),
                ]
            problems += [
                f"{name} imports {module}: use nexusform.network."
                for module in modules
                if module in CLIENTS
            ]
    return problems
