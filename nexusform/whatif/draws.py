"""How much of an answer hangs on NUMA cells that nobody told: asked again in many draws of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct

from nexusform.planning.plan import Draws
from nexusform.scheduling.racks.certainty import FEWEST_RUNS, MOST_RUNS
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.vms import Interval

_MOST_PLACEMENTS: Final = 20_000  # some five seconds of an upgrade


class DrawnRoom(Struct, frozen=True):
    """The VMs that find no room, over the draws; in all and pool by pool, beside the draws in which a pool
    finds room for all of its own. `exact`: the interval holds for every way in which VMs may lie, not for the
    draws alone.
    """

    draws: Draws
    missing: Interval
    pools: tuple[Interval, ...]
    fitting: tuple[int, ...]
    exact: bool = False

    @property
    def certain(self) -> bool:
        """Whether everything finds room, as far as is known."""
        return self.missing.most == 0


def ask_again(
    scheduler: RackScheduler, vms: int, missing: Callable[[RackScheduler], Sequence[int]]
) -> DrawnRoom | None:
    """Ask of every draw how many VMs find no room, pool by pool; `vms` are those that a question places. None
    where all cells are known. The draw that is shown is the first.
    """
    if not vms or not scheduler.is_drawn:
        return None
    runs = max(FEWEST_RUNS, min(MOST_RUNS, _MOST_PLACEMENTS // vms))
    # Of each draw, how many VMs of each pool are missing; and of each pool, in each draw.
    by_draw = [tuple(missing(scheduler.copy(split_seed=run))) for run in range(runs)]
    by_pool = list(zip(*by_draw, strict=True))
    draws = Draws(
        machines=len(scheduler.loose_machines()),
        shown=scheduler.split_seed,
        fitting=sum(not any(counts) for counts in by_draw),
        runs=runs,
    )
    return DrawnRoom(
        draws=draws,
        missing=_over(map(sum, by_draw)),
        pools=tuple(map(_over, by_pool)),
        fitting=tuple(counts.count(0) for counts in by_pool),
    )


def _over(counts: Iterable[int]) -> Interval:
    listed = list(counts)
    return Interval(min(listed), max(listed))
