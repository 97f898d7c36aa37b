from __future__ import annotations

from nexusform.rendering.notation.colours import PLAIN
from nexusform.rendering.report.difference_tree import Comparison
from nexusform.rendering.text.change_stanza_text import render_short_outputs
from nexusform.schemas.value_types import DYNAMIC


def test_hidden_elements_of_long_list_are_counted() -> None:
    old = [f"name-{number}" for number in range(40)]
    new = ["first", *old[1:-1], "last"]
    node = Comparison().compare_values("names", old, new, DYNAMIC)
    assert render_short_outputs([node], 80, PLAIN) == [
        "  ~ names = [40 elements, 2 of them new, 2 removed]"
    ]
