"""Match of observed pods with their workload's template: pods still to be replaced by a rollout.

The API server's own template hash cannot be computed from a manifest. So pods are grouped by their
hash label, and the images and requests of each group are compared with the manifest's.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics.phrases import group_by
from nexusform.documents.scalars import parse_integer
from nexusform.domains.pods.importers.kubernetes_pod_spec import parse_selector
from nexusform.domains.pods.importers.manifest_parser import Fields, Manifest
from nexusform.domains.pods.planning.object_pods import ObjectPods
from nexusform.domains.pods.scheduling.cluster_records import (
    NEWEST_REVISION,
    Container,
    ExistingPod,
    Workload,
)
from nexusform.kubernetes.matching import is_selected

# Kinds with template updates; pods of all others are created once.
_UPDATED_KINDS: Final = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
_SCALED_KINDS: Final = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
_RULE_FIELDS: Final = (
    *("node_selector", "node_terms", "preferred_nodes"),
    *("affinity", "anti_affinity", "preferred_affinity", "preferred_anti_affinity"),
)
# Kinds with pods of their own; those of a Deployment belong to its ReplicaSets.
ADOPTING_KINDS: Final = ("ReplicaSet", "DaemonSet", "StatefulSet")
# Resources added only by LimitRange defaults; other additions may be unknown.
_ALWAYS_COMPARED: Final = ("cpu", "memory")


def find_outdated_pod_numbers(
    workload: Workload, pods: Iterable[ExistingPod], *, is_complete: bool
) -> set[int]:
    """Return the numbers of observed pods of an earlier template.

    The pods of one template have the same revision, a label set by their controller. `is_complete`
    means that all LimitRange defaults are known.
    """
    if workload.kind not in _UPDATED_KINDS:
        # Their pods have no other template.
        return set()
    observed_pods = [pod for pod in pods if pod.observed_template is not None]
    pods_by_revision = group_by(observed_pods, _get_revision)
    # Of unknown label: the newest of all is used below.
    if workload.current_revisions == (NEWEST_REVISION,):
        current_revisions = list(pods_by_revision)
    elif workload.current_revisions is not None:
        # Known from the live objects.
        current_revisions = [
            revision for revision in pods_by_revision if revision in workload.current_revisions
        ]
    else:
        # Those with pods like the template.
        current_revisions = _find_matching_revisions(
            workload, pods_by_revision, is_complete=is_complete
        )
    # Several revisions may match: the current template is the one rolled out last.
    newest_revision = _find_newest_revision(current_revisions, pods_by_revision)
    return {pod.number for pod in observed_pods if _get_revision(pod) != newest_revision}


def _find_matching_revisions(
    workload: Workload, pods_by_revision: Mapping[str, Sequence[ExistingPod]], *, is_complete: bool
) -> list[str]:
    """Return the revisions with a pod like the template, by its containers.

    If this plan replaces the live template, two rules are added. The revision of the live
    template does not count, and all pods of the revision must have the node selection and pod
    affinity of the template.
    """
    # Of the live template, "" if it is not replaced.
    replaced_revision: str | None = workload.replaced_revision
    # Its label is unknown.
    if replaced_revision == NEWEST_REVISION:
        replaced_revision = _find_newest_revision(pods_by_revision, pods_by_revision)
    revisions: list[str] = []
    for revision, pods in pods_by_revision.items():
        if not any(
            _has_template_containers(workload, pod, is_complete=is_complete) for pod in pods
        ):
            continue
        has_rules = all(
            getattr(pod.spec, name) == getattr(workload.pod, name)
            for pod in pods
            for name in _RULE_FIELDS
        )
        if not replaced_revision or (has_rules and revision != replaced_revision):
            revisions.append(revision)
    return revisions


def _find_newest_revision(
    revisions: Iterable[str], by_revision: Mapping[str, Sequence[ExistingPod]]
) -> str | None:
    """Return the revision of the pod started last: `age` increases with the time of start.

    The result is None without revisions.
    """
    return max(
        revisions, key=lambda revision: max(pod.age for pod in by_revision[revision]), default=None
    )


def add_observed_changes(
    workload: Workload, pods: Sequence[ExistingPod], *, is_complete: bool, is_changed: bool
) -> Workload:
    """Return a workload with the requests and images of its observed pods.

    New pods will get the same from webhooks. The workload is unchanged if its pods cannot be
    compared, or if those of its template differ from each other. `is_complete` means that all
    LimitRange defaults are known. `is_changed` means that this plan changes the template, so
    observed pods may also differ for this reason.
    """
    observed_pods = [pod for pod in pods if pod.observed_template is not None]
    if not observed_pods or workload.kind not in _UPDATED_KINDS:
        # There is nothing to compare.
        return workload
    is_live_template_unknown = workload.current_revisions is None and not workload.replaced_revision
    if is_live_template_unknown and not is_changed:
        has_plain_pod = any(
            _has_template_containers(workload, pod, is_complete=is_complete)
            for pod in observed_pods
        )
        revisions = _find_rewritten_revisions(workload, observed_pods)
        # No pod equals the template: those with the same containers, but rewritten images, are
        # taken as its pods.
        if revisions and not has_plain_pod:
            workload = replace(workload, is_rewritten=True, current_revisions=revisions)
    outdated_numbers = find_outdated_pod_numbers(workload, observed_pods, is_complete=is_complete)
    current_pods = [pod for pod in pods if pod.number not in outdated_numbers]
    # No common additions.
    if len({(pod.spec.requests, pod.spec.images) for pod in current_pods}) != 1:
        return workload
    spec = current_pods[0].spec
    pod = replace(
        workload.pod,
        requests=spec.requests,
        scored_requests=spec.scored_requests,
        images=spec.images,
    )
    return replace(workload, pod=pod, is_admission_known=True)


def _find_rewritten_revisions(workload: Workload, pods: Iterable[ExistingPod]) -> tuple[str, ...]:
    """Return the revisions with all pods like the template, apart from images changed on admission.

    A revision is the label of its pods.
    """
    by_revision = group_by(pods, _get_revision)
    return tuple(
        name
        for name, group in by_revision.items()
        if all(_is_rewritten_pod(workload, pod) for pod in group)
    )


def _get_revision(pod: ExistingPod) -> str:
    """Return the revision label of an observed pod; "" without one."""
    return pod.observed_template.revision if pod.observed_template is not None else ""


def _index_observed_containers(pod: ExistingPod) -> dict[str, Container]:
    """Return the observed containers of a pod by name."""
    assert pod.observed_template is not None, "pods without a template are not compared"
    return {container.name: container for container in pod.observed_template.containers}


def _is_rewritten_pod(workload: Workload, pod: ExistingPod) -> bool:
    """Return whether a pod has the containers of a template, their images possibly rewritten."""
    observed = _index_observed_containers(pod)
    return all(
        container.name in observed
        and _is_same_image(container.image, observed[container.name].image)
        for container in workload.containers
    )


def _is_same_image(image: str, observed_image: str) -> bool:
    """Return whether two images may be the same one from a mirror, or pinned by its digest."""
    name, tag, digest = _split_image(image)
    observed_name, observed_tag, observed_digest = _split_image(observed_image)
    # With a digest, one of the tags may be missing.
    has_same_tag = tag == observed_tag or (observed_digest != "" and "" in (tag, observed_tag))
    return name == observed_name and digest in ("", observed_digest) and has_same_tag


def _split_image(image: str) -> tuple[str, str, str]:
    """Return the name of an image without its registry, the tag and the digest ("" = none)."""
    path, _, digest = image.partition("@")
    name, _, tag = path.rpartition("/")[2].partition(":")
    return name, tag, digest


def estimate_replicas(pods: Iterable[ExistingPod]) -> dict[str, int]:
    """Estimate the replicas of each scaled workload by its pods.

    During a rollout, the default surge is deducted.
    """
    # By workload: its pods by revision.
    counts: dict[str, Counter[str]] = {}
    for pod in pods:
        # A key is namespace, kind and name.
        _, kind, _ = pod.workload.split("/", 2)
        if kind in _SCALED_KINDS:
            counts.setdefault(pod.workload, Counter())[_get_revision(pod) or pod.spec.template] += 1
    replicas = {}
    for key, count_by_revision in counts.items():
        total = count_by_revision.total()
        # A rollout: pods of several revisions.
        is_rolling = len(count_by_revision) > 1 and "/Deployment/" in key
        # Of a total of 5, 4 are replicas and one is the surge (25 %, rounded up).
        replicas[key] = max(1, total * 4 // 5) if is_rolling else total
    return replicas


def assign_template_specs(
    workload: Workload,
    pods: Sequence[ExistingPod],
    orphans: Iterable[ExistingPod] = (),
    *,
    is_complete: bool,
) -> list[ExistingPod]:
    """Return observed pods of a workload with their templates' specs and actual requests.

    An outdated pod gets a template name other than the current one, `seen-REVISION`. `orphans` are
    pods adopted by the workload.
    """
    result: list[ExistingPod] = []
    for pod in orphans:
        # It never replaces a pod, so the pod counts as current.
        if workload.kind == "ReplicaSet":
            result.append(replace(pod, spec=replace(pod.spec, template=workload.pod.template)))
        elif _get_revision(pod):
            # It is compared below, like the other pods.
            pods = [*pods, pod]
        else:
            # Without the label of a revision it counts as outdated: the next rolling
            # update replaces it.
            result.append(replace(pod, spec=replace(pod.spec, template="seen-")))
    outdated_numbers = find_outdated_pod_numbers(workload, pods, is_complete=is_complete)
    for pod in pods:
        spec = workload.pod
        # Its template is known by the label of its revision alone.
        if pod.number in outdated_numbers:
            spec = replace(pod.spec, template=f"seen-{_get_revision(pod)}")
        elif pod.spec.requests != spec.requests:
            # The pod was resized or has sidecars.
            spec = replace(
                spec, requests=pod.spec.requests, scored_requests=pod.spec.scored_requests
            )
        result.append(replace(pod, spec=spec))
    return result


def _has_template_containers(workload: Workload, pod: ExistingPod, *, is_complete: bool) -> bool:
    """Return whether a pod has the containers of a template, or more.

    `is_complete` means that LimitRange defaults are known.
    """
    container_by_name = _index_observed_containers(pod)
    return all(
        container.name in container_by_name
        and _is_same_container(
            container, container_by_name[container.name], is_complete=is_complete
        )
        for container in workload.containers
    )


def _is_same_container(
    template_container: Container, observed_container: Container, *, is_complete: bool
) -> bool:
    """Return whether known images and requests are equal.

    With `is_complete` (defaults are known), CPU and memory are always compared.
    """
    if (
        template_container.image
        and observed_container.image
        and template_container.image != observed_container.image
    ):
        return False
    template_requests = dict(template_container.requests)
    observed_requests = dict(observed_container.requests)
    names = {*template_requests, *(_ALWAYS_COMPARED if is_complete else ())}
    return all(template_requests.get(name, 0) == observed_requests.get(name, 0) for name in names)


def create_replacement_check(
    objects: Iterable[ObjectPods], prior_workloads: Mapping[str, Workload], *, is_complete: bool
) -> Callable[[ExistingPod], bool]:
    """Return a check whether a plan applied after the observation has replaced an observed pod.

    Then it has another template than its workload in state (`prior_workloads`), and state has no
    outdated pod on its node.
    """
    # By workload: nodes with pods possibly of a former template in state.
    outdated_nodes: dict[str, set[str]] = {}
    for object_pods in objects:
        outdated_nodes |= object_pods.list_nodes_with_outdated_pods()

    def is_replaced(pod: ExistingPod) -> bool:
        workload = prior_workloads.get(pod.workload)
        nodes = outdated_nodes.get(pod.workload)
        if workload is None or nodes is None or pod.node in nodes:
            # State does not have its workload, or has this outdated pod on the node.
            return False
        return bool(find_outdated_pod_numbers(workload, [pod], is_complete=is_complete))

    return is_replaced


def find_orphan_pods(
    workload: Workload, manifests: Iterable[Manifest], pods: Iterable[ExistingPod]
) -> Iterator[ExistingPod]:
    """Yield the pods adopted by a ReplicaSet, DaemonSet or StatefulSet.

    They have no controller (`namespace/Pod/name`). The selector of the workload decides. A
    StatefulSet adopts only pods with its names (such as web-0). Source: kubernetes
    pkg/controller/controller_ref_manager.go, pkg/controller/statefulset/stateful_set.go.
    """
    manifest = next((item for item in manifests if item.workload_key == workload.key), None)
    if manifest is None or workload.kind not in ADOPTING_KINDS:
        return
    selector = parse_selector(Fields(manifest, [], manifest.body).get_mapping("spec"), "selector")
    prefix = f"{workload.namespace}/Pod/"
    for pod in pods:
        if not pod.workload.startswith(prefix) or not is_selected(selector, dict(pod.spec.labels)):
            continue
        ordinal = _parse_ordinal(workload, pod.workload.removeprefix(prefix))
        if workload.kind != "StatefulSet" or ordinal is not None:
            yield pod


def is_replaced_orphan(object_pods: ObjectPods, workload: Workload, orphan: ExistingPod) -> bool:
    """Return whether an applied plan has replaced a pod to adopt.

    State has a pod of the current template instead. In a StatefulSet the replacement has the
    ordinal of the orphan, in other workloads its node.
    """
    if workload.kind == "ReplicaSet" or _get_revision(orphan):
        # A ReplicaSet keeps it, and with a revision it counts like any other pod.
        return False
    ordinal = _parse_ordinal(workload, orphan.workload.rpartition("/")[2])
    for name, pod in object_pods.prior_pods.get(workload.key, {}).items():
        if object_pods.records[workload.key, name].former_template:
            # Not a pod of the current template.
            continue
        is_replacement = (
            pod.number == ordinal if workload.kind == "StatefulSet" else pod.node == orphan.node
        )
        if is_replacement:
            return True
    return False


def assign_pod_numbers(
    workload: Workload,
    orphans: Sequence[ExistingPod],
    recorded_nodes: Mapping[int, str],
    used_numbers: Collection[int],
) -> list[ExistingPod]:
    """Return adopted pods (`orphans`) as numbered pods of a workload.

    `recorded_nodes` are the nodes in state by number. A pod of a StatefulSet has its ordinal.
    Another pod gets a number recorded for its node, else a new one.
    """
    numbers_by_node = group_by(sorted(recorded_nodes), lambda number: recorded_nodes[number])
    free_numbers = count(1 + max((*recorded_nodes, *used_numbers), default=-1))
    pods: list[ExistingPod] = []
    for pod in orphans:
        number = _parse_ordinal(workload, pod.workload.rpartition("/")[2])
        if workload.kind != "StatefulSet" or number is None:
            node_numbers = numbers_by_node.get(pod.node)
            number = node_numbers.pop(0) if node_numbers else next(free_numbers)
        pods.append(replace(pod, workload=workload.key, number=number))
    return pods


def _parse_ordinal(workload: Workload, pod_name: str) -> int | None:
    """Return the ordinal in the name of a pod of a StatefulSet; None for other names."""
    parent, _, digits = pod_name.rpartition("-")
    return parse_integer(digits) if parent == workload.name else None
