"""Pods as kubectl showed them, held against their workload's template: what a rollout has yet to replace.

The API server's own hash of a template cannot be worked out from a manifest. So pods are told apart by the
hash that they carry, and of each kind of them images and requests are compared with the manifest's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from nexusform.domains.pods.planning.brought import Brought
from nexusform.domains.pods.scheduling.workloads import Container, PodSpec, StandingPod, Workload

# Kinds that outlive their template; of all others each pod is made once.
_WITH_TEMPLATES: Final = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
# What only quotas' defaults and limits fill in; whatever else is added nobody here may know of.
_ALWAYS_COMPARED: Final = ("cpu", "memory")


def outdated(workload: Workload, pods: Iterable[StandingPod], *, is_whole: bool) -> set[int]:
    """The numbers of seen pods of a workload that an earlier template made. `is_whole`: all objects that fill
    in requests are known.
    """
    if workload.kind not in _WITH_TEMPLATES:
        return set()
    by_revision: dict[str, list[StandingPod]] = {}
    for pod in pods:
        if pod.seen is not None:
            by_revision.setdefault(pod.seen.revision, []).append(pod)
    current = [
        revision
        for revision, of_revision in by_revision.items()
        if any(_is_made_from(workload, pod, is_whole=is_whole) for pod in of_revision)
    ]
    # All that is compared may be equal: a workload has one template, the one that was rolled out last.
    newest = max(current, key=lambda revision: max(pod.age for pod in by_revision[revision]), default=None)
    return {
        pod.number
        for revision, of_revision in by_revision.items()
        for pod in of_revision
        if revision != newest
    }


def as_made(workload: Workload, pods: Sequence[StandingPod], *, is_whole: bool) -> list[StandingPod]:
    """Seen pods of a workload with what they were made from, and what they hold by now."""
    former = outdated(workload, pods, is_whole=is_whole)
    return [
        replace(pod, spec=_former(pod) if pod.number in former else _current(workload.pod, pod))
        for pod in pods
    ]


def _current(spec: PodSpec, pod: StandingPod) -> PodSpec:
    """Today's spec with what the pod holds: it may have been resized, or have containers of others."""
    held = pod.spec.requests
    return spec if held == spec.requests else replace(spec, requests=held, scored=pod.spec.scored)


def _former(pod: StandingPod) -> PodSpec:
    revision = pod.seen.revision if pod.seen is not None else ""
    return replace(pod.spec, template=f"seen-{revision}")


def _is_made_from(workload: Workload, pod: StandingPod, *, is_whole: bool) -> bool:
    """Whether a pod has the containers of a template. Further ones were added on its way."""
    there = {container.name: container for container in (pod.seen.containers if pod.seen else ())}
    return all(
        container.name in there and _is_alike(container, there[container.name], is_whole=is_whole)
        for container in workload.containers
    )


def _is_alike(written: Container, there: Container, *, is_whole: bool) -> bool:
    if written.image and there.image and written.image != there.image:
        return False
    asks, has = dict(written.requests), dict(there.requests)
    names = {*asks, *(_ALWAYS_COMPARED if is_whole else ())}
    return all(asks.get(name, 0) == has.get(name, 0) for name in names)


def replaced_since(
    own: Iterable[Brought], made_of: Mapping[str, Workload], *, is_whole: bool
) -> Callable[[StandingPod], bool]:
    """Whether state knows that a seen pod was replaced since kubectl looked: state's own template (`made_of`,
    by workload) is another, and state has on its node no pod that was seen there or is of a former template.
    """
    open_nodes: dict[str, set[str]] = {}
    for brought in own:
        open_nodes |= brought.open_nodes()

    def is_past(pod: StandingPod) -> bool:
        workload, nodes = made_of.get(pod.workload), open_nodes.get(pod.workload)
        if workload is None or nodes is None or pod.node in nodes:
            return False
        return bool(outdated(workload, [pod], is_whole=is_whole))

    return is_past
