"""Ids of diagnostics: their summaries, who makes them, and the page that explains some of them.

docs/reference/diagnostics.md is written by hand: a row for each id with a cause and a fix to explain.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
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
# These name ids, and say none.
KINDS = PACKAGE / "diagnostics/summaries.py"
ADVICE = PACKAGE / "diagnostics/levels.py"
HELD_BEFORE = PACKAGE / "planning" / "conclusion" / "held_before.py"
DOMAINS = PACKAGE / "domain_table.py"
NAMING = (KINDS, ADVICE, HELD_BEFORE, DOMAINS)
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if path not in NAMING]

# What makes a diagnostic, and which of its arguments is the id. Notes on a document and the like have
# what they are about before the id.
MAKERS = {
    "Problem": 1,
    "_Refused": 0,
    "_Unique": 0,
    "_error": 0,
    "_refuse": 0,
    "_refused": 0,
    "_tell": 0,
    "_warned": 1,
    "check_name": 1,
    "duplicate_problem": 0,
    "error": 0,
    "problem_at": 2,
    "note": 0,
    "problem": 0,
    "reference_problem": 0,
    "report": 1,
    "warn": 1,
    "warned": 0,
    "warning": 0,
}


def risks() -> tuple[str, ...]:
    """Warnings about pods, which reach their call through a table."""
    if "pods" not in find_domains():
        return ()
    from nexusform.domains.pods.scheduling.risks import RISKS

    return RISKS


_ID = r"[a-z0-9]+(-[a-z0-9]+)+|separation"


@dataclass(frozen=True)
class Told:
    """What one file says of diagnostics: its texts, the ids that its calls make, the lines that make a
    diagnostic or its words without its kind, and those that compare its words.
    """

    texts: frozenset[str]
    made: tuple[str, ...]
    makes_words: tuple[int, ...]
    compares_words: tuple[int, ...]


def _name(call: ast.Call) -> str:
    called = call.func
    return called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")


def _texts(nodes: Sequence[ast.AST]) -> Iterator[str]:
    for each in nodes:
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def _constants(nodes: Sequence[ast.AST]) -> dict[str, str]:
    """The module's names for ids."""
    names = {}
    module = nodes[0]
    assert isinstance(module, ast.Module)
    for node in module.body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(node, ast.Assign):
            target = node.targets[0]
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
            names[target.id] = value.value
    return names


