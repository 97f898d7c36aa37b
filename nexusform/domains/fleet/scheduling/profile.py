"""Profile of the scheduler: the rules and their order.

Read this file to know why a cluster is rejected. PickAll runs the filters only; PickFixed runs none
and checks eligibility only.
"""

from typing import Protocol

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

_Verdict = Mask | CycleAbort


class _RuleModule(Protocol):
    """Module of one filter rule: accepted members, and the reason for the others."""

    def find_eligible(
        self, request: PlacementRequest, members: MemberList, masks: BindingMasks, /
    ) -> _Verdict:
        """Return the accepted members as bits, or why the whole cycle stops.

        `masks` are the members with bindings.
        """

    def explain_rejection(
        self, request: PlacementRequest, members: MemberList, masks: BindingMasks, position: int, /
    ) -> str:
        """Return why the rule rejects the member at this position, in the scheduler's words."""


class SchedulerFilter(Struct, frozen=True):
    """Filter rule with its module.

    `is_static` means that it depends on members only, never on existing bindings.
    """

    rule: str
    module: _RuleModule
    is_static: bool


FILTERS: tuple[SchedulerFilter, ...] = (
    SchedulerFilter("cluster_affinity", cluster_affinity, is_static=True),
    SchedulerFilter("cluster_eligibility", cluster_eligibility, is_static=True),
    SchedulerFilter("namespace_affinity", namespace_affinity, is_static=True),
    SchedulerFilter("taint_toleration", taint_toleration, is_static=True),
    SchedulerFilter("same_placement_affinity", same_placement_affinity, is_static=False),
    SchedulerFilter("topology_spread", topology_spread, is_static=False),
)
