"""Objects of a hub as `kubectl get ... -A -o json|yaml` shows them -> which placement holds which cluster,
under which policy and with which resources; and who else manages what.

Sources: KubeFleet's apis/placement/v1beta1 (bindings, snapshots); the labels and annotations that Flux and
Argo CD put on what they apply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity, did_you_mean
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
_INDEX: Final = re.compile(r"-(\d+)(?:-snapshot|-\d+)?$")

BINDINGS: Final = ("ClusterResourceBinding", "ResourceBinding")
_POLICIES: Final = ("ClusterSchedulingPolicySnapshot", "SchedulingPolicySnapshot")
_RESOURCES: Final = ("ClusterResourceSnapshot", "ResourceSnapshot")
_OTHERS: Final = ("Work", "InternalMemberCluster", "ClusterResourcePlacementStatus", "AppliedWork")
# What the hub makes itself.
MADE_BY_THE_HUB: Final = frozenset({*BINDINGS, *_POLICIES, *_RESOURCES, *_OTHERS})
PLACEMENTS: Final = ("ClusterResourcePlacement", "ResourcePlacement")

# What only a server writes into an object's metadata.
_SERVERS: Final = ("managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink")
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class ShownBinding(Struct, frozen=True):
    """A placement's hold on a cluster; numbers are those of snapshots, None where nothing tells."""

    cluster: str
    state: str
    previous_state: str | None
    affinity_score: int | None
    topology_spread_score: int | None
    policy_snapshot: int | None
    resource_snapshot: int | None


class ShownPlacement(Struct, frozen=True):
    """A placement as the hub has it: its object, its bindings by cluster, the number, policy (None: none was
    written) and N of its latest policy snapshot, and the objects of its latest resource snapshot.
    `policy_index` None: no policy snapshot was captured. `captured`: how many bindings were, whether or not
    they can be read.
    """

    manifest: Manifest
    bindings: Mapping[str, ShownBinding] = field(default_factory=dict)
    policy_index: int | None = None
    policy: Mapping[str, Any] | None = None
    number_of_clusters: int | None = None
    objects: tuple[Manifest, ...] = ()
    captured: int = 0

    @property
    def key(self) -> str:
        """`<name>`, or `<namespace>/<name>`."""
        namespace = self.manifest.namespace
        return f"{namespace}/{self.manifest.name}" if namespace else self.manifest.name


def read_placements(manifests: Iterable[Manifest]) -> dict[str, ShownPlacement]:
    """The placements by key, with what the hub made for each."""
    objects = [manifest for manifest in manifests if is_fleet_group(manifest.group)]
    made: dict[str, list[Manifest]] = {}
    for manifest in objects:
        if manifest.kind in MADE_BY_THE_HUB:
            parent = _parent(manifest)
            key = f"{manifest.namespace}/{parent}" if manifest.namespace else parent
            made.setdefault(key, []).append(manifest)
    placements = [manifest for manifest in objects if manifest.kind in PLACEMENTS]
    shown = (_placement(manifest, made) for manifest in placements)
    return {placement.key: placement for placement in shown}


def _placement(manifest: Manifest, made: Mapping[str, list[Manifest]]) -> ShownPlacement:
    """A placement with what the hub made for it: bindings, and its latest policy and resource snapshots."""
    of_it = made.get(ShownPlacement(manifest).key, [])
    bindings = [_binding(one) for one in of_it if one.kind in BINDINGS]
    placement = ShownPlacement(
        manifest,
        {one.cluster: one for one in bindings if one is not None},
        objects=tuple(_latest_objects([one for one in of_it if one.kind in _RESOURCES])),
        captured=len(bindings),
    )
    policy = _latest([one for one in of_it if one.kind in _POLICIES], _POLICY_INDEX)
    if policy is None:
        return placement
    return replace(
        placement,
        policy_index=_index(policy, _POLICY_INDEX),
        policy=_mapping(policy.body, "spec", "policy"),
        number_of_clusters=_whole(_annotations(policy).get(_NUMBER)),
    )


def _latest_objects(snapshots: Sequence[Manifest]) -> Iterator[Manifest]:
    """The objects of the latest resource snapshot, which may be several manifests of one number."""
    newest = _latest(snapshots, _RESOURCE_INDEX)
    if newest is None:
        return
    index = _index(newest, _RESOURCE_INDEX)
    for snapshot in snapshots:
        if _index(snapshot, _RESOURCE_INDEX) == index:
            yield from _selected(snapshot)


def _binding(manifest: Manifest) -> ShownBinding | None:
    """A binding that says for which cluster it is and in which state; None otherwise."""
    spec = _mapping(manifest.body, "spec") or {}
    cluster, state = spec.get("targetCluster"), spec.get("state")
    if not isinstance(cluster, str) or state not in _STATES:
        return None
    score = _mapping(spec, "clusterDecision", "clusterScore") or {}
    previous = _annotations(manifest).get(_PREVIOUS)
    return ShownBinding(
        cluster=cluster,
        state=str(state),
        previous_state=previous if state == "Unscheduled" and previous in _STATES else None,
        affinity_score=_whole(score.get("affinityScore")),
        topology_spread_score=_whole(score.get("priorityScore", score.get("topologySpreadScore"))),
        policy_snapshot=_index_in(spec.get("schedulingPolicySnapshotName")),
        resource_snapshot=_index_in(spec.get("resourceSnapshotName")),
    )


