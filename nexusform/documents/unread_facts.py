"""Facts of foreign documents that nexusform does not read, and the closed lists of their fields.

A reader has a list of fields per kind of object. A field is read, or known to have no influence on
placement, or unread. A present unread field is a fact: it may change the answer, so nothing that
depends on it is certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct, field, to_builtins
from msgspec.structs import astuple

from nexusform.diagnostics.names import escape_name
from nexusform.diagnostics.phrases import enclose


class Influence(StrEnum):
    """Influence of an unread fact: what it may change."""

    PLACEMENT = "placement"
    CAPACITY = "capacity"
    EXISTENCE = "existence"
    ORDER = "order"


def _parse_influences(name: str) -> tuple[Influence, ...]:
    """Return the influence of this name; all of them for an unknown name."""
    named = tuple(influence for influence in Influence if influence.value == name)
    return named or tuple(Influence)


class UnreadFact(Struct, frozen=True):
    """Fact of a foreign document that nexusform does not read.

    `kind` and `name` are those of the subject, such as `server` and `a`. `reason` is a clause on
    why it is not read, "" for an unread field. `line` 0 is the file as a whole. Planning sets
    `address` to the resource with the document, `site_id` to its site ("": all sites), and `pool`
    to the pool of the subject ("": all VMs of the resource, or all of the site without an address).
    On sites of the `reading_platform` the fact is read.
    """

    kind: str
    name: str
    field: str
    file: str
    line: int
    may_change: Influence = Influence.PLACEMENT
    reason: str = ""
    address: str = ""
    site_id: str = ""
    pool: str = ""
    reading_platform: str = ""

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
        """Clause on what is not read, and why. Its verb fits one field and several things."""
        reason = enclose(" (", escape_name(self.reason), ")")
        return f"nexusform did not read {escape_name(self.field)} of {self.subject}{reason}"

    @property
    def consequence(self) -> str:
        """Clause on the consequence for the subject."""
        return CONSEQUENCES[self.may_change]

    def describe(self) -> str:
        """Return the fact as a sentence with its consequence."""
        return f"{self.cause}: {self.consequence}."


# Of a fact in a state; planning sets the others again.
_RECORDED_FIELDS: Final = ("kind", "name", "field", "file", "line", "may_change", "reason")


def build_fact_rows(facts: Iterable[UnreadFact]) -> list[list[Any]]:
    """Build a row per fact, as recorded in a state: its fields up to `reason`."""
    # Lists, as in the JSON of a state: tuples would differ from it at each refresh.
    return [list(to_builtins(astuple(fact)[: len(_RECORDED_FIELDS)])) for fact in facts]


def read_fact_rows(rows: Iterable[Sequence[Any]]) -> Iterator[UnreadFact]:
    """Yield the facts of recorded rows; one with an unknown influence may have any."""
    for row in rows:
        members = dict(zip(_RECORDED_FIELDS, row, strict=True))
        for influence in _parse_influences(members["may_change"]):
            yield UnreadFact(**{**members, "line": int(members["line"]), "may_change": influence})


def is_fact_row(value: object) -> bool:
    """Return whether a value is a row of `build_fact_rows`."""
    match value:
        case [str(), str(), str(), str(), int() | float() as line, str(), str()]:
            return not isinstance(line, bool)
    return False


CONSEQUENCES: Final[Mapping[Influence, str]] = {
    Influence.PLACEMENT: "hosts are uncertain",
    Influence.CAPACITY: "capacity is uncertain",
    Influence.EXISTENCE: "the number of VMs is uncertain",
    Influence.ORDER: "the order of placement is uncertain",
}


class FieldList(Struct, frozen=True):
    """Closed list of the fields of one kind of foreign object.

    `read` are the fields with a reader. `without_influence` maps a field to the reason why it does
    not influence placement. Every other field is unread. `influences` are those of unread fields
    that change something other than `default_influences`.
    """

    read: frozenset[str]
    without_influence: Mapping[str, str] = field(default_factory=dict)
    influences: Mapping[str, Influence] = field(default_factory=dict)
    default_influences: tuple[Influence, ...] = (Influence.PLACEMENT,)

    def list_unread(self, names: Mapping[str, object]) -> Iterator[tuple[str, Influence]]:
        """List the unread fields of an object, with each thing that they may change."""
        for name in names:
            if name not in self.read and name not in self.without_influence:
                influence = self.influences.get(name)
                influences = self.default_influences if influence is None else (influence,)
                for unread_influence in influences:
                    yield name, unread_influence


def build_field_list(
    read: str,
    without_influence: Mapping[str, str],
    influences: Mapping[Influence, str] = {},
    *,
    default: tuple[Influence, ...] = (Influence.PLACEMENT,),
) -> FieldList:
    """Build a list from texts of names, separated by blanks.

    `without_influence` maps a reason to names, `influences` an influence to names. Other unread
    fields may change the things in `default`.
    """
    return FieldList(
        frozenset(read.split()),
        {name: reason for reason, names in without_influence.items() for name in names.split()},
        {name: influence for influence, names in influences.items() for name in names.split()},
        default,
    )
