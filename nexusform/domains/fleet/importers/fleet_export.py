"""Objects of a hub as `kubectl get ... -A -o json|yaml` shows them -> which placement holds which cluster,
under which policy and with which resources; and who else manages what.

Sources: KubeFleet's apis/placement/v1beta1 (bindings, snapshots); the labels and annotations that Flux and
Argo CD put on what they apply.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity, did_you_mean
from nexusform.documents.shapes import list_at, mapping_at, mappings_at, text_at, value_at
from nexusform.documents.yaml_text import problem_at
from nexusform.domains.pods.importers.kubernetes_manifests import (
    INVALID,
    Manifest,
    is_fleet_group,
    manifest_of,
)

_PREFIX: Final = "kubernetes-fleet.io/"
_LATEST: Final = f"{_PREFIX}is-latest-snapshot"
_PARENT: Final = f"{_PREFIX}parent-CRP"
_POLICY_INDEX: Final = f"{_PREFIX}policy-index"
_RESOURCE_INDEX: Final = f"{_PREFIX}resource-index"
_NUMBER: Final = f"{_PREFIX}number-of-clusters"
_PREVIOUS: Final = f"{_PREFIX}previous-binding-state"
_STATES: Final = ("Scheduled", "Bound", "Unscheduled")
# What is left of a snapshot's name once its placement's is cut off: its number, and which part it is.
_POLICY_REST: Final = re.compile(r"-(\d{1,9})")
_RESOURCE_REST: Final = re.compile(r"-(\d{1,9})-(?:snapshot|\d+)")
_ANY_REST: Final = re.compile(r"-\d+(?:-snapshot|-\d+)?$")
_OVERRIDE_LISTS: Final = ("clusterResourceOverrideSnapshots", "resourceOverrideSnapshots")
_OVERRIDE_KINDS: Final = ("ClusterResourceOverrideSnapshot", "ResourceOverrideSnapshot")

BINDINGS: Final = ("ClusterResourceBinding", "ResourceBinding")
_POLICIES: Final = ("ClusterSchedulingPolicySnapshot", "SchedulingPolicySnapshot")
_RESOURCES: Final = ("ClusterResourceSnapshot", "ResourceSnapshot")
# What the hub makes for a placement.
MADE_BY_THE_HUB: Final = frozenset({*BINDINGS, *_POLICIES, *_RESOURCES})
PLACEMENTS: Final = ("ClusterResourcePlacement", "ResourcePlacement")

# How far a cluster is with what its binding brings. Source: KubeFleet pkg/controllers/rollout.
READY, WAITING, FAILED, UNOVERRIDDEN = "ready", "waiting", "failed", "not overridden"
_STEPS: Final = ("Overridden", "WorkSynchronized", "Applied", "Available")
_NOT_YET: Final = (
    "OverriddenPending",
    "WorkNotSynchronizedYet",
    "ApplyPending",
    "ApplyInProgress",
    "ResourceNotAvailableYet",
    "NotAllWorkAreAvailable",
)
# The reason of what has failed stands also where nobody has answered yet; the message tells them apart.
_UNDER_WAY: Final = "has not yet completed"
_OVERRIDING_FAILED: Final = "Failed to apply the override rules on the resources: "


class ShownBinding(Struct, frozen=True):
    """A placement's hold on a cluster; numbers are those of snapshots, None where nothing tells. `deleting`:
    it is being removed. `standing`: what is on the cluster is available, may become so, or failed for good,
    which overriding may have done, for the reason in `failure`.
    `overrides` are the names of the override snapshots that it brings, `apply` is how it says to apply.
    """

    cluster: str
    state: str
    previous_state: str | None
    affinity_score: int | None
    topology_spread_score: int | None
    policy_snapshot: int | None
    resource_snapshot: int | None
    deleting: bool = False
    standing: str = READY
    failure: str = ""
    overrides: tuple[str, ...] = ()
    apply: Mapping[str, Any] | None = None


class ShownSnapshot(Struct, frozen=True):
    """What a placement had selected at one time, under the number of its resource snapshot."""

    index: int
    objects: tuple[Manifest, ...]


class ShownPlacement(Struct, frozen=True):
    """A placement as the hub has it: its object, its bindings by cluster, the number, policy (None: none was
    written) and N of its latest policy snapshot, and its resource snapshots, the latest one last.
    `policy_index` None: no policy snapshot was captured. `captured`: how many bindings were, whether or not
    they can be read. `refusals`: why clusters were not picked when the scheduler looked last.
    """

    manifest: Manifest
    bindings: Mapping[str, ShownBinding] = field(default_factory=dict)
    policy_index: int | None = None
    policy: Mapping[str, Any] | None = None
    number_of_clusters: int | None = None
    snapshots: tuple[ShownSnapshot, ...] = ()
    captured: int = 0
    refusals: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """`<name>`, or `<namespace>/<name>`."""
        namespace = self.manifest.namespace
        return f"{namespace}/{self.manifest.name}" if namespace else self.manifest.name


def read_placements(manifests: Iterable[Manifest]) -> dict[str, ShownPlacement]:
    """The placements by key, with what the hub made for each; those that are being deleted are over."""
    objects = [manifest for manifest in manifests if is_fleet_group(manifest.group)]
    placements = [m for m in objects if m.kind in PLACEMENTS and not is_going(m.body)]
    names = {(manifest.namespace, manifest.name) for manifest in placements}
    made: dict[str, list[Manifest]] = {}
    for manifest in objects:
        if manifest.kind in MADE_BY_THE_HUB:
            parent = _parent(manifest, names)
            key = f"{manifest.namespace}/{parent}" if manifest.namespace else parent
            made.setdefault(key, []).append(manifest)
    shown = (_placement(manifest, made) for manifest in placements)
    return {placement.key: placement for placement in shown}


def _placement(manifest: Manifest, made: Mapping[str, list[Manifest]]) -> ShownPlacement:
    """A placement with what the hub made for it: bindings, and its latest policy and resource snapshots."""
    of_it = made.get(ShownPlacement(manifest).key, [])
    bindings = [_binding(one, manifest.name) for one in of_it if one.kind in BINDINGS]
    # Where an evicted one still goes while its successor stands, the successor counts.
    by_cluster: dict[str, ShownBinding] = {}
    for binding in bindings:
        if binding is not None and (binding.cluster not in by_cluster or not binding.deleting):
            by_cluster[binding.cluster] = binding
    placement = ShownPlacement(
        manifest,
        by_cluster,
        snapshots=_snapshots([one for one in of_it if one.kind in _RESOURCES], manifest.name),
        captured=len(bindings),
    )
    policies = {one.name: _index(one, _POLICY_INDEX, _POLICY_REST, manifest.name) for one in of_it}
    policy = _latest([one for one in of_it if one.kind in _POLICIES], policies)
    if policy is None:
        return placement
    return replace(
        placement,
        policy_index=policies[policy.name],
        policy=_mapping(policy.body, "spec", "policy"),
        number_of_clusters=whole(_annotations(policy).get(_NUMBER)),
        refusals=dict(_refusals(policy)),
    )


def _refusals(policy: Manifest) -> Iterator[tuple[str, str]]:
    """The clusters that a policy snapshot tells of as not picked, and why."""
    for each in mappings_at(policy.body, "status", "targetClusters"):
        if each.get("selected") is False:
            yield str(each.get("clusterName") or ""), str(each.get("reason") or "")


def _snapshots(manifests: Sequence[Manifest], owner: str) -> tuple[ShownSnapshot, ...]:
    """The resource snapshots of a placement by number, the latest last; one may be several manifests."""
    numbers = {one.name: _index(one, _RESOURCE_INDEX, _RESOURCE_REST, owner) for one in manifests}
    objects: dict[int, list[Manifest]] = {}
    # The master of a snapshot in parts has the longest name: `-snapshot` before `-0`.
    for manifest in sorted(manifests, key=lambda one: (not one.name.endswith("-snapshot"), one.name)):
        number = numbers[manifest.name]
        if number is not None:
            objects.setdefault(number, []).extend(_selected(manifest))
    latest = _latest(manifests, numbers)
    newest = numbers[latest.name] if latest is not None else None
    ordered = sorted(objects, key=lambda number: (number == newest, number))
    return tuple(ShownSnapshot(number, tuple(objects[number])) for number in ordered)


def _binding(manifest: Manifest, owner: str) -> ShownBinding | None:
    """A binding that says for which cluster it is and in which state; None otherwise. `owner` is the name of
    its placement.
    """
    spec = mapping_at(manifest.body, "spec")
    cluster, state = spec.get("targetCluster"), spec.get("state")
    if not isinstance(cluster, str) or state not in _STATES:
        return None
    score = mapping_at(spec, "clusterDecision", "clusterScore")
    standing, message = _standing(manifest)
    previous = _annotations(manifest).get(_PREVIOUS)
    return ShownBinding(
        cluster=cluster,
        state=str(state),
        previous_state=previous if state == "Unscheduled" and previous in _STATES else None,
        affinity_score=whole(score.get("affinityScore")),
        topology_spread_score=whole(score.get("priorityScore", score.get("topologySpreadScore"))),
        policy_snapshot=_number(spec.get("schedulingPolicySnapshotName"), owner, _POLICY_REST),
        resource_snapshot=_number(spec.get("resourceSnapshotName"), owner, _RESOURCE_REST),
        deleting=is_going(manifest.body),
        standing=standing,
        failure=message.removeprefix(_OVERRIDING_FAILED) if standing == UNOVERRIDDEN else "",
        overrides=tuple(override_names(spec)),
        apply=_mapping(spec, "applyStrategy"),
    )


def override_names(spec: Mapping[str, Any]) -> Iterator[str]:
    """The override snapshots of a binding, or of a cluster in a run: `<name>`, or `<namespace>/<name>`."""
    for key in _OVERRIDE_LISTS:
        for each in list_at(spec, key):
            if isinstance(each, Mapping):
                yield f"{each.get('namespace')}/{each.get('name')}"
            else:
                yield str(each)


def _standing(binding: Manifest) -> tuple[str, str]:
    """How far the cluster of a binding is, and what is said where it failed. Conditions of an earlier
    generation say nothing of this one.
    """
    generation = value_at(binding.body, "metadata", "generation")
    conditions: dict[str, Mapping[str, Any]] = {}
    for condition in conditions_of(binding.body):
        if condition.get("observedGeneration", generation) == generation:
            conditions[str(condition.get("type"))] = condition
    for step in _STEPS:
        condition = conditions.get(step, {})
        if condition.get("status") != "False" or condition.get("reason") in _NOT_YET:
            continue
        message = str(condition.get("message") or "")
        if step == _STEPS[0]:
            return UNOVERRIDDEN, message
        return WAITING if _UNDER_WAY in message else FAILED, message
    done = (conditions.get(name, {}).get("status") == "True" for name in ("Available", "DiffReported"))
    return READY if any(done) else WAITING, ""


def conditions_of(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The conditions in an object's status."""
    return mappings_at(body, "status", "conditions")


