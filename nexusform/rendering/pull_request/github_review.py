"""Body of a GitHub review: the comment, and line comments with failures and fixes.

It is sent by `POST /repos/OWNER/REPO/pulls/NUMBER/reviews`.

GitHub rejects comments outside of the diff, so only its lines get comments.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.configuration.declarations.configuration import Configuration
from nexusform.configuration.literal_edits import TextEdit, apply_literal_edits, build_literal_edit
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, has_errors
from nexusform.diagnostics.levels import Level
from nexusform.placements.consequences import ConsequenceSeverity
from nexusform.plans.plan import Plan
from nexusform.rendering.pull_request.markdown_parts import (
    Markdown,
    disable_bot_commands,
    emphasize,
    fill_markdown,
    format_code_block,
    join_markdown,
)
from nexusform.rendering.report.finding_entries import PREEXISTING_NOTE, collect_findings
from nexusform.resources.address import parse_address

_HUNK: Final = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")
_MAX_COMMENTS: Final = 30


class DiffLines(Struct, frozen=True):
    """The lines of new files in a diff, by path in the repository."""

    lines: Mapping[str, frozenset[int]]

    def find_path(self, name: str) -> str:
        """Find the repository path of a file name of nexusform.

        Return "" if the diff has no such file or several.
        """
        tail = name.removeprefix("./")
        paths = [path for path in self.lines if path == tail or path.endswith(f"/{tail}")]
        return paths[0] if len(paths) == 1 else ""

    def contains_lines(self, path: str, first: int, last: int) -> bool:
        """Return whether the diff contains all these lines of a file; False for the path ""."""
        diff_lines = self.lines.get(path, frozenset())
        return diff_lines.issuperset(range(first, last + 1))


def parse_diff(text: str) -> DiffLines:
    """Parse a unified diff: the numbers of its added and unchanged lines in the new files, by path.

    A file begins with a line `+++ b/PATH`. Each of its hunks begins with `@@ -OLD,COUNT
    +FIRST,COUNT @@`: the number of its first line in the new file, and the count of lines (1 if
    omitted). Removed lines begin with "-" and are not counted.
    """
    lines: dict[str, set[int]] = {}  # by path
    # Path of the current file.
    path = ""
    # Of the next line in the new file.
    next_number = 0
    # In the current hunk; 0 outside of hunks.
    lines_left = 0
    for line in text.splitlines():
        # The line is added or unchanged; "" is an empty line without its space.
        if lines_left > 0 and line[:1] in ("+", " ", ""):
            lines[path].add(next_number)
            next_number = next_number + 1
            lines_left = lines_left - 1
        elif line.startswith("+++ "):
            path = line[4:].partition("\t")[0].strip('"').removeprefix("b/")
        elif (hunk := _HUNK.match(line)) and path:
            next_number = int(hunk[1])
            lines_left = int(hunk[2] or 1)
            lines.setdefault(path, set())
    return DiffLines(
        {path: frozenset(numbers) for path, numbers in lines.items() if path != "/dev/null"}
    )


def build_review(
    plan: Plan,
    configuration: Configuration | None,
    files: Mapping[str, SourceFile],
    diff: DiffLines,
    body: str,
) -> dict[str, Any]:
    """Build the review, with `body` in Markdown.

    It requests changes if the plan is rejected. A finding has its suggestions as comments, or else
    one comment on its first line. Lines outside of the diff have none.
    """
    problems = [
        finding.diagnostic
        for finding in collect_findings(plan)
        # It has a line.
        if finding.level in (Level.ERROR, Level.WARNING) and finding.diagnostic.subject is not None
    ]
    comments: list[dict[str, Any]] = []
    for diagnostic in problems:
        suggestions = _build_suggestions(diagnostic, configuration, files, diff)
        comments += suggestions
        span = diagnostic.subject
        assert span is not None, "problems have a line"
        path = diff.find_path(span.filename)
        line = span.start.line
        if not suggestions and diff.contains_lines(path, line, line):
            comments.append(_build_comment(path, line, line, _describe_diagnostic(diagnostic)))
    return {
        "event": "REQUEST_CHANGES" if has_errors(plan.diagnostics) else "COMMENT",
        "body": body,
        "comments": comments[:_MAX_COMMENTS],
    }


def _build_suggestions(
    diagnostic: Diagnostic,
    configuration: Configuration | None,
    files: Mapping[str, SourceFile],
    diff: DiffLines,
) -> list[dict[str, Any]]:
    """Build suggestions (comments with a button) of the first remedy with all edits in the diff.

    Return [] without such a remedy. None has a button if it causes a lasting loss.
    """
    if configuration is None:
        # The places to edit are unknown.
        return []
    for remedy in diagnostic.extra.get("fit", {}).get("suggested_fixes", ()):
        if remedy["severity"] == ConsequenceSeverity.LASTING:
            break
        comments = []
        for remedy_edit in remedy["edits"]:
            address = parse_address(remedy_edit["address"])
            edit = build_literal_edit(
                configuration, address, remedy_edit["path"], remedy_edit["value"]
            )
            comments += _build_suggestion(diagnostic, remedy["text"], edit, files, diff)
        # A part of a remedy does not help.
        if comments and len(comments) == len(remedy["edits"]):
            return comments
    return []


def _build_suggestion(
    diagnostic: Diagnostic,
    remedy_text: str,
    edit: TextEdit | None,
    files: Mapping[str, SourceFile],
    diff: DiffLines,
) -> list[dict[str, Any]]:
    """Build a suggestion of one edit.

    Return [] if its lines are not in the diff, or its text contains a bot command.
    """
    # The argument has no literal to replace, or belongs to several instances.
    if edit is None:
        return []
    first_line = edit.span.start.line
    last_line = edit.span.end.line
    path = diff.find_path(edit.span.filename)
    if not diff.contains_lines(path, first_line, last_line):
        return []
    text = apply_literal_edits(files, [edit])[edit.span.filename]
    # The number is negative for added lines.
    removed_lines = edit.before.count("\n") - edit.after.count("\n")
    new_lines = text.split("\n")[first_line - 1 : last_line - removed_lines]
    suggestion = format_code_block("\n".join(line.rstrip("\r") for line in new_lines), "suggestion")
    if disable_bot_commands(suggestion) != suggestion:
        # The button must commit the exact text.
        return []
    description = _describe_diagnostic(diagnostic)
    body = fill_markdown("{}\n\nTested: {}\n{}", description, remedy_text, suggestion)
    return [_build_comment(path, first_line, last_line, body)]


def _describe_diagnostic(diagnostic: Diagnostic) -> Markdown:
    """Return the summary and the first paragraph of the detail in Markdown."""
    first_paragraph = diagnostic.detail.partition("\n\n")[0]
    detail = join_markdown(map(str.strip, first_paragraph.split("\n")), "\n")
    existing_note = PREEXISTING_NOTE if diagnostic.is_preexisting else ""
    paragraphs = (emphasize(diagnostic.summary), detail, existing_note)
    return join_markdown(filter(None, paragraphs), "\n\n")


def _build_comment(path: str, first_line: int, last_line: int, body: Markdown) -> dict[str, Any]:
    """Build a comment on these lines of a file for GitHub's API."""
    comment: dict[str, Any] = {
        "path": path,
        "line": last_line,
        "side": "RIGHT",
        "body": disable_bot_commands(body),
    }
    if first_line < last_line:
        comment |= {"start_line": first_line, "start_side": "RIGHT"}
    return comment
