from __future__ import annotations

from nexusform.rendering.notation.colours import PLAIN
from nexusform.rendering.report.difference_tree import ABSENT, Comparison
from nexusform.rendering.text.change_stanza_text import render_short_outputs
from nexusform.schemas.value_types import DYNAMIC


def test_hidden_elements_of_long_list_are_counted() -> None:
    old = [f"name-{number}" for number in range(40)]
    new = ["first", *old[1:-1], "last"]
    node = Comparison().compare_values("names", old, new, DYNAMIC)
    assert render_short_outputs([node], 80, PLAIN) == [
        "  ~ names = [40 elements, 2 of them new, 2 removed]",
        '      - "name-0",',
        '      + "first",',
        '      - "name-39",',
        '      + "last",',
    ]


def test_first_changed_lines_of_long_update_are_shown() -> None:
    old = {f"k{number}": number for number in range(9)}
    new = {name: number + 1 for name, number in old.items()}
    node = Comparison().compare_values("m", old, new, DYNAMIC)
    assert render_short_outputs([node], 80, PLAIN) == [
        "  ~ m = {9 keys}",
        "      ~ k0 = 0 -> 1",
        "      ~ k1 = 1 -> 2",
        "      ~ k2 = 2 -> 3",
        "      ~ k3 = 3 -> 4",
        "        and 5 more lines; -details shows each.",
    ]
    # Too wide for the screen.
    assert render_short_outputs([node], 12, PLAIN) == ["  ~ m = {9 keys}"]
    # All parts of a new value are new.
    node = Comparison().compare_values("m", ABSENT, new, DYNAMIC)
    assert render_short_outputs([node], 80, PLAIN) == ["  + m = {9 keys}"]


def test_short_side_of_a_changed_type_is_shown() -> None:
    long_value = dict.fromkeys("abcde", 1)
    for old, new, text in (
        (long_value, "x", '(a long value) -> "x"'),
        ("x", long_value, '"x" -> (a long value)'),
        (["a", "b"], ["a", "b", "c"], None),
    ):
        node = Comparison().compare_values("o", old, new, DYNAMIC)
        lines = render_short_outputs([node], 80, PLAIN)
        if text is None:
            assert '      + "c",' in lines
        else:
            assert lines == [f"  ~ o = {text}"]


def test_changed_long_text_shows_the_difference() -> None:
    old = "https://registry.example/charts/core?version=1.2.3&channel=stable&region=westeurope"
    for new, lines in (
        (
            old.replace("1.2.3", "1.3.0"),
            [
                "      - ...gistry.example/charts/core?version=1.2.3&channel=stable&re...",
                "      + ...gistry.example/charts/core?version=1.3.0&channel=stable&re...",
            ],
        ),
        (
            old.replace("westeurope", "uksouth"),
            [
                '      - ...e/charts/core?version=1.2.3&channel=stable&region=westeurope"',
                '      + ...mple/charts/core?version=1.2.3&channel=stable&region=uksouth"',
            ],
        ),
    ):
        node = Comparison().compare_values("o", old, new, DYNAMIC)
        shown = render_short_outputs([node], 72, PLAIN)
        assert shown[0] == "  ~ o = (a long value)"
        assert all(len(line) <= 72 for line in shown)
        assert shown[1:] == lines
    # A new value has no other side.
    node = Comparison().compare_values("o", ABSENT, old, DYNAMIC)
    assert render_short_outputs([node], 72, PLAIN) == ["  + o = (a long value)"]


def test_newline_at_the_end_begins_no_line() -> None:
    for text in ("a\nb\nc\nd", "a\nb\nc\nd\n"):
        node = Comparison().compare_values("o", ABSENT, text, DYNAMIC)
        assert render_short_outputs([node], 80, PLAIN) == ["  + o = (4 lines)"]
