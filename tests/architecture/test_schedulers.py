"""Only planning builds schedulers of VMs: other questions are plans, or ask it for one."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def test_only_planning_builds_schedulers() -> None:
    builders: set[str] = set()
    for path in (ROOT / "nexusform").rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(("nexusform/scheduling/", "nexusform/planning/")):
            continue
        text = path.read_text()
        if "RackScheduler(" in text and _builds_scheduler(text):
            builders.add(name)
    assert builders == set()


def _builds_scheduler(text: str) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "RackScheduler"
        for node in ast.walk(ast.parse(text))
    )
