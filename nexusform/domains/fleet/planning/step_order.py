"""Order of the steps evaluated once by a hub.

A staged run or an eviction waits for all of its inputs in the plan. A rollout applies the overrides
existing at its start, so the steps starting one wait for overrides, and for labels.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
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
    collect_selection_keys,
    is_any_affected,
)
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.planning.planned_hub import PlannedHub, get_hub_manifests
from nexusform.domains.fleet.planning.resource_selection import select_resources
from nexusform.domains.pods.types.fleet_object_type import FleetObjectType
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
_PLACEMENT_TYPES: Final = frozenset(
    {"fleet_cluster_resource_placement", "fleet_resource_placement"}
)
_ROLLOUT_TYPES: Final = frozenset({"fleet_hub_manifest", *_PLACEMENT_TYPES, *_OVERRIDE_TYPES})
_CREATE_ACTIONS: Final = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)


class _ChangedInstance(Struct, frozen=True):
    """Instance with a step in this plan: its position, and its fleet objects.

    The objects are those before and after the plan. `identities` are the objects of a manifest;
    `placement_keys` the types of the versions, each with the key of its placement. A strategy has
    its own key.
    """

    instance: Instance
    versions: tuple[FleetObject, ...]
    position: int
    identities: frozenset[ObjectIdentity]
    placement_keys: frozenset[tuple[type, str]]


class _RolloutInputs(Struct, frozen=True):
    """Inputs of the rollouts of a placement (its key).

    `identities` are the objects selected by it before or after the plan, `overrides` the positions
    of changed overrides of all placements affecting these. Rollouts of staged runs have no such
    overrides; `earlier_overrides` exclude those in a namespace of this plan. `identities_in_state`
    are the objects in state selected after the plan. `is_new` means that this plan creates the
    placement, `is_switched` that this plan leaves it to staged runs.
    """

    placement: str
    identities: frozenset[ObjectIdentity] = frozenset()
    identities_in_state: frozenset[ObjectIdentity] = frozenset()
    overrides: frozenset[int] = frozenset()
    earlier_overrides: frozenset[int] = frozenset()
    is_new: bool = False
    is_switched: bool = False


def _has_new_namespace_of_override(changed: _ChangedInstance, override: FleetOverride) -> bool:
    """Return True if a changed manifest adds the namespace of an override.

    It is new, or did not have it before.
    """
    namespace = ObjectIdentity("", "Namespace", "", override.namespace)
    if changed.instance.is_removed or namespace not in changed.identities:
        return False
    if changed.instance.action in _CREATE_ACTIONS:
        return True
    # The object before the plan.
    before = changed.versions[0]
    return namespace not in collect_object_identities(get_hub_manifests(before))


class _ChangedIndex:
    """Changed objects by position, and positions by identity and by members.

    The identity is that of the content, by type and placement. Members are those not removed, those
    changed, and those with other labels.
    """

    def __init__(self, changed_objects: Sequence[_ChangedInstance]) -> None:
        """Index the changed objects by content and placement.

        Members are sorted by kind of change.
        """
        self.by_position = {item.position: item for item in changed_objects}
        # positions of manifests by object in them.
        self._by_identity: dict[ObjectIdentity, list[int]] = {}
        # positions by class and key of the placement.
        self._by_placement: dict[tuple[type, str], list[int]] = {}
        # positions; not removed.
        self.remaining_members: list[int] = []
        # Neither new nor removed.
        self.changed_members: list[int] = []
        # With other labels.
        self.relabeled_members: list[int] = []
        for item in changed_objects:
            for identity in item.identities:
                self._by_identity.setdefault(identity, []).append(item.position)
            for key in item.placement_keys:
                self._by_placement.setdefault(key, []).append(item.position)
            if item.instance.type.kind is PlanningKind.MEMBER:
                self._add_member(item)

    def _add_member(self, member: _ChangedInstance) -> None:
        """Add the position of a member to the lists of remaining, changed and relabeled members."""
        if not member.instance.is_removed:
            self.remaining_members.append(member.position)
        # Neither new nor removed.
        if len(member.versions) > 1:
            self.changed_members.append(member.position)
            before, after = member.versions
            assert isinstance(before, FleetMember)
            assert isinstance(after, FleetMember)
            if before.labels != after.labels:
                self.relabeled_members.append(member.position)

    def get_override(self, position: int) -> FleetOverride:
        """Return the override at a position, after the plan; the former one if removed."""
        override = self.by_position[position].versions[-1]
        assert isinstance(override, FleetOverride)
        return override

    def find_manifests(self, identities: AbstractSet[ObjectIdentity]) -> Iterator[int]:
        """Yield the positions of the changed manifests with any of these objects."""
        for identity in self._by_identity.keys() & identities:
            yield from self._by_identity[identity]

    def find_positions(self, kind: type, *placements: str) -> Iterator[int]:
        """Yield the positions of the changed objects of a class for these placements (keys).

        An object for any of the placements counts.
        """
        for key in placements:
            yield from self._by_placement.get((kind, key), ())


def _find_awaited_steps(
    index: _ChangedIndex, changed: _ChangedInstance, rollout: _RolloutInputs
) -> Iterator[int]:
    """Yield the positions of the steps to complete before the step of a changed object.

    They are for the placement of the rollout. A hub evaluates an eviction against the existing
    bindings, so all rollouts of its placement follow it.
    """
    # The object after the plan; the former one if removed.
    requested = changed.versions[-1]
    evictions = index.find_positions(FleetEviction, rollout.placement)
    match requested:
        case FleetUpdateRun() | FleetApprovalRequest():
            yield from evictions
            yield from _find_inputs_of_run(index, changed, rollout)
        case FleetEviction():
            yield from (position for position in evictions if position < changed.position)
            yield from index.find_positions(FleetDisruptionBudget, rollout.placement)
            yield from index.remaining_members
            # The others await a new namespace, and its content this eviction.
            yield from rollout.earlier_overrides
        case FleetPlacement():
            yield from evictions
            yield from rollout.overrides
            # With staged runs, the placement does not roll out.
            if not rollout.is_switched:
                # Content removed by this plan but still selected from state: the rollout is
                # predicted without it.
                content = index.find_manifests(rollout.identities_in_state)
                yield from (
                    position
                    for position in content
                    if index.by_position[position].instance.is_removed
                )
            yield from index.changed_members
        case FleetOverride():
            # Only an override naming its placement starts a rollout.
            if requested.placement:
                yield from evictions
                yield from rollout.overrides
            yield from _find_manifests_with_namespace(index, requested)
            yield from _find_inputs_of_started_rollout(index, rollout)
        case HubObjects():
            yield from evictions
            yield from _find_overrides_before_content(index, changed, rollout)
            yield from _find_inputs_of_started_rollout(index, rollout)


def _find_inputs_of_run(
    index: _ChangedIndex, changed: _ChangedInstance, rollout: _RolloutInputs
) -> Iterator[int]:
    """Yield the steps for the objects that a hub reads to start or continue a run.

    A run continues after an approval. A run also follows the earlier runs of the placement
    completed by this plan.
    """
    yield from index.find_manifests(rollout.identities)
    # "" applies to all placements.
    yield from index.find_positions(FleetOverride, "", rollout.placement)
    yield from index.find_positions(FleetPlacement, rollout.placement)
    yield from index.remaining_members
    run = changed.versions[-1]
    if isinstance(run, FleetUpdateRun):
        yield from index.find_positions(FleetUpdateStrategy, run.build_key(run.strategy))
        for position in index.find_positions(FleetUpdateRun, rollout.placement):
            is_ended = get_value_at_path(index.by_position[position].instance.private, "ended")
            if is_ended and position < changed.position:
                yield position


def _find_manifests_with_namespace(index: _ChangedIndex, override: FleetOverride) -> Iterator[int]:
    """Yield the positions in `index` of the manifests creating the namespace of an override."""
    namespace = ObjectIdentity("", "Namespace", "", override.namespace)
    for position in index.find_manifests({namespace}):
        if _has_new_namespace_of_override(index.by_position[position], override):
            yield position


def _find_inputs_of_started_rollout(index: _ChangedIndex, rollout: _RolloutInputs) -> Iterator[int]:
    """Yield the steps with an effect on the clusters of a rollout.

    Content or an override starts the rollout. The steps are new labels of members, and the switch
    of the placement to staged runs.
    """
    # "" is no placement.
    if rollout.placement:
        yield from index.relabeled_members
    if rollout.is_switched:
        yield from index.find_positions(FleetPlacement, rollout.placement)


def _find_overrides_before_content(
    index: _ChangedIndex, changed: _ChangedInstance, rollout: _RolloutInputs
) -> Iterator[int]:
    """Yield the overrides awaited by content, to be rolled out with it.

    Content of a new placement awaits none, since the placement waits itself. An override in a
    namespace created by this content follows it.
    """
    if rollout.is_new:
        return
    for position in rollout.overrides:
        if not _has_new_namespace_of_override(changed, index.get_override(position)):
            yield position


def _get_placement_key(version: FleetObject) -> str:
    """Return the key of an object's placement, or of the strategy itself.

    The key is "" for an object of all placements, or of none.
    """
    match version:
        case FleetPlacement() | FleetUpdateStrategy():
            return version.key
        case FleetUpdateRun():
            return version.build_key(version.placement)
        case FleetDisruptionBudget() | FleetEviction() | FleetOverride():
            return version.placement
    return ""


def compute_step_order(
    instances: Iterable[Instance], placements: Mapping[str, PlacementPlan], hub: PlannedHub
) -> tuple[dict[Address, tuple[Address, ...]], list[Diagnostic]]:
    """Return the addresses to complete before the step of each changed object, and warnings.

    Only the changed objects that may wait are in the result. Steps wait if they start or approve a
    run, evict a binding, or start a rollout. The warnings are about overrides created after the
    start of a rollout.
    """
    changed_objects = list(_list_changed_objects(instances))
    index = _ChangedIndex(changed_objects)
    rollouts = _RolloutIndex(index, placements, hub)
    order: dict[Address, tuple[Address, ...]] = {}
    # By address of the override.
    warnings: dict[Address, Diagnostic] = {}
    for changed in changed_objects:
        # Overrides and content change placements, and so do their removals: these may wait, too.
        waiting_types: tuple[type, ...] = (FleetOverride, HubObjects)
        if not changed.instance.is_removed:
            waiting_types += (FleetUpdateRun, FleetApprovalRequest, FleetEviction, FleetPlacement)
        if not isinstance(changed.versions[-1], waiting_types):
            continue
        # An ordered set.
        awaited: dict[Address, None] = {}
        for key in _list_affected_placements(changed, rollouts, hub):
            rollout = rollouts.get(key)
            positions = sorted({*_find_awaited_steps(index, changed, rollout)})
            awaited |= dict.fromkeys(
                index.by_position[position].instance.address for position in positions
            )
            for address, warning in _warn_late_overrides(index, changed, rollout):
                warnings.setdefault(address, warning)
        order[changed.instance.address] = tuple(awaited)
    return order, list(warnings.values())


def _warn_late_overrides(
    index: _ChangedIndex, changed: _ChangedInstance, rollout: _RolloutInputs
) -> Iterator[tuple[Address, Diagnostic]]:
    """Yield (address, warning) for each override created after its objects' rollout starts.

    `changed` has these objects and the new namespace of the override, so it is applied first.
    """
    content = changed.versions[-1]
    if not isinstance(content, HubObjects) or rollout.is_new:
        return
    for position in sorted(rollout.overrides):
        instance = index.by_position[position].instance
        override = index.get_override(position)
        if instance.is_removed or not _has_new_namespace_of_override(changed, override):
            continue
        if is_any_affected(override, collect_selection_keys(content.manifests)):
            address = instance.address
            text = (
                f"{changed.instance.address} creates the namespace of {address} and an object "
                "changed by it, so the "
                f"rollout of {rollout.placement} starts before {address} exists. Set placement in "
                f"{address}, or move "
                "the Namespace into a fleet_hub_manifest of its own."
            )
            problem = Problem((), "override-effective-next-change", text, Severity.WARNING)
            yield address, instance.build_diagnostic(problem)


class _RolloutIndex:
    """Inputs of rollouts by placement, collected on demand.

    The content of `ordered_placements` waits for other steps: an eviction, new labels of members, a
    switch to staged runs, or an override of all placements.
    """

    def __init__(
        self, index: _ChangedIndex, placements: Mapping[str, PlacementPlan], hub: PlannedHub
    ) -> None:
        """Collect the overrides of all placements, and order placements with a reason to wait.

        Other steps wait for them.
        """
        self._placements = placements
        self._hub = hub
        # By key of the placement, filled by `get`.
        self._inputs: dict[str, _RolloutInputs] = {}
        # Overrides of all placements, before and after the plan, each with its position
        # in the index. Others are left out, since an override naming its placement starts
        # a rollout itself.
        self._overrides: list[tuple[int, FleetOverride]] = []
        # Those with a namespace created by this plan.
        self._new_namespace_positions: set[int] = set()
        # Keys of the placements with a reason for other steps to wait. An ordered set: those with
        # an eviction first.
        ordered: dict[str, None] = {}
        for item in index.by_position.values():
            for version in item.versions:
                match version:
                    case FleetEviction():
                        ordered[version.placement] = None
                    case FleetOverride(placement=""):
                        self._overrides.append((item.position, version))
                        if list(_find_manifests_with_namespace(index, version)):
                            self._new_namespace_positions.add(item.position)
        for key, placement in placements.items():
            has_cheap_reason = index.relabeled_members or _is_switching_to_runs(placement)
            # `get` compares all objects: last.
            if has_cheap_reason or (self._overrides and self.get(key).overrides):
                ordered[key] = None
        self.ordered_placements = tuple(ordered)
        self._ranks = {key: rank for rank, key in enumerate(self.ordered_placements)}

    @cached_property
    def _ranks_by_identity(self) -> Mapping[ObjectIdentity, list[int]]:
        """Positions in `ordered_placements` of the placements with an object."""
        ranks: dict[ObjectIdentity, list[int]] = {}
        for rank, key in enumerate(self.ordered_placements):
            for identity in self.get(key).identities:
                ranks.setdefault(identity, []).append(rank)
        return ranks

    def list_placements(self, changed: _ChangedInstance) -> Iterable[str]:
        """Return the placements with the content of a changed manifest, or of an override.

        They are in the order of `ordered_placements`. A rank is the position of a placement there;
        placements not in it are left out.
        """
        names = {item.placement for item in changed.versions if isinstance(item, FleetOverride)}
        # An override of all placements.
        if "" in names:
            return self.ordered_placements
        ranks = {self._ranks[name] for name in names & self._ranks.keys()}
        for identity in changed.identities:
            ranks.update(self._ranks_by_identity.get(identity, ()))
        return [self.ordered_placements[rank] for rank in sorted(ranks)]

    def get(self, key: str) -> _RolloutInputs:
        """Return the inputs of a placement's rollouts.

        For an unknown placement, they have only its key.
        """
        if key not in self._inputs:
            placement = self._placements.get(key)
            self._inputs[key] = (
                _RolloutInputs(key)
                if placement is None
                else self._build_rollout_inputs(key, placement)
            )
        return self._inputs[key]

    def _build_rollout_inputs(self, key: str, placement: PlacementPlan) -> _RolloutInputs:
        """Build the inputs of a placement from its selections before and after the plan."""
        configuration = placement.spec.configuration
        previous = placement.spec.previous_configuration or configuration
        prior_manifests = select_resources(previous, self._hub.prior_object_index)
        manifests = (*placement.selection.manifests, *prior_manifests)
        keys = collect_selection_keys(manifests)
        # staged runs wait for overrides themselves.
        overrides = () if placement.spec.is_external else self._overrides
        positions = frozenset(
            position for position, override in overrides if is_any_affected(override, keys)
        )
        # Objects selected by the configuration of this plan, as they are in state.
        objects_in_state = select_resources(configuration, self._hub.prior_object_index)
        return _RolloutInputs(
            key,
            identities=collect_object_identities(manifests),
            identities_in_state=collect_object_identities(objects_in_state),
            overrides=positions,
            earlier_overrides=positions - self._new_namespace_positions,
            is_new=placement.spec.instance.action in _CREATE_ACTIONS,
            is_switched=_is_switching_to_runs(placement),
        )


def _is_switching_to_runs(placement: PlacementPlan) -> bool:
    """Return whether the plan switches a placement from rolling updates to staged runs."""
    previous = placement.spec.previous_configuration
    return placement.spec.is_external and previous is not None and previous.strategy != EXTERNAL


def _list_affected_placements(
    changed: _ChangedInstance, rollouts: _RolloutIndex, hub: PlannedHub
) -> Iterator[str]:
    """Yield the keys of the placements affected by a step.

    For content and overrides these are only placements with a reason to wait: an eviction, an
    override of all placements, new labels of members, or a switch to staged runs. Overrides also
    have the key "" (no placement), since each waits for its namespace.
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
    """Return why the step at `address` must wait for `awaited`, and the remedy.

    The remedy is needed if a dependency prevents it.

    The types of the two objects decide.
    """
    remedy = "Remove the reference or depends_on, or apply them in two plans."
    if address.type in _ROLLOUT_TYPES and awaited.type in _OVERRIDE_TYPES:
        remedy = (
            f"Set placement in {awaited}, remove the reference or depends_on, or apply them in "
            "two plans."
        )
        return "a rollout applies only existing overrides", remedy
    if address.type in _ROLLOUT_TYPES and awaited.type in _PLACEMENT_TYPES:
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
            # Both wait for each other.
            if awaited.config_address != block and block in needs:
                reason, remedy = _explain_awaited_step(address, awaited)
                order_text = f"{address} must be applied after {awaited}, because {reason}"
                text = f"{order_text}, but {awaited} depends on {address}. {remedy}"
                yield instances[address].build_diagnostic(Problem((), "step-order-conflict", text))


def _list_changed_objects(instances: Iterable[Instance]) -> Iterator[_ChangedInstance]:
    """Yield the fleet objects with a step in this plan, in planning order.

    Each comes with the versions before and after the plan.
    """
    for position, instance in enumerate(instances):
        if not isinstance(instance.type, FleetObjectType) or instance.is_invalid:
            continue
        if instance.action in (Action.NO_OP, Action.FORGET):
            # No step on the hub.
            continue
        values_of_versions = [
            values for values in (instance.before, instance.planned) if values is not None
        ]
        versions = tuple(map(instance.type.build_fleet_object, values_of_versions))
        if not versions:
            # Not planned, and not in state.
            continue
        identities = collect_object_identities(
            chain.from_iterable(map(get_hub_manifests, versions))
        )
        placement_keys = frozenset(
            (type(version), _get_placement_key(version)) for version in versions
        )
        yield _ChangedInstance(instance, versions, position, identities, placement_keys)
