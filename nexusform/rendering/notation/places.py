"""Where a VM, a binding or a pod is, and how many fit where only bounds are known, in words and in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nexusform.planning.plan import SCHEDULED, Draws, Place, PodPlace
from nexusform.scheduling.racks.vms import Interval, Placement
from nexusform.words import counted, form

if TYPE_CHECKING:  # loaded where a what-if is asked
    from nexusform.worlds.availability import DrawnRoom


def place_text(place: Place) -> str:
    """One place: `rack4 / rack4-bm07 / cell 1`, `east (Bound)`, `node-1 / rack4-bm07 / zone 4`."""
    if isinstance(place, Placement):
        return _joined(place.rack, place.machine, cells_text(place))
    if isinstance(place, PodPlace):
        zone = f"zone {place.availability_zone}" if place.availability_zone else ""
        return _joined(place.word, place.machine, zone)
    return f"{place.cluster} ({place.state})"


def cells_text(placement: Placement) -> str:
    """`cell 1`, `cells 0+1`; "" where nobody told them."""
    numbers = "+".join(str(cell) for cell in placement.cells)
    return f"{form(len(placement.cells), 'cell')} {numbers}" if numbers else ""


def _joined(*parts: str | None) -> str:
    """What there is of a place, from the outside in."""
    return " / ".join(part for part in parts if part)


def place_document(place: Place | None) -> dict[str, Any] | None:
    """A place as JSON shows it; None where there is none."""
    if place is None:
        return None
    if isinstance(place, Placement):
        return {
            "machine": place.machine,
            "rack": place.rack,
            "availability_zone": place.availability_zone,
            "numa_cells": list(place.cells) or None,
        }
    if isinstance(place, PodPlace):
        return {
            "cluster": place.cluster,
            "node": place.node,
            "machine": place.machine,
            "availability_zone": place.availability_zone,
            "state": SCHEDULED if place.node else place.word,
        }
    return {"cluster": place.cluster, "state": str(place.state)}


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
    shown = f"draw {draws.shown} is shown"
    if not draws.runs:
        return f"{unknown_cells}; {shown}, no others were tried."
    fits = f"everything fits in {draws.fitting:,} of {draws.runs:,} draws of them, {shown}"
    return f"{unknown_cells}; {fits}. Shares are of these draws, samples that make no place there sure."


def draws_document(draws: Draws | None) -> dict[str, int] | None:
    """How much of a plan hangs on NUMA cells that nobody told, as JSON shows it."""
    if draws is None:
        return None
    return {
        "machines_with_unknown_cells": draws.machines,
        "shown": draws.shown,
        "fitting": draws.fitting,
        "runs": draws.runs,
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
