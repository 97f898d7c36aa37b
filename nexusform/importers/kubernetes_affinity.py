"""Selectors, affinity, tolerations and spread constraints of a pod template -> the scheduler's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from nexusform.importers.manifest_fields import Fields
from nexusform.scheduling.matching import (
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
from nexusform.scheduling.pods.model import NodeTerm, PodTerm, SpreadConstraint

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
        required = tuple(_node_term(term) for term in block.each("nodeSelectorTerms"))
        if not required:
            block.say("nodeSelectorTerms", "needs at least one term.")
    preferred = tuple(
        (item.whole("weight", 1, least=1), _node_term(item.at("preference")))
        for item in fields.each(_PREFERRED)
    )
    return NodeAffinity(required, preferred)


def _node_term(fields: Fields) -> NodeTerm:
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
    topology_key = fields.text("topologyKey")
    if not topology_key:
        fields.say("topologyKey", "must not be empty.")
    selector = _with_label_keys(fields, read_selector(fields, "labelSelector"), labels)
    written = fields.texts("namespaces")
    namespace_selector = read_selector(fields, "namespaceSelector")
    namespaces = tuple(sorted(set(written)))
    if not namespaces and namespace_selector is None:
        namespaces = (namespace,)
    return PodTerm(topology_key, selector, namespaces, namespace_selector, weight)


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
        tolerations.append(Toleration(key, operator, fields.text("value"), effect))
    return tuple(tolerations)
