"""Levels of diagnostics, the same in every output.

Outputs are the terminal, comment, page, JSON, SARIF, JUnit, review and editor. An error stops the
request. A warning reports a failure or a loss. Advice suggests an improvement, a note is
information: neither implies a failure.
"""

from enum import StrEnum
from typing import Final

from nexusform.diagnostics.diagnostic import Diagnostic, Severity
from nexusform.domain_table import collect_diagnostic_traits


class Level(StrEnum):
    """Level of a diagnostic, the most severe first."""

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"
    NOTE = "note"

    @property
    def order(self) -> int:
        """Rank: 0 is the most severe."""
        return _SCALE.index(self)


_SCALE: Final = tuple(Level)


class PlacementImpact(StrEnum):
    """Impact on running objects: none; something moves, or is uncertain.

    Something loses its machine, or its protection. The values are the names of a
    comment's alert boxes.
    """

    NONE = "note"
    MOVES = "warning"
    LOSES = "caution"

    @property
    def order(self) -> int:
        """Rank: 0 is the lowest."""
        return _IMPACTS.index(self)


_IMPACTS: Final = tuple(PlacementImpact)

# All other diagnostics that are not errors are warnings. Domains define the levels
# of theirs (domain_table.py).
_ADVICE: Final = (
    "probable-rename",
    "no-joint-surge-capacity",
    "object-to-forget",
    "shared-machine",
    "sku-mismatch",
    "small-before-large",
    "local-only-state",
    "too-few-racks-for-quorum",
    "value-for-undeclared-variable",
    "zones-pinned",
    "zones-too-small",
)
_NOTES: Final = (
    "backend-configuration-ignored",
    "generated-configuration-exists",
    "guard-rails-not-checked",
    "outdated-state",
    "refresh-skipped",
    "resource-targeting-is-in-effect",
    "forgotten-vms-keep-running",
    "sku-catalogue-ignored",
)
LEVELS_BY_ID: Final = {
    **dict.fromkeys(_ADVICE, Level.ADVICE),
    **dict.fromkeys(_NOTES, Level.NOTE),
    **{kind: Level(traits.level) for kind, traits in collect_diagnostic_traits().items()},
}
VMS_WITHOUT_MACHINE: Final = "vms-without-machine"
# A variable of the root module has neither a value nor a default.
MISSING_VALUE: Final = "no-value-for-required-variable"


def get_diagnostic_level(diagnostic: Diagnostic) -> Level:
    """Return the level of a diagnostic."""
    return (
        Level.ERROR if diagnostic.severity is Severity.ERROR else get_warning_level(diagnostic.id)
    )


def get_warning_level(diagnostic_id: str) -> Level:
    """Return the level of a diagnostic with this id that is not an error."""
    return LEVELS_BY_ID.get(diagnostic_id, Level.WARNING)
