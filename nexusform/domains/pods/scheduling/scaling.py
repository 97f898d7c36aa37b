"""Proportional scaling of a Deployment with pods of several templates. Source: kubernetes
pkg/controller/deployment/sync.go (scale) and util/deployment_util.go (GetReplicaSetProportion).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from nexusform.domains.pods.scheduling.cluster_records import ExistingPod, PodSpec, Strategy, Workload


class TemplatePods(Struct):
    """Pods of a Deployment created from one template; `age` is that of the newest."""

    spec: PodSpec
    count: int = 0
    age: int = 0
    is_current: bool = False


def compute_replica_set_sizes(workload: Workload, sets: Sequence[TemplatePods]) -> list[tuple[TemplatePods, int]]:
    """Return the target size of each set; empty if the Deployment is not scaled or has only one set."""
    previous_maximum = workload.previous_max_pods
    maximum = workload.replicas + workload.max_surge if workload.replicas else 0
    to_add = maximum - sum(pod_set.count for pod_set in sets)
    is_scaled = previous_maximum and workload.kind == "Deployment" and workload.strategy is Strategy.ROLLING
    if not is_scaled or len(sets) < 2 or not to_add:
        return []
    # The largest set is first and gets the rounding remainder; of equal sets the newer grows, the older
    # shrinks.
    newest = 1 if to_add > 0 else -1
    sorted_sets = sorted(
        sets, key=lambda pod_set: (-pod_set.count, -newest * pod_set.is_current, -newest * pod_set.age)
    )
    added = 0
    counts: list[int] = []
    for pod_set in sorted_sets:
        share = ((2 * (pod_set.count * maximum) + previous_maximum) // (2 * previous_maximum)) - pod_set.count
        remaining = to_add - added
        share = min(share, remaining) if to_add > 0 else max(share, remaining)
        added += share
        counts.append(pod_set.count + share)
    counts[0] = max(0, counts[0] + to_add - added)
    return list(zip(sorted_sets, counts, strict=True))


def group_by_template(workload: Workload, pods: Iterable[ExistingPod]) -> list[TemplatePods]:
    """Return the pods of a workload by template."""
    sets: dict[str, TemplatePods] = {}
    for pod in pods:
        template = pod.spec.template
        current = template == workload.pod.template
        pod_set = sets.setdefault(template, TemplatePods(pod.spec, age=pod.age, is_current=current))
        pod_set.count += 1
        pod_set.age = max(pod_set.age, pod.age)
    return list(sets.values())


def compute_surplus_per_template(workload: Workload, pods: Sequence[ExistingPod]) -> dict[str, int]:
    """Return the number of pods to remove per template on scale-in; {} if it is not proportional."""
    surplus = {
        pod_set.spec.template: pod_set.count - count
        for pod_set, count in compute_replica_set_sizes(workload, group_by_template(workload, pods))
    }
    return surplus if any(count > 0 for count in surplus.values()) else {}


def compute_new_pods(workload: Workload, pods: Sequence[ExistingPod]) -> tuple[list[PodSpec], int]:
    """Return specs of new pods for sets of former templates, and the number of current ones."""
    specs: list[PodSpec] = []
    current = 0
    for pod_set, count in compute_replica_set_sizes(workload, group_by_template(workload, pods)):
        if pod_set.is_current:
            current = count - pod_set.count
        else:
            specs += [pod_set.spec] * (count - pod_set.count)
    return specs, current
