"""What stands on the hub in a plan: objects, what acts on placements, and the member clusters, as state
remembers them and as they stand now; and what of it a placement brings to clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, Problem, Severity, did_you_mean
from nexusform.domains.fleet.importers.fleet_model import (
    FleetApproval,
    FleetBudget,
    FleetEviction,
    FleetOverride,
    FleetRun,
    FleetStrategy,
    HubObjects,
)
from nexusform.domains.fleet.planning.applied_objects import applied_objects
from nexusform.domains.fleet.planning.contents import (
    body_hash,
)
from nexusform.domains.fleet.planning.fixed import fixed_problems
from nexusform.domains.fleet.planning.overrides import (
    AppliedOverrides,
    Identity,
    identities,
    identity,
    refusals,
)
from nexusform.domains.fleet.planning.selecting import HubIndex
from nexusform.domains.fleet.planning.world import (
    FleetMemberState,
    ShownHub,
)
from nexusform.domains.fleet.scheduling.eviction import DisruptionBudget
from nexusform.domains.fleet.scheduling.staged import transition_problem
from nexusform.domains.fleet.scheduling.validation import sentence
from nexusform.domains.pods.importers.kubernetes_manifests import (
    Manifest,
    is_reserved,
    unwrapped,
)
from nexusform.domains.pods.importers.kubernetes_workloads import workloads_of
from nexusform.plain_data import Path
from nexusform.planning.instances.instance import Instance
from nexusform.plans.plan import Action
from nexusform.words import first_of

# Under which key the note of an override holds the number of its snapshot, where it is not the first.
OVERRIDE_SNAPSHOT = "override_snapshot"
NO_NAMESPACE = "namespace-is-not-on-the-hub"
_MOST_NAMED = 4
_NOTHING_LEFT = "no scheduled or to-be-deleted bindings found"
_DOING = (Action.CREATE, Action.UPDATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_ONCE = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)


class Hub(Struct, dict=True):
    """`manifests` in the order of their resources and documents. `evictions` and `runs` are those that
    this plan carries out, with the instance they come from; `overriding` are those of the first `overrides`
    (others stand on the hub beside them), `former` those of objects that state holds. `waiting` are runs that
    this plan does not change; those in `woken` go on because of `approvals` that it makes. `direct` are the
    objects of single clusters, by the cluster's id; `brought` are the objects on the hub with who brings
    them. `shown` is what a real hub shows: what is over there is over.
    """

    manifests: list[Manifest] = field(default_factory=list)
    overrides: list[FleetOverride] = field(default_factory=list)
    overriding: list[Instance] = field(default_factory=list)
    budgets: dict[str, tuple[Instance, FleetBudget]] = field(default_factory=dict)
    evictions: list[tuple[Instance, FleetEviction]] = field(default_factory=list)
    strategies: dict[str, FleetStrategy] = field(default_factory=dict)
    runs: list[tuple[Instance, FleetRun]] = field(default_factory=list)
    waiting: list[tuple[Instance, FleetRun]] = field(default_factory=list)
    approvals: dict[str, set[str]] = field(default_factory=dict)
    woken: set[str] = field(default_factory=set)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    former: list[Instance] = field(default_factory=list)
    direct: dict[str, list[tuple[Instance, tuple[Manifest, ...]]]] = field(default_factory=dict)
    brought: list[tuple[Instance, tuple[Manifest, ...]]] = field(default_factory=list)
    shown: ShownHub = ShownHub()

    @cached_property
    def by_hash(self) -> Mapping[str, Manifest]:
        """The objects by the hash that contents keep them under."""
        return {body_hash(manifest): manifest for manifest in self.manifests}

    @cached_property
    def before(self) -> tuple[Sequence[Manifest], Sequence[FleetOverride]]:
        """The objects and the overrides that state holds."""
        manifests: list[Manifest] = []
        overrides: list[FleetOverride] = []
        for instance in self.former:
            assert instance.type.fleet is not None
            fleet_object = instance.type.fleet(instance.before or {})
            if isinstance(fleet_object, HubObjects) and not fleet_object.cluster_id:
                manifests += fleet_object.manifests
            elif isinstance(fleet_object, FleetOverride):
                overrides.append(replace(fleet_object, snapshot=_snapshot_before(instance)))
        return manifests, overrides

    @cached_property
    def index(self) -> HubIndex:
        """The objects as placements find them."""
        return HubIndex(self.manifests)

    @cached_property
    def index_before(self) -> HubIndex:
        """The objects that state holds, likewise."""
        return HubIndex(self.before[0])

    def overrides_of(self, placement: str) -> tuple[FleetOverride, ...]:
        """The overrides of a placement (its key), in the order in which they apply."""
        return self._applying.of(placement)

    def overrides_before(self, placement: str) -> tuple[FleetOverride, ...]:
        """Those that state holds, likewise."""
        return self._applied.of(placement)

    @cached_property
    def _applying(self) -> AppliedOverrides:
        return AppliedOverrides(self.overrides)

    @cached_property
    def _applied(self) -> AppliedOverrides:
        return AppliedOverrides(self.before[1])

    @property
    def remade(self) -> frozenset[str]:
        """The workloads on the hub that are destroyed and made anew, or that are in a namespace which is."""
        replaced: list[Manifest] = []
        for instance in self.former:
            assert instance.type.fleet is not None
            fleet_object = instance.type.fleet(instance.before or {}) if instance.replaced else None
            if isinstance(fleet_object, HubObjects) and not fleet_object.cluster_id:
                replaced += unwrapped(fleet_object.manifests).manifests
        namespaces = {each.name for each in replaced if (each.group, each.kind) == ("", "Namespace")}
        inside = [each for each in unwrapped(self.before[0]).manifests if each.namespace in namespaces]
        return frozenset(workload.key for workload in workloads_of((*replaced, *inside)).workloads)

    def budget_of(self, placement: str) -> DisruptionBudget | None:
        """The disruption budget of a placement: of this plan, or one that stands there and stays."""
        _, budget = self.budgets.get(placement, (None, None))
        return budget.budget if budget is not None else self._standing_budgets.get(placement)

    @cached_property
    def _standing_budgets(self) -> Mapping[str, DisruptionBudget]:
        """What hubs show, and what state has that this plan leaves alone; not what this plan deletes."""
        budgets = dict(self.shown.budgets)
        for instance in self.former:
            assert instance.type.fleet is not None
            was = instance.type.fleet(instance.before or {})
            if isinstance(was, FleetBudget) and instance.going:
                budgets.pop(was.placement, None)
            elif isinstance(was, FleetBudget):
                budgets.setdefault(was.placement, was.budget)
        return budgets

    def take(self, instance: Instance) -> None:
        """Add what an instance is."""
        assert instance.type.fleet is not None
        assert instance.planned is not None
        fleet_object = instance.type.fleet(instance.planned)
        self.diagnostics += fixed_problems(instance, fleet_object)
        match fleet_object:
            case HubObjects():
                self._take_objects(instance, fleet_object)
            case FleetOverride():
                self.overrides.append(self._numbered(instance, fleet_object))
                self.overriding.append(instance)
            case FleetBudget():
                self.budgets[fleet_object.placement] = (instance, fleet_object)
            case FleetEviction() if instance.action in _ONCE or fleet_object.name in self.shown.asked:
                if fleet_object.name not in self.shown.evictions:
                    self.evictions.append((instance, fleet_object))
            case FleetStrategy():
                self.strategies[fleet_object.key] = fleet_object
            case FleetRun():
                self._take_run(instance, fleet_object)
            case FleetApproval() if fleet_object.approved:
                self._take_approval(instance, fleet_object)
            case _:
                return

    def on_members(
        self, members: Mapping[str, FleetMemberState]
    ) -> dict[str, dict[Identity, tuple[str, Manifest]]]:
        """The objects that members' clusters get without a placement, by member."""
        by_member: dict[str, dict[Identity, tuple[str, Manifest]]] = {}
        for name, member in members.items():
            cluster_id = member.written.cluster_id if member.written is not None else ""
            for instance, manifests in self.direct.get(cluster_id, ()) if cluster_id else ():
                of_member = by_member.setdefault(name, {})
                of_member |= {identity(m): (str(instance.address), m) for m in manifests}
        return by_member

    def _take_objects(self, instance: Instance, objects: HubObjects) -> None:
        """Add objects that come to the hub, or to one cluster directly."""
        if objects.cluster_id:
            self.direct.setdefault(objects.cluster_id, []).append((instance, objects.manifests))
        else:
            self.manifests += self._as_applied(instance, objects.manifests)
            self.brought.append((instance, objects.manifests))
        for finding in unwrapped(objects.manifests).findings:
            line = f":{finding.line}" if finding.line else ""
            detail = f"yaml_body{line}: {finding.detail}"
            problem = Problem(("yaml_body",), finding.id, detail, finding.severity, line=finding.line)
            self.diagnostics.append(instance.problem(problem))

    def _as_applied(self, instance: Instance, manifests: tuple[Manifest, ...]) -> Iterable[Manifest]:
        """Objects as the hub holds them after this plan, with what others wrote into them."""
        if instance.before is None or instance.replaced or not self.shown.objects:
            return manifests
        assert instance.type.fleet is not None
        was = instance.type.fleet(instance.before)
        before = was.manifests if isinstance(was, HubObjects) else ()
        return applied_objects(manifests, before, self.shown.objects)

    def _numbered(self, instance: Instance, override: FleetOverride) -> FleetOverride:
        """The override with the number of its snapshot: the one that is there while it says the same, else
        the next.
        """
        if instance.replaced or (instance.before is None and not self.shown.overrides):
            return override
        of_hub = [each for each in self.shown.overrides.values() if each.key == override.key]
        if of_hub:
            latest = max(of_hub, key=lambda each: each.snapshot)
        elif instance.before is not None and instance.type.fleet is not None:
            of_state = instance.type.fleet(instance.before)
            assert isinstance(of_state, FleetOverride)
            latest = replace(of_state, snapshot=_snapshot_before(instance))
        else:
            return override
        says_the_same = replace(latest, snapshot=0) == override
        number = latest.snapshot if says_the_same else latest.snapshot + 1
        if number:
            noted = instance.prior.private if instance.prior is not None else None
            instance.private = {**(noted or {}), OVERRIDE_SNAPSHOT: number}
        return replace(override, snapshot=number)

    def _take_approval(self, instance: Instance, approval: FleetApproval) -> None:
        """Note what is approved of a run; an approval that comes with this plan wakes it."""
        self.approvals.setdefault(approval.run_key, set()).add(approval.name)
        if instance.action in _DOING:
            self.woken.add(approval.run_key)

    def approve(self) -> None:
        """Give runs what approval requests grant them; a run that waited for one goes on."""
        going_on = list(self.runs)
        for instance, run in self.waiting:
            if run.key_of(run.name) in self.woken:
                going_on.append((instance, run))
        self.runs = []
        for instance, run in going_on:
            key = run.key_of(run.name)
            granted = self.approvals.get(key, set()) | self.shown.approvals.get(key, frozenset())
            self.runs.append((instance, replace(run, approvals=run.approvals | granted)))

    def _take_run(self, instance: Instance, run: FleetRun) -> None:
        """Add a staged run, unless its state cannot follow from the one before."""
        if instance.before is not None and not instance.replaced and instance.type.fleet is not None:
            run_before = instance.type.fleet(instance.before)
            refusal = None
            if isinstance(run_before, FleetRun):
                refusal = transition_problem(run_before.state, run.state)
            if refusal is not None:
                text = f"{refusal[:1].upper()}{refusal[1:]}. Make another run, or replace it with -replace."
                self.diagnostics.append(instance.error("invalid-state-of-a-staged-run", text, ("state",)))
                return
        shown = None if instance.replaced else self.shown.runs.get(run.key_of(run.name))
        if shown is not None and shown.ended:
            self._tell_failed(instance, run)
            return
        asked = run.key_of(run.name) in self.shown.asked
        goes_on = instance.action in _DOING or shown is not None or asked
        (self.runs if goes_on else self.waiting).append((instance, run))

    def _tell_failed(self, instance: Instance, run: FleetRun) -> None:
        """Warn of a run that ended on the hub without success, and that this plan would make."""
        reason = self.shown.failed_runs.get(run.key_of(run.name))
        if reason is not None and instance.action in _ONCE:
            advice = "It goes no further; make another run."
            if _NOTHING_LEFT in reason:
                advice = "That is what a hub says of a run that only deletes: nothing of it is left to do."
            text = f"On the hub the run ended without success: {reason}. {advice}"
            problem = Problem((), "staged-run-failed-on-the-hub", text, Severity.WARNING)
            self.diagnostics.append(instance.problem(problem))


