"""Short plan as text: changes (one line per object or fold), placements, findings and verdict; and its
options.
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
from nexusform.diagnostics.diagnostic import Severity
from nexusform.diagnostics.levels import Level
from nexusform.diagnostics.phrases import format_count, select_form
from nexusform.diagnostics.source import SourceFile
from nexusform.interfaces.plugins import Registries
from nexusform.plans.plan import Mode, Plan
from nexusform.rendering.notation.colours import (
    PLAIN,
    Painter,
    count_columns,
    escape_control_characters,
    fill_to_width,
    wrap_line,
    wrap_lines,
)
from nexusform.rendering.notation.hcl_text import format_attribute_name
from nexusform.rendering.report import wording
from nexusform.rendering.report.decision_lines import DecisionLine
from nexusform.rendering.report.difference_tree import Difference, NodeKind
from nexusform.rendering.report.entries import (
    Entry,
    limit_per_id,
    list_destructive_renames,
    list_shortened_texts,
    list_subjects,
)
from nexusform.rendering.report.folding import format_instances, format_names
from nexusform.rendering.report.object_rows import ObjectFold
from nexusform.rendering.report.placement_rows import Detail
from nexusform.rendering.report.short_report import ShortReport, build_short_report
from nexusform.rendering.report.site_rows import SiteRow, describe_other_sites, select_changed_rows
from nexusform.rendering.text.diagnostic_text import render_diagnostics
from nexusform.rendering.text.placement_text import render_placement_counts
from nexusform.rendering.text.short_placements import (
    render_labelled_text,
    render_placement_parts,
    render_rollouts,
    truncate_lines,
)
from nexusform.rendering.text.stanza_text import render_outputs, render_symbol

FAILED: Final = "Planning failed. nexusform encountered an error while generating this plan."
_ID_COLUMNS: Final = 22
_BELOW_ID_INDENT: Final = 4
_MAX_ENTRY_LINES: Final = 3  # of one entry
_MAX_SUBJECTS: Final = 4
_MAX_LOCATIONS: Final = 2
_MAX_ADVICE: Final = 12
_LEVEL_MARKS: Final = {Level.ADVICE: "i", Level.NOTE: "\N{MIDDLE DOT}"}


def render_short_plan(plan: Plan, sources: Mapping[str, SourceFile], options: PlanTextOptions) -> str:
    """Render the whole text with a newline at the end. `sources` maps filenames to files."""
    before, after = render_halves(plan, sources, options)
    boxes = ""
    if options.errors:
        errors = [diagnostic for diagnostic in plan.diagnostics if diagnostic.severity is Severity.ERROR]
        boxes = render_diagnostics(errors, sources, options.colour, options.width).rstrip("\n")
    return _join_parts([before, boxes, after]) + "\n"


def render_halves(plan: Plan, sources: Mapping[str, SourceFile], options: PlanTextOptions) -> tuple[str, str]:
    """Render the parts before and after the boxes of errors, without final newlines."""
    report = build_short_report(plan, options.registries, options.placements)
    paint = Painter(options.colour)
    # Changes planned before an error may result from it and would hide it.
    before = [FAILED] if report.is_errored else _render_changes(report, options.width, paint)
    renames = list_destructive_renames(plan)
    if renames and not report.is_errored:
        before = [render_diagnostics(renames, sources, options.colour, options.width).rstrip("\n"), *before]
    after = _render_diagnostic_parts(report, options, paint)
    after += _render_closing(report, options, paint)
    return _join_parts(before), _join_parts(after)


def _join_parts(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part)


# --- what changes ------------------------------------------------------------------------------


def _render_changes(report: ShortReport, width: int, paint: Painter) -> list[str]:
    """Render objects, outputs, drift, placements and rollouts."""
    parts = ["\n".join(report.provider_titles)] if report.provider_titles else []
    parts += ["\n".join(_render_sites(report.sites, width, paint))] if report.sites else []
    if report.objects:
        lines = render_objects(report.objects, width, paint)
        parts += ["nexusform will perform the following actions:", "\n".join(lines)]
    elif not report.plan_line:
        parts += _render_no_changes(report, width, paint)
    if report.outputs:
        lines = render_short_outputs(report.outputs, width, paint)
        parts.append("\n".join([paint("Changes to Outputs:", "bold"), *lines]))
        if not report.objects:
            parts.append("\n".join(wrap_lines(wording.ONLY_OUTPUTS, width)))
    parts += ["\n".join(wrap_lines(escape_control_characters(line), width)) for line in report.conditions]
    placements = render_placement_parts(report, width, paint)
    return [*parts, *_render_drift(report, width, paint), *placements, render_rollouts(report.rollouts, width, paint)]


def _render_sites(rows: Sequence[SiteRow], width: int, paint: Painter) -> list[str]:
    """Render `par1  83 VMs (-12)  12 removed` per changed site, and the other sites in one line."""
    rows_with_changes = select_changed_rows(rows)
    name_width = max(count_columns(row.name) for row in rows_with_changes)
    figure_width = max(len(row.delta) for row in rows_with_changes)
    lines = [paint("Sites:", "bold")]
    for row in rows_with_changes:
        label = f"  {fill_to_width(row.name, name_width)}  VMs {row.delta.ljust(figure_width)}"
        lines += render_labelled_text(label, row.summary, count_columns(label) + 2, width)
    for sentence in describe_other_sites(rows):
        lines += wrap_line(f"  {sentence}", 4, width)
    return lines


def _render_no_changes(report: ShortReport, width: int, paint: Painter) -> list[str]:
    """Render the sentence for no changes and a description of the comparison."""
    sentence, detail = report.comparison
    head, _, second_sentence = sentence.partition(". ")
    title = f"{paint(f'{head}.', 'bold', 'green')} {paint(second_sentence, 'bold')}"
    return [title, "\n".join(wrap_lines(detail, width))]


def _render_drift(report: ShortReport, width: int, paint: Painter) -> list[str]:
    """Render changes made outside of nexusform, one object per line."""
    if not report.drift:
        return []
    lines = [paint(wording.DRIFT_NOTE, "bold", "cyan"), *render_objects(report.drift, width, paint)]
    if report.mode is Mode.REFRESH_ONLY:
        lines += ["", *wrap_lines(wording.ONLY_REFRESH, width)]
    return ["\n".join(lines)]


# --- what to mind ------------------------------------------------------------------------------


def _render_diagnostic_parts(report: ShortReport, options: PlanTextOptions, paint: Painter) -> list[str]:
    """Render an entry per warning, then pre-existing findings."""
    if not options.diagnostics:
        return []
    lines = _render_entries(report, options.width, paint)
    if lines and options.hints:
        lines += render_labelled_text("", _build_hint(report, options.saved_path), 2, options.width)
    return ["\n".join(lines)]


def _build_hint(report: ShortReport, saved_path: str) -> str:
    """Return a hint about the command with more detail. Without a plan file `advise` checks the state."""
    if any(entry.id in RULE_IDS for entry in (*report.entries.caused, *report.entries.existing)):
        plan_option = f" -plan={shlex.quote(escape_control_characters(saved_path))}" if saved_path else ""
        return f"Suggested fixes: nexusform advise{plan_option}. All arguments: -details."
    return "All warnings and arguments: -details."


def _render_entries(report: ShortReport, width: int, paint: Painter) -> list[str]:
    """Render the findings caused by the plan, warnings first, and pre-existing ones in one line."""
    caused = report.entries.caused
    warnings = [entry for entry in caused if entry.level is Level.WARNING]
    advice = [entry for entry in caused if entry.level is not Level.WARNING]
    lines: list[str] = []
    lines += _render_warnings(warnings, width, paint)
    for entry in advice[:_MAX_ADVICE]:
        lines += render_entry(entry, width, paint)
    if len(advice) > _MAX_ADVICE:
        hidden_ids = format_names(entry.id for entry in advice[_MAX_ADVICE:])
        lines += render_labelled_text("i", f"{len(advice) - _MAX_ADVICE:,} more: {hidden_ids}", 2, width, gap=1)
    texts = [f"{entry.id} {format_names(entry.subjects)}".rstrip() for entry in report.entries.existing]
    # List findings without a subject once per id.
    existing = list(dict.fromkeys(texts))
    if existing:
        text = escape_control_characters(f"not caused by this plan: {'; '.join(existing)}")
        lines += truncate_lines(render_labelled_text("", text, 2, width), _MAX_ENTRY_LINES, width)
    return lines


def _render_warnings(warnings: Sequence[Entry], width: int, paint: Painter) -> list[str]:
    """Render warnings; beyond a dozen of one id only the first few, with the subjects of the others."""
    listed_entries, remaining_entries = limit_per_id(warnings)
    lines = list(chain.from_iterable(render_entry(entry, width, paint) for entry in listed_entries))
    for kind, entries in remaining_entries.items():
        subjects = list_subjects(entries)
        text = f"{len(entries):,} more: {kind} {format_instances(subjects, len(subjects))}".rstrip()
        lines += truncate_lines(
            render_labelled_text(paint("!", "bold", "red"), escape_control_characters(text), 2, width, gap=1),
            _MAX_ENTRY_LINES,
            width,
        )
    return lines


def render_entry(entry: Entry, width: int, paint: Painter) -> list[str]:
    """Render an entry as `! no-surge-capacity  cluster-d/pool1: an upgrade would fail ...
    clusters.nf.hcl:73` in at most three lines, then the proposed code. A longer text is cut at the end of a
    sentence or clause. A
    warning lists all of its subjects, on further lines if needed.
    """
    return [
        *_render_entry_text(entry, width, paint),
        *indent(escape_control_characters(entry.write), "    ").splitlines(),
    ]


def _render_entry_text(entry: Entry, width: int, paint: Painter) -> list[str]:
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
        lines = _render_statement(label, subjects, text, column, width)
        located_lines = _append_location(lines, location, column, width)
        if len(located_lines) <= max_lines:
            return located_lines
    return _append_location_truncated(truncate_lines(lines, max_lines, width), location, width)


def _render_statement(label: str, subjects: str, text: str, column: int, width: int) -> list[str]:
    """Render subjects and text next to the id, or below a long id."""
    statement = f"{subjects}: {text}" if subjects else text
    if column == _ID_COLUMNS:
        return render_labelled_text(label, statement, column, width)
    if subjects and count_columns(label) + count_columns(subjects) + 3 <= width:
        return [f"{label}  {subjects}:", *render_labelled_text("", text, column, width)]
    return [label, *render_labelled_text("", statement, column, width)]


def _format_locations(locations: Sequence[str]) -> str:
    """Format locations as `a.nf.hcl:7, :47, b.nf.hcl:3`; each file is named once, and "..." marks omitted
    ones.
    """
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


def _append_location_truncated(lines: list[str], location: str, width: int) -> list[str]:
    """Append the location to the last line and truncate that line for it."""
    if not location:
        return lines
    *first_lines, last_line = lines
    last_line = last_line.removesuffix(" ...")
    available_width = width - count_columns(location) - 6
    while count_columns(last_line) > available_width and " " in last_line.strip():
        last_line = last_line.rpartition(" ")[0]
    return [*first_lines, f"{last_line} ...  {location}"]


# --- the end -----------------------------------------------------------------------------------


def _render_closing(report: ShortReport, options: PlanTextOptions, paint: Painter) -> list[str]:
    """Render the notes, the next step, the decision block, and the counts."""
    if report.is_errored:
        return ["\n".join(render_decision(report.decision, options.width, paint))]
    lines = render_decision(report.decision, options.width, paint)
    if report.summaries[0].has_objects:
        lines += render_placement_counts(report.summaries, paint, options.width)
    if report.plan_line:
        title, _, counts = report.plan_line.partition(" ")
        lines.append(f"{paint(title, 'bold')} {counts}")
    notes = _render_notes(report.notes, options.width, paint) if report.plan_line else []
    return ["\n".join(notes), build_next_step(report, options), "\n".join(lines)]


def _render_notes(notes: Sequence[tuple[str, str]], width: int, paint: Painter) -> list[str]:
    """Render a line per note, with the headings in a column."""
    heading_width = max((count_columns(heading) for heading, _ in notes), default=0)
    lines: list[str] = []
    for heading, sentence in notes:
        label = paint(f"{escape_control_characters(heading)}:", "bold")
        lines += render_labelled_text(label, escape_control_characters(sentence), heading_width + 2, width, gap=1)
    return lines


_DECISION_COLUMN: Final = 13  # column of the texts of the decision block


def render_decision(decision: Sequence[DecisionLine], width: int, paint: Painter = PLAIN) -> list[str]:
    """Render the decision block; further texts of a line are below the first."""
    lines: list[str] = []
    for line in decision:
        label = f"{line.label} " if line.texts[0].startswith("(") else f"{line.label}: "
        for text in map(escape_control_characters, line.texts):
            column = max(_DECISION_COLUMN, count_columns(label))
            lines += render_labelled_text(paint(label.rstrip(), "bold"), text, column, width, gap=1)
            label = ""
    return lines


def build_next_step(report: ShortReport, options: PlanTextOptions) -> str:
    """Return the path of the plan and the command to apply it; "" in automation without a saved plan."""
    if options.saved_path:
        name = escape_control_characters(options.saved_path)
        if report.is_rejected:
            return f"Saved the plan to: {name}   (cannot be applied)"
        hint = f'   (nexusform {options.apply_command} "{name}")' if options.hints else ""
        return f"Saved the plan to: {name}{hint}"
    if not options.hints or not options.next_step or not report.plan_line or report.is_rejected:
        return ""
    return "\n".join(wrap_lines("Not saved. Use -out=FILE to apply exactly this plan.", options.width))


# Limits of the object rows.
_MAX_FOLDS: Final = 80
_SYMBOL_WIDTH: Final = 6  # columns of a symbol and the gaps around a label
_MIN_TEXT_WIDTH: Final = 30  # columns for text next to a label; with fewer it is put below
_MAX_OUTPUTS: Final = 20
_MAX_OUTPUT_LINES: Final = 3
_URGENT_SYMBOLS: Final = ("-", "-/+", "+/-", ".")


def render_objects(folds: Sequence[ObjectFold], width: int, paint: Painter) -> list[str]:
    """Render a line per fold. With very many, destroyed objects come first and the remaining ones are
    counted.
    """
    visible_folds = list(folds)
    if len(visible_folds) > _MAX_FOLDS:
        visible_folds.sort(key=lambda fold: fold.symbol not in _URGENT_SYMBOLS)
        visible_folds = visible_folds[:_MAX_FOLDS]
    label_widths = [count_columns(escape_control_characters(fold.label)) for fold in visible_folds]
    fitting_widths = [
        label_width for label_width in label_widths if label_width <= width - _SYMBOL_WIDTH - _MIN_TEXT_WIDTH
    ]
    column = max(fitting_widths, default=0) + _SYMBOL_WIDTH
    lines: list[str] = []
    for fold in visible_folds:
        lines += _render_fold(fold, column, width, paint)
    hidden_count = sum(len(fold.rows) for fold in folds) - sum(len(fold.rows) for fold in visible_folds)
    if hidden_count:
        lines.append(f"    and {format_count(hidden_count, 'more object')}; -details shows each.")
    return lines


def _render_fold(fold: ObjectFold, column: int, width: int, paint: Painter) -> list[str]:
    """Render a fold as `  + nexus_rack.rack["1".."8"]      rack1..8, 16 machines each, bom-1.7.3`."""
    label = f"{render_symbol(fold.symbol, paint)}{escape_control_characters(fold.label)}"
    description = ", ".join(clause for clause in fold.clauses if clause)
    if fold.name:
        description = f"{fold.name}: {description}" if description else fold.name
    return truncate_lines(
        render_labelled_text(label, escape_control_characters(description), column, width), _MAX_ENTRY_LINES + 1, width
    )


def render_short_outputs(outputs: Sequence[Difference], width: int, paint: Painter) -> list[str]:
    """Render changes of outputs; long values become counts."""
    visible_outputs = outputs[:_MAX_OUTPUTS]
    name_width = max((count_columns(format_attribute_name(output.name)) for output in visible_outputs), default=0)
    lines: list[str] = []
    for output in visible_outputs:
        value_lines = "\n".join(render_outputs([output], paint)).split("\n")
        name = fill_to_width(format_attribute_name(output.name), name_width)
        front = f"{render_symbol(output.symbol, paint)}{name} ="
        if len(value_lines) > _MAX_OUTPUT_LINES or max(map(count_columns, value_lines)) > width:
            lines.append(f"{front} {_summarize_value(output)}")
        elif len(value_lines) == 1:
            lines.append(f"{front}{value_lines[0].partition(' =')[2]}")
        else:
            lines += value_lines
    if len(outputs) > len(visible_outputs):
        lines.append(
            f"    and {format_count(len(outputs) - len(visible_outputs), 'more output')}; -details shows each."
        )
    return lines


def _summarize_value(output: Difference) -> str:
    """Return a summary of a long value: `{5 keys}`, `[12 elements, 2 of them change]`, `{3 keys, 1 of them
    new, 2 are gone}`. A deleted value shows its old content.
    """
    symbols = Counter(child.symbol for child in output.children)
    total = symbols.total() + output.hidden
    note = ""
    if output.symbol == "~":
        removed, added, changed = symbols["-"], symbols["+"], symbols.total() - symbols[""]
        total -= removed
        changed -= removed + added
        note += f", {added} of them new" if added else ""
        note += f", {changed} of them {select_form(changed, 'changes', 'change')}" if 0 < changed < total else ""
        note += f", {removed} removed" if removed else ""
    match output.kind:
        case NodeKind.MAP | NodeKind.OBJECT:
            return f"{{{format_count(total, 'key')}{note}}}"
        case NodeKind.LIST | NodeKind.SET:
            return f"[{format_count(total, 'element')}{note}]"
        case NodeKind.TEXT:
            return f"({format_count(total, 'line')}{note})"
        case _:
            return "(a long value)"


class PlanTextOptions(Struct, frozen=True):
    """Options of the text of a plan. `width` is in terminal columns. `placements` is the flag of that name.
    `details` shows every argument in OpenTofu's layout, `terraform` uses Terraform's own header. Without
    `hints` (NF_IN_AUTOMATION) no commands are suggested, without `next_step` no apply command. `saved_path`
    is the written plan file, "" = none. `take_ownership`: the plan used that flag, so its apply needs it too.
    Without `diagnostics` warnings are omitted, without `errors` the boxes of errors. `registries` supplies
    the schemas.
    """

    colour: bool = False
    width: int = 80
    placements: Detail = Detail.CHANGED
    details: bool = False
    terraform: bool = False
    hints: bool = True
    next_step: bool = True
    saved_path: str = ""
    take_ownership: bool = False
    diagnostics: bool = True
    errors: bool = True
    registries: Registries = field(default_factory=Registries)

    @property
    def apply_command(self) -> str:
        """The command that applies the plan, without the file."""
        return "apply -take-ownership" if self.take_ownership else "apply"
