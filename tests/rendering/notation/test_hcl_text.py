from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexusform.configuration.static_arguments import EMPTY_SCOPE
from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.json_data.plain_data import convert_to_plain
from nexusform.language.evaluator import evaluate_expression
from nexusform.language.parser import parse_expression
from nexusform.rendering.notation.hcl_text import (
    format_attribute_name,
    format_scalar,
    quote_string,
    render_hcl_value,
)
from nexusform.values.typed_value import UNKNOWN


@pytest.mark.parametrize(
    ("plain", "text"),
    [
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (3.0, "3"),
        (0.25, "0.25"),
        (UNKNOWN, "(known after apply)"),
        ('a "b" \\ \t', '"a \\"b\\" \\\\ \\t"'),
        ("${x} %{if}", '"$${x} %%{if}"'),
        ("\x1b[0m", '"\\u001b[0m"'),
    ],
)
def test_scalars_are_rendered(plain: object, text: str) -> None:
    assert format_scalar(plain) == text


def test_names_are_quoted_only_if_needed() -> None:
    assert [format_attribute_name(n) for n in ("a-b", "a b", "1a", "größe")] == [
        "a-b",
        '"a b"',
        '"1a"',
        "größe",
    ]


def test_heredoc_marker_never_ends_the_text_early() -> None:
    assert render_hcl_value("a\nEOT\nb") == "<<-EOT_\na\nEOT\nb\nEOT_"


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.text(st.characters(codec="ascii"), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab-$%{ ", max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(plain_values.filter(lambda v: "\n" not in repr(v).replace("\\n", "\n")))
def test_values_without_line_breaks_round_trip(plain: object) -> None:
    expression, problems = parse_expression(SourceFile("t", render_hcl_value(plain)))
    assert not problems
    assert expression is not None
    value, problems = evaluate_expression(expression, EMPTY_SCOPE)
    assert not problems
    assert convert_to_plain(value)[0] == plain


def test_quoted_text_has_no_control_characters() -> None:
    assert quote_string("a\x00\x85\u202e\n") == '"a\\u0000\\u0085\\u202e\\n"'
