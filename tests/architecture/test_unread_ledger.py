"""Test that only the ledger of unread facts decides certainty from missing data."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "nexusform"
LEDGER = "placements/unread_ledger.py"
# What an unread fact may change, and the findings about missing data.
DECIDING_NAMES = {"may_change", "hides_capacity", "UNKNOWN_CAPACITY_IDS"}
# These define the names, or list them for other packages.
DEFINITIONS = {
    "documents/unread_facts.py",
    "diagnostics/levels.py",
    "domain_table.py",
    # Leaves out the order of one kind of server, which changes nothing.
    "domains/vnf/importers/vnf_reading.py",
    # Selects warnings by the ledger's function.
    "workflow/states/state_commands.py",
}


def _list_names(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return attributes | {node.id for node in nodes if isinstance(node, ast.Name)}


def test_only_the_ledger_decides_certainty_from_missing_data() -> None:
    users = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if _list_names(path) & DECIDING_NAMES
    }
    assert users - DEFINITIONS == {LEDGER}
