"""Hub objects of a plan, in state and after the plan.

They are manifests, overrides, budgets, evictions and runs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Problem,
    Severity,
    build_diagnostic,
    suggest_name,
)
from nexusform.diagnostics.phrases import format_first_items
from nexusform.domains.fleet.importers.fleet_records import (
    FleetApprovalRequest,
    FleetDisruptionBudget,
    FleetEviction,
    FleetObject,
    FleetOverride,
    FleetUpdateRun,
    FleetUpdateStrategy,
    HubObjects,
)
from nexusform.domains.fleet.planning.fleet_snapshot import FleetMemberState, ObservedHub
from nexusform.domains.fleet.planning.foreign_field_merge import (
    build_object,
    find_deleting_objects,
    merge_applied_objects,
)
from nexusform.domains.fleet.planning.override_rendering import (
    ObjectIdentity,
    OverrideIndex,
    collect_namespace_names,
    collect_object_identities,
    find_override_conflicts,
    get_object_identity,
)
from nexusform.domains.fleet.planning.placement_records import compute_body_hash
from nexusform.domains.fleet.planning.resource_selection import HubIndex
from nexusform.domains.fleet.scheduling.eviction import PlacementDisruptionBudget
from nexusform.domains.fleet.scheduling.fleet_api_validation import format_sentence
from nexusform.domains.fleet.scheduling.staged_update import check_run_state_transition
from nexusform.domains.pods.importers.api_resources import ApiKinds
from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.importers.manifest_parser import (
    DEFAULT_NAMESPACE,
    INVALID,
    Manifest,
    is_reserved_namespace,
    remove_namespace,
    unwrap_envelopes,
)
from nexusform.domains.pods.types.fleet_object_type import FleetObjectType
from nexusform.interfaces.plugins import ResourceType
from nexusform.json_data.plain_data import Path, get_mapping, get_value_at_path
from nexusform.planning.instances.instance import ActionDecision, EvaluatedArguments, Instance
from nexusform.plans.plan import Action
from nexusform.resources.address import Address

# key of an override's snapshot number in its note; absent for the first.
OVERRIDE_SNAPSHOT = "override_snapshot"
MISSING_NAMESPACE = "missing-hub-namespace"
_MAX_NAMES = 4
_WRITE_ACTIONS = (Action.CREATE, Action.UPDATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_CREATE_ACTIONS = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)


class _PriorObjects(NamedTuple):
    manifests: Sequence[Manifest]
    overrides: Sequence[FleetOverride]


class UnmanagedObject(Instance):
    """Object on the hub that no block has, and that acts on placements."""

    @property
    def title(self) -> str:
        """Kind and id, such as `cluster staged update run r`."""
        kind = self.type.name.removeprefix("fleet_").replace("_", " ")
        return f"{kind} {self.address.key}"

    def build_diagnostic(
        self,
        problem: Problem,
        arguments: Mapping[str, Any] | None = None,  # noqa: ARG002 (as in Instance)
    ) -> Diagnostic:
        """Return a problem of the object as a diagnostic without a block."""
        return build_unmanaged_diagnostic(self.title, problem)


def build_unmanaged_diagnostic(title: str, problem: Problem) -> Diagnostic:
    """Build the diagnostic of an object (its `title`) on the hub that no block has."""
    prefix = f"On the hub, not here: {title}"
    return build_diagnostic(
        problem.severity,
        problem.id,
        f"{prefix}: {problem.detail}",
        brief=f"{prefix}: {problem.brief}" if problem.brief else "",
    )


class PlannedHub(Struct, dict=True):
    """Hub objects of a plan.

    `manifests` are in the order of resources and documents. `evictions` and `runs` are executed by
    this plan, or by the hub for an `UnmanagedObject`; `waiting_runs` are unchanged, and those in
    `resumed_runs` continue because of new `approvals`. `override_instances` belong to the first
    `overrides`; the rest are `unmanaged_overrides`. `prior_instances` have an object in state.
    `direct_objects` are the objects of single clusters by cluster id; `configured_objects` are
    those on the hub by instance. `observed` is the content read from a real hub; completed
    evictions and runs there are not repeated.
    """

    manifests: list[Manifest] = field(default_factory=list)
    overrides: list[FleetOverride] = field(default_factory=list)
    override_instances: list[Instance] = field(default_factory=list)
    unmanaged_overrides: list[FleetOverride] = field(default_factory=list)
    budgets: dict[str, tuple[Instance, FleetDisruptionBudget]] = field(default_factory=dict)
    evictions: list[tuple[Instance, FleetEviction]] = field(default_factory=list)
    strategies: dict[str, FleetUpdateStrategy] = field(default_factory=dict)
    runs: list[tuple[Instance, FleetUpdateRun]] = field(default_factory=list)
    waiting_runs: list[tuple[Instance, FleetUpdateRun]] = field(default_factory=list)
    approvals: dict[str, set[str]] = field(default_factory=dict)
    resumed_runs: set[str] = field(default_factory=set)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    prior_instances: list[Instance] = field(default_factory=list)
    direct_objects: dict[str, list[tuple[Instance, tuple[Manifest, ...]]]] = field(
        default_factory=dict
    )
    configured_objects: list[tuple[Instance, tuple[Manifest, ...]]] = field(default_factory=list)
    observed: ObservedHub = ObservedHub()

    @cached_property
    def manifests_by_hash(self) -> Mapping[str, Manifest]:
        """Objects by the hash identifying them in recorded resources."""
        return {compute_body_hash(manifest): manifest for manifest in self.manifests}

    @cached_property
    def prior_objects(self) -> _PriorObjects:
        """Objects and overrides in state."""
        manifests: list[Manifest] = []
        overrides: list[FleetOverride] = []
        for instance in self.prior_instances:
            fleet_object = read_prior_object(instance)
            manifests += get_hub_manifests(fleet_object)
            if isinstance(fleet_object, FleetOverride):
                number = int(instance.prior_note.get(OVERRIDE_SNAPSHOT, 0))
                overrides.append(replace(fleet_object, snapshot=number))
        return _PriorObjects(manifests, overrides)

    @cached_property
    def object_index(self) -> HubIndex:
        """Index of the objects for selectors."""
        return HubIndex(self.manifests)

    @cached_property
    def prior_object_index(self) -> HubIndex:
        """Index of the objects in state."""
        return HubIndex(self.prior_objects.manifests)

    @cached_property
    def override_index(self) -> OverrideIndex:
        """Overrides by placement."""
        return OverrideIndex(self.overrides)

    @cached_property
    def prior_override_index(self) -> OverrideIndex:
        """Overrides in state by placement."""
        return OverrideIndex(self.prior_objects.overrides)

    @property
    def recreated_workloads(self) -> frozenset[str]:
        """Keys of the workloads re-created on the hub, themselves or with their namespace."""
        replaced: list[Manifest] = []
        for instance in self.prior_instances:
            if instance.is_replaced:
                replaced += unwrap_envelopes(
                    get_hub_manifests(read_prior_object(instance))
                ).manifests
        namespaces = collect_namespace_names(replaced)
        prior_manifests = unwrap_envelopes(self.prior_objects.manifests).manifests
        namespaced = [manifest for manifest in prior_manifests if manifest.namespace in namespaces]
        return frozenset(
            workload.key for workload in collect_workloads((*replaced, *namespaced)).workloads
        )

    def find_budget(self, placement: str) -> PlacementDisruptionBudget | None:
        """Return the disruption budget of a placement (its key), from this plan or existing.

        The result is None without one.
        """
        _instance, budget = self.budgets.get(placement, (None, None))
        return budget.budget if budget is not None else self._existing_budgets.get(placement)

    @cached_property
    def _existing_budgets(self) -> Mapping[str, PlacementDisruptionBudget]:
        """Observed budgets and those in state, without those deleted by this plan."""
        budgets = dict(self.observed.budgets)
        for instance in self.prior_instances:
            prior_object = read_prior_object(instance)
            if not isinstance(prior_object, FleetDisruptionBudget):
                continue
            if instance.is_removed:
                budgets.pop(prior_object.placement, None)
            else:
                # The observed one is newer.
                budgets.setdefault(prior_object.placement, prior_object.budget)
        return budgets

    def add_instance(self, instance: Instance) -> None:
        """Add the planned object of an instance to the objects of its kind.

        Changed immutable fields are reported. Only evictions to be executed (new, or pending on the
        hub) and approved approval requests are added.
        """
        assert instance.planned is not None
        fleet_object = build_object(instance, instance.planned)
        self.diagnostics += check_immutable_fields(instance, fleet_object)
        match fleet_object:
            case HubObjects():
                self._add_manifest_objects(instance, fleet_object)
            case FleetOverride():
                self.overrides.append(self._assign_snapshot_number(instance, fleet_object))
                self.override_instances.append(instance)
            case FleetDisruptionBudget():
                self.budgets[fleet_object.placement] = (instance, fleet_object)
            case FleetEviction() if (
                instance.action in _CREATE_ACTIONS
                or fleet_object.name in self.observed.pending_requests
            ):
                # Else completed on the hub already.
                if fleet_object.name not in self.observed.evictions:
                    self.evictions.append((instance, fleet_object))
            case FleetUpdateStrategy():
                self.strategies[fleet_object.key] = fleet_object
            case FleetUpdateRun():
                self._add_staged_run(instance, fleet_object)
            case FleetApprovalRequest() if fleet_object.is_approved:
                self.approvals.setdefault(fleet_object.run_key, set()).add(fleet_object.name)
                # approved by this plan.
                if instance.action in _WRITE_ACTIONS:
                    self.resumed_runs.add(fleet_object.run_key)
            case _:
                # members, placements, earlier evictions, and requests without approval.
                return

    def collect_direct_objects(
        self, members: Mapping[str, FleetMemberState]
    ) -> dict[str, dict[ObjectIdentity, tuple[str, Manifest]]]:
        """Return the objects added to members' clusters without a placement.

        The result is by member and identity of the object: the address of its block,
        and the object.

        Blocks name a cluster by its id, or else by its member.
        """
        by_member: dict[str, dict[ObjectIdentity, tuple[str, Manifest]]] = {}
        for name, member in members.items():
            for instance, manifests in self.direct_objects.get(
                member.configuration.cluster_id or name, ()
            ):
                member_objects = by_member.setdefault(name, {})
                member_objects |= {
                    get_object_identity(m): (str(instance.address), m) for m in manifests
                }
        return by_member

    def _add_manifest_objects(self, instance: Instance, objects: HubObjects) -> None:
        """Add the objects of a manifest to its cluster, or else to the hub.

        The findings about its envelopes are added, too.
        """
        if objects.cluster_id:
            self.direct_objects.setdefault(objects.cluster_id, []).append(
                (instance, objects.manifests)
            )
        else:
            # GROUP/KIND/NAMESPACE/NAME; the hub selects none of them.
            deleting = find_deleting_objects(instance)
            kept = tuple(
                m for m in objects.manifests if "/".join(get_object_identity(m)) not in deleting
            )
            # re-created, or no hub was observed.
            if instance.is_replaced or not self.observed.objects:
                self.manifests += kept
            else:
                # With the fields of other managers.
                applied = get_hub_manifests(read_prior_object(instance))
                self.manifests += merge_applied_objects(kept, applied, self.observed.objects)
            self.configured_objects.append((instance, objects.manifests))
        for finding in unwrap_envelopes(objects.manifests).findings:
            line = f":{finding.line}" if finding.line else ""
            detail = f"yaml_body{line}: {finding.detail}"
            problem = Problem(
                ("yaml_body",), finding.id, detail, finding.severity, line=finding.line
            )
            self.diagnostics.append(instance.build_diagnostic(problem))

    def _assign_snapshot_number(self, instance: Instance, override: FleetOverride) -> FleetOverride:
        """Return the override with its snapshot number.

        It is the existing number if the override is unchanged, else the next.
        """
        if instance.is_replaced:
            # A new object starts at 0.
            return override
        observed_snapshots = [
            snapshot
            for snapshot in self.observed.overrides.values()
            if snapshot.key == override.key
        ]
        # A hub was read, and has the override.
        if observed_snapshots:
            latest = max(observed_snapshots, key=attrgetter("snapshot"))
        elif instance.before is not None:
            recorded = read_prior_object(instance)
            assert isinstance(recorded, FleetOverride)
            latest = replace(recorded, snapshot=int(instance.prior_note.get(OVERRIDE_SNAPSHOT, 0)))
        else:
            return override  # new: 0
        # Without numbers: `override` has none yet.
        is_unchanged = replace(latest, snapshot=0) == override
        number = latest.snapshot if is_unchanged else latest.snapshot + 1
        # 0 is not recorded.
        if number:
            instance.private = {**instance.prior_note, OVERRIDE_SNAPSHOT: number}
        return replace(override, snapshot=number)

    @cached_property
    def api_kinds(self) -> ApiKinds:
        """Kinds of Kubernetes, and those of the hub's CustomResourceDefinitions."""
        return ApiKinds(self.manifests)

    def resolve_kinds(self) -> None:
        """Set the namespaces of custom resources by the definitions on the hub.

        Report objects in a version that no server serves. Definitions may be in other blocks.
        """
        if self.api_kinds.custom_kinds:
            self.manifests = list(self._resolve_scopes(self.manifests))
            self.configured_objects = [
                (instance, self._resolve_scopes(manifests))
                for instance, manifests in self.configured_objects
            ]
        for instance, manifests in self.configured_objects:
            for manifest in manifests:
                reason = self._explain_unserved_object(instance, manifest)
                if reason:
                    text = f"yaml_body:{manifest.line}: {manifest.title}: {reason}."
                    self.diagnostics.append(
                        instance.build_diagnostic(
                            Problem(("yaml_body",), INVALID, text, line=manifest.line)
                        )
                    )

    def _explain_unserved_object(self, instance: Instance, manifest: Manifest) -> str:
        """Return why no server serves the version of an object, "" if one may.

        A live hub knows the versions of its built-in kinds, so its dry run checks them.
        """
        is_custom = (manifest.group, manifest.kind) in self.api_kinds.custom_kinds
        is_live = instance.block is not None and bool(instance.block.provider)
        if is_live and not is_custom:
            return ""
        return self.api_kinds.explain_unserved_version(
            manifest.group, manifest.version, manifest.kind
        )

    def _resolve_scopes(self, manifests: Sequence[Manifest]) -> tuple[Manifest, ...]:
        """Return the objects with the namespaces that the scopes of their kinds demand."""
        resolved: list[Manifest] = []
        for manifest in manifests:
            kind = self.api_kinds.custom_kinds.get((manifest.group, manifest.kind))
            if kind is not None and not kind.is_namespaced:
                resolved.append(remove_namespace(manifest))
            elif kind is not None and not manifest.namespace:
                resolved.append(replace(manifest, namespace=DEFAULT_NAMESPACE))
            else:
                resolved.append(manifest)
        return tuple(resolved)

    def apply_approvals(self) -> None:
        """Add to `runs` the waiting runs resumed by a new approval.

        Then add to each run its granted approvals.
        """
        continued_runs = [
            (instance, run)
            for instance, run in self.waiting_runs
            if run.build_key(run.name) in self.resumed_runs
        ]
        active_runs = [*self.runs, *continued_runs]
        self.runs = []
        for instance, run in active_runs:
            key = run.build_key(run.name)
            granted = self.approvals.get(key, set()) | self.observed.approvals.get(key, frozenset())
            self.runs.append((instance, replace(run, approvals=run.approvals | granted)))

    def _add_staged_run(self, instance: Instance, run: FleetUpdateRun) -> None:
        """Add a staged run to `runs` if this plan executes it, else to `waiting_runs`.

        Left out are runs with an invalid state transition (an error) and runs ended on the hub (a
        warning after a failure there). A waiting run is not written by this plan, not on the hub,
        and not started.
        """
        key = run.build_key(run.name)
        # An existing run.
        if instance.before is not None and not instance.is_replaced:
            prior_run = read_prior_object(instance)
            assert isinstance(prior_run, FleetUpdateRun)
            transition_error = check_run_state_transition(prior_run.state, run.state)
            if transition_error is not None:
                text = (
                    f"{format_sentence(transition_error)} Create another run, or replace this one "
                    "with -replace."
                )
                self.diagnostics.append(
                    instance.build_error("invalid-staged-run-state", text, ("state",))
                )
                return
        observed_run = None if instance.is_replaced else self.observed.runs.get(key)
        if observed_run is not None and observed_run.ended:
            reason = self.observed.failed_runs.get(key)
            # Else reported by an earlier plan.
            if reason is not None and instance.action in _CREATE_ACTIONS:
                self.diagnostics.append(_build_failed_run_warning(instance, reason))
            return
        is_written = instance.action in _WRITE_ACTIONS
        # Sent, but not yet processed by the hub.
        is_requested = key in self.observed.pending_requests
        # The note of a run has the values fixed at its start by an earlier plan, and
        # whether it ended.
        is_started = bool(instance.prior_note) and not instance.prior_note.get("ended")
        if is_written or observed_run is not None or is_requested or is_started:
            self.runs.append((instance, run))
        else:
            self.waiting_runs.append((instance, run))


