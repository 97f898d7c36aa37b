"""Findings of `advise` for people: boxes, then a count by rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from nexusform.diagnostics import Diagnostic
from nexusform.rendering.notation.colours import Painter, harmless
from nexusform.rendering.text.diagnostic_text import DEFAULT_WIDTH, render_diagnostic
from nexusform.source import SourceFile


def render_advice(
    findings: Sequence[Diagnostic],
    files: Mapping[str, SourceFile],
    *,
    colour: bool = False,
    width: int = DEFAULT_WIDTH,
) -> str:
    """Every finding, none consolidated, and a closing line; with a newline at the end."""
    if not findings:
        return "No advice: every rule is content with this configuration.\n"
    boxes = [render_diagnostic(f, files, colour=colour, width=width) for f in findings]
    counts = Counter(f.id for f in findings)
    by_rule = ", ".join(f"{harmless(rule)}: {n}" for rule, n in sorted(counts.items()))
    word = "finding" if len(findings) == 1 else "findings"
    closing = Painter(colour)(f"{len(findings)} {word}", "bold")
    hint = "Silence a rule by `# nexusform:ignore ID` on the line before the block, or in the lint block."
    return f"{''.join(boxes)}\n{closing} ({by_rule}).\n{hint}\n"
