""""""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexusform.rendering.pull_request.markdown_parts import (
    CodeOrigin,
    Markdown,
    ReportPart,
    escape_text,
    format_line_link,
    join_parts_within_limit,
    render_diff,
)
from nexusform.rendering.report.difference_tree import ABSENT, Comparison
from nexusform.rendering.text.change_stanza_text import render_outputs
from nexusform.schemas.value_types import DYNAMIC

PARTS = st.lists(
    st.builds(
        ReportPart,
        st.sampled_from(["one", "two", "three"]),
        st.integers(0, 100),
        st.lists(st.text("aé\N{BOX DRAWINGS LIGHT VERTICAL}`", max_size=40), max_size=60).map(
            lambda lines: tuple(map(Markdown, lines))
        ),
        is_atomic=st.booleans(),
    ),
    max_size=6,
)


@given(PARTS, st.integers(0, 5000))
def test_size_limit_holds_for_any_parts(parts: list[ReportPart], most: int) -> None:
    assert len(join_parts_within_limit(parts, most).encode()) <= max(most, 1)


def test_all_parts_stay_if_they_fit() -> None:
    parts = [
        ReportPart("a", 1, (Markdown("first"),)),
        ReportPart("none", 9, ()),
        ReportPart("b", 2, (Markdown("second"), Markdown("third"))),
    ]
    assert join_parts_within_limit(parts, 1000) == "first\n\nsecond\nthird\n"


def test_least_important_part_is_cut_first_with_a_note() -> None:
    head = ReportPart("head", 100, (Markdown("the verdict"),), is_atomic=True)
    useful = ReportPart("useful", 50, tuple(Markdown(f"useful {n}") for n in range(50)))
    long = ReportPart("long", 1, tuple(Markdown(f"line number {n}") for n in range(1000)))
    text = join_parts_within_limit([head, long, useful], 3000)
    assert text.startswith("the verdict\n\nline number 0\n")
    assert "useful 49" in text
    assert "more lines were cut" in text
    shown = text.count("line number")
    assert f"_Cut to stay within 3,000 bytes: long ({shown} of 1,000 lines shown)._" in text
    shorter = join_parts_within_limit([head, long, useful], 750)
    assert "line number" not in shorter
    assert "long (left out)" in shorter


def test_comment_mentions_no_user() -> None:
    assert (
        escape_text("thanks @user, @org/team")
        == "thanks @<span></span>user, @<span></span>org/team"
    )
    # Hosts make a link of an e-mail address.
    mail = "mail a@<span></span>example.com at 5 @ noon"
    assert escape_text("mail a@example.com at 5 @ noon") == mail


def test_bare_address_is_no_link() -> None:
    assert escape_text("see https://a.b/c") == "see https<span></span>://a.b/c"
    assert escape_text("see WWW.a.b") == "see WWW<span></span>.a.b"
    assert escape_text("mailto:a") == "mailto<span></span>:a"
    assert escape_text("a: b // c") == "a: b // c"


@pytest.mark.parametrize(
    "text", ["> a", "---", "===", "- a", "+ a", "1. a", "1) a", "~~~", "# a", "```", " - a"]
)
def test_line_begins_no_block(text: str) -> None:
    assert "\\" in escape_text(text)[:2]


@pytest.mark.parametrize("text", ["3,000 VMs", "1.5 a", "a > b", "+1", "-a", ": a"])
def test_other_line_is_unchanged(text: str) -> None:
    assert escape_text(text) == text


def test_entities_are_shown_literally() -> None:
    assert (
        escape_text("&lt;x&gt; &#60; &amp; R & D")
        == "&amp;lt;x&amp;gt; &amp;\\#<span></span>60; &amp;amp; R & D"
    )
    assert escape_text("<b>") == "&lt;b>"


@pytest.mark.parametrize(
    ("origin", "place", "text"),
    [
        (CodeOrigin(), "main.nf.hcl:3", "`main.nf.hcl:3`"),
        (CodeOrigin("https://h/o/r/blob/1", "lab"), "a b.nf.hcl:3", "[a b.nf.hcl:3](https://h/o/r/blob/1/lab/a%20b.nf.hcl#L3)"),
        (CodeOrigin("https://h/r", "lab"), "../shared/m.nf.hcl:3", "[../shared/m.nf.hcl:3](https://h/r/shared/m.nf.hcl#L3)"),
        (CodeOrigin("https://h/r", "lab"), "../../outside:3", "`../../outside:3`"),
        (CodeOrigin("https://h/r"), "/etc/x:3", "`/etc/x:3`"),
        (CodeOrigin("https://h/a) [b](c"), "m:3", "[m:3](https://h/a%29%20%5Bb%5D%28c/m#L3)"),
        (CodeOrigin("https://h/r"), "](x) @you:3", "[\\](x) @<span></span>you:3](https://h/r/%5D%28x%29%20%40you#L3)"),
    ],
)  # fmt: skip
def test_line_is_linked_if_its_file_is_in_the_repository(
    origin: CodeOrigin, place: str, text: str
) -> None:
    assert format_line_link(place, origin) == text


def test_prose_keeps_only_code_spans() -> None:
    assert (
        escape_text("run `nexusform explain a_b|c` for *it*")
        == "run `nexusform explain a_b\\|c` for \\*it\\*"
    )
    assert escape_text("a ` alone") == "a \\` alone"


def _render_diff(old: object, new: object) -> str:
    node = Comparison().compare_values("m", old, new, DYNAMIC)
    return render_diff("\n".join(render_outputs([node])))


LIST = "names:\n- a\n  - b\n    - c\n      - d\n+ e\n~ f\nEOT\n"


def test_yaml_list_items_are_no_diff_signs() -> None:
    for nested in (LIST, {"deep": {"er": LIST}}, [LIST]):
        diff = _render_diff(ABSENT, nested)
        signed = [line for line in diff.split("\n") if line[:1] in set("-!~")]
        assert signed == []
        assert "- a" in diff, "as it was written"


def test_changed_lines_of_a_text_start_with_their_sign() -> None:
    diff = _render_diff(LIST, LIST.replace("  - b", "  - bee")).split("\n")
    assert [line.split() for line in diff if line.startswith("-")] == [["-", "-", "b"]]
    assert [line.split() for line in diff if line.startswith("+")] == [["+", "-", "bee"]]


def test_lines_after_a_text_start_with_their_sign() -> None:
    diff = _render_diff(ABSENT, {"a": "- x\n- y", "z": 1})
    assert [line for line in diff.split("\n") if line.startswith("+") and "z" in line]
