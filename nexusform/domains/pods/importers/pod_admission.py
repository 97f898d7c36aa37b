"""Pod changes at admission by objects of the cluster: RuntimeClasses, LimitRanges, Multus networks.

A pod is changed like in the API server's admission, and read afterwards. Sources: kubernetes
plugin/pkg/admission/{runtimeclass,limitranger}, pkg/apis/core/v1/defaults.go (LimitRangeItem), and
the network-resources-injector of k8snetworkplumbingwg.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, TypeGuard

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Severity
from nexusform.domains.pods.importers import manifest_parser, pod_security
from nexusform.domains.pods.importers.kubernetes_pod_spec import (
    IN_DOUBT,
    parse_selector,
    sum_container_amounts,
)
from nexusform.domains.pods.importers.manifest_parser import Fields, Manifest
from nexusform.domains.pods.scheduling.cluster_records import (
    PodDisruptionBudget,
    ResourceQuota,
    ResourceQuotaScope,
)
from nexusform.json_data.plain_data import get_mapping, list_mappings
from nexusform.kubernetes.matching import EXISTS
from nexusform.kubernetes.quantity import read_quantity, read_quantity_or_zero

NETWORKS: Final = "k8s.v1.cni.cncf.io/networks"
_NETWORK_RESOURCE: Final = "k8s.v1.cni.cncf.io/resourceName"
_OS: Final = "kubernetes.io/os"
_CONTAINERS: Final = ("initContainers", "containers")

# Configured amounts by resource: "500m", 2, "1Gi".
RawAmounts = dict[str, Any]
_NanoAmounts = dict[str, int]
_SECTIONS: Final = ("requests", "limits")
_REQUESTS: Final = ("resources", "requests")


class LimitRangeDefaults(Struct, frozen=True):
    """Defaults from the LimitRanges of one namespace for containers without their own values."""

    requests: RawAmounts
    limits: RawAmounts


class LimitRangeBounds(Struct, frozen=True):
    """Limits of one LimitRange for a container or (`target` = Pod) a whole pod, as configured."""

    target: str
    minimum: RawAmounts
    maximum: RawAmounts


class AdmissionRules(Struct, frozen=True):
    """Objects of a cluster that change its pods.

    `runtimes` and `namespaces` are by name, `defaults` and `bounds` by namespace. `networks` have,
    by namespace and name, the resource required by each, "" if there is none. `counted_namespaces`
    have a ResourceQuota of count/pods. `version` is the one of Kubernetes, () if unknown.
    """

    runtimes: Mapping[str, Manifest]
    defaults: Mapping[str, Sequence[LimitRangeDefaults]]
    networks: Mapping[tuple[str, str], str]
    bounds: Mapping[str, Sequence[LimitRangeBounds]]
    namespaces: Mapping[str, Manifest]
    counted_namespaces: frozenset[str]
    version: tuple[int, ...] = ()


class AdmissionRejection(Struct, frozen=True):
    """Admission plugin, and why it rejects a pod ("" if it does not)."""

    plugin: str
    reason: str


def collect_admission_rules(
    manifests: Iterable[Manifest], version: tuple[int, ...] = ()
) -> AdmissionRules:
    """Return the admission rules for pods, read from the objects of a cluster."""
    runtimes: dict[str, Manifest] = {}  # by name
    defaults: dict[str, list[LimitRangeDefaults]] = {}  # by namespace
    # The resource required by a network, by its namespace and name.
    networks: dict[tuple[str, str], str] = {}
    bounds: dict[str, list[LimitRangeBounds]] = {}  # by namespace
    namespaces: dict[str, Manifest] = {}
    # With a quota for the number of pods.
    counted_namespaces: set[str] = set()
    for manifest in manifests:
        match manifest.group, manifest.kind:
            case "node.k8s.io", "RuntimeClass":
                runtimes[manifest.name] = manifest
            case "", "ResourceQuota" if "count/pods" in get_mapping(manifest.body, "spec", "hard"):
                counted_namespaces.add(manifest.namespace)
            case "", "Namespace":
                namespaces[manifest.name] = manifest
            case "", "LimitRange":
                name = manifest.namespace
                _add_limit_range(
                    manifest, defaults.setdefault(name, []), bounds.setdefault(name, [])
                )
            case "k8s.cni.cncf.io", "NetworkAttachmentDefinition":
                annotations = manifest_parser.read_silently(manifest, "metadata").get_mapping(
                    "annotations"
                )
                resource = annotations.get_text(_NETWORK_RESOURCE)
                # A namespaced object of an unknown group: without a namespace it is in "default".
                networks[manifest.namespace or "default", manifest.name] = resource
    return AdmissionRules(
        runtimes, defaults, networks, bounds, namespaces, frozenset(counted_namespaces), version
    )


def _add_limit_range(
    manifest: Manifest, defaults: list[LimitRangeDefaults], bounds: list[LimitRangeBounds]
) -> None:
    """Add the defaults and bounds of a LimitRange to those of its namespace."""
    for item in manifest_parser.read_silently(manifest, "spec").list_mappings("limits"):
        target = item.get_text("type")
        minimum = item.get_mapping("min").data
        maximum = item.get_mapping("max").data
        if target in ("Container", "Pod"):
            bounds.append(LimitRangeBounds(target, dict(minimum), dict(maximum)))
        if target == "Container":
            # Kubernetes completes a new LimitRange like this.
            limits = {**maximum, **item.get_mapping("default").data}
            requests = {**minimum, **limits, **item.get_mapping("defaultRequest").data}
            defaults.append(LimitRangeDefaults(requests, limits))


def list_admission_rejections(
    namespace: str, metadata: Fields, spec: Fields, rules: AdmissionRules
) -> Iterator[AdmissionRejection]:
    """Yield why admission plugins reject a pod with defaults set, in the words of Kubernetes.

    They are in the order of the API server.
    """
    owner = rules.namespaces.get(namespace)
    if owner and "deletionTimestamp" in get_mapping(owner.body, "metadata"):
        yield AdmissionRejection(
            "NamespaceLifecycle",
            f"unable to create new content in namespace {namespace} because it is being terminated",
        )
    containers = [*spec.list_mappings("containers"), *spec.list_mappings("initContainers")]
    for container in containers:
        yield AdmissionRejection("Validation", _find_excess_request(container))
    yield AdmissionRejection("LimitRanger", _find_limit_violation(namespace, spec, rules))
    if owner:
        annotations = metadata.get_mapping("annotations").data
        yield AdmissionRejection(
            pod_security.PLUGIN,
            pod_security.find_pod_security_rejection(
                owner.labels, annotations, spec.data, rules.version
            ),
        )
    yield AdmissionRejection("RuntimeClass", _find_overhead_rejection(spec, rules))


def _find_limit_violation(namespace: str, spec: Fields, rules: AdmissionRules) -> str:
    """Return why a LimitRange of the namespace rejects a pod; "" if none does."""
    if not rules.bounds.get(namespace):
        return ""
    containers = [*spec.list_mappings("containers"), *spec.list_mappings("initContainers")]
    # The LimitRanges of the namespace bound each container, and the pod as a whole. In `|` the
    # right side wins: the pod's own request, else the sum of its containers, else its limit.
    container_amounts = [
        (_read_requests(container), _read_limits(container)) for container in containers
    ]
    pod_requests = _read_limits(spec) | sum_container_amounts(spec, _read_requests)
    pod_requests |= _read_amounts(spec.data, *_REQUESTS)
    pod_limits = sum_container_amounts(spec, _read_limits) | _read_limits(spec)
    amounts = {"Container": container_amounts, "Pod": [(pod_requests, pod_limits)]}
    reasons = (
        _find_bounds_violation(item, *pair)
        for item in rules.bounds[namespace]
        for pair in amounts[item.target]
    )
    return next(filter(None, reasons), "")


def _find_overhead_rejection(spec: Fields, rules: AdmissionRules) -> str:
    """Return why the overhead of a pod is not that of its RuntimeClass, so the pod is rejected.

    The result is "" if it is valid.
    """
    name = spec.get_text("runtimeClassName")
    overhead = _read_amounts(spec.data, "overhead")
    runtime = rules.runtimes.get(name)
    if not overhead or (name and runtime is None):
        # Nothing to check, or an unknown class.
        return ""
    class_overhead = _read_amounts(runtime.body if runtime else {}, "overhead", "podFixed")
    if not class_overhead:
        return "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    if overhead != class_overhead:
        return "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    return ""


def _find_excess_request(container: Fields) -> str:
    """Return a clause about a request above its limit.

    A limit may be a default one. The result is "" if no request is above its limit.
    """
    limits = _read_limits(container)
    for name, request in _read_amounts(container.data, *_REQUESTS).items():
        if name in limits and request > limits[name]:
            amount, ceiling = (
                container.get_mapping("resources").get_mapping(key).data[name] for key in _SECTIONS
            )
            return (
                f"its request of {amount} {name} must be less than or equal to the limit of "
                f"{ceiling}"
            )
    return ""


def _find_bounds_violation(
    bounds: LimitRangeBounds, requests: _NanoAmounts, limits: _NanoAmounts
) -> str:
    """Return why a container or pod is outside the bounds of a LimitRange; "" if it is inside.

    A minimum requires a request, and a maximum requires a limit. The other amount is compared only
    if it is set.
    """
    by_noun = {"request": requests, "limit": limits}
    rows = (
        ("minimum", bounds.minimum, ("request", "limit")),
        ("maximum", bounds.maximum, ("limit", "request")),
    )
    # The nouns are the required amount, then the other one.
    for adjective, bounds_by_name, nouns in rows:
        for name, bound in bounds_by_name.items():
            bound_quantity = read_quantity(bound)
            if bound_quantity is None:
                # An invalid bound is reported at the LimitRange.
                continue
            clause = f"{adjective} {name} usage per {bounds.target} is {bound}"
            if name not in by_noun[nouns[0]]:
                return f"{clause}. No {nouns[0]} is specified"
            for noun in nouns:
                # If it is not set: equal to the bound.
                amount = by_noun[noun].get(name, bound_quantity.nano)
                is_outside = (
                    amount < bound_quantity.nano
                    if adjective == "minimum"
                    else amount > bound_quantity.nano
                )
                if is_outside:
                    return f"{clause}, but {noun} is {amount / 10**9:g}"
    return ""


def _read_requests(container: Fields) -> _NanoAmounts:
    """Return the requests; a limit without a request is its own request."""
    return _read_limits(container) | _read_amounts(container.data, *_REQUESTS)


def _read_amounts(data: Mapping[str, Any], *path: str) -> _NanoAmounts:
    """Return the valid amounts under a path by resource, in billionths."""
    amounts: _NanoAmounts = {}
    for name, value in get_mapping(data, *path).items():
        quantity = read_quantity(value)
        if quantity is not None:
            amounts[name] = quantity.nano
    return amounts


def _read_limits(container: Fields) -> _NanoAmounts:
    return _read_amounts(container.data, "resources", "limits")


def collect_resource_quotas(manifests: Iterable[Manifest]) -> tuple[ResourceQuota, ...]:
    """Return the ResourceQuotas among the objects of a cluster, with their observed usage."""
    quotas = []
    for manifest in manifest_parser.select_manifests(manifests, "", "ResourceQuota"):
        spec = manifest_parser.read_silently(manifest, "spec")
        scopes = list(map(ResourceQuotaScope, spec.get_texts("scopes")))
        for item in spec.get_mapping("scopeSelector").list_mappings("matchExpressions"):
            operator = item.get_text("operator", EXISTS)
            scopes.append(
                ResourceQuotaScope(item.get_text("scopeName"), operator, item.get_texts("values"))
            )
        limits = _read_quota_amounts(spec.get_mapping("hard").data)
        used = _read_quota_amounts(get_mapping(manifest.body, "status", "used"))
        quotas.append(ResourceQuota(manifest.namespace, manifest.name, limits, tuple(scopes), used))
    return tuple(quotas)


def _read_quota_amounts(values: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """Return the amounts of a quota by resource, CPU in milli-CPUs.

    Invalid ones are reported at the ResourceQuota.
    """
    amounts = []
    for name, value in values.items():
        quantity = read_quantity(value)
        if quantity is not None:
            amount = (
                quantity.round_to_milli() if name.endswith("cpu") else quantity.round_to_units()
            )
            amounts.append((name, amount))
    return tuple(amounts)


def collect_pod_disruption_budgets(
    manifests: Iterable[Manifest],
) -> tuple[PodDisruptionBudget, ...]:
    """Return the PodDisruptionBudgets with a selector among the objects of a cluster."""
    budgets = []
    for manifest in manifest_parser.select_manifests(manifests, "policy", "PodDisruptionBudget"):
        spec = manifest_parser.read_silently(manifest, "spec")
        selector = parse_selector(spec, "selector")
        # Without a selector it covers no pod.
        if selector is not None:
            minimum = manifest_parser.format_scalar(spec.data.get("minAvailable"))
            maximum = manifest_parser.format_scalar(spec.data.get("maxUnavailable"))
            evicts_unready = spec.data.get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
            names = (manifest.namespace, manifest.name)
            budgets.append(
                PodDisruptionBudget(
                    *names, selector, minimum, maximum, evicts_unready=evicts_unready
                )
            )
    return tuple(budgets)


def apply_pod_admission(
    namespace: str, metadata: Fields, spec: Fields, rules: AdmissionRules
) -> Fields:
    """Return the pod spec after admission, and report missing RuntimeClasses and networks."""
    # In the order of the API server.
    spec = _apply_limit_ranges(spec, rules.defaults.get(namespace, ()))
    spec = _check_rejections(namespace, _apply_runtime_class(spec, rules), rules)
    return _apply_multus_networks(namespace, metadata.get_mapping("annotations"), spec, rules)


def _check_rejections(namespace: str, spec: Fields, rules: AdmissionRules) -> Fields:
    """Return the spec, marked as in doubt if admission or kubelet may reject the pod.

    The reasons are reported.
    """
    known_count = len(spec.findings)
    if namespace in rules.counted_namespaces:
        detail = (
            "may be rejected: the ResourceQuota of count/pods counts finished pods, too, and they "
            "are not known."
        )
        spec.report("", detail, Severity.WARNING, id="finished-pods-in-quota")
    is_windows = spec.get_mapping("os").get_text("name") == "windows"
    if is_windows and spec.get_text_mapping("nodeSelector").get(_OS) != "windows":
        detail = (
            f"is windows: kubelet rejects the pod on other nodes, and no nodeSelector {_OS} "
            "excludes them."
        )
        spec.report("os", detail, Severity.WARNING, id="pod-os-not-supported")
    is_doubtful = len(spec.findings) > known_count
    return _replace_data(spec, {**spec.data, IN_DOUBT: True}) if is_doubtful else spec


def _replace_data(spec: Fields, data: dict[str, Any]) -> Fields:
    """Return a pod spec with other content; its problems are still reported at the same place."""
    return Fields(spec.manifest, spec.findings, data, *spec.path)


def _apply_runtime_class(spec: Fields, rules: AdmissionRules) -> Fields:
    """Return a pod spec with the node selector, tolerations and overhead of its RuntimeClass.

    The spec is unchanged without a RuntimeClass. With an unknown class (a warning) it is marked
    IN_DOUBT: its rules are unknown. Conflicting selectors are an error.
    """
    name = spec.get_text("runtimeClassName")
    if not name:
        return spec
    runtime = rules.runtimes.get(name)
    if runtime is None:
        detail = (
            f'names the RuntimeClass "{name}", but no manifest defines it. Its overhead, '
            "nodeSelector and tolerations are unknown, and without it no pod is created."
        )
        summary = f"RuntimeClass {name} is not on the cluster"
        spec.report("runtimeClassName", detail, Severity.WARNING, summary=summary)
        return _replace_data(spec, {**spec.data, IN_DOUBT: True})
    scheduling = manifest_parser.read_silently(runtime, "scheduling")
    pod_selector = spec.get_text_mapping("nodeSelector")
    class_selector = scheduling.get_text_mapping("nodeSelector")
    for key in sorted(pod_selector.keys() & class_selector.keys()):
        if pod_selector[key] != class_selector[key]:
            detail = (
                f'has {key}={pod_selector[key]}, but RuntimeClass "{name}" requires '
                f"{class_selector[key]}: no pod is created."
            )
            spec.report("nodeSelector", detail)
    changed_spec = {**spec.data, "nodeSelector": {**pod_selector, **class_selector}}
    tolerations = [*spec.get_list("tolerations"), *scheduling.get_list("tolerations")]
    overhead = get_mapping(runtime.body, "overhead", "podFixed")
    if tolerations:
        changed_spec["tolerations"] = tolerations
    # Another one is rejected later.
    if overhead and "overhead" not in spec:
        changed_spec["overhead"] = overhead
    return _replace_data(spec, changed_spec)


def _apply_limit_ranges(spec: Fields, ranges: Sequence[LimitRangeDefaults]) -> Fields:
    """Return the spec with the LimitRange defaults of its namespace.

    Kubernetes applies the LimitRanges in random order. So each is tried first, and if the results
    differ, the pod is in doubt.
    """
    changed_specs = []
    for first in ranges:
        changed_spec = dict(spec.data)
        for section, defaults in product(_CONTAINERS, (first, *ranges)):
            containers = changed_spec.get(section)
            if isinstance(containers, list):
                changed_spec[section] = [
                    _apply_container_defaults(container, defaults) for container in containers
                ]
        changed_specs.append(changed_spec)
    if any(changed_spec != changed_specs[0] for changed_spec in changed_specs):
        detail = "get different defaults from several LimitRanges, by their random order."
        spec.report("containers", detail, Severity.WARNING, id="different-limit-ranges")
        changed_specs[0][IN_DOUBT] = True
    return _replace_data(spec, changed_specs[0]) if changed_specs else spec


def _apply_container_defaults(container: Any, defaults: LimitRangeDefaults) -> Any:
    """Return a container with the default requests and limits of its namespace.

    They apply to resources without own amounts.
    """
    if not _has_readable_resources(container):
        # It is reported with the pod.
        return container
    resources = get_mapping(container, "resources")
    limits = get_mapping(resources, "limits")
    requests = get_mapping(resources, "requests")
    # An explicit limit becomes the request before LimitRanges apply.
    merged = {
        "limits": {**defaults.limits, **limits},
        "requests": {**defaults.requests, **limits, **requests},
    }
    return {**container, "resources": {**resources, **merged}}


def _has_readable_resources(container: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether the resources of a container are a mapping, or absent (null, too)."""
    return isinstance(container, dict) and isinstance(container.get("resources"), dict | None)


