"""A plan for the terminal: short, or with every argument in OpenTofu's layout and nexusform's own part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from nexusform.diagnostics import Diagnostic
from nexusform.plans.plan import Mode, Plan, SeparationVerdict
from nexusform.rendering.notation.colours import Painter, harmless, indented, wrap
from nexusform.rendering.report import wording
from nexusform.rendering.report.report import Report, build_report
from nexusform.rendering.text.diagnostic_text import render_diagnostics
from nexusform.rendering.text.placement_text import placement_text
from nexusform.rendering.text.short_placements import rollout_text
from nexusform.rendering.text.short_plan import FAILED, PlanTextOptions, render_short
from nexusform.rendering.text.stanza_text import head_symbol, output_lines, stanza_text
from nexusform.source import SourceFile
from nexusform.words import form


def render_plan(plan: Plan, sources: Mapping[str, SourceFile], options: PlanTextOptions | None = None) -> str:
    """The whole text of a plan, with a newline at the end. `sources` are the files by name."""
    options = options or PlanTextOptions()
    if not options.details and not options.terraform:
        return render_short(plan, sources, options)
    return render_report(build_report(plan, options.registries, options.placements), sources, options)


def render_report(report: Report, sources: Mapping[str, SourceFile], options: PlanTextOptions) -> str:
    """Every argument, from a report that was built before."""
    paint = Painter(options.colour)
    width = options.width
    parts = [*_drift_parts(report, paint, options), *_action_parts(report, paint, options)]
    parts += _verdict_parts(report, paint, width)
    if not report.errored:
        parts.append(rollout_text(report.rollouts, width, paint))
    parts.append(_separation_part(report.separations, paint, width))
    parts += _output_parts(report, paint, width)
    if options.diagnostics:
        parts += _finding_parts(report, sources, options)
    if options.hints and options.next_step and report.has_changes and not report.denied:
        parts.append(next_step(options, paint))
    return "\n\n".join(part for part in parts if part) + "\n"


def _finding_parts(report: Report, sources: Mapping[str, SourceFile], options: PlanTextOptions) -> list[str]:
    """The boxes of what is to be said; what held before the plan comes last, under a line of its own."""
    # Readers of Terraform's text know errors and warnings alone.

    def boxes(diagnostics: Sequence[Diagnostic]) -> str:
        return render_diagnostics(
            diagnostics,
            sources,
            colour=options.colour,
            width=options.width,
            terraform=options.terraform,
        ).rstrip("\n")

    if options.terraform:
        return [boxes(report.diagnostics)]
    standing = [finding.diagnostic for finding in report.findings if finding.held_before]
    parts = [boxes([finding.diagnostic for finding in report.findings if not finding.held_before])]
    if standing:
        parts += [Painter(options.colour)("Not caused by this plan:", "bold"), boxes(standing)]
    return parts


def _paragraph(text: str, width: int) -> str:
    return "\n".join(wrap(text, width))


def _rule(paint: Painter, width: int) -> str:
    return paint("─" * max(20, min(width, 78)), "grey")


def _drift_parts(report: Report, paint: Painter, options: PlanTextOptions) -> list[str]:
    """What changed outside, and what follows from it."""
    if not report.drift:
        return []
    width = options.width
    note = wording.DRIFT_NOTE
    # Readers of Terraform's text take this note for the head of a part that ends with DRIFT_RESPONSE.
    if options.terraform and report.stanzas and report.mode is not Mode.REFRESH_ONLY:
        note = note.replace("nexusform", "Terraform")
    parts = [paint(note, "bold", "cyan"), _paragraph(f"{wording.DRIFT_DETAIL}:", width)]
    parts += [stanza_text(stanza, paint) for stanza in report.drift]
    if report.mode is Mode.REFRESH_ONLY:
        parts.append(_paragraph(wording.ONLY_REFRESH, width))
    elif report.stanzas:
        parts += [_paragraph(wording.DRIFT_RESPONSE, width), _rule(paint, width)]
    return parts


def _action_parts(report: Report, paint: Painter, options: PlanTextOptions) -> list[str]:
    """The legend and every stanza; of a plan in error one sentence."""
    if report.errored:
        # What was planned up to an error may be a mere consequence of it, and would bury it.
        return [FAILED]
    if not report.stanzas:
        return []
    # Tools made for Terraform look for its name.
    who = "Terraform" if options.terraform else "nexusform"
    head = f"{who} will perform the following actions:"
    parts = [_legend(report, paint)] if report.actions else []
    return [*parts, head, *(stanza_text(stanza, paint) for stanza in report.stanzas)]


def _legend(report: Report, paint: Painter) -> str:
    lines = ["Resource actions are indicated with the following symbols:"]
    for action, text in wording.LEGEND:
        if action in report.actions:
            lines.append(f"{head_symbol(wording.SYMBOLS[action], paint)}{text}")
    return "\n".join(lines)


def _verdict_parts(report: Report, paint: Painter, width: int) -> list[str]:
    """The `Plan:` or `No changes.` line with the placements."""
    placements = placement_text(report, paint, width)
    if report.errored:
        return []
    if report.stanzas:
        word, _, rest = report.verdict.partition(" ")
        line = f"{paint(word, 'bold')} {rest}"
        return [f"{line}\n{placements}" if placements else line]
    if report.has_changes:
        return [placements]
    detail = report.unchanged
    head, _, rest = report.verdict.partition(". ")
    if report.drift and report.mode is Mode.NORMAL:
        detail = wording.ONLY_DRIFT
    return [
        f"{paint(f'{head}.', 'bold', 'green')} {paint(rest, 'bold')}",
        _paragraph(detail, width),
        placements,
    ]


_VERDICT_COLOURS: Final = {"always": "green", "sometimes": "yellow", "never": "red"}


def _separation_part(verdicts: Sequence[SeparationVerdict], paint: Painter, width: int) -> str:
    """`nexus_separation_rule.x (machine): holds always, in the plan and in 100 tie-breaks`, by rule."""
    if not verdicts:
        return ""
    lines = [paint("Separation rules:", "bold")]
    for verdict in verdicts:
        word = paint(f"holds {verdict.holds}", _VERDICT_COLOURS[verdict.holds])
        rule = f"{verdict.address} ({verdict.scope}, {verdict.enforcement})"
        lines += indented(f"  {rule}: {word}{_where_it_holds(verdict)}", 4, width)
    return "\n".join(lines)


def _where_it_holds(verdict: SeparationVerdict) -> str:
    if verdict.holds == "always":
        return f", in the plan and in {verdict.runs:,} tie-breaks" if verdict.runs else ", in the plan"
    runs = f", in {verdict.held:,} of {verdict.runs:,} tie-breaks" if verdict.runs else ""
    shared = len(verdict.violations)
    return f"{runs}; {shared} {form(shared, verdict.scope)} shared"


def _output_parts(report: Report, paint: Painter, width: int) -> list[str]:
    """Changes of outputs."""
    if not report.outputs or report.errored:
        return []
    lines = [f"{paint('Changes to Outputs:', 'bold')}", *output_lines(report.outputs, paint)]
    parts = ["\n".join(lines)]
    if not report.stanzas:
        parts.append(_paragraph(wording.ONLY_OUTPUTS, width))
    return parts


def next_step(options: PlanTextOptions, paint: Painter) -> str:
    """The rule and what to do next; left out in automation."""
    width = options.width
    if options.saved_to:
        name = harmless(options.saved_to)
        text = f"Saved the plan to: {name}\n\n"
        text += "To perform exactly these actions, run the following command to apply:"
        return f'{_rule(paint, width)}\n\n{text}\n    nexusform {options.apply} "{name}"'
    return f"{_rule(paint, width)}\n\n{_paragraph(wording.UNSAVED.format(options.apply), width)}"
