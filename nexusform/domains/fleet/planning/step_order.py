"""Order of the steps evaluated once by a hub. A staged run or an eviction is not repeated after a start with
older objects, so it waits for all of its inputs in the plan. A rollout applies the overrides existing at its
start, to the clusters with matching labels. An override without a placement name starts none, so the steps
starting one wait for it, and for labels. A placement is left to staged runs before its content changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, TypeAlias

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity
from nexusform.domains.fleet.importers.fleet_records import (
    EXTERNAL,
    FleetApprovalRequest,
    FleetDisruptionBudget,
    FleetEviction,
    FleetMember,
    FleetObject,
    FleetOverride,
    FleetPlacement,
    FleetUpdateRun,
    FleetUpdateStrategy,
    HubObjects,
)
from nexusform.domains.fleet.planning.override_rendering import (
    ObjectIdentity,
    collect_object_identities,
    expand_envelopes,
    get_object_identity,
    is_any_affected,
)
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.planning.planned_hub import PlannedHub, get_hub_manifests
from nexusform.domains.fleet.planning.resource_selection import select_resources
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import get_value_at_path
from nexusform.planning.instances.instance import Instance
from nexusform.planning.preparation.planning_order import PlanningOrder
from nexusform.plans.plan import Action
from nexusform.resources.address import Address
from nexusform.resources.graph import find_reachable

StepOrder: TypeAlias = Mapping[Address, Sequence[Address]]
_EVICTION_TYPE: Final = "fleet_placement_eviction"
_OVERRIDE_TYPES: Final = frozenset({"fleet_cluster_resource_override", "fleet_resource_override"})
_PLACEMENT_TYPES: Final = frozenset({"fleet_cluster_resource_placement", "fleet_resource_placement"})
_ROLLOUT_TYPES: Final = frozenset({"fleet_hub_manifest", *_PLACEMENT_TYPES, *_OVERRIDE_TYPES})
_CREATE_ACTIONS: Final = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)


class _ChangedInstance(Struct, frozen=True):
    """Instance with a step in this plan, its fleet objects before and after, and its position in the plan.
    `identities` are the objects of a manifest; `placement_keys` the types of the versions, each with the key
    of its placement. A strategy has its own key.
    """

    instance: Instance
    versions: tuple[FleetObject, ...]
    position: int
    identities: frozenset[ObjectIdentity]
    placement_keys: frozenset[tuple[type, str | None]]


class _RolloutInputs(Struct, frozen=True):
    """Inputs of the rollouts of a placement (its key). `identities` are the objects selected by it before or
    after the plan, `overrides` the positions of changed overrides of all placements affecting these. Rollouts
    of staged runs have no such overrides; `earlier_overrides` exclude those in a namespace of this plan.
    `previous_identities` are the objects in state selected after the plan. `is_new`: this plan creates the
    placement. `is_switched`: this plan leaves it to staged runs.
    """

    placement: str
    identities: frozenset[ObjectIdentity] = frozenset()
    previous_identities: frozenset[ObjectIdentity] = frozenset()
    overrides: frozenset[int] = frozenset()
    earlier_overrides: frozenset[int] = frozenset()
    is_new: bool = False
    is_switched: bool = False


class _StepOrderContext(Struct, frozen=True):
    """Inputs of the order of one step."""

    changed: _ChangedInstance
    rollout: _RolloutInputs

    @property
    def requested(self) -> FleetObject:
        """Fleet object after the change; the former one if it is removed."""
        return self.changed.versions[-1]


# The following conditions decide if the step of the context waits for the step of `changed` (see _AWAITED).
def _is_content_of_placement(changed: _ChangedInstance, context: _StepOrderContext) -> bool:
    return not context.rollout.identities.isdisjoint(changed.identities)


def _is_removed_selected_object(changed: _ChangedInstance, context: _StepOrderContext) -> bool:
    """Return True for removed content still selected from state: the rollout is predicted without it, so the removal
    is first. A placement switched to staged runs does not roll out.
    """
    is_removed = changed.instance.is_removed and not context.rollout.is_switched
    return is_removed and not context.rollout.previous_identities.isdisjoint(changed.identities)


def _is_override_for_placement(changed: _ChangedInstance, context: _StepOrderContext) -> bool:
    keys = {(FleetOverride, ""), (FleetOverride, context.rollout.placement)}  # "" applies to all placements
    return not changed.placement_keys.isdisjoint(keys)


def _is_placement_of_rollout(changed: _ChangedInstance, context: _StepOrderContext) -> bool:
    return (FleetPlacement, context.rollout.placement) in changed.placement_keys


def _is_budget_of_placement(changed: _ChangedInstance, context: _StepOrderContext) -> bool:
    return (FleetDisruptionBudget, context.rollout.placement) in changed.placement_keys


def _is_strategy_of_run(changed: _ChangedInstance, context: _StepOrderContext) -> bool:
    return (FleetUpdateStrategy, _get_strategy_key(context)) in changed.placement_keys


def _is_remaining_member(changed: _ChangedInstance, _context: _StepOrderContext) -> bool:
    return changed.instance.type.kind is PlanningKind.MEMBER and not changed.instance.is_removed


def _is_changed_member(changed: _ChangedInstance, _context: _StepOrderContext) -> bool:
    return changed.instance.type.kind is PlanningKind.MEMBER and len(changed.versions) > 1  # neither new nor removed


def _is_relabeled_member(changed: _ChangedInstance, context: _StepOrderContext) -> bool:
    """Return True for a member with other labels, awaited by steps starting a rollout."""
    return bool(context.rollout.placement) and _has_new_labels(changed)


def _has_new_labels(changed: _ChangedInstance) -> bool:
    labels = [item.labels for item in changed.versions if isinstance(item, FleetMember)]  # before and after
    return len(labels) > 1 and labels[0] != labels[1]


def _is_placement_switched_to_staged_runs(changed: _ChangedInstance, context: _StepOrderContext) -> bool:
    return context.rollout.is_switched and _is_placement_of_rollout(changed, context)


def _is_earlier_override(changed: _ChangedInstance, context: _StepOrderContext) -> bool:
    return changed.position in context.rollout.earlier_overrides


def _is_eviction_before_override(changed: _ChangedInstance, context: _StepOrderContext) -> bool:
    """Return True for an eviction awaited by an override; one without a placement name starts no rollout."""
    return bool(getattr(context.requested, "placement", "")) and _is_eviction_of_placement(changed, context)


def _is_eviction_of_placement(changed: _ChangedInstance, context: _StepOrderContext) -> bool:
    return (FleetEviction, context.rollout.placement) in changed.placement_keys


def _is_earlier_eviction(changed: _ChangedInstance, context: _StepOrderContext) -> bool:
    return changed.position < context.changed.position and _is_eviction_of_placement(changed, context)


def _is_ended_run(changed: _ChangedInstance, context: _StepOrderContext) -> bool:
    """Return True for an earlier run of the placement, completed by this plan."""
    is_ended = changed.position < context.changed.position and get_value_at_path(changed.instance.private, "ended")
    return bool(is_ended) and (FleetUpdateRun, context.rollout.placement) in changed.placement_keys


def _is_rollout_override(changed: _ChangedInstance, context: _StepOrderContext) -> bool:
    return changed.position in context.rollout.overrides


def _is_awaited_by_objects(changed: _ChangedInstance, context: _StepOrderContext) -> bool:
    """Return True if content waits for an override, to be rolled out with it. There is no need for content of a new
    placement, since this waits itself; and content with the new namespace of the override must be first.
    """
    is_namespace_first = _has_new_namespace_of_override(context.changed, changed.versions[-1])
    return not context.rollout.is_new and not is_namespace_first and _is_rollout_override(changed, context)


def _is_override_after_namespace(changed: _ChangedInstance, context: _StepOrderContext) -> bool:
    """Return True for an override of objects in content applied before it, since content adds its namespace."""
    override, objects = changed.versions[-1], context.requested
    if not isinstance(override, FleetOverride) or not isinstance(objects, HubObjects) or changed.instance.is_removed:
        return False
    is_needed = not context.rollout.is_new and _is_rollout_override(changed, context)  # a new placement waits itself
    follows_content = is_needed and _has_new_namespace_of_override(context.changed, override)
    return follows_content and is_any_affected(override, expand_envelopes(objects.manifests))


def _is_override_before_named_override(changed: _ChangedInstance, context: _StepOrderContext) -> bool:
    return bool(getattr(context.requested, "placement", "")) and _is_rollout_override(changed, context)


def _is_new_namespace_of_override(changed: _ChangedInstance, context: _StepOrderContext) -> bool:
    return _has_new_namespace_of_override(changed, context.requested)


def _has_new_namespace_of_override(changed: _ChangedInstance, override: FleetObject) -> bool:
    """Return True if a manifest's change adds the namespace of an override, created or newly in the manifest."""
    if not isinstance(override, FleetOverride) or not override.namespace or changed.instance.is_removed:
        return False
    namespace = ObjectIdentity("", "Namespace", "", override.namespace)
    if namespace not in changed.identities:
        return False
    return changed.instance.action in _CREATE_ACTIONS or namespace not in _collect_identities(changed.versions[:1])


