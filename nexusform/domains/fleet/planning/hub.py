"""What stands on the hub in a plan: objects, what acts on placements, and the member clusters, as state
remembers them and as they stand now; and what of it a placement brings to clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from msgspec import Struct, field, json
from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, Problem, Severity, did_you_mean
from nexusform.domains.fleet.importers.fleet_export import UNOVERRIDDEN
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
    Contents,
    ResourceSnapshot,
    body_hash,
    compared_hash,
    fingerprint,
    has_resources,
    is_noted,
    read_contents,
    write_contents,
)
from nexusform.domains.fleet.planning.fixed import fixed_problems
from nexusform.domains.fleet.planning.overrides import (
    Identity,
    Rendered,
    Renders,
    applicable,
    identities,
    identity,
    picked,
    refusals,
)
from nexusform.domains.fleet.planning.placement import PlacementPlan
from nexusform.domains.fleet.planning.selecting import idle_selectors, selected, selector_problem
from nexusform.domains.fleet.planning.world import (
    Clusters,
    FleetMemberState,
    ShownHub,
)
from nexusform.domains.fleet.scheduling.bindings import BindingState
from nexusform.domains.fleet.scheduling.staged import transition_problem
from nexusform.domains.fleet.scheduling.validation import sentence
from nexusform.domains.fleet.scheduling.watcher import Trigger
from nexusform.domains.pods.importers.kubernetes_manifests import (
    Manifest,
    is_reserved,
    manifest_of,
    unwrapped,
)
from nexusform.plain_data import Path
from nexusform.planning.instances.instance import Instance
from nexusform.planning.plan import Action
from nexusform.planning.vms.vm_object import PLACED, note_placed
from nexusform.words import first_of

# Under which key a note holds what a provider knows of the object on its hub.
ON_HUB = "hub"
NO_NAMESPACE = "namespace-is-not-on-the-hub"
_MOST_NAMED = 4
_NOTHING_LEFT = "no scheduled or to-be-deleted bindings found"
_DOING = (Action.CREATE, Action.UPDATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_ONCE = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)


class Hub(Struct, dict=True):
    """`manifests` in the order of their resources and documents. `evictions` and `runs` are those that
    this plan carries out, with the instance they come from; `overriding` are those of `overrides`, `former`
    those of objects that state holds. `waiting` are runs that this plan does not change; those in `woken`
    go on because of `approvals` that it makes. `direct` are the objects of single clusters, by the cluster's
    id; `brought` are the objects on the hub with who brings them. `shown` is what a real hub shows: what is
    over there is over.
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
                overrides.append(fleet_object)
        return manifests, overrides

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
                self.overrides.append(fleet_object)
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
            problem = Problem(("yaml_body",), finding.id, detail, finding.severity)
            self.diagnostics.append(instance.problem(problem))

    def _as_applied(self, instance: Instance, manifests: tuple[Manifest, ...]) -> Iterable[Manifest]:
        """Objects as the hub holds them after this plan, with what others wrote into them."""
        if instance.before is None or instance.replaced or not self.shown.objects:
            return manifests
        assert instance.type.fleet is not None
        was = instance.type.fleet(instance.before)
        before = was.manifests if isinstance(was, HubObjects) else ()
        return applied_objects(manifests, before, self.shown.objects)

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
    hub.diagnostics += _without_namespace(hub)
    return hub


def _beside(hub: Hub) -> Iterator[Manifest]:
    """What the hub holds that neither the configuration nor state has a say in."""
    managed = identities((*hub.manifests, *hub.before[0]))
    yield from (manifest for manifest in hub.shown.objects if identity(manifest) not in managed)


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
            problem = Problem(("yaml_body",), NO_NAMESPACE, detail, Severity.WARNING, brief=brief)
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


# --- what a placement brings -------------------------------------------------------------------


def prepare_resources(placement: PlacementPlan, hub: Hub, clusters: Clusters) -> None:
    """Select the objects, take a resource snapshot of them where they changed, and find the clusters whose
    overrides changed. `clusters` are the members.
    """
    placement.labels, placement.clusters = clusters.labels, clusters
    placement.selected = selected(placement.written, hub.manifests)
    placement.idle = idle_selectors(placement.written, placement.selected)
    placement.refused = selector_problem(placement.written, hub.manifests)
    placement.overrides = applicable(hub.overrides, placement.written.key)
    placement.contents = _standing(placement, hub)
    placement.snapshots = placement.contents.snapshots
    if placement.external or placement.refused:
        placement.left_to_runs = _left_to_runs(placement, hub) if placement.external else None
        return  # a staged run takes the snapshots; of what is invalid nobody does
    placement.take_snapshot()
    before, latest = placement.contents.latest, placement.snapshots[-1]
    placement.resources_changed = before is not None and before.hash != latest.hash
    placement.outdated = frozenset(_outdated(placement, latest.index))
    placement.override_changed = bool(placement.outdated) and _own_overrides_changed(placement, hub)


