from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from nexusform.workflow.plan_files.resource_graph import render_dot_svg
from tests.programs import find_program

needs_graphviz = pytest.mark.skipif(
    find_program("dot") is None,
    reason="graphviz is not installed (Debian: apt-get install graphviz)",
)


@needs_graphviz
def test_graphviz_renders_svg() -> None:
    root = ET.fromstring(render_dot_svg('digraph { "nexus_rack.a" -> "nexus_site.s" }'))
    assert root.tag.endswith("svg")
    assert "nexus_rack.a" in [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]


@needs_graphviz
def test_graphviz_error_is_reported() -> None:
    with pytest.raises(OSError, match=r"dot did not draw it: .*syntax error"):
        render_dot_svg("digraph { -> }")


def test_missing_graphviz_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(OSError, match="graphviz is not installed"):
        render_dot_svg("digraph {}")
