"""A pod template -> what the scheduler reads of it, with the defaults that the API server would fill in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final

from msgspec import Struct, field

from nexusform.diagnostics import Severity
from nexusform.importers.kubernetes_affinity import (
    read_node_affinity,
    read_pod_affinity,
    read_spread,
    read_tolerations,
)
from nexusform.importers.kubernetes_manifests import Manifest, plain_text
from nexusform.importers.manifest_fields import Fields
from nexusform.scheduling.matching import EXISTS, NO_SCHEDULE, LabelSelector, Toleration
from nexusform.scheduling.pods.model import HostPort, PodSpec, Requests
from nexusform.scheduling.quantity import Malformed, parse_quantity

# What scores count for a container that requests none: 100m and 200 MiB.
_SCORED: Final = {"cpu": 100, "memory": 200 * 1024 * 1024}
_BUILT_IN_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_NODE: Final = "node.kubernetes.io/"
# Admission adds these to every pod; the DaemonSet controller adds the others to its own.
_ALWAYS: Final = (
    Toleration(_NODE + "not-ready", EXISTS, "", "NoExecute"),
    Toleration(_NODE + "unreachable", EXISTS, "", "NoExecute"),
)
_DAEMON: Final = tuple(
    Toleration(_NODE + what, EXISTS, "", NO_SCHEDULE)
    for what in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
)
_HOST_NETWORK: Final = Toleration(_NODE + "network-unavailable", EXISTS, "", NO_SCHEDULE)

Amounts = dict[str, int]


class Priorities(Struct, frozen=True):
    """PriorityClasses by name, and the value of pods that name none."""

    by_name: Mapping[str, int] = field(default_factory=dict)
    default: int = 0


def read_priorities(manifests: Iterable[Manifest]) -> Priorities:
    """The priorities that a cluster with these objects knows."""
    priorities = dict(_BUILT_IN_PRIORITIES)
    default = 0
    for manifest in manifests:
        value = manifest.body.get("value")
        if (manifest.group, manifest.kind) == ("scheduling.k8s.io", "PriorityClass") and isinstance(
            value, int
        ):
            priorities[manifest.name] = value
            if manifest.body.get("globalDefault") is True:
                default = value
    return Priorities(priorities, default)


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
        spec.say("schedulerName", detail, Severity.WARNING)
    return PodSpec(
        namespace=owner.namespace,
        labels=tuple(sorted(labels.items())),
        requests=_requests(spec, {}),
        scored=_requests(spec, _SCORED),
        node_name=spec.text("nodeName"),
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
    )


def _tolerations(spec: Fields, kind: str) -> tuple[Toleration, ...]:
    tolerations = read_tolerations(spec) + _ALWAYS
    if kind == "DaemonSet":
        tolerations += _DAEMON
        if spec.flag("hostNetwork"):
            tolerations += (_HOST_NETWORK,)
    return tolerations


def _priority(spec: Fields, priorities: Priorities) -> int:
    name = spec.text("priorityClassName")
    if not name:
        value = spec.data.get("priority")
        return value if isinstance(value, int) else priorities.default
    if name not in priorities.by_name:
        detail = f'names the PriorityClass "{name}", which no manifest here defines; priority 0 is assumed.'
        spec.say("priorityClassName", detail, Severity.WARNING)
    return priorities.by_name.get(name, 0)


def _host_ports(spec: Fields) -> tuple[HostPort, ...]:
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


def _requests(spec: Fields, fallback: Mapping[str, int]) -> Requests:
    """max(sum of containers and sidecars, the most any init container needs) + overhead.

    `fallback`: what a container that names no request counts for (scores), nothing for fitting.
    """
    said = bool(fallback)  # the same manifest is read twice: note what is wrong once
    running: Amounts = {}
    for container in spec.each("containers"):
        _add(running, _container(container, fallback, said))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.each("initContainers"):
        own = _container(container, fallback, said)
        if _is_sidecar(container):
            _add(running, own)
            _add(sidecars, own)
            own = dict(sidecars)
        else:
            _add(own, sidecars)
        for name, amount in own.items():
            starting[name] = max(starting.get(name, 0), amount)
    total = {name: max(running.get(name, 0), starting.get(name, 0)) for name in (*running, *starting)}
    total |= _amounts(spec.at("resources"), said)
    _add(total, _quantities(spec.at("overhead"), said))
    others = tuple(sorted((name, amount) for name, amount in total.items() if name not in _SCORED and amount))
    return Requests(total.get("cpu", 0), total.get("memory", 0), others)


def _container(container: Fields, fallback: Mapping[str, int], said: bool) -> Amounts:
    return {**fallback, **_amounts(container.at("resources"), said)}


def _amounts(resources: Fields, said: bool) -> Amounts:
    # A limit without a request is its own request.
    return {**_quantities(resources.at("limits"), said), **_quantities(resources.at("requests"), said)}


def _quantities(fields: Fields, said: bool) -> Amounts:
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
