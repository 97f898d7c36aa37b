"""How a Deployment is scaled while pods of several templates stand: each set of them gets its share.

Source: kubernetes pkg/controller/deployment/sync.go (scale) and util/deployment_util.go
(GetReplicaSetProportion).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from nexusform.domains.pods.scheduling.workloads import PodSpec, StandingPod, Strategy, Workload


class PodSet(Struct):
    """The pods of a Deployment that one template made; `age` is that of the newest."""

    spec: PodSpec
    count: int = 0
    age: int = 0
    is_current: bool = False


def shares(workload: Workload, sets: Sequence[PodSet]) -> list[tuple[PodSet, int]]:
    """How many pods each set is to have; () where the Deployment is not scaled, or has one set alone."""
    before = workload.most_before
    most = workload.replicas + workload.max_surge if workload.replicas else 0
    to_add = most - sum(each.count for each in sets)
    scales = before and workload.kind == "Deployment" and workload.strategy is Strategy.ROLLING
    if not scales or len(sets) < 2 or not to_add:
        return []
    # The largest comes first, and has what rounding leaves; of equals the newer grows, the older shrinks.
    newest = 1 if to_add > 0 else -1
    ordered = sorted(sets, key=lambda each: (-each.count, -newest * each.is_current, -newest * each.age))
    added = 0
    counts: list[int] = []
    for each in ordered:
        share = _rounded(each.count * most, before) - each.count
        left = to_add - added
        share = min(share, left) if to_add > 0 else max(share, left)
        added += share
        counts.append(each.count + share)
    counts[0] = max(0, counts[0] + to_add - added)
    return list(zip(ordered, counts, strict=True))


def _rounded(amount: int, by: int) -> int:
    return (2 * amount + by) // (2 * by)


def sets_of(workload: Workload, pods: Iterable[StandingPod]) -> list[PodSet]:
    """The pods of a workload by template."""
    sets: dict[str, PodSet] = {}
    for pod in pods:
        template = pod.spec.template
        current = template == workload.pod.template
        each = sets.setdefault(template, PodSet(pod.spec, age=pod.age, is_current=current))
        each.count += 1
        each.age = max(each.age, pod.age)
    return list(sets.values())


def surplus_by_share(workload: Workload, pods: Sequence[StandingPod]) -> dict[str, int]:
    """By template, how many pods of it go as the Deployment is scaled in; {} where that is not by shares."""
    going = {
        each.spec.template: each.count - count for each, count in shares(workload, sets_of(workload, pods))
    }
    return going if any(count > 0 for count in going.values()) else {}


def growth_by_share(workload: Workload, pods: Sequence[StandingPod]) -> tuple[list[PodSpec], int]:
    """The specs of pods that sets of former templates get as the Deployment is scaled out, one each, and how
    many today's template gets.
    """
    specs: list[PodSpec] = []
    current = 0
    for each, count in shares(workload, sets_of(workload, pods)):
        if each.is_current:
            current = count - each.count
        else:
            specs += [each.spec] * (count - each.count)
    return specs, current
