"""Phases added by domains after that of the VMs, each based on the previous ones.

A domain lists them in domain_table.py (`phases`). They are loaded if the configuration or the state
contains an object of its types, so most plans load none.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, field

from nexusform.configuration.declarations.configuration import ResourceBlock
from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.domain_table import find_domains
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.placements.vm_demands import ClaimDemand
from nexusform.planning.instances.block_planner import BlockPlanner
from nexusform.planning.instances.instance import Instance
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.planning.plan_request import ArgumentAdjustment
from nexusform.planning.preparation.prior_state import PriorState
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.plans.maintenance import DrainObstacles
from nexusform.plans.plan import (
    ContentChange,
    Feasibility,
    PlacementChange,
    RejectedCluster,
    Rollout,
)
from nexusform.resources.address import Address
from nexusform.state.objects import InstanceState, State


class ScheduledPod(Struct, frozen=True):
    """Workload of a domain (a pod) and its VM.

    Cluster id and node name; "" if the nodes are unknown.
    """

    cluster_id: str
    node: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    trigger: str = ""
    is_certain: bool = True


Instances: TypeAlias = Mapping[Address, Instance]


class ProposedFix(Struct, frozen=True):
    """Edits to test as a plan: the bindings in `solves` no longer wait, those in `runs` run.

    A binding is a placement and a cluster. Every one of the `completed` placement runs; it may have
    `fewer_clusters`. `change` is data for machine-readable output.
    """

    kind: str
    text: str
    edits: tuple[ArgumentAdjustment, ...]
    solves: frozenset[tuple[Address, str]]
    runs: frozenset[tuple[Address, str]]
    change: Mapping[str, Any] = field(default_factory=dict)
    completed: Address | None = None
    fewer_clusters: int = 0


class DomainPhasesResult(Struct, frozen=True):
    """Results of a domain's phases.

    The plan gets `rows` of all objects that they place, `rollouts`, `rejected_clusters`,
    `content_changes` and `feasibility`; `observed_attributes` replace those in state as the
    starting point. `step_order` lists the addresses to complete before the step of an address.
    `content_addresses` lists the addresses of the content that an address places.
    `list_workloads()` returns the workloads on VMs after the plan.
    `collect_findings(instances, risks)` returns their findings; `risks` only if everything is
    placed. `find_disruptions(cluster_id, nodes)` returns the obstacles to draining these nodes of
    a cluster. `collect_claims()` returns the storage claims before and after the plan, by the id
    of each known cluster. `suggest_fixes(limit)` yields edits for waiting bindings, the best
    first, other clusters for at most `limit` bindings. `detail` is the domain's own record, for
    its own explanations.
    """

    rows: tuple[PlacementChange, ...] = ()
    rollouts: tuple[Rollout, ...] = ()
    rejected_clusters: tuple[RejectedCluster, ...] = ()
    content_changes: tuple[ContentChange, ...] = ()
    feasibility: tuple[Feasibility, ...] = ()
    observed_attributes: Mapping[Address, Mapping[str, Any]] = field(default_factory=dict)
    step_order: Mapping[Address, Sequence[Address]] = field(default_factory=dict)
    content_addresses: Mapping[Address, Sequence[Address]] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()
    list_workloads: Callable[[], Sequence[ScheduledPod]] = tuple
    collect_findings: Callable[..., list[Diagnostic]] = lambda *_instances, **_risks: []
    find_disruptions: Callable[[str, Collection[str]], DrainObstacles] = (
        lambda _cluster_id, _nodes: DrainObstacles()
    )
    collect_claims: Callable[[], Mapping[str, tuple[ClaimDemand, ClaimDemand]]] = dict
    suggest_fixes: Callable[[int], Iterable[ProposedFix]] = lambda _limit: ()
    detail: object = None


class DomainPhases(Struct, frozen=True):
    """Phases of a domain.

    `plan(blocks, vms, evaluation)` runs them, or `remove(blocks, vms)` if everything is destroyed.
    `resolve_queries(blocks, context, contribution, evaluation)` fills the domain's data blocks that
    query spare capacity, after all placements. `list_workloads(state, registries)` returns the
    workloads of a state, `collect_claims(instances, registries)` their storage claims, by cluster
    id. `list_lost_rows(prior, registries)` yields a row per object in state with a missing host.
    """

    plan: Callable[[BlockPlanner, Iterable[VmObject], Evaluation], DomainPhasesResult]
    remove: Callable[[BlockPlanner, Iterable[VmObject]], DomainPhasesResult]
    list_workloads: Callable[[State, PluginRegistries], list[ScheduledPod]]
    collect_claims: Callable[
        [Mapping[Address, InstanceState], PluginRegistries], Mapping[str, ClaimDemand]
    ]
    list_lost_rows: Callable[[PriorState, PluginRegistries], Iterator[PlacementChange]]


def list_workloads(state: State, registries: PluginRegistries) -> list[ScheduledPod]:
    """Return the workloads on VMs in a state."""
    used_phases = load_used_phases(state.instances)
    return [
        workload for phases in used_phases for workload in phases.list_workloads(state, registries)
    ]


def collect_claims(
    instances: Mapping[Address, InstanceState], registries: PluginRegistries
) -> dict[str, ClaimDemand]:
    """Return the storage claims of pods of existing objects, by cluster id."""
    claims: dict[str, ClaimDemand] = {}
    for phases in load_used_phases(instances):
        claims |= phases.collect_claims(instances, registries)
    return claims


def load_used_phases(objects: Iterable[ResourceBlock | Address]) -> Iterator[DomainPhases]:
    """Yield the planning phases of each domain, such as fleet or pods.

    Only domains with the type of one of these objects count.
    """
    # A domain is imported only if one of its types is used.
    types = {used.type for used in objects}
    for domain in find_domains().values():
        if domain.phases and not types.isdisjoint(domain.resource_types):
            phases: DomainPhases = domain.load_object(domain.phases)
            yield phases
