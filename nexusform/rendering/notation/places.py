"""How many fit where only bounds are known, and what hangs on unknown NUMA cells, in words and in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nexusform.plans.plan import Draws
from nexusform.scheduling.racks.vms import Interval
from nexusform.words import counted, form

if TYPE_CHECKING:  # loaded where a what-if is asked
    from nexusform.worlds.availability import DrawnRoom


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
    unknown_cells = f"not known on {counted(draws.machines, 'machine')}"
    is_drawn = isinstance(draws.shown, int)
    shown = f"draw {draws.shown} is shown" if is_drawn else f"the run `{draws.shown}` is shown"
    if not draws.runs:
        return f"{unknown_cells}; {shown}, no others were tried."
    fits = f"everything fits in {draws.fitting:,} of {draws.runs:,} draws of them, {shown}"
    return f"{unknown_cells}; {fits}. Shares are of these draws, samples that make no place there sure."


def draws_document(draws: Draws | None) -> dict[str, int | str] | None:
    """How much of a plan hangs on NUMA cells that nobody told, as JSON shows it."""
    if draws is None:
        return None
    return {
        "machines_with_unknown_cells": draws.machines,
        "shown": draws.shown,
        "fitting": draws.fitting,
        "runs": draws.runs,
        "packed": draws.packed,
        "spread": draws.spread,
    }


def drawn_text(drawn: DrawnRoom) -> str:
    """How much of a what-if hangs on such cells, and how many VMs find no room."""
    if drawn.missing.exact and not drawn.missing.most:
        return draws_text(drawn.draws)
    reach = "however VMs lie there" if drawn.exact else "over these draws"
    return f"{draws_text(drawn.draws)} VMs without room, {reach}: {drawn.missing}."


def drawn_document(drawn: DrawnRoom | None) -> dict[str, Any] | None:
    """The same as JSON shows it; `pools` in the order of the answer's."""
    if drawn is None:
        return None
    pools = [
        {**interval_document(missing), "fitting": fitting}
        for missing, fitting in zip(drawn.pools, drawn.fitting, strict=True)
    ]
    return {
        **(draws_document(drawn.draws) or {}),
        "vms_without_room": {**interval_document(drawn.missing), "certain_bounds": drawn.exact},
        "pools": pools,
    }
