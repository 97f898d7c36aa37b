"""Objects of Kubernetes with the nodes and pods of a prediction, for a running kube-scheduler."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from nexusform.domains.pods.scheduling.cluster_records import (
    Node,
    PodSpec,
    PodTerm,
    SpreadConstraint,
)
from nexusform.kubernetes.matching import LabelSelector, NodeSelectorTerm, Requirement, Toleration
from nexusform.rendering.notation.json_values import omit_empty

Body = dict[str, Any]
# Thousandths of a CPU that score a container without a request.
_CPU_DEFAULT: Final = 100
_MEMORY_DEFAULT: Final = 200 << 20  # bytes
_IMAGE: Final = "none"


class UnsupportedPodError(Exception):
    """Pod with rules beyond the check."""


def build_node(
    node: Node, kubelet_version: str, image_counts: Mapping[str, int], node_count: int
) -> Body:
    """Build the object of a node.

    `image_counts` are the numbers of nodes with an image.
    """
    amounts = {"cpu": f"{node.cpu}m", "memory": str(node.memory), "pods": str(node.pods)}
    amounts |= {name: str(amount) for name, amount in node.other_resources.items()}
    # A node has the value of an image: its size times the share of nodes with it. Restore the size,
    # and round it up.
    sizes = {
        name: -(-value * node_count // image_counts[name])
        for name, value in (node.images or {}).items()
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": dict(node.labels)},
        "spec": {
            "unschedulable": node.unschedulable,
            "taints": [
                omit_empty({"key": taint.key, "value": taint.value, "effect": taint.effect})
                for taint in node.taints
            ],
        },
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [{"names": [name], "sizeBytes": size} for name, size in sizes.items()],
            "nodeInfo": {**_NODE_INFO, "kubeletVersion": kubelet_version},
        },
    }


_NODE_INFO: Final = dict.fromkeys(
    (
        *(
            "machineID",
            "systemUUID",
            "bootID",
            "kernelVersion",
            "osImage",
            "containerRuntimeVersion",
        ),
        *("kubeProxyVersion", "operatingSystem", "architecture"),
    ),
    "",
)


def build_pod_manifest(spec: PodSpec, name: str, node: str = "", only_node: str = "") -> Body:
    """Build a pod on `node`; without it, one to be scheduled (on `only_node` if set).

    Raises UnsupportedPodError.
    """
    body: Body = {
        "containers": _build_containers(spec),
        "priority": spec.priority,
        # An eviction is a decision of its own.
        "preemptionPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": dict(spec.node_selector),
        "tolerations": list(map(_build_toleration, spec.tolerations)),
        "affinity": _build_affinity(spec, only_node),
        "topologySpreadConstraints": list(map(_build_topology_spread, spec.spread)),
    }
    if node:
        body["nodeName"] = node
    metadata = {"name": name, "namespace": spec.namespace, "labels": dict(spec.labels)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def check_pod_support(spec: PodSpec) -> None:
    """Reject a pod with features not re-created by the check.

    Raises UnsupportedPodError.
    """
    reasons = {
        "another scheduler or devices": spec.has_unknown_rules,
        "devices": bool(spec.device_claims),
        "scheduling gates": bool(spec.gates),
        "its own nodeName": bool(spec.node_name),
    }
    for reason, applies in reasons.items():
        if applies:
            raise UnsupportedPodError(reason)


def build_default_service(spec: PodSpec) -> Body | None:
    """Build the Service behind the cluster's default spreading of a pod, None for none.

    Raises UnsupportedPodError.
    """
    # Constraints of its own replace the default ones.
    if spec.spread or spec.default_spread is None:
        return None
    if spec.default_spread.match_expressions or not spec.default_spread.match_labels:
        raise UnsupportedPodError("default spreading by expressions")
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "spread", "namespace": spec.namespace},
        "spec": {"clusterIP": "None", "selector": dict(spec.default_spread.match_labels)},
    }


def _build_containers(spec: PodSpec) -> list[Body]:
    """Build the containers of a pod; the first one has all of its requests.

    Raises UnsupportedPodError. kube-scheduler scores each container without a request with a
    default amount, so others are added until the requests scored are those of the pod.
    """
    # Numbers of containers without a request for CPU and for memory. A rest cannot be expressed.
    without_cpu, cpu_rest = divmod(spec.scored_requests.cpu - spec.requests.cpu, _CPU_DEFAULT)
    without_memory, memory_rest = divmod(
        spec.scored_requests.memory - spec.requests.memory, _MEMORY_DEFAULT
    )
    count = max(len(spec.images), without_cpu, without_memory, 1)
    requests = ((without_cpu, spec.requests.cpu), (without_memory, spec.requests.memory))
    # A request needs one more container if all others are without it.
    needs_first = any(amount and missing == count for missing, amount in requests)
    if any(
        (cpu_rest, memory_rest, without_cpu < 0, without_memory < 0, needs_first and spec.images)
    ):
        raise UnsupportedPodError("overhead or requests of init containers")
    if needs_first:
        count += 1
    # `count` of these are used.
    images = (*spec.images, *[_IMAGE] * count)
    containers: list[Body] = []
    cpu = spec.requests.cpu
    memory = spec.requests.memory
    other_resources = spec.requests.other_resources
    for index in range(count):
        amounts: dict[str, str] = {}
        if index < count - without_cpu:
            amounts["cpu"] = f"{cpu}m"
        if index < count - without_memory:
            amounts["memory"] = str(memory)
        amounts |= {name: str(amount) for name, amount in other_resources}
        # All requests are in the first container.
        cpu = 0
        memory = 0
        other_resources = ()
        resources = {
            "requests": amounts,
            "limits": {name: amounts[name] for name in amounts if "/" in name},
        }  # devices
        containers.append({"name": f"c{index}", "image": images[index], "resources": resources})
    ports = []
    for item in spec.host_ports:
        port = {
            "containerPort": item.port,
            "hostPort": item.port,
            "protocol": item.protocol,
            "hostIP": item.address,
        }
        ports.append(omit_empty(port))
    containers[0]["ports"] = ports
    return containers


def _build_toleration(item: Toleration) -> Body:
    """Build a toleration without its empty members; the seconds are kept, even if they are 0."""
    seconds = {} if item.seconds is None else {"tolerationSeconds": item.seconds}
    texts = {"key": item.key, "operator": item.operator, "value": item.value, "effect": item.effect}
    # 0 seconds is a value.
    return omit_empty(texts) | seconds


def _build_affinity(spec: PodSpec, only_node: str) -> Body:
    """Build the affinity of a pod.

    `only_node` is the node of a DaemonSet's pod, "" for other pods.
    """
    # A node has to match one of them; None: any node may be used.
    terms = spec.node_terms
    # Each term gets it, or an empty one (the DaemonSet controller drops the pod's own terms).
    if only_node:
        on_node = Requirement("metadata.name", "In", (only_node,))
        terms = tuple(
            NodeSelectorTerm(term.labels, (*term.fields, on_node))
            for term in terms or (NodeSelectorTerm(),)
        )
    node_affinity: Body = {}
    if terms is not None:
        required = {"nodeSelectorTerms": list(map(_build_term, terms))}
        node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = required
    node_affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
        {"weight": weight, "preference": _build_term(term)} for weight, term in spec.preferred_nodes
    ]
    return {
        "nodeAffinity": node_affinity,
        "podAffinity": _build_pod_affinity(spec.affinity, spec.preferred_affinity),
        "podAntiAffinity": _build_pod_affinity(spec.anti_affinity, spec.preferred_anti_affinity),
    }


def _build_term(term: NodeSelectorTerm) -> Body:
    return {
        "matchExpressions": _build_requirements(term.labels),
        "matchFields": _build_requirements(term.fields),
    }


def _build_pod_affinity(required: Sequence[PodTerm], preferred: Sequence[PodTerm]) -> Body:
    """Build an affinity or anti-affinity to other pods.

    The result has its hard terms, and its preferred ones with weights.
    """
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": list(
            map(_build_pod_affinity_term, required)
        ),
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": term.weight, "podAffinityTerm": _build_pod_affinity_term(term)}
            for term in preferred
        ],
    }


def _build_pod_affinity_term(term: PodTerm) -> Body:
    """Build a term about other pods.

    An absent selector is left out, since an empty one selects all pods.
    """
    body: Body = {"topologyKey": term.topology_key, "namespaces": list(term.namespaces)}
    if term.selector is not None:
        body["labelSelector"] = _build_label_selector(term.selector)
    if term.namespace_selector is not None:
        body["namespaceSelector"] = _build_label_selector(term.namespace_selector)
    return body


def _build_topology_spread(item: SpreadConstraint) -> Body:
    """Return the constraint in the form of the Kubernetes API; hard ones use DoNotSchedule."""
    body: Body = {
        "topologyKey": item.topology_key,
        "maxSkew": item.max_skew,
        "whenUnsatisfiable": "DoNotSchedule" if item.is_hard else "ScheduleAnyway",
        "nodeAffinityPolicy": "Honor" if item.honor_affinity else "Ignore",
        "nodeTaintsPolicy": "Honor" if item.honor_taints else "Ignore",
    }
    if item.selector is not None:
        body["labelSelector"] = _build_label_selector(item.selector)
    # Soft constraints have none; 1 is the default.
    if item.is_hard and item.min_domains > 1:
        body["minDomains"] = item.min_domains
    return body


def _build_label_selector(selector: LabelSelector) -> Body:
    return {
        "matchLabels": dict(selector.match_labels),
        "matchExpressions": _build_requirements(selector.match_expressions),
    }


def _build_requirements(requirements: Iterable[Requirement]) -> list[Body]:
    return [
        {"key": item.key, "operator": item.operator, "values": list(item.values)}
        for item in requirements
    ]
