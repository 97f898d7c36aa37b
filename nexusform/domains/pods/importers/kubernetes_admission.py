"""What a cluster's own objects do to a pod before it is scheduled: RuntimeClasses, LimitRanges, Multus.

The pod is changed as the API server's admission changes it, and read afterwards. Sources: kubernetes
plugin/pkg/admission/{runtimeclass,limitranger}, pkg/apis/core/v1/defaults.go (LimitRangeItem), and the
network-resources-injector of k8snetworkplumbingwg.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from nexusform.diagnostics import Severity
from nexusform.documents.shapes import mapping_at, mappings_at
from nexusform.domains.pods.importers.kubernetes_manifests import Fields, Manifest
from nexusform.domains.pods.importers.kubernetes_pod_spec import read_selector
from nexusform.domains.pods.scheduling.workloads import Budget, Quota, QuotaScope
from nexusform.kubernetes.matching import EXISTS
from nexusform.kubernetes.quantity import Malformed, parse_quantity

NETWORKS: Final = "k8s.v1.cni.cncf.io/networks"
_NETWORK_RESOURCE: Final = "k8s.v1.cni.cncf.io/resourceName"
_CONTAINERS: Final = ("initContainers", "containers")

# What is written of a resource, by its name: "500m", 2, "1Gi".
Written = dict[str, Any]


class Defaults(Struct, frozen=True):
    """What LimitRanges of one namespace fill in for containers that leave it out."""

    requests: Written
    limits: Written


class Bounds(Struct, frozen=True):
    """What one LimitRange lets a container or (`of` = Pod) a whole pod ask for, as written."""

    of: str
    least: Written
    most: Written


class PodRules(Struct, frozen=True):
    """The objects of a cluster that change its pods.

    `runtimes` by name, `defaults` by namespace, `networks` by namespace and name: the resource that each asks
    for, None where it asks for none. `bounds` by namespace.
    """

    runtimes: Mapping[str, Manifest] = field(default_factory=dict)
    defaults: Mapping[str, Defaults] = field(default_factory=dict)
    networks: Mapping[tuple[str, str], str | None] = field(default_factory=dict)
    bounds: Mapping[str, Sequence[Bounds]] = field(default_factory=dict)


def read_pod_rules(manifests: Iterable[Manifest]) -> PodRules:
    """The rules that a cluster with these objects has."""
    runtimes: dict[str, Manifest] = {}
    defaults: dict[str, Defaults] = {}
    networks: dict[tuple[str, str], str | None] = {}
    bounds: dict[str, list[Bounds]] = {}
    for manifest in manifests:
        match manifest.group, manifest.kind:
            case "node.k8s.io", "RuntimeClass":
                runtimes[manifest.name] = manifest
            case "", "LimitRange":
                _add_defaults(defaults, manifest)
                bounds.setdefault(manifest.namespace, []).extend(_bounds(manifest))
            case "k8s.cni.cncf.io", "NetworkAttachmentDefinition":
                annotations = _quiet(manifest).at("metadata").at("annotations")
                resource = annotations.text(_NETWORK_RESOURCE) or None
                # A namespaced object of a group that nobody knows: without a namespace it is in "default".
                networks[manifest.namespace or "default", manifest.name] = resource
    return PodRules(runtimes, defaults, networks, bounds)


def _quiet(manifest: Manifest) -> Fields:
    """An object that is read beside the pods that it changes; what is wrong with it is its own matter."""
    return Fields(manifest, [], manifest.body)


def _add_defaults(defaults: dict[str, Defaults], manifest: Manifest) -> None:
    """Note what a LimitRange fills into containers of its namespace; the first one counts."""
    known = defaults.setdefault(manifest.namespace, Defaults({}, {}))
    for item in _quiet(manifest).at("spec").each("limits"):
        if item.text("type") != "Container":
            continue
        # Kubernetes fills a LimitRange in like this when it is made.
        limits = {**item.at("max").data, **item.at("default").data}
        requests = {**item.at("min").data, **limits, **item.at("defaultRequest").data}
        known.limits.update({name: value for name, value in limits.items() if name not in known.limits})
        known.requests.update({name: value for name, value in requests.items() if name not in known.requests})


def _bounds(manifest: Manifest) -> Iterator[Bounds]:
    for item in _quiet(manifest).at("spec").each("limits"):
        if item.text("type") in ("Container", "Pod"):
            yield Bounds(item.text("type"), dict(item.at("min").data), dict(item.at("max").data))


def forbidden(namespace: str, spec: Fields, rules: PodRules) -> str:
    """Why LimitRanges let no such pod (as admitted) be made, in Kubernetes' words; "" where they do."""
    containers = [*spec.each("containers"), *spec.each("initContainers")]
    for container in containers:
        reason = _above_its_limit(container.at("resources"))
        if reason:
            return reason
    for bounds in rules.bounds.get(namespace, ()):
        whole = bounds.of == "Pod"
        parts = [list(spec.each("containers"))] if whole else [[container] for container in containers]
        for part in parts:
            reason = _out_of_bounds(bounds, part)
            if reason:
                return reason
    return ""


