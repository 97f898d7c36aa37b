"""Warnings and advice of a plan as short entries, separated into new and pre-existing ones."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from textwrap import indent
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Severity, Span, build_warning
from nexusform.diagnostics.levels import Level, get_diagnostic_level, get_warning_level
from nexusform.diagnostics.phrases import enclose, format_first_items, group_by
from nexusform.plans.impact.consequence_views import list_reported_consequences
from nexusform.plans.impact.guard_rails import GUARD_RAIL, get_limit_text
from nexusform.plans.plan import Plan
from nexusform.rendering.report.folding import format_instances
from nexusform.resources.address import render_moved_block

DESTRUCTIVE_RENAME: Final = "destructive-rename"
PREEXISTING_NOTE: Final = "Not caused by this plan."
# Lists and further paragraphs appear in the box only.
_LIST_START: Final = re.compile(r"\n\n|\n\s*- ")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"`-]|\w+:\d+: )")
_CLAUSE_END: Final = re.compile(r"[;:]\s+|,\s+(?=so )|\s+\((?=[^()]*\)\.?$)")
_QUOTED_NAME: Final = re.compile(r'"[^"]+"')
# Of a meaningful clause, unlike `On cluster a:`.
_MIN_CLAUSE_WORDS: Final = 4


class Finding(Struct, frozen=True):
    """A diagnostic with its level."""

    diagnostic: Diagnostic
    level: Level

    @property
    def id(self) -> str:
        """The id of the diagnostic."""
        return self.diagnostic.id

    @property
    def limit(self) -> str:
        """The limit that the plan exceeds, such as `moved:0`; "" for another finding."""
        return get_limit_text(self.diagnostic) if self.id == GUARD_RAIL else ""

    @property
    def is_preexisting(self) -> bool:
        """Whether the finding existed before the plan."""
        return self.diagnostic.is_preexisting


def collect_findings(plan: Plan) -> tuple[Finding, ...]:
    """Return the diagnostics of a plan by level.

    New ones come before pre-existing ones, and guard rails come last.
    """
    findings = [
        Finding(diagnostic, get_diagnostic_level(diagnostic)) for diagnostic in plan.diagnostics
    ]
    return tuple(sorted(findings, key=_get_sort_key))


def collect_findings_and_risks(plan: Plan) -> tuple[Finding, ...]:
    """Return the findings of a plan, then what it destroys and replaces, and the risks it causes.

    They are for reports without sentences. A destroyed object and a lasting risk are warnings, a
    replaced object and a temporary risk are notes.
    """
    consequences = [
        Finding(
            build_warning(consequence.risk, f"{consequence.text}.", address=consequence.address),
            Level.WARNING if consequence.is_lasting else Level.NOTE,
        )
        for consequence in list_reported_consequences(plan.impact)
    ]
    return (*collect_findings(plan), *consequences)


# Fewer equal errors are clearer in full.
_MIN_EQUAL_ERRORS: Final = 4
_MAX_LOCATIONS: Final = 3
_WORD: Final = re.compile(r"[^\W_]+")
_DIGITS: Final = re.compile(r"\d+")


def merge_equal_errors(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Merge many errors that differ in the names of their objects only into the first one.

    Its detail names the other objects and their first locations.
    """
    groups = group_by(enumerate(diagnostics), lambda entry: _build_error_key(*entry))
    merged: list[tuple[int, Diagnostic]] = []
    for group in groups.values():
        if len(group) < _MIN_EQUAL_ERRORS:
            merged += group
            continue
        (position, first), *others = group
        count = len(others)
        names = format_instances((error.address for _, error in others), count)
        locations = dict.fromkeys(format_location(error.subject) for _, error in others)
        places = enclose(
            " (", format_first_items(tuple(filter(None, locations)), _MAX_LOCATIONS), ")"
        )
        note = f"The same error for {count:,} more: {names}{places}."
        merged.append((position, replace(first, detail=f"{first.detail}\n\n{note}".lstrip("\n"))))
    return [diagnostic for _, diagnostic in sorted(merged, key=itemgetter(0))]


