"""Plan as terminal text: short, or with every argument in OpenTofu's layout."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from textwrap import indent
from typing import Final, TypeAlias

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, select_errors
from nexusform.diagnostics.levels import Level
from nexusform.diagnostics.name_ranges import format_names
from nexusform.diagnostics.names import escape_control_characters, escape_name
from nexusform.diagnostics.phrases import enclose, format_list, group_by, join_texts
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.placement_kinds.registry import get_kind_title
from nexusform.plans.plan import Action, Mode, Plan
from nexusform.rendering.notation.colours import (
    Painter,
    count_columns,
    indent_lines,
    render_symbol,
    wrap_lines,
)
from nexusform.rendering.report import plan_sections, plan_sentences
from nexusform.rendering.report.decision_lines import build_decision_lines
from nexusform.rendering.report.finding_entries import (
    FindingEntries,
    FindingEntry,
    get_naming_part,
    limit_findings_per_id,
    list_destructive_renames,
    list_finding_subjects,
    list_shortened_texts,
    merge_renames,
)
from nexusform.rendering.report.folding import format_instances
from nexusform.rendering.report.placement_rows import (
    PlacementSummary,
    ShownPlacements,
    build_count_clauses,
)
from nexusform.rendering.report.plan_report_data import PlanReportData
from nexusform.rendering.report.plan_verdict import describe_scale_in
from nexusform.rendering.report.report_tree import Section, change_texts
from nexusform.rendering.text.report_text import (
    drop_last_words,
    render_decision,
    render_labelled_text,
    render_plan_section,
    render_report_items,
    render_report_notes,
    truncate_lines,
)

FAILED: Final = "Planning failed. nexusform encountered an error while generating this plan."
_PARAGRAPH_END: Final = "\n\n"
_ID_COLUMNS: Final = 22
_BELOW_ID_INDENT: Final = 4
# Limit of lines of one entry.
_MAX_ENTRY_LINES: Final = 3
_MAX_SUBJECTS: Final = 4
_MAX_LOCATIONS: Final = 2
_MAX_ADVICE: Final = 12
_LEVEL_MARKS: Final = {Level.ADVICE: "i", Level.NOTE: "\N{MIDDLE DOT}"}


class PlanTextOptions(Struct, frozen=True):
    """Options of the text of a plan.

    `width` is in terminal columns. `placements` is the flag of that name. `details` shows every
    argument in OpenTofu's layout, `terraform` uses Terraform's own header. Without `hints`
    (NF_IN_AUTOMATION) no commands are suggested, without `next_step` no apply command. `saved_path`
    is the written plan file, "" = none. `take_ownership` means that the plan used that flag, so its
    apply needs it too. `addresses` are those of the configuration that its sandboxed apply may
    contact with -allow-remote only. Without `diagnostics` warnings are omitted, without `errors`
    the boxes of errors. `registries` supplies the schemas.
    """

    colour: bool = False
    width: int = 80
    placements: ShownPlacements = ShownPlacements.CHANGED
    details: bool = False
    terraform: bool = False
    hints: bool = True
    next_step: bool = True
    saved_path: str = ""
    take_ownership: bool = False
    addresses: Sequence[str] = ()
    diagnostics: bool = True
    errors: bool = True
    registries: PluginRegistries = field(default_factory=PluginRegistries)

    @property
    def apply_command(self) -> str:
        """The command that applies the plan, without the file."""
        flags = [f" -allow-remote={shlex.quote(address)}" for address in self.addresses]
        return f"apply{' -take-ownership' if self.take_ownership else ''}{''.join(flags)}"


_DEFAULT_OPTIONS: Final = PlanTextOptions()


def render_plan(
    plan: Plan, sources: Mapping[str, SourceFile], options: PlanTextOptions = _DEFAULT_OPTIONS
) -> str:
    """Render the whole text of a plan with a newline at the end.

    `sources` maps filenames to files.
    """
    if options.details or options.terraform:
        return _render_full_plan(plan, sources, options)
    before, after = render_around_errors(plan, sources, options)
    boxes = (
        _render_boxes(select_errors(plan.diagnostics), sources, options) if options.errors else ""
    )
    return f"{join_texts([before, boxes, after], _PARAGRAPH_END)}\n"


def _render_boxes(
    diagnostics: Sequence[Diagnostic], sources: Mapping[str, SourceFile], options: PlanTextOptions
) -> str:
    """Render the boxes of diagnostics without a final newline; "" without any."""
    if not diagnostics:
        return ""
    from nexusform.rendering.text.diagnostic_text import render_diagnostics

    return render_diagnostics(
        diagnostics,
        sources,
        colour=options.colour,
        width=options.width,
        terraform=options.terraform,
    ).rstrip("\n")


def render_around_errors(
    plan: Plan, sources: Mapping[str, SourceFile], options: PlanTextOptions
) -> tuple[str, str]:
    """Render the text of a short plan before and after the boxes of errors.

    Both parts have no final newline. The caller renders the boxes in between, or elsewhere: while
    planning they are printed at once.
    """
    view = PlanReportData(plan, sources, options.registries, options.placements)
    paint = Painter(options.colour)
    # Of a failed plan only the title precedes the errors: its changes may result from them and
    # would hide them.
    title = _render_assumptions(plan, options.width, paint)
    before = [title, FAILED]
    if not plan.is_failed:
        before = [
            title,
            _render_boxes(merge_renames(list_destructive_renames(plan)), sources, options),
            "\n".join(map(escape_name, plan.observed.provider_titles)),
        ]
        for render in _SHORT_PLAN:
            before += render(view, options.width, paint)
    lines = (
        render_finding_entries(view.entries, options.width, paint) if options.diagnostics else []
    )
    if lines and options.hints:
        lines += render_labelled_text(
            "", build_entry_hint(view.entries, options.saved_path), 2, options.width
        )
    after = ["\n".join(lines), *_render_final_part(view, options, paint)]
    return join_texts(before, _PARAGRAPH_END), join_texts(after, _PARAGRAPH_END)


def _render_assumptions(plan: Plan, width: int, paint: Painter) -> str:
    """Render the first lines of a hypothetical plan; "" for another plan."""
    text = plan_sentences.describe_assumptions(plan)
    return paint(_wrap_paragraph(text, width), "bold", "yellow") if text else ""


_SectionRenderer: TypeAlias = Callable[[PlanReportData, int, Painter], list[str]]


def _create_section_renderer(build: Callable[[PlanReportData], Section]) -> _SectionRenderer:
    """Return a renderer of the section built by `build`."""
    return lambda view, width, paint: render_plan_section(build(view), width, paint)


def _render_objects(view: PlanReportData, width: int, paint: Painter) -> list[str]:
    """Render the changed objects, or the sentence for no changes; [] if only outputs change."""
    section = plan_sections.build_change_section(view)
    if section.has_content:
        parts = render_plan_section(section, width, paint, hint="; -details shows each")
        # Without the title of the section.
        _, _, lines = "\n".join(parts).partition("\n")
        return [plan_sections.describe_actor(view.plan), lines]
    return [] if view.plan.has_changes else _render_no_changes(view.plan, width, paint)


def _render_no_changes(plan: Plan, width: int, paint: Painter) -> list[str]:
    """Render the sentence for no changes and a description of the comparison."""
    sentence, detail = plan_sentences.describe_no_changes(plan)
    # The second sentence may be absent.
    head, _, second = sentence.removesuffix(".").partition(". ")
    headline = join_texts(
        (paint(f"{head}.", "bold", "green"), second and paint(f"{second}.", "bold")), " "
    )
    return [headline, _wrap_paragraph(detail, width)]


def _render_changed_outputs(
    view: PlanReportData, width: int, paint: Painter, *, has_details: bool = False
) -> list[str]:
    """Render the changed outputs in short form, or with all values if `has_details`.

    A note follows if nothing else changes. Return [] without outputs, and for a failed plan.
    """
    # After a failure they may be wrong.
    if not view.outputs or view.plan.is_failed:
        return []
    from nexusform.rendering.text.change_stanza_text import render_outputs, render_short_outputs

    lines = [paint("Changes to Outputs:", "bold")]
    if has_details:
        lines += render_outputs(view.outputs, paint)
    else:
        lines += render_short_outputs(view.outputs, width, paint)
    note = "" if view.plan.reported_changes else _wrap_paragraph(plan_sentences.ONLY_OUTPUTS, width)
    return ["\n".join(lines), note]


def _render_drift_items(view: PlanReportData, width: int, paint: Painter) -> list[str]:
    """Render changes made outside of nexusform, one object per line; [] for none."""
    section = plan_sections.build_drift_section(view)
    if not section.has_content:
        return []
    groups = change_texts(section.groups, escape_name)
    items = render_report_items(groups, width, paint, hint="; -details shows each")
    note = [_wrap_paragraph(plan_sentences.ONLY_REFRESH, width)] if view.is_refresh_only else []
    return ["\n".join([paint(plan_sentences.DRIFT_NOTE, "bold", "cyan"), *items]), *note]


def render_placement_text(
    view: PlanReportData, changes: Section, width: int, paint: Painter
) -> list[str]:
    """Render the tables of pools and the section of changed placements, each as a part."""
    pools = plan_sections.build_pool_section(view)
    parts = render_plan_section(pools, width, paint, hint="; -details shows each", has_details=True)
    if changes.has_content:
        hint = "; -details -placements=all lists each"
        parts += render_plan_section(changes, width, paint, hint=hint)
    if view.placed_vms:
        certainty = plan_sentences.describe_certainty(view.plan)
        parts.append("\n".join(indent_lines(wrap_lines(certainty, width - 2), "  ")))
    return parts


def _render_placements(view: PlanReportData, width: int, paint: Painter) -> list[str]:
    """Render the changed pools, then the changed objects.

    Both have a hint about flags for more detail.
    """
    pools = render_plan_section(plan_sections.build_pool_section(view), width, paint)
    if pools and view.placed_vms:
        certainty_hint = " Certainty per pool: -details." if view.plan.figures.samples else ""
        pools[-1] += f"\n  List every VM: -placements=all.{certainty_hint}"
    # After the number of hidden objects.
    hidden_hint = "; -details -placements=all lists each"
    return [
        *pools,
        *render_plan_section(
            plan_sections.build_placement_section(view), width, paint, hint=hidden_hint
        ),
    ]


_SHORT_PLAN: Final[tuple[_SectionRenderer, ...]] = (
    _create_section_renderer(plan_sections.build_loss_section),
    _create_section_renderer(plan_sections.build_site_section),
    _render_objects,
    _render_changed_outputs,
    _create_section_renderer(plan_sections.build_machine_and_feasibility_section),
    _create_section_renderer(plan_sections.build_listed_section),
    _render_drift_items,
    _render_placements,
    _create_section_renderer(plan_sections.build_rollout_section),
)


def _render_final_part(view: PlanReportData, options: PlanTextOptions, paint: Painter) -> list[str]:
    """Return the last paragraphs of a plan, some "".

    The notes, the next step, and the decision block with counts below. A plan without changes has
    the block only if it is rejected, or for a requested result, such as a checked limit. A failed
    plan has nothing else.
    """
    plan = view.plan
    width = options.width
    # A requested result: of limits, of a comparison with an earlier plan, or of a check program.
    has_requested_result = (
        plan.verdicts.guard_rails or plan.verdicts.since or plan.verdicts.checks_by
    )
    has_decision = plan.has_changes or plan.is_rejected or has_requested_result
    lines = render_decision(build_decision_lines(plan), width, paint) if has_decision else []
    if plan.is_failed:
        # The counts of a failed plan may result from its error.
        return ["\n".join(lines)]
    lines += render_placement_counts(view.summaries, paint, width)
    notes: list[str] = []
    if plan.has_changes:
        note_section = change_texts(plan_sections.build_note_section(view), escape_name)
        notes = render_report_notes(note_section, width, paint)
        lines.append(_render_plan_line(plan, paint))
    return ["\n".join(notes), _build_next_step(plan, options), "\n".join(lines)]


def _build_next_step(plan: Plan, options: PlanTextOptions) -> str:
    """Return the next step of the user after a plan.

    For a saved plan it is its path, and the command to apply it if possible. For an unsaved plan it
    is a note about -out, or "" if there is nothing to apply, if the plan cannot be applied, or if
    no command is to be suggested.
    """
    if options.saved_path:
        name = escape_name(options.saved_path)
        if plan.is_rejected:
            return f"Saved the plan to: {name}   (cannot be applied)"
        hint = f'   (nexusform {options.apply_command} "{name}")' if options.hints else ""
        return f"Saved the plan to: {name}{hint}"
    # Not in automation, nor before an apply asks for approval.
    suggests_command = options.hints and options.next_step and not plan.assumptions
    if not suggests_command or not plan.has_changes or plan.is_rejected:
        return ""
    return _wrap_paragraph("Not saved. Use -out=FILE to apply exactly this plan.", options.width)


def _render_plan_line(plan: Plan, paint: Painter) -> str:
    """Render the `Plan:` line with its first word in bold."""
    title, _, counts = plan_sentences.format_plan_line(plan).partition(" ")
    return f"{paint(title, 'bold')} {counts}"


def render_placement_counts(
    summaries: Sequence[PlacementSummary], paint: Painter, width: int
) -> list[str]:
    """Render `Placements: 215 to place, ...` and a line per kind, with notes below.

    Moves are highlighted. The first summary is of all kinds; [] without any.
    """
    if not summaries:
        return []
    total = summaries[0]
    lines = _wrap_clauses(paint("Placements:", "bold"), build_count_clauses(total, paint), width)
    for kind in summaries[1:]:
        lines += _wrap_clauses(
            f"  {get_kind_title(kind.kind)}:", build_count_clauses(kind, paint), width
        )
        lines += _render_effect_notes(kind, "    ", width)
    # Without lines for kinds, the notes are below the total.
    return lines if len(summaries) > 1 else [*lines, *_render_effect_notes(total, "  ", width)]


def _wrap_clauses(label: str, clauses: Sequence[str], width: int) -> list[str]:
    """Join clauses after a label, with a full stop, and break lines only between clauses."""
    lines = [f"{label} {clauses[0]}"]
    for clause in clauses[1:]:
        # With ", " before and "," after it.
        if count_columns(lines[-1]) + count_columns(clause) + 3 <= width:
            lines[-1] += f", {clause}"
        else:
            lines[-1] += ","
            lines.append(f"{' ' * count_columns(label)} {clause}")
    lines[-1] += "."
    return lines


def _render_effect_notes(summary: PlacementSummary, margin: str, width: int) -> list[str]:
    """Render a sentence on further effects, such as `2 are re-created in place`, after `margin`.

    Return [] without any.
    """
    if not summary.notes:
        return []
    return indent_lines(
        wrap_lines(f"Of these, {format_list(summary.notes)}.", width - len(margin)), margin
    )


def _render_full_plan(
    plan: Plan, sources: Mapping[str, SourceFile], options: PlanTextOptions
) -> str:
    """Render every argument, placements and rollouts, the findings and the decision block.

    A failed plan shows no changes and no verdict.
    """
    view = PlanReportData(plan, sources, options.registries, options.placements, is_long=True)
    paint = Painter(options.colour)
    width = options.width
    # Terraform's format has no such line.
    parts = (
        [] if options.terraform else ["\n".join(map(escape_name, plan.observed.provider_titles))]
    )
    parts.insert(0, _render_assumptions(plan, width, paint))
    parts += [*_render_drift(view, paint, options), *_render_changes(view, paint, options)]
    if not plan.is_failed:
        parts += _render_verdict(view, paint, width)
    for build in _FULL_SECTIONS:
        parts += render_plan_section(build(view), width, paint)
    parts += _render_changed_outputs(view, width, paint, has_details=True)
    if options.diagnostics:
        parts += _render_findings(view, sources, options)
    can_be_applied = plan.has_changes and not (plan.is_rejected or plan.assumptions)
    if can_be_applied and options.hints and options.next_step:
        parts.append(render_next_step(options, paint))
    if plan.has_changes and not options.terraform:
        parts.append("\n".join(render_decision(build_decision_lines(plan), width, paint)))
    return f"{join_texts(parts, _PARAGRAPH_END)}\n"


# Below the changes and placements.
_FULL_SECTIONS: Final[tuple[Callable[[PlanReportData], Section], ...]] = (
    plan_sections.build_loss_section,
    plan_sections.build_machine_and_feasibility_section,
    plan_sections.build_listed_section,
    plan_sections.build_rollout_section,
    plan_sections.build_rule_section,
)


def _render_findings(
    view: PlanReportData, sources: Mapping[str, SourceFile], options: PlanTextOptions
) -> list[str]:
    """Render the boxes of findings; pre-existing ones come last under a title."""
    # Terraform's text has errors and warnings only, without such a title.
    if options.terraform:
        return [_render_boxes(view.plan.diagnostics, sources, options)]
    diagnostics = group_by(
        (finding.diagnostic for finding in view.findings), lambda problem: problem.is_preexisting
    )
    boxes = [_render_boxes(diagnostics.get(False, []), sources, options)]
    if True in diagnostics:
        title = Painter(options.colour)("Not caused by this plan:", "bold")
        boxes += [title, _render_boxes(diagnostics[True], sources, options)]
    return boxes


def _wrap_paragraph(text: str, width: int) -> str:
    return "\n".join(wrap_lines(text, width))


def _render_horizontal_rule(paint: Painter, width: int) -> str:
    return paint("─" * max(20, min(width, 78)), "grey")


def _render_drift(view: PlanReportData, paint: Painter, options: PlanTextOptions) -> list[str]:
    """Render changes made outside of nexusform and a note on the response of the plan.

    Return [] without such changes.
    """
    if not view.drift_stanzas:
        return []
    from nexusform.rendering.text.change_stanza_text import render_stanza

    width = options.width
    note = plan_sentences.DRIFT_NOTE
    # Parsers of Terraform's text look for this note at the start of a part that
    # ends with DRIFT_RESPONSE.
    if options.terraform and view.stanzas and not view.is_refresh_only:
        note = note.replace("nexusform", "Terraform")
    parts = [paint(note, "bold", "cyan"), _wrap_paragraph(f"{plan_sentences.DRIFT_DETAIL}:", width)]
    parts += [render_stanza(stanza, paint) for stanza in view.drift_stanzas]
    if view.is_refresh_only:
        parts.append(_wrap_paragraph(plan_sentences.ONLY_REFRESH, width))
    elif view.stanzas:  # changes follow
        parts += [
            _wrap_paragraph(plan_sentences.DRIFT_RESPONSE, width),
            _render_horizontal_rule(paint, width),
        ]
    return parts


def _render_changes(view: PlanReportData, paint: Painter, options: PlanTextOptions) -> list[str]:
    """Render the legend and a stanza per changed object; [] without any.

    A failed plan has one sentence instead.
    """
    if view.plan.is_failed:
        # Changes of a failed plan may result from its errors and would hide the errors.
        return [FAILED]
    if not view.stanzas:
        return []
    from nexusform.rendering.text.change_stanza_text import render_stanza

    # Tools for Terraform look for its name.
    title = plan_sections.describe_actor(view.plan)
    title = title.replace("nexusform", "Terraform") if options.terraform else title
    actions = {change.action for change in view.plan.changes} - {Action.NO_OP}
    legend = ""
    for action, text in plan_sentences.LEGEND:
        if action in actions:
            legend += f"\n{render_symbol(plan_sentences.SYMBOLS[action], paint)}{text}"
    legend = enclose("Resource actions are indicated with the following symbols:", legend)
    return [legend, title, *(render_stanza(stanza, paint) for stanza in view.stanzas)]


def _render_verdict(view: PlanReportData, paint: Painter, width: int) -> list[str]:
    """Render the `Plan:` line, or `No changes.` with the comparison made.

    Render neither if only outputs change. The counts of placements follow, and their changes.
    """
    plan = view.plan
    counts = render_placement_counts(view.summaries, paint, width)
    placements = [
        *render_placement_text(view, plan_sections.build_placement_section(view), width, paint),
        _wrap_paragraph(describe_scale_in(plan), width),
    ]
    if view.stanzas or plan.has_changes:
        # Without stanzas, only outputs change.
        lines = [_render_plan_line(plan, paint)] if view.stanzas else []
        return ["\n".join([*lines, *counts]), *placements]
    title, comparison = _render_no_changes(plan, width, paint)
    # The configuration has the same changes already.
    if view.drift_stanzas and plan.options.mode is Mode.NORMAL:
        comparison = _wrap_paragraph(plan_sentences.ONLY_DRIFT, width)
    return [title, comparison, "\n".join(counts), *placements]


def render_next_step(options: PlanTextOptions, paint: Painter) -> str:
    """Render a horizontal line and the next step of the user; not used in automation."""
    width = options.width
    if options.saved_path:
        name = escape_name(options.saved_path)
        text = f"Saved the plan to: {name}\n\n"
        text += "To perform exactly these actions, run the following command to apply:"
        return (
            f"{_render_horizontal_rule(paint, width)}\n\n{text}\n    nexusform "
            f'{options.apply_command} "{name}"'
        )
    advice = _wrap_paragraph(plan_sentences.UNSAVED.format(options.apply_command), width)
    return f"{_render_horizontal_rule(paint, width)}\n\n{advice}"


def build_entry_hint(entries: FindingEntries, saved_path: str) -> str:
    """Return a hint about -details.

    If a finding is from a lint rule, mention `advise`, too. `saved_path` is the file of the plan
    for this command, "" for an unsaved plan.
    """
    from nexusform.advice.registry import RULE_IDS

    if any(entry.id in RULE_IDS for entry in (*entries.caused, *entries.existing)):
        plan_option = f" -plan={shlex.quote(escape_name(saved_path))}" if saved_path else ""
        return f"Suggested fixes: nexusform advise{plan_option}. All arguments: -details."
    return "All warnings and arguments: -details."


def render_finding_entries(entries: FindingEntries, width: int, paint: Painter) -> list[str]:
    """Render the findings caused by the plan, warnings first.

    A short text about pre-existing ones follows.
    """
    by_warning = group_by(entries.caused, lambda entry: entry.level is Level.WARNING)
    lines = _render_warnings(by_warning.get(True, []), width, paint)
    # The others are advice and notes.
    others = by_warning.get(False, [])
    for entry in others[:_MAX_ADVICE]:
        lines += render_finding_entry(entry, width, paint)
    if len(others) > _MAX_ADVICE:
        hidden_ids = format_names(entry.id for entry in others[_MAX_ADVICE:])
        lines += render_labelled_text(
            "i", f"{len(others) - _MAX_ADVICE:,} more: {hidden_ids}", 2, width, gap=1
        )
    texts = [f"{entry.id} {format_names(entry.subjects)}".rstrip() for entry in entries.existing]
    # Findings without a subject are shown once per id.
    distinct_texts = list(dict.fromkeys(texts))
    if distinct_texts:
        text = escape_name(f"not caused by this plan: {'; '.join(distinct_texts)}")
        lines += truncate_lines(render_labelled_text("", text, 2, width), _MAX_ENTRY_LINES, width)
    return lines


def _render_warnings(warnings: Sequence[FindingEntry], width: int, paint: Painter) -> list[str]:
    """Render the lines of warnings.

    Of more than a dozen with one id, only the first few are rendered in full; a line after all of
    them has the subjects of the others: `! 20 more: no-surge-capacity cluster-d/pool1, ...`.
    """
    listed_entries, remaining_entries = limit_findings_per_id(warnings)
    lines = list(
        chain.from_iterable(render_finding_entry(entry, width, paint) for entry in listed_entries)
    )
    for diagnostic_id, entries in remaining_entries.items():
        subjects = list_finding_subjects(entries)
        text = (
            f"{len(entries):,} more: {diagnostic_id} "
            f"{format_instances(subjects, maximum=len(subjects))}"
        ).rstrip()
        lines += truncate_lines(
            render_labelled_text(paint("!", "bold", "red"), escape_name(text), 2, width, gap=1),
            _MAX_ENTRY_LINES,
            width,
        )
    return lines


def render_finding_entry(entry: FindingEntry, width: int, paint: Painter) -> list[str]:
    """Render an entry in at most three lines, then the proposed code.

    An example is `! no-surge-capacity  cluster-d/pool1: an upgrade would fail ...
    clusters.nf.hcl:73`. A longer text is cut at the end of a sentence or clause. A warning lists
    all of its subjects, on further lines if needed.
    """
    return [
        *_render_entry_text(entry, width, paint),
        *indent(escape_control_characters(entry.proposed_code), "    ").splitlines(),
    ]


def _render_entry_text(entry: FindingEntry, width: int, paint: Painter) -> list[str]:
    """Render the lines of an entry.

    Its mark and id, its subjects, its text and the location at the end. The text is the longest of
    its versions that fits in the allowed lines. If none does, the shortest one is cut.
    """
    is_warning = entry.level is Level.WARNING
    mark = paint("!", "bold", "red") if is_warning else paint(_LEVEL_MARKS[entry.level], "cyan")
    label = f"{mark} {paint(escape_name(entry.id), 'bold')}"
    max_subjects = max(len(entry.subjects), _MAX_SUBJECTS) if is_warning else _MAX_SUBJECTS
    subjects = escape_name(format_names(entry.subjects, max_subjects))
    location = escape_name(_format_locations(entry.locations))
    # Two spaces separate it from the text.
    is_short_label = count_columns(label) + 2 <= _ID_COLUMNS
    # Start of the text.
    column = _ID_COLUMNS if is_short_label else _BELOW_ID_INDENT
    # Long subjects need further lines, and so does a name late in a text without subjects: the name
    # of the object is never cut. Of the line after it the end may be cut.
    naming_part = f"{subjects}:" if subjects else escape_name(get_naming_part(entry))
    naming_lines = render_labelled_text("", naming_part, column, width)
    max_lines = max(_MAX_ENTRY_LINES, len(naming_lines) + (1 if is_short_label else 2))
    lines: list[str] = []
    for text in map(escape_name, list_shortened_texts(entry)):
        # Subjects and text are next to a short label; next to a long one are the subjects at most,
        # if they fit.
        statement = f"{subjects}: {text}" if subjects else text
        if is_short_label:
            lines = render_labelled_text(label, statement, column, width)
        elif subjects and count_columns(label) + count_columns(subjects) + 3 <= width:
            # With two spaces and a colon.
            lines = [f"{label}  {subjects}:", *render_labelled_text("", text, column, width)]
        else:
            lines = [label, *render_labelled_text("", statement, column, width)]
        located_lines = _append_location(lines, location, column, width)
        if len(located_lines) <= max_lines:
            return located_lines
    # Even the shortest text is too long: truncate its last line, with the location after it.
    lines = truncate_lines(lines, max_lines, width)
    if not location:
        return lines
    ending = f" ...  {location}"
    last_line = drop_last_words(lines[-1].removesuffix(" ..."), width - count_columns(ending))
    return [*lines[:-1], f"{last_line}{ending}"]


def _format_locations(locations: Sequence[str]) -> str:
    """Format locations as `a.nf.hcl:7, :47, b.nf.hcl:3`; "..." follows if some are omitted."""
    texts = []
    # File of the location before.
    previous = ""
    for location in locations[:_MAX_LOCATIONS]:
        file, _, line = location.rpartition(":")
        texts.append(f":{line}" if file == previous else location)
        previous = file
    return ", ".join([*texts, "..."] if len(locations) > _MAX_LOCATIONS else texts)


def _append_location(lines: list[str], location: str, column: int, width: int) -> list[str]:
    """Add the location, if any, at the end of the last line.

    A location that is too long is below it, from `column` on.
    """
    if not location:
        return lines
    # Between the text and the location.
    available_gap = width - count_columns(lines[-1]) - count_columns(location)
    if available_gap >= 2:
        # Two to four spaces.
        gap = " " * min(available_gap, 4)
        return [*lines[:-1], f"{lines[-1]}{gap}{location}"]
    return [*lines, f"{' ' * column}{location}"]
