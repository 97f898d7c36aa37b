"""Dependency graph of the resources of a configuration or a saved plan."""

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, has_errors
from nexusform.files.limited_program import run_program
from nexusform.files.program_environment import build_program_environment
from nexusform.planning.preparation.planning_order import compute_planning_order
from nexusform.plans.plan import Plan
from nexusform.resource_types.registry import build_registries
from nexusform.workflow.opening.command_context import CommandContext, load_project_configuration
from nexusform.workflow.plan_files.saved_plans import read_complete_plan

Edge = tuple[str, str]

# The program graphviz needs minutes for thousands of resources, and such a drawing is useless.
_TIMEOUT_SECONDS: Final = 120


class Graph(Struct, frozen=True):
    """Names and (from, to) pairs: `from` depends on `to`.

    `is_drawable` is false after errors.
    """

    nodes: tuple[str, ...] = ()
    edges: tuple[Edge, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)
    is_drawable: bool = True


def build_graph(context: CommandContext, plan_path: str = "", *, destroy: bool = False) -> Graph:
    """Build the graph of the blocks, or of the changes in a saved plan.

    With `destroy`, the edges are reversed.
    """
    if plan_path:
        saved, problems = read_complete_plan(plan_path, context)
        if saved is None:
            return Graph(diagnostics=tuple(problems), is_drawable=False)
        graph = _build_plan_graph(saved.plan)
    else:
        graph = _build_configuration_graph(context)
    if not destroy:
        return graph
    return replace(
        graph, edges=tuple((dependency, dependent) for dependent, dependency in graph.edges)
    )


def _build_plan_graph(plan: Plan) -> Graph:
    """Build the graph of changes.

    A dependency on a resource is one on all of its changed instances. The nodes are addresses of
    instances, such as `nexus_rack.r["a"]`. An edge is an instance and a dependency of it.
    """
    addresses_by_resource: dict[str, list[str]] = defaultdict(list)
    for change in plan.changes:
        addresses_by_resource[str(change.address.resource)].append(str(change.address))
    edges: list[Edge] = []
    for change in plan.changes:
        for resource in change.dependencies:
            edges += [
                (str(change.address), dependency) for dependency in addresses_by_resource[resource]
            ]
    return Graph(tuple(str(change.address) for change in plan.changes), tuple(edges))


def _build_configuration_graph(context: CommandContext) -> Graph:
    """Build the graph of the blocks and dependencies between them."""
    configuration, problems = load_project_configuration(context)
    order, new_problems = compute_planning_order(configuration, build_registries().resource_types)
    problems += new_problems
    nodes = tuple(str(block.address) for block in order.blocks)
    addresses = {block.address for block in order.blocks}
    edges: list[Edge] = []
    for block in order.blocks:
        dependencies = [
            dependency
            for dependency in order.needs.get(block.address, ())
            if dependency in addresses
        ]
        edges += [(str(block.address), str(dependency)) for dependency in dependencies]
    return Graph(
        nodes,
        tuple(edges),
        tuple(problems),
        configuration.files,
        is_drawable=not has_errors(problems),
    )


def render_dot_svg(dot: str) -> str:
    """Render a DOT graph as SVG with graphviz, with a final newline.

    Raises OSError for any failure.
    """
    program = shutil.which("dot")
    if program is None:
        raise OSError("graphviz is not installed: the program dot is not in the PATH")
    try:
        command = [program, "-Tsvg"]
        environment = build_program_environment()
        result = run_program(command, environment, _TIMEOUT_SECONDS, dot.encode())
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise OSError(f"dot did not draw it: {problem}") from None
    if result.returncode != 0:
        raise OSError(f"dot did not draw it: {result.stderr.decode(errors='replace').strip()}")
    return result.stdout.decode(errors="replace").rstrip("\n") + "\n"
