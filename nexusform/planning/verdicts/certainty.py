"""How sure the placements of a plan are: each site's steps taken again under other seeds."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from msgspec import Struct, field

from nexusform.planning.vms.sites import SitePlan
from nexusform.scheduling.decision import Certainty
from nexusform.scheduling.racks.certainty import Place, PoolCertainty, Token, default_runs, repeat
from nexusform.scheduling.racks.model import Placement


class SiteCertainty(Struct, frozen=True):
    """What the repetitions of one site said: per VM (its handle) and per pool. `outcomes` holds, per
    run, where each VM (its handle) stood, None where it did not fit; kept only when asked for.
    """

    vms: Mapping[int, Certainty] = field(default_factory=dict)
    pools: Mapping[tuple[str, str], PoolCertainty] = field(default_factory=dict)
    outcomes: tuple[Mapping[Token, Placement | None], ...] = ()

    def pool(self, owner: str, pool: str) -> PoolCertainty | None:
        """The figures of a pool, None when this plan placed none of its VMs."""
        return self.pools.get((owner, pool))


def measure(
    sites: Mapping[str, SitePlan], runs: int | None, *, keep_outcomes: bool = False
) -> tuple[int, dict[str, SiteCertainty]]:
    """Repeat the placements of every site; `runs` None takes the default for so many VMs. Gives
    how many runs were made, 0 when nothing was placed.
    """
    operations = chain.from_iterable(site.operations for site in sites.values())
    placed = sum(1 for operation in operations if isinstance(operation, Place))
    if placed == 0:
        return 0, {}
    run_count = default_runs(placed) if runs is None else runs
    certainty = {}
    for site_id, site in sites.items():
        if site.base is None or not site.operations or run_count == 0:
            continue
        outcome = repeat(site.base, site.operations, run_count, keep_outcomes=keep_outcomes)
        vms = {token: sure for token, sure in outcome.vms.items() if isinstance(token, int)}
        pools = {(pool.owner, pool.pool): pool for pool in outcome.pools}
        certainty[site_id] = SiteCertainty(vms, pools, outcome.outcomes)
    return run_count, certainty