def _build_error_key(position: int, diagnostic: Diagnostic) -> object:
    """Return a key of equal errors: their texts without the names in their addresses.

    `edge12` in a text counts as such a name if the address has `edge` with any number.
    """
    if diagnostic.severity is not Severity.ERROR or not diagnostic.address:
        return position
    stems = {_DIGITS.sub("", word) for word in _WORD.findall(diagnostic.address)} - {""}

    def hide_name(match: re.Match[str]) -> str:
        return "\0" if _DIGITS.sub("", match[0]) in stems else match[0]

    texts = (diagnostic.summary, diagnostic.detail)
    return (diagnostic.id, *(_WORD.sub(hide_name, text) for text in texts))


def _get_sort_key(finding: Finding) -> tuple[int, bool, bool, bool]:
    """Return the sort key: level, new ones first, destructive renames first, guard rails last."""
    # False precedes True.
    diagnostic = finding.diagnostic
    return (
        finding.level.order,
        finding.is_preexisting,
        diagnostic.id != DESTRUCTIVE_RENAME,
        diagnostic.id == GUARD_RAIL,
    )


def list_destructive_renames(plan: Plan) -> list[Diagnostic]:
    """List the renames with VMs to destroy.

    Reports show them before everything else.
    """
    return [diagnostic for diagnostic in plan.diagnostics if diagnostic.id == DESTRUCTIVE_RENAME]


