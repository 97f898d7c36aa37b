"""Pieces of GitHub-flavoured Markdown: nothing that a user wrote can break out of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from nexusform.rendering.notation.colours import harmless


def code(text: str) -> str:
    """Text as code, whatever backticks stand in it."""
    shown = harmless(text).replace("\n", " ")
    fence = "`" * (1 + _longest_run(shown))
    return f"{fence} {shown} {fence}" if len(fence) > 1 else f"`{shown}`"


def plain(text: str) -> str:
    """Text as text: what Markdown or HTML would read as a sign is escaped."""
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", harmless(text)).replace("<", "&lt;").replace("\n", " ")


def fenced(body: str, language: str = "") -> str:
    """A block of code."""
    fence = "`" * max(3, 1 + _longest_run(body))
    return f"{fence}{language}\n{body}\n{fence}"


def folded(summary: str, body: str, language: str = "") -> str:
    """A block of code that is folded away under its summary."""
    return f"<details><summary>{plain(summary)}</summary>\n\n{fenced(body, language)}\n\n</details>"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], figures: int = 0) -> list[str]:
    """The lines of a table whose cells are Markdown already; the last `figures` columns are numbers."""
    rule = ["---"] * (len(heads) - figures) + ["---:"] * figures
    return [f"| {' | '.join(row)} |" for row in (heads, rule, *rows)]


_SIGN = re.compile(r"^( *)([-+~])( |/[-+] )")


def as_diff(text: str) -> str:
    """Stanzas with their signs in the first column, where GitHub colours a line; the rest stays aligned."""
    lines = []
    for line in text.split("\n"):
        found = _SIGN.match(line)
        if found is None:
            lines.append(line)
            continue
        sign = "!" if found.group(2) == "~" or "/" in found.group(3) else found.group(2)
        rest = line[found.end(1) :] if "/" in found.group(3) else f" {line[found.end(2) :]}"
        lines.append(f"{sign}{found.group(1)[1:]}{rest}" if found.group(1) else f"{sign}{rest}")
    return "\n".join(lines)
