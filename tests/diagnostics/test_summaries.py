"""Tests of diagnostic ids: their summaries and the page with their explanations.

docs/reference/diagnostics.md is written by hand: a section for each id with a cause and a fix to
explain.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nexusform.advice.registry import RULE_IDS
from nexusform.diagnostics.diagnostic import Problem, Severity, build_error, build_warning
from nexusform.diagnostics.summaries import get_summary
from nexusform.domain_table import find_domains
from tests.docs.documented_domains import of_documented_domains

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "nexusform"
PAGE = ROOT / "docs" / "reference" / "diagnostics.md"
SUMMARIES = PACKAGE / "diagnostics/summaries.py"
# These files list ids that other files report.
ID_LISTS = (
    SUMMARIES,
    PACKAGE / "diagnostics/levels.py",
    PACKAGE / "planning/conclusion/existing_findings.py",
    PACKAGE / "domain_table.py",
)
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if path not in ID_LISTS]


def list_risk_ids() -> tuple[str, ...]:
    """Return the ids of warnings about pods, which a table lists."""
    if "pods" not in find_domains():
        return ()
    from nexusform.domains.pods.scheduling.workload_warnings import RISKS

    return RISKS


_ID = r"[a-z0-9]+(?:-[a-z0-9]+)+|separation"


@dataclass(frozen=True)
class SourceFacts:
    """Facts of one file: its texts that may be ids, and its lines about diagnostics.

    Lines have a new diagnostic or a replaced summary, or compare a text of a diagnostic.
    """

    texts: frozenset[str]
    builds_summary: tuple[int, ...]
    compares_text: tuple[int, ...]


def _get_callee(call: ast.Call) -> str:
    function = call.func
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def list_page_entries() -> list[tuple[str, str]]:
    """Return the id and the text of each entry of docs/reference/diagnostics.md."""
    return re.findall(
        r"^### (\S+)\n\n(.+)\n(?=\n#|\n?\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )


def list_page_ids() -> list[str]:
    """Return the ids explained in docs/reference/diagnostics.md, in order."""
    return re.findall(r"^### (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def _builds_summary(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    keywords = {keyword.arg for keyword in node.keywords}
    callee = _get_callee(node)
    return callee == "Diagnostic" or (callee == "replace" and bool(keywords & {"id", "summary"}))


def _compares_text(node: ast.AST) -> bool:
    sides = (node.left, *node.comparators) if isinstance(node, ast.Compare) else ()
    attributes = ("summary", "headline", "detail")
    return any(isinstance(side, ast.Attribute) and side.attr in attributes for side in sides)


# Only a file with such a text may break a rule. Parsing takes much longer than this search.
_TEXT = r"\.(?:summary|headline|detail)\b"
_OPERATOR = r"\s*(?:[=!<>]=|[<>]|\b(?:not in|in|is)\b)\s*"
_CANDIDATE = re.compile(
    rf"Diagnostic\(|\breplace\([^()]*(?:id|summary)=|{_TEXT}{_OPERATOR}|{_OPERATOR}\(?[\w.]+{_TEXT}"
)


def _collect_facts(path: Path) -> SourceFacts:
    source = path.read_text()
    nodes = list(ast.walk(ast.parse(source))) if _CANDIDATE.search(source) else []
    return SourceFacts(
        texts=frozenset(re.findall(rf'"({_ID})"', source)),
        builds_summary=tuple(node.lineno for node in nodes if _builds_summary(node)),
        compares_text=tuple(node.lineno for node in nodes if _compares_text(node)),
    )


@cache
def collect_facts() -> dict[Path, SourceFacts]:
    """Return the facts of each file.

    Syntax trees are not kept: thousands of them make all tests slower.
    """
    return {path: _collect_facts(path) for path in FILES}


@cache
def list_known_ids() -> frozenset[str]:
    """Return every possible id among the texts of the code."""
    texts = frozenset(text for facts in collect_facts().values() for text in facts.texts)
    return texts | {*RULE_IDS, *list_risk_ids()}


# --- summaries ---------------------------------------------------------------------------------


def test_summary_is_the_id_in_words() -> None:
    assert get_summary("unknown-vm-sku") == "Unknown VM SKU"
    assert get_summary("junit-report-missing") == "JUnit report missing"
    assert get_summary("separation") == "Separation rule does not hold"


def test_listed_summaries_differ_from_the_id_and_ids_are_used() -> None:
    entries = re.findall(
        r'^    "([^"]+)": (.+),$', SUMMARIES.read_text().partition("_SUMMARIES")[2], re.MULTILINE
    )
    assert entries
    assert [kind for kind, _ in entries] == sorted(kind for kind, _ in entries)
    for kind, summary in entries:
        assert kind in list_known_ids()
        assert ast.literal_eval(summary) != kind.replace("-", " ").capitalize()


def test_summary_is_derived_from_the_id_only() -> None:
    """Only `build_diagnostic` and its short forms build a diagnostic; its summary never changes."""
    elsewhere = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, facts in collect_facts().items()
        if path != PACKAGE / "diagnostics/diagnostic.py"
        for line in facts.builds_summary
    ]
    assert elsewhere == []


def test_no_code_compares_texts_of_diagnostics() -> None:
    comparisons = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, facts in collect_facts().items()
        for line in facts.compares_text
    ]
    assert comparisons == []


# --- building --------------------------------------------------------------------------------


def test_summary_is_derived_from_the_id_or_a_headline() -> None:
    plain = build_error("unknown-site", "There is none.")
    assert (plain.id, plain.summary, plain.severity) == (
        "unknown-site",
        "Unknown site",
        Severity.ERROR,
    )
    figures = build_warning("insufficient-capacity", headline="24 x A do not fit")
    assert (figures.id, figures.summary) == ("insufficient-capacity", "24 x A do not fit")


def test_problem_starts_with_its_position() -> None:
    inside = Problem((4, "rackId"), "missing-field", "it is missing.", file="racks.json")
    assert str(inside) == "racks.json, [4].rackId: it is missing."
    assert inside.prepend_path("value").position_text == "value[4].rackId"
    assert str(
        Problem((), "invalid-yaml", "a colon is missing.", file="m.yaml", line=3, column=5)
    ) == ("m.yaml, line 3, column 5: a colon is missing.")
    assert (
        str(Problem((), "file-too-large", "it is too large.", file="m.yaml"))
        == "m.yaml: it is too large."
    )


# --- the page ----------------------------------------------------------------------------------


@of_documented_domains
def test_every_documented_id_exists() -> None:
    assert [kind for kind in list_page_ids() if kind not in list_known_ids()] == []


def test_page_explains_each_id_once_with_cause_and_fix() -> None:
    kinds = list_page_ids()
    assert len(kinds) == len(set(kinds)) >= 100
    entries = list_page_entries()
    assert [kind for kind, _ in entries] == kinds
    assert [text for _, text in entries if not re.fullmatch(r"\S.*\. Fix: \S.*\.", text)] == []


def test_lint_rules_have_a_separate_page() -> None:
    assert set(list_page_ids()).isdisjoint(RULE_IDS)
