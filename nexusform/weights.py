"""One scale of weight, the same in terminal, comment, page, JSON, SARIF, JUnit, review and editor.

An error stops what was asked for. A warning says that something fails or is lost. Advice says what would be
better, a note what is good to know: nothing fails by either.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from nexusform.diagnostics import Diagnostic, Severity
from nexusform.domain_table import remarks_of_domains


class Level(StrEnum):
    """How much a diagnostic weighs, the heaviest first."""

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"
    NOTE = "note"

    @property
    def order(self) -> int:
        """Its place on the scale: 0 is the heaviest."""
        return _SCALE.index(self)


_SCALE: Final = tuple(Level)


class Stake(StrEnum):
    """What is at stake: nothing that runs is touched; something moves, or is not sure; something loses its
    place, or what kept it safe. The values are the names of a comment's boxes.
    """

    NOTHING = "note"
    MOVES = "warning"
    LOSES = "caution"

    @property
    def order(self) -> int:
        """Its place: 0 is the least."""
        return _STAKES.index(self)


_STAKES: Final = tuple(Stake)

# Every other diagnostic that is no error is a warning. Domains say it of theirs (domain_table.py).
_ADVICE: Final = (
    "looks-renamed",
    "object-will-be-forgotten",
    "shared-machine",
    "sku-mismatch",
    "small-before-large",
    "the-state-stays-on-this-machine",
    "value-for-undeclared-variable",
    "zones-pinned",
    "zones-too-small",
)
_NOTES: Final = (
    "backend-configuration-ignored",
    "generated-configuration-stands-elsewhere",
    "guard-rails-were-not-judged",
    "older-state",
    "resource-targeting-is-in-effect",
    "forgotten-vms-run-on",
    "sku-catalogue-ignored",
)
WEIGHTS: Final = {
    **dict.fromkeys(_ADVICE, Level.ADVICE),
    **dict.fromkeys(_NOTES, Level.NOTE),
    **{kind: Level(remark.level) for kind, remark in remarks_of_domains().items()},
}


def level_of(diagnostic: Diagnostic) -> Level:
    """How much a diagnostic weighs."""
    return Level.ERROR if diagnostic.severity is Severity.ERROR else level_of_warning(diagnostic.id)


def level_of_warning(kind: str) -> Level:
    """How much a diagnostic of this id weighs that is no error."""
    return WEIGHTS.get(kind, Level.WARNING)
