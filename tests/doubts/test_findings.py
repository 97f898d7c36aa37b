"""Test that a subject with a finding about a real system is never certain."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from nexusform.diagnostics.diagnostic import build_warning
from nexusform.doubts.doubt import Influence
from nexusform.doubts.findings import FINDINGS, build_finding_doubts, get_influences
from nexusform.doubts.ledger import PlacedPool, build_ledger

PACKAGE = Path(__file__).parents[2] / "nexusform"
TABLE = PACKAGE / "doubts" / "findings.py"
IDS = [name for names in FINDINGS.values() for name in names.split()]
SUBJECT_IDS = [name for name in IDS if Influence.PLACEMENT in get_influences(name)]
# A claim about a real system in the message of a finding.
SYSTEM = r"(?:hub|server|Azure|Nova|Tacker|Heat|KubeFleet|kubelet|kube-scheduler|API|[Pp]latforms?)"
VERB = r"(?:reject\w*|ignor\w*|refus\w*|drops?|has no|have no|lacks?|fails?|never|not check)"
CLAIM = re.compile(rf"\b{SYSTEM}\b.{{0,60}}\b{VERB}\b|\b{VERB}\b.{{0,40}}\b{SYSTEM}\b")
ID_CONSTANT = re.compile(r'^(\w+): Final = "([a-z]+(?:-[a-z]+)+)"$', re.MULTILINE)
WARNINGS = ("WARNING", "warn", "Warning", "doubt")
# Findings with a claim, and why the table has no doubt of them.
OTHERWISE_DOUBTED = {
    "anti-affinity": "no finding",
    "creation-rejected-by-azure": "its addresses are those of another tool",
    "exhausted-site-resources": "VMs have hosts; whether they start is the finding itself",
    "field-not-in-version": "a doubt per pod, by the object's version",
    "hub-rejection": "an error",
    "invalid-number": "an error",
    "invalid-openstack-inventory": "an error",
    "invalid-vnf-document": "an error",
    "invalid-yaml": "an error",
    "nested-template-not-given": "a doubt about the resource, which is not read",
    "not-read-for-placement": "it has no influence",
    "in-doubt": "no finding",
    "finished-pods-in-quota": "a doubt per pod, by its admission",
    "not-checked": "it is about the server's dry run, after the plan",
    "pod-os-not-supported": "a doubt per pod, by its admission",
    "run-with-previous-content": "the rollout has both contents",
    "uncertain-placement": "a doubt per filter of Nova",
}


def test_an_id_has_one_place_in_the_table() -> None:
    assert len(IDS) == len(set(IDS))
    sources = "".join(path.read_text() for path in PACKAGE.rglob("*.py") if path != TABLE)
    assert [name for name in IDS if f'"{name}"' not in sources] == []


@pytest.mark.parametrize("name", SUBJECT_IDS)
def test_pools_and_objects_with_a_finding_about_a_real_system_are_uncertain(name: str) -> None:
    finding = build_warning(name, "The hub rejects it.", address="t.a")
    ledger = build_ledger((), (), build_finding_doubts([finding]))
    for is_decided in (True, False):
        pool = PlacedPool("lab", "t.a", "p", is_decided=is_decided)
        assert ledger.explain_uncertain_hosts(pool) == f"the finding {name} may change it"
        assert ledger.has_certain_hosts(PlacedPool("lab", "t.b", "p", is_decided=is_decided))
    doubt = ledger.find_doubt_of_object("t.a")
    assert doubt is not None
    assert doubt.finding == name
    assert ledger.find_doubt_of_object("t.b") is None


def list_claiming_ids() -> set[str]:
    """Return the ids of warnings that a function builds beside a claim about a real system."""
    ids: set[str] = set()
    texts = [path.read_text() for path in PACKAGE.rglob("*.py")]
    # Public names are imported by other modules.
    public_constants = {
        name: value for text in texts for name, value in ID_CONSTANT.findall(text) if name[0] != "_"
    }
    for text in texts:
        if not CLAIM.search(text):
            continue
        constants = {**public_constants, **dict(ID_CONSTANT.findall(text))}
        for function in ast.walk(ast.parse(text)):
            if isinstance(function, ast.FunctionDef):
                ids |= list_ids_of_function(function, constants)
    return ids


def list_ids_of_function(function: ast.FunctionDef, constants: Mapping[str, str]) -> set[str]:
    """Return the ids in a function that builds a warning with a claim."""
    source = ast.unparse(function)
    claims, names = False, set()
    for node in ast.walk(function):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value for part in node.values if isinstance(part, ast.Constant))
            claims |= bool(CLAIM.search("{}".join(map(str, parts))))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_message = "\n" not in node.value and node.value != ast.get_docstring(function)
            claims |= is_message and bool(CLAIM.search(node.value))
            names.add(node.value)
        elif isinstance(node, ast.Name):
            names.add(constants.get(node.id, ""))
    if not claims or not any(word in source for word in WARNINGS):
        return set()
    return {name for name in names if re.fullmatch(r"[a-z]+(-[a-z]+)+", name)}


def test_every_claim_about_a_real_system_is_a_doubt() -> None:
    ids = list_claiming_ids() - set(IDS)
    assert sorted(ids) == sorted(OTHERWISE_DOUBTED)