def _left_to_runs(placement: PlacementPlan, hub: Hub) -> Trigger | None:
    """What this plan changes of what the placement brings, and only a staged run carries to the clusters."""
    before = placement.before
    if before is None or placement.created:
        return None
    if placement.shown:
        return _shown_to_be_left(placement)
    objects, overrides = hub.before
    if fingerprint(selected(before, objects)) != fingerprint(placement.selected):
        return Trigger.RESOURCES_CHANGED
    if applicable(overrides, before.key) != placement.overrides:
        return Trigger.OVERRIDES_CHANGED
    return None


def _shown_to_be_left(placement: PlacementPlan) -> Trigger | None:
    """What staged runs have not brought yet of a placement that a hub shows; before the first, nothing."""
    latest = placement.contents.latest
    if latest is None:
        return None
    if latest.hash != fingerprint(placement.selected):
        return Trigger.RESOURCES_CHANGED
    return Trigger.OVERRIDES_CHANGED if any(_outdated(placement, latest.index)) else None


def _own_overrides_changed(placement: PlacementPlan, hub: Hub) -> bool:
    """Whether overrides that name the placement are others than those that its clusters have got. Others are
    not looked at before something else begins a rollout.

    Source: seen on a running hub; KubeFleet pkg/controllers/rollout watches overrides that name a placement.
    """
    key = placement.written.key
    own = [override for override in placement.overrides if override.placement == key]
    if not placement.shown:
        return own != [each for each in applicable(hub.before[1], key) if each.placement == key]
    known: Mapping[str, FleetOverride] = placement.shown.get("override_snapshots") or {}
    for cluster, binding in (placement.shown.get("bindings") or {}).items():
        snapshot = placement.snapshot_of(binding.get("resource_snapshot"))
        if snapshot is None or cluster not in placement.labels:
            continue
        shown = [known[name] for name in binding.get("overrides") or () if name in known]
        now = picked(own, snapshot.objects, placement.labels[cluster])
        if [each for each in shown if each.placement == key] != list(now):
            return True
    return False


def _outdated(placement: PlacementPlan, index: int) -> Iterator[str]:
    """The clusters for which overrides make something else of the objects than before."""
    for binding in placement.prior:
        content_before = placement.contents.on_cluster.get(binding.cluster)
        rendered = placement.rendered(index, binding.cluster)
        if content_before is None or rendered is None or binding.state is not BindingState.BOUND:
            continue
        if (content_before.digest, content_before.failure) != (rendered.digest, rendered.failure):
            yield binding.cluster


def noted_before(placement: PlacementPlan) -> Mapping[str, Any]:
    """What state notes of the placement that stays."""
    prior = placement.instance.prior
    return (prior.private if prior is not None and not placement.created else None) or {}


def _standing(placement: PlacementPlan, hub: Hub) -> Contents:
    """What stands: as noted, or as the objects and overrides tell where an older state noted hashes only."""
    note = noted_before(placement)
    if placement.shown:
        return _shown(placement, hub, note)
    if is_noted(note) or placement.created or placement.before is None:
        return read_contents(note, placement.prior, hub.by_hash)
    snapshots = (binding.resource_snapshot for binding in placement.prior)
    indices = [index for index in snapshots if index is not None]
    if placement.external and not indices:
        return Contents()
    digest_now = fingerprint(placement.selected)
    digest, index = digest_now, max(indices, default=0)
    last = note.get("resources")
    if last is not None:
        digest, index = str(last["hash"]), int(last.get("index") or 0)
    changed = digest != digest_now
    objects = selected(placement.before, hub.before[0]) if changed else placement.selected
    on_cluster = _once_overridden(placement, hub, objects, note.get("overrides"))
    return Contents((ResourceSnapshot(index, digest, objects),), on_cluster)


def _shown(placement: PlacementPlan, hub: Hub, note: Mapping[str, Any]) -> Contents:
    """What a hub shows to stand: its resource snapshots, and on each cluster what its binding brings of them.
    Where no snapshot was captured, the newest that a binding names, with the objects that state noted last,
    else with those that are there now.
    """
    snapshots = tuple(_shown_snapshots(placement))
    if snapshots:
        return Contents(snapshots, dict(_shown_content(placement, snapshots)))
    indices = [b.resource_snapshot for b in placement.prior if b.resource_snapshot is not None]
    if not indices:
        return Contents()
    noted = read_contents(note, placement.prior, hub.by_hash).latest if is_noted(note) else None
    objects = noted.objects if noted is not None else placement.selected
    digest = noted.hash if noted is not None else fingerprint(objects)
    on_cluster = _once_overridden(placement, hub, objects, None)
    return Contents((ResourceSnapshot(max(indices), digest, objects),), on_cluster)


