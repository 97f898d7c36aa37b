"""Counts of which only bounds are known, in words and in JSON."""

from __future__ import annotations

from nexusform.scheduling.racks.vms import Interval
from nexusform.words import form


def fits_text(count: Interval) -> str:
    """`fits`, `fit`; and what is certain where only bounds are known: `fit, certain: 1`."""
    verb = form(count.most, "fits", "fit")
    return verb if count.exact else f"{verb}, certain: {count.least:,}"


def interval_document(count: Interval) -> dict[str, int]:
    """The bounds."""
    return {"min": count.least, "max": count.most}
