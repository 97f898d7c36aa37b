"""A pod template -> what the scheduler reads of it, with the defaults that the API server would fill in; its
selectors, affinity, tolerations and spread constraints.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from itertools import product
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics import Severity
from nexusform.domains.pods.importers.kubernetes_manifests import Fields, Manifest, plain_text
from nexusform.domains.pods.scheduling.rules.image_locality import with_tag
from nexusform.domains.pods.scheduling.workloads import (
    Aligned,
    Container,
    HostPort,
    NodeTerm,
    PodSpec,
    PodTerm,
    QuotaFigures,
    Requests,
    SpreadConstraint,
)
from nexusform.kubernetes.matching import (
    EQUAL,
    EXISTS,
    GREATER,
    IN,
    LESS,
    NO_SCHEDULE,
    NOT_IN,
    LabelSelector,
    Requirement,
    Toleration,
    label_selector,
    requirement_problems,
    selector_problems,
)
from nexusform.kubernetes.quantity import Malformed, parse_quantity
from nexusform.scheduling.kubelet import HUGEPAGES

# What scores count for a container that requests none: 100m and 200 MiB.
_SCORED: Final = {"cpu": 100, "memory": 200 * 1024 * 1024}
_BUILT_IN_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
NEVER: Final = "Never"
ANOTHER_SCHEDULER: Final = "another-scheduler"
_NODE: Final = "node.kubernetes.io/"
_MINUTES: Final = 300
# Admission adds these to every pod; the DaemonSet controller adds the others to its own.
_ALWAYS: Final = (
    Toleration(_NODE + "not-ready", EXISTS, "", "NoExecute", _MINUTES),
    Toleration(_NODE + "unreachable", EXISTS, "", "NoExecute", _MINUTES),
)
_DAEMON: Final = tuple(
    Toleration(_NODE + what, EXISTS, "", NO_SCHEDULE)
    for what in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
)
_HOST_NETWORK: Final = Toleration(_NODE + "network-unavailable", EXISTS, "", NO_SCHEDULE)

Amounts = dict[str, int]


class Priorities(Struct, frozen=True):
    """PriorityClasses by name, the value of pods that name none, and classes whose pods evict nobody ("" for
    pods that name none). `is_whole`: there are no others.
    """

    by_name: Mapping[str, int] = field(default_factory=dict)
    default: int = 0
    never: frozenset[str] = frozenset()
    is_whole: bool = False


def read_priorities(manifests: Iterable[Manifest], *, is_whole: bool = False) -> Priorities:
    """The priorities that a cluster with these objects knows."""
    priorities = dict(_BUILT_IN_PRIORITIES)
    defaults: list[tuple[int, str]] = []
    never: set[str] = set()
    for manifest in manifests:
        value = manifest.body.get("value")
        if (manifest.group, manifest.kind) == ("scheduling.k8s.io", "PriorityClass") and isinstance(
            value, int
        ):
            priorities[manifest.name] = value
            if manifest.body.get("preemptionPolicy") == NEVER:
                never.add(manifest.name)
            if manifest.body.get("globalDefault") is True:
                defaults.append((value, manifest.name))
    # Of several defaults Kubernetes takes the lowest.
    default, name = min(defaults, default=(0, ""))
    if name in never:
        never.add("")
    return Priorities(priorities, default, frozenset(never), is_whole)


def unknown_priority(spec: Fields, priorities: Priorities) -> str:
    """Why the API server makes no such pod: its PriorityClass is not there; "" where it is, or may be."""
    name = spec.text("priorityClassName")
    if not name or name in priorities.by_name or not priorities.is_whole:
        return ""
    return f"no PriorityClass with name {name} was found"


class Owner(Struct, frozen=True):
    """Of whom a pod is: namespace, controller kind, labels that the controller adds to its pods.

    `spreads` are the pods that default spreading counts (None = none).
    """

    namespace: str
    kind: str
    added: Mapping[str, str]
    spreads: LabelSelector | None
    template: str


def template_hash(template: Mapping[str, Any]) -> str:
    """A short name for a pod template: equal templates, equal names (not Kubernetes' own hash)."""
    text = json.dumps(template, sort_keys=True, default=str)
    return blake2b(text.encode(), digest_size=5).hexdigest()


def template_labels(metadata: Fields) -> dict[str, str]:
    """The labels of a pod template."""
    return metadata.pairs("labels")


def read_pod_spec(metadata: Fields, spec: Fields, owner: Owner, priorities: Priorities) -> PodSpec:
    """Compile a template's `metadata` and `spec`."""
    labels = {**template_labels(metadata), **owner.added}
    if not spec.data.get("containers"):
        spec.say("containers", "needs at least one container.")
    affinity = spec.at("affinity")
    nodes = read_node_affinity(affinity)
    near = read_pod_affinity(affinity, "podAffinity", owner.namespace, labels)
    far = read_pod_affinity(affinity, "podAntiAffinity", owner.namespace, labels)
    scheduler = spec.text("schedulerName", "default-scheduler")
    if scheduler != "default-scheduler":
        detail = f'is "{scheduler}"; its rules are not known here, kube-scheduler\'s are used instead.'
        spec.say("schedulerName", detail, Severity.WARNING, id=ANOTHER_SCHEDULER)
    if spec.list("resourceClaims"):
        detail = "asks for devices (DRA), which are not counted; the pods may stay Pending, or go elsewhere."
        spec.say("resourceClaims", detail, Severity.WARNING)
    return PodSpec(
        namespace=owner.namespace,
        labels=tuple(sorted(labels.items())),
        requests=_requests(spec, {}),
        scored=_requests(spec, _SCORED),
        node_name=spec.text("nodeName"),
        unforeseen=scheduler != "default-scheduler" or bool(spec.list("resourceClaims")),
        node_selector=tuple(sorted(spec.pairs("nodeSelector").items())),
        node_terms=nodes.required,
        preferred_nodes=nodes.preferred,
        tolerations=_tolerations(spec, owner.kind),
        affinity=near.required,
        anti_affinity=far.required,
        preferred_affinity=near.preferred,
        preferred_anti_affinity=far.preferred,
        spread=read_spread(spec, labels),
        default_spread=owner.spreads,
        host_ports=_host_ports(spec),
        priority=_priority(spec, priorities),
        template=owner.template,
        aligned=_aligned(spec),
        gates=tuple(gate.text("name") for gate in spec.each("schedulingGates")),
        quota_figures=_quota_figures(spec),
        preempts=spec.text("preemptionPolicy") != NEVER
        and spec.text("priorityClassName") not in priorities.never,
        images=_images(spec),
        scored_apart=_scored_apart(spec),
    )


def _images(spec: Fields) -> tuple[str, ...]:
    """The image of each container, as nodes write it."""
    containers = (*spec.each("initContainers"), *spec.each("containers"))
    return tuple(with_tag(container.text("image")) for container in containers)


def read_containers(spec: Fields) -> tuple[Container, ...]:
    """What each container of a pod is made from; what is wrong with it is told where the pod is read."""
    containers = []
    for container in (*spec.each("initContainers"), *spec.each("containers")):
        image = container.text("image")
        amounts = _amounts(container.at("resources"), said=True)
        containers.append(
            Container(
                container.text("name"),
                with_tag(image) if image else "",
                tuple(sorted((name, amount) for name, amount in amounts.items() if amount)),
            )
        )
    return tuple(containers)


def _scored_apart(spec: Fields) -> Requests | None:
    """What scores count for the containers alone, where something is asked for the whole pod."""
    if not spec.at("resources").data:
        return None
    return _requests(spec, _SCORED, whole=False)


def _quota_figures(spec: Fields) -> QuotaFigures:
    """What quotas read."""
    containers = [*spec.each("containers"), *spec.each("initContainers")]
    left_out = []
    for of, name in product(("requests", "limits"), ("cpu", "memory")):
        if not all(name in _stated(container, of) for container in containers):
            left_out.append(f"{of}.{name}")
    limits = _total(spec, lambda container: _stated(container, "limits"))
    return QuotaFigures(
        tuple(sorted((name, amount) for name, amount in limits.items() if amount)),
        tuple(left_out),
        "activeDeadlineSeconds" in spec,
        spec.text("priorityClassName"),
    )


def _stated(container: Fields, of: str) -> Amounts:
    resources = container.at("resources")
    return _amounts(resources, said=True) if of == "requests" else _quantities(resources.at(of), said=True)


def _aligned(spec: Fields) -> tuple[Aligned, ...]:
    """Per container what kubelet gives it of the same NUMA cells: hugepages, devices, and whole CPUs of its
    own where the pod is Guaranteed. Init containers are left out: what they had goes to the others.
    """
    containers = (*spec.each("containers"), *_sidecars(spec))
    guaranteed = all(_is_guaranteed(container) for container in (*containers, *spec.each("initContainers")))
    aligned = []
    for container in containers:
        wants = []
        for name, amount in sorted(_amounts(container.at("resources"), said=True).items()):
            if name == "cpu" and guaranteed and amount and amount % 1000 == 0:
                wants.append(("cpu", amount // 1000))
            elif amount and ("/" in name or name.startswith(HUGEPAGES)):
                wants.append((name, amount))
        if wants:
            aligned.append(tuple(wants))
    return tuple(aligned)


def _is_guaranteed(container: Fields) -> bool:
    resources = container.at("resources")
    limits = _quantities(resources.at("limits"), said=True)
    asked = {**limits, **_quantities(resources.at("requests"), said=True)}
    return all(limits.get(name) and limits[name] == asked[name] for name in ("cpu", "memory"))


def _tolerations(spec: Fields, kind: str) -> tuple[Toleration, ...]:
    tolerations = read_tolerations(spec)
    if kind == "DaemonSet":
        tolerations += tuple(replace(each, seconds=None) for each in _ALWAYS) + _DAEMON
        if spec.flag("hostNetwork"):
            tolerations += (_HOST_NETWORK,)
        return tolerations
    return tolerations + _ALWAYS


def _priority(spec: Fields, priorities: Priorities) -> int:
    """The priority of the pod's class; 0, and a warning, for a class that no manifest defines."""
    name = spec.text("priorityClassName")
    if not name:
        value = spec.data.get("priority")
        return value if isinstance(value, int) else priorities.default
    if name not in priorities.by_name:
        outcome = "no pod of it is made" if priorities.is_whole else "priority 0 is assumed"
        detail = f'names the PriorityClass "{name}", which no manifest here defines; {outcome}.'
        brief = f"PriorityClass {name} is not on the cluster"
        spec.say("priorityClassName", detail, Severity.WARNING, brief=brief)
    return priorities.by_name.get(name, 0)


def _host_ports(spec: Fields) -> tuple[HostPort, ...]:
    """The ports of the node that a pod takes: those it names, and in the node's network all of its own."""
    shares_network = spec.flag("hostNetwork")
    ports = []
    for container in (*spec.each("containers"), *_sidecars(spec)):
        for port in container.each("ports"):
            number = port.whole("hostPort", 0) or (port.whole("containerPort", 0) if shares_network else 0)
            if number:
                address = port.text("hostIP") or HostPort(0).address
                ports.append(HostPort(number, port.text("protocol", "TCP"), address))
    return tuple(dict.fromkeys(ports))


def _sidecars(spec: Fields) -> list[Fields]:
    return [fields for fields in spec.each("initContainers") if _is_sidecar(fields)]


def _is_sidecar(container: Fields) -> bool:
    return container.data.get("restartPolicy") == "Always"


def _requests(spec: Fields, fallback: Mapping[str, int], *, whole: bool = True) -> Requests:
    """max(sum of containers and sidecars, the most any init container needs) + overhead.

    `fallback`: what a container that names no request counts for (scores), nothing for fitting. `whole`: what
    is asked for the whole pod stands for that.
    """
    said = bool(fallback)  # the same manifest is read twice: note what is wrong once
    total = _total(spec, lambda container: {**fallback, **_amounts(container.at("resources"), said)})
    if whole:
        total |= _of_the_whole(spec, said)
    _add(total, _quantities(spec.at("overhead"), said))
    others = tuple(sorted((name, amount) for name, amount in total.items() if name not in _SCORED and amount))
    return Requests(total.get("cpu", 0), total.get("memory", 0), others)


def _of_the_whole(spec: Fields, said: bool) -> Amounts:
    """What stands for the whole pod instead of for its containers. Where it has a limit alone, what
    containers ask for together is its request.
    """
    resources = spec.at("resources")
    if not resources.data:
        return {}
    together = _total(spec, lambda container: _amounts(container.at("resources"), said=True))
    own = {name: together[name] for name in _SCORED if name in together}
    return {
        **_quantities(resources.at("limits"), said),
        **own,
        **_quantities(resources.at("requests"), said),
    }


def _total(spec: Fields, own_of: Callable[[Fields], Amounts]) -> Amounts:
    """What a pod asks for by what each container does."""
    running: Amounts = {}
    for container in spec.each("containers"):
        _add(running, own_of(container))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.each("initContainers"):
        own = own_of(container)
        if _is_sidecar(container):
            _add(running, own)
            _add(sidecars, own)
            own = dict(sidecars)
        else:
            _add(own, sidecars)
        for name, amount in own.items():
            starting[name] = max(starting.get(name, 0), amount)
    return {name: max(running.get(name, 0), starting.get(name, 0)) for name in (*running, *starting)}


def _amounts(resources: Fields, said: bool) -> Amounts:
    # A limit without a request is its own request.
    return {**_quantities(resources.at("limits"), said), **_quantities(resources.at("requests"), said)}


def _quantities(fields: Fields, said: bool) -> Amounts:
    """Amounts by resource, processor time in thousandths; what is none is left out, and said unless that was
    `said`.
    """
    amounts: Amounts = {}
    for name, written in fields.data.items():
        quantity = parse_quantity(plain_text(written))
        if isinstance(quantity, Malformed) or quantity.nano < 0:
            if not said:
                fields.say(name, f'is "{plain_text(written)}", which is no amount (such as 500m or 2Gi).')
            continue
        amounts[name] = quantity.milli() if name == "cpu" else quantity.whole()
    return amounts


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_MOST_WEIGHT: Final = 100
_EFFECTS: Final = ("", NO_SCHEDULE, "NoExecute", "PreferNoSchedule")


class NodeAffinity(Struct, frozen=True):
    """nodeAffinity: required terms (None = no requirement) and preferred ones with their weights."""

    required: tuple[NodeTerm, ...] | None
    preferred: tuple[tuple[int, NodeTerm], ...]


class PodAffinity(Struct, frozen=True):
    """podAffinity or podAntiAffinity: required and preferred terms."""

    required: tuple[PodTerm, ...]
    preferred: tuple[PodTerm, ...]


def read_selector(parent: Fields, key: str) -> LabelSelector | None:
    """A label selector; None when it is absent (which selects nothing)."""
    if parent.data.get(key) is None:
        return None
    fields = parent.at(key)
    pairs = fields.pairs("matchLabels")
    expressions = tuple(_requirement(item) for item in fields.each("matchExpressions"))
    selector = label_selector(pairs, expressions)
    for problem in selector_problems(selector):
        fields.say("", problem + ".")
    return selector


def _requirement(fields: Fields) -> Requirement:
    return Requirement(fields.text("key"), fields.text("operator"), fields.texts("values"))


def read_node_affinity(affinity: Fields) -> NodeAffinity:
    """NodeAffinity of a pod's affinity."""
    fields = affinity.at("nodeAffinity")
    required: tuple[NodeTerm, ...] | None = None
    if _REQUIRED in fields:
        block = fields.at(_REQUIRED)
        required = tuple(read_node_term(term) for term in block.each("nodeSelectorTerms"))
        if not required:
            block.say("nodeSelectorTerms", "needs at least one term.")
    preferred = tuple(
        (item.whole("weight", 1, least=1), read_node_term(item.at("preference")))
        for item in fields.each(_PREFERRED)
    )
    return NodeAffinity(required, preferred)


def read_node_term(fields: Fields) -> NodeTerm:
    """One nodeSelectorTerm."""
    labels = tuple(_requirement(item) for item in fields.each("matchExpressions"))
    names = tuple(_requirement(item) for item in fields.each("matchFields"))
    for requirement in labels:
        if requirement.operator in (GREATER, LESS):
            if len(requirement.values) != 1:
                fields.say("matchExpressions", f"needs exactly one value for {requirement.operator}.")
            continue
        for problem in requirement_problems(requirement):
            fields.say("matchExpressions", problem + ".")
    for requirement in names:
        if requirement.key != "metadata.name" or requirement.operator not in (IN, NOT_IN):
            fields.say("matchFields", "can only use metadata.name with In or NotIn.")
    return NodeTerm(labels, names)


def read_pod_affinity(affinity: Fields, key: str, namespace: str, labels: Mapping[str, str]) -> PodAffinity:
    """PodAffinity or podAntiAffinity (`key`) of a pod in a namespace with these labels."""
    fields = affinity.at(key)
    required = tuple(_pod_term(term, namespace, labels, 0) for term in fields.each(_REQUIRED))
    preferred = []
    for item in fields.each(_PREFERRED):
        weight = item.whole("weight", 0, least=1)
        if weight > _MOST_WEIGHT or "weight" not in item:
            item.say("weight", "must be a whole number from 1 to 100.")
        preferred.append(_pod_term(item.at("podAffinityTerm"), namespace, labels, weight))
    return PodAffinity(required, tuple(preferred))


def _pod_term(fields: Fields, namespace: str, labels: Mapping[str, str], weight: int) -> PodTerm:
    """One term of pod (anti-)affinity; without namespaces it means those of the pod's own."""
    topology_key = fields.text("topologyKey")
    if not topology_key:
        fields.say("topologyKey", "must not be empty.")
    selector = _with_label_keys(fields, read_selector(fields, "labelSelector"), labels)
    written = fields.texts("namespaces")
    namespace_selector = read_selector(fields, "namespaceSelector")
    namespaces = tuple(sorted(set(written)))
    if not namespaces and namespace_selector is None:
        namespaces = (namespace,)
    return PodTerm(
        topology_key=topology_key,
        selector=selector,
        namespaces=namespaces,
        namespace_selector=namespace_selector,
        weight=weight,
    )


def _with_label_keys(
    fields: Fields, selector: LabelSelector | None, labels: Mapping[str, str]
) -> LabelSelector | None:
    # The values of the pod's own labels join the selector; keys that it lacks are ignored.
    keys = [(key, IN) for key in fields.texts("matchLabelKeys")]
    keys += [(key, NOT_IN) for key in fields.texts("mismatchLabelKeys")]
    if not keys:
        return selector
    if selector is None:
        fields.say("labelSelector", "must be set when matchLabelKeys or mismatchLabelKeys is.")
        return None
    more = tuple(Requirement(key, operator, (labels[key],)) for key, operator in keys if key in labels)
    return LabelSelector(selector.match_labels, selector.match_expressions + more)


def read_spread(spec: Fields, labels: Mapping[str, str]) -> tuple[SpreadConstraint, ...]:
    """TopologySpreadConstraints of a pod with these labels."""
    return tuple(_constraint(fields, labels) for fields in spec.each("topologySpreadConstraints"))


def _constraint(fields: Fields, labels: Mapping[str, str]) -> SpreadConstraint:
    """One topology spread constraint."""
    topology_key = fields.text("topologyKey")
    if not topology_key:
        fields.say("topologyKey", "must not be empty.")
    if "maxSkew" not in fields:
        fields.say("maxSkew", "must be a whole number, 1 or more.")
    action = fields.one_of("whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway"), "DoNotSchedule")
    hard = action == "DoNotSchedule"
    if "minDomains" in fields and not hard:
        fields.say("minDomains", "can only be used with whenUnsatisfiable: DoNotSchedule.")
    policies = ("Honor", "Ignore")
    return SpreadConstraint(
        topology_key=topology_key,
        max_skew=fields.whole("maxSkew", 1, least=1),
        hard=hard,
        selector=_with_label_keys(fields, read_selector(fields, "labelSelector"), labels),
        min_domains=fields.whole("minDomains", 1, least=1),
        honor_affinity=fields.one_of("nodeAffinityPolicy", policies, "Honor") == "Honor",
        honor_taints=fields.one_of("nodeTaintsPolicy", policies, "Ignore") == "Honor",
    )


def read_tolerations(spec: Fields) -> tuple[Toleration, ...]:
    """Tolerations of a pod spec."""
    tolerations = []
    for fields in spec.each("tolerations"):
        operator = fields.one_of("operator", (EQUAL, EXISTS), EQUAL)
        key = fields.text("key")
        if not key and operator != EXISTS:
            fields.say("operator", "must be Exists when key is empty.")
        effect = fields.one_of("effect", _EFFECTS, "")
        # Any whole number will do: what is below 0 is no time at all.
        seconds = fields.data.get("tolerationSeconds")
        lasts = seconds if isinstance(seconds, int) else None
        tolerations.append(Toleration(key, operator, fields.text("value"), effect, lasts))
    return tuple(tolerations)
