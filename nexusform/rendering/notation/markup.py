"""HTML and SVG built from parts, everything escaped in this one place.

Text is escaped when it is put into an element; only `Markup`, which this module alone makes, goes
in as it is. Attribute names are ours, their values anybody's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from nexusform.plain_data import is_fraction
from nexusform.rendering.notation.colours import harmless
from nexusform.rendering.notation.json_values import encoded, spelled_out


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Part: TypeAlias = "str | Markup | Iterable[Part] | None"

# Elements of HTML that have no content and no end tag.
_VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})


def escaped(text: str) -> str:
    """Text for element content and attribute values."""
    plain = harmless(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace('"', "&quot;").replace("'", "&#39;")


def element(name: str, /, *parts: Part, **attributes: Any) -> Markup:
    """An element of HTML. A trailing underscore of an attribute's name is left out, others become
    dashes (`class_`, `aria_label`); None and False leave an attribute out, True gives it no value.
    """
    head = f"<{name}{_attributes(attributes)}>"
    return Markup(head if name in _VOID else f"{head}{joined(*parts)}</{name}>")


def shape(name: str, /, *parts: Part, **attributes: Any) -> Markup:
    """An element of SVG, closed in itself when it is empty."""
    head = f"<{name}{_attributes(attributes)}"
    inner = joined(*parts)
    return Markup(f"{head}>{inner}</{name}>" if inner else f"{head}/>")


def joined(*parts: Part) -> Markup:
    """Parts one after the other, text escaped."""
    return Markup("".join(_texts(parts)))


def _texts(parts: Iterable[Part]) -> Iterable[str]:
    """The text of every part, escaped where it is not markup already."""
    for part in parts:
        if isinstance(part, Markup):
            yield str(part)
        elif isinstance(part, str):
            yield escaped(part)
        elif part is not None:
            yield from _texts(part)


def _attributes(attributes: dict[str, Any]) -> str:
    """` name="value"` for every attribute that has one."""
    texts = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        written = name.rstrip("_").replace("_", "-")
        texts.append(f" {written}" if value is True else f' {written}="{escaped(_text(value))}"')
    return "".join(texts)


def _text(value: Any) -> str:
    """A value as an attribute has it."""
    # 12.0 and 12 are drawn alike.
    return f"{float(value):g}" if isinstance(value, float) or is_fraction(value) else str(value)


def breakable(text: str) -> Markup:
    """A name that may break after its dots and underscores, and nowhere else where there is room."""
    parts = re.split(r"(?<=[._\[])(?=.)", text)
    return Markup(element("wbr").join(escaped(part) for part in parts))


def data_script(identifier: str, document: Any) -> Markup:
    """A document as JSON inside a page, unable to end its script element."""
    text = encoded(document).decode("utf-8", errors="replace")
    if "\\" in text:  # what the elements of the page spell out, too
        text = encoded(spelled_out(document)).decode("utf-8", errors="replace")
    # Inside JSON a "<" stands in strings only, where the escape means the same.
    text = text.replace("<", "\\u003c")
    return Markup(f'<script type="application/json" id="{escaped(identifier)}">{text}</script>')


def trusted_code(name: str, text: str) -> Markup:
    """Our own style sheet or script as an element (`style`, `script`)."""
    if f"</{name}" in text.lower():
        raise ValueError(f"the text would end its {name} element")
    return Markup(f"<{name}>\n{text}</{name}>")