def _build_failed_run_warning(instance: Instance, reason: str) -> Diagnostic:
    """Build the warning about a staged run that ended without success on a hub.

    `reason` is that of the hub.
    """
    advice = "The run cannot continue. Create another run."
    if "no scheduled or to-be-deleted bindings found" in reason:
        advice = "A hub reports this for every run that only deletes. No action is needed."
    text = f"The run ended without success on the hub: {reason}. {advice}"
    return instance.build_diagnostic(Problem((), "failed-staged-run", text, Severity.WARNING))


def read_prior_object(instance: Instance) -> FleetObject:
    """Return the fleet object of an instance in state."""
    return build_object(instance, get_mapping(instance.before))


def get_hub_manifests(fleet_object: FleetObject) -> tuple[Manifest, ...]:
    """Return the manifests of objects on the hub.

    Manifests of a single cluster, and other fleet objects, have none.
    """
    if isinstance(fleet_object, HubObjects) and not fleet_object.cluster_id:
        return fleet_object.manifests
    return ()


def build_planned_hub(instances: Iterable[Instance], observed: ObservedHub) -> PlannedHub:
    """Build the hub of a plan; `observed` is the content read from real hubs."""
    hub = PlannedHub(observed=observed)
    # By type and id.
    managed_objects: set[tuple[str, str]] = set()
    for instance in instances:
        if not isinstance(instance.type, FleetObjectType):
            # A type of another domain.
            continue
        attributes = instance.before or instance.argument_values or {}
        managed_objects.add((instance.type.name, instance.type.build_id(attributes)))
        if instance.before is not None:
            hub.prior_instances.append(instance)
        if instance.planned is not None and not instance.is_invalid:  # None: removed
            hub.add_instance(instance)
        elif instance.is_invalid and instance.before is not None:
            # With errors, existing objects stay as they are.
            hub.manifests += get_hub_manifests(read_prior_object(instance))
    for key in sorted(observed.requests.keys() - managed_objects):
        hub.add_instance(_build_unmanaged_object(key, *observed.requests[key]))
    # The hub objects outside the configuration and state.
    managed = collect_object_identities((*hub.manifests, *hub.prior_objects.manifests))
    hub.manifests += (
        manifest for manifest in observed.objects if get_object_identity(manifest) not in managed
    )
    hub.resolve_kinds()
    hub.apply_approvals()
    hub.diagnostics += _check_override_conflicts(hub)
    # last: the managed ones match `override_instances` by position.
    hub.unmanaged_overrides += _find_unmanaged_overrides(hub)
    hub.overrides += hub.unmanaged_overrides
    hub.diagnostics += _warn_missing_namespaces(hub)
    return hub