def binding_problems(manifests: Iterable[Manifest]) -> Iterator[Problem]:
    """What is wrong with bindings as they are shown."""
    for binding in manifests:
        if binding.kind not in BINDINGS or not is_fleet_group(binding.group):
            continue
        spec = _mapping(binding.body, "spec") or {}
        state, cluster = spec.get("state"), spec.get("targetCluster")
        if state not in _STATES:
            said = f'spec.state is "{state}"' if state else "spec.state is missing"
            near = did_you_mean(str(state), _STATES)
            text = f"{binding.title}: {said}; it must be one of {', '.join(_STATES)}.{near}"
            yield problem_at(binding.file, binding.find("spec", "state"), INVALID, text)
        if not isinstance(cluster, str) or not cluster:
            text = f"{binding.title}: spec.targetCluster is missing, which says whom it binds."
            yield problem_at(binding.file, binding.find("spec", "targetCluster"), INVALID, text)


def missing_snapshots(manifests: Sequence[Manifest]) -> Iterator[Problem]:
    """The snapshots that bindings go by and that were not captured, each once: warnings."""
    kinds = {"schedulingPolicySnapshotName": _POLICIES, "resourceSnapshotName": _RESOURCES}
    captured = {(one.kind, one.namespace, one.name) for one in manifests}
    goers: dict[tuple[str, str, str], list[Manifest]] = {}
    for binding in manifests:
        if binding.kind not in BINDINGS or not is_fleet_group(binding.group):
            continue
        for key, of_kinds in kinds.items():
            name = (_mapping(binding.body, "spec") or {}).get(key)
            kind = of_kinds[BINDINGS.index(binding.kind)]
            if isinstance(name, str) and name and (kind, binding.namespace, name) not in captured:
                goers.setdefault((key, binding.namespace, name), []).append(binding)
    for (key, _, name), bindings in goers.items():
        first, others = bindings[0], len(bindings) - 1
        who = f"{first.title} and {others} more go" if others else f"{first.title} goes"
        text = f"{key} {name} was not captured: what it holds is not known. {who} by it."
        yield problem_at(first.file, first.find("spec", key), "not-captured", text, Severity.WARNING)


def _selected(snapshot: Manifest) -> Iterator[Manifest]:
    """The objects that a resource snapshot holds."""
    listed = (_mapping(snapshot.body, "spec") or {}).get("selectedResources")
    for body in listed if isinstance(listed, list) else ():
        manifest = manifest_of(body) if isinstance(body, Mapping) else None
        if manifest is not None:
            yield manifest


def _parent(manifest: Manifest) -> str:
    """The placement that the hub made an object for."""
    labelled = manifest.labels.get(_PARENT)
    return labelled or _INDEX.sub("", manifest.name)


def _latest(snapshots: Sequence[Manifest], label: str) -> Manifest | None:
    marked = [one for one in snapshots if one.labels.get(_LATEST) == "true"]
    return max(marked or snapshots, key=lambda one: (_index(one, label) or 0, one.name), default=None)


def _index(snapshot: Manifest, label: str) -> int | None:
    labelled = _whole(snapshot.labels.get(label))
    return _index_in(snapshot.name) if labelled is None else labelled


def _index_in(name: Any) -> int | None:
    """The number in the name of a snapshot: `web-2`, `web-2-snapshot`, `web-2-0`."""
    match = _INDEX.search(name) if isinstance(name, str) else None
    return int(match[1]) if match is not None else None


def _whole(value: Any) -> int | None:
    text = str(value)
    return int(text) if re.fullmatch(r"-?\d{1,9}", text) else None


def _annotations(manifest: Manifest) -> Mapping[str, str]:
    annotations = _mapping(manifest.body, "metadata", "annotations") or {}
    return {name: str(value) for name, value in annotations.items()}


def _mapping(value: Any, *path: str) -> Mapping[str, Any] | None:
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else None


# --- as a person would have written it ------------------------------------------------------------


def as_written(body: Mapping[str, Any]) -> dict[str, Any]:
    """An object without what the server says of it: two exports of one object are the same text."""
    metadata = dict(_mapping(body, "metadata") or {})
    for name in _SERVERS:
        metadata.pop(name, None)
    annotations = {k: v for k, v in (_mapping(metadata, "annotations") or {}).items() if k != _APPLIED}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    metadata.pop("finalizers", None)
    metadata.pop("ownerReferences", None)
    rest = {name: value for name, value in body.items() if name not in {"metadata", "status"}}
    ordered: dict[str, Any] = _in_order({**rest, "metadata": metadata})
    return ordered


def _in_order(value: Any) -> Any:
    """With the keys of every mapping by name: JSON and YAML of one object are the same text."""
    if isinstance(value, Mapping):
        return {name: _in_order(value[name]) for name in sorted(value, key=str)}
    return [_in_order(part) for part in value] if isinstance(value, list) else value


# --- who manages what ----------------------------------------------------------------------------

_KUSTOMIZE: Final = "kustomize.toolkit.fluxcd.io"
_HELM: Final = "helm.toolkit.fluxcd.io"
_ARGO: Final = "argocd.argoproj.io"
_TRACKING: Final = f"{_ARGO}/tracking-id"


def manager_of(manifest: Manifest) -> str:
    """What applies an object from elsewhere: `Flux Kustomization flux-system/apps`, "" for nothing known."""
    labels, annotations = manifest.labels, _annotations(manifest)
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
