"""Result of planning besides the plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.placements.vm_demands import PlacedVm, PoolDemand, VmDemand
from nexusform.planning.phases import DomainPhasesResult
from nexusform.planning.verdicts.placement_fit import PoolShortage
from nexusform.planning.vm_planning.site_plans import SitePlan
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.plans.plan import Change, Plan
from nexusform.plans.site_capacity.occupancy import UnmanagedVm
from nexusform.plans.site_capacity.site_resource_capacity import (
    SUPPLIES,
    SiteResources,
    read_recorded_site_resources,
)
from nexusform.resources.address import Address
from nexusform.scheduling.racks.vms import VmSku

if TYPE_CHECKING:
    from nexusform.planning.verdicts.separation_rules import UnsatisfiedRule
    from nexusform.scheduling.racks.explanation import DecisionExplanation


class ExplainedVm(Struct, frozen=True):
    """Explanation of the location of one VM (`object`).

    `explanation` is the decision, and `trigger` the reason of the placement.
    """

    address: Address
    object: str
    explanation: DecisionExplanation
    trigger: str


Edge: TypeAlias = tuple[str, str]


def iterate_observed_sites(changes: Iterable[Change]) -> Iterator[tuple[Change, SiteResources]]:
    """Yield the changes of sites read by a provider.

    Each comes with the resources recorded in its private note.
    """
    for change in changes:
        resources = read_recorded_site_resources(change.private)
        # Only sites have such a note, and simulated ones have none.
        if resources is not None:
            yield change, resources


def has_existing_objects(changes: Iterable[Change]) -> bool:
    """Return whether some object exists, or some site was read by a provider."""
    return any(change.before or SUPPLIES in change.note for change in changes)


def index_site_resources(changes: Iterable[Change]) -> dict[str, SiteResources]:
    """Return the resources of the sites read by a provider, by site id."""
    return {change.id: resources for change, resources in iterate_observed_sites(changes)}


class VmOnSite(Struct, frozen=True):
    """VM on its machine, with its owner."""

    address: Address
    cluster: str
    sku: VmSku
    vm: PlacedVm


class SiteWithVms(Struct):
    """One site on one side: its scheduler with all VMs, their owners, and the pools.

    `pools` are those of NKS clusters, in plan order.
    """

    site: SitePlan
    vms: list[VmOnSite] = field(default_factory=list)
    unmanaged_vms: list[UnmanagedVm] = field(default_factory=list)
    pools: list[tuple[VmDemand, PoolDemand]] = field(default_factory=list)


class PlanResult(Struct, frozen=True):
    """Plan with data for display only.

    This data is the resource graph as (from, to) addresses, the requested explanations, the
    shortages behind the errors, the separation rules that may be violated, and the contributions of
    domains. `prior_notes` are the notes of racks and machines before the plan, if it removes
    machines under recorded VMs. `occupied_before` are the sites with their VMs before the plan,
    which hypothetical plans of one state share (None: not built yet).
    """

    plan: Plan
    edges: tuple[Edge, ...] = ()
    nodes: tuple[str, ...] = ()
    explanations: tuple[ExplainedVm, ...] = ()
    unplaced: tuple[PoolShortage, ...] = ()
    objects: Mapping[Address, VmObject] = field(default_factory=dict)
    sites: Mapping[str, SitePlan] = field(default_factory=dict)
    open_rules: tuple[UnsatisfiedRule, ...] = ()
    contributions: tuple[DomainPhasesResult, ...] = ()
    prior_notes: Mapping[Address, Mapping[str, Any]] = field(default_factory=dict)
    occupied_before: Mapping[str, SiteWithVms] | None = None

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All diagnostics of the plan."""
        return self.plan.diagnostics
