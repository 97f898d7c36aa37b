"""docs/reference/diagnostics.md against the code: every id that is made is there, every id there is used.

An id that a call makes is added by NEXUSFORM_REWRITE_GOLDEN=1; one that reaches its call through a table is
added to the page by hand, as a row that begins like the others.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from nexusform.advice.registry import RULE_IDS
from nexusform.diagnostic_kinds import summary_of
from nexusform.diagnostics import Problem, Severity, error, warning
from nexusform.domain_table import domains

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "nexusform"
PAGE = ROOT / "docs" / "reference" / "diagnostics.md"
# These name ids, and say none.
KINDS = PACKAGE / "diagnostic_kinds.py"
ADVICE = PACKAGE / "weights.py"
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
    if "pods" not in domains():
        return ()
    from nexusform.domains.pods.scheduling.risks import RISKS

    return RISKS


_ID = r"[a-z0-9]+(-[a-z0-9]+)+|separation"


@dataclass
class Use:
    """Where an id stands in the code, and what severity is written beside it."""

    rooms: set[str] = field(default_factory=set)
    severities: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Told:
    """What one file says of diagnostics: its texts, the ids that its calls make, with the severity written
    there, the lines that make a diagnostic or its words without its kind, and those that compare its words.
    """

    texts: frozenset[str]
    made: tuple[tuple[str, str], ...]
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


def _made(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ast.Call]]:
    """Every call that makes a diagnostic of an id written there or named in the module."""
    names = _constants(nodes)
    for node in nodes:
        if not isinstance(node, ast.Call) or _name(node) not in MAKERS:
            continue
        position = MAKERS[_name(node)]
        candidates = node.args[position : position + 2] if isinstance(node.func, ast.Attribute) else []
        for argument in [*node.args[position : position + 1], *candidates]:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield argument.value, node
                break
            if isinstance(argument, ast.Name) and re.fullmatch(_ID, names.get(argument.id, "")):
                yield names[argument.id], node
                break


def _severity(call: ast.Call) -> str:
    written = [ast.unparse(argument) for argument in [*call.args, *(k.value for k in call.keywords)]]
    for severity in Severity:
        if f"Severity.{severity.name}" in written:
            return severity.value
    if "severity" in written:
        return ""
    return "warning" if "warn" in _name(call) else "error"


@cache
def on_the_page() -> tuple[str, ...]:
    """The ids that docs/reference/diagnostics.md lists."""
    return tuple(re.findall(r'^\| <a id="([^"]+)">', PAGE.read_text(), re.MULTILINE))


def domains_on_the_page() -> set[str]:
    """The domains that it says ids are from."""
    rooms = re.findall(r"^\| <a .* \| ([a-z_, ]+) \|$", PAGE.read_text(), re.MULTILINE)
    named = {room for each in rooms for room in each.split(", ")}
    return {room for room in named if not (PACKAGE / room).exists() and not (PACKAGE / f"{room}.py").exists()}


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
        made=tuple((kind, _severity(call)) for kind, call in _made(nodes)),
        makes_words=tuple(node.lineno for node in nodes if _makes_words(node)),
        compares_words=tuple(node.lineno for node in nodes if _compares_words(node)),
    )


@cache
def told() -> dict[Path, Told]:
    """What each file says. No tree is kept: thousands of them would make all tests slower."""
    return {path: _told(path) for path in FILES}


@cache
def made() -> frozenset[str]:
    """The ids that some call makes."""
    return frozenset(kind for file in told().values() for kind, _ in file.made if re.fullmatch(_ID, kind))


@cache
def uses() -> dict[str, Use]:
    """Every id with where it is used."""
    table: dict[str, Use] = {kind: Use() for kind in sorted({*on_the_page(), *made(), *risks()})}
    for path, file in told().items():
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        room = parts[1] if parts[0] == "domains" else parts[0]
        for text in file.texts & table.keys():
            table[text].rooms.add(room)
        for kind, severity in file.made:
            if kind in table and severity:
                table[kind].severities.add(severity)
    for kind in (*RULE_IDS, *risks()):
        table[kind].severities.add("warning")
    return table


# --- the kinds ---------------------------------------------------------------------------------


def test_what_a_summary_is_its_id_in_words() -> None:
    assert summary_of("unknown-vm-sku") == "Unknown VM SKU"
    assert summary_of("junit-report-missing") == "JUnit report missing"
    assert summary_of("separation") == "Separation rule does not hold"


def test_what_is_said_otherwise_says_something_else_of_an_id_that_is_used() -> None:
    written = re.findall(
        r'^    "([^"]+)": (.+),$', KINDS.read_text().partition("_SAID_OTHERWISE")[2], re.MULTILINE
    )
    assert written
    assert [kind for kind, _ in written] == sorted(kind for kind, _ in written)
    for kind, words in written:
        assert kind in uses()
        assert ast.literal_eval(words).lower() != kind.replace("-", " ")


def test_only_the_kind_gives_a_summary() -> None:
    """A diagnostic is made by `diagnostic`, `error` and `warning` alone, and keeps its summary."""
    elsewhere = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, file in told().items()
        if path != PACKAGE / "diagnostics.py"
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
    plain = error("unknown-site", "There is none.")
    assert (plain.id, plain.summary, plain.severity) == ("unknown-site", "Unknown site", Severity.ERROR)
    figures = warning("does-not-fit", headline="24 x A do not fit")
    assert (figures.id, figures.summary) == ("does-not-fit", "24 x A do not fit")


def test_a_problem_says_where_it_is() -> None:
    inside = Problem((4, "rackId"), "missing-field", "it is missing.", file="racks.json")
    assert str(inside) == "racks.json, [4].rackId: it is missing."
    assert inside.below("value").where == "value[4].rackId"
    assert str(Problem((), "invalid-yaml", "a colon is missing.", file="m.yaml", line=3, column=5)) == (
        "m.yaml, line 3, column 5: a colon is missing."
    )
    assert str(Problem((), "file-too-large", "it is too large.", file="m.yaml")) == "m.yaml: it is too large."


# --- the page ----------------------------------------------------------------------------------

_HEAD = (
    "<!-- Written by tests/test_diagnostic_kinds.py; do not edit. "
    "NEXUSFORM_REWRITE_GOLDEN=1 python -m pytest tests/test_diagnostic_kinds.py -->"
)


def page() -> str:
    """docs/reference/diagnostics.md."""
    lines = [
        _HEAD,
        "",
        "# Diagnostics",
        "",
        "Every error and warning has an id: `id` in JSON, `ruleId` in SARIF. An id keeps its meaning; the",
        "words may be bettered. Where a summary names things or figures, the one here says it in general.",
        "Where no severity stands, what it is said of decides. `#ID` behind the page's address leads to it.",
        "",
        "| id | summary | severity | from |",
        "|---|---|---|---|",
    ]
    for kind, use in uses().items():
        if not use.rooms:
            continue
        summary = summary_of(kind).removeprefix(f"{kind}: ").replace("|", "\\|")
        severity = ", ".join(sorted(use.severities))
        lines.append(
            f'| <a id="{kind}"></a>`{kind}` | {summary} | {severity} | {", ".join(sorted(use.rooms))} |'
        )
    return "\n".join(lines) + "\n"


@pytest.mark.of_domains(*sorted(domains_on_the_page()))
def test_the_page_lists_what_there_is() -> None:
    if os.environ.get("NEXUSFORM_REWRITE_GOLDEN"):
        PAGE.write_text(page())
    assert PAGE.read_text() == page()
