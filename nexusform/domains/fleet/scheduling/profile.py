"""Profile of the scheduler: the rules and their order. Read this file to know why a cluster is rejected.
KubeFleet reports a cluster's first rejection in this order. PickAll runs the filters only; PickFixed runs
none and checks eligibility only.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from nexusform.domains.fleet.scheduling.bindings import CycleAbort, PlacementRequest
from nexusform.domains.fleet.scheduling.member_list import BindingMasks, Mask, MemberList
from nexusform.domains.fleet.scheduling.rules import (
    cluster_affinity,
    cluster_eligibility,
    namespace_affinity,
    same_placement_affinity,
    taint_toleration,
    topology_spread,
)


class SchedulerFilter(Struct, frozen=True):
    """Filter rule: name of the plugin, name of the file, accepted members, and the reason for the others.
    `is_static`: it depends on members only, never on existing bindings.
    """

    plugin: str
    rule: str
    find_eligible: Callable[[PlacementRequest, MemberList, BindingMasks], Mask | CycleAbort]
    explain_rejection: Callable[[PlacementRequest, MemberList, BindingMasks, int], str]
    is_static: bool


FILTERS: tuple[SchedulerFilter, ...] = (
    SchedulerFilter(
        cluster_affinity.PLUGIN,
        "cluster_affinity",
        cluster_affinity.find_eligible,
        cluster_affinity.explain_rejection,
        True,
    ),
    SchedulerFilter(
        cluster_eligibility.PLUGIN,
        "cluster_eligibility",
        cluster_eligibility.find_eligible,
        cluster_eligibility.explain_rejection,
        True,
    ),
    SchedulerFilter(
        namespace_affinity.PLUGIN,
        "namespace_affinity",
        namespace_affinity.find_eligible,
        namespace_affinity.explain_rejection,
        True,
    ),
    SchedulerFilter(
        taint_toleration.PLUGIN,
        "taint_toleration",
        taint_toleration.find_eligible,
        taint_toleration.explain_rejection,
        True,
    ),
    SchedulerFilter(
        same_placement_affinity.PLUGIN,
        "same_placement_affinity",
        same_placement_affinity.find_eligible,
        same_placement_affinity.explain_rejection,
        False,
    ),
    SchedulerFilter(
        topology_spread.PLUGIN,
        "topology_spread",
        topology_spread.find_eligible,
        topology_spread.explain_rejection,
        False,
    ),
)