def _above_its_limit(resources: Fields) -> str:
    """How a request is above the limit that a LimitRange may have filled in, as a clause; "" when none is."""
    for name, written in resources.at("requests").data.items():
        request, limit = _nano(resources, "requests", name), _nano(resources, "limits", name)
        if request is not None and limit is not None and request > limit:
            ceiling = resources.at("limits").data[name]
            return f"its request of {written} {name} must be less than or equal to the limit of {ceiling}"
    return ""


def _out_of_bounds(bounds: Bounds, containers: Sequence[Fields]) -> str:
    """How containers break the bounds of a LimitRange, as a clause; "" when they do not."""
    for of, word, end, written in (
        ("requests", "minimum", "request", bounds.least),
        ("limits", "maximum", "limit", bounds.most),
    ):
        for name, bound in written.items():
            edge = parse_quantity(str(bound))
            amounts = [_nano(container.at("resources"), of, name) for container in containers]
            if isinstance(edge, Malformed):
                continue
            per = f"{word} {name} usage per {bounds.of} is {bound}"
            if None in amounts:
                return f"{per}. No {end} is specified"
            total = sum(amount for amount in amounts if amount is not None)
            is_out = total < edge.nano if of == "requests" else total > edge.nano
            if is_out:
                return f"{per}, but {end} is {total / 10**9:g}"
    return ""


def _nano(resources: Fields, of: str, name: str) -> int | None:
    written = resources.at(of).data.get(name)
    if written is None and of == "requests":
        written = resources.at("limits").data.get(name)
    quantity = None if written is None else parse_quantity(str(written))
    return None if quantity is None or isinstance(quantity, Malformed) else quantity.nano


# --- quotas and budgets ------------------------------------------------------------------------


def read_quotas(manifests: Iterable[Manifest]) -> tuple[Quota, ...]:
    """The ResourceQuotas of a cluster with these objects."""
    quotas = []
    for manifest in manifests:
        if (manifest.group, manifest.kind) == ("", "ResourceQuota"):
            spec = _quiet(manifest).at("spec")
            scopes = [QuotaScope(name) for name in spec.texts("scopes")]
            for item in spec.at("scopeSelector").each("matchExpressions"):
                operator = item.text("operator", EXISTS)
                scopes.append(QuotaScope(item.text("scopeName"), operator, item.texts("values")))
            quotas.append(Quota(manifest.namespace, manifest.name, _hard(spec.at("hard")), tuple(scopes)))
    return tuple(quotas)


def read_budgets(manifests: Iterable[Manifest]) -> tuple[Budget, ...]:
    """The PodDisruptionBudgets of a cluster with these objects, as far as they select pods."""
    budgets = []
    for manifest in manifests:
        if (manifest.group, manifest.kind) == ("policy", "PodDisruptionBudget"):
            spec = _quiet(manifest).at("spec")
            selector = read_selector(spec, "selector")
            amounts = [spec.data.get(name) for name in ("minAvailable", "maxUnavailable")]
            least, most = ["" if amount is None else str(amount) for amount in amounts]
            if selector is not None:
                budgets.append(Budget(manifest.namespace, manifest.name, selector, least, most))
    return tuple(budgets)


def _hard(fields: Fields) -> tuple[tuple[str, int], ...]:
    hard = []
    for name, written in fields.data.items():
        quantity = parse_quantity(str(written))
        if not isinstance(quantity, Malformed):
            hard.append((name, quantity.milli() if name.endswith("cpu") else quantity.whole()))
    return tuple(hard)


# --- pods --------------------------------------------------------------------------------------


class _Visit(Struct, frozen=True):
    # One pod on its way through admission.
    namespace: str
    metadata: Fields
    spec: Fields
    rules: PodRules


def admitted(namespace: str, metadata: Fields, spec: Fields, rules: PodRules) -> Fields:
    """The spec of a pod as it is when the scheduler sees it."""
    for step in _STEPS:
        changed = step(_Visit(namespace, metadata, spec, rules))
        if changed is not None:
            spec = Fields(spec.manifest, spec.findings, changed, *spec.path)
    return spec


