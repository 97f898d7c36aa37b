"""Warnings and advice in at most three lines each."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import chain
from textwrap import indent
from typing import Final

from nexusform.diagnostics.levels import Level
from nexusform.rendering.notation.colours import Painter, count_columns, escape_control_characters
from nexusform.rendering.report.finding_entries import (
    FindingEntries,
    FindingEntry,
    limit_findings_per_id,
    list_finding_subjects,
    list_shortened_texts,
)
from nexusform.rendering.report.folding import format_instances, format_names
from nexusform.rendering.text.report_text import render_labelled_text, truncate_lines

_ID_COLUMNS: Final = 22
_BELOW_ID_INDENT: Final = 4
_MAX_ENTRY_LINES: Final = 3  # of one entry
_MAX_SUBJECTS: Final = 4
_MAX_LOCATIONS: Final = 2
_MAX_ADVICE: Final = 12
_LEVEL_MARKS: Final = {Level.ADVICE: "i", Level.NOTE: "\N{MIDDLE DOT}"}


def build_entry_hint(entries: FindingEntries, saved_path: str) -> str:
    """Return a hint about the command with more detail. Without a plan file `advise` checks the state."""
    if any(_is_lint_rule(entry.id) for entry in (*entries.caused, *entries.existing)):
        plan_option = f" -plan={shlex.quote(escape_control_characters(saved_path))}" if saved_path else ""
        return f"Suggested fixes: nexusform advise{plan_option}. All arguments: -details."
    return "All warnings and arguments: -details."


def _is_lint_rule(diagnostic_id: str) -> bool:
    from nexusform.advice.registry import RULE_IDS

    return diagnostic_id in RULE_IDS


def render_finding_entries(entries: FindingEntries, width: int, paint: Painter) -> list[str]:
    """Render the findings caused by the plan, warnings first, and pre-existing ones in one line."""
    caused = entries.caused
    warnings = [entry for entry in caused if entry.level is Level.WARNING]
    advice = [entry for entry in caused if entry.level is not Level.WARNING]
    lines: list[str] = []
    lines += _render_warnings(warnings, width, paint)
    for entry in advice[:_MAX_ADVICE]:
        lines += render_finding_entry(entry, width, paint)
    if len(advice) > _MAX_ADVICE:
        hidden_ids = format_names(entry.id for entry in advice[_MAX_ADVICE:])
        lines += render_labelled_text("i", f"{len(advice) - _MAX_ADVICE:,} more: {hidden_ids}", 2, width, gap=1)
    texts = [f"{entry.id} {format_names(entry.subjects)}".rstrip() for entry in entries.existing]
    # List findings without a subject once per id.
    existing = list(dict.fromkeys(texts))
    if existing:
        text = escape_control_characters(f"not caused by this plan: {'; '.join(existing)}")
        lines += truncate_lines(render_labelled_text("", text, 2, width), _MAX_ENTRY_LINES, width)
    return lines


def _render_warnings(warnings: Sequence[FindingEntry], width: int, paint: Painter) -> list[str]:
    """Render warnings; beyond a dozen of one id only the first few, with the subjects of the others."""
    listed_entries, remaining_entries = limit_findings_per_id(warnings)
    lines = list(chain.from_iterable(render_finding_entry(entry, width, paint) for entry in listed_entries))
    for kind, entries in remaining_entries.items():
        subjects = list_finding_subjects(entries)
        text = f"{len(entries):,} more: {kind} {format_instances(subjects, len(subjects))}".rstrip()
        lines += truncate_lines(
            render_labelled_text(paint("!", "bold", "red"), escape_control_characters(text), 2, width, gap=1),
            _MAX_ENTRY_LINES,
            width,
        )
    return lines


def render_finding_entry(entry: FindingEntry, width: int, paint: Painter) -> list[str]:
    """Render an entry as `! no-surge-capacity  cluster-d/pool1: an upgrade would fail ...
    clusters.nf.hcl:73` in at most three lines, then the proposed code. A longer text is cut at the end of a
    sentence or clause. A
    warning lists all of its subjects, on further lines if needed.
    """
    return [
        *_render_entry_text(entry, width, paint),
        *indent(escape_control_characters(entry.write), "    ").splitlines(),
    ]


def _render_entry_text(entry: FindingEntry, width: int, paint: Painter) -> list[str]:
    is_warning = entry.level is Level.WARNING
    mark = paint("!", "bold", "red") if is_warning else paint(_LEVEL_MARKS[entry.level], "cyan")
    label = f"{mark} {paint(escape_control_characters(entry.id), 'bold')}"
    max_subjects = max(len(entry.subjects), _MAX_SUBJECTS) if is_warning else _MAX_SUBJECTS
    subjects = escape_control_characters(format_names(entry.subjects, max_subjects))
    location = escape_control_characters(_format_locations(entry.locations))
    column = _ID_COLUMNS if count_columns(label) + 2 <= _ID_COLUMNS else _BELOW_ID_INDENT
    max_lines = _MAX_ENTRY_LINES + (count_columns(subjects) // (width - column) if is_warning else 0)
    lines: list[str] = []
    for text in list_shortened_texts(escape_control_characters(entry.text)):
        # Render subjects and text next to the id, or below a long id.
        statement = f"{subjects}: {text}" if subjects else text
        if column == _ID_COLUMNS:
            lines = render_labelled_text(label, statement, column, width)
        elif subjects and count_columns(label) + count_columns(subjects) + 3 <= width:
            lines = [f"{label}  {subjects}:", *render_labelled_text("", text, column, width)]
        else:
            lines = [label, *render_labelled_text("", statement, column, width)]
        located_lines = _append_location(lines, location, column, width)
        if len(located_lines) <= max_lines:
            return located_lines
    # Append the location to the last line and truncate that line for it.
    lines = truncate_lines(lines, max_lines, width)
    if not location:
        return lines
    *first_lines, last_line = lines
    last_line = last_line.removesuffix(" ...")
    available_width = width - count_columns(location) - 6
    while count_columns(last_line) > available_width and " " in last_line.strip():
        last_line = last_line.rpartition(" ")[0]
    return [*first_lines, f"{last_line} ...  {location}"]


def _format_locations(locations: Sequence[str]) -> str:
    """Format locations as `a.nf.hcl:7, :47, b.nf.hcl:3`; each file is named once, and "..." marks omitted ones."""
    texts = []
    previous = ""
    for location in locations[:_MAX_LOCATIONS]:
        file, _, line = location.rpartition(":")
        texts.append(f":{line}" if file == previous else location)
        previous = file
    if len(locations) > _MAX_LOCATIONS:
        texts.append("...")
    return ", ".join(texts)


def _append_location(lines: list[str], location: str, column: int, width: int) -> list[str]:
    """Append the location to the last line on the right, or on a line of its own."""
    if not location:
        return lines
    *first_lines, last_line = lines
    gap = width - count_columns(last_line) - count_columns(location)
    if gap >= 2:
        return [*first_lines, f"{last_line}{' ' * min(gap, 4)}{location}"]
    return [*lines, f"{' ' * column}{location}"]
