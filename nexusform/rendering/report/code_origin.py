"""Where the configuration of a plan is kept, for links in comments and on pages."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class CodeOrigin(Struct, frozen=True):
    """The commit that a plan was made of, and the address of its files: `url`/`directory`/FILE.

    `directory` leads from there to the root module; "" = unknown, without links or commit.
    """

    url: str = ""
    directory: str = ""
    commit: str = ""


NOWHERE: Final = CodeOrigin()