def _made(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Return the id of every call that makes a diagnostic of one written there or named in the module."""
    names = _constants(nodes)
    for node in nodes:
        if not isinstance(node, ast.Call) or _name(node) not in MAKERS:
            continue
        position = MAKERS[_name(node)]
        candidates = node.args[position : position + 2] if isinstance(node.func, ast.Attribute) else []
        for argument in [*node.args[position : position + 1], *candidates]:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield argument.value
                break
            if isinstance(argument, ast.Name) and re.fullmatch(_ID, names.get(argument.id, "")):
                yield names[argument.id]
                break


def rows_of_the_page() -> list[list[str]]:
    """Return the cells of each row of docs/reference/diagnostics.md: anchor and id, cause, fix."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.split(" | ")] for line in lines if line.startswith("| <a id=")]


def on_the_page() -> list[str]:
    """Return the ids that docs/reference/diagnostics.md explains, in its order."""
    return [match[1] for row in rows_of_the_page() if (match := re.search(r'<a id="([^"]+)">', row[0]))]


def _makes_words(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    named = {keyword.arg for keyword in node.keywords}
    return _name(node) == "Diagnostic" or (_name(node) == "replace" and bool(named & {"id", "summary"}))


def _compares_words(node: ast.AST) -> bool:
    sides = (node.left, *node.comparators) if isinstance(node, ast.Compare) else ()
    words = ("summary", "headline", "detail")
    return any(isinstance(side, ast.Attribute) and side.attr in words for side in sides)


def _told(path: Path) -> Told:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    return Told(
        texts=frozenset(_texts(nodes)),
        made=tuple(_made(nodes)),
        makes_words=tuple(node.lineno for node in nodes if _makes_words(node)),
        compares_words=tuple(node.lineno for node in nodes if _compares_words(node)),
    )


@cache
def told() -> dict[Path, Told]:
    """What each file says. No tree is kept: thousands of them would make all tests slower."""
    return {path: _told(path) for path in FILES}


@cache
def made() -> frozenset[str]:
    """Return the ids that some call makes."""
    return frozenset(kind for file in told().values() for kind in file.made if re.fullmatch(_ID, kind))


@cache
def known() -> frozenset[str]:
    """Return every text of the code that may be an id: also those that reach their call through a table."""
    texts = frozenset(text for file in told().values() for text in file.texts if re.fullmatch(_ID, text))
    return texts | made() | {*RULE_IDS, *risks()}


# --- the kinds ---------------------------------------------------------------------------------


def test_what_a_summary_is_its_id_in_words() -> None:
    assert get_summary("unknown-vm-sku") == "Unknown VM SKU"
    assert get_summary("junit-report-missing") == "JUnit report missing"
    assert get_summary("separation") == "Separation rule does not hold"


def test_what_is_said_otherwise_says_something_else_of_an_id_that_is_used() -> None:
    written = re.findall(
        r'^    "([^"]+)": (.+),$', KINDS.read_text().partition("_SAID_OTHERWISE")[2], re.MULTILINE
    )
    assert written
    assert [kind for kind, _ in written] == sorted(kind for kind, _ in written)
    for kind, words in written:
        assert kind in known()
        assert ast.literal_eval(words).lower() != kind.replace("-", " ")


def test_only_the_kind_gives_a_summary() -> None:
    """A diagnostic is made by `diagnostic`, `error` and `warning` alone, and keeps its summary."""
    elsewhere = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, file in told().items()
        if path != PACKAGE / "diagnostics/diagnostic.py"
        for line in file.makes_words
    ]
    assert elsewhere == []


def test_no_code_recognises_a_diagnostic_by_its_words() -> None:
    compared = [
        f"{path.relative_to(ROOT)}:{line}" for path, file in told().items() for line in file.compares_words
    ]
    assert compared == []


# --- making one --------------------------------------------------------------------------------


def test_the_id_gives_the_summary_and_a_headline_stands_in_for_it() -> None:
    plain = build_error("unknown-site", "There is none.")
    assert (plain.id, plain.summary, plain.severity) == ("unknown-site", "Unknown site", Severity.ERROR)
    figures = build_warning("insufficient-capacity", headline="24 x A do not fit")
    assert (figures.id, figures.summary) == ("insufficient-capacity", "24 x A do not fit")


def test_a_problem_says_where_it_is() -> None:
    inside = Problem((4, "rackId"), "missing-field", "it is missing.", file="racks.json")
    assert str(inside) == "racks.json, [4].rackId: it is missing."
    assert inside.prepend_path("value").position_text == "value[4].rackId"
    assert str(Problem((), "invalid-yaml", "a colon is missing.", file="m.yaml", line=3, column=5)) == (
        "m.yaml, line 3, column 5: a colon is missing."
    )
    assert str(Problem((), "file-too-large", "it is too large.", file="m.yaml")) == "m.yaml: it is too large."


# --- the page ----------------------------------------------------------------------------------


@of_documented_domains
def test_every_id_on_the_page_exists() -> None:
    assert [kind for kind in on_the_page() if kind not in known()] == []


def test_the_page_explains_an_id_once_with_a_cause_and_a_fix() -> None:
    kinds = on_the_page()
    assert len(kinds) == len(set(kinds)) >= 100
    for anchor, cause, fix in rows_of_the_page():
        assert re.fullmatch(r'\| <a id="([^"]+)"></a>`\1`', anchor)
        assert cause.endswith(".")
        assert fix.endswith(". |")


def test_lint_rules_have_a_page_of_their_own() -> None:
    assert set(on_the_page()).isdisjoint(RULE_IDS)
