"""How findings are put into words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nexusform.advice.facts import PoolFacts
from nexusform.diagnostics import Diagnostic, Severity
from nexusform.source import Span

_SHOWN: Final = 6


def finding(rule: str, what: str, detail: str, pool: PoolFacts, subject: Span | None = None) -> Diagnostic:
    """A warning of a rule about a pool; the summary is constant for the rule."""
    return Diagnostic(
        Severity.WARNING,
        f"{rule}: {what}",
        detail,
        subject or pool.span,
        address=pool.address,
        block=pool.block,
        id=rule,
    )


def listed(names: Sequence[str], most: int = _SHOWN) -> str:
    """`a`, `a and b`, `a, b and c`; beyond `most` names, how many more there are."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def counted(number: int, one: str, many: str = "") -> str:
    """`1 machine`, `6 machines`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
