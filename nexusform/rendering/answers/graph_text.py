"""DOT and Mermaid text of a resource graph."""

from collections.abc import Iterable, Sequence

# Transitive reduction is quadratic, so larger graphs keep every edge.
_MAX_REDUCED_NODES = 2000

Edge = tuple[str, str]


def render_dot(nodes: Iterable[str], edges: Iterable[Edge]) -> str:
    """Render DOT as OpenTofu prints it, with a final newline.

    An edge (a, b) means that a depends on b.
    """
    names = list(nodes)
    lines = ["digraph G {", '  rankdir = "RL";', '  node [shape = rect, fontname = "sans-serif"];']
    lines += [f"  {_quote_dot(node)} [label={_quote_dot(node)}];" for node in names]
    lines += [
        f"  {_quote_dot(node)} -> {_quote_dot(dependency)};"
        for node, dependency in reduce_edges(names, edges)
    ]
    return "\n".join([*lines, "}", ""])


def render_mermaid(nodes: Iterable[str], edges: Iterable[Edge]) -> str:
    """Render a Mermaid flowchart for Markdown, with a final newline."""
    names = list(nodes)
    # Short ids, by name.
    number = {node: f"n{k}" for k, node in enumerate(names)}
    lines = ["flowchart RL"]
    for node in names:
        label = (
            node.replace("&", "#amp;")
            .replace('"', "#quot;")
            .replace("<", "#lt;")
            .replace("\n", " ")
        )
        lines.append(f'  {number[node]}["{label}"]')
    lines += [
        f"  {number[node]} --> {number[dependency]}"
        for node, dependency in reduce_edges(names, edges)
    ]
    return "\n".join([*lines, ""])


def reduce_edges(nodes: Sequence[str], edges: Iterable[Edge]) -> list[Edge]:
    """Return the edges not implied by longer paths, in node order.

    With a cycle, or in a large graph, return all.
    """
    position = {node: number for number, node in enumerate(nodes)}
    # Omit edges from a node to itself, and those with an end outside of `nodes`.
    drawable = {edge for edge in edges if len(set(edge)) == 2 and position.keys() >= set(edge)}
    visible_edges = drawable
    if len(nodes) <= _MAX_REDUCED_NODES:
        import networkx as nx

        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(nodes)
        graph.add_edges_from(sorted(drawable))
        # The graph has no cycle.
        if nx.is_directed_acyclic_graph(graph):
            visible_edges = set(nx.transitive_reduction(graph).edges)
    return sorted(visible_edges, key=lambda edge: (position[edge[0]], position[edge[1]]))


def _quote_dot(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