# A hub evaluates an eviction against the existing bindings, so all rollouts of its placement follow it.
_AWAITED: Final[Mapping[type, tuple[Callable[[_ChangedInstance, _StepOrderContext], bool], ...]]] = {
    FleetUpdateRun: (
        _is_content_of_placement,
        _is_override_for_placement,
        _is_placement_of_rollout,
        _is_strategy_of_run,
        _is_remaining_member,
        _is_ended_run,
        _is_eviction_of_placement,
    ),
    FleetApprovalRequest: (
        _is_content_of_placement,
        _is_override_for_placement,
        _is_placement_of_rollout,
        _is_strategy_of_run,
        _is_remaining_member,
        _is_eviction_of_placement,
    ),
    FleetEviction: (_is_budget_of_placement, _is_remaining_member, _is_earlier_eviction, _is_earlier_override),
    FleetPlacement: (_is_eviction_of_placement, _is_rollout_override, _is_removed_selected_object, _is_changed_member),
    FleetOverride: (
        *(_is_eviction_before_override, _is_new_namespace_of_override, _is_override_before_named_override),
        *(_is_relabeled_member, _is_placement_switched_to_staged_runs),
    ),
    HubObjects: (
        _is_eviction_of_placement,
        _is_awaited_by_objects,
        _is_relabeled_member,
        _is_placement_switched_to_staged_runs,
    ),
}