def _snapshot_before(instance: Instance) -> int:
    """The number of the snapshot of an override as state has it."""
    noted = instance.prior.private if instance.prior is not None else None
    return int((noted or {}).get(OVERRIDE_SNAPSHOT) or 0)


def read_hub(instances: Iterable[Instance], shown: ShownHub) -> Hub:
    """The hub of a plan; `shown` is what real ones show."""
    hub = Hub(shown=shown)
    for instance in instances:
        if instance.type.fleet is not None and instance.before is not None:
            hub.former.append(instance)
        if instance.type.fleet is None or instance.going or instance.broken or instance.planned is None:
            continue
        hub.take(instance)
    hub.manifests += _beside(hub)
    hub.approve()
    hub.diagnostics += _refused_overrides(hub)
    hub.overrides += _overrides_beside(hub)
    hub.diagnostics += _without_namespace(hub)
    return hub


def _beside(hub: Hub) -> Iterator[Manifest]:
    """What the hub holds that neither the configuration nor state has a say in."""
    managed = identities((*hub.manifests, *hub.before[0]))
    yield from (manifest for manifest in hub.shown.objects if identity(manifest) not in managed)


def _overrides_beside(hub: Hub) -> Iterator[FleetOverride]:
    """The overrides of others on the hub, with the numbers of their snapshots."""
    managed = {override.key for override in (*hub.overrides, *hub.before[1])}
    latest: dict[str, int] = {}
    for snapshot in hub.shown.overrides.values():
        latest[snapshot.key] = max(snapshot.snapshot, latest.get(snapshot.key, 0))
    for override in hub.shown.overriding:
        if override.key not in managed:
            yield replace(override, snapshot=latest.get(override.key, 0))


