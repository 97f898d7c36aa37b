"""Where the configuration of a comment stands at its code host, and links to its lines."""

from __future__ import annotations

import posixpath
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from nexusform.rendering.pull_request.markdown_parts import code, plain
from nexusform.source import Span

# What may stand in the address of a link: no bracket, space or sign that would end it.
_IN_ADDRESSES: Final = "/:?#@!$&'*+,;=%~"
_COMMIT_LETTERS: Final = 12


class Origin(Struct, frozen=True):
    """The commit that a plan was made of, and the address of its files: `url`/`directory`/FILE.

    `directory` leads from there to the root module; "" = unknown, without links or commit.
    """

    url: str = ""
    directory: str = ""
    commit: str = ""


NOWHERE: Final = Origin()


def place_of(span: Span | None, origin: Origin) -> str:
    """`file:line` as Markdown, a link where the address is known; "" without a place."""
    return line_of(f"{span.filename}:{span.start.line}", origin) if span is not None else ""


def line_of(place: str, origin: Origin) -> str:
    """The same of a place written as `file:line`."""
    filename, _, line = place.rpartition(":")
    path = posixpath.normpath(posixpath.join(origin.directory, filename))
    inside = not path.startswith(("/", "..", "<"))
    if not origin.url or not inside:
        return code(place)
    address = f"{quote(origin.url.rstrip('/'), safe=_IN_ADDRESSES)}/{quote(path)}#L{line}"
    return f"[{plain(place)}]({address})"


def commit_text(origin: Origin) -> str:
    """`commit 0123456789ab`, "" when it is unknown."""
    return f"commit {code(origin.commit[:_COMMIT_LETTERS])}" if origin.commit else ""
