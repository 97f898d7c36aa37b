"""The short plan: what changes, where things go, what to mind, and the verdict last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from nexusform.advice.registry import RULE_IDS
from nexusform.diagnostic_kinds import SUMMARIES
from nexusform.diagnostics import Severity
from nexusform.planning.plan import Mode, Plan
from nexusform.rendering.notation.colours import Painter, columns, harmless, wrap
from nexusform.rendering.report import wording
from nexusform.rendering.report.entries import Entry
from nexusform.rendering.report.folding import names_text
from nexusform.rendering.report.short_report import ShortReport, short_report
from nexusform.rendering.text.columns import cut, hanging
from nexusform.rendering.text.diagnostic_text import render_diagnostics
from nexusform.rendering.text.placement_counts import placement_count_lines
from nexusform.rendering.text.plan_options import PlanTextOptions
from nexusform.rendering.text.short_objects import object_lines, short_output_lines
from nexusform.rendering.text.short_placements import placement_parts
from nexusform.source import SourceFile

FAILED: Final = "Planning failed. nexusform encountered an error while generating this plan."
_ID_COLUMNS: Final = 22
_MOST_LINES: Final = 3  # of one entry
_MOST_PLACES: Final = 2
_MOST_ADVICE: Final = 12


def render_short(plan: Plan, sources: Mapping[str, SourceFile], options: PlanTextOptions) -> str:
    """The whole text, with a newline at the end. `sources` are the files by name."""
    report = short_report(plan, options.registries, options.placements)
    paint = Painter(options.colour)
    parts = [] if report.errored else _change_parts(report, options.width, paint)
    if report.errored:
        # What was planned up to an error may be a mere consequence of it, and would bury it.
        parts.append(FAILED)
    parts += _diagnostic_parts(plan, report, sources, options, paint)
    if not report.errored:
        parts += _closing_parts(report, options, paint)
    return "\n\n".join(part for part in parts if part) + "\n"


# --- what changes ------------------------------------------------------------------------------


def _change_parts(report: ShortReport, width: int, paint: Painter) -> list[str]:
    parts = []
    if report.objects:
        lines = object_lines(report.objects, width, paint)
        parts += ["nexusform will perform the following actions:", "\n".join(lines)]
    elif not report.plan_line:
        parts += _unchanged(report, width, paint)
    if report.outputs:
        lines = short_output_lines(report.outputs, width, paint)
        parts.append("\n".join([paint("Changes to Outputs:", "bold"), *lines]))
        if not report.objects:
            parts.append("\n".join(wrap(wording.ONLY_OUTPUTS, width)))
    return [*parts, *_drift(report, width, paint), *placement_parts(report, width, paint)]


def _unchanged(report: ShortReport, width: int, paint: Painter) -> list[str]:
    sentence, detail = wording.NO_CHANGES[report.mode]
    head, _, rest = sentence.partition(". ")
    title = f"{paint(f'{head}.', 'bold', 'green')} {paint(rest, 'bold')}"
    return [title, "\n".join(wrap(detail, width))]


def _drift(report: ShortReport, width: int, paint: Painter) -> list[str]:
    if not report.drift:
        return []
    lines = [paint(wording.DRIFT_NOTE, "bold", "cyan"), *object_lines(report.drift, width, paint)]
    if report.mode is Mode.REFRESH_ONLY:
        lines += ["", *wrap(wording.ONLY_REFRESH, width)]
    return ["\n".join(lines)]


# --- what to mind ------------------------------------------------------------------------------


def _diagnostic_parts(
    plan: Plan,
    report: ShortReport,
    sources: Mapping[str, SourceFile],
    options: PlanTextOptions,
    paint: Painter,
) -> list[str]:
    """Boxes of errors, then an entry per warning, then what held before."""
    parts = []
    errors = [each for each in plan.diagnostics if each.severity is Severity.ERROR]
    if errors and options.errors:
        parts.append(render_diagnostics(errors, sources, options.colour, options.width).rstrip("\n"))
    if not options.diagnostics:
        return parts
    if options.compact_warnings and not errors:
        boxes = render_diagnostics(plan.diagnostics, sources, compact_warnings=True)
        return [*parts, boxes.rstrip("\n")]
    lines = _entry_lines(report, options.width, paint)
    if lines and options.hints:
        lines += hanging("", _hint(report), 2, options.width)
    return [*parts, "\n".join(lines)]


def _hint(report: ShortReport) -> str:
    if any(entry.id in RULE_IDS for entry in (*report.entries.caused, *report.entries.standing)):
        return "nexusform advise says what to do; -details shows every argument."
    return "-details shows every warning and every argument in full."


def _entry_lines(report: ShortReport, width: int, paint: Painter) -> list[str]:
    caused = report.entries.caused
    failing = [entry for entry in caused if entry.fails]
    advice = [entry for entry in caused if not entry.fails]
    lines: list[str] = []
    for entry in [*failing, *advice[:_MOST_ADVICE]]:
        lines += entry_lines(entry, width, paint)
    if len(advice) > _MOST_ADVICE:
        hidden = names_text(entry.id for entry in advice[_MOST_ADVICE:])
        lines += hanging("i", f"{len(advice) - _MOST_ADVICE} more: {hidden}", 2, width)
    standing = [f"{entry.id} {names_text(entry.subjects)}".rstrip() for entry in report.entries.standing]
    if standing:
        text = harmless(f"not caused by this plan: {'; '.join(standing)}")
        lines += cut(hanging("", text, 2, width), _MOST_LINES, width)
    return lines


def entry_lines(entry: Entry, width: int, paint: Painter) -> list[str]:
    """`! no-surge-room  cluster-d/pool1: an upgrade would fail ...  clusters.nf.hcl:73`, at most three lines.

    What fails names all of whom it speaks, on further lines where three do not do.
    """
    mark = paint("!", "bold", "red") if entry.fails else paint("i", "cyan")
    most = len(entry.subjects) if entry.fails else 4
    subjects = names_text(entry.subjects, max(most, 4))
    text = harmless(f"{subjects}: {entry.text}" if subjects else entry.text)
    place = harmless(_places(entry.places))
    label = f"{mark} {paint(harmless(_title(entry)), 'bold')}"
    if columns(label) + 2 > _ID_COLUMNS:
        lines = [label, *hanging("", text, 4, width)]
        room = _MOST_LINES + columns(subjects) // width if entry.fails else _MOST_LINES
        return _with_place(cut(lines, room, width), place, 4, width)
    room = _MOST_LINES + columns(subjects) // (width - _ID_COLUMNS) if entry.fails else _MOST_LINES
    return _with_place(cut(hanging(label, text, _ID_COLUMNS, width), room, width), place, _ID_COLUMNS, width)


def _title(entry: Entry) -> str:
    """A lint rule by its id, which is what silences it; anything else in words."""
    return entry.id if entry.id in RULE_IDS else SUMMARIES.get(entry.id, entry.id)


def _places(places: Sequence[str]) -> str:
    """`a.nf.hcl:7, :47, b.nf.hcl:3`: a file is named once; beyond a few, "..."."""
    texts = []
    previous = ""
    for place in places[:_MOST_PLACES]:
        file, _, line = place.rpartition(":")
        texts.append(f":{line}" if file == previous else place)
        previous = file
    if len(places) > _MOST_PLACES:
        texts.append("...")
    return ", ".join(texts)


def _with_place(lines: list[str], place: str, indent: int, width: int) -> list[str]:
    """The last line ends with the place, to the right; a line of its own where there is no room."""
    if not place:
        return lines
    *most, last = lines
    gap = width - columns(last) - columns(place)
    if gap >= 2:
        return [*most, f"{last}{' ' * min(gap, 4)}{place}"]
    if len(lines) < _MOST_LINES:
        return [*lines, f"{' ' * indent}{place}"]
    room = width - columns(place) - 6
    shortened = last
    while columns(shortened) > room and " " in shortened.strip():
        shortened = shortened.rpartition(" ")[0]
    return [*most, f"{shortened} ...  {place}"]


# --- the end -----------------------------------------------------------------------------------


def _closing_parts(report: ShortReport, options: PlanTextOptions, paint: Painter) -> list[str]:
    parts = [next_step(report, options)]
    lines: list[str] = []
    if report.plan_line:
        longest = max((columns(heading) for heading, _ in report.verdict), default=0)
        for heading, sentence in report.verdict:
            label = paint(f"{harmless(heading)}:", "bold")
            lines += hanging(label, harmless(sentence), longest + 2, options.width, gap=1)
    if report.summaries[0].anything:
        lines += placement_count_lines(report.summaries, paint)
    if report.plan_line:
        word, _, rest = report.plan_line.partition(" ")
        lines.append(f"{paint(word, 'bold')} {rest}")
    return [*parts, "\n".join(lines)]


def next_step(report: ShortReport, options: PlanTextOptions) -> str:
    """Where the plan is, and how to apply it; "" in automation where nothing was saved."""
    if options.saved_to:
        name = harmless(options.saved_to)
        hint = f'   (nexusform apply "{name}")' if options.hints else ""
        return f"Saved the plan to: {name}{hint}"
    if not options.hints or not report.plan_line:
        return ""
    return "\n".join(
        wrap("Not saved: with -out=FILE, apply does exactly this and nothing else.", options.width)
    )