def _shown_snapshots(placement: PlacementPlan) -> Iterator[ResourceSnapshot]:
    """The snapshots that a hub shows. One that holds what is selected now is that, in whatever order."""
    now = {compared_hash(manifest) for manifest in placement.selected}
    digest_now = fingerprint(placement.selected)
    for shown in placement.shown.get("resource_snapshots") or ():
        read_objects = (manifest_of(json.decode(text)) for text in shown["objects"])
        objects = tuple(manifest for manifest in read_objects if manifest is not None)
        if {compared_hash(manifest) for manifest in objects} == now:
            yield ResourceSnapshot(int(shown["index"]), digest_now, placement.selected)
        else:
            yield ResourceSnapshot(int(shown["index"]), fingerprint(objects), objects)


def _shown_content(
    placement: PlacementPlan, snapshots: tuple[ResourceSnapshot, ...]
) -> Iterator[tuple[str, Rendered]]:
    """What is on each cluster: the objects of its binding's snapshot under the overrides that it names."""
    by_index = {snapshot.index: snapshot for snapshot in snapshots}
    known: Mapping[str, FleetOverride] = placement.shown.get("override_snapshots") or {}
    shown_bindings = placement.shown.get("bindings") or {}
    renders: dict[tuple[int, tuple[str, ...]], Renders] = {}
    for binding in placement.prior:
        snapshot = by_index.get(-1 if binding.resource_snapshot is None else binding.resource_snapshot)
        if snapshot is None or not has_resources(binding):
            continue
        names = tuple(shown_bindings[binding.cluster].get("overrides") or ())
        key = snapshot.index, names
        if key not in renders:
            # In the order of the names that the binding lists: cluster overrides come first.
            overrides = tuple(known[name] for name in names if name in known)
            renders[key] = Renders(snapshot.objects, overrides, placement.labels)
        rendered = renders[key].get(binding.cluster) or Rendered(snapshot.objects)
        if shown_bindings[binding.cluster].get("standing") == UNOVERRIDDEN and not rendered.failure:
            # The cluster's labels, or the override, were others when it failed.
            rendered = replace(rendered, failure="overriding failed on the hub")
        yield binding.cluster, rendered


def _once_overridden(
    placement: PlacementPlan, hub: Hub, objects: tuple[Manifest, ...], digests: Mapping[str, str] | None
) -> dict[str, Rendered]:
    """What stood on each cluster, of which state noted no more than the hash of what overrides made."""
    former = applicable(hub.before[1], placement.written.key)
    # State noted no overrides: those of now may have stood before, or else those of state.
    choices = [Renders(objects, overrides, placement.labels) for overrides in (placement.overrides, former)]
    on_cluster: dict[str, Rendered] = {}
    for binding in placement.prior:
        if not has_resources(binding):
            continue
        possible = [renders.get(binding.cluster) or Rendered(objects) for renders in choices]
        digest = possible[0].digest if digests is None else str(digests.get(binding.cluster, ""))
        alike = (rendered for rendered in possible if rendered.digest == digest)
        on_cluster[binding.cluster] = next(alike, Rendered(objects, digest))
    return on_cluster


def note_resources(placement: PlacementPlan, serial: int, foretold: Mapping[str, Any]) -> None:
    """Note what the placement brought where and why each binding came, once everything is rolled out.
    `serial` is the one that applying the plan will give, `foretold` what is noted of its pods.
    """
    noted = noted_before(placement)
    held_before = {binding.cluster for binding in placement.prior} - placement.evicted
    present = [binding.cluster for binding in placement.held]
    new_clusters = [cluster for cluster in present if cluster not in held_before]
    came = [(cluster, str(placement.picked.get(cluster, ""))) for cluster in new_clusters]
    # Of the note only these are carried on; the contents are written anew.
    placed_before = {PLACED: noted[PLACED]} if PLACED in noted else None
    of_hub = {ON_HUB: noted[ON_HUB]} if ON_HUB in noted else {}
    placed = note_placed(placed_before, came, present, serial) or {}
    contents = Contents(placement.snapshots, placement.contents_after())
    placement.instance.private = {**placed, **of_hub, **write_contents(contents, placement.held), **foretold}
