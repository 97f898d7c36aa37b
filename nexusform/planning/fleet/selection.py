"""Which objects of the hub a placement selects and brings to clusters, and what is to be known of them
together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from nexusform.importers.fleet_model import ONLY_NAMESPACE, WITH_SELECTED, FleetPlacement, ObjectSelector
from nexusform.importers.kubernetes_manifests import Manifest, never_selected
from nexusform.planning.fleet.hub import Hub
from nexusform.planning.fleet.overrides import Renders, applicable
from nexusform.planning.fleet.placement import PlacementPlan
from nexusform.planning.vms.placed_note import note_placed
from nexusform.scheduling.fleet.model import BindingState
from nexusform.scheduling.matching import matches

_NAMESPACE: Final = ("", "Namespace")
# Kinds whose availability is seen, and data that is available once applied; of others it is not known.
_TRACKED: Final = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("", "Service"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("policy", "PodDisruptionBudget"),
        ("", "Namespace"),
        ("", "ConfigMap"),
        ("", "Secret"),
        ("", "ServiceAccount"),
        ("rbac.authorization.k8s.io", "Role"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("networking.k8s.io", "NetworkPolicy"),
        ("storage.k8s.io", "StorageClass"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("placement.kubernetes-fleet.io", "ClusterResourceEnvelope"),
        ("placement.kubernetes-fleet.io", "ResourceEnvelope"),
    }
)


def selected(placement: FleetPlacement, hub: Sequence[Manifest]) -> tuple[Manifest, ...]:
    """The objects of the hub that a placement selects, in the order of its selectors, each once."""
    service_objects = [manifest for manifest in hub if (manifest.group, manifest.kind) == ("", "Service")]
    services = {(service.namespace, service.name) for service in service_objects}
    selectable = [manifest for manifest in hub if never_selected(manifest, services) is None]
    selected: dict[tuple[str, str, str, str], Manifest] = {}
    namespaces: dict[str, bool] = {}
    for selector in placement.selectors:
        for manifest in selectable:
            if not _chosen(selector, manifest, placement.namespace):
                continue
            selected.setdefault(_key(manifest), manifest)
            if (manifest.group, manifest.kind) == _NAMESPACE and selector.scope != ONLY_NAMESPACE:
                within = selector.scope != WITH_SELECTED
                namespaces[manifest.name] = namespaces.get(manifest.name, False) or within
    if not placement.namespace:
        for manifest in _inside(selectable, namespaces, placement.selectors):
            selected.setdefault(_key(manifest), manifest)
    return tuple(selected.values())


def _key(manifest: Manifest) -> tuple[str, str, str, str]:
    return manifest.group, manifest.kind, manifest.namespace, manifest.name


def _chosen(selector: ObjectSelector, manifest: Manifest, namespace: str) -> bool:
    """Objects of the cluster for a cluster placement, those of its namespace for the other."""
    if manifest.namespace != namespace or (manifest.group, manifest.kind) != (selector.group, selector.kind):
        return False
    if selector.name:
        return manifest.name == selector.name
    return selector.labels is None or matches(selector.labels, manifest.labels)


def _inside(
    selectable: Iterable[Manifest], namespaces: Mapping[str, bool], selectors: Sequence[ObjectSelector]
) -> Iterator[Manifest]:
    """What is in the selected namespaces: everything, or what other selectors name."""
    for namespace, everything in namespaces.items():
        for manifest in selectable:
            if manifest.namespace != namespace:
                continue
            if everything or any(_chosen(selector, manifest, namespace) for selector in selectors):
                yield manifest


def fingerprint(manifests: Iterable[Manifest]) -> str:
    """A hash of what the objects say (not of how they are written)."""
    bodies: list[Any] = [[*_key(manifest), manifest.version, manifest.body] for manifest in manifests]
    text = json.dumps(bodies, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def availability_tracked(manifests: Iterable[Manifest]) -> bool:
    """Whether the availability of every object can be seen."""
    return all((manifest.group, manifest.kind) in _TRACKED for manifest in manifests)


def write_selected(manifests: Iterable[Manifest]) -> list[dict[str, Any]]:
    """The selected objects as an attribute."""
    return [
        {
            "group": manifest.group,
            "version": manifest.version,
            "kind": manifest.kind,
            "namespace": manifest.namespace,
            "name": manifest.name,
        }
        for manifest in manifests
    ]


# --- what a placement brings -------------------------------------------------------------------


def prepare_resources(placement: PlacementPlan, hub: Hub, labels: Mapping[str, Mapping[str, str]]) -> None:
    """Select the objects, number the resource snapshot, and find the clusters whose overrides changed.
    `labels` are those of the members, by name.
    """
    placement.selected = selected(placement.written, hub.manifests)
    placement.digest = fingerprint(placement.selected)
    noted = noted_before(placement)
    last = noted.get("resources")
    if last is not None:
        placement.resources_changed = last.get("hash") != placement.digest
        placement.resource_index = int(last.get("index") or 0) + placement.resources_changed
    else:
        placement.resource_index = max(
            (binding.resource_snapshot or 0 for binding in placement.prior), default=0
        )
    overrides = applicable(
        hub.overrides, placement.written.name, namespaced=bool(placement.written.namespace)
    )
    placement.overrides = overrides
    placement.renders = Renders(placement.selected, overrides, labels)
    digests_before = noted.get("overrides")
    if digests_before is not None:
        placement.outdated = frozenset(_outdated(placement, digests_before))


def _outdated(placement: PlacementPlan, digests_before: Mapping[str, str]) -> Iterator[str]:
    """The clusters for which overrides make something else of the objects than before."""
    for binding in placement.prior:
        rendered = placement.renders.get(binding.cluster)
        if rendered is None or binding.state is not BindingState.BOUND:
            continue
        if digests_before.get(binding.cluster, "") != rendered.digest:
            yield binding.cluster


def noted_before(placement: PlacementPlan) -> Mapping[str, Any]:
    """What state notes of the placement that stays."""
    prior = placement.instance.prior
    return (prior.private if prior is not None and not placement.created else None) or {}


def note_resources(placement: PlacementPlan, serial: int) -> None:
    """Note what the placement brought where and why each binding came, once everything is rolled out.
    `serial` is the one that applying the plan will give.
    """
    noted = noted_before(placement)
    digests_before = noted.get("overrides") or {}
    held_before = {binding.cluster for binding in placement.prior} - placement.evicted
    present = [binding.cluster for binding in placement.held]
    came = [
        (cluster, str(placement.picked.get(cluster, ""))) for cluster in present if cluster not in held_before
    ]
    placement.instance.private = {
        **(note_placed(noted, came, present, serial) or {}),
        "resources": {"index": placement.resource_index, "hash": placement.digest},
        "overrides": _digests(placement, digests_before),
    }


def _digests(placement: PlacementPlan, digests_before: Mapping[str, str]) -> dict[str, str]:
    """What overrides make of the objects on each cluster: as before where the rollout has not reached it."""
    digests = {}
    for binding in placement.held:
        rendered = placement.renders.get(binding.cluster)
        if rendered is None:
            continue
        behind = binding.cluster in placement.outdated and binding.cluster not in placement.rolled
        digests[binding.cluster] = digests_before.get(binding.cluster, "") if behind else rendered.digest
    return digests
