"""The body of a GitHub review: the comment, and on lines of the diff what fails there and how to mend it.

It is what `POST /repos/OWNER/REPO/pulls/NUMBER/reviews` takes. GitHub refuses a review that comments on a
line outside of the diff, so nothing else is commented on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.address import parse_address
from nexusform.configuration.declared.configuration import Configuration
from nexusform.configuration.literal_edits import TextEdit, edited, literal_edit
from nexusform.diagnostics import Diagnostic, Severity
from nexusform.plans.plan import Plan
from nexusform.rendering.notation.colours import harmless
from nexusform.rendering.pull_request.markdown_parts import escaped, fenced, obeyed_by_nobody
from nexusform.rendering.report.entries import HELD_BEFORE, plan_findings
from nexusform.source import SourceFile
from nexusform.weights import Level

_HUNK: Final = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")
_MOST_COMMENTS: Final = 30


class DiffLines(Struct, frozen=True):
    """The lines of the new files that a diff shows, by path from the repository's top."""

    lines: Mapping[str, frozenset[int]]

    def path_of(self, name: str) -> str:
        """The path in the repository of a file as nexusform names it; "" if it is not in the diff, or if
        several files of the diff end like it.
        """
        tail = name.removeprefix("./")
        paths = [path for path in self.lines if path == tail or path.endswith(f"/{tail}")]
        return paths[0] if len(paths) == 1 else ""

    def has(self, path: str, first: int, last: int) -> bool:
        """Whether all these lines of a file are shown."""
        shown = self.lines.get(path, frozenset())
        return all(line in shown for line in range(first, last + 1))


def read_diff(text: str) -> DiffLines:
    """The lines of a unified diff (`git diff`, the code host's `.diff`)."""
    lines: dict[str, set[int]] = {}
    # The file, the number of its next line, and how many of its lines the hunk still shows.
    path, number, lines_left = "", 0, 0
    for line in text.splitlines():
        if lines_left > 0 and line[:1] in ("+", " ", ""):
            lines[path].add(number)
            number, lines_left = number + 1, lines_left - 1
        elif line.startswith("+++ "):
            path = line[4:].partition("\t")[0].strip('"').removeprefix("b/")
        elif (hunk := _HUNK.match(line)) and path:
            number, lines_left = int(hunk[1]), int(hunk[2] or 1)
            lines.setdefault(path, set())
    return DiffLines({path: frozenset(numbers) for path, numbers in lines.items() if path != "/dev/null"})


def review_document(
    plan: Plan,
    configuration: Configuration | None,
    files: Mapping[str, SourceFile],
    diff: DiffLines,
    body: str,
) -> dict[str, Any]:
    """The review: changes are requested when the plan is refused. `body` is Markdown."""
    failing = [
        finding.diagnostic
        for finding in plan_findings(plan)
        if finding.level.order <= Level.WARNING.order and finding.diagnostic.subject is not None
    ]
    comments: list[dict[str, Any]] = []
    for diagnostic in failing:
        comments += _suggestions(diagnostic, configuration, files, diff) or _remark(diagnostic, diff)
    refused = any(diagnostic.severity is Severity.ERROR for diagnostic in plan.diagnostics)
    return {
        "event": "REQUEST_CHANGES" if refused else "COMMENT",
        "body": body,
        "comments": comments[:_MOST_COMMENTS],
    }


def _remark(diagnostic: Diagnostic, diff: DiffLines) -> list[dict[str, Any]]:
    """What is wrong, on its own line."""
    span = diagnostic.subject
    assert span is not None, "only these are asked for"
    path = diff.path_of(span.filename)
    if not path or not diff.has(path, span.start.line, span.start.line):
        return []
    return [_comment(path, span.start.line, span.start.line, _explained(diagnostic))]


def _suggestions(
    diagnostic: Diagnostic,
    configuration: Configuration | None,
    files: Mapping[str, SourceFile],
    diff: DiffLines,
) -> list[dict[str, Any]]:
    """The first way out that is an edit of lines of the diff, as suggestions that a button commits."""
    if configuration is None:
        return []
    for way in diagnostic.extra.get("fit", {}).get("ways_out", ()):
        edits = [_edit(configuration, edit) for edit in way["edits"]]
        possible = [edit for edit in edits if edit is not None]
        if not possible or len(possible) < len(edits):
            continue
        comments = [_suggestion(diagnostic, way["text"], edit, files, diff) for edit in possible]
        if all(comments):
            return [comment for comment in comments if comment is not None]
    return []


def _edit(configuration: Configuration, edit: Mapping[str, Any]) -> TextEdit | None:
    """An edit of a way out as one of the text; None where it is no literal in a file."""
    return literal_edit(configuration, parse_address(edit["address"]), edit["path"], edit["value"])


def _suggestion(
    diagnostic: Diagnostic, way: str, edit: TextEdit, files: Mapping[str, SourceFile], diff: DiffLines
) -> dict[str, Any] | None:
    """One edit as a suggestion; None where its lines are not in the diff."""
    first_line, last_line = edit.span.start.line, edit.span.end.line
    path = diff.path_of(edit.span.filename)
    if not path or not diff.has(path, first_line, last_line):
        return None
    text = edited(files, [edit])[edit.span.filename]
    removed = edit.before.count("\n") - edit.after.count("\n")
    lines = text.split("\n")[first_line - 1 : last_line - removed]
    suggestion = fenced("\n".join(line.rstrip("\r") for line in lines), "suggestion")
    if obeyed_by_nobody(suggestion) != suggestion:
        return None  # what a button commits must be the text itself
    body = f"{_explained(diagnostic)}\n\nTried just now: {escaped(way)}\n{suggestion}"
    return _comment(path, first_line, last_line, body)


def _explained(diagnostic: Diagnostic) -> str:
    """A diagnostic in Markdown: its summary and the first paragraph of its detail."""
    summary = f"**{escaped(harmless(diagnostic.summary))}**"
    first_paragraph = harmless(diagnostic.detail).partition("\n\n")[0]
    standing = HELD_BEFORE if diagnostic.held_before else ""
    return "\n\n".join(filter(None, (summary, escaped(first_paragraph), standing)))


def _comment(path: str, first_line: int, last_line: int, body: str) -> dict[str, Any]:
    """A comment on these lines of a file, as the API takes it."""
    comment: dict[str, Any] = {
        "path": path,
        "line": last_line,
        "side": "RIGHT",
        "body": obeyed_by_nobody(body),
    }
    if first_line < last_line:
        comment |= {"start_line": first_line, "start_side": "RIGHT"}
    return comment
