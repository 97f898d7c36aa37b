"""The scheduler's profile: which rules, in which order. Read this file to know why a cluster is refused.

A cluster's first refusal, in this order, is the one that KubeFleet reports. PickAll runs the filters
only; PickFixed runs none, and asks for eligibility alone.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from nexusform.domains.fleet.scheduling.bindings import Abort, Ask
from nexusform.domains.fleet.scheduling.roster import Mask, Roster, Standing
from nexusform.domains.fleet.scheduling.rules import (
    cluster_affinity,
    cluster_eligibility,
    namespace_affinity,
    same_placement_affinity,
    taint_toleration,
    topology_spread,
)


class Filter(Struct, frozen=True):
    """A rule that refuses: its plugin's name, its file's name, whom it admits, and why not the others.

    `steady`: it looks at members alone, never at what the placement already holds.
    """

    plugin: str
    rule: str
    admitted: Callable[[Ask, Roster, Standing], Mask | Abort]
    reason: Callable[[Ask, Roster, Standing, int], str]
    steady: bool


FILTERS: tuple[Filter, ...] = (
    Filter(
        cluster_affinity.PLUGIN, "cluster_affinity", cluster_affinity.admitted, cluster_affinity.reason, True
    ),
    Filter(
        cluster_eligibility.PLUGIN,
        "cluster_eligibility",
        cluster_eligibility.admitted,
        cluster_eligibility.reason,
        True,
    ),
    Filter(
        namespace_affinity.PLUGIN,
        "namespace_affinity",
        namespace_affinity.admitted,
        namespace_affinity.reason,
        True,
    ),
    Filter(
        taint_toleration.PLUGIN, "taint_toleration", taint_toleration.admitted, taint_toleration.reason, True
    ),
    Filter(
        same_placement_affinity.PLUGIN,
        "same_placement_affinity",
        same_placement_affinity.admitted,
        same_placement_affinity.reason,
        False,
    ),
    Filter(
        topology_spread.PLUGIN, "topology_spread", topology_spread.admitted, topology_spread.reason, False
    ),
)