class _ChangedIndex:
    """Changed objects by position, by identity of their content, and by type and placement."""

    def __init__(self, changed_objects: Sequence[_ChangedInstance]) -> None:
        self.by_position = {item.position: item for item in changed_objects}
        self.by_identity: dict[ObjectIdentity, list[int]] = {}  # positions by object in a manifest
        self.members: list[int] = []  # positions
        self._by_placement: dict[tuple[type, str | None], list[int]] = {}  # positions by type and key of a placement
        removed: set[ObjectIdentity] = set()
        for item in changed_objects:
            for identity in item.identities:
                self.by_identity.setdefault(identity, []).append(item.position)
            if item.instance.is_removed:
                removed |= item.identities
            if item.instance.type.kind is PlanningKind.MEMBER:
                self.members.append(item.position)
            for key in item.placement_keys:
                self._by_placement.setdefault(key, []).append(item.position)
        self.content, self.removed_content = frozenset(self.by_identity), frozenset(removed)

    def list_content(self, identities: Iterable[ObjectIdentity]) -> Iterator[int]:
        """Yield the positions of the manifests with any of these objects."""
        return chain.from_iterable(self.by_identity.get(identity, ()) for identity in identities)

    def list_namespace(self, name: str) -> Iterator[int]:
        """Yield the positions of the manifests with this Namespace."""
        return self.list_content([ObjectIdentity("", "Namespace", "", name)])

    def list_steps_of_placement(self, kind: type, *keys: str) -> Iterator[int]:
        """Yield the positions of the objects of a type for one of these placements."""
        return chain.from_iterable(self._by_placement.get((kind, key), ()) for key in keys)


def _get_placement_key(version: FleetObject) -> str | None:
    """Return the key of an object's placement ("" for all), the own key of a strategy; None for other objects."""
    match version:
        case FleetPlacement() | FleetUpdateStrategy():
            return version.key
        case FleetUpdateRun():
            return version.build_key(version.placement)
        case FleetDisruptionBudget() | FleetEviction() | FleetOverride():
            return version.placement
    return None


