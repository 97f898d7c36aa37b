"""Origin of the configuration of a plan, for links in comments and on pages."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class CodeOrigin(Struct, frozen=True):
    """The commit of a plan and the address of its files: `url`/`directory`/FILE. `directory` is the path of
    the root module there. An empty field is unknown and gives no link or commit.
    """

    url: str = ""
    directory: str = ""
    commit: str = ""


UNKNOWN_ORIGIN: Final = CodeOrigin()
