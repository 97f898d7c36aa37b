"""Counts of which only bounds are known, in words and in JSON."""

from __future__ import annotations

from nexusform.planning.plan import Draws
from nexusform.scheduling.racks.vms import Interval
from nexusform.words import counted, form


def fits_text(count: Interval) -> str:
    """`fits`, `fit`; and what is certain where only bounds are known: `fit, certain: 1`."""
    verb = form(count.most, "fits", "fit")
    return verb if count.exact else f"{verb}, certain: {count.least:,}"


def interval_document(count: Interval) -> dict[str, int]:
    """The bounds."""
    return {"min": count.least, "max": count.most}


def draws_text(draws: Draws | None) -> str:
    """How much of a plan hangs on NUMA cells that nobody told; "" for none."""
    if draws is None:
        return ""
    known = f"not known on {counted(draws.machines, 'machine')}"
    shown = f"draw {draws.shown} is shown"
    if not draws.runs:
        return f"{known}; {shown}, no others were tried."
    return f"{known}; everything fits in {draws.fitting:,} of {draws.runs:,} draws of them, {shown}."


def draws_document(draws: Draws | None) -> dict[str, int] | None:
    """The same as JSON shows it."""
    if draws is None:
        return None
    return {
        "machines_with_unknown_cells": draws.machines,
        "shown": draws.shown,
        "fitting": draws.fitting,
        "runs": draws.runs,
    }
