"""Validation by the API server of several workload fields together: a table of checks by type.

Covers only fields that decide whether pods are created. Problems of a Service, a Role or a
ConfigMap are reported on apply. A check reads an object of its type and yields (node, end of the
path, clause). Values of the wrong type are reported elsewhere and read as absent here. Source: the
validation of Kubernetes' API (pkg/apis/*/validation), 1.37.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from nexusform.documents.yaml_documents import Node
from nexusform.json_data.plain_data import Path, get_mapping
from nexusform.kubernetes import matching
from nexusform.kubernetes.matching import Requirement
from nexusform.kubernetes.quantity import read_quantity

CheckFailure: TypeAlias = tuple[Node, str, str]
# Part of the metadata, its path, and the problem as a sentence.
MetadataProblem: TypeAlias = tuple[Node, Path, str]
Check: TypeAlias = Callable[[Node], Iterator[CheckFailure]]

_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
# Default of a Deployment, in seconds.
_DEADLINE: Final = 600


def _list_present_keys(node: Node, *keys: str) -> list[str]:
    """Return those of the keys with a value; null counts as absent."""
    return [key for key in keys if not node.get_node(key).is_absent]


def _get_number(node: Node, default: int) -> int:
    """Return a whole number; the default for any other value (reported elsewhere)."""
    return node.data if isinstance(node.data, int) and not isinstance(node.data, bool) else default


def _check_unique_names(items: Iterator[tuple[Node, str]], noun: str) -> Iterator[CheckFailure]:
    """Yield a failure for each name used before.

    `items` are objects with their paths, `noun` is their kind.
    """
    known_names: set[str] = set()
    for node, path in items:
        name = node.get_node("name").text
        if name in known_names:
            yield node.get_node("name"), f"{path}.name", f'is "{name}", the name of another {noun}.'
        if name:
            known_names.add(name)


def _list_items_with_path(node: Node, key: str) -> Iterator[tuple[Node, str]]:
    """Yield the items of a list under a key, each with its path: `.containers[0]`."""
    for number, item in enumerate(node.get_node(key).list_items()):
        yield item, f".{key}[{number}]"


def _list_containers(pod: Node) -> Iterator[tuple[Node, str]]:
    """Yield the containers of a pod with their paths."""
    for key in ("initContainers", "containers"):
        yield from _list_items_with_path(pod, key)


def _check_workload_spec(spec: Node) -> Iterator[CheckFailure]:
    yield from _check_selector(spec)
    yield from _check_always_restarting_pod(spec)


def _check_always_restarting_pod(spec: Node) -> Iterator[CheckFailure]:
    """Yield the failures in the template of a controller with pods running forever.

    These are all controllers but Jobs.
    """
    pod = spec.get_node("template", "spec")
    policy = pod.get_node("restartPolicy")
    if policy.text not in ("", "Always"):
        yield policy, ".template.spec.restartPolicy", f'is "{policy.text}"; here it must be Always.'
    deadline = pod.get_node("activeDeadlineSeconds")
    if not deadline.is_absent:
        yield (
            deadline,
            ".template.spec.activeDeadlineSeconds",
            "cannot be set here: these pods never finish.",
        )
    yield from _check_template_mounts(spec)


def _check_selector(spec: Node) -> Iterator[CheckFailure]:
    """Yield a failure if a workload's selector is empty or does not select its template's labels.

    `spec` is the spec of the workload. Its missing or invalid fields are reported by other checks.
    """
    selector = spec.get_node("selector")
    labels = selector.get_node("matchLabels")
    expressions = selector.get_node("matchExpressions")
    if not isinstance(selector.data, dict) or spec.get_node("template").is_absent:
        # It is reported as missing or invalid.
        return
    if not labels.data and not expressions.data:
        yield selector, ".selector", "is empty; add the labels of its pods."
        return
    requirements = [
        Requirement(
            expression.get_node("key").text,
            expression.get_node("operator").text,
            tuple(text for text, _ in expression.get_node("values").list_texts()),
        )
        for expression in expressions.list_items()
    ]
    match_labels = get_mapping(labels.data)
    template_labels = get_mapping(spec.get_node("template", "metadata", "labels").data)
    has_only_texts = all(
        isinstance(value, str) for value in (*match_labels.values(), *template_labels.values())
    )
    is_invalid = any(
        list(_check_requirement(expression)) for expression in expressions.list_items()
    )
    if not has_only_texts or is_invalid:
        # It is reported as invalid.
        return
    if not matching.is_selected(
        matching.build_label_selector(match_labels, requirements), template_labels
    ):
        yield selector, ".selector", "does not match the labels of the template."


def _check_deployment(spec: Node) -> Iterator[CheckFailure]:
    """Yield the failures of a Deployment.

    Its progress deadline (600 s by default) must be after minReadySeconds.
    """
    yield from _check_workload_spec(spec)
    deadline = spec.get_node("progressDeadlineSeconds")
    ready_seconds = spec.get_node("minReadySeconds")
    seconds = _get_number(ready_seconds, 0)
    if _get_number(deadline, _DEADLINE) <= seconds:
        # The one in the document.
        node = ready_seconds if deadline.is_absent else deadline
        yield node, ".progressDeadlineSeconds", f"must be more than minReadySeconds ({seconds})."


def _check_job(spec: Node) -> Iterator[CheckFailure]:
    """Yield the errors of a Job.

    They are about the restart policy Always (also the default), and about mounts of its template.
    """
    pod = spec.get_node("template", "spec")
    policy = pod.get_node("restartPolicy")
    # Always is the default.
    if isinstance(pod.data, dict) and (policy.is_absent or policy.data in ("", "Always")):
        yield (policy, ".template.spec.restartPolicy", "must be OnFailure or Never in a Job.")
    yield from _check_template_mounts(spec)


def _check_template_mounts(spec: Node) -> Iterator[CheckFailure]:
    """Yield failures of the volume mounts in a pod template.

    Paths start below the spec of its workload.
    """
    claims = {
        claim.get_node("metadata", "name").text
        for claim in spec.get_node("volumeClaimTemplates").list_items()
    }
    yield from _check_volume_mounts(spec.get_node("template", "spec"), claims, ".template.spec")


def _check_volume_mounts(pod: Node, claims: set[str], pod_path: str) -> Iterator[CheckFailure]:
    """Yield a failure for each mounted volume that neither the pod nor its owner has.

    The volumes of the owner are its claim templates (`claims`). `pod_path` is the path of the pod
    spec below the checked object.
    """
    if not isinstance(pod.data, dict) or pod.get_node("volumes").text:
        # The pod or its volumes are of the wrong type, reported elsewhere.
        return
    volumes = claims | {
        volume.get_node("name").text for volume in pod.get_node("volumes").list_items()
    }
    for container, path in _list_containers(pod):
        for mount, mount_path in _list_items_with_path(container, "volumeMounts"):
            name = mount.get_node("name")
            if name.text and name.text not in volumes:
                full_path = f"{pod_path}{path}{mount_path}.name"
                yield name, full_path, f'is "{name.text}", and there is no such volume.'


def _check_pod(pod: Node) -> Iterator[CheckFailure]:
    """Yield failures of a pod spec.

    Equal names, no name server for dnsPolicy None, an invalid nodeSelector, own users in a
    namespace of the host.
    """
    if pod.get_node("hostUsers").data is False:
        # The network is forbidden unless an alpha gate is on: UserNamespacesHostNetworkSupport.
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            if pod.get_node(key).data is True:
                yield (
                    pod.get_node(key),
                    f".{key}",
                    "is true; it is forbidden with hostUsers: false.",
                )
    yield from _check_unique_names(_list_containers(pod), "container")
    yield from _check_unique_names(_list_items_with_path(pod, "volumes"), "volume")
    if (
        pod.get_node("dnsPolicy").text == "None"
        and not pod.get_node("dnsConfig", "nameservers").data
    ):
        yield (
            pod.get_node("dnsPolicy"),
            ".dnsConfig.nameservers",
            "must name a server when dnsPolicy is None.",
        )
    yield from _convert_problems(list_label_problems(pod.get_node("nodeSelector"), "nodeSelector"))


def _check_container(container: Node) -> Iterator[CheckFailure]:
    """Yield a failure (node, path, message) for each probe with a successThreshold above 1."""
    for key in ("livenessProbe", "startupProbe"):
        threshold = container.get_node(key, "successThreshold")
        if _get_number(threshold, 1) > 1:
            yield threshold, f".{key}.successThreshold", f"must be 1, not {threshold.data}."


def _check_environment_variable(variable: Node) -> Iterator[CheckFailure]:
    if variable.get_node("value").text and not variable.get_node("valueFrom").is_absent:
        yield variable.get_node("valueFrom"), ".valueFrom", "cannot be combined with a value."


def _check_value_source(source: Node) -> Iterator[CheckFailure]:
    """Yield a failure unless exactly one source of the value is set.

    The path "" means the object itself.
    """
    present_keys = [key for key, node in source.list_fields() if not node.is_absent]
    if len(present_keys) != 1 and isinstance(source.data, dict):
        yield source, "", f"must name one source of the value, not {len(present_keys)}."


def _check_probe(probe: Node) -> Iterator[CheckFailure]:
    """Yield a failure unless a probe has exactly one handler.

    The path "" means the probe itself.
    """
    handlers = _list_present_keys(probe, *_HANDLERS)
    if len(handlers) != 1:
        found_text = " and ".join(handlers) if handlers else "none"
        yield probe, "", f"must have one of {', '.join(_HANDLERS)}, not {found_text}."


def _check_volume(volume: Node) -> Iterator[CheckFailure]:
    """Yield a failure if a volume has several sources.

    The path "" means the volume itself.
    """
    sources = [key for key, node in volume.list_fields() if key != "name" and not node.is_absent]
    if len(sources) > 1:
        yield volume, "", f"can be of one kind only, not {' and '.join(sources)}."


def _check_resources(resources: Node) -> Iterator[CheckFailure]:
    """Yield a failure for each request above its limit."""
    for name, request in resources.get_node("requests").list_fields():
        limit = resources.get_node("limits", name)
        # None: absent, or no quantity.
        minimum = read_quantity(request.data)
        maximum = read_quantity(limit.data)
        if minimum is not None and maximum is not None and minimum.nano > maximum.nano:
            yield (
                request,
                f".requests.{name}",
                f"is {request.data}, more than the limit of {limit.data}.",
            )


def _check_toleration(toleration: Node) -> Iterator[CheckFailure]:
    """Yield fields of a toleration in contradiction to its operator or effect."""
    operator = toleration.get_node("operator").text
    if not toleration.get_node("key").text and operator != "Exists":
        yield toleration, ".operator", "must be Exists when there is no key."
    if operator == "Exists" and toleration.get_node("value").text:
        yield toleration.get_node("value"), ".value", "must be empty when operator is Exists."
    if (
        not toleration.get_node("tolerationSeconds").is_absent
        and toleration.get_node("effect").text != "NoExecute"
    ):
        yield (
            toleration.get_node("tolerationSeconds"),
            ".tolerationSeconds",
            "is for the effect NoExecute only.",
        )


def _check_cluster_role_binding(binding: Node) -> Iterator[CheckFailure]:
    """Yield a failure for each ServiceAccount without a namespace."""
    for index, subject in enumerate(binding.get_node("subjects").list_items()):
        is_account = subject.get_node("kind").text == "ServiceAccount"
        if is_account and subject.get_node("namespace").is_absent:
            yield subject, f"subjects[{index}].namespace", "must be set for a ServiceAccount."


def _check_requirement(requirement: Node) -> Iterator[CheckFailure]:
    """Check the number of values of a selector requirement by its operator."""
    operator = requirement.get_node("operator").text
    values = requirement.get_node("values")
    count = len(values.data) if isinstance(values.data, list) else 0
    match operator:
        case "In" | "NotIn" if not count:
            yield requirement, ".values", f"must have a value for {operator}."
        case "Exists" | "DoesNotExist" if count:
            yield values, ".values", f"must be empty for {operator}."
        case "Gt" | "Lt" if count != 1:
            yield values, ".values", f"must have one value for {operator}."


def _convert_problems(problems: Iterable[MetadataProblem]) -> Iterator[CheckFailure]:
    """Yield problems of labels and annotations as failures of a check.

    The first word of their text is the path.
    """
    for node, _, text in problems:
        path, _, message = text.partition(" ")
        yield node, f".{path}", message


def _check_volume_claim(spec: Node) -> Iterator[CheckFailure]:
    """Yield a failure for a claim with requests, but without requested storage."""
    requests = spec.get_node("resources", "requests")
    if isinstance(requests.data, dict) and requests.data and requests.get_node("storage").is_absent:
        yield requests, ".resources.requests.storage", "is missing."


def _check_disruption_budget(spec: Node) -> Iterator[CheckFailure]:
    if len(_list_present_keys(spec, "minAvailable", "maxUnavailable")) > 1:
        yield (
            spec.get_node("maxUnavailable"),
            ".maxUnavailable",
            "cannot be combined with minAvailable.",
        )


CHECKS: Final[Mapping[str, Check]] = {
    "apps_v1.DaemonSetSpec": _check_workload_spec,
    "apps_v1.DeploymentSpec": _check_deployment,
    "apps_v1.ReplicaSetSpec": _check_workload_spec,
    "apps_v1.StatefulSetSpec": _check_workload_spec,
    "batch_v1.JobSpec": _check_job,
    "core_v1.Container": _check_container,
    "core_v1.EnvVar": _check_environment_variable,
    "core_v1.EnvVarSource": _check_value_source,
    "core_v1.NodeSelectorRequirement": _check_requirement,
    "core_v1.PersistentVolumeClaimSpec": _check_volume_claim,
    "core_v1.Pod": lambda pod: _check_volume_mounts(
        pod.get_node("spec"), claims=set(), pod_path="spec"
    ),
    "core_v1.PodSpec": _check_pod,
    "core_v1.PodTemplateSpec": lambda template: _convert_problems(
        list_metadata_problems(template.get_node("metadata"))
    ),
    "core_v1.Probe": _check_probe,
    "core_v1.ReplicationControllerSpec": _check_always_restarting_pod,
    "core_v1.ResourceRequirements": _check_resources,
    "core_v1.Toleration": _check_toleration,
    "core_v1.Volume": _check_volume,
    "meta_v1.LabelSelector": lambda selector: _convert_problems(
        list_label_problems(selector.get_node("matchLabels"), "matchLabels")
    ),
    "meta_v1.LabelSelectorRequirement": _check_requirement,
    "policy_v1.PodDisruptionBudgetSpec": _check_disruption_budget,
    "rbac_v1.ClusterRoleBinding": _check_cluster_role_binding,
}


def list_metadata_problems(metadata: Node) -> Iterator[MetadataProblem]:
    """Yield invalid labels and annotations.

    Values of other types are reported elsewhere.
    """
    yield from list_label_problems(metadata.get_node("labels"), "metadata.labels", ("labels",))
    for key, value_node in metadata.get_node("annotations").list_fields():
        # The case of an annotation key does not matter.
        for problem in matching.validate_qualified_name(key.lower()):
            yield value_node, ("annotations", key), f'metadata.annotations: key "{key}": {problem}.'


def list_label_problems(labels: Node, name: str, path: Path = ()) -> Iterator[MetadataProblem]:
    """Yield the problems of labels.

    Texts begin with `name`, such as `metadata.labels`, and paths begin with `path`.
    """
    for key, value_node in labels.list_fields():
        for problem in matching.validate_qualified_name(key):
            yield value_node, (*path, key), f'{name}: key "{key}": {problem}.'
        if isinstance(value_node.data, str):
            for problem in matching.validate_label_value(value_node.data):
                yield value_node, (*path, key), f'{name}.{key} is "{value_node.data}": {problem}.'