def _runtime_class(visit: _Visit) -> Written | None:
    """The pod with what its RuntimeClass adds: overhead, node selector, tolerations."""
    spec, name = visit.spec, visit.spec.text("runtimeClassName")
    if not name:
        return None
    runtime = visit.rules.runtimes.get(name)
    if runtime is None:
        detail = (
            f'names the RuntimeClass "{name}", which no manifest here defines; its overhead, nodeSelector '
            "and tolerations are not known."
        )
        brief = f"RuntimeClass {name} is not on the cluster"
        spec.say("runtimeClassName", detail, Severity.WARNING, brief=brief)
        return None
    body = _quiet(runtime)
    scheduling = body.at("scheduling")
    own, more = spec.pairs("nodeSelector"), scheduling.pairs("nodeSelector")
    for key in sorted(own.keys() & more.keys()):
        if own[key] != more[key]:
            detail = (
                f'has {key}={own[key]}, but RuntimeClass "{name}" insists on {more[key]}: no pod is made.'
            )
            spec.say("nodeSelector", detail)
    changed = {**spec.data, "nodeSelector": {**own, **more}}
    tolerations = [*spec.list("tolerations"), *scheduling.list("tolerations")]
    overhead = body.at("overhead").at("podFixed").data
    if tolerations:
        changed["tolerations"] = tolerations
    if overhead and "overhead" not in spec:
        changed["overhead"] = overhead
    return changed


def _limit_ranges(visit: _Visit) -> Written | None:
    """The pod with the requests and limits that LimitRanges of its namespace fill in."""
    defaults = visit.rules.defaults.get(visit.namespace)
    if defaults is None:
        return None
    changed = dict(visit.spec.data)
    for of in _CONTAINERS:
        containers = changed.get(of)
        if isinstance(containers, list):
            changed[of] = [_filled_in(container, defaults) for container in containers]
    return changed


def _filled_in(container: Any, defaults: Defaults) -> Any:
    """A container with defaults where it says nothing itself."""
    resources = container.get("resources", {}) if isinstance(container, dict) else None
    if not isinstance(resources, dict):
        return container
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if not isinstance(limits, dict) or not isinstance(requests, dict):
        return container
    # A limit of its own was made its request before LimitRanges are asked.
    asked = {**defaults.requests, **limits, **requests}
    return {
        **container,
        "resources": {**resources, "limits": {**defaults.limits, **limits}, "requests": asked},
    }


def _networks(visit: _Visit) -> Written | None:
    """The pod asking for the devices of the networks that its annotation names."""
    annotations = visit.metadata.at("annotations")
    named = _networks_named(annotations, visit.namespace)
    needed: Counter[str] = Counter()
    for name in named:
        if name not in visit.rules.networks:
            detail = (
                f"names the network {'/'.join(name)}, which no manifest here defines; a resource that "
                "it may ask for is not counted."
            )
            brief = f"network {'/'.join(name)} is not on the cluster"
            annotations.say(NETWORKS, detail, Severity.WARNING, brief=brief)
        resource = visit.rules.networks.get(name)
        if resource:
            needed[resource] += 1
    containers = visit.spec.data.get("containers")
    if not needed or not isinstance(containers, list):
        return None
    missing = {name: count - _asked(containers, name) for name, count in needed.items()}
    return {**visit.spec.data, "containers": _topped_up(containers, missing)}


def _networks_named(annotations: Fields, namespace: str) -> list[tuple[str, str]]:
    """Namespace and name of each network, once per interface."""
    text = annotations.text(NETWORKS).strip()
    if not text.startswith("["):
        parts = [part.strip().partition("@")[0] for part in text.split(",")]
        return [_namespaced(part, namespace) for part in parts if part]
    try:
        items = json.loads(text)
    except ValueError:
        annotations.say(NETWORKS, "is neither a list of names nor JSON.")
        return []
    networks = [item for item in mappings_at(items) if item.get("name")]
    return [(str(item.get("namespace") or namespace), str(item["name"])) for item in networks]


def _namespaced(text: str, namespace: str) -> tuple[str, str]:
    before, slash, name = text.rpartition("/")
    return (before, name) if slash else (namespace, text)


def _asked(containers: Iterable[Any], name: str) -> int:
    """How many of a resource the containers ask for themselves."""
    asked = 0
    for container in containers:
        amounts = [mapping_at(container, "resources", of) for of in ("requests", "limits")]
        written = next((amount[name] for amount in amounts if name in amount), "0")
        quantity = parse_quantity(str(written))
        asked += 0 if isinstance(quantity, Malformed) else quantity.whole()
    return asked


def _topped_up(containers: list[Any], missing: Mapping[str, int]) -> list[Any]:
    """The first container asks for what the pod's networks need and nobody asks for yet."""
    first = containers[0] if containers else None
    if not isinstance(first, dict) or not isinstance(first.get("resources", {}), dict):
        return containers
    resources = first.get("resources") or {}
    changed = dict(resources)
    for of in ("requests", "limits"):
        own = resources.get(of) or {}
        more = {name: _asked([first], name) + count for name, count in missing.items() if count > 0}
        changed[of] = {**own, **more} if isinstance(own, dict) else own
    return [{**first, "resources": changed}, *containers[1:]]


# In the order in which the API server runs them.
_STEPS: Final[tuple[Callable[[_Visit], Written | None], ...]] = (_limit_ranges, _runtime_class, _networks)
