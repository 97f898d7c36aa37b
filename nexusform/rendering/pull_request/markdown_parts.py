"""Building blocks of Markdown reports, their size limit, and links to source lines.

The links lead to the code host. User text cannot break out of the GitHub-flavoured pieces. The
least important parts are cut first, with a note.
"""

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.names import escape_control_characters, escape_name
from nexusform.diagnostics.phrases import enclose
from nexusform.rendering.report.decision_lines import COUNT_LABEL, DecisionLine
from nexusform.rendering.report.report_tree import CodeOrigin
from nexusform.rendering.text.change_stanza_text import SIGN_PATTERN, mark_text_lines


class Markdown(str):
    """Text that is already Markdown."""

    __slots__ = ()


def format_code(text: str) -> Markdown:
    """Format text as inline code; "" for an empty text."""
    name = escape_name(text)
    # Backticks around others could join those of a neighbour.
    if "`" in name:
        return Markdown(f"<code>{_escape_outside_of_code(name)}</code>")
    return Markdown(enclose("`", name, "`"))


_MAX_LINE_LENGTH: Final = 700
_CODE: Final = re.compile(r"(`[^`\n]+`)")
_MARKDOWN_SIGNS: Final = re.compile(r"([\\`*_\[\]|#~$])")
_ENTITY: Final = re.compile(r"&(?=#?\w+;)")
# A code host sends mail to users mentioned in a comment, and makes a link of an e-mail address.
_MENTION: Final = re.compile(r"@(?=\w)")
# A code host makes a link of a bare address.
_ADDRESS: Final = re.compile(r"(?<=\w)(?=://)|\bwww(?=\.)|\b(?:mailto|xmpp)(?=:)", re.IGNORECASE)
# A line that begins so is a quote, a list, a rule, the rule below a heading or that of a table.
_BLOCK_START: Final = re.compile(r"^(\s*\d*)(?=>|[-+](?!\S)|(?<=\d)[.)](?!\S)|-+\s*$|=+\s*$|:?-+:)")
# A reference to an issue or merge request notifies its subscribers.
_REFERENCE: Final = re.compile(r"(#|(?<!\w)gh-|!)(?=\d)", re.IGNORECASE | re.ASCII)
_SEPARATOR: Final = "<span></span>"


def escape_text(text: str) -> Markdown:
    """Return Markdown as it is, and a text without effect at a code host, on any line.

    Its parts in backticks are code. A backslash precedes each Markdown sign, and a sign that would
    begin a block. An empty element separates an @ from its name, `#` from its number and `https`
    from its address, because hosts undo escapes before they look for names and addresses.
    """
    if isinstance(text, Markdown):
        return text
    parts = _CODE.split(escape_name(text))
    # Splitting by a group gives the matches at odd positions.
    parts[0::2] = list(map(_escape_outside_of_code, parts[0::2]))
    parts[1::2] = [code.replace("|", "\\|") for code in parts[1::2]]
    return Markdown(_BLOCK_START.sub(r"\1\\", "".join(parts)))


def _escape_outside_of_code(text: str) -> str:
    return _disable_references(_MARKDOWN_SIGNS.sub(r"\\\1", _escape_html(text)))


def _escape_html(text: str) -> str:
    return _ENTITY.sub("&amp;", text).replace("<", "&lt;")


def _disable_references(text: str) -> str:
    """Separate what a code host would make a link, or a message to others."""
    unmentioned = _MENTION.sub(f"@{_SEPARATOR}", text)
    unlinked = _ADDRESS.sub(rf"\g<0>{_SEPARATOR}", unmentioned)
    return _REFERENCE.sub(rf"\1{_SEPARATOR}", unlinked)


def format_summary(text: str) -> Markdown:
    """Format the start of a folded part with its visible text.

    Code hosts read it as HTML, where signs of Markdown have no effect.
    """
    summary = _disable_references(_escape_html(escape_name(text)))
    return Markdown(f"<details><summary>{summary}</summary>")


def fill_markdown(template: str, *texts: str) -> Markdown:
    """Fill each `{}` of a template in Markdown with a text, escaped if it is not Markdown."""
    return Markdown(template.format(*map(escape_text, texts)))


def emphasize(text: str) -> Markdown:
    """Return a text in bold, "" for an empty text."""
    return Markdown(enclose("**", escape_text(text), "**"))


def join_markdown(texts: Iterable[str], separator: str = "") -> Markdown:
    """Join texts by a separator in Markdown; they are escaped if they are not Markdown."""
    return Markdown(separator.join(map(escape_text, texts)))


