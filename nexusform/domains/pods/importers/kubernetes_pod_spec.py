"""Conversion of a pod template to the scheduler's view, with the API server's defaults."""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import blake2b
from itertools import product
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Severity
from nexusform.documents.scalars import parse_integer
from nexusform.domains.pods.importers.manifest_parser import (
    Fields,
    Manifest,
    format_scalar,
    get_integer,
    select_manifests,
)
from nexusform.domains.pods.scheduling.cluster_records import (
    AlignedRequests,
    Container,
    HostPort,
    PodQuotaFields,
    PodSpec,
    PodTerm,
    Requests,
    SpreadConstraint,
)
from nexusform.domains.pods.scheduling.rules.image_locality import add_default_tag
from nexusform.json_data.plain_data import get_text, list_mappings
from nexusform.kubernetes import matching
from nexusform.kubernetes.matching import (
    LabelSelector,
    NodeSelectorTerm,
    Requirement,
    Taint,
    Toleration,
)
from nexusform.kubernetes.quantity import InvalidQuantity, parse_quantity
from nexusform.scheduling.kubelet import HUGEPAGES

# Requests assumed by scores for a container without requests: 100m and 200 MiB.
_SCORE_DEFAULTS: Final = {"cpu": 100, "memory": 200 * 1024 * 1024}
_BUILT_IN_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
NEVER: Final = "Never"
ANOTHER_SCHEDULER: Final = "another-scheduler"
DEVICE_CLAIMS: Final = "device-claims"
GANGS: Final = "gang-scheduling"
# Key of an admitted spec: admission may change or reject the pod in unknown ways.
IN_DOUBT: Final = "in-doubt"
# Start of the words of Kubernetes about an absent PriorityClass.
NO_CLASS: Final = "no PriorityClass with name"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_MAX_WEIGHT: Final = 100
_EFFECTS: Final = ("", matching.NO_SCHEDULE, "NoExecute", "PreferNoSchedule")
_NODE: Final = "node.kubernetes.io/"
_TOLERATION_SECONDS: Final = 300
# Admission adds these to every pod; the DaemonSet controller adds the others to its pods.
_DEFAULT_TOLERATIONS: Final = (
    Toleration(
        _NODE + "not-ready",
        matching.EXISTS,
        value="",
        effect="NoExecute",
        seconds=_TOLERATION_SECONDS,
    ),
    Toleration(
        _NODE + "unreachable",
        matching.EXISTS,
        value="",
        effect="NoExecute",
        seconds=_TOLERATION_SECONDS,
    ),
)
_DAEMON_TOLERATIONS: Final = tuple(
    Toleration(_NODE + what, matching.EXISTS, value="", effect=matching.NO_SCHEDULE)
    for what in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
)
_HOST_NETWORK_TOLERATION: Final = Toleration(
    _NODE + "network-unavailable", matching.EXISTS, value="", effect=matching.NO_SCHEDULE
)

Amounts = dict[str, int]


class Priorities(Struct, frozen=True):
    """PriorityClasses by name, the class of pods without one, and the non-preempting classes.

    The class of pods without one is "" if there is none. `is_complete` means that there are
    no other classes.
    """

    by_name: Mapping[str, int] = field(default_factory=dict)
    default_class: str = ""
    non_preempting: frozenset[str] = frozenset()
    is_complete: bool = False


def collect_priority_classes(
    manifests: Iterable[Manifest], *, is_complete: bool = False
) -> Priorities:
    """Return the PriorityClasses among a cluster's objects.

    `is_complete` means that it has no other PriorityClass.
    """
    priorities = dict(_BUILT_IN_PRIORITIES)
    defaults: list[tuple[int, str]] = []
    non_preempting: set[str] = set()
    for manifest in select_manifests(manifests, "scheduling.k8s.io", "PriorityClass"):
        value = manifest.body.get("value")
        if isinstance(value, int):
            priorities[manifest.name] = value
            if manifest.body.get("preemptionPolicy") == NEVER:
                non_preempting.add(manifest.name)
            if manifest.body.get("globalDefault") is True:
                defaults.append((value, manifest.name))
    # Kubernetes uses the lowest of several defaults.
    _, default_class = min(defaults, default=(0, ""))
    return Priorities(priorities, default_class, frozenset(non_preempting), is_complete)