def is_going(body: Mapping[str, Any]) -> bool:
    """Whether an object is being deleted."""
    return bool(value_at(body, "metadata", "deletionTimestamp"))


def binding_problems(manifests: Iterable[Manifest]) -> Iterator[Problem]:
    """What is wrong with bindings as they are shown."""
    for binding in manifests:
        if binding.kind not in BINDINGS or not is_fleet_group(binding.group):
            continue
        spec = mapping_at(binding.body, "spec")
        state, cluster = spec.get("state"), text_at(spec, "targetCluster")
        if state not in _STATES:
            said = f'spec.state is "{state}"' if state else "spec.state is missing"
            near = did_you_mean(str(state), _STATES)
            text = f"{binding.title}: {said}; it must be one of {', '.join(_STATES)}.{near}"
            yield problem_at(binding.file, binding.find("spec", "state"), INVALID, text)
        if not cluster:
            text = f"{binding.title}: spec.targetCluster is missing, which says whom it binds."
            yield problem_at(binding.file, binding.find("spec", "targetCluster"), INVALID, text)


def missing_snapshots(manifests: Sequence[Manifest]) -> Iterator[Problem]:
    """The snapshots that bindings go by and that were not captured, each once: warnings."""
    kinds = {"schedulingPolicySnapshotName": _POLICIES, "resourceSnapshotName": _RESOURCES}
    captured = {(one.kind, one.namespace, one.name) for one in manifests}
    goers: dict[tuple[str, str, str], list[Manifest]] = {}
    for binding in _bindings_in_use(manifests):
        for key, of_kinds in kinds.items():
            name = text_at(binding.body, "spec", key)
            kind = of_kinds[BINDINGS.index(binding.kind)]
            if name and (kind, binding.namespace, name) not in captured:
                goers.setdefault((key, binding.namespace, name), []).append(binding)
    kinds_there = {kind for kind, _, _ in captured}
    told: set[str] = set()
    for (key, _, name), bindings in goers.items():
        first, others = bindings[0], len(bindings) - 1
        who = f"{first.title} and {others} more go" if others else f"{first.title} goes"
        kind = kinds[key][BINDINGS.index(first.kind)]
        if kind in kinds_there:
            text = f"{key} {name} was not captured: what it holds is not known. {who} by it."
        else:
            # The whole kind is missing: it is named once.
            text = f"No {kind} was captured: what they hold is not known. {who} by {name}."
        if kind in told:
            continue
        told |= {kind} - kinds_there
        yield problem_at(first.file, first.find("spec", key), "not-captured", text, Severity.WARNING)


