"""Order of the steps evaluated once by a hub. A staged run or an eviction is not repeated after a start with
older objects, so it waits for all of its inputs in the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic, Problem
from nexusform.domains.fleet.importers.fleet_model import (
    FleetApproval,
    FleetBudget,
    FleetEviction,
    FleetObject,
    FleetOverride,
    FleetPlacement,
    FleetRun,
    FleetStrategy,
    HubObjects,
)
from nexusform.domains.fleet.planning.overrides import ObjectIdentity, collect_object_identities
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.planning.planned_hub import PlannedHub
from nexusform.domains.fleet.planning.resource_selectors import select_resources
from nexusform.interfaces.plugins import PlanningKind
from nexusform.planning.instances.instance import Instance
from nexusform.planning.preparation.planning_order import PlanningOrder
from nexusform.plans.plan import Action
from nexusform.resources.address import Address
from nexusform.resources.graph import find_reachable

StepOrder: TypeAlias = Mapping[Address, Sequence[Address]]
_ENDED: Final = "ended"  # key of a run's note
_EVICTION_TYPE: Final = "fleet_placement_eviction"
_EVICTION_REASON: Final = "the hub evaluates an eviction against the clusters before the change"


class _ChangedObject(Struct, frozen=True):
    """Instance with a step in this plan, its fleet objects before and after, and its position in the plan."""

    instance: Instance
    versions: tuple[FleetObject, ...]
    position: int


class _OrderContext(Struct, frozen=True):
    """Inputs of the order of one step. `placement` is the key of the affected placement, `identities` are the
    objects selected by it before or after the plan.
    """

    requested: FleetObject
    position: int
    placement: str
    identities: frozenset[ObjectIdentity] = frozenset()


def _is_content(changed: _ChangedObject, context: _OrderContext) -> bool:
    manifests = (item.manifests for item in changed.versions if isinstance(item, HubObjects) and not item.cluster_id)
    return any(not context.identities.isdisjoint(collect_object_identities(item)) for item in manifests)


def _is_override(changed: _ChangedObject, context: _OrderContext) -> bool:
    overrides = (item for item in changed.versions if isinstance(item, FleetOverride))
    return any(item.placement in ("", context.placement) for item in overrides)


def _is_placement(changed: _ChangedObject, context: _OrderContext) -> bool:
    return any(isinstance(item, FleetPlacement) and item.key == context.placement for item in changed.versions)


def _is_budget(changed: _ChangedObject, context: _OrderContext) -> bool:
    return any(isinstance(item, FleetBudget) and item.placement == context.placement for item in changed.versions)


def _is_strategy(changed: _ChangedObject, context: _OrderContext) -> bool:
    run = context.requested
    strategies = (item for item in changed.versions if isinstance(item, FleetStrategy))
    return isinstance(run, FleetRun) and any(item.key == run.build_key(run.strategy) for item in strategies)


def _is_member(changed: _ChangedObject, _context: _OrderContext) -> bool:
    return changed.instance.type.kind is PlanningKind.MEMBER and not changed.instance.is_removed


def _is_eviction(changed: _ChangedObject, context: _OrderContext) -> bool:
    return any(isinstance(item, FleetEviction) and item.placement == context.placement for item in changed.versions)


def _is_earlier_eviction(changed: _ChangedObject, context: _OrderContext) -> bool:
    return changed.position < context.position and _is_eviction(changed, context)


def _is_ended_run(changed: _ChangedObject, context: _OrderContext) -> bool:
    """Return True for an earlier run of the placement, completed by this plan."""
    runs = (item for item in changed.versions if isinstance(item, FleetRun))
    is_earlier = changed.position < context.position
    has_ended = bool((changed.instance.private or {}).get(_ENDED))
    return is_earlier and has_ended and any(item.build_key(item.placement) == context.placement for item in runs)


# A hub evaluates an eviction against the existing bindings, so all changes of its placement follow it.
_AWAITED: Final[Mapping[type, tuple[Callable[[_ChangedObject, _OrderContext], bool], ...]]] = {
    FleetRun: (_is_content, _is_override, _is_placement, _is_strategy, _is_member, _is_ended_run, _is_eviction),
    FleetApproval: (_is_content, _is_override, _is_placement, _is_strategy, _is_member, _is_eviction),
    FleetEviction: (_is_budget, _is_member, _is_earlier_eviction),
    FleetPlacement: (_is_eviction,),
    FleetOverride: (_is_eviction,),
    HubObjects: (_is_eviction,),
}


def compute_step_order(
    instances: Iterable[Instance], placements: Mapping[str, PlacementPlan], hub: PlannedHub
) -> dict[Address, tuple[Address, ...]]:
    """Return the addresses to complete before each run, approval, eviction and evicted placement."""
    changed_objects = list(_list_changed_objects(instances))
    order: dict[Address, tuple[Address, ...]] = {}
    for changed in changed_objects:
        requested = changed.versions[-1]
        checks = _AWAITED.get(type(requested), ())
        is_repeatable = isinstance(requested, FleetOverride | HubObjects)  # its deletion changes a placement too
        if not checks or (changed.instance.is_removed and not is_repeatable):
            continue
        awaited: dict[Address, None] = {}
        for key in _list_affected_placements(changed, changed_objects, placements, hub):
            context = _OrderContext(requested, changed.position, key, _collect_selected(placements.get(key), hub))
            matches = (item for item in changed_objects if any(check(item, context) for check in checks))
            awaited |= {item.instance.address: None for item in matches}
        order[changed.instance.address] = tuple(awaited)
    return order


def _list_affected_placements(
    changed: _ChangedObject,
    changed_objects: Sequence[_ChangedObject],
    placements: Mapping[str, PlacementPlan],
    hub: PlannedHub,
) -> Iterator[str]:
    """Yield the keys of the placements affected by a step; for content and overrides those with an eviction."""
    requested = changed.versions[-1]
    match requested:
        case FleetApproval():
            runs = {run.build_key(run.name): run for _, run in (*hub.runs, *hub.waiting_runs)}
            run = runs.get(requested.run_key)
            yield from [run.build_key(run.placement)] if run is not None else ()
        case FleetRun():
            yield requested.build_key(requested.placement)
        case FleetPlacement():
            yield requested.key
        case FleetEviction():
            yield requested.placement
        case _:
            versions = (version for item in changed_objects for version in item.versions)
            for key in dict.fromkeys(item.placement for item in versions if isinstance(item, FleetEviction)):
                context = _OrderContext(requested, 0, key, _collect_selected(placements.get(key), hub))
                if _is_content(changed, context) or _is_override(changed, context):
                    yield key


def check_step_order(
    order: StepOrder, instances: Mapping[Address, Instance], planning_order: PlanningOrder
) -> Iterator[Diagnostic]:
    """Yield an error for each awaited object with a dependency on the step waiting for it."""
    for address, awaited_addresses in order.items():
        block = address.config_address
        for awaited in awaited_addresses:
            needs = find_reachable([awaited.config_address], planning_order.get_direct_needs)
            if awaited.config_address != block and block in needs:
                is_eviction = awaited.type == _EVICTION_TYPE and address.type != _EVICTION_TYPE
                reason = _EVICTION_REASON if is_eviction else "the hub reads that once for it"
                text = (
                    f"{address} must be applied after {awaited}, because {reason}, but {awaited} "
                    f"depends on {address}. Remove the reference or depends_on, or apply them in two plans."
                )
                yield instances[address].build_diagnostic(Problem((), "step-order-conflict", text))


def _list_changed_objects(instances: Iterable[Instance]) -> Iterator[_ChangedObject]:
    for position, instance in enumerate(instances):
        build = instance.type.build_fleet_object
        if build is None or instance.is_invalid or instance.action in (Action.NO_OP, Action.FORGET):
            continue
        versions = [build(values) for values in (instance.before, instance.planned) if values is not None]
        if versions:
            yield _ChangedObject(instance, tuple(versions), position)


def _collect_selected(placement: PlacementPlan | None, hub: PlannedHub) -> frozenset[ObjectIdentity]:
    """Return the identities of the objects selected by a placement before or after the plan."""
    if placement is None:
        return frozenset()
    previous = placement.spec.previous_configuration or placement.spec.configuration
    manifests = (*placement.selection.manifests, *select_resources(previous, hub.prior_object_index))
    return collect_object_identities(manifests)