def _apply_multus_networks(
    namespace: str, annotations: Fields, spec: Fields, rules: AdmissionRules
) -> Fields:
    """Return the spec with requests for the devices of the networks in the annotation.

    Report an unknown network, and mark the spec as IN_DOUBT: then the prediction for the
    pod is uncertain.
    """
    # Number of devices by resource.
    needed_resources: Counter[str] = Counter()
    for network in parse_network_names(annotations, namespace):  # (namespace, name)
        if network not in rules.networks:
            title = "/".join(network)
            detail = (
                f"names the network {title}, but no manifest defines it. Its resource request is "
                "not counted."
            )
            annotations.report(
                NETWORKS, detail, Severity.WARNING, summary=f"network {title} is not on the cluster"
            )
            spec = _replace_data(spec, {**spec.data, IN_DOUBT: True})
        elif rules.networks[network]:
            # The resource of its devices; "" without devices.
            needed_resources[rules.networks[network]] += 1
    containers = spec.data.get("containers")
    if not needed_resources or not isinstance(containers, list):
        return spec
    missing_amounts = {
        name: count - _sum_requested(containers, name) for name, count in needed_resources.items()
    }
    return _replace_data(
        spec, {**spec.data, "containers": _add_missing_requests(containers, missing_amounts)}
    )


