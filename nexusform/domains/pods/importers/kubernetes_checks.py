"""What the API server refuses of several fields of workloads together: a table of checks by type.

It is here that decides whether pods come to exist. What is wrong with a Service, a Role or a ConfigMap says
whoever applies it.

A check reads an object of its type and gives what is wrong: where, the end of the path to it, and a clause.
Values of the wrong type are judged elsewhere, and read as absent here.
Source: the validation of Kubernetes' API (pkg/apis/*/validation), 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from nexusform.documents.yaml_text import Node
from nexusform.kubernetes.matching import (
    Requirement,
    label_selector,
    label_value_problems,
    matches,
    qualified_name_problems,
)
from nexusform.kubernetes.quantity import Malformed, Quantity, parse_quantity
from nexusform.plain_data import Path

Wrong: TypeAlias = tuple[Node, str, str]
Check: TypeAlias = Callable[[Node], Iterator[Wrong]]

_CONTAINERS: Final = ("initContainers", "containers")
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_DEADLINE: Final = 600  # seconds, the default of a Deployment


def _written(node: Node, *keys: str) -> list[str]:
    """Those of the keys that say something."""
    return [key for key in keys if not node.at(key).absent]


def _number(node: Node, default: int) -> int:
    return node.data if isinstance(node.data, int) and not isinstance(node.data, bool) else default


def _twice(items: Iterator[tuple[Node, str]], noun: str) -> Iterator[Wrong]:
    """Names that stand twice; `items` with the path to each."""
    seen: set[str] = set()
    for node, path in items:
        name = node.at("name").text
        if name in seen:
            yield node.at("name"), f"{path}.name", f'is "{name}", as another {noun} is.'
        if name:
            seen.add(name)


def _listed(node: Node, key: str) -> Iterator[tuple[Node, str]]:
    for number, item in enumerate(node.at(key).items()):
        yield item, f".{key}[{number}]"


# --- workloads ---------------------------------------------------------------------------------


def _lasting(spec: Node) -> Iterator[Wrong]:
    """What keeps its pods running: its selector, and its template."""
    yield from _selects_its_template(spec)
    yield from _runs_on(spec)


def _runs_on(spec: Node) -> Iterator[Wrong]:
    """What pods of workloads that run on cannot say."""
    pod = spec.at("template", "spec")
    policy = pod.at("restartPolicy")
    if policy.text not in ("", "Always"):
        yield policy, ".template.spec.restartPolicy", f'is "{policy.text}"; here it must be Always.'
    if not pod.at("activeDeadlineSeconds").absent:
        yield (
            pod.at("activeDeadlineSeconds"),
            ".template.spec.activeDeadlineSeconds",
            "cannot be set here: these pods run on.",
        )
    yield from _mounts(spec)


def _selects_its_template(spec: Node) -> Iterator[Wrong]:
    """A selector that is empty, or that the labels of the template do not match."""
    selector = spec.at("selector")
    labels, expressions = selector.at("matchLabels"), selector.at("matchExpressions")
    if not isinstance(selector.data, dict) or spec.at("template").absent:
        return
    if not labels.data and not expressions.data:
        yield selector, ".selector", "is empty; say which pods are its own."
        return
    needed = [
        Requirement(
            each.at("key").text, each.at("operator").text, tuple(t for t, _ in each.at("values").texts())
        )
        for each in expressions.items()
    ]
    pairs = {key: value.data for key, value in labels.fields()}
    own = {key: value.data for key, value in spec.at("template", "metadata", "labels").fields()}
    texts = all(isinstance(value, str) for value in (*pairs.values(), *own.values()))
    valid = not any([*_requirement(each)] for each in expressions.items())
    if texts and valid and not matches(label_selector(pairs, needed), own):
        yield selector, ".selector", "does not match the labels of the template."


def _deployment(spec: Node) -> Iterator[Wrong]:
    yield from _lasting(spec)
    deadline, ready = spec.at("progressDeadlineSeconds"), _number(spec.at("minReadySeconds"), 0)
    if _number(deadline, _DEADLINE) <= ready:
        place = spec.at("minReadySeconds") if deadline.absent else deadline
        yield place, ".progressDeadlineSeconds", f"must be more than minReadySeconds ({ready})."


def _job(spec: Node) -> Iterator[Wrong]:
    """What pods of a Job must say, and the mounts of its template."""
    pod = spec.at("template", "spec")
    policy = pod.at("restartPolicy")
    if isinstance(pod.data, dict) and (policy.absent or policy.data in ("", "Always")):
        yield (
            policy,
            ".template.spec.restartPolicy",
            "must be OnFailure or Never in a Job; write one of them.",
        )
    yield from _mounts(spec)


def _mounts(spec: Node) -> Iterator[Wrong]:
    """Volumes that containers mount and that the template has not."""
    claims = {claim.at("metadata", "name").text for claim in spec.at("volumeClaimTemplates").items()}
    for node, path, text in _mounts_of_a_pod(spec.at("template", "spec"), claims):
        yield node, f".template.spec{path}", text


def _mounts_of_a_pod(pod: Node, claims: set[str]) -> Iterator[Wrong]:
    """Mounts of volumes that neither the pod nor a claim of its workload has."""
    if not isinstance(pod.data, dict) or pod.at("volumes").text:
        return
    volumes = claims | {volume.at("name").text for volume in pod.at("volumes").items()}
    for key in _CONTAINERS:
        for container, path in _listed(pod, key):
            for mount, below in _listed(container, "volumeMounts"):
                name = mount.at("name")
                if name.text and name.text not in volumes:
                    yield name, f"{path}{below}.name", f'is "{name.text}", and there is no such volume.'


def _pod(pod: Node) -> Iterator[Wrong]:
    """Names that stand twice in a pod, and what its parts need of one another."""
    both = (each for key in _CONTAINERS for each in _listed(pod, key))
    yield from _twice(both, "container")
    yield from _twice(_listed(pod, "volumes"), "volume")
    if pod.at("dnsPolicy").text == "None" and not pod.at("dnsConfig", "nameservers").data:
        yield pod.at("dnsPolicy"), ".dnsConfig.nameservers", "must name a server when dnsPolicy is None."
    yield from _labels(pod, "nodeSelector")


def _template(template: Node) -> Iterator[Wrong]:
    for node, _, text in metadata_problems(template.at("metadata")):
        path, _, rest = text.partition(" ")
        yield node, f".{path}", rest


def _own_mounts(pod: Node) -> Iterator[Wrong]:
    for node, path, text in _mounts_of_a_pod(pod.at("spec"), set()):
        yield node, f"spec{path}", text


def _container(container: Node) -> Iterator[Wrong]:
    for key in ("livenessProbe", "startupProbe"):
        threshold = container.at(key, "successThreshold")
        if _number(threshold, 1) > 1:
            yield threshold, f".{key}.successThreshold", f"must be 1, not {threshold.data}."


def _environment(variable: Node) -> Iterator[Wrong]:
    if variable.at("value").text and not variable.at("valueFrom").absent:
        yield variable.at("valueFrom"), ".valueFrom", "cannot stand beside a value."


def _one_source(source: Node) -> Iterator[Wrong]:
    count = len([key for key, node in source.fields() if not node.absent])
    if count != 1 and isinstance(source.data, dict):
        yield source, "", f"must say where the value comes from in one way, not {count}."


def _probe(probe: Node) -> Iterator[Wrong]:
    ways = _written(probe, *_HANDLERS)
    if len(ways) != 1:
        wrong = " and ".join(ways) if ways else "none"
        yield probe, "", f"must have one of {', '.join(_HANDLERS)}, not {wrong}."


def _volume(volume: Node) -> Iterator[Wrong]:
    sources = [key for key, node in volume.fields() if key != "name" and not node.absent]
    if len(sources) > 1:
        yield volume, "", f"can be of one kind only, not {' and '.join(sources)}."


def _resources(resources: Node) -> Iterator[Wrong]:
    for name, asked in resources.at("requests").fields():
        limit = resources.at("limits", name)
        least, most = _quantity(asked.data), _quantity(limit.data)
        if least is not None and most is not None and least.nano > most.nano:
            yield asked, f".requests.{name}", f"is {asked.data}, more than the limit of {limit.data}."


def _quantity(data: Any) -> Quantity | None:
    if not isinstance(data, str | int | float) or isinstance(data, bool):
        return None
    quantity = parse_quantity(str(data))
    return None if isinstance(quantity, Malformed) else quantity


def _toleration(toleration: Node) -> Iterator[Wrong]:
    operator = toleration.at("operator").text
    if not toleration.at("key").text and operator != "Exists":
        yield toleration, ".operator", "must be Exists when there is no key."
    if operator == "Exists" and toleration.at("value").text:
        yield toleration.at("value"), ".value", "must be empty when operator is Exists."
    if not toleration.at("tolerationSeconds").absent and toleration.at("effect").text != "NoExecute":
        yield toleration.at("tolerationSeconds"), ".tolerationSeconds", "is for the effect NoExecute only."


def _requirement(requirement: Node) -> Iterator[Wrong]:
    operator, values = requirement.at("operator").text, requirement.at("values")
    count = len(values.data) if isinstance(values.data, list) else 0
    if operator in ("In", "NotIn") and not count:
        yield requirement, ".values", f"must have a value for {operator}."
    if operator in ("Exists", "DoesNotExist") and count:
        yield values, ".values", f"must be empty for {operator}."
    if operator in ("Gt", "Lt") and count != 1:
        yield values, ".values", f"must have one value for {operator}."


def _labels(node: Node, key: str) -> Iterator[Wrong]:
    """Labels of a field that no object may have."""
    for below, _, text in label_problems(node.at(key), f".{key}"):
        path, _, rest = text.partition(" ")
        yield below, path, rest


def _selector(selector: Node) -> Iterator[Wrong]:
    yield from _labels(selector, "matchLabels")


# --- other kinds -------------------------------------------------------------------------------


def _claim(spec: Node) -> Iterator[Wrong]:
    requests = spec.at("resources", "requests")
    if isinstance(requests.data, dict) and requests.data and requests.at("storage").absent:
        yield requests, ".resources.requests.storage", "is missing."


def _disruption_budget(spec: Node) -> Iterator[Wrong]:
    if len(_written(spec, "minAvailable", "maxUnavailable")) > 1:
        yield spec.at("maxUnavailable"), ".maxUnavailable", "cannot stand beside minAvailable."


CHECKS: Final[Mapping[str, Check]] = {
    "apps_v1.DaemonSetSpec": _lasting,
    "apps_v1.DeploymentSpec": _deployment,
    "apps_v1.ReplicaSetSpec": _lasting,
    "apps_v1.StatefulSetSpec": _lasting,
    "batch_v1.JobSpec": _job,
    "core_v1.Container": _container,
    "core_v1.EnvVar": _environment,
    "core_v1.EnvVarSource": _one_source,
    "core_v1.NodeSelectorRequirement": _requirement,
    "core_v1.PersistentVolumeClaimSpec": _claim,
    "core_v1.Pod": _own_mounts,
    "core_v1.PodSpec": _pod,
    "core_v1.PodTemplateSpec": _template,
    "core_v1.Probe": _probe,
    "core_v1.ReplicationControllerSpec": _runs_on,
    "core_v1.ResourceRequirements": _resources,
    "core_v1.Toleration": _toleration,
    "core_v1.Volume": _volume,
    "meta_v1.LabelSelector": _selector,
    "meta_v1.LabelSelectorRequirement": _requirement,
    "policy_v1.PodDisruptionBudgetSpec": _disruption_budget,
}


# --- metadata of any object ---------------------------------------------------------------------


# The part of the metadata, the path to it, and what is wrong, as a sentence.
Refused: TypeAlias = tuple[Node, Path, str]


def metadata_problems(metadata: Node) -> Iterator[Refused]:
    """Labels and annotations that no object may have. Values that are no texts are judged elsewhere."""
    if not isinstance(metadata.data, dict):
        return
    yield from label_problems(metadata.at("labels"), "metadata.labels", ("labels",))
    for key, below in _entries(metadata.at("annotations")):
        # Of annotations the case of a key does not count.
        for problem in qualified_name_problems(key.lower()):
            yield below, ("annotations", key), f'metadata.annotations: key "{key}": {problem}.'


def label_problems(labels: Node, name: str, path: Path = ()) -> Iterator[Refused]:
    """Labels that no object may have; `name` says where they stand."""
    for key, below in _entries(labels):
        for problem in qualified_name_problems(key):
            yield below, (*path, key), f'{name}: key "{key}": {problem}.'
        if isinstance(below.data, str):
            for problem in label_value_problems(below.data):
                yield below, (*path, key), f'{name}.{key} is "{below.data}": {problem}.'


def _entries(node: Node) -> Iterator[tuple[str, Node]]:
    if isinstance(node.data, dict):
        yield from node.fields()
