"""`nexusform graph`."""

from __future__ import annotations

from typing import Any

import click

from nexusform.cli import flags
from nexusform.cli.commands import command, option
from nexusform.cli.screen import Screen
from nexusform.workflow.drawing import CannotDraw, svg_of_dot
from nexusform.workflow.graph import find_graph


@command("graph", summary="Draw how the resources depend on each other")
@option(
    "format",
    "Language of the drawing",
    metavar="dot|svg|mermaid",
    default="dot",
    kind=click.Choice(["dot", "svg", "mermaid"]),
)
@option(
    "type",
    "What to draw",
    metavar="plan|plan-destroy",
    default="plan",
    kind=click.Choice(["plan", "plan-destroy"]),
)
@option("plan", "Draw the resources of a saved plan", metavar="FILE")
@flags.variable_flags
@flags.state_flags
@flags.view_flags
def graph(**given: Any) -> int:
    """Draw the graph of resources on stdout: an edge leads from a resource to what it needs.

    SVG is drawn by graphviz, where that is installed.
    """
    from nexusform.rendering.answers.graph_text import dot_graph, mermaid_graph

    screen = Screen(no_color=given["no_color"], compact_warnings=given["compact_warnings"])
    found = find_graph(flags.place_of(given), given["plan"] or "", destroy=given["type"] == "plan-destroy")
    screen.diagnostics(found.diagnostics, found.sources)
    if not found.drawable:
        return 1
    draw = mermaid_graph if given["format"] == "mermaid" else dot_graph
    text = draw(found.nodes, found.edges)
    if given["format"] == "svg":
        try:
            text = svg_of_dot(text)
        except CannotDraw as problem:
            raise click.UsageError(f"-format=svg: {problem}. Take -format=dot or -format=mermaid.") from None
    screen.out(text, end="")
    return 0