# Starts of comment lines that a code host or a bot executes.
_COMMAND: Final = re.compile(
    r"(\s*)(?=/[a-z]|@|(?:bors|homu|atlantis|jenkins|recheck|retest|rerun|rebase)\b|ok to "
    r"test\b|r[?+]\s*@?|"
    r"nexusform explain\b)",
    re.IGNORECASE,
)
_FENCE: Final = re.compile(r"\s*(`{3,})")
# As in the boxes of the terminal.
_MARGIN: Final = "\N{BOX DRAWINGS LIGHT VERTICAL} "


def disable_bot_commands(markdown: Markdown) -> Markdown:
    """Disable lines similar to bot commands, such as `/merge`.

    An empty element precedes them, or a margin in code.
    """
    lines: list[str] = []
    # The backticks before the current code block, "" outside of one.
    open_fence = ""
    for line in markdown.split("\n"):
        match = _FENCE.match(line)
        fence = match[1] if match is not None else ""
        if not open_fence:
            open_fence = fence
        elif len(fence) >= len(open_fence) and line.strip() == fence:
            # The end of the code block.
            open_fence = ""
        command = _COMMAND.match(line)
        prefix = _MARGIN if open_fence else _SEPARATOR
        lines.append(
            f"{command[1]}{prefix}{line[command.end() :]}" if command is not None else line
        )
    return Markdown("\n".join(lines))


def format_code_block(body: str, language: str = "") -> Markdown:
    """Format a code block with escaped control characters."""
    body = escape_control_characters(body)
    fence = "`" * max(3, 1 + _measure_longest_backtick_run(body))
    return Markdown(f"{fence}{language}\n{body}\n{fence}")


def fold_details(summary: str, body: Markdown) -> Markdown:
    """Format Markdown folded under its summary."""
    return fill_markdown("{}\n\n{}\n\n</details>", format_summary(summary), body)


def _measure_longest_backtick_run(text: str) -> int:
    return max(map(len, re.findall(r"`+", text)), default=0)


def render_table(
    headers: Sequence[str], rule: Sequence[str], rows: Iterable[Sequence[str]]
) -> list[Markdown]:
    """Render the lines of a table, with a rule below its headers."""
    lines = (headers, map(Markdown, rule), *rows)
    return [fill_markdown("| {} |", join_markdown(cells, " | ")) for cells in lines]


def render_diff(text: str) -> str:
    """Move the signs of changed lines to the first column: GitHub colours lines by it.

    Lines of texts are unchanged.
    """
    return "\n".join(
        line if is_text else _move_sign_to_first_column(line)
        for line, is_text in mark_text_lines(text)
    )


def _move_sign_to_first_column(line: str) -> str:
    """Move the sign of a line to the first column, as "!" for a change.

    Examples are `  + a` as `+   a`, and `  -/+ a` as `! -/+ a`.
    """
    match = SIGN_PATTERN.match(line)
    if match is None:
        return line
    # `after`: the second part of a replacement sign, or a space.
    indent, sign, after = match.groups()
    # A replacement keeps its double sign.
    if "/" in after:
        return f"!{indent[1:]}{line.lstrip(' ')}".rstrip()
    # GitHub colours a line that starts with "!" as changed.
    new_sign = "!" if sign == "~" else sign
    # A space in place of the sign.
    return f"{new_sign}{indent[1:]} {line[match.end(2) :]}".rstrip()


# Below this size a truncated part is useless.
_MIN_PART_BYTES: Final = 300


class ReportPart(Struct, frozen=True):
    """A part of a report: lines and their renderer.

    Low `importance` is cut first, an `is_atomic` part as a whole.
    """

    title: str
    importance: int
    lines: tuple[Markdown, ...]
    draw: Callable[[Markdown], Markdown] = lambda body: body
    is_atomic: bool = False

    @property
    def text(self) -> Markdown:
        """The part as Markdown."""
        return disable_bot_commands(self.draw(join_markdown(self.lines, "\n")))


