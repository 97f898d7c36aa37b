"""Only planning builds schedulers of VMs: other questions are plans, or have their reason here."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
# Modules besides scheduling and planning, each with its reason.
EXCEPTIONS: Final = {
    "nexusform/domains/whatif/questions/repack_context.py": "repacking searches on copies",
    "nexusform/domains/azure/questions/reconciliation.py": "repeats decisions observed in Azure",
    "nexusform/domains/openstack/scheduling/recorded_case_prediction.py": "predicts recorded cases",
}


def test_only_planning_builds_schedulers() -> None:
    builders: set[str] = set()
    for path in (ROOT / "nexusform").rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(("nexusform/scheduling/", "nexusform/planning/")):
            continue
        text = path.read_text()
        if "RackScheduler(" in text and _builds_scheduler(text):
            builders.add(name)
    assert builders == set(EXCEPTIONS)


def _builds_scheduler(text: str) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "RackScheduler"
        for node in ast.walk(ast.parse(text))
    )
