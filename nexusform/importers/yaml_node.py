"""A part of a YAML document with its place; what is absent or of another kind reads as empty."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics import Problem, Severity
from nexusform.importers.yaml_text import TextPlace, YamlDocument, problem_at

# How printed excerpts mark what they leave out.
ELISION: Final = "..."


class Node(Struct, frozen=True):
    """Plain data and where it was written (the nearest part that was written, when it is absent)."""

    data: Any
    place: TextPlace

    @staticmethod
    def of(document: YamlDocument) -> Node:
        """The whole document."""
        return Node(document.data, document.place)

    @property
    def line(self) -> int:
        """Its line, from 1."""
        return self.place.line

    @property
    def absent(self) -> bool:
        """Nothing is there: no value, null, or the "..." of an excerpt."""
        return self.data is None or self.data == ELISION

    def at(self, *path: str | int) -> Node:
        """The part at a path."""
        node = self
        for step in path:
            node = node._below(step)
        return node

    def _below(self, step: str | int) -> Node:
        data = self.data
        place = self.place.children.get(step, self.place)
        if isinstance(data, dict):
            return Node(data.get(step), place)
        if isinstance(data, list) and isinstance(step, int) and 0 <= step < len(data):
            return Node(data[step], place)
        return Node(None, self.place)

    def fields(self) -> Iterator[tuple[str, Node]]:
        """The parts of a mapping by key, in order; nothing for any other kind."""
        if isinstance(self.data, dict):
            for key in self.data:
                yield key, self._below(key)

    def items(self) -> Iterator[Node]:
        """The parts of a list, in order; nothing for any other kind."""
        if isinstance(self.data, list):
            for index in range(len(self.data)):
                yield self._below(index)

    @property
    def text(self) -> str:
        """A text, "" for any other kind."""
        return self.data if isinstance(self.data, str) and self.data != ELISION else ""

    def texts(self) -> list[tuple[str, Node]]:
        """The texts of a list, or the one text that stands in a list's place."""
        if self.text:
            return [(self.text, self)]
        return [(item.text, item) for item in self.items() if item.text]

    @property
    def number(self) -> int | None:
        """A whole number, also when it is written as text; None for anything else."""
        return whole_number(self.data)


def whole_number(value: Any) -> int | None:
    """A whole number, also one written as text; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:
        return int(value)
    return None


class Notes:
    """The findings about one document, in the order in which they were made, each once."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._problems: dict[Problem, None] = {}

    @property
    def findings(self) -> tuple[Problem, ...]:
        """All findings, by line."""
        return tuple(sorted(self._problems, key=lambda problem: problem.line))

    def warn(self, at: Node | TextPlace | None, kind: str, detail: str) -> None:
        """Something was read with a correction, or not at all."""
        self._add(at, kind, detail, Severity.WARNING)

    def error(self, at: Node | TextPlace | None, kind: str, detail: str) -> None:
        """Something that cannot be used."""
        self._add(at, kind, detail, Severity.ERROR)

    def take(self, problem: Problem) -> None:
        """A finding of somebody else about the same document."""
        self._problems.setdefault(problem)

    def _add(self, at: Node | TextPlace | None, kind: str, detail: str, severity: Severity) -> None:
        place = at.place if isinstance(at, Node) else at
        self._problems.setdefault(problem_at(self.file, place, kind, detail, severity))