def _get_strategy_key(context: _StepOrderContext) -> str:
    """Return the key of the strategy of a run; "" for other objects."""
    run = context.requested
    return run.build_key(run.strategy) if isinstance(run, FleetUpdateRun) else ""


_Check: TypeAlias = Callable[[_ChangedInstance, _StepOrderContext], bool]
# Positions of the objects that may pass a check: few of the changed ones.
_CANDIDATES: Final[Mapping[_Check, Callable[[_ChangedIndex, _StepOrderContext], Iterable[int]]]] = {
    _is_content_of_placement: lambda index, context: index.list_content(index.content & context.rollout.identities),
    _is_removed_selected_object: lambda index, context: index.list_content(
        index.removed_content & context.rollout.previous_identities
    ),
    _is_new_namespace_of_override: lambda index, context: index.list_namespace(
        getattr(context.requested, "namespace", "")
    ),
    **dict.fromkeys(
        (_is_remaining_member, _is_changed_member, _is_relabeled_member), lambda index, _context: index.members
    ),
    **dict.fromkeys(
        (_is_placement_of_rollout, _is_placement_switched_to_staged_runs),
        lambda index, context: index.list_steps_of_placement(FleetPlacement, context.rollout.placement),
    ),
    **dict.fromkeys(
        (_is_eviction_of_placement, _is_earlier_eviction, _is_eviction_before_override),
        lambda index, context: index.list_steps_of_placement(FleetEviction, context.rollout.placement),
    ),
    _is_budget_of_placement: lambda index, context: index.list_steps_of_placement(
        FleetDisruptionBudget, context.rollout.placement
    ),
    _is_strategy_of_run: lambda index, context: index.list_steps_of_placement(
        FleetUpdateStrategy, _get_strategy_key(context)
    ),
    _is_ended_run: lambda index, context: index.list_steps_of_placement(FleetUpdateRun, context.rollout.placement),
    _is_override_for_placement: lambda index, context: index.list_steps_of_placement(
        FleetOverride, "", context.rollout.placement
    ),
    _is_earlier_override: lambda _index, context: context.rollout.earlier_overrides,
    **dict.fromkeys(
        (_is_rollout_override, _is_awaited_by_objects, _is_override_before_named_override),
        lambda _index, context: context.rollout.overrides,
    ),
}


def compute_step_order(
    instances: Iterable[Instance], placements: Mapping[str, PlacementPlan], hub: PlannedHub
) -> tuple[dict[Address, tuple[Address, ...]], list[Diagnostic]]:
    """Return the addresses to complete before the step of each address (run, approval, eviction, or start of a
    rollout), and warnings about overrides created after the start of a rollout.
    """
    changed_objects = list(_list_changed_objects(instances))
    index = _ChangedIndex(changed_objects)
    rollouts = _RolloutIndex(index, placements, hub)
    order: dict[Address, tuple[Address, ...]] = {}
    warnings: dict[Address, Diagnostic] = {}
    for changed in changed_objects:
        requested = changed.versions[-1]  # the object after the plan; the former one if removed
        checks = _AWAITED.get(type(requested), ())  # conditions for waiting for another object
        can_wait = not changed.instance.is_removed or isinstance(requested, FleetOverride | HubObjects)
        if not checks or not can_wait:
            continue  # only a removal of overrides or content changes placements, as its creation does
        awaited: dict[Address, None] = {}  # an ordered set
        for key in _list_affected_placements(changed, rollouts, hub):
            context = _StepOrderContext(changed, rollouts.get(key))
            candidate_positions = {position for check in checks for position in _CANDIDATES[check](index, context)}
            for item in map(index.by_position.__getitem__, sorted(candidate_positions)):
                if any(check(item, context) for check in checks):
                    awaited[item.instance.address] = None
            rollout_overrides = sorted(context.rollout.overrides) if isinstance(requested, HubObjects) else ()
            for item in map(index.by_position.__getitem__, rollout_overrides):
                if _is_override_after_namespace(item, context):
                    warnings.setdefault(item.instance.address, _build_late_override_warning(item, context))
        order[changed.instance.address] = tuple(awaited)
    return order, list(warnings.values())