def parse_network_names(annotations: Fields, namespace: str) -> list[tuple[str, str]]:
    """Return namespace and name of each network of a pod, once per interface.

    The networks annotation names them. The annotation is `ns/name@interface, ...` or JSON. The
    default namespace is the one of the pod.
    """
    text = annotations.get_text(NETWORKS).strip()
    names: list[tuple[str, str]] = []
    if not text.startswith("["):
        for part in text.split(","):
            path, _, _interface = part.strip().partition("@")
            prefix, _, name = path.rpartition("/")
            # "" without one.
            _, _, own_namespace = prefix.rpartition("/")
            names.append((own_namespace or namespace, name))
    else:
        try:
            networks = list_mappings(json.loads(text))
        except ValueError:
            annotations.report(NETWORKS, "is neither a list of names nor JSON.")
            return []
        names += [
            (str(item.get("namespace") or namespace), str(item.get("name") or ""))
            for item in networks
        ]
    return [(own_namespace, name) for own_namespace, name in names if name]


def _sum_requested(containers: Iterable[Any], name: str) -> int:
    """Return the amount of a resource in containers.

    Of each its request counts, else its limit, else 0.
    """
    total = 0
    for container in containers:
        amounts = [
            get_mapping(container, "resources", section) for section in ("requests", "limits")
        ]
        value = next((amount[name] for amount in amounts if name in amount), "0")
        total += read_quantity_or_zero(value).round_to_units()
    return total


def _add_missing_requests(containers: list[Any], missing_amounts: Mapping[str, int]) -> list[Any]:
    """Return the containers, the missing amounts added to the requests of the first one.

    The limits become equal to the requests.
    """
    first_container = next(iter(containers), None)
    if not _has_readable_resources(first_container):
        return containers
    resources = get_mapping(first_container, "resources")
    new_amounts = {
        name: _sum_requested([first_container], name) + missing_amount
        for name, missing_amount in missing_amounts.items()
        if missing_amount > 0
    }
    changes = {
        section: {**get_mapping(resources, section), **new_amounts}
        for section in ("requests", "limits")
    }
    return [{**first_container, "resources": {**resources, **changes}}, *containers[1:]]
