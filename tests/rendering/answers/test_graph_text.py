from __future__ import annotations

from nexusform.rendering.answers.graph_text import reduce_edges, render_dot, render_mermaid

NODES = ["nexus_site.lab", 'nexus_rack.r["a"]', "nexus_kubernetes_cluster.c"]
EDGES = [
    (NODES[1], NODES[0]),
    (NODES[2], NODES[1]),
    (NODES[2], NODES[0]),
    (NODES[2], NODES[0]),
    (NODES[0], "unknown"),
]


def test_dot_graph_is_rendered() -> None:
    assert render_dot(NODES, EDGES) == (
        "digraph G {\n"
        '  rankdir = "RL";\n'
        '  node [shape = rect, fontname = "sans-serif"];\n'
        '  "nexus_site.lab" [label="nexus_site.lab"];\n'
        '  "nexus_rack.r[\\"a\\"]" [label="nexus_rack.r[\\"a\\"]"];\n'
        '  "nexus_kubernetes_cluster.c" [label="nexus_kubernetes_cluster.c"];\n'
        '  "nexus_rack.r[\\"a\\"]" -> "nexus_site.lab";\n'
        '  "nexus_kubernetes_cluster.c" -> "nexus_rack.r[\\"a\\"]";\n'
        "}\n"
    )


def test_mermaid_graph_is_rendered() -> None:
    assert render_mermaid(NODES, EDGES) == (
        "flowchart RL\n"
        '  n0["nexus_site.lab"]\n'
        '  n1["nexus_rack.r[#quot;a#quot;]"]\n'
        '  n2["nexus_kubernetes_cluster.c"]\n'
        "  n1 --> n0\n"
        "  n2 --> n1\n"
    )


def test_cycle_keeps_all_its_edges() -> None:
    edges = [("a", "b"), ("b", "c"), ("c", "a")]
    assert reduce_edges(["a", "b", "c"], edges) == [("a", "b"), ("b", "c"), ("c", "a")]
