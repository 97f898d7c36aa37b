"""Answers of domains about the placement of their own objects."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.rendering.report.report_tree import Report


class DomainAnswer(Struct, frozen=True):
    """Reports with their JSON data, and diagnostics. `notes` are the diagnostics shown below the answer in
    text. `allows_errors`: a configuration with errors is explained as far as possible.
    """

    answers: tuple[tuple[Report, dict[str, Any]], ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    notes: tuple[Diagnostic, ...] = ()
    allows_errors: bool = False
