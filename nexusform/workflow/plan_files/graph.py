"""The resources of a configuration, or of a saved plan, and what needs what."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from nexusform.diagnostics import Diagnostic
from nexusform.planning.preparation.order import planning_order
from nexusform.plans.plan import Plan
from nexusform.resource_types.registry import registries
from nexusform.source import SourceFile
from nexusform.workflow.opening.place import Place, load_configuration
from nexusform.workflow.plan_files.saved_plans import read_plan

Edge = tuple[str, str]

# A graph of thousands of resources takes graphviz minutes; nobody reads such a drawing.
_SECONDS: Final = 120


class Graph(Struct, frozen=True):
    """Names and (from, to) pairs: `from` needs `to`. Not `drawable` when there are errors."""

    nodes: tuple[str, ...] = ()
    edges: tuple[Edge, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)
    drawable: bool = True


def find_graph(place: Place, plan_path: str = "", *, destroy: bool = False) -> Graph:
    """The graph of the configuration's blocks, or of a saved plan's instances.

    With `destroy` the edges are turned round: what must go first.
    """
    if plan_path:
        saved, problems = read_plan(plan_path, place)
        graph = _of_plan(saved.plan) if saved else Graph(diagnostics=tuple(problems), drawable=False)
    else:
        graph = _of_configuration(place)
    if not destroy:
        return graph
    turned = tuple((b, a) for a, b in graph.edges)
    return Graph(
        nodes=graph.nodes,
        edges=turned,
        diagnostics=graph.diagnostics,
        sources=graph.sources,
        drawable=graph.drawable,
    )


def _of_configuration(place: Place) -> Graph:
    """The blocks and what each needs to be planned before it."""
    configuration, problems = load_configuration(place)
    if configuration is None:
        return Graph(diagnostics=tuple(problems), drawable=False)
    order, wrong = planning_order(configuration, registries().resource_types)
    problems += wrong
    nodes = tuple(str(block.address) for block in order.blocks)
    known = {block.address for block in order.blocks}
    edges: list[tuple[str, str]] = []
    for block in order.blocks:
        needs = [need for need in order.needs.get(block.address, ()) if need in known]
        edges += [(str(block.address), str(need)) for need in needs]
    return Graph(
        nodes, tuple(edges), tuple(problems), configuration.files, drawable=bool(nodes) or not problems
    )


def _of_plan(plan: Plan) -> Graph:
    """The changes and what each depends on."""
    nodes = tuple(str(change.address) for change in plan.changes)
    by_resource: dict[str, list[str]] = {}
    for change in plan.changes:
        by_resource.setdefault(str(change.address.resource), []).append(str(change.address))
    edges: list[tuple[str, str]] = []
    for change in plan.changes:
        for resource in change.dependencies:
            edges += [(str(change.address), needed) for needed in by_resource.get(resource, ())]
    return Graph(nodes, tuple(edges))


# --- drawing, by graphviz where it is installed ------------------------------------------------


def svg_of_dot(dot: str) -> str:
    """A DOT graph as SVG, with a newline at its end. Raises OSError."""
    program = shutil.which("dot")
    if program is None:
        raise OSError("graphviz is not installed: there is no program dot in the PATH")
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command; the graph goes in as data
            [program, "-Tsvg"], input=dot, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise OSError(f"dot did not draw it: {problem}") from None
    if done.returncode != 0:
        raise OSError(f"dot did not draw it: {done.stderr.strip()}")
    return done.stdout.rstrip("\n") + "\n"
