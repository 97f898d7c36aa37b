"""How many fit where only bounds are known, and what hangs on unknown NUMA cells, in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nexusform.json_forms import Form
from nexusform.plans.plan import Draws
from nexusform.scheduling.racks.vms import Interval

if TYPE_CHECKING:  # loaded where a what-if is asked
    from nexusform.worlds.availability import DrawnRoom

INTERVAL: Final = Form(Interval, "min=least max=most")
DRAWS: Final = Form(Draws, "machines_with_unknown_cells=machines shown fitting runs packed spread")


def drawn_document(drawn: DrawnRoom | None) -> dict[str, Any] | None:
    """How much of a what-if hangs on NUMA cells that nobody told; `pools` in the order of the answer's."""
    if drawn is None:
        return None
    pools = [
        {**INTERVAL(missing), "fitting": fitting}
        for missing, fitting in zip(drawn.pools, drawn.fitting, strict=True)
    ]
    return {
        **({} if drawn.draws is None else DRAWS(drawn.draws)),
        "vms_without_room": {**INTERVAL(drawn.missing), "certain_bounds": drawn.exact},
        "pools": pools,
    }