def missing_overrides(manifests: Sequence[Manifest]) -> Iterator[Problem]:
    """The override snapshots that bindings go by and that were not captured, each kind once: warnings."""
    captured = {(one.kind, f"{one.namespace}/{one.name}" if one.namespace else one.name) for one in manifests}
    told: set[str] = set()
    for binding in _bindings_in_use(manifests):
        for name in override_names(mapping_at(binding.body, "spec")):
            kind = _OVERRIDE_KINDS["/" in name]
            if kind in told or (kind, name) in captured:
                continue
            told.add(kind)
            text = (
                f"{kind} {name} was not captured: the override is taken as it is written. {binding.title} "
                "goes by it."
            )
            place = binding.find("spec", _OVERRIDE_LISTS["/" in name])
            yield problem_at(binding.file, place, "not-captured", text, Severity.WARNING)


def _bindings_in_use(manifests: Sequence[Manifest]) -> list[Manifest]:
    """The bindings that a plan goes on from: of placements that stand, and not on their way out. What those
    of others went by goes before them.
    """
    objects = [one for one in manifests if is_fleet_group(one.group) and not is_going(one.body)]
    placements = {(one.namespace, one.name) for one in objects if one.kind in PLACEMENTS}
    bindings = [one for one in objects if one.kind in BINDINGS]
    return [one for one in bindings if (one.namespace, _parent(one, placements)) in placements]