def _build_late_override_warning(override: _ChangedInstance, context: _StepOrderContext) -> Diagnostic:
    """Build the warning about an override created after the start of the rollout of its objects."""
    content, address = context.changed.instance.address, override.instance.address
    text = (
        f"{content} creates the namespace of {address} and an object changed by it, so the rollout of "
        f"{context.rollout.placement} starts before {address} exists. Set placement in {address}, or move the "
        "Namespace into a fleet_hub_manifest of its own."
    )
    return override.instance.build_diagnostic(Problem((), "override-effective-next-change", text, Severity.WARNING))


class _RolloutIndex:
    """Inputs of rollouts by placement, collected on demand."""

    def __init__(self, index: _ChangedIndex, placements: Mapping[str, PlacementPlan], hub: PlannedHub) -> None:
        changed_objects = index.by_position.values()
        self._placements, self._hub = placements, hub
        self._inputs: dict[str, _RolloutInputs] = {}
        versions = [(item.position, version) for item in changed_objects for version in item.versions]  # before, after
        overrides = [(position, version) for position, version in versions if isinstance(version, FleetOverride)]
        # Overrides of all placements; one with a placement starts a rollout itself.
        self._overrides = [(position, override) for position, override in overrides if not override.placement]
        with_eviction = dict.fromkeys(item.placement for _, item in versions if isinstance(item, FleetEviction))
        self._new_namespace_positions: set[int] = set()
        for position, override in self._overrides:
            manifests = map(index.by_position.__getitem__, index.list_namespace(override.namespace))
            if any(_has_new_namespace_of_override(manifest, override) for manifest in manifests):
                self._new_namespace_positions.add(position)
        # Other placements with a reason to wait: new labels of members, a switch to staged runs, or `_overrides`.
        has_new_labels = any(map(_has_new_labels, changed_objects))
        with_other_reason = [
            key
            for key, placement in placements.items()
            if has_new_labels or _is_switching_to_runs(placement) or (self._overrides and self.get(key).overrides)
        ]
        self.ordered_placements = tuple(dict.fromkeys((*with_eviction, *with_other_reason)))  # their content waits
        self._ranks = {key: rank for rank, key in enumerate(self.ordered_placements)}
        self._ranks_by_identity: dict[ObjectIdentity, list[int]] | None = None  # built at first use

    def list_placements(self, changed: _ChangedInstance) -> Iterator[str]:
        """Yield the placements (of `ordered_placements`) with the content of a changed manifest, or of an override."""
        if self._ranks_by_identity is None:
            self._ranks_by_identity = {}
            for rank, key in enumerate(self.ordered_placements):
                for identity in self.get(key).identities:
                    self._ranks_by_identity.setdefault(identity, []).append(rank)
        names = {item.placement for item in changed.versions if isinstance(item, FleetOverride)}
        if "" in names:  # an override of all placements
            yield from self.ordered_placements
            return
        ranks = {self._ranks[name] for name in names if name in self._ranks}  # positions in ordered_placements
        for identity in changed.identities:
            ranks.update(self._ranks_by_identity.get(identity, ()))
        yield from (self.ordered_placements[rank] for rank in sorted(ranks))

    def get(self, key: str) -> _RolloutInputs:
        """Return the inputs of a placement; of an unknown one only its key."""
        if key not in self._inputs:
            placement = self._placements.get(key)
            self._inputs[key] = _RolloutInputs(key) if placement is None else self._build_rollout_inputs(key, placement)
        return self._inputs[key]

    def _build_rollout_inputs(self, key: str, placement: PlacementPlan) -> _RolloutInputs:
        """Build the inputs of a placement from its selections before and after the plan."""
        previous = placement.spec.previous_configuration or placement.spec.configuration
        prior_manifests = select_resources(previous, self._hub.prior_object_index)
        manifests = tuple(expand_envelopes((*placement.selection.manifests, *prior_manifests)))
        overrides = () if placement.spec.is_external else self._overrides  # staged runs wait for overrides themselves
        positions = frozenset(position for position, override in overrides if is_any_affected(override, manifests))
        objects_in_state = select_resources(placement.spec.configuration, self._hub.prior_object_index)
        return _RolloutInputs(
            key,
            identities=frozenset(map(get_object_identity, manifests)),
            previous_identities=collect_object_identities(objects_in_state),
            overrides=positions,
            earlier_overrides=positions - self._new_namespace_positions,
            is_new=placement.spec.instance.action in _CREATE_ACTIONS,
            is_switched=_is_switching_to_runs(placement),
        )


