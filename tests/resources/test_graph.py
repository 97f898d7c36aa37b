"""Tests of order and cycles of dependency graphs, compared with networkx."""

from __future__ import annotations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from nexusform.resources.graph import find_cycles, sort_topologically


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[int, list[int]], dict[int, int]]:
    """Return dependencies, with and without cycles, and a position per node."""
    nodes = draw(st.permutations(range(draw(st.integers(0, 9)))))
    highest = draw(st.booleans())
    dependencies = {}
    for node in nodes:
        candidates = [other for other in nodes if other < node or not highest]
        dependencies[node] = (
            draw(st.lists(st.sampled_from(candidates), max_size=3)) if candidates else []
        )
    return dependencies, dict(zip(nodes, draw(st.permutations(range(len(nodes)))), strict=True))


@given(graphs())
def test_order_equals_the_lexicographical_one_of_networkx(
    graph: tuple[dict[int, list[int]], dict[int, int]],
) -> None:
    dependencies, position = graph
    peer: nx.DiGraph[int] = nx.DiGraph()
    peer.add_nodes_from(dependencies)
    peer.add_edges_from((need, node) for node, needs in dependencies.items() for need in needs)
    assert bool(find_cycles(dependencies, position)) == (not nx.is_directed_acyclic_graph(peer))
    if nx.is_directed_acyclic_graph(peer):
        expected = list(nx.lexicographical_topological_sort(peer, key=position.__getitem__))
        assert sort_topologically(dependencies, position) == expected
