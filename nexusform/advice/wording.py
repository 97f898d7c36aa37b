"""How findings are put into words."""

from __future__ import annotations

from typing import Final

from nexusform.advice.facts import PoolFacts
from nexusform.diagnostics import Diagnostic, warning
from nexusform.source import Span

# A sentence of advice names up to this many things.
NAMED: Final = 6


def finding(
    rule: str, detail: str, pool: PoolFacts, subject: Span | None = None, *, brief: str
) -> Diagnostic:
    """A warning of a rule about a pool; `brief` is the same in a line, after a name and a colon."""
    return warning(rule, detail, subject or pool.span, address=pool.address, block=pool.block, brief=brief)
