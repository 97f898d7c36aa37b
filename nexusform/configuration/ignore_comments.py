"""`# nexusform:ignore ID` comments: which lint rules rest for the block below them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from nexusform.source import SourceFile

_MARK = "nexusform:ignore"
_COMMENT = re.compile(r"\s*(?:#|//)")
_IDS = re.compile(r"\s*(?:#|//)\s*nexusform:ignore[:=]?\s+([\w-]+(?:\s*,\s*[\w-]+)*)")


def ignored_rules(source: SourceFile) -> Mapping[int, frozenset[str]]:
    """The ids by the number of the line (from 1) that follows a run of comment lines.

    Several ids are separated by commas; what stands after them is the reason.
    """
    if _MARK not in source.text:
        return {}
    rules: dict[int, frozenset[str]] = {}
    gathered: frozenset[str] = frozenset()
    for number, line in enumerate(source.text.split("\n"), start=1):
        if _COMMENT.match(line):
            ids = _IDS.match(line)
            if ids is not None:
                gathered |= {i.strip() for i in ids.group(1).split(",")}
        elif gathered:
            rules[number] = gathered
            gathered = frozenset()
    return rules
