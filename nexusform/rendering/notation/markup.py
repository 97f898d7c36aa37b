"""Builder of escaped HTML and SVG.

Text is escaped when it becomes part of an element; only `Markup` is used unchanged. Attribute names
are trusted, attribute values are not.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from nexusform.diagnostics.names import escape_control_characters
from nexusform.json_data.plain_data import is_fraction
from nexusform.rendering.notation.json_values import encode_value, escape_texts


class Markup(str):
    """Text that is already markup."""

    __slots__ = ()


Part: TypeAlias = "str | Markup | Iterable[Part] | None"

# HTML elements without content and end tag.
_VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})


def escape_markup(text: str) -> str:
    """Escape a text for element content and attribute values."""
    plain = (
        escape_control_characters(text)
        .replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
    )
    return plain.replace('"', "&quot;").replace("'", "&#39;")


def build_element(name: str, /, *parts: Part, **attributes: Any) -> Markup:
    """Build an HTML element.

    In attribute names a trailing underscore is dropped and others become dashes (`class_`,
    `aria_label`). None and False omit an attribute, True gives it no value.
    """
    head = f"<{name}{_render_attributes(attributes)}>"
    return Markup(head if name in _VOID else f"{head}{join_markup(*parts)}</{name}>")


def build_svg_element(name: str, /, *parts: Part, **attributes: Any) -> Markup:
    """Build an SVG element, self-closed if empty."""
    head = f"<{name}{_render_attributes(attributes)}"
    inner = join_markup(*parts)
    return Markup(f"{head}>{inner}</{name}>" if inner else f"{head}/>")


def join_markup(*parts: Part) -> Markup:
    """Join parts and escape their text."""
    return Markup("".join(_escape_parts(parts)))


def _escape_parts(parts: Iterable[Part]) -> Iterable[str]:
    """Yield the text of every part, escaped unless it is markup.

    None is empty, and lists are flattened.
    """
    for part in parts:
        if isinstance(part, Markup):
            yield str(part)
        elif isinstance(part, str):
            yield escape_markup(part)
        elif part is not None:
            yield from _escape_parts(part)


def _render_attributes(attributes: dict[str, Any]) -> str:
    """Render ` name="value"` per attribute (`class_` is class, a_b a-b).

    A value of True gives ` name`; None and False give nothing.
    """
    texts = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        assignment = ""
        if value is not True:
            is_fractional = isinstance(value, float) or is_fraction(value)
            # 12.0 and 12 give the same text.
            text = f"{float(value):g}" if is_fractional else str(value)
            assignment = f'="{escape_markup(text)}"'
        texts.append(f" {name.rstrip('_').replace('_', '-')}{assignment}")
    return "".join(texts)


def build_breakable_name(text: str) -> Markup:
    """Build a name with line-break opportunities (`<wbr>`).

    Lines break only after dots, underscores and opening brackets.
    """
    parts = re.split(r"(?<=[._\[])(?=.)", text)
    return Markup(build_element("wbr").join(map(escape_markup, parts)))


def build_data_script(identifier: str, document: Any) -> Markup:
    """Build a script element with a JSON document that cannot end the element."""
    text = encode_value(document).decode("utf-8", errors="replace")
    # Invisible characters are shown by their code points, as in the elements of the page.
    if "\\" in text:
        text = encode_value(escape_texts(document)).decode("utf-8", errors="replace")
    # JSON has "<" in strings only, and there the escape has the same meaning.
    text = text.replace("<", "\\u003c")
    return Markup(
        f'<script type="application/json" id="{escape_markup(identifier)}">{text}</script>'
    )


def build_code_element(name: str, text: str) -> Markup:
    """Build a `style` or `script` element of our own code."""
    if f"</{name}" in text.lower():
        raise ValueError(f"the text would end its {name} element")
    return Markup(f"<{name}>\n{text}</{name}>")
