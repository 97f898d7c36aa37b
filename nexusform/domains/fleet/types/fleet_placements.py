"""What the two placement types have in common: schema, checks and reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from nexusform.diagnostics import Problem
from nexusform.domains.fleet.binding_kind import BINDING
from nexusform.domains.fleet.importers.fleet_model import (
    EXTERNAL,
    SERVER_SIDE_APPLY,
    WITH_SELECTED,
    FleetObject,
    FleetPlacement,
)
from nexusform.domains.fleet.scheduling.bindings import PlacementType, Policy
from nexusform.domains.fleet.scheduling.validation import (
    check_policy,
    check_rolling_update,
    check_selector,
    invalid,
)
from nexusform.domains.fleet.types.fleet_kinds import FleetKind, Values, fleet_type
from nexusform.domains.fleet.types.fleet_reading import amount_problems, read_placement
from nexusform.domains.fleet.types.fleet_schemas import (
    PLACEMENT_ARGUMENTS,
    PLACEMENT_BLOCKS,
    PLACEMENT_VALUES,
)
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest
from nexusform.domains.pods.pod_kind import POD
from nexusform.plain_data import Path
from nexusform.ports import Kind, ResourceType
from nexusform.schema import BlockSchema

_PREFERRED: Final = "preferred_during_scheduling_ignored_during_execution"
_SPEC = BlockSchema(PLACEMENT_ARGUMENTS, PLACEMENT_BLOCKS)
_OF_NAMESPACE: Final = {
    "": {
        "ConfigMap", "Secret", "Service", "ServiceAccount", "PersistentVolumeClaim", "Pod", "PodTemplate",
        "Endpoints", "LimitRange", "ResourceQuota", "ReplicationController",
    },
    "apps": {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"},
    "batch": {"Job", "CronJob"},
    "autoscaling": {"HorizontalPodAutoscaler"},
    "networking.k8s.io": {"Ingress", "NetworkPolicy"},
    "policy": {"PodDisruptionBudget"},
    "rbac.authorization.k8s.io": {"Role", "RoleBinding"},
}  # fmt: skip
_OF_CLUSTER: Final = {
    "": {"Namespace", "PersistentVolume"},
    "apiextensions.k8s.io": {"CustomResourceDefinition"},
    "rbac.authorization.k8s.io": {"ClusterRole", "ClusterRoleBinding"},
    "scheduling.k8s.io": {"PriorityClass"},
    "storage.k8s.io": {"StorageClass"},
}


def _brought(attributes: Values, note: Mapping[str, Any] | None) -> dict[str, tuple[Manifest, ...]] | None:
    """The objects that a placement of state has on each cluster."""
    from nexusform.domains.fleet.planning.contents import objects_on_clusters

    return objects_on_clusters(attributes, note)


def placement_type(name: str, kind: str, description: str, *, namespaced: bool) -> ResourceType:
    """The resource type of a placement."""
    placement = fleet_type(
        name,
        FleetKind(kind, _SPEC, namespaced),
        description,
        read=read_placement,
        findings=partial(_findings, namespaced=namespaced),
        values=PLACEMENT_VALUES,
        phase=6,
    )
    return replace(placement, kind=Kind.PLACEMENT, holds=(BINDING, POD), brought=_brought)


def _findings(placement: FleetObject, arguments: Values, *, namespaced: bool) -> Iterator[Problem]:
    """What is wrong with a placement: its policy, what it selects, and its strategy."""
    assert isinstance(placement, FleetPlacement)
    if placement.policy is not None:
        for problem in check_policy(placement.policy):
            yield problem.below("policy")
        yield from _fractions(arguments)
        yield from _empty_affinity(placement.policy, arguments)
    yield from _selectors(placement)
    yield from _scopes(placement, namespaced=namespaced)
    yield from _strategy(placement, arguments.get("strategy") or {})


def _selectors(placement: FleetPlacement) -> Iterator[Problem]:
    """What is wrong with the objects that a placement selects."""
    for i, selector in enumerate(placement.selectors):
        here = ("resource_selector", i)
        yield from check_selector(selector.labels, (*here, "label_selector"))
        if selector.name and selector.labels is not None:
            yield invalid(here, "a resource selector has a name or a label_selector, not both")
        if not selector.kind or not selector.version:
            yield invalid(here, "a resource selector needs version and kind")


def _strategy(placement: FleetPlacement, strategy: Values) -> Iterator[Problem]:
    """What is wrong with how a placement is rolled out."""
    apply = strategy.get("apply_strategy") or {}
    if apply.get("server_side_apply_config") is not None and placement.apply.type != SERVER_SIDE_APPLY:
        text = "serverSideApplyConfig is only valid for ServerSideApply strategy type"
        yield invalid(("strategy", "apply_strategy", "server_side_apply_config"), text)
    rolling = strategy.get("rolling_update")
    below = ("strategy", "rolling_update")
    yield from amount_problems(rolling, ("max_unavailable", "max_surge"), below)
    if rolling is None:
        return
    rollout = placement.rolling
    problems = check_rolling_update(
        rollout.max_unavailable,
        rollout.max_surge,
        rollout.unavailable_period_seconds,
        external=placement.strategy == EXTERNAL,
    )
    for problem in problems:
        yield problem.below(*below)


def _scopes(placement: FleetPlacement, *, namespaced: bool) -> Iterator[Problem]:
    """Kinds of the wrong scope, as far as a kind's scope is known; kinds of custom resources are let pass."""
    takes_whole_namespaces = any(
        selector.scope == WITH_SELECTED and (selector.group, selector.kind) == ("", "Namespace")
        for selector in placement.selectors
    )
    if takes_whole_namespaces and not namespaced:
        return
    wrong, scope = (_OF_CLUSTER, "a cluster") if namespaced else (_OF_NAMESPACE, "not a cluster")
    for i, selector in enumerate(placement.selectors):
        if selector.kind in wrong.get(selector.group, ()):
            text = f"{selector.kind} is {scope} scoped resource"
            if not namespaced:
                text += ": select its Namespace, or use fleet_resource_placement"
            yield invalid(("resource_selector", i, "kind"), text)


def _empty_affinity(policy: Policy, arguments: Values) -> Iterator[Problem]:
    """An affinity that says nothing: the scheduler's policy cannot tell it from none, the API does."""
    silent = policy.required is None and not policy.preferred
    written = (arguments.get("policy") or {}).get("affinity") is not None
    if policy.placement_type is PlacementType.PICK_FIXED and silent and written:
        text = "affinity must be nil for policy type PickFixed, only valid for PickAll and PickN"
        yield invalid(("policy", "affinity"), text)


def _fractions(arguments: Values) -> Iterator[Problem]:
    """Numbers with a fraction where the API has whole ones."""
    policy = arguments.get("policy") or {}
    places: list[tuple[Path, Any]] = [(("policy", "number_of_clusters"), policy.get("number_of_clusters"))]
    affinity = (policy.get("affinity") or {}).get("cluster_affinity") or {}
    preferred: Path = ("policy", "affinity", "cluster_affinity", _PREFERRED)
    for i, term in enumerate(affinity.get(_PREFERRED) or ()):
        places.append(((*preferred, i, "weight"), term.get("weight")))
    for i, constraint in enumerate(policy.get("topology_spread_constraint") or ()):
        places.append((("policy", "topology_spread_constraint", i, "max_skew"), constraint.get("max_skew")))
    for path, value in places:
        if isinstance(value, float | Fraction):
            yield invalid(path, f"{path[-1]} must be a whole number, not {float(value)}")
