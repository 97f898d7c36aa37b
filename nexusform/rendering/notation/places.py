"""How many fit where only bounds are known, and what hangs on unknown NUMA cells, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexusform.plans.plan import Draws
from nexusform.scheduling.racks.vms import Interval
from nexusform.words import counted, form

if TYPE_CHECKING:  # loaded where a what-if is asked
    from nexusform.worlds.availability import DrawnRoom


def fits_text(count: Interval) -> str:
    """`fits`, `fit`; and what is certain where only bounds are known: `fit, certain: 1`."""
    verb = form(count.most, "fits", "fit")
    return verb if count.exact else f"{verb}, certain: {count.least:,}"


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


def drawn_text(drawn: DrawnRoom) -> str:
    """How much of a what-if hangs on such cells, and how many VMs find no room."""
    if drawn.missing.exact and not drawn.missing.most:
        return draws_text(drawn.draws)
    reach = "however VMs lie there" if drawn.exact else "over these draws"
    return f"{draws_text(drawn.draws)} VMs without room, {reach}: {drawn.missing}."
