"""Opening of VNFD and HOT texts: YAML, also with "..." for omitted lines."""

from __future__ import annotations

import re
from typing import Final

from nexusform.diagnostics.diagnostic import Severity
from nexusform.documents.text_positions import TextPosition
from nexusform.documents.yaml_documents import DocumentFindings, Node, YamlStream, parse_yaml
from nexusform.domains.vnf.importers.vnf_records import CORRECTED

_ELIDED: Final = re.compile(r"[ \t]*\.\.\.[ \t]*\r?\Z")


def parse_documents(text: str, notes: DocumentFindings) -> list[Node]:
    """Return the documents of a text; problems are added to `notes`."""
    stream = parse_yaml(notes.file, text)
    if _has_errors(stream):
        cleaned_text, lines = remove_ellipsis_lines(text)
        cleaned_stream = parse_yaml(notes.file, cleaned_text) if lines else stream
        if lines and not _has_errors(cleaned_stream):
            stream = cleaned_stream
            for line in lines:
                notes.add_warning(TextPosition(line, 1), CORRECTED, 'the line "..." is a placeholder; it is ignored.')
    for problem in stream.findings:
        notes.add_problem(problem)
    return [Node.create_document_node(document) for document in stream.documents]


def remove_ellipsis_lines(text: str) -> tuple[str, list[int]]:
    """Return the text with its "..." lines emptied, and their line numbers."""
    lines = text.split("\n")
    line_numbers = [number for number, line in enumerate(lines, 1) if _ELIDED.match(line)]
    for number in line_numbers:
        lines[number - 1] = ""
    return "\n".join(lines), line_numbers


def _has_errors(stream: YamlStream) -> bool:
    return any(problem.severity is Severity.ERROR for problem in stream.findings)
