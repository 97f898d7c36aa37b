"""The short plan: what changes (a line for each object, those that are alike in one), where things go,
what to mind, and the verdict last; and the options by which a plan is drawn as text.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from textwrap import indent
from typing import Final

from msgspec import Struct, field

from nexusform.advice.registry import RULE_IDS
from nexusform.diagnostics import Severity
from nexusform.plans.plan import Mode, Plan
from nexusform.ports import Registries
from nexusform.rendering.notation.colours import Painter, columns, harmless, indented, pad, wrap
from nexusform.rendering.notation.hcl_text import attribute_name
from nexusform.rendering.report import wording
from nexusform.rendering.report.difference_tree import Difference, NodeKind
from nexusform.rendering.report.entries import Entry, few_of_each, subjects_of, whole_thoughts
from nexusform.rendering.report.folding import instances_text, names_text
from nexusform.rendering.report.object_rows import ObjectFold
from nexusform.rendering.report.placement_rows import Detail
from nexusform.rendering.report.short_report import ShortReport, short_report
from nexusform.rendering.report.site_rows import SiteRow, changed_rows, other_sites
from nexusform.rendering.text.diagnostic_text import render_diagnostics
from nexusform.rendering.text.placement_text import placement_count_lines
from nexusform.rendering.text.short_placements import cut, hanging, placement_parts, rollout_text
from nexusform.rendering.text.stanza_text import head_symbol, output_lines
from nexusform.source import SourceFile
from nexusform.weights import Level
from nexusform.words import counted, form

FAILED: Final = "Planning failed. nexusform encountered an error while generating this plan."
_ID_COLUMNS: Final = 22
_BELOW_ID: Final = 4
_MOST_LINES: Final = 3  # of one entry
_FEW_SUBJECTS: Final = 4
_MOST_PLACES: Final = 2
_MOST_ADVICE: Final = 12
_MARKS: Final = {Level.ADVICE: "i", Level.NOTE: "\N{MIDDLE DOT}"}


def render_short(plan: Plan, sources: Mapping[str, SourceFile], options: PlanTextOptions) -> str:
    """The whole text, with a newline at the end. `sources` are the files by name."""
    before, after = short_halves(plan, options)
    boxes = ""
    if options.errors:
        errors = [each for each in plan.diagnostics if each.severity is Severity.ERROR]
        boxes = render_diagnostics(errors, sources, options.colour, options.width).rstrip("\n")
    return _joined([before, boxes, after]) + "\n"


def short_halves(plan: Plan, options: PlanTextOptions) -> tuple[str, str]:
    """What stands before the boxes of errors, and what after them, without newlines at their ends."""
    report = short_report(plan, options.registries, options.placements)
    paint = Painter(options.colour)
    # What was planned up to an error may be a mere consequence of it, and would bury it.
    before = [FAILED] if report.errored else _change_parts(report, options.width, paint)
    after = _diagnostic_parts(report, options, paint)
    if not report.errored:
        after += _closing_parts(report, options, paint)
    return _joined(before), _joined(after)


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part)


# --- what changes ------------------------------------------------------------------------------


def _change_parts(report: ShortReport, width: int, paint: Painter) -> list[str]:
    """What changes: objects, outputs, drift, placements, rollouts."""
    parts = ["\n".join(_site_lines(report.sites, width, paint))] if report.sites else []
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
    places = placement_parts(report, width, paint)
    return [*parts, *_drift(report, width, paint), *places, rollout_text(report.rollouts, width, paint)]


def _site_lines(rows: Sequence[SiteRow], width: int, paint: Painter) -> list[str]:
    """`par1  83 VMs (-12)  12 removed`, a line per site that changes, and the others in one."""
    changed = changed_rows(rows)
    names = max(columns(row.name) for row in changed)
    figures = max(len(row.delta) for row in changed)
    lines = [paint("Sites:", "bold")]
    for row in changed:
        label = f"  {pad(row.name, names)}  VMs {row.delta.ljust(figures)}"
        lines += hanging(label, row.words, columns(label) + 2, width)
    for sentence in other_sites(rows):
        lines += indented(f"  {sentence}", 4, width)
    return lines


def _unchanged(report: ShortReport, width: int, paint: Painter) -> list[str]:
    """That nothing changes, and what was compared."""
    sentence, detail = report.unchanged
    head, _, second_sentence = sentence.partition(". ")
    title = f"{paint(f'{head}.', 'bold', 'green')} {paint(second_sentence, 'bold')}"
    return [title, "\n".join(wrap(detail, width))]


def _drift(report: ShortReport, width: int, paint: Painter) -> list[str]:
    """What changed outside, an object to a line."""
    if not report.drift:
        return []
    lines = [paint(wording.DRIFT_NOTE, "bold", "cyan"), *object_lines(report.drift, width, paint)]
    if report.mode is Mode.REFRESH_ONLY:
        lines += ["", *wrap(wording.ONLY_REFRESH, width)]
    return ["\n".join(lines)]


# --- what to mind ------------------------------------------------------------------------------


def _diagnostic_parts(report: ShortReport, options: PlanTextOptions, paint: Painter) -> list[str]:
    """An entry per warning, then what held before."""
    if not options.diagnostics:
        return []
    lines = _entry_lines(report, options.width, paint)
    if lines and options.hints:
        lines += hanging("", _hint(report, options.saved_to), 2, options.width)
    return ["\n".join(lines)]


def _hint(report: ShortReport, saved_to: str) -> str:
    """Which command says more; advise speaks of the state where it is not told of a plan."""
    if any(entry.id in RULE_IDS for entry in (*report.entries.caused, *report.entries.standing)):
        of_plan = f" -plan={shlex.quote(harmless(saved_to))}" if saved_to else ""
        return f"nexusform advise{of_plan} says what to do; -details shows every argument."
    return "-details shows every warning and every argument in full."


def _entry_lines(report: ShortReport, width: int, paint: Painter) -> list[str]:
    """The findings that the plan causes, failing ones first, and in one line those that it does not."""
    caused = report.entries.caused
    failing = [entry for entry in caused if entry.level is Level.WARNING]
    advice = [entry for entry in caused if entry.level is not Level.WARNING]
    lines: list[str] = []
    lines += _failing_lines(failing, width, paint)
    for entry in advice[:_MOST_ADVICE]:
        lines += entry_lines(entry, width, paint)
    if len(advice) > _MOST_ADVICE:
        hidden = names_text(entry.id for entry in advice[_MOST_ADVICE:])
        lines += hanging("i", f"{len(advice) - _MOST_ADVICE:,} more: {hidden}", 2, width, gap=1)
    said = [f"{entry.id} {names_text(entry.subjects)}".rstrip() for entry in report.entries.standing]
    # Once for all that are about nobody.
    standing = list(dict.fromkeys(said))
    if standing:
        text = harmless(f"not caused by this plan: {'; '.join(standing)}")
        lines += cut(hanging("", text, 2, width), _MOST_LINES, width)
    return lines


def _failing_lines(failing: Sequence[Entry], width: int, paint: Painter) -> list[str]:
    """What fails. Of more than a dozen that are called the same the first few, and of whom the others are."""
    told, others = few_of_each(failing)
    lines = list(chain.from_iterable(entry_lines(entry, width, paint) for entry in told))
    for kind, entries in others.items():
        subjects = subjects_of(entries)
        text = f"{len(entries):,} more: {kind} {instances_text(subjects, len(subjects))}".rstrip()
        lines += cut(hanging(paint("!", "bold", "red"), harmless(text), 2, width, gap=1), _MOST_LINES, width)
    return lines


def entry_lines(entry: Entry, width: int, paint: Painter) -> list[str]:
    """`! no-surge-room  cluster-d/pool1: an upgrade would fail ...  clusters.nf.hcl:73`, at most three lines,
    then what it proposes to write.

    Of a longer text as many whole thoughts as fit. What fails names all of whom it speaks, on further lines
    where three do not do.
    """
    return [*_told_lines(entry, width, paint), *indent(harmless(entry.write), "    ").splitlines()]


def _told_lines(entry: Entry, width: int, paint: Painter) -> list[str]:
    fails = entry.level is Level.WARNING
    mark = paint("!", "bold", "red") if fails else paint(_MARKS[entry.level], "cyan")
    label = f"{mark} {paint(harmless(entry.id), 'bold')}"
    most_subjects = max(len(entry.subjects), _FEW_SUBJECTS) if fails else _FEW_SUBJECTS
    subjects = harmless(names_text(entry.subjects, most_subjects))
    place = harmless(_places(entry.places))
    column = _ID_COLUMNS if columns(label) + 2 <= _ID_COLUMNS else _BELOW_ID
    most = _MOST_LINES + (columns(subjects) // (width - column) if fails else 0)
    lines: list[str] = []
    for text in whole_thoughts(harmless(entry.text)):
        lines = _said(label, subjects, text, column, width)
        placed = _with_place(lines, place, column, width)
        if len(placed) <= most:
            return placed
    return _with_place_cut_in(cut(lines, most, width), place, width)


def _said(label: str, subjects: str, text: str, column: int, width: int) -> list[str]:
    """What is said of whom beside its id; below an id that is too long for that, of whom beside it still."""
    whole = f"{subjects}: {text}" if subjects else text
    if column == _ID_COLUMNS:
        return hanging(label, whole, column, width)
    if subjects and columns(label) + columns(subjects) + 3 <= width:
        return [f"{label}  {subjects}:", *hanging("", text, column, width)]
    return [label, *hanging("", whole, column, width)]


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


def _with_place(lines: list[str], place: str, column: int, width: int) -> list[str]:
    """The last line ends with the place, to the right; a line of its own where there is no room."""
    if not place:
        return lines
    *most, last = lines
    gap = width - columns(last) - columns(place)
    if gap >= 2:
        return [*most, f"{last}{' ' * min(gap, 4)}{place}"]
    return [*lines, f"{' ' * column}{place}"]


def _with_place_cut_in(lines: list[str], place: str, width: int) -> list[str]:
    """The last line with the place at its end, whatever it loses for it."""
    if not place:
        return lines
    *most, last = lines
    last = last.removesuffix(" ...")
    room = width - columns(place) - 6
    while columns(last) > room and " " in last.strip():
        last = last.rpartition(" ")[0]
    return [*most, f"{last} ...  {place}"]


# --- the end -----------------------------------------------------------------------------------


def _closing_parts(report: ShortReport, options: PlanTextOptions, paint: Painter) -> list[str]:
    """What to do next, the verdict line by line, and the counts."""
    lines: list[str] = []
    if report.plan_line:
        longest = max((columns(heading) for heading, _ in report.verdict), default=0)
        for heading, sentence in report.verdict:
            label = paint(f"{harmless(heading)}:", "bold")
            lines += hanging(label, harmless(sentence), longest + 2, options.width, gap=1)
    if report.summaries[0].anything:
        lines += placement_count_lines(report.summaries, paint, options.width)
    if report.plan_line:
        word, _, counts = report.plan_line.partition(" ")
        lines.append(f"{paint(word, 'bold')} {counts}")
    return [next_step(report, options), "\n".join(lines)]


def next_step(report: ShortReport, options: PlanTextOptions) -> str:
    """Where the plan is, and how to apply it; "" in automation where nothing was saved."""
    if options.saved_to:
        name = harmless(options.saved_to)
        if report.denied:
            return f"Saved the plan to: {name}   (apply refuses it)"
        hint = f'   (nexusform {options.apply} "{name}")' if options.hints else ""
        return f"Saved the plan to: {name}{hint}"
    if not options.hints or not options.next_step or not report.plan_line or report.denied:
        return ""
    return "\n".join(
        wrap("Not saved: with -out=FILE, apply does exactly this and nothing else.", options.width)
    )


# of one object
_MOST_FOLDS: Final = 80
_SYMBOL: Final = 6  # columns that a symbol and the gaps around a label take
_FEWEST_BESIDE: Final = 30  # for words beside a label; of one that leaves less they stand below
_MOST_OUTPUTS: Final = 20
_MOST_OUTPUT_LINES: Final = 3
_URGENT: Final = ("-", "-/+", "+/-", ".")


def object_lines(folds: Sequence[ObjectFold], width: int, paint: Painter) -> list[str]:
    """A line per fold; where there are very many, what is destroyed stands first and the rest is counted."""
    shown = list(folds)
    if len(shown) > _MOST_FOLDS:
        shown.sort(key=lambda fold: fold.symbol not in _URGENT)
        shown = shown[:_MOST_FOLDS]
    labels = [columns(harmless(fold.label)) for fold in shown]
    beside = [label for label in labels if label <= width - _SYMBOL - _FEWEST_BESIDE]
    column = max(beside, default=0) + _SYMBOL
    lines: list[str] = []
    for fold in shown:
        lines += _fold(fold, column, width, paint)
    hidden = sum(len(fold.rows) for fold in folds) - sum(len(fold.rows) for fold in shown)
    if hidden:
        lines.append(f"    and {counted(hidden, 'more object')}; -details shows each.")
    return lines


def _fold(fold: ObjectFold, column: int, width: int, paint: Painter) -> list[str]:
    """`  + nexus_rack.rack["1".."8"]      rack1..8, 16 machines each, bom-1.7.3`."""
    label = f"{head_symbol(fold.symbol, paint)}{harmless(fold.label)}"
    words = ", ".join(word for word in fold.words if word)
    if fold.name:
        words = f"{fold.name}: {words}" if words else fold.name
    return cut(hanging(label, harmless(words), column, width), _MOST_LINES + 1, width)


def short_output_lines(outputs: Sequence[Difference], width: int, paint: Painter) -> list[str]:
    """Changes of outputs, long values as a count of what they hold."""
    shown = outputs[:_MOST_OUTPUTS]
    longest = max((columns(attribute_name(output.name)) for output in shown), default=0)
    lines: list[str] = []
    for output in shown:
        drawn = "\n".join(output_lines([output], paint)).split("\n")
        front = f"{head_symbol(output.symbol, paint)}{pad(attribute_name(output.name), longest)} ="
        if len(drawn) > _MOST_OUTPUT_LINES or max(map(columns, drawn)) > width:
            lines.append(f"{front} {_held(output)}")
        elif len(drawn) == 1:
            lines.append(f"{front}{drawn[0].partition(' =')[2]}")
        else:
            lines += drawn
    if len(outputs) > len(shown):
        lines.append(f"    and {counted(len(outputs) - len(shown), 'more output')}; -details shows each.")
    return lines


def _held(output: Difference) -> str:
    """What a value holds afterwards, in place of it: `{5 keys}`, `[12 elements, 2 of them change]`,
    `{3 keys, 1 of them new, 2 are gone}`; of one that goes, what it held.
    """
    symbols = Counter(child.symbol for child in output.children)
    total = symbols.total() + output.hidden
    part = ""
    if output.symbol == "~":
        gone, new, changed = symbols["-"], symbols["+"], symbols.total() - symbols[""]
        total -= gone
        changed -= gone + new
        part += f", {new} of them new" if new else ""
        part += f", {changed} of them {form(changed, 'changes', 'change')}" if 0 < changed < total else ""
        part += f", {gone} {form(gone, 'is', 'are')} gone" if gone else ""
    match output.kind:
        case NodeKind.MAP | NodeKind.OBJECT:
            return f"{{{counted(total, 'key')}{part}}}"
        case NodeKind.LIST | NodeKind.SET:
            return f"[{counted(total, 'element')}{part}]"
        case NodeKind.TEXT:
            return f"({counted(total, 'line')}{part})"
        case _:
            return "(a long value)"


class PlanTextOptions(Struct, frozen=True):
    """How a plan is drawn.

    `width` in terminal columns. `placements` is the flag of that name. `details` draws every argument in
    OpenTofu's layout, `terraform` under Terraform's own header. `hints` false leaves out what to type next
    (NF_IN_AUTOMATION), `next_step` false how to apply what is shown. `saved_to` names the plan file that was
    written, "" = none. `take_ownership`: the plan was made with that flag, so its apply needs it, too.
    `diagnostics` false leaves the plan's warnings out, `errors` false the boxes of its
    errors. `registries` gives the schemas.
    """

    colour: bool = False
    width: int = 80
    placements: Detail = Detail.CHANGED
    details: bool = False
    terraform: bool = False
    hints: bool = True
    next_step: bool = True
    saved_to: str = ""
    take_ownership: bool = False
    diagnostics: bool = True
    errors: bool = True
    registries: Registries = field(default_factory=Registries)

    @property
    def apply(self) -> str:
        """The command that carries the plan out, without the file."""
        return "apply -take-ownership" if self.take_ownership else "apply"