def find_priority_rejection(spec: Fields, priorities: Priorities) -> str:
    """Return why the API server rejects the PriorityClass, priority or policy of a pod.

    The result is "" if accepted or unknown.
    """
    name = _get_priority_class(spec, priorities)
    if name not in priorities.by_name:
        if not priorities.is_complete:
            # The class may exist, or for a pod without a class ("") a default class.
            return ""
        if name:
            return f"{NO_CLASS} {name} was found"
    class_policy = NEVER if name in priorities.non_preempting else "PreemptLowerPriority"
    values = (
        ("integer value of priority", spec.data.get("priority"), priorities.by_name.get(name, 0)),
        ("string value of PreemptionPolicy", spec.data.get("preemptionPolicy"), class_policy),
    )
    for text, value, class_value in values:
        if value not in (None, class_value):
            return (
                f"the {text} ({value}) must not be provided in pod spec; priority "
                f"admission controller computed {class_value} from the given PriorityClass name"
            )
    return ""


def _get_priority_class(spec: Fields, priorities: Priorities) -> str:
    return spec.get_text("priorityClassName") or priorities.default_class


def parse_taints(fields: Mapping[str, Any]) -> tuple[Taint, ...]:
    """Return the taints of a node or device."""
    taints = list_mappings(fields, "taints")
    return tuple(
        Taint(str(item.get("key")), get_text(item, "value"), str(item.get("effect")))
        for item in taints
    )


class PodOwner(Struct, frozen=True):
    """Owner of a pod; `spread_selector` selects the pods of default spreading (None = none)."""

    namespace: str
    kind: str
    added_labels: Mapping[str, str]
    spread_selector: LabelSelector | None
    template: str


def compute_template_hash(template: Mapping[str, Any]) -> str:
    """Return a short hash of a pod template.

    Equal templates have equal hashes (not Kubernetes' own hash).
    """
    text = json.dumps(template, sort_keys=True, default=str)
    return blake2b(text.encode(), digest_size=5).hexdigest()


def parse_pod_spec(
    metadata: Fields, spec: Fields, owner: PodOwner, priorities: Priorities
) -> PodSpec:
    """Return the pod spec for the scheduler, from `metadata` and `spec` of a pod template.

    Report invalid fields, and fields with an effect not predicted. The caller adds
    volumes and devices.
    """
    labels = {**metadata.get_text_mapping("labels"), **owner.added_labels}
    if not spec.data.get("containers"):
        spec.report("containers", "needs at least one container.")
    affinity = spec.get_mapping("affinity")
    node_terms, preferred_nodes = _parse_node_affinity(affinity)
    attraction, preferred_attraction = _parse_pod_affinity(
        affinity, "podAffinity", owner.namespace, labels
    )
    repulsion, preferred_repulsion = _parse_pod_affinity(
        affinity, "podAntiAffinity", owner.namespace, labels
    )
    scheduler = spec.get_text("schedulerName", "default-scheduler")
    if scheduler != "default-scheduler":
        detail = f'is "{scheduler}"; its rules are unknown, so those of kube-scheduler are used.'
        spec.report("schedulerName", detail, Severity.WARNING, id=ANOTHER_SCHEDULER)
    group_key = next((key for key in ("schedulingGroup", "workloadRef") if key in spec), "")
    if group_key:
        detail = "is a gang: its pods are scheduled together or not at all, which is not predicted."
        spec.report(group_key, detail, Severity.WARNING, id=GANGS)
    containers = (*spec.list_mappings("initContainers"), *spec.list_mappings("containers"))
    return PodSpec(
        namespace=owner.namespace,
        labels=tuple(sorted(labels.items())),
        requests=_compute_requests(spec, fallback={}),
        scored_requests=_compute_requests(spec, fallback=_SCORE_DEFAULTS),
        node_name=spec.get_text("nodeName"),
        # IN_DOUBT is no field of Kubernetes: admission adds it if a change of the pod is unknown.
        has_unknown_rules=scheduler != "default-scheduler" or bool(group_key) or IN_DOUBT in spec,
        node_selector=tuple(sorted(spec.get_text_mapping("nodeSelector").items())),
        node_terms=node_terms,
        preferred_nodes=preferred_nodes,
        tolerations=_parse_tolerations(spec, owner.kind),
        affinity=attraction,
        anti_affinity=repulsion,
        preferred_affinity=preferred_attraction,
        preferred_anti_affinity=preferred_repulsion,
        spread=tuple(
            _parse_constraint(fields, labels, owner.kind)
            for fields in spec.list_mappings("topologySpreadConstraints")
        ),
        default_spread=owner.spread_selector,
        host_ports=_list_host_ports(spec),
        priority=_resolve_priority(spec, priorities),
        template=owner.template,
        aligned_requests=_list_numa_aligned_requests(spec),
        gates=tuple(gate.get_text("name") for gate in spec.list_mappings("schedulingGates")),
        quota_figures=_collect_quota_figures(spec, priorities),
        can_preempt=spec.get_text("preemptionPolicy") != NEVER
        and _get_priority_class(spec, priorities) not in priorities.non_preempting,
        images=tuple(add_default_tag(container.get_text("image")) for container in containers),
        # Those of the containers alone, if the pod has requests of its own, else None.
        container_scored_requests=_compute_requests(spec, _SCORE_DEFAULTS, has_pod_level=False)
        if spec.get_mapping("resources").data
        else None,
        container_requests=_sum_container_requests(spec),
        required_features=_list_required_features(spec),
        image_volumes=tuple(
            add_default_tag(image.get_text("reference"))
            for image in (volume.get_mapping("image") for volume in spec.list_mappings("volumes"))
            if "reference" in image
        ),
    )


