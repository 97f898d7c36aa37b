"""Dependency graphs: topological order, and cycles.

Nodes are any hashable values; `dependencies` maps a node to the nodes it depends on. networkx names
cycles; it is imported only when there is one.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import Final, TypeVar

N = TypeVar("N", bound=Hashable)
# Nodes that an apply works on at a time, unless its -parallelism differs.
DEFAULT_PARALLELISM: Final = 10


def sort_topologically(dependencies: Mapping[N, Iterable[N]], position: Mapping[N, int]) -> list[N]:
    """Sort every node after its dependencies; among ready nodes, the lowest position first.

    `dependencies` must refer only to its own keys, and each node needs a position of its own. Nodes
    of cycles and their dependents are left out.
    """
    # Numbers of dependencies without a place in the order so far.
    unmet_counts: dict[N, int] = {}
    dependents: dict[N, list[N]] = {}
    for node, node_dependencies in dependencies.items():
        unique_dependencies = set(node_dependencies)
        unmet_counts[node] = len(unique_dependencies)
        for dependency in unique_dependencies:
            dependents.setdefault(dependency, []).append(node)
    by_position = {position[node]: node for node in dependencies}
    ready = [place for place, node in by_position.items() if not unmet_counts[node]]  # positions
    heapify(ready)
    order: list[N] = []
    while ready:
        node = by_position[heappop(ready)]
        order.append(node)
        for dependent in dependents.get(node, ()):
            unmet_counts[dependent] -= 1
            if not unmet_counts[dependent]:
                heappush(ready, position[dependent])
    return order


def find_cycles(
    dependencies: Mapping[N, Iterable[N]], position: Mapping[N, int]
) -> list[tuple[N, ...]]:
    """Find one cycle per strongly connected component.

    It starts at the component's member of lowest position.
    """
    if len(sort_topologically(dependencies, position)) == len(dependencies):
        # All were sorted.
        return []
    import networkx as nx

    graph: nx.DiGraph[N] = nx.DiGraph()
    graph.add_nodes_from(dependencies)
    graph.add_edges_from(
        (node, dependency)
        for node, node_dependencies in dependencies.items()
        for dependency in node_dependencies
    )
    found_cycles = []
    for component in nx.strongly_connected_components(graph):
        members = sorted(component, key=position.__getitem__)
        first = members[0]
        if len(members) == 1 and not graph.has_edge(first, first):
            # A node alone forms a cycle only with itself.
            continue
        found_cycles.append(
            tuple(start for start, _ in nx.find_cycle(graph.subgraph(members), first))
        )
    return sorted(found_cycles, key=lambda cycle: position[cycle[0]])


def find_reachable(start: Iterable[N], list_neighbours: Callable[[N], Iterable[N]]) -> set[N]:
    """Find the `start` nodes and all reachable ones.

    `list_neighbours` returns the targets of a node's edges.
    """
    visited: set[N] = set()
    stack = list(start)
    while stack:
        node = stack.pop()
        if node not in visited:
            visited.add(node)
            # Visited ones are skipped above.
            stack += list_neighbours(node)
    return visited
