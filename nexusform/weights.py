"""One scale of weight, the same in terminal, comment, page, JSON, SARIF, JUnit, review and editor.

An error stops what was asked for. A warning says that something fails or is lost. Advice says what would be
better, a note what is good to know: nothing fails by either.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from nexusform.diagnostics import Diagnostic, Severity


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

# Every other diagnostic that is no error is a warning.
_ADVICE: Final = (
    "a-fresh-schedule-would-choose-otherwise",
    "a-real-hub-treats-this-differently",
    "deprecated-envelope",
    "looks-renamed",
    "members-of-a-placement-share-machines",
    "node-differs-from-its-vm-sku",
    "object-will-be-forgotten",
    "old-inventory",
    "older-property-name",
    "pods-share-a-machine",
    "pods-share-a-rack",
    "replicas-are-changed-by-an-autoscaler",
    "resources-twice",
    "shared-machine",
    "sku-mismatch",
    "small-before-large",
    "the-state-stays-on-this-machine",
    "value-for-undeclared-variable",
    "zones-pinned",
    "zones-too-small",
)
_NOTES: Final = (
    "age-of-the-inventory-unknown",
    "backend-configuration-ignored",
    "creation-times-not-captured",
    "derived-at-reading",
    "document-read-with-a-correction",
    "generated-configuration-stands-elsewhere",
    "guard-rails-were-not-judged",
    "health-of-a-member-is-unknown",
    "incomplete-list",
    "limits-of-volumes-are-not-known",
    "managed-from-elsewhere",
    "more-findings",
    "not-read-for-placement",
    "older-state",
    "pods-are-not-predicted",
    "read-with-a-correction",
    "resource-targeting-is-in-effect",
    "resources-not-read",
    "forgotten-vms-run-on",
    "sku-catalogue-ignored",
    "staged-run-waits-for-an-approval",
    "unmanaged-vms",
    "volumes-are-not-known",
)
WEIGHTS: Final = dict.fromkeys(_ADVICE, Level.ADVICE) | dict.fromkeys(_NOTES, Level.NOTE)


def level_of(diagnostic: Diagnostic) -> Level:
    """How much a diagnostic weighs."""
    return Level.ERROR if diagnostic.severity is Severity.ERROR else level_of_warning(diagnostic.id)


def level_of_warning(kind: str) -> Level:
    """How much a diagnostic of this id weighs that is no error."""
    return WEIGHTS.get(kind, Level.WARNING)
