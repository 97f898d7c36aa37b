"""`nexusform graph`."""

from __future__ import annotations

import click
from msgspec import Struct

from nexusform.cli.arguments import choice, group, text
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of, state_flag, variable_flags
from nexusform.workflow.plan_files.graph import find_graph, svg_of_dot


class GraphArguments(Struct, frozen=True, kw_only=True):
    """What `graph` takes."""

    format: str = choice("Set the output format", ("dot", "svg", "mermaid"))
    type: str = choice("Draw this kind of plan", ("plan", "plan-destroy"))
    plan: str = text("Draw the resources of a saved plan", metavar="FILE")
    variables: tuple[tuple[str, str], ...] = variable_flags()
    state: str = state_flag()
    view: ViewFlags = group(ViewFlags)


@command("graph", GraphArguments)
def graph(arguments: GraphArguments) -> int:
    """Print the dependency graph: an edge leads from a resource to its dependency.

    SVG needs graphviz.
    """
    from nexusform.rendering.answers.graph_text import dot_graph, mermaid_graph

    screen = arguments.view.screen()
    place = place_of(arguments.state, arguments.variables)
    resources = find_graph(place, arguments.plan, destroy=arguments.type == "plan-destroy")
    screen.diagnostics(resources.diagnostics, resources.sources)
    if not resources.drawable:
        return 1
    draw = mermaid_graph if arguments.format == "mermaid" else dot_graph
    drawing = draw(resources.nodes, resources.edges)
    if arguments.format == "svg":
        try:
            drawing = svg_of_dot(drawing)
        except OSError as problem:
            raise click.UsageError(f"-format=svg: {problem}. Take -format=dot or -format=mermaid.") from None
    screen.out(drawing, end="")
    return 0
