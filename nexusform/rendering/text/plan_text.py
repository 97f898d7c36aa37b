"""Plan as terminal text: short, or with every argument in OpenTofu's layout and the placements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import select_form
from nexusform.diagnostics.source import SourceFile
from nexusform.plans.plan import Mode, Plan, SeparationVerdict
from nexusform.rendering.notation.colours import Painter, escape_control_characters, wrap_line, wrap_lines
from nexusform.rendering.report import wording
from nexusform.rendering.report.decision_lines import build_decision_lines
from nexusform.rendering.report.plan_report import Report, build_report
from nexusform.rendering.text.diagnostic_text import render_diagnostics
from nexusform.rendering.text.placement_text import render_placements
from nexusform.rendering.text.short_placements import render_rollouts
from nexusform.rendering.text.short_plan import FAILED, PlanTextOptions, render_decision, render_short_plan
from nexusform.rendering.text.stanza_text import render_outputs, render_stanza, render_symbol


def render_plan(plan: Plan, sources: Mapping[str, SourceFile], options: PlanTextOptions | None = None) -> str:
    """Render the whole text of a plan with a newline at the end. `sources` maps filenames to files."""
    options = options or PlanTextOptions()
    if not options.details and not options.terraform:
        return render_short_plan(plan, sources, options)
    text = render_report(build_report(plan, options.registries, options.placements), sources, options)
    if options.terraform or not plan.has_changes:
        return text
    decision = render_decision(build_decision_lines(plan), options.width, Painter(options.colour))
    return "\n".join([text, *decision, ""])


def render_report(report: Report, sources: Mapping[str, SourceFile], options: PlanTextOptions) -> str:
    """Render every argument from an existing report."""
    paint = Painter(options.colour)
    width = options.width
    titles = [] if options.terraform else ["\n".join(report.provider_titles)]
    parts = [*titles, *_render_drift(report, paint, options), *_render_actions(report, paint, options)]
    parts += _render_verdict(report, paint, width)
    parts += [_wrap_paragraph(escape_control_characters(line), width) for line in report.conditions]
    if not report.is_errored:
        parts.append(render_rollouts(report.rollouts, width, paint))
    parts.append(_render_separation(report.separations, paint, width))
    parts += _render_output_changes(report, paint, width)
    if options.diagnostics:
        parts += _render_findings(report, sources, options)
    if options.hints and options.next_step and report.has_changes and not report.is_rejected:
        parts.append(render_next_step(options, paint))
    return "\n\n".join(part for part in parts if part) + "\n"


def _render_findings(report: Report, sources: Mapping[str, SourceFile], options: PlanTextOptions) -> list[str]:
    """Render the boxes of findings; pre-existing ones come last under a title."""
    # Terraform's text has errors and warnings only.

    def render_boxes(diagnostics: Sequence[Diagnostic]) -> str:
        return render_diagnostics(
            diagnostics, sources, colour=options.colour, width=options.width, terraform=options.terraform
        ).rstrip("\n")

    if options.terraform:
        return [render_boxes(report.diagnostics)]
    existing = [finding.diagnostic for finding in report.findings if finding.is_preexisting]
    parts = [render_boxes([finding.diagnostic for finding in report.findings if not finding.is_preexisting])]
    if existing:
        parts += [Painter(options.colour)("Not caused by this plan:", "bold"), render_boxes(existing)]
    return parts


def _wrap_paragraph(text: str, width: int) -> str:
    return "\n".join(wrap_lines(text, width))


def _draw_rule(paint: Painter, width: int) -> str:
    return paint("─" * max(20, min(width, 78)), "grey")


def _render_drift(report: Report, paint: Painter, options: PlanTextOptions) -> list[str]:
    """Render changes made outside of nexusform and their consequences."""
    if not report.drift:
        return []
    width = options.width
    note = wording.DRIFT_NOTE
    # Parsers of Terraform's text look for this note at the start of a part that ends with DRIFT_RESPONSE.
    if options.terraform and report.stanzas and report.mode is not Mode.REFRESH_ONLY:
        note = note.replace("nexusform", "Terraform")
    parts = [paint(note, "bold", "cyan"), _wrap_paragraph(f"{wording.DRIFT_DETAIL}:", width)]
    parts += [render_stanza(stanza, paint) for stanza in report.drift]
    if report.mode is Mode.REFRESH_ONLY:
        parts.append(_wrap_paragraph(wording.ONLY_REFRESH, width))
    elif report.stanzas:
        parts += [_wrap_paragraph(wording.DRIFT_RESPONSE, width), _draw_rule(paint, width)]
    return parts


def _render_actions(report: Report, paint: Painter, options: PlanTextOptions) -> list[str]:
    """Render the legend and every stanza; one sentence for a failed plan."""
    if report.is_errored:
        # Changes planned before an error may result from it and would hide it.
        return [FAILED]
    if not report.stanzas:
        return []
    # Tools for Terraform look for its name.
    tool = "Terraform" if options.terraform else "nexusform"
    title = f"{tool} will perform the following actions:"
    parts = [_render_legend(report, paint)] if report.actions else []
    return [*parts, title, *(render_stanza(stanza, paint) for stanza in report.stanzas)]


def _render_legend(report: Report, paint: Painter) -> str:
    lines = ["Resource actions are indicated with the following symbols:"]
    for action, text in wording.LEGEND:
        if action in report.actions:
            lines.append(f"{render_symbol(wording.SYMBOLS[action], paint)}{text}")
    return "\n".join(lines)


def _render_verdict(report: Report, paint: Painter, width: int) -> list[str]:
    """Render the `Plan:` or `No changes.` line with the placements."""
    placements = render_placements(report, paint, width)
    if report.is_errored:
        return []
    if report.stanzas:
        title, _, remainder = report.verdict.partition(" ")
        line = f"{paint(title, 'bold')} {remainder}"
        return [f"{line}\n{placements}" if placements else line]
    if report.has_changes:
        return [placements]
    detail = report.comparison
    head, _, remainder = report.verdict.partition(". ")
    if report.drift and report.mode is Mode.NORMAL:
        detail = wording.ONLY_DRIFT
    return [
        f"{paint(f'{head}.', 'bold', 'green')} {paint(remainder, 'bold')}",
        _wrap_paragraph(detail, width),
        placements,
    ]


_VERDICT_COLOURS: Final = {"always": "green", "sometimes": "yellow", "never": "red"}


def _render_separation(verdicts: Sequence[SeparationVerdict], paint: Painter, width: int) -> str:
    """Render `nexus_separation_rule.x (machine): holds always, in the plan and in 100 samples` per
    rule.
    """
    if not verdicts:
        return ""
    lines = [paint("Separation rules:", "bold")]
    for verdict in verdicts:
        result = paint(f"holds {verdict.satisfied}", _VERDICT_COLOURS[verdict.satisfied])
        rule = f"{verdict.address} ({verdict.scope}, {verdict.enforcement})"
        lines += wrap_line(f"  {rule}: {result}{_describe_scope(verdict)}", 4, width)
    return "\n".join(lines)


def _describe_scope(verdict: SeparationVerdict) -> str:
    if verdict.satisfied == "always":
        return f", in the plan and in {verdict.sample_count:,} samples" if verdict.sample_count else ", in the plan"
    runs = f", in {verdict.satisfied_count:,} of {verdict.sample_count:,} samples" if verdict.sample_count else ""
    violation_count = len(verdict.violations)
    return f"{runs}; {violation_count} {select_form(violation_count, verdict.scope)} shared"


def _render_output_changes(report: Report, paint: Painter, width: int) -> list[str]:
    if not report.outputs or report.is_errored:
        return []
    lines = [f"{paint('Changes to Outputs:', 'bold')}", *render_outputs(report.outputs, paint)]
    parts = ["\n".join(lines)]
    if not report.stanzas:
        parts.append(_wrap_paragraph(wording.ONLY_OUTPUTS, width))
    return parts


def render_next_step(options: PlanTextOptions, paint: Painter) -> str:
    """Render the rule and the next step; not used in automation."""
    width = options.width
    if options.saved_path:
        name = escape_control_characters(options.saved_path)
        text = f"Saved the plan to: {name}\n\n"
        text += "To perform exactly these actions, run the following command to apply:"
        return f'{_draw_rule(paint, width)}\n\n{text}\n    nexusform {options.apply_command} "{name}"'
    advice = _wrap_paragraph(wording.UNSAVED.format(options.apply_command), width)
    return f"{_draw_rule(paint, width)}\n\n{advice}"
