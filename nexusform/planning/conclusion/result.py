"""What comes out besides the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field

from nexusform.address import Address
from nexusform.diagnostics import Diagnostic
from nexusform.planning.phases import Contribution
from nexusform.planning.verdicts.fit import Unplaced
from nexusform.planning.verdicts.separation import OpenRule
from nexusform.planning.vms.sites import SitePlan
from nexusform.planning.vms.vm_object import VmObject
from nexusform.plans.plan import Plan
from nexusform.scheduling.racks.explanation import Explanation


class ExplainedVm(Struct, frozen=True):
    """Why one VM is where it is: the decision, and its share of the repeated tie-breaks."""

    address: Address
    object: str
    explanation: Explanation
    trigger: str


Edge: TypeAlias = tuple[str, str]


class PlanResult(Struct, frozen=True):
    """A plan with what only displays need: the resource graph as (from, to) addresses, the
    explanations asked for, the shortages behind the errors, the separation rules that may not hold, and
    what domains added. `noted` are the notes of racks and machines before the plan, where it takes machines
    from under VMs that they remember.
    """

    plan: Plan
    edges: tuple[Edge, ...] = ()
    nodes: tuple[str, ...] = ()
    explained: tuple[ExplainedVm, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()
    objects: Mapping[Address, VmObject] = field(default_factory=dict)
    sites: Mapping[str, SitePlan] = field(default_factory=dict)
    separations: tuple[OpenRule, ...] = ()
    contributions: tuple[Contribution, ...] = ()
    noted: Mapping[Address, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All that was found."""
        return self.plan.diagnostics