def join_parts_within_limit(parts: Sequence[ReportPart], max_bytes: int) -> str:
    """Join the parts with blank lines in at most `max_bytes` bytes.

    If they are too long, parts are cut in order of importance, the least important first, until the
    rest fits. A cut part loses its last lines, or is dropped if no line fits. A note at the end
    names the cut parts; if even this note is too long, return its beginning.
    """
    nonempty_parts = [part for part in parts if part.lines]
    texts = {id(part): part.text for part in nonempty_parts}
    if _measure_size(texts.values()) <= max_bytes:
        return "\n\n".join(texts.values()) + "\n"
    # Titles of truncated parts for the final note.
    cuts: list[str] = []
    for part in sorted(nonempty_parts, key=lambda part: part.importance):
        if (
            cuts
            and _measure_size([*texts.values(), _format_truncation_note(cuts, max_bytes)])
            <= max_bytes
        ):
            break
        # Reserve space for the note about this part, with more digits than its numbers of
        # lines can have.
        longest_note = _format_truncation_note(
            [*cuts, f"{part.title} ({'0' * 24} lines shown)"], max_bytes
        )
        excess = _measure_size([*texts.values(), longest_note]) - max_bytes
        truncated = _truncate_part(part, len(texts[id(part)].encode()) - excess)
        if truncated is None:
            del texts[id(part)]
            cuts.append(f"{part.title} (left out)")
        else:
            texts[id(part)] = truncated.text
            # Without the line about others.
            visible_count = len(truncated.lines) - 1
            cuts.append(f"{part.title} ({visible_count:,} of {len(part.lines):,} lines shown)")
    text = "\n\n".join([*texts.values(), _format_truncation_note(cuts, max_bytes)]) + "\n"
    data = text.encode()
    if len(data) <= max_bytes:
        return text
    # Even the note alone is too long.
    head = data[: max(max_bytes - 1, 0)].decode(errors="ignore")
    kept_text = head.rpartition("\n")[0] if "\n" in head else head
    return f"{kept_text}\n" if max_bytes else ""


def _format_truncation_note(cuts: Sequence[str], max_bytes: int) -> Markdown:
    return fill_markdown("_Cut to stay within {} bytes: {}._", f"{max_bytes:,}", "; ".join(cuts))


def _measure_size(texts: Collection[str]) -> int:
    """Measure the bytes of the texts with blank lines between them, and a final newline."""
    return (
        sum(len(text.encode()) for text in texts) + 2 * max(len(texts) - 1, 0) + 1
    )  # with newlines


def _truncate_part(part: ReportPart, max_bytes: int) -> ReportPart | None:
    """Return the part with as many first lines as fit into `max_bytes`.

    Return None if none fits, or the part may not be cut.
    """
    if part.is_atomic or max_bytes < _MIN_PART_BYTES:
        return None
    # A binary search, as the renderer may change the size of each line.
    low = 0
    high = len(part.lines)
    while low < high:
        middle = (low + high + 1) // 2
        if len(_limit_part_lines(part, middle).text.encode()) <= max_bytes:
            low = middle
        else:
            high = middle - 1
    return _limit_part_lines(part, low) if low else None


def _limit_part_lines(part: ReportPart, count: int) -> ReportPart:
    """Return the part with its first `count` lines, and one with the number of the others."""
    hidden_count = len(part.lines) - count
    note = Markdown(f"... {hidden_count:,} more lines were cut")
    return replace(part, lines=(*part.lines[:count], note))


# Characters allowed in a link address: none that would end it.
_ADDRESS_CHARACTERS: Final = "/:?#@!$&'*+,;=%~"


def format_line_link(location: str, origin: CodeOrigin) -> Markdown:
    """Format a `file:line` location as Markdown, as a link if the address is known."""
    filename, _, line = location.rpartition(":")
    path = posixpath.normpath(posixpath.join(origin.directory, filename))
    # `<...>` is no file.
    is_in_repository = not path.startswith(("/", "..", "<"))
    if not origin.url or not is_in_repository:
        return format_code(location)
    address = f"{quote(origin.url.rstrip('/'), safe=_ADDRESS_CHARACTERS)}/{quote(path)}#L{line}"
    return fill_markdown("[{}]({})", location, Markdown(address))


def render_decision_lines(lines: Iterable[DecisionLine]) -> Iterator[Markdown]:
    """Yield the quoted lines of a list with an item per decision line.

    Several texts of a line are a list below its label. A list breaks its lines on a phone, unlike
    a code block.
    """
    for line in lines:
        # A text in parentheses has its own colon, as in the terminal.
        colon = "" if line.texts[0].startswith("(") else ":"
        # Atlantis and tfcmt search for the words of the last line.
        name = line.label if line.label == COUNT_LABEL else emphasize(line.label)
        label = fill_markdown(f"> - {{}}{colon}", name)
        texts = list(map(_truncate_line, line.texts))
        if len(texts) == 1:
            yield fill_markdown("{} {}", label, *texts)
            continue
        yield label
        for text in texts:
            yield fill_markdown(">   - {}", text)


def _truncate_line(line: str) -> str:
    """Truncate a very long line."""
    return line if len(line) <= _MAX_LINE_LENGTH else f"{line[: _MAX_LINE_LENGTH - 3]}..."
