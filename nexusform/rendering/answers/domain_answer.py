"""What a domain answers when somebody asks why an object of its own is where it is."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from nexusform.diagnostics import Diagnostic
from nexusform.rendering.answers.outline import Outline


class DomainAnswer(Struct, frozen=True):
    """Outlines, each with its JSON data, and what was met. `notes` are those of the diagnostics that stand
    below the answer in text. `goes_far`: a configuration in error is explained as far as it goes.
    """

    answers: tuple[tuple[Outline, dict[str, Any]], ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    notes: tuple[Diagnostic, ...] = ()
    goes_far: bool = False
