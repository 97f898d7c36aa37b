from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nexusform.rendering.pull_request.markdown_parts import Part, escaped, fit

PARTS = st.lists(
    st.builds(
        Part,
        st.sampled_from(["one", "two", "three"]),
        st.integers(0, 100),
        st.lists(st.text("aé\N{BOX DRAWINGS LIGHT VERTICAL}`", max_size=40), max_size=60).map(tuple),
        whole=st.booleans(),
    ),
    max_size=6,
)


@given(PARTS, st.integers(0, 5000))
def test_the_limit_holds_for_any_parts(parts: list[Part], most: int) -> None:
    assert len(fit(parts, most).encode()) <= max(most, 1)


def test_everything_stays_when_there_is_room() -> None:
    parts = [Part("a", 1, ("first",)), Part("none", 9, ()), Part("b", 2, ("second", "third"))]
    assert fit(parts, 1000) == "first\n\nsecond\nthird\n"


def test_the_least_important_is_cut_first_and_said_so() -> None:
    head = Part("head", 100, ("the verdict",), whole=True)
    useful = Part("useful", 50, tuple(f"useful {n}" for n in range(50)))
    long = Part("long", 1, tuple(f"line number {n}" for n in range(1000)))
    text = fit([head, long, useful], 3000)
    assert text.startswith("the verdict\n\nline number 0\n")
    assert "useful 49" in text
    assert "more lines were cut" in text
    shown = text.count("line number")
    assert f"_Cut to stay within 3,000 bytes: long ({shown} of 1,000 lines shown)._" in text
    shorter = fit([head, long, useful], 750)
    assert "line number" not in shorter
    assert "long (left out)" in shorter


def test_a_comment_mentions_nobody() -> None:
    assert escaped("thanks @user, @org/team") == "thanks @<span></span>user, @<span></span>org/team"
    assert escaped("mail a@example.com at 5 @ noon") == "mail a@example.com at 5 @ noon"


def test_entities_are_shown_as_they_were_written() -> None:
    assert escaped("&lt;x&gt; &#60; &amp; R & D") == "&amp;lt;x&amp;gt; &amp;\\#60; &amp;amp; R & D"
    assert escaped("<b>") == "&lt;b>"
