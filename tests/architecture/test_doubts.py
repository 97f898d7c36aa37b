"""Test that only the ledger of doubts decides what is certain."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "nexusform"
LEDGER = "doubts/ledger.py"
# A comparison with what an unread fact may change.
COMPARISON = "is Influence"
# What an unread fact may change, and the findings about missing data.
DECIDING_NAMES = {"may_change", "hides_capacity", "hides_bindings"}
# These define the names, or list them for other packages.
DEFINITIONS = {
    "doubts/doubt.py",
    "doubts/findings.py",
    "documents/field_lists.py",
    "domain_declaration.py",
    # Leaves out the order of one kind of server, which changes nothing.
    "domains/vnf/importers/vnf_reading.py",
    # Select warnings by the ledger's function.
    "workflow/lint_advice.py",
    "workflow/states/state_commands.py",
    "domains/fleet/types/fleet_hub_export.py",
    "domains/whatif/workflow/simulation_input.py",
    "domains/whatif/workflow/state_warnings.py",
}


def _list_names(path: Path) -> set[str]:
    """Return the attributes and names of a module; "is Influence" for a comparison with one."""
    text = path.read_text()
    # Few modules have such a name, and parsing all takes seconds.
    if not any(name in text for name in (*DECIDING_NAMES, "Influence")):
        return set()
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Compare):
            parts = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
            if any(isinstance(part, ast.Name) and part.id == "Influence" for part in parts):
                names.add(COMPARISON)
    return names


def test_only_the_ledger_decides_certainty_from_missing_data() -> None:
    users = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if _list_names(path) & {*DECIDING_NAMES, COMPARISON}
    }
    assert users - DEFINITIONS == {LEDGER}
