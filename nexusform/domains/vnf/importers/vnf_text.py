"""Opening the text of a VNFD or HOT file: YAML, also as printed, with "..." for what is left out."""

from __future__ import annotations

import re
from typing import Final

from nexusform.diagnostics import Severity
from nexusform.documents.text_places import TextPlace
from nexusform.documents.yaml_text import Node, Notes, YamlStream, read_yaml
from nexusform.domains.vnf.importers.vnf_model import CORRECTED

_ELIDED: Final = re.compile(r"[ \t]*\.\.\.[ \t]*\r?\Z")


def open_text(text: str, notes: Notes) -> list[Node]:
    """The documents of a text; what is wrong with it goes to `notes`."""
    stream = read_yaml(notes.file, text)
    if _broken(stream):
        shorter, lines = without_elisions(text)
        again = read_yaml(notes.file, shorter) if lines else stream
        if lines and not _broken(again):
            stream = again
            for line in lines:
                notes.warn(
                    TextPlace(line, 1),
                    CORRECTED,
                    'the line "..." stands for something left out; it is passed over.',
                )
    for problem in stream.findings:
        notes.take(problem)
    return [Node.of(document) for document in stream.documents]


def without_elisions(text: str) -> tuple[str, list[int]]:
    """The text with its "..." lines emptied, and the numbers of these lines."""
    lines = text.split("\n")
    elided = [number for number, line in enumerate(lines, 1) if _ELIDED.match(line)]
    for number in elided:
        lines[number - 1] = ""
    return "\n".join(lines), elided


def _broken(stream: YamlStream) -> bool:
    return any(problem.severity is Severity.ERROR for problem in stream.findings)
