"""Closed lists of the fields of foreign documents.

A reader has a list of fields per kind of object. A field is read, or known to have no influence on
placement, or unread. A present unread field is a doubt: it may change the answer, so nothing that
depends on it is certain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from nexusform.doubts.doubt import Influence


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