def _list_required_features(spec: Fields) -> tuple[str, ...]:
    """Return the features that the node of a pod must declare (from Kubernetes 1.36 on).

    Source: component-helpers nodedeclaredfeatures/features, InferForScheduling.
    """
    containers = (*spec.list_mappings("initContainers"), *spec.list_mappings("containers"))
    rules = [rule for item in containers for rule in item.list_mappings("restartPolicyRules")]
    features = []
    if any(rule.get_text("action") == "RestartAllContainers" for rule in rules):
        features.append("RestartAllContainersOnContainerExits")
    if spec.get_flag("hostNetwork") and spec.data.get("hostUsers") is False:
        features.append("UserNamespacesHostNetworkSupport")
    return tuple(features)


def _sum_container_requests(spec: Fields) -> tuple[int, int]:
    """Return the CPU and memory requested by the containers of a pod.

    Init containers, overhead and pod requests do not count.
    """
    total: Amounts = {}
    for container in spec.list_mappings("containers"):
        _add_amounts(total, _get_effective_requests(container, reports_problems=False))
    return total.get("cpu", 0), total.get("memory", 0)


def parse_containers(spec: Fields) -> tuple[Container, ...]:
    """Return the containers of a pod; their problems are reported with the pod."""
    containers = []
    for container in (*spec.list_mappings("initContainers"), *spec.list_mappings("containers")):
        name = container.get_text("name")
        image = container.get_text("image")
        amounts = _get_effective_requests(container, reports_problems=False)
        containers.append(
            Container(name, add_default_tag(image) if image else "", _sort_amounts(amounts))
        )
    return tuple(containers)


def _collect_quota_figures(spec: Fields, priorities: Priorities) -> PodQuotaFields:
    """Return the fields of a pod spec read by ResourceQuotas, apart from its requests."""
    containers = [*spec.list_mappings("containers"), *spec.list_mappings("initContainers")]
    # Such as `limits.cpu`, missing in a container.
    unspecified = []
    # A pod with requests of its own needs none in its containers.
    sections = () if _get_section_amounts(spec, "requests") else ("requests", "limits")
    for section, name in product(sections, ("cpu", "memory")):
        if not all(name in _get_section_amounts(container, section) for container in containers):
            unspecified.append(f"{section}.{name}")
    limits = sum_container_amounts(
        spec, lambda container: _get_section_amounts(container, "limits")
    )
    limits |= _get_section_amounts(spec, "limits")
    overhead = _parse_quantities(spec.get_mapping("overhead"), reports_problems=False)
    limits = {name: amount + overhead.get(name, 0) for name, amount in limits.items() if amount}
    return PodQuotaFields(
        limits=_sort_amounts(limits),
        unspecified=tuple(unspecified),
        has_deadline="activeDeadlineSeconds" in spec,
        priority_class=_get_priority_class(spec, priorities),
    )


