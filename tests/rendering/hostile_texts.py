"""Texts of others with every effect that a format could give them, and reports that contain them.

A report with such a text in one field is compared with one that has a word there: both have the
same blocks, links, elements, rows and keys in each format.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from html.parser import HTMLParser
from typing import Any, Final

from markdown_it import MarkdownIt
from msgspec import Struct
from msgspec.structs import replace

WORD: Final = "FORGED"
UNSEEN: Final = "\x1b[2J\x07\r\x85\xad\u200b\u2028\u202e\u3164\ufeff\ufffe\U000e0041"
_STARTS: Final = ("- ", "# ", "```", "> ", "1. ", "1) ", "| ", "~~~", "+ ", "/approve ")
_INLINE: Final = (
    "<script>x</script><!-- </details> --> &amp; </title>",
    "https://example.org/x www.example.org a@example.org [x](y) ![x](y) <https://example.org>",
    "**x** _x_ `x` ``x $x$ ~~x~~ | x \\",
    "@octocat @org/team owner/repo#1 GH-7 !3 #1",
    "---",
    "===",
)
HOSTILE: Final = "\n".join(
    (WORD, *(f"{start}{WORD}" for start in _STARTS), "", *_INLINE, UNSEEN, WORD, "::error::x")
)
# A text with as many lines, and none of the effects.
HARMLESS: Final = "\n".join(line and WORD for line in HOSTILE.split("\n"))
# A line of a comment may consist of a text that begins with them.
BEGINNINGS: Final = (*(f"{start}{WORD}" for start in _STARTS), "---", "===", ":-:")
# Signs of changes are ours.
_LINE_STARTS: Final = (*(f"{start}{WORD}" for start in _STARTS if start not in "+ - "), "::error::")
OURS: Final = ("Item.symbol", "ActionText.action", "CodeBlock.language", "Section.name")
_UNSEEN: Final = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{UNSEEN[6:]}]")
_REFERENCE: Final = re.compile(r"(?<!\w)@\w|(?<![\w/])(?:[#!]\d|gh-\d)|/repo#\d", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"https?://\w|www\.\w|\w@example", re.IGNORECASE)
_COMMAND: Final = re.compile(r"(?m)^\s*/approve")
# Parts of a sentence in backticks are code, and a word in bold may not look so beside a space.
_HARMLESS_TAGS: Final = ("<span>", "</span>", "<code>", "</code>")
_HARMLESS: Final = ("code_inline", "strong_open", "strong_close")
_PARSER: Final = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def replace_each_text(record: Any, text: str, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path of each text in a record, and the record with another text there.

    Fields of `OURS` are words of the program.
    """
    if type(record) is str and record and not path.endswith(OURS):
        yield path, text
    parts: list[tuple[str, Any, Callable[[Any], Any]]] = []
    if isinstance(record, Struct):
        for name in record.__struct_fields__:
            part_path = f"{path} {type(record).__name__}.{name}".strip()
            parts.append((part_path, getattr(record, name), partial(_replace_field, record, name)))
    elif isinstance(record, tuple):
        parts += [
            (f"{path}[{at}]", part, partial(_replace_item, record, at))
            for at, part in enumerate(record)
        ]
    elif isinstance(record, Mapping):
        parts += [
            (f"{path}[{key}]", part, partial(_replace_member, record, key))
            for key, part in record.items()
        ]
    for part_path, part, change in parts:
        for text_path, changed in replace_each_text(part, text, part_path):
            yield text_path, change(changed)


def _replace_field(record: Any, name: str, part: Any) -> Any:
    return replace(record, **{name: part})


def _replace_item(record: tuple[Any, ...], position: int, part: Any) -> tuple[Any, ...]:
    return (*record[:position], part, *record[position + 1 :])


def _replace_member(record: Mapping[Any, Any], key: Any, part: Any) -> Mapping[Any, Any]:
    return {**record, key: part}