def _held(instance: Instance) -> Sequence[Manifest]:
    """The objects that state has on the hub of an instance; -target may leave it out of the plan."""
    if instance.planned is not None:
        return ()
    assert instance.type.fleet is not None
    fleet_object = instance.type.fleet(instance.before or {})
    if isinstance(fleet_object, HubObjects) and not fleet_object.cluster_id:
        return fleet_object.manifests
    return ()


def _without_namespace(hub: Hub) -> Iterator[Diagnostic]:
    """Objects on the hub in namespaces that nothing brings there."""
    kept = [instance for instance in hub.former if not instance.going]
    there = chain(hub.manifests, chain.from_iterable(map(_held, kept)))
    namespaces = {each.name for each in there if (each.group, each.kind) == ("", "Namespace")}
    for instance, manifests in hub.brought:
        missing: dict[str, list[Manifest]] = {}
        for manifest in manifests:
            known = not manifest.namespace or manifest.namespace in namespaces
            if not known and not is_reserved(manifest.namespace):
                missing.setdefault(manifest.namespace, []).append(manifest)
        for namespace, objects in missing.items():
            titles = first_of([each.title for each in objects], _MOST_NAMED)
            detail = (
                f"yaml_body:{objects[0].line}: nothing brings the namespace {namespace} to the hub, which "
                f"refuses {titles} without it.{did_you_mean(namespace, sorted(namespaces))} Add a Namespace "
                "to a fleet_hub_manifest, or write the one that is meant."
            )
            brief = f"{namespace}: nothing brings this namespace to the hub, which refuses {titles}"
            line = objects[0].line
            problem = Problem(("yaml_body",), NO_NAMESPACE, detail, Severity.WARNING, brief=brief, line=line)
            yield instance.problem(problem)


def _refused_overrides(hub: Hub) -> Iterator[Diagnostic]:
    """What a hub refuses of overrides because of others."""
    are_new = [instance.action in _ONCE for instance in hub.overriding]
    for position, problems in refusals(list(zip(hub.overrides, are_new, strict=True))).items():
        instance = hub.overriding[position]
        namespaced = bool(hub.overrides[position].namespace)
        block = "resource_selector" if namespaced else "cluster_resource_selector"
        in_blocks = bool(instance.config and instance.config.get(block))
        for selector, text in problems:
            path: Path = ("manifest",) if selector is not None else ()
            if in_blocks and selector is not None:
                path = (block, selector)
            detail = f"{sentence(text)} Put the rules together, or leave one of them out."
            yield instance.problem(Problem(path, "invalid-fleet-object", detail))
