"""`nexusform graph`."""

from __future__ import annotations

from typing import Any

import click

from nexusform.cli import flags
from nexusform.cli.commands import command, option
from nexusform.cli.screen import Screen
from nexusform.workflow.graph import find_graph


@command("graph", summary="Draw how the resources depend on each other")
@option(
    "format",
    "Language of the drawing",
    metavar="dot|mermaid",
    default="dot",
    kind=click.Choice(["dot", "mermaid"]),
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
    """Draw the graph of resources on stdout: an edge leads from a resource to what it needs."""
    from nexusform.rendering.graph_text import dot_graph, mermaid_graph

    screen = Screen(no_color=given["no_color"], compact_warnings=given["compact_warnings"])
    found = find_graph(flags.place_of(given), given["plan"] or "", destroy=given["type"] == "plan-destroy")
    screen.diagnostics(found.diagnostics, found.sources)
    if not found.drawable:
        return 1
    draw = mermaid_graph if given["format"] == "mermaid" else dot_graph
    screen.out(draw(found.nodes, found.edges), end="")
    return 0
