"""A risk of one file: a plan places VMs on a Friday."""

from __future__ import annotations

from collections.abc import Iterator

from nexusform.placements.consequence_record import (
    Consequence,
    ConsequenceKind,
    ConsequenceSeverity,
)
from nexusform.plans.plan import Plan


def find_friday_placements(plan: Plan) -> Iterator[Consequence]:
    """Yield a risk if the plan places VMs."""
    if plan.placements:
        yield Consequence(
            kind=ConsequenceKind.DOWN,
            risk="friday",
            severity=ConsequenceSeverity.LASTING,
            subject="VMs",
            text="VMs are placed on a Friday",
        )
