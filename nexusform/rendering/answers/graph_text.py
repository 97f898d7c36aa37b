"""A graph of resources as DOT or Mermaid text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# Transitive reduction is quadratic: above this many nodes every edge is drawn.
_REDUCED = 2000

Edge = tuple[str, str]


def dot_graph(nodes: Iterable[str], edges: Iterable[Edge]) -> str:
    """DOT, as OpenTofu prints it: an edge (a, b) says that a depends on b. Ends in a newline."""
    names = list(nodes)
    lines = ["digraph G {", '  rankdir = "RL";', '  node [shape = rect, fontname = "sans-serif"];']
    lines += [f"  {_dot(node)} [label={_dot(node)}];" for node in names]
    lines += [f"  {_dot(node)} -> {_dot(needed)};" for node, needed in reduced(names, edges)]
    return "\n".join([*lines, "}", ""])


def mermaid_graph(nodes: Iterable[str], edges: Iterable[Edge]) -> str:
    """A Mermaid flowchart for Markdown; ends in a newline."""
    names = list(nodes)
    number = {node: f"n{k}" for k, node in enumerate(names)}
    lines = ["flowchart RL", *(f'  {number[node]}["{_mermaid(node)}"]' for node in names)]
    lines += [f"  {number[node]} --> {number[needed]}" for node, needed in reduced(names, edges)]
    return "\n".join([*lines, ""])


def reduced(nodes: Sequence[str], edges: Iterable[Edge]) -> list[Edge]:
    """The edges without those that a longer way implies, ordered as the nodes are.

    Edges to unknown nodes and repeated ones are left out; a graph with a cycle keeps all.
    """
    position = {node: number for number, node in enumerate(nodes)}
    drawable: set[Edge] = set()
    for node, needed in edges:
        if node != needed and node in position and needed in position:
            drawable.add((node, needed))
    shown = _reduce(nodes, drawable) if len(nodes) <= _REDUCED else drawable
    return sorted(shown, key=lambda edge: (position[edge[0]], position[edge[1]]))


def _reduce(nodes: Sequence[str], edges: set[Edge]) -> set[Edge]:
    """The edges that no longer way implies."""
    import networkx as nx

    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(sorted(edges))
    if not nx.is_directed_acyclic_graph(graph):
        return edges
    return set(nx.transitive_reduction(graph).edges)


def _dot(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _mermaid(text: str) -> str:
    return text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;").replace("\n", " ")
