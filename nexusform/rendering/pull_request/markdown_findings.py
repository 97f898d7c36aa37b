"""Errors with their ways out, warnings and advice, in a comment: each said once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nexusform.diagnostics import Diagnostic, Severity
from nexusform.rendering.pull_request.markdown_parts import plain
from nexusform.rendering.pull_request.origin import Origin, line_of, place_of
from nexusform.rendering.report.entries import Entry
from nexusform.rendering.text.diagnostic_text import render_diagnostic
from nexusform.source import SourceFile
from nexusform.words import first_of, listed

_PLACES: Final = 3
_SUBJECTS: Final = 4
_ERRORS: Final = 10
# `  1. count = 9 fits`: an item of what an error offers.
_ITEM: Final = re.compile(r" *(\d+\.) (.*)")


def error_lines(diagnostics: Iterable[Diagnostic], origin: Origin) -> list[str]:
    """The errors with what they say and offer, the first ones; the rest by their summaries."""
    errors = [each for each in diagnostics if each.severity is Severity.ERROR]
    lines: list[str] = []
    for error in errors[:_ERRORS]:
        lines += ["", _headed(error, origin), *_detail_lines(error.detail)]
    if len(errors) > _ERRORS:
        lines += ["", *(f"- {_headed(error, origin)}" for error in errors[_ERRORS:])]
    return lines[1:]


def _headed(error: Diagnostic, origin: Origin) -> str:
    place = place_of(error.subject, origin)
    return f"**{plain(error.summary)}**{f' ({place})' if place else ''}"


def _detail_lines(detail: str) -> list[str]:
    """What an error says, what it offers as a list."""
    if not detail:
        return []
    lines = [""]
    in_list = False
    for line in detail.split("\n"):
        item = _ITEM.fullmatch(line)
        if item:
            lines += [] if in_list else [""]
            lines.append(f"{item[1]} {plain(item[2])}")
        else:
            lines += [""] if in_list else []
            lines.append(plain(line.strip()))
        in_list = item is not None
    return lines


def finding_lines(entries: Sequence[Entry], origin: Origin) -> list[str]:
    """Warnings and advice that the plan causes, a line each."""
    return [_finding_line(entry, origin) for entry in entries]


def _finding_line(entry: Entry, origin: Origin) -> str:
    mark = "**Warning**" if entry.fails else "Advice"
    places = [line_of(place, origin) for place in entry.places]
    where = f" ({first_of(places, _PLACES)})" if places else ""
    return f"- {mark} {plain(entry.id)}: {_said(entry)}{where}"


def _said(entry: Entry) -> str:
    whose = f"{plain(listed(entry.subjects, _SUBJECTS))}: " if entry.subjects else ""
    return f"{whose}{plain(entry.text)}"


def standing_line(entries: Sequence[Entry]) -> list[str]:
    """What held before the plan as it does after it, in one line."""
    if not entries:
        return []
    return [f"Not caused by this plan: {'; '.join(_said(entry).rstrip('.') for entry in entries)}."]


def boxes(diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceFile]) -> str:
    """Every diagnostic with its source lines and what to do, as the terminal draws it."""
    texts = [render_diagnostic(diagnostic, sources, width=76).rstrip() for diagnostic in diagnostics]
    return "\n".join(texts)
