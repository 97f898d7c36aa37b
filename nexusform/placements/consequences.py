"""Consequences that a resource type declares for what a plan does to its objects."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct


class ConsequenceSeverity(StrEnum):
    """Severity of a consequence.

    LASTING: an object, data, the last copy, a quorum, redundancy or a rule ends. TEMPORARY:
    something is down, or at its limit, for some time. NONE: nothing is hurt.
    """

    LASTING = "lasting"
    TEMPORARY = "temporary"
    NONE = "none"

    @property
    def rank(self) -> int:
        """Position from the best severity (0) to the worst."""
        return list(reversed(ConsequenceSeverity)).index(self)


def get_worst_severity(severities: Iterable[ConsequenceSeverity]) -> ConsequenceSeverity:
    """Return the worst of some severities; NONE without any."""
    return max(severities, key=lambda severity: severity.rank, default=ConsequenceSeverity.NONE)


class DataFate(StrEnum):
    """Fate of the data of an object that ends or leaves, the worst one first."""

    LOST = "lost"
    UNKNOWN = "unknown"
    KEPT = "kept"


def combine_fates(fates: Iterable[DataFate | None]) -> DataFate | None:
    """Return the worst of some fates; None without any."""
    present = set(fates)
    return next((fate for fate in DataFate if fate in present), None)


class Outcome(Struct, frozen=True):
    """Severity of what happens to an object, and the fate of its data (None: it has none)."""

    severity: ConsequenceSeverity = ConsequenceSeverity.NONE
    data: DataFate | None = None


HARMLESS: Final = Outcome()
LASTING_LOSS: Final = Outcome(ConsequenceSeverity.LASTING)
LOSS_WITH_DATA: Final = Outcome(ConsequenceSeverity.LASTING, DataFate.LOST)
LOSS_WITH_UNKNOWN_DATA: Final = Outcome(ConsequenceSeverity.LASTING, DataFate.UNKNOWN)


class ObjectChange(Struct, frozen=True):
    """Change of an object that stays.

    `before` and `after` are its arguments, `note` is its private data before the plan. `remaining`
    are the arguments of all objects after the plan by type.
    """

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    note: Mapping[str, Any] = {}
    remaining: Mapping[str, Sequence[Mapping[str, Any]]] = {}


def find_no_weakening(_change: ObjectChange) -> str:
    """Return "": no change of the type weakens a rule."""
    return ""


class ObjectTitles(Struct, frozen=True):
    """Titles of the objects of a resource without a name: `Deployment web/api`.

    `place` is where they are: `the hub`; "" if what runs on them says so.
    """

    titles: Sequence[str] = ()
    place: str = ""


def find_nothing_unfinished(_note: Mapping[str, Any]) -> str:
    """Return "": an object of the type does no work that its end interrupts."""
    return ""


def list_no_titles(_values: Mapping[str, Any]) -> ObjectTitles:
    """Return no titles: an object of the type has a name."""
    return ObjectTitles()


class ConsequenceTable(Struct, frozen=True, kw_only=True):
    """Consequences of the actions of a plan on an object of a type.

    `noun` precedes the name of the object in reports, "" for an object that its name explains.
    `list_titles` returns the titles of the objects of a resource without a name; how much their end
    hurts is a matter of the objects. `delete`: the object ends. `departure` is the verb of a type
    whose deletion ends no object: `leaves the fleet`. `replace`: it is deleted and created again
    under its name. `leave`: it stays, unmanaged. `recreate`: its VMs are re-created, and it stays.
    `find_weakening(change)` returns what a change of its arguments weakens or stops, as the end of
    a sentence with its name: `changes from deny to warn`; "" for nothing. `find_unfinished(note)`
    returns from the private data what the end of an object interrupts, a lasting loss: `in mid-run:
    1 of 3 clusters is updated`; "" for nothing.
    """

    noun: str = ""
    list_titles: Callable[[Mapping[str, Any]], ObjectTitles] = list_no_titles
    departure: str = ""
    delete: Outcome = HARMLESS
    replace: Outcome = HARMLESS
    leave: Outcome = HARMLESS
    recreate: Outcome = HARMLESS
    find_weakening: Callable[[ObjectChange], str] = find_no_weakening
    find_unfinished: Callable[[Mapping[str, Any]], str] = find_nothing_unfinished


NO_CONSEQUENCES: Final = ConsequenceTable()