def merge_renames(renames: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return the boxes of renames: many share one with all `moved` blocks."""
    if len(renames) <= _MAX_RENAMES:
        return list(renames)
    blocks = "\n".join(
        render_moved_block(item.extra["moved"]["from"], item.extra["moved"]["to"])
        for item in renames
    )
    detail = (
        f"{len(renames):,} objects have another address, so they are deleted and created again. If "
        f"they were only renamed, these blocks keep them:\n\n{indent(blocks, '  ')}"
    )
    return [replace(renames[0], detail=detail, address="")]


def merge_equal_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Merge many equal errors among findings, for a list of all of them."""
    level_by_id = {id(finding.diagnostic): finding.level for finding in findings}
    merged = merge_equal_errors(finding.diagnostic for finding in findings)
    return tuple(
        Finding(diagnostic, level_by_id.get(id(diagnostic), Level.ERROR)) for diagnostic in merged
    )


# Renames with a box each.
_MAX_RENAMES: Final = 3


class FindingEntry(Struct, frozen=True):
    """Diagnostics with the same text.

    `subjects` are the objects concerned, `locations` are `file:line`, `proposed_code` is suggested
    configuration or "".
    """

    level: Level
    id: str
    subjects: tuple[str, ...]
    text: str
    locations: tuple[str, ...]
    proposed_code: str = ""


class FindingEntries(Struct, frozen=True):
    """Entries by level: `caused` by the plan, and `existing` before and after it."""

    caused: tuple[FindingEntry, ...] = ()
    existing: tuple[FindingEntry, ...] = ()


def build_finding_entries(plan: Plan) -> FindingEntries:
    """Build the entries of the warnings of a plan; errors are shown in boxes instead."""
    warnings = [
        finding.diagnostic for finding in collect_findings(plan) if finding.level is not Level.ERROR
    ]
    by_cause = group_by(warnings, lambda warning: warning.is_preexisting)
    return FindingEntries(
        _group_warnings(by_cause.get(False, [])), _group_warnings(by_cause.get(True, []))
    )


# Up to this number per id are listed individually.
MAX_SAME_ID: Final = 12
# Number of findings shown per id beyond that.
_SHOWN_PER_ID: Final = 3

T = TypeVar("T", FindingEntry, Finding)


def limit_findings_per_id(findings: Iterable[T]) -> tuple[list[T], dict[str, list[T]]]:
    """Split the findings into listed ones, and further ones by id.

    Up to MAX_SAME_ID findings of one id are all listed. Of more, only the first _SHOWN_PER_ID are.
    """
    listed: list[T] = []
    remaining: dict[str, list[T]] = {}
    all_findings = list(findings)
    total_counts = Counter(finding.id for finding in all_findings)
    # Findings so far, by id.
    counts: Counter[str] = Counter()
    for finding in all_findings:
        counts[finding.id] += 1
        is_hidden = total_counts[finding.id] > MAX_SAME_ID and counts[finding.id] > _SHOWN_PER_ID
        if is_hidden:
            remaining.setdefault(finding.id, []).append(finding)
        else:
            listed.append(finding)
    return listed, remaining


def list_finding_subjects(entries: Iterable[FindingEntry]) -> list[str]:
    """List the distinct subjects of entries."""
    return list(dict.fromkeys(chain.from_iterable(entry.subjects for entry in entries)))


def _group_warnings(warnings: Iterable[Diagnostic]) -> tuple[FindingEntry, ...]:
    """Build an entry per id, text and proposed code, with all subjects and locations.

    The most severe entries come first.
    """
    # (subject, location) of each warning.
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for warning in warnings:
        subject, text = _split_warning_subject(warning)
        # Addresses of a proposed `moved` block.
        moved = warning.extra.get("moved")
        proposed_code = render_moved_block(moved["from"], moved["to"]) if moved else ""
        group = groups.setdefault((warning.id, text, proposed_code), [])
        group.append((subject, format_location(warning.subject)))
    entries: list[FindingEntry] = []
    for (diagnostic_id, text, proposed_code), warning_sources in groups.items():
        entry = FindingEntry(
            level=get_warning_level(diagnostic_id),
            id=diagnostic_id,
            subjects=tuple(dict.fromkeys(subject for subject, _ in warning_sources if subject)),
            text=text,
            locations=tuple(dict.fromkeys(location for _, location in warning_sources if location)),
            proposed_code=proposed_code,
        )
        entries.append(entry)
    return tuple(sorted(entries, key=lambda entry: entry.level.order))


def _split_warning_subject(warning: Diagnostic) -> tuple[str, str]:
    """Return the subject and the one-line text of a warning, from `brief` or its first paragraph.

    The subject is "" if there is none.
    """
    # `SUBJECT: TEXT`, or a text about the address.
    if warning.brief:
        subject, colon, text = warning.brief.partition(": ")
        return (subject, text) if colon else (warning.address, warning.brief)
    # A colon announces the list that the one line has no room for.
    paragraph = _LIST_START.split(warning.detail)[0].replace("\n", " ").strip().removesuffix(":")
    return warning.address, paragraph.removeprefix(f"{warning.address} ") or warning.summary


def list_shortened_texts(entry: FindingEntry) -> list[str]:
    """Return the text of an entry and ever shorter versions of it.

    Cut at the end of a sentence, and finally of a clause, but never before the name of its object.
    """
    text = entry.text
    sentences = [text[: end.start()] for end in _SENTENCE_END.finditer(text)]
    first = sentences[0] if sentences else text
    clauses = [first[: end.start()] for end in _CLAUSE_END.finditer(first)]
    long_clauses = [clause for clause in clauses if len(clause.split()) >= _MIN_CLAUSE_WORDS]
    versions = [text, *reversed(sentences), *reversed(long_clauses)]
    name_length = len(get_naming_part(entry))
    return [version for version in versions if len(version) >= name_length]


def get_naming_part(entry: FindingEntry) -> str:
    """Return the beginning of an entry's text up to the first name in it.

    "" if the entry has subjects, which are the names of its objects, or no name in quotes.
    """
    name = None if entry.subjects else _QUOTED_NAME.search(entry.text)
    return entry.text[: name.end()] if name is not None else ""


def format_location(span: Span | None) -> str:
    """Format a position as `main.nf.hcl:12`; "" without one."""
    return f"{span.filename}:{span.start.line}" if span is not None else ""