def outline_markdown(text: str) -> list[str]:
    """Return the blocks and inline elements of Markdown, without its words.

    A reference, a bare address and a command are elements, too: code hosts give them an effect.
    """
    outline: list[str] = []
    for token in _PARSER.parse(text):
        outline.append(f"{token.level} {token.type} {token.tag} {token.markup and token.info}")
        if token.type == "html_block":
            outline += outline_markup(token.content)
        for child in token.children or ():
            if child.type == "text":
                for pattern in (_REFERENCE, _ADDRESS):
                    outline += pattern.findall(child.content)
            elif child.type == "html_inline" and child.content not in _HARMLESS_TAGS:
                outline.append(child.content)
            elif child.type not in ("html_inline", "softbreak", *_HARMLESS):
                outline.append(f"{child.type} {child.attrs}")
    return [*outline, *_COMMAND.findall(text)]


class _Elements(HTMLParser):
    """The tags of a page, its comments and attribute names."""

    def __init__(self) -> None:
        super().__init__()
        self.outline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.outline.append(f"{tag} {[name for name, _ in attrs]}")

    def handle_comment(self, data: str) -> None:
        self.outline.append(data)


def outline_markup(text: str) -> list[str]:
    """Return the elements of a page or XML document, and the shape of the data in it.

    Line-break opportunities and code depend on words.
    """
    parser = _Elements()
    parser.feed(text)
    scripts = re.findall(r'(?s)<script type="application/json"[^>]*>(.*?)</script>', text)
    shapes = [part for script in scripts for part in outline_json(script)]
    return [
        tag for tag in parser.outline if not tag.startswith(("wbr ", "code ", "span []"))
    ] + shapes


def outline_json(text: str) -> list[str]:
    """Return the keys and types of a JSON document, in order."""

    def list_shape(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            for key, part in value.items():
                yield key if WORD not in key else WORD
                yield from list_shape(part)
        elif isinstance(value, list):
            for part in value:
                yield from list_shape(part)
        else:
            yield type(value).__name__

    return list(list_shape(json.loads(text)))


def outline_csv(text: str) -> list[str]:
    """Return the number of cells of each row, and cells that a spreadsheet would compute."""
    rows = list(csv.reader(io.StringIO(text, newline="")))
    return [f"{len(row)}" for row in rows] + [
        cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@"))
    ]


def outline_text(text: str) -> list[str]:
    """Return the lines of a terminal that begin as a line of the hostile text.

    Boxes of errors have several lines of such a text, each behind their margin, and so have values
    of several lines.
    """
    text = re.sub(r"(?ms)<<-EOT.*?^[ +~-]*EOT$", "", text)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("│")]
    return [start for line in lines for start in _LINE_STARTS if line.strip().startswith(start)]


def outline_progress(text: str) -> list[str]:
    """Return the lines of an apply that begin as a line of the hostile text, not indented."""
    starts = (WORD, *_LINE_STARTS)
    return [start for line in text.splitlines() for start in starts if line.startswith(start)]


OUTLINES: Final[Mapping[str, Callable[[str], list[str]]]] = {
    "text": outline_text,
    "markdown": outline_markdown,
    "html": outline_markup,
    "svg": outline_markup,
    "junit": outline_markup,
    "json": outline_json,
    "sarif": outline_json,
    "csv": outline_csv,
    "screen": outline_text,
    "progress": outline_progress,
    "events": outline_json,
}


def find_effects(name: str, text: str, expected: str) -> list[str]:
    """Return the effects of a hostile text in a document of a format; [] without any.

    The `expected` document has a word in its place.
    """
    effects = [f"{match[0]!a}" for match in _UNSEEN.finditer(text.replace("\r\n", "\n"))]
    outline = OUTLINES[name](text)
    expected_outline = OUTLINES[name](expected)
    if outline != expected_outline:
        missing = [part for part in expected_outline if part not in outline]
        more = [part for part in outline if part not in expected_outline]
        effects.append(f"more {more[:4]} missing {missing[:4]} of {len(expected_outline)}")
    return effects
