"""The record of a doubt about a subject: the unknown, the reason, and the possible effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct, to_builtins
from msgspec.structs import astuple

from nexusform.diagnostics.names import escape_name
from nexusform.diagnostics.phrases import enclose


class Influence(StrEnum):
    """Influence of a doubt: its possible effect.

    An unread field of a document has one of the first four. `CHOICE` is the choice of a platform;
    VMs with a decided machine do not depend on it. `BINDINGS` are placements of a fleet. Of
    `CHANGES`, a plan does not detect all.
    """

    PLACEMENT = "placement"
    CAPACITY = "capacity"
    EXISTENCE = "existence"
    ORDER = "order"
    CHOICE = "choice"
    BINDINGS = "bindings"
    CHANGES = "changes"


class Doubt(Struct, frozen=True):
    """Doubt about a subject.

    `kind` and `name` are those of the subject, such as `server` and `a`. `field` is the unread
    field of a document, "" for any other doubt. `reason` is a clause on why it is not known, "" for
    an unread field without a reason. `line` 0 is the `file` as a whole. `address` is the resource
    of the subject, `site_id` its site ("": all sites), and `pool` the pool of the subject ("": all
    VMs of the resource, or all of the site without an address); planning sets them for documents.
    On sites of the `reading_platform` the field is read. `finding` is the id of its diagnostic, and
    `detail` the text of that one if the doubt comes first. `otherwise` is the other result: `n0 if
    b arrives first`.
    """

    kind: str
    name: str = ""
    field: str = ""
    file: str = ""
    line: int = 0
    may_change: Influence = Influence.PLACEMENT
    reason: str = ""
    address: str = ""
    site_id: str = ""
    pool: str = ""
    reading_platform: str = ""
    finding: str = ""
    detail: str = ""
    otherwise: str = ""

    @property
    def subject(self) -> str:
        """Subject as text: `server a`, or `the template` without a name."""
        return f"{self.kind} {escape_name(self.name)}" if self.name else f"the {self.kind}"

    @property
    def position(self) -> str:
        """Position as text: `base_hot:14`."""
        file = escape_name(self.file)
        return f"{file}:{self.line}" if self.line else file

    @property
    def cause(self) -> str:
        """Clause on the unknown and its reason. Its verb fits one field and several things."""
        if not self.field:
            is_of_object = self.finding and self.may_change is Influence.PLACEMENT
            return f"{self.reason} may change it" if is_of_object else self.reason
        reason = enclose(" (", escape_name(self.reason), ")")
        return f"nexusform did not read {escape_name(self.field)} of {self.subject}{reason}"

    @property
    def consequence(self) -> str:
        """Clause on the consequence for the subject."""
        return CONSEQUENCES[self.may_change]

    def describe(self) -> str:
        """Return the doubt as a sentence with its consequence."""
        return f"{self.cause}: {self.consequence}."


CONSEQUENCES: Final[Mapping[Influence, str]] = {
    Influence.PLACEMENT: "hosts are uncertain",
    Influence.CAPACITY: "capacity is uncertain",
    Influence.EXISTENCE: "the number of VMs is uncertain",
    Influence.ORDER: "the order of placement is uncertain",
}
# Of a doubt in a state; planning sets the others again.
_RECORDED_FIELDS: Final = ("kind", "name", "field", "file", "line", "may_change", "reason")


def build_doubt_rows(doubts: Iterable[Doubt]) -> list[list[Any]]:
    """Build a row per doubt, as recorded in a state: its fields up to `reason`."""
    # Lists, as in the JSON of a state: tuples would differ from it at each refresh.
    return [list(to_builtins(astuple(doubt)[: len(_RECORDED_FIELDS)])) for doubt in doubts]


def read_doubt_rows(rows: Iterable[Sequence[Any]]) -> Iterator[Doubt]:
    """Yield the doubts of recorded rows; one with an unknown influence may have any of a field."""
    for row in rows:
        members = dict(zip(_RECORDED_FIELDS, row, strict=True))
        named = [influence for influence in CONSEQUENCES if influence == members["may_change"]]
        for influence in named or CONSEQUENCES:
            yield Doubt(**{**members, "line": int(members["line"]), "may_change": influence})


def is_doubt_row(value: object) -> bool:
    """Return whether a value is a row of `build_doubt_rows`."""
    match value:
        case [str(), str(), str(), str(), int() | float() as line, str(), str()]:
            return not isinstance(line, bool)
    return False
