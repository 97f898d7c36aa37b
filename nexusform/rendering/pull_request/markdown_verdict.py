"""First lines of a comment: the decision block, and notes about upgrades, rules and inputs."""

from __future__ import annotations

from typing import Final

from nexusform.plans.plan import Plan
from nexusform.rendering.notation.colours import PLAIN
from nexusform.rendering.pull_request.markdown_parts import escape_plain_text, format_code_block, format_commit
from nexusform.rendering.report import wording
from nexusform.rendering.report.code_origin import CodeOrigin
from nexusform.rendering.report.decision_lines import build_decision_lines
from nexusform.rendering.report.evaluation_sentence import describe_evaluation
from nexusform.rendering.report.overview import Overview
from nexusform.rendering.report.plan_report import Report
from nexusform.rendering.report.short_report import INVENTORY, build_notes
from nexusform.rendering.text.placement_text import render_placement_counts
from nexusform.rendering.text.short_plan import render_decision

_BOX_WIDTH: Final = 100  # columns
_MAX_LINE_LENGTH: Final = 700


def render_title(overview: Overview) -> str:
    """Render the heading of the comment."""
    return f"### nexusform: {escape_plain_text(overview.headline)}"


def render_alert(plan: Plan, report: Report, overview: Overview) -> list[str]:
    """Render GitHub's alert box with the decision block; its kind is the impact."""
    lines = render_decision(build_decision_lines(plan), _BOX_WIDTH)
    if not report.is_errored:
        if report.summaries[0].has_objects:
            lines += render_placement_counts(report.summaries, PLAIN, _BOX_WIDTH)
        lines.append(wording.format_thousands(report.verdict))
    block = format_code_block("\n".join(map(_truncate_line, lines)), "text")
    kind = "CAUTION" if overview.rejection else overview.impact.value.upper()
    return [f"> [!{kind}]", *(f"> {line}" for line in block.split("\n"))]


def _truncate_line(line: str) -> str:
    """Truncate a very long line."""
    return line if len(line) <= _MAX_LINE_LENGTH else f"{line[: _MAX_LINE_LENGTH - 3]}..."


def render_notes(plan: Plan) -> list[str]:
    """Render a list of notes. The age of the inventory is in the last line."""
    return [
        f"- **{escape_plain_text(heading)}**: {escape_plain_text(sentence)}"
        for heading, sentence in build_notes(plan)
        if heading != INVENTORY
    ]


def render_last_lines(plan: Plan, overview: Overview, origin: CodeOrigin) -> tuple[str, ...]:
    """Render one line with commit, inventory and evaluation, or none; a stale inventory is highlighted."""
    inventory = f"inventory {escape_plain_text(overview.inventory)}" if overview.inventory else ""
    if overview.has_stale_inventory:
        inventory = f"**{inventory}**"
    evaluation = escape_plain_text(describe_evaluation(plan))
    line = " · ".join(text for text in (format_commit(origin), inventory, evaluation) if text)
    return (line,) if line else ()