def _get_section_amounts(container: Fields, section: str) -> Amounts:
    """Return the requests or limits (`section`) of a container or pod."""
    if section == "requests":
        return _get_effective_requests(container, reports_problems=False)
    return _parse_quantities(
        container.get_mapping("resources").get_mapping(section), reports_problems=False
    )


def _list_numa_aligned_requests(spec: Fields) -> tuple[AlignedRequests, ...]:
    """Return per container the resources allocated from the same NUMA cells.

    These are hugepages, devices, and exclusive CPUs of Guaranteed pods. Init containers are
    omitted: their resources are reused.
    """
    containers = (*spec.list_mappings("containers"), *_list_sidecars(spec))
    is_guaranteed = all(
        _is_guaranteed(container)
        for container in (*containers, *spec.list_mappings("initContainers"))
    )
    requests = []
    for container in containers:
        container_requests = []
        for name, amount in _sort_amounts(
            _get_effective_requests(container, reports_problems=False)
        ):
            # Only whole CPUs are exclusive.
            if name == "cpu" and is_guaranteed and amount % 1000 == 0:
                container_requests.append(("cpu", amount // 1000))
            elif "/" in name or name.startswith(HUGEPAGES):
                # A device such as nvidia.com/gpu.
                container_requests.append((name, amount))
        if container_requests:
            requests.append(tuple(container_requests))
    return tuple(requests)


def _is_guaranteed(container: Fields) -> bool:
    """Return whether a container has limits of CPU and memory, and equal requests.

    Its QoS class is then Guaranteed.
    """
    limits = _get_section_amounts(container, "limits")
    requests = _get_section_amounts(container, "requests")
    return all(limits.get(name) and limits[name] == requests[name] for name in ("cpu", "memory"))


def _resolve_priority(spec: Fields, priorities: Priorities) -> int:
    """Return the priority of a pod: its own (set in observed pods), else that of its class.

    It is 0 for an unknown class.
    """
    name = _get_priority_class(spec, priorities)
    if not name or "priority" in spec:
        return get_integer(spec.data, "priority", 0)
    if name not in priorities.by_name:
        outcome = (
            "none of its pods are created" if priorities.is_complete else "priority 0 is assumed"
        )
        detail = f'names the PriorityClass "{name}", but no manifest defines it: {outcome}.'
        summary = f"PriorityClass {name} is not on the cluster"
        spec.report("priorityClassName", detail, Severity.WARNING, summary=summary)
    return priorities.by_name.get(name, 0)


def _list_host_ports(spec: Fields) -> tuple[HostPort, ...]:
    """Return the host ports of a pod.

    They are the explicit ones, and with host networking all container ports.
    """
    shares_network = spec.get_flag("hostNetwork")
    ports = []
    for container in (*spec.list_mappings("containers"), *_list_sidecars(spec)):
        for port in container.list_mappings("ports"):
            number = port.get_integer("hostPort", 0)
            if shares_network and not number:
                number = port.get_integer("containerPort", 0)
            if number:
                # By default every address.
                address = port.get_text("hostIP") or HostPort(0).address
                ports.append(HostPort(number, port.get_text("protocol", "TCP"), address))
    return tuple(dict.fromkeys(ports))


def _list_sidecars(spec: Fields) -> list[Fields]:
    return [
        container for container in spec.list_mappings("initContainers") if _is_sidecar(container)
    ]


def _is_sidecar(container: Fields) -> bool:
    return container.data.get("restartPolicy") == "Always"


def _compute_requests(
    spec: Fields, fallback: Mapping[str, int], *, has_pod_level: bool = True
) -> Requests:
    """Return max(sum of containers and sidecars, maximum of any init container) + overhead.

    A container without requests counts with `fallback`: defaults of scores, or {}. With
    `has_pod_level`, requests of the pod replace the sum.
    """
    # The same spec is read twice, and its problems are reported once.
    reports_problems = not fallback
    total = sum_container_amounts(
        spec, lambda container: {**fallback, **_get_effective_requests(container, reports_problems)}
    )
    if has_pod_level:
        total |= _get_pod_level_amounts(spec, reports_problems)
    _add_amounts(total, _parse_quantities(spec.get_mapping("overhead"), reports_problems))
    cpu = total.pop("cpu", 0)
    memory = total.pop("memory", 0)
    return Requests(cpu, memory, _sort_amounts(total))


def _sort_amounts(amounts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return the amounts other than 0 by name, sorted."""
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))


def _get_pod_level_amounts(spec: Fields, reports_problems: bool) -> Amounts:
    """Return the requests of the pod itself (`spec.resources`).

    The result is empty if the pod has no resources of its own. A missing request is the sum of its
    containers (CPU and memory), else the limit of the pod.
    """
    resources = spec.get_mapping("resources")
    if not resources.data:
        return {}
    container_total = sum_container_amounts(
        spec, partial(_get_effective_requests, reports_problems=False)
    )
    default_requests = {
        name: container_total[name] for name in ("cpu", "memory") if name in container_total
    }
    limits = _parse_quantities(resources.get_mapping("limits"), reports_problems)
    # In `|` the right side wins.
    return (
        limits
        | default_requests
        | _parse_quantities(resources.get_mapping("requests"), reports_problems)
    )


def sum_container_amounts(spec: Fields, read_amounts: Callable[[Fields], Amounts]) -> Amounts:
    """Return the maximum amount of each resource used by a pod.

    The amount is the larger of two: the sum of all containers and sidecars, and the maximum of any
    init container together with the sidecars started before it. `read_amounts` reads the amounts
    of a container.
    """
    running_total: Amounts = {}
    for container in spec.list_mappings("containers"):
        _add_amounts(running_total, read_amounts(container))
    sidecar_total: Amounts = {}
    init_maximum: Amounts = {}
    for container in spec.list_mappings("initContainers"):
        amounts = read_amounts(container)
        # It goes on while all later containers run.
        if _is_sidecar(container):
            _add_amounts(running_total, amounts)
            _add_amounts(sidecar_total, amounts)
            concurrent_amounts = sidecar_total
        else:
            # It ends before the next container starts, and runs together with the earlier sidecars.
            concurrent_amounts = amounts
            _add_amounts(concurrent_amounts, sidecar_total)
        for name, amount in concurrent_amounts.items():
            init_maximum[name] = max(init_maximum.get(name, 0), amount)
    names = (*running_total, *init_maximum)
    return {name: max(running_total.get(name, 0), init_maximum.get(name, 0)) for name in names}


def _get_effective_requests(container: Fields, reports_problems: bool) -> Amounts:
    """Return the requests of a container; a limit is the default of a request."""
    resources = container.get_mapping("resources")
    limits = _parse_quantities(resources.get_mapping("limits"), reports_problems)
    return limits | _parse_quantities(resources.get_mapping("requests"), reports_problems)


def _parse_quantities(fields: Fields, reports_problems: bool) -> Amounts:
    """Return the valid amounts by resource, CPU in milli."""
    amounts: Amounts = {}
    for name, value in fields.data.items():
        quantity = parse_quantity(format_scalar(value))
        if isinstance(quantity, InvalidQuantity) or quantity.nano < 0:
            if reports_problems:
                fields.report(
                    name, f'is "{format_scalar(value)}", not an amount such as 500m or 2Gi.'
                )
            continue
        amounts[name] = quantity.round_to_milli() if name == "cpu" else quantity.round_to_units()
    return amounts


def _add_amounts(total: Amounts, amounts: Mapping[str, int]) -> None:
    """Add amounts to a total by resource.

    This is a plain loop, because a Counter is slower for so few resources.
    """
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def parse_selector(parent: Fields, key: str) -> LabelSelector | None:
    """Return a label selector, and report its problems; None if it is absent (selects nothing)."""
    if parent.data.get(key) is None:
        return None
    fields = parent.get_mapping(key)
    pairs = fields.get_text_mapping("matchLabels")
    expressions = tuple(map(_parse_requirement, fields.list_mappings("matchExpressions")))
    selector = matching.build_label_selector(pairs, expressions)
    for problem in matching.validate_selector(selector):
        fields.report("", problem + ".")
    return selector


def _parse_requirement(fields: Fields) -> Requirement:
    return Requirement(
        fields.get_text("key"), fields.get_text("operator"), fields.get_texts("values")
    )


def _parse_node_affinity(
    affinity: Fields,
) -> tuple[tuple[NodeSelectorTerm, ...] | None, tuple[tuple[int, NodeSelectorTerm], ...]]:
    """Return the required terms of node affinity and the preferred ones with weights.

    The required terms are None if there is no requirement.
    """
    fields = affinity.get_mapping("nodeAffinity")
    required: tuple[NodeSelectorTerm, ...] | None = None
    if _REQUIRED in fields:
        block = fields.get_mapping(_REQUIRED)
        required = tuple(map(parse_node_term, block.list_mappings("nodeSelectorTerms")))
        if not required:
            block.report("nodeSelectorTerms", "needs at least one term.")
    preferred = tuple(
        (item.get_integer("weight", 1, minimum=1), parse_node_term(item.get_mapping("preference")))
        for item in fields.list_mappings(_PREFERRED)
    )
    return required, preferred


def parse_node_term(fields: Fields) -> NodeSelectorTerm:
    """Return one nodeSelectorTerm, and report its invalid requirements (kept in the term)."""
    labels = tuple(map(_parse_requirement, fields.list_mappings("matchExpressions")))
    names = tuple(map(_parse_requirement, fields.list_mappings("matchFields")))
    for requirement in labels:
        # Only node selectors have these operators.
        if requirement.operator in (matching.GREATER, matching.LESS):
            if len(requirement.values) != 1:
                fields.report(
                    "matchExpressions", f"needs exactly one value for {requirement.operator}."
                )
            # The check of label selectors below rejects both operators.
            continue
        for problem in matching.validate_selector_requirement(requirement):
            fields.report("matchExpressions", problem + ".")
    for requirement in names:
        if requirement.key != "metadata.name" or requirement.operator not in (
            matching.IN,
            matching.NOT_IN,
        ):
            fields.report("matchFields", "can only use metadata.name with In or NotIn.")
    return NodeSelectorTerm(labels, names)


def _parse_pod_affinity(
    affinity: Fields, key: str, namespace: str, labels: Mapping[str, str]
) -> tuple[tuple[PodTerm, ...], tuple[PodTerm, ...]]:
    """Return the required and preferred terms of podAffinity or podAntiAffinity (`key`) of a pod.

    Required terms have weight 0.
    """
    fields = affinity.get_mapping(key)
    required = tuple(
        _parse_pod_term(term, namespace, labels, weight=0)
        for term in fields.list_mappings(_REQUIRED)
    )
    preferred = []
    for item in fields.list_mappings(_PREFERRED):
        weight = item.get_integer("weight", 0, minimum=1)
        if weight > _MAX_WEIGHT or "weight" not in item:
            item.report("weight", "must be a whole number from 1 to 100.")
        preferred.append(
            _parse_pod_term(item.get_mapping("podAffinityTerm"), namespace, labels, weight)
        )
    return required, tuple(preferred)


def _parse_pod_term(
    fields: Fields, namespace: str, labels: Mapping[str, str], weight: int
) -> PodTerm:
    """Return one term of pod (anti-)affinity.

    `namespace` (the default of the term) and `labels` are those of the pod.
    """
    topology_key = fields.get_text("topologyKey")
    if not topology_key:
        fields.report("topologyKey", "must not be empty.")
    selector = _merge_match_label_keys(fields, parse_selector(fields, "labelSelector"), labels)
    namespaces = tuple(sorted(set(fields.get_texts("namespaces"))))
    namespace_selector = parse_selector(fields, "namespaceSelector")
    if not namespaces and namespace_selector is None:
        namespaces = (namespace,)
    return PodTerm(
        topology_key=topology_key,
        selector=selector,
        namespaces=namespaces,
        namespace_selector=namespace_selector,
        weight=weight,
    )


def _merge_match_label_keys(
    fields: Fields, selector: LabelSelector | None, labels: Mapping[str, str]
) -> LabelSelector | None:
    """Return a selector that also compares the label values of the pod itself.

    It requires those of matchLabelKeys and excludes those of mismatchLabelKeys. Keys without a
    label are ignored. None selects nothing.
    """
    keys = [(key, matching.IN) for key in fields.get_texts("matchLabelKeys")]
    keys += [(key, matching.NOT_IN) for key in fields.get_texts("mismatchLabelKeys")]
    if not keys:
        return selector
    if selector is None:
        fields.report("labelSelector", "must be set when matchLabelKeys or mismatchLabelKeys is.")
        return None
    label_requirements = tuple(
        Requirement(key, operator, (labels[key],)) for key, operator in keys if key in labels
    )
    return LabelSelector(selector.match_labels, selector.match_expressions + label_requirements)


def _parse_constraint(fields: Fields, labels: Mapping[str, str], kind: str) -> SpreadConstraint:
    """Return a topologySpreadConstraint of a pod with these labels.

    `kind` is the kind of its controller.
    """
    topology_key = fields.get_text("topologyKey")
    if not topology_key:
        fields.report("topologyKey", "must not be empty.")
    if "maxSkew" not in fields:
        fields.report("maxSkew", "must be a whole number, 1 or more.")
    action = fields.get_choice(
        "whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway"), "DoNotSchedule"
    )
    is_hard = action == "DoNotSchedule"
    if "minDomains" in fields and not is_hard:
        fields.report("minDomains", "can only be used with whenUnsatisfiable: DoNotSchedule.")
    policies = ("Honor", "Ignore")
    honor_affinity = fields.get_choice("nodeAffinityPolicy", policies, "Honor") == "Honor"
    return SpreadConstraint(
        topology_key=topology_key,
        max_skew=fields.get_integer("maxSkew", 1, minimum=1),
        is_hard=is_hard,
        selector=_merge_match_label_keys(fields, parse_selector(fields, "labelSelector"), labels),
        min_domains=fields.get_integer("minDomains", 1, minimum=1),
        honor_affinity=honor_affinity,
        honor_taints=fields.get_choice("nodeTaintsPolicy", policies, "Ignore") == "Honor",
        # The affinity of its pods names one node each.
        counts_own_node=honor_affinity and kind == "DaemonSet",
    )


# Of Kubernetes 1.35 and later, off by default.
_GATED_OPERATORS: Final = (matching.GREATER, matching.LESS)
_TOLERATION_OPERATORS: Final = (matching.EQUAL, matching.EXISTS, *_GATED_OPERATORS)


def _parse_tolerations(spec: Fields, kind: str) -> tuple[Toleration, ...]:
    """Return the tolerations of a pod spec, with those added later.

    `kind` is the kind of its controller. Admission adds tolerations of unready and
    unreachable nodes for 300 seconds. The controller of a DaemonSet adds them without a time
    limit, and further ones.
    """
    tolerations = []
    for fields in spec.list_mappings("tolerations"):
        operator = fields.get_choice("operator", _TOLERATION_OPERATORS, matching.EQUAL)
        value = fields.get_text("value")
        if operator in _GATED_OPERATORS:
            if parse_integer(value, signed=True) is None:
                fields.report("value", f"must be a whole number for {operator}.")
            else:
                gate = "the feature gate TaintTolerationComparisonOperators"
                effect = "API servers without it reject the object."
                detail = f"{operator} needs {gate}. {effect}"
                fields.report("operator", detail, Severity.WARNING)
        key = fields.get_text("key")
        if not key and operator != matching.EXISTS:
            fields.report("operator", "must be Exists when key is empty.")
        # "" is every effect.
        effect = fields.get_choice("effect", _EFFECTS, default="")
        # Any integer is valid: a negative one means no time at all.
        seconds = fields.data.get("tolerationSeconds")
        duration = seconds if isinstance(seconds, int) else None
        tolerations.append(Toleration(key, operator, value, effect, duration))
    if kind != "DaemonSet":
        return (*tolerations, *_DEFAULT_TOLERATIONS)
    tolerations += [replace(toleration, seconds=None) for toleration in _DEFAULT_TOLERATIONS]
    tolerations += _DAEMON_TOLERATIONS
    if spec.get_flag("hostNetwork"):
        tolerations.append(_HOST_NETWORK_TOLERATION)
    return tuple(tolerations)
