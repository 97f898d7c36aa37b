"""Warnings and advice of a plan as entries of a line or two: which is which, what held before the plan."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Final, TypeVar

from msgspec import Struct

from nexusform.address import moved_block
from nexusform.diagnostics import Diagnostic
from nexusform.plans.impact.guard_rails import GUARD_RAIL
from nexusform.plans.plan import Plan
from nexusform.source import Span
from nexusform.weights import Level, level_of, level_of_warning

HELD_BEFORE: Final = "Not caused by this plan: it held before."


class Finding(Struct, frozen=True):
    """A diagnostic and how much it weighs."""

    diagnostic: Diagnostic
    level: Level

    @property
    def id(self) -> str:
        """What it is called."""
        return self.diagnostic.id

    @property
    def held_before(self) -> bool:
        """Whether the plan did not cause it."""
        return self.diagnostic.held_before


def plan_findings(plan: Plan) -> tuple[Finding, ...]:
    """The diagnostics of a plan by weight, those that it causes before those that held before; guard rails
    after whatever else is wrong.
    """
    findings = [Finding(diagnostic, level_of(diagnostic)) for diagnostic in plan.diagnostics]
    return tuple(sorted(findings, key=_weight))


def _weight(finding: Finding) -> tuple[int, bool, bool]:
    return finding.level.order, finding.held_before, finding.diagnostic.id == GUARD_RAIL


class Entry(Struct, frozen=True):
    """Diagnostics that say the same: of whom (`subjects`, "" where it is said of nobody), what, and where.

    `places` are `file:line`; `write` is configuration that it proposes, "" where it proposes none.
    """

    level: Level
    id: str
    subjects: tuple[str, ...]
    text: str
    places: tuple[str, ...]
    write: str = ""


class Entries(Struct, frozen=True):
    """Entries by weight. `standing` held before this plan as it does after it."""

    caused: tuple[Entry, ...] = ()
    standing: tuple[Entry, ...] = ()


def plan_entries(plan: Plan) -> Entries:
    """The warnings of a plan; its errors have boxes of their own."""
    findings = [finding for finding in plan_findings(plan) if finding.level is not Level.ERROR]
    caused = [finding.diagnostic for finding in findings if not finding.held_before]
    standing = [finding.diagnostic for finding in findings if finding.held_before]
    return Entries(_entries(caused), _entries(standing))


MOST_ALIKE: Final = 12  # so many of one id are told one by one
_FEW_ALIKE: Final = 3  # and where there are more, so many of them

T = TypeVar("T", Entry, Finding)


def few_of_each(found: Iterable[T]) -> tuple[list[T], dict[str, list[T]]]:
    """What is told one by one, and the others by their id: of more than a dozen of one id only the first few
    are told.
    """
    told: list[T] = []
    others: dict[str, list[T]] = {}
    found = list(found)
    in_all = Counter(each.id for each in found)
    so_far: Counter[str] = Counter()
    for each in found:
        so_far[each.id] += 1
        is_one_of_many = in_all[each.id] > MOST_ALIKE and so_far[each.id] > _FEW_ALIKE
        if is_one_of_many:
            others.setdefault(each.id, []).append(each)
        else:
            told.append(each)
    return told, others


def subjects_of(entries: Iterable[Entry]) -> list[str]:
    """Of whom entries speak, each once."""
    return list(dict.fromkeys(chain.from_iterable(entry.subjects for entry in entries)))


def _entries(warnings: Iterable[Diagnostic]) -> tuple[Entry, ...]:
    """One entry for those that say the same of different objects."""
    # (id, text, what is proposed) -> (subject, place) of each
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for warning in warnings:
        subject, text = _said(warning)
        group = warning.id, text, _proposed(warning)
        groups.setdefault(group, []).append((subject, place_of(warning.subject)))
    entries: list[Entry] = []
    for (kind, text, write), uses in groups.items():
        subjects = tuple(dict.fromkeys(subject for subject, _ in uses if subject))
        places = tuple(dict.fromkeys(place for _, place in uses if place))
        entries.append(Entry(level_of_warning(kind), kind, subjects, text, places, write))
    return tuple(sorted(entries, key=lambda entry: entry.level.order))


def _proposed(warning: Diagnostic) -> str:
    moved = warning.extra.get("moved")
    return moved_block(moved["from"], moved["to"]) if moved else ""


def _said(warning: Diagnostic) -> tuple[str, str]:
    """Who or what a warning is about, and what it says in a line: its `brief` ("web/p: an upgrade would
    fail"), or the first paragraph of its detail.
    """
    if warning.brief:
        subject, colon, text = warning.brief.partition(": ")
        return (subject, text) if colon else (warning.address, warning.brief)
    first = _LIST_BEGINS.split(warning.detail)[0].replace("\n", " ").strip()
    return warning.address, first.removeprefix(f"{warning.address} ") or warning.summary


# What a list or a further paragraph adds stands in the box.
_LIST_BEGINS: Final = re.compile(r"\n\n|\n\s*- ")
_SENTENCE_ENDS: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"`-]|\w+:\d+: )")
_CLAUSE_ENDS: Final = re.compile(r"[;:]\s+|,\s+(?=so )|\s+\((?=[^()]*\)\.?$)")
_FEWEST_WORDS: Final = 4  # of a clause that says something; `On cluster a:` does not


def whole_thoughts(text: str) -> list[str]:
    """The text, then ever less of it, each time to the end of a thought: a sentence, at last a clause."""
    shorter = [text[: end.start()] for end in _SENTENCE_ENDS.finditer(text)]
    first = shorter[0] if shorter else text
    clauses = [first[: end.start()] for end in _CLAUSE_ENDS.finditer(first)]
    whole = [clause for clause in clauses if len(clause.split()) >= _FEWEST_WORDS]
    return [text, *reversed(shorter), *reversed(whole)]


def place_of(span: Span | None) -> str:
    """`main.nf.hcl:12`."""
    return f"{span.filename}:{span.start.line}" if span is not None else ""
