"""Of many diagnostics those that are to be told: each once, and causes without what follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nexusform.address import parse_address
from nexusform.diagnostics import Diagnostic, Severity
from nexusform.graph import reached
from nexusform.planning.instances.conditions import ID_OF_CONDITION
from nexusform.planning.instances.instance import UNDECIDED
from nexusform.planning.names.evaluation import UNKNOWN_REPETITION
from nexusform.planning.preparation.order import Order

# What may only follow from another mistake: a site that is in error cannot be found by its racks.
_CONSEQUENCES = frozenset(
    {"unknown-site", "unknown-rack", "unknown-cluster", "unknown-availability-zone", UNDECIDED}
)


def causes(
    diagnostics: Sequence[Diagnostic],
    order: Order,
    *,
    flawed: bool,
) -> list[Diagnostic]:
    """The diagnostics of a walk without those that only follow from something else: from a block in error
    that theirs depends on, from what was wrong before the walk (`flawed`), or from an unknown
    value where a rack or site is described.
    """
    kept = _without_dependents_of_errors(diagnostics, order)
    if flawed:
        return [d for d in kept if d.id not in _CONSEQUENCES]
    if any(d.id == UNDECIDED for d in kept):
        return [d for d in kept if d.id == UNDECIDED or d.id not in _CONSEQUENCES]
    return kept


def _without_dependents_of_errors(diagnostics: Sequence[Diagnostic], order: Order) -> list[Diagnostic]:
    """Without arguments that are unknown only because what they refer to is in error."""
    in_error = {
        parse_address(d.address).config
        for d in diagnostics
        if d.severity is Severity.ERROR and d.id != UNDECIDED and d.address
    }
    if not in_error:
        return list(diagnostics)

    def follows(diagnostic: Diagnostic) -> bool:
        if diagnostic.id != UNDECIDED or not diagnostic.address:
            return False
        block = parse_address(diagnostic.address).config
        needs = reached(order.direct_needs(block), order.direct_needs)
        return not in_error.isdisjoint(needs)

    return [d for d in diagnostics if not follows(d)]


def each_once(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Each problem once, errors first, otherwise as they came; nothing of a repetition that is unknown
    because data could not be read: then everything that is made of the data is.
    """
    once: dict[tuple[object, ...], Diagnostic] = {}
    for diagnostic in diagnostics:
        once.setdefault(_sameness(diagnostic), diagnostic)
    errors_first = sorted(once.values(), key=lambda d: d.severity is not Severity.ERROR)
    if any(d.severity is Severity.ERROR and _is_data(d.address) for d in errors_first):
        return [d for d in errors_first if not _repeats_unknown(d)]
    return errors_first


def _sameness(diagnostic: Diagnostic) -> tuple[object, ...]:
    """Diagnostics with the same are one. What stands at a place is told once for all instances, but for
    conditions: these are said of every instance.
    """
    of_each = diagnostic.subject is None or diagnostic.id in ID_OF_CONDITION.values()
    return (
        diagnostic.severity,
        diagnostic.id,
        diagnostic.summary,
        diagnostic.detail,
        diagnostic.subject,
        diagnostic.address if of_each else "",
    )


def _is_data(address: str) -> bool:
    return address.startswith("data.") or ".data." in address


def _repeats_unknown(diagnostic: Diagnostic) -> bool:
    return diagnostic.id in UNKNOWN_REPETITION.values()
