"""What a report in Markdown is made of, how it is kept under a number of bytes, and where the
configuration of a comment stands at its code host, with links to its lines.

Pieces are GitHub-flavoured: nothing that a user wrote can break out of them. Of the parts, what matters
least is cut first, and the cut is told.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from nexusform.rendering.notation.colours import harmless
from nexusform.rendering.report.code_origin import CodeOrigin
from nexusform.rendering.text.stanza_text import SIGN, own_lines
from nexusform.source import Span


def code(text: str) -> str:
    """Text as code, whatever backticks stand in it."""
    shown = harmless(text).replace("\n", " ")
    fence = "`" * (1 + _longest_run(shown))
    return f"{fence} {shown} {fence}" if len(fence) > 1 else f"`{shown}`"


def plain(text: str) -> str:
    """Text as text: what Markdown or HTML would read as a sign is escaped, and nobody is mentioned."""
    return escaped(harmless(text)).replace("\n", " ")


_CODE: Final = re.compile(r"(`[^`\n]+`)")


def prose(text: str) -> str:
    """A sentence as text; what it has between backticks stays code."""
    parts = _CODE.split(harmless(text).replace("\n", " "))
    # Splitting by a group puts what it matched at the odd places.
    parts[0::2] = [escaped(part) for part in parts[0::2]]
    parts[1::2] = [code.replace("|", "\\|") for code in parts[1::2]]
    return "".join(parts)


_SIGNS: Final = re.compile(r"([\\`*_\[\]|#])")
_ENTITY: Final = re.compile(r"&(?=#?\w+;)")
# A code host sends mail to whom a comment mentions; an e-mail address mentions nobody. Letters are those of
# ASCII to it: after any other one, or after a backtick that closes nothing, a name is a mention.
_MENTION: Final = re.compile(r"(?<!\w)@(?=\w)", re.ASCII)
# An issue or a merge request that is referred to says so to all who follow it.
_REFERENCE: Final = re.compile(r"(\\#|(?<!\w)gh-|!)(?=\d)", re.IGNORECASE | re.ASCII)
_NOTHING: Final = "<span></span>"


def escaped(text: str) -> str:
    """Text without what Markdown, HTML or a code host would read as theirs.

    An empty element parts an @ from the name after it, and `#` from a number: an escape alone is undone
    before names are looked for.
    """
    html = _ENTITY.sub("&amp;", text).replace("<", "&lt;")
    unmentioned = _MENTION.sub(f"@{_NOTHING}", _SIGNS.sub(r"\\\1", html))
    return _REFERENCE.sub(rf"\1{_NOTHING}", unmentioned)


# How lines of a comment begin that a code host, or a bot which reads there, executes.
_COMMAND: Final = re.compile(
    r"(\s*)(?=/[a-z]|@|(?:bors|homu|atlantis|jenkins|recheck|retest|rerun|rebase)\b|ok to test\b|r[?+]\s*@?|"
    r"nexusform explain\b)",
    re.IGNORECASE,
)
_FENCE: Final = re.compile(r"\s*(`{3,})")
_MARGIN: Final = "\N{BOX DRAWINGS LIGHT VERTICAL} "  # as in the boxes of the terminal


def obeyed_by_nobody(markdown: str) -> str:
    """A document of which no line begins like a command to a code host or its bots, inside of code or not.

    An empty element stands before such a line, and in a block of code a margin that can be seen.
    """
    lines: list[str] = []
    fence = ""
    for line in markdown.split("\n"):
        run = _FENCE.match(line)
        if run is not None and not fence:
            fence = run[1]
        elif run is not None and len(run[1]) >= len(fence) and line.strip() == run[1]:
            fence = ""
        command = _COMMAND.match(line)
        before = _MARGIN if fence else _NOTHING
        lines.append(f"{command[1]}{before}{line[command.end() :]}" if command is not None else line)
    return "\n".join(lines)


def fenced(body: str, language: str = "") -> str:
    """A block of code, in which everything can be seen."""
    body = harmless(body)
    fence = "`" * max(3, 1 + _longest_run(body))
    return f"{fence}{language}\n{body}\n{fence}"


def folded(summary: str, body: str, language: str = "") -> str:
    """A block of code that is folded away under its summary."""
    return details(summary, fenced(body, language))


def details(summary: str, body: str) -> str:
    """Markdown that is folded away under its summary."""
    return f"<details><summary>{plain(summary)}</summary>\n\n{body}\n\n</details>"


def headed(title: str) -> Callable[[str], str]:
    """How a part is drawn that has its title above it."""
    return lambda body: f"**{plain(title)}**\n\n{body}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], figures: int = 0) -> list[str]:
    """The lines of a table whose cells are Markdown already; the last `figures` columns are numbers."""
    rule = ["---"] * (len(heads) - figures) + ["---:"] * figures
    return [f"| {' | '.join(row)} |" for row in (heads, rule, *rows)]


def as_diff(text: str) -> str:
    """Stanzas with their signs in the first column, where GitHub colours a line; the rest stays aligned.

    The lines of a text (a manifest) are somebody's own: a dash is a sign only where stanzas put one.
    """
    return "\n".join(line if own else _diff_line(line) for line, own in own_lines(text))


def _diff_line(line: str) -> str:
    """One line with its sign in the first column, if it has one."""
    match = SIGN.match(line)
    if match is None:
        return line
    indent, sign, after = match.groups()
    replaces = "/" in after
    # GitHub colours a line that starts with "!" as changed.
    if sign == "~" or replaces:
        sign = "!"
    rest = line[match.end(1) :] if replaces else f" {line[match.end(2) :]}"
    return f"{sign}{indent[1:]}{rest}".rstrip()


# --- keeping to a number of bytes --------------------------------------------------------------

# Below this a shortened part would say nothing.
_LEAST: Final = 300


class ReportPart(Struct, frozen=True):
    """A part of a report: its lines, and how they become text.

    `importance` decides what is cut first (lowest first); 0 lines of a part are never shown. A part
    with `whole` is kept as it is or left out.
    """

    title: str
    importance: int
    lines: tuple[str, ...]
    draw: Callable[[str], str] = lambda body: body
    whole: bool = False

    @property
    def text(self) -> str:
        """The part as it stands in the report."""
        return obeyed_by_nobody(self.draw("\n".join(self.lines)))


def fit(parts: Sequence[ReportPart], most: int) -> str:
    """The parts one after the other, a blank line between, in at most `most` bytes with the newline."""
    filled = [part for part in parts if part.lines]
    texts = {id(part): part.text for part in filled}
    if _size(texts.values()) <= most:
        return "\n\n".join(texts.values()) + "\n"
    cuts: list[str] = []
    for part in sorted(filled, key=lambda part: part.importance):
        if cuts and _size([*texts.values(), _note(cuts, most)]) <= most:
            break
        # The note grows by what it will say of this part.
        longest_note = _note([*cuts, f"{part.title} ({'0' * 24} lines shown)"], most)
        over = _size([*texts.values(), longest_note]) - most
        shorter = _shortened(part, len(texts[id(part)].encode()) - over)
        if shorter is None:
            del texts[id(part)]
            cuts.append(f"{part.title} (left out)")
        else:
            texts[id(part)] = shorter.text
            shown = len(shorter.lines) - 1
            cuts.append(f"{part.title} ({shown:,} of {len(part.lines):,} lines shown)")
    return _clipped("\n\n".join([*texts.values(), _note(cuts, most)]) + "\n", most)


def _note(cuts: Sequence[str], most: int) -> str:
    return f"_Cut to stay within {most:,} bytes: {'; '.join(cuts)}._"


def _size(texts: Collection[str]) -> int:
    return sum(len(text.encode()) for text in texts) + 2 * max(len(texts) - 1, 0) + 1


def _shortened(part: ReportPart, room: int) -> ReportPart | None:
    """The part with as many of its first lines as there is room for; None where that says nothing."""
    if part.whole or room < _LEAST:
        return None
    low, high = 0, len(part.lines)
    while low < high:
        middle = (low + high + 1) // 2
        if len(_first(part, middle).text.encode()) <= room:
            low = middle
        else:
            high = middle - 1
    return _first(part, low) if low else None


def _first(part: ReportPart, count: int) -> ReportPart:
    left = len(part.lines) - count
    return replace(part, lines=(*part.lines[:count], f"... {left:,} more lines were cut"))


def _clipped(text: str, most: int) -> str:
    """The last resort, for a limit that not even the first lines keep to."""
    data = text.encode()
    if len(data) <= most:
        return text
    head = data[: max(most - 1, 0)].decode(errors="ignore")
    cut = head.rpartition("\n")[0] if "\n" in head else head
    return f"{cut}\n" if most else ""


# What may stand in the address of a link: no bracket, space or sign that would end it.
_IN_ADDRESSES: Final = "/:?#@!$&'*+,;=%~"
_COMMIT_LETTERS: Final = 12


def place_of(span: Span | None, origin: CodeOrigin) -> str:
    """`file:line` as Markdown, a link where the address is known; "" without a place."""
    return line_of(f"{span.filename}:{span.start.line}", origin) if span is not None else ""


def line_of(place: str, origin: CodeOrigin) -> str:
    """A place written as `file:line` as Markdown, a link where the address is known."""
    filename, _, line = place.rpartition(":")
    path = posixpath.normpath(posixpath.join(origin.directory, filename))
    inside = not path.startswith(("/", "..", "<"))
    if not origin.url or not inside:
        return code(place)
    address = f"{quote(origin.url.rstrip('/'), safe=_IN_ADDRESSES)}/{quote(path)}#L{line}"
    return f"[{plain(place)}]({address})"


def commit_text(origin: CodeOrigin) -> str:
    """`commit 0123456789ab`, "" when it is unknown."""
    return f"commit {code(origin.commit[:_COMMIT_LETTERS])}" if origin.commit else ""