def _selected(snapshot: Manifest) -> Iterator[Manifest]:
    """The objects that a resource snapshot holds."""
    for body in mappings_at(snapshot.body, "spec", "selectedResources"):
        manifest = manifest_of(body)
        if manifest is not None:
            yield manifest


def _parent(manifest: Manifest, placements: Collection[tuple[str, str]]) -> str:
    """The placement that the hub made an object for: its label says it, else its name begins with it."""
    labelled = manifest.labels.get(_PARENT)
    if labelled:
        return labelled
    name = _ANY_REST.sub("", manifest.name)
    owners = [
        owner
        for namespace, owner in placements
        if namespace == manifest.namespace and manifest.name.startswith(f"{owner}-")
    ]
    return max(owners, key=len, default=name)


def _latest(snapshots: Sequence[Manifest], numbers: Mapping[str, int | None]) -> Manifest | None:
    marked = [one for one in snapshots if one.labels.get(_LATEST) == "true"]
    return max(marked or snapshots, key=lambda one: (numbers[one.name] or 0, one.name), default=None)


def _index(snapshot: Manifest, label: str, rest: re.Pattern[str], owner: str) -> int | None:
    labelled = whole(snapshot.labels.get(label))
    return _number(snapshot.name, owner, rest) if labelled is None else labelled


def _number(name: Any, owner: str, rest: re.Pattern[str]) -> int | None:
    """The number in the name of a snapshot, after its owner's: `web-2`, `web-2-snapshot`, `web-2-0`."""
    if not isinstance(name, str) or not name.startswith(owner):
        return None
    match = rest.fullmatch(name, len(owner))
    return int(match[1]) if match is not None else None


def whole(value: Any) -> int | None:
    """A whole number that may be written as text; None for anything else."""
    text = str(value)
    return int(text) if re.fullmatch(r"-?\d{1,9}", text) else None


def _annotations(manifest: Manifest) -> Mapping[str, str]:
    annotations = mapping_at(manifest.body, "metadata", "annotations")
    return {name: str(value) for name, value in annotations.items()}


def _mapping(value: Any, *path: str) -> Mapping[str, Any] | None:
    found = value_at(value, *path)
    return found if isinstance(found, Mapping) else None


# --- who manages what ----------------------------------------------------------------------------

_KUSTOMIZE: Final = "kustomize.toolkit.fluxcd.io"
_HELM: Final = "helm.toolkit.fluxcd.io"
_ARGO: Final = "argocd.argoproj.io"
_TRACKING: Final = f"{_ARGO}/tracking-id"
# What a Managed Fleet Namespace makes on a hub of Azure; an admission policy there refuses changes by others.
# Source: KubeFleet pkg/webhook/managedresource.
_BY_AZURE: Final = "fleet.azure.com/managed-by"
OF_AZURE: Final = "Azure Resource Manager"


def manager_of(manifest: Manifest) -> str:
    """What applies an object from elsewhere: `Flux Kustomization flux-system/apps`, "" for nothing known."""
    labels, annotations = manifest.labels, _annotations(manifest)
    if labels.get(_BY_AZURE) == "arm":
        return OF_AZURE
    for prefix, kind in ((_KUSTOMIZE, "Kustomization"), (_HELM, "HelmRelease")):
        name = labels.get(f"{prefix}/name")
        if name:
            return f"Flux {kind} {labels.get(f'{prefix}/namespace', '')}/{name}"
    tracked = annotations.get(_TRACKING)
    if tracked:
        return f"Argo CD application {tracked.partition(':')[0]}"
    instance = labels.get(f"{_ARGO}/instance")
    if instance:
        return f"Argo CD application {instance}"
    if any(name.startswith((f"{_KUSTOMIZE}/", f"{_HELM}/")) for name in (*labels, *annotations)):
        return "Flux"
    argo = any(name.startswith(f"{_ARGO}/") for name in (*labels, *annotations))
    return "Argo CD" if argo else ""
