"""What domains add to a plan: phases after that of the VMs, each on what those before it have made.

A domain that has any names them in domain_table.py (`phases`). They are loaded when the configuration or the
state holds an object of one of its types, so most plans load none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeAlias, cast

from msgspec import Struct, field

from nexusform.address import Address
from nexusform.demands import ClaimDemand
from nexusform.diagnostics import Diagnostic
from nexusform.domain_table import Domain, domains
from nexusform.planning.instances.blocks import Blocks
from nexusform.planning.instances.instance import Instance
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.vms.vm_object import VmObject
from nexusform.plans.plan import Disruptions, PassedOver, PlacementChange, Rollout
from nexusform.ports import Registries
from nexusform.state.objects import InstanceState, State


class HostedWorkload(Struct, frozen=True):
    """A workload of a domain (a pod) and the VM (cluster id and node name) that it runs on."""

    cluster_id: str
    node: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    trigger: str = ""


Instances: TypeAlias = Mapping[Address, Instance]


def _no_findings(_instances: Instances, *, risks: bool) -> list[Diagnostic]:  # noqa: ARG001 - as Contribution says
    return []


def _no_disruptions(_cluster_id: str, _nodes: Collection[str]) -> Disruptions:
    return Disruptions()


class Contribution(Struct, frozen=True):
    """What the phases of a domain came to.

    `rows` of all that it places, `rollouts` and `passed_over` as the plan shows them; `shown`: what objects
    begin with instead of what state has. `hosted()` are the workloads on VMs after the plan.
    `findings(instances, risks)` is what is to be said of them; `risks` only where everything has its place.
    `disruptions(cluster_id, nodes)`: what draining these nodes of a cluster meets. `claimed()`: what is
    claimed of storage before the plan and after it, by the id of each cluster that anything is known of.
    `detail` is the domain's own record, for its own explanations.
    """

    rows: tuple[PlacementChange, ...] = ()
    rollouts: tuple[Rollout, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    shown: Mapping[Address, Mapping[str, Any]] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()
    hosted: Callable[[], Sequence[HostedWorkload]] = tuple
    findings: Callable[..., list[Diagnostic]] = _no_findings
    disruptions: Callable[[str, Collection[str]], Disruptions] = _no_disruptions
    claimed: Callable[[], Mapping[str, tuple[ClaimDemand, ClaimDemand]]] = dict
    detail: object = None


class Phases(Struct, frozen=True):
    """The phases of a domain.

    `plan(blocks, vms, evaluation)`, or `remove(blocks, vms)` where everything is destroyed.
    `hosted(state, registries)` are the workloads of a state, `claimed(instances, registries)` what they claim
    of storage, by the cluster's id.
    `found_lost(prior, registries)` has a row for everything of state whose ground was found to be gone.
    """

    plan: Callable[[Blocks, Iterable[VmObject], Evaluation], Contribution]
    remove: Callable[[Blocks, Iterable[VmObject]], Contribution]
    hosted: Callable[[State, Registries], list[HostedWorkload]]
    claimed: Callable[[Mapping[Address, InstanceState], Registries], Mapping[str, ClaimDemand]]
    found_lost: Callable[[Prior, Registries], Iterator[PlacementChange]]


def plan_phases(blocks: Blocks, vms: Iterable[VmObject], evaluation: Evaluation) -> tuple[Contribution, ...]:
    """What the domains that are named add to a plan."""
    types = _types_of(blocks)
    return tuple(
        _phases_of(domain).plan(blocks, vms, evaluation)
        for domain in _with_phases()
        if not types.isdisjoint(domain.resource_types)
    )


def remove_phases(blocks: Blocks, vms: Iterable[VmObject]) -> tuple[Contribution, ...]:
    """What the domains that are named leave behind when everything is destroyed."""
    types = _types_of(blocks)
    return tuple(
        _phases_of(domain).remove(blocks, vms)
        for domain in _with_phases()
        if not types.isdisjoint(domain.resource_types)
    )


def said_by(contributions: Iterable[Contribution]) -> Iterator[Diagnostic]:
    """The diagnostics of what domains added."""
    for contribution in contributions:
        yield from contribution.diagnostics


def hosted_in(state: State, registries: Registries) -> list[HostedWorkload]:
    """The workloads that a state has on VMs."""
    types = {address.type for address in state.instances}
    found: list[HostedWorkload] = []
    for domain in _with_phases():
        if not types.isdisjoint(domain.resource_types):
            found += _phases_of(domain).hosted(state, registries)
    return found


def claimed_in(instances: Mapping[Address, InstanceState], registries: Registries) -> dict[str, ClaimDemand]:
    """What pods of objects that stand claim of storage, by the cluster's id."""
    types = {address.type for address in instances}
    claimed: dict[str, ClaimDemand] = {}
    for domain in _with_phases():
        if not types.isdisjoint(domain.resource_types):
            claimed |= _phases_of(domain).claimed(instances, registries)
    return claimed


def found_lost_in(prior: Prior, registries: Registries) -> Iterator[PlacementChange]:
    """Rows of what stood and lost its ground outside of nexusform."""
    types = {address.type for address in prior.instances}
    for domain in _with_phases():
        if not types.isdisjoint(domain.resource_types):
            yield from _phases_of(domain).found_lost(prior, registries)


def _types_of(blocks: Blocks) -> set[str]:
    """The types of the objects that the configuration or the state holds."""
    return {block.type for block in blocks.order.blocks} | {
        address.type for address in blocks.prior.instances
    }


def _with_phases() -> Iterator[Domain]:
    return (domain for domain in domains().values() if domain.phases)


def _phases_of(domain: Domain) -> Phases:
    module, _, name = domain.target(domain.phases).partition(":")
    return cast("Phases", getattr(import_module(module), name))