def _is_switching_to_runs(placement: PlacementPlan) -> bool:
    """Return whether the plan leaves a placement with rolling updates to staged runs."""
    previous = placement.spec.previous_configuration
    return placement.spec.is_external and previous is not None and previous.strategy != EXTERNAL


def _list_affected_placements(changed: _ChangedInstance, rollouts: _RolloutIndex, hub: PlannedHub) -> Iterator[str]:
    """Yield the keys of the placements affected by a step. For content and overrides, yield only those with a reason to
    wait: an eviction, an override of all placements, new labels of members, or a switch to staged runs. For
    overrides, also yield "": they wait for their namespace in any case.
    """
    requested = changed.versions[-1]
    match requested:
        case FleetApprovalRequest():
            runs = {run.build_key(run.name): run for _, run in (*hub.runs, *hub.waiting_runs)}
            run = runs.get(requested.run_key)
            if run is not None:
                yield run.build_key(run.placement)
        case FleetUpdateRun():
            yield requested.build_key(requested.placement)
        case FleetPlacement():
            yield requested.key
        case FleetEviction():
            yield requested.placement
        case FleetOverride():
            yield ""
            yield from rollouts.list_placements(changed)
        case _:
            yield from rollouts.list_placements(changed)


def _explain_awaited_step(address: Address, awaited: Address) -> tuple[str, str]:
    """Return why a step must wait for another one, and the remedy if a dependency prevents it."""
    remedy = "Remove the reference or depends_on, or apply them in two plans."
    starts_rollout = address.type in _ROLLOUT_TYPES
    if starts_rollout and awaited.type in _OVERRIDE_TYPES:
        remedy = f"Set placement in {awaited}, remove the reference or depends_on, or apply them in two plans."
        return "a rollout applies only existing overrides", remedy
    if starts_rollout and awaited.type in _PLACEMENT_TYPES:
        return "the hub rolls out changes until the placement is left to staged runs", remedy
    if awaited.type == _EVICTION_TYPE and address.type != _EVICTION_TYPE:
        return "the hub evaluates an eviction against the clusters before the change", remedy
    return "the hub reads that once for it", remedy


def check_step_order(
    order: StepOrder, instances: Mapping[Address, Instance], planning_order: PlanningOrder
) -> Iterator[Diagnostic]:
    """Yield an error for each awaited object with a dependency on the step waiting for it."""
    for address, awaited_addresses in order.items():
        block = address.config_address
        for awaited in awaited_addresses:
            needs = find_reachable([awaited.config_address], planning_order.get_direct_dependencies)
            if awaited.config_address != block and block in needs:  # both wait for each other
                reason, remedy = _explain_awaited_step(address, awaited)
                text = (
                    f"{address} must be applied after {awaited}, because {reason}, but {awaited} "
                    f"depends on {address}. {remedy}"
                )
                yield instances[address].build_diagnostic(Problem((), "step-order-conflict", text))


def _list_changed_objects(instances: Iterable[Instance]) -> Iterator[_ChangedInstance]:
    """Yield the instances of fleet objects with a step in this plan, in planning order."""
    for position, instance in enumerate(instances):
        build = instance.type.build_fleet_object
        if build is None or instance.is_invalid or instance.action in (Action.NO_OP, Action.FORGET):
            continue  # no step on the hub
        versions = tuple(build(values) for values in (instance.before, instance.planned) if values is not None)
        if not versions:
            continue  # not planned, and not in state
        placement_keys = frozenset((type(version), _get_placement_key(version)) for version in versions)
        yield _ChangedInstance(instance, versions, position, _collect_identities(versions), placement_keys)


def _collect_identities(versions: Iterable[FleetObject]) -> frozenset[ObjectIdentity]:
    """Return the identities of the objects of manifests on the hub."""
    return collect_object_identities(chain.from_iterable(map(get_hub_manifests, versions)))