def _build_unmanaged_object(
    key: tuple[str, str], resource_type: ResourceType, arguments: dict[str, Any]
) -> UnmanagedObject:
    """Build an object of the hub that no block has; `key` are its type and id."""
    type_name, object_id = key
    return UnmanagedObject(
        Address((), "managed", type_name, "on_the_hub", object_id),
        resource_type,
        prior=None,
        arguments=EvaluatedArguments(arguments),
        decision=ActionDecision(planned=arguments),
    )


def _find_unmanaged_overrides(hub: PlannedHub) -> Iterator[FleetOverride]:
    """Yield the overrides on the hub outside configuration and state, with their snapshot numbers.

    The number is 0 without a snapshot.
    """
    managed = {override.key for override in (*hub.overrides, *hub.prior_objects.overrides)}
    # snapshot numbers by key.
    latest: dict[str, int] = {}
    for item in hub.observed.overrides.values():
        latest[item.key] = max(item.snapshot, latest.get(item.key, 0))
    for override in hub.observed.current_overrides:
        if override.key not in managed:
            yield replace(override, snapshot=latest.get(override.key, 0))


def _warn_missing_namespaces(hub: PlannedHub) -> Iterator[Diagnostic]:
    """Yield warnings about configured hub objects in namespaces created by no object."""
    namespaces = _collect_hub_namespaces(hub)
    # "": cluster scope.
    known_namespaces = namespaces | {""}
    for instance, manifests in hub.configured_objects:
        if instance.block is not None and instance.block.provider:
            # A real hub: others create namespaces there, and a dry run checks them.
            continue
        missing: dict[str, list[Manifest]] = {}  # by namespace
        for manifest in manifests:
            if manifest.namespace not in known_namespaces and not is_reserved_namespace(
                manifest.namespace
            ):
                missing.setdefault(manifest.namespace, []).append(manifest)
        for namespace, objects in missing.items():
            titles = format_first_items([namespaced.title for namespaced in objects], _MAX_NAMES)
            detail = (
                f"yaml_body:{objects[0].line}: the hub rejects {titles}, because no object "
                "creates the "
                f"namespace {namespace}.{suggest_name(namespace, sorted(namespaces))} Add a "
                "Namespace to "
                "a fleet_hub_manifest, or correct the name."
            )
            summary = f"no object creates the namespace {namespace}, so the hub rejects {titles}"
            line = objects[0].line
            problem = Problem(
                ("yaml_body",),
                MISSING_NAMESPACE,
                detail,
                Severity.WARNING,
                brief=summary,
                line=line,
            )
            yield instance.build_diagnostic(problem)


