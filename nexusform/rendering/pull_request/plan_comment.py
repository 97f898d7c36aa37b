"""Comment of a plan on a pull request.

It stays below a number of bytes (hosts truncate comments at 65,536 characters): least
important parts are cut first, with a note. Tables have at most three columns and pictures 38,
to fit on a phone.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.diagnostics.phrases import enclose, format_first_items
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.plans.plan import Plan
from nexusform.rendering.notation.colours import PLAIN
from nexusform.rendering.pull_request.markdown_parts import (
    Markdown,
    ReportPart,
    emphasize,
    escape_text,
    fill_markdown,
    format_code,
    join_markdown,
    join_parts_within_limit,
    render_decision_lines,
)
from nexusform.rendering.pull_request.report_markdown import build_parts, render_existing_findings
from nexusform.rendering.report import plan_sections
from nexusform.rendering.report.finding_entries import merge_equal_findings
from nexusform.rendering.report.placement_rows import ShownPlacements
from nexusform.rendering.report.plan_report_data import (
    PlanReportData,
    build_count_lines,
    build_plan_report,
)
from nexusform.rendering.report.plan_sentences import (
    describe_assumptions,
    describe_inventory,
    describe_plan_evaluation,
    format_plan_title,
    has_stale_inventory,
)
from nexusform.rendering.report.plan_verdict import INVENTORY
from nexusform.rendering.report.rack_picture import build_rack_section
from nexusform.rendering.report.report_tree import (
    NO_SECTION,
    UNKNOWN_ORIGIN,
    CodeBlock,
    CodeOrigin,
    Section,
)
from nexusform.rendering.text.change_stanza_text import (
    group_stanzas,
    pair_stanzas,
    render_outputs,
    render_stanza,
)
from nexusform.rendering.text.diagnostic_text import render_diagnostic
from nexusform.rendering.text.plan_text import render_placement_text

MAX_BYTES: Final = 65_000
_COMMIT_LENGTH: Final = 12
_NO_REGISTRIES = PluginRegistries()
_MAX_BOXES: Final = 20
_MAX_NAMES: Final = 5


class _CommentSection(Struct, frozen=True):
    """A section of the comment, its importance, and whether its title is shown."""

    build: Callable[[PlanReportData], Section]
    importance: int
    has_title: bool = False


def render_markdown(
    plan: Plan,
    sources: Mapping[str, SourceFile],
    registries: PluginRegistries = _NO_REGISTRIES,
    placements: ShownPlacements = ShownPlacements.CHANGED,
    *,
    max_bytes: int = MAX_BYTES,
    origin: CodeOrigin = UNKNOWN_ORIGIN,
) -> str:
    """Render the whole comment as GitHub-flavoured Markdown in at most `max_bytes`.

    It ends with a newline.

    Sections with a low importance are cut first. A failed plan has its errors and findings only.
    """
    view = PlanReportData(plan, sources, registries, placements)
    report = build_plan_report(view)
    # The verdict is the reason of a rejection. An impact has the name of an alert: note,
    # warning or caution.
    alert = "CAUTION" if report.verdict else f"{report.impact}".upper()
    title = format_plan_title(plan, "nexusform", report.title)
    assumptions = (describe_assumptions(plan),) if plan.assumptions else ()
    decision = render_decision_lines([*report.decision, *build_count_lines(view)])
    head = (
        fill_markdown("### {}", title),
        *map(escape_text, (*assumptions, *report.facts)),
        Markdown(f"> [!{alert}]"),
        *decision,
    )
    parts = [ReportPart("The verdict", importance=100, lines=head, is_atomic=True)]
    # A failed plan shows no changes, as in the terminal: they would hide the error.
    for entry in _FAILED_COMMENT if plan.is_failed else _COMMENT:
        section = entry.build(view)
        if section.has_content:
            parts += build_parts(section, entry.importance, origin, has_title=entry.has_title)
        # After the findings caused by the plan.
        if entry.build is plan_sections.build_entry_section:
            existing_lines = render_existing_findings(view.entries.existing)
            parts.append(ReportPart("Existing issues", importance=50, lines=existing_lines))
        if entry.build is plan_sections.build_change_section:
            parts.append(_build_last_line(plan, origin))
    return join_parts_within_limit(parts, max_bytes)


def _build_last_line(plan: Plan, origin: CodeOrigin) -> ReportPart:
    """Build the part with commit, inventory (bold if it is old) and evaluation.

    It has no line without any of them.
    """
    inventory = enclose("inventory ", describe_inventory(plan))
    if has_stale_inventory(plan):
        inventory = emphasize(inventory)
    commit = Markdown(enclose("commit ", format_code(origin.commit[:_COMMIT_LENGTH])))
    line = join_markdown(filter(None, (commit, inventory, describe_plan_evaluation(plan))), " · ")
    return ReportPart(
        "The last line", importance=99, lines=(line,) if line else (), is_atomic=True
    )  # cut last


def _build_notes(view: PlanReportData) -> Section:
    """Build the notes.

    The age of the inventory is in the last line.
    """
    section = plan_sections.build_note_section(view)
    return replace(
        section,
        notes=tuple((heading, text) for heading, text in section.notes if heading != INVENTORY),
    )


def _build_finding_boxes(view: PlanReportData) -> Section:
    """Build a folded code block of the first findings with their source lines.

    Pre-existing findings come last.
    """
    texts: dict[bool, list[str]] = {False: [], True: []}  # by `is_preexisting`
    for finding in merge_equal_findings(view.findings)[:_MAX_BOXES]:
        box = render_diagnostic(finding.diagnostic, view.sources, width=76).rstrip()
        texts[finding.is_preexisting].append(box)
    existing = ["", "Not caused by this plan:", *texts[True]] if texts[True] else []
    return _fold_code(
        "Source lines and suggested fixes", "\n".join([*texts[False], *existing]).lstrip("\n")
    )


def _build_pool_text(view: PlanReportData) -> Section:
    """Build the folded pools, and the placements that the comment does not list."""
    long_view = PlanReportData(
        view.plan, view.sources, view.registries, view.vm_detail, is_long=True
    )
    listed = plan_sections.build_placement_section(view)
    unlisted = plan_sections.build_unlisted_section(long_view, listed)
    return _fold_code(
        "Placements by pool", "\n\n".join(render_placement_text(long_view, unlisted, 120, PLAIN))
    )


def _build_change_differences(view: PlanReportData) -> Section:
    """Build the folded difference of every change; similar ones appear once."""
    texts = []
    for group in group_stanzas(pair_stanzas(view.plan, view.stanzas)):
        text = group.text
        if group.other_addresses:
            text += f"\n  # likewise: {format_first_items(group.other_addresses, _MAX_NAMES)}"
        texts.append(text)
    return _fold_code("Every change", "\n\n".join(texts), "diff")


def _build_drift(view: PlanReportData) -> Section:
    return _fold_code(
        "Changed outside of nexusform", "\n\n".join(map(render_stanza, view.drift_stanzas)), "diff"
    )


def _build_outputs(view: PlanReportData) -> Section:
    return _fold_code("Changes to outputs", "\n".join(render_outputs(view.outputs)), "diff")


def _build_recorded_drift(view: PlanReportData) -> Section:
    """Build the section of the drift recorded by a refresh-only plan.

    Return NO_SECTION for other plans.
    """
    return plan_sections.build_drift_section(view) if view.is_refresh_only else NO_SECTION


def _fold_code(title: str, text: str, language: str = "") -> Section:
    return Section(title, code=CodeBlock(text, language), is_folded=True)


_COMMENT: Final = (
    _CommentSection(_build_notes, 96),
    _CommentSection(plan_sections.build_loss_section, 97, has_title=True),
    _CommentSection(plan_sections.build_machine_and_feasibility_section, 96),
    _CommentSection(plan_sections.build_listed_section, 96, has_title=True),
    _CommentSection(plan_sections.build_rename_section, 98),
    _CommentSection(plan_sections.build_site_section, 93),
    _CommentSection(plan_sections.build_listed_vm_section, 92, has_title=True),
    _CommentSection(plan_sections.build_cause_section, 91),
    _CommentSection(plan_sections.build_new_pool_section, 88),
    _CommentSection(plan_sections.build_workload_section, 87),
    _CommentSection(plan_sections.build_rollout_section, 83, has_title=True),
    _CommentSection(build_rack_section, 65),
    _CommentSection(plan_sections.build_rule_section, 75, has_title=True),
    _CommentSection(plan_sections.build_entry_section, 90, has_title=True),
    _CommentSection(_build_recorded_drift, 60, has_title=True),
    _CommentSection(plan_sections.build_change_section, 60, has_title=True),
    _CommentSection(_build_finding_boxes, 50),
    _CommentSection(plan_sections.build_all_capacity_section, 45),
    _CommentSection(plan_sections.build_single_vm_section, 35),
    _CommentSection(_build_pool_text, 40),
    _CommentSection(_build_change_differences, 10),
    _CommentSection(_build_drift, 30),
    _CommentSection(_build_outputs, 20),
)
_FAILED_COMMENT: Final = (
    _CommentSection(plan_sections.build_error_section, 95),
    _CommentSection(plan_sections.build_entry_section, 60, has_title=True),
    _CommentSection(_build_finding_boxes, 50),
)
