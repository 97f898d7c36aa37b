"""What an importer has to say about a foreign document: which file, where in it, and what to do."""

from __future__ import annotations

from msgspec import Struct

from nexusform.diagnostics import Severity


class Finding(Struct, frozen=True):
    """One remark: the id of a diagnostic and its detail.

    `where` is a place for people: "line 3, column 5", or a JSON path ("[4].rackId").
    """

    file: str
    where: str
    id: str
    detail: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        place = f"{self.file}, {self.where}" if self.where else self.file
        return f"{place}: {self.detail}"