def _collect_hub_namespaces(hub: PlannedHub) -> set[str]:
    """Return the namespaces created by hub objects.

    They are planned, even if they are in deletion now, or excluded by -target.
    """
    manifests = list(hub.manifests)
    for _instance, configured in hub.configured_objects:
        manifests += configured
    for instance in hub.prior_instances:
        if instance.planned is None and not instance.is_removed:
            manifests += get_hub_manifests(read_prior_object(instance))
    return collect_namespace_names(manifests)


def _check_override_conflicts(hub: PlannedHub) -> Iterator[Diagnostic]:
    """Yield errors for overrides rejected by a hub because of other overrides."""
    new_flags = [
        instance.action in _CREATE_ACTIONS for instance in hub.override_instances
    ]  # by position
    for position, problems in find_override_conflicts(
        list(zip(hub.overrides, new_flags, strict=True))
    ).items():
        instance = hub.override_instances[position]
        namespaced = bool(hub.overrides[position].namespace)
        block = "resource_selector" if namespaced else "cluster_resource_selector"
        in_blocks = bool(get_value_at_path(instance.config, block))
        for selector, text in problems:
            path: Path = ()
            # None: about the whole override.
            if selector is not None:
                path = (block, selector) if in_blocks else ("manifest",)
            detail = f"{format_sentence(text)} Combine the rules, or remove one of the overrides."
            yield instance.build_diagnostic(Problem(path, "invalid-fleet-object", detail))


