from __future__ import annotations

import json
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nexusform.rendering.notation.json_values import escape_texts
from nexusform.rendering.notation.markup import (
    Markup,
    build_code_element,
    build_data_script,
    build_element,
    build_svg_element,
    escape_markup,
    join_markup,
)


class MarkupReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(), st.text())
def test_no_text_becomes_markup(text: str, value: str) -> None:
    reader = MarkupReader()
    reader.feed(build_element("p", text, title=value))
    reader.close()
    assert reader.tags == ["p"]
    assert [name for name, _ in reader.attributes] == ["title"]
    assert "<" not in escape_markup(text)
    assert '"' not in escape_markup(value)


@example("\r")
@given(st.recursive(st.text(), lambda inner: st.dictionaries(st.text(), inner) | st.lists(inner)))
def test_data_round_trips_and_cannot_end_its_script(document: object) -> None:
    text = build_data_script("d", document)
    body = text.partition(">")[2].removesuffix("</script>")
    assert "<" not in body
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    assert json.loads(body) == escape_texts(document)


def test_elements_are_rendered() -> None:
    assert build_element("br") == "<br>"
    assert build_element(
        "p", "a < b", build_element("b", "c"), class_="x", hidden=None, title='"'
    ) == ('<p class="x" title="&quot;">a &lt; b<b>c</b></p>')
    assert (
        build_element("input", checked=True, disabled=False, aria_label="x")
        == '<input checked aria-label="x">'
    )
    assert build_svg_element("rect", x=1.0, y=2.5) == '<rect x="1" y="2.5"/>'
    assert join_markup(["a", None, [Markup("<i>")]], "b") == "a<i>b"
    assert unescape(escape_markup("<&\"'>")) == "<&\"'>"
    assert escape_markup("\x00\x1b[31m\ud800") == "\\u0000\\u001b[31m\\ud800"


def test_code_ending_its_element_is_rejected() -> None:
    with pytest.raises(ValueError, match="end its script"):
        build_code_element("script", "var a = '</SCRIPT>';")
