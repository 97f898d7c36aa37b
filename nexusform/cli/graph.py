"""`nexusform graph`: dependency graph of resources."""

import click
from msgspec import Struct

from nexusform.cli.arguments import declare_choice, declare_flag_group, declare_text_flag
from nexusform.cli.commands import define_command
from nexusform.cli.shared_flags import (
    ViewFlags,
    create_context,
    declare_state_flag,
    declare_variable_flags,
)
from nexusform.files.external_files import PLAN_FILE
from nexusform.workflow.plan_files.resource_graph import build_graph, render_dot_svg


class GraphArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `graph`."""

    format: str = declare_choice("Set the output format", ("dot", "svg", "mermaid"))
    type: str = declare_choice("Draw this kind of plan", ("plan", "plan-destroy"))
    plan: str = declare_text_flag(
        "Draw the resources of a saved plan", metavar="FILE", file=PLAN_FILE
    )
    variables: tuple[tuple[str, str], ...] = declare_variable_flags()
    state: str = declare_state_flag()
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("graph", GraphArguments)
def graph(arguments: GraphArguments) -> int:
    """Print the dependency graph: an edge leads from a resource to its dependency.

    SVG needs graphviz.
    """
    from nexusform.rendering.answers.graph_text import render_dot, render_mermaid

    screen = arguments.view.create_screen()
    context = create_context(
        arguments.state, arguments.variables, requires_state=not arguments.plan
    )
    resources = build_graph(context, arguments.plan, destroy=arguments.type == "plan-destroy")
    screen.print_diagnostics(resources.diagnostics, resources.sources)
    # The errors are printed above.
    if not resources.is_drawable:
        return 1
    draw = render_mermaid if arguments.format == "mermaid" else render_dot
    drawing = draw(resources.nodes, resources.edges)
    if arguments.format == "svg":
        try:
            drawing = render_dot_svg(drawing)
        except OSError as problem:
            raise click.UsageError(
                f"-format=svg: {problem}. Use -format=dot or -format=mermaid."
            ) from None
    screen.print_text(drawing, end="")
    return 0