# Fields by record, each with its API name. Source: the CRDs' rules with oldSelf.
_IMMUTABLE_FIELDS: Final[Mapping[type, tuple[tuple[str, str], ...]]] = {
    FleetUpdateRun: (
        ("placement", "placementName"),
        ("strategy", "stagedRolloutStrategyName"),
        ("resource_index", "resourceSnapshotIndex"),
    ),
    FleetApprovalRequest: (("run", "parentStageRollout"), ("stage", "targetStage")),
    FleetOverride: (("placement", "placement"),),
}


def check_immutable_fields(instance: Instance, planned: FleetObject) -> Iterator[Diagnostic]:
    """Yield an error for each changed immutable field; none for a re-created object."""
    fields = _IMMUTABLE_FIELDS.get(type(planned), ())
    # Nothing to compare.
    if not fields or instance.before is None or instance.is_replaced:
        return
    current = read_prior_object(instance)
    for attribute, name in fields:
        current_value = getattr(current, attribute)
        planned_value = getattr(planned, attribute)
        if current_value != planned_value:
            detail = (
                f"{name} is immutable on a hub. Current value: {_format_value(current_value)}. "
                "Manifest: "
                f"{_format_value(planned_value)}. To re-create the object, plan with "
                f"-replace='{instance.address}'."
            )
            yield instance.build_error("change-not-allowed", detail, ("manifest",))


def _format_value(value: object) -> str:
    return "not set" if value in ("", None) else f'"{value}"'
