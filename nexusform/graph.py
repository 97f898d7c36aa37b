"""Dependency graphs: total order, and who is in a cycle. Nodes are any hashable values; `needs`
maps a node to the nodes it waits for. networkx holds the graph; it is imported when used.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def ordered(needs: Mapping[N, Iterable[N]], position: Mapping[N, int]) -> list[N]:
    """Every node after all it needs; among those that are ready, the lowest position first.

    `needs` must be free of cycles (see `cycles`) and name only its own keys.
    """
    import networkx as nx

    graph: nx.DiGraph[N] = nx.DiGraph()
    graph.add_nodes_from(needs)
    graph.add_edges_from((need, node) for node, its_needs in needs.items() for need in its_needs)
    return list(nx.lexicographical_topological_sort(graph, key=position.__getitem__))


def cycles(needs: Mapping[N, Iterable[N]], position: Mapping[N, int]) -> list[tuple[N, ...]]:
    """One closed walk for each knot of nodes that need each other, each starting at its member of
    lowest position; empty when there is none.
    """
    import networkx as nx

    graph: nx.DiGraph[N] = nx.DiGraph()
    graph.add_nodes_from(needs)
    graph.add_edges_from((node, need) for node, its_needs in needs.items() for need in its_needs)
    walks = []
    for knot in nx.strongly_connected_components(graph):
        first = min(knot, key=position.__getitem__)
        if len(knot) == 1 and not graph.has_edge(first, first):
            continue
        part = graph.subgraph(sorted(knot, key=position.__getitem__))
        walks.append(tuple(edge[0] for edge in nx.find_cycle(part, first)))
    return sorted(walks, key=lambda walk: position[walk[0]])


def reached(start: Iterable[N], next_to: Callable[[N], Iterable[N]]) -> set[N]:
    """These nodes and all that edges lead to from them; `next_to` gives where a node's edges lead."""
    seen: set[N] = set()
    stack = list(start)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += [other for other in next_to(node) if other not in seen]
    return seen
