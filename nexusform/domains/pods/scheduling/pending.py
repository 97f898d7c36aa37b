"""Why a pod is Pending, in words: as Kubernetes says it, and what would help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from nexusform.domains.pods.scheduling import profile
from nexusform.domains.pods.scheduling.rules import taints
from nexusform.domains.pods.scheduling.workloads import Node, PodSpec
from nexusform.kubernetes.matching import DOES_NOT_EXIST, NOT_IN, Requirement, holds
from nexusform.scheduling.decision import Refusal
from nexusform.scheduling.kubelet import STORAGE
from nexusform.words import form

_MOST_VALUES = 5
_BY_ABSENCE = (DOES_NOT_EXIST, NOT_IN)


def message(refusals: Iterable[Refusal], nodes: int) -> str:
    """Why a pod is Pending, as Kubernetes prints it: reasons with the number of nodes, in text order."""
    if not nodes:
        return "no nodes available to schedule pods"
    uncounted: set[str] = set()
    tally: Counter[str] = Counter()
    for refusal in refusals:
        if profile.is_of_the_pod(refusal):
            uncounted.add(refusal.reason)
        else:
            tally.update(refusal.reason.split(", "))
    parts = sorted(f"{count} {reason}" for reason, count in tally.items())
    return f"0/{nodes} nodes are available: {', '.join([*sorted(uncounted), *parts])}."


def missing(spec: PodSpec, nodes: Sequence[Node]) -> str:
    """What would help, as sentences: what no node has, and which taints keep the pod away; "" for nothing."""
    return "".join(f" {sentence}." for sentence in (*_lacks(spec, nodes), *_not_tolerated(spec, nodes)))


def lacking(spec: PodSpec, nodes: Sequence[Node]) -> str:
    """What no node has that a pod insists on, or every node that it must not have, as sentences; "" for
    none.
    """
    return "".join(f" {sentence}." for sentence in _lacks(spec, nodes))


def _lacks(spec: PodSpec, nodes: Sequence[Node]) -> list[str]:
    lacks = [f"No node has the label {text}" for text in dict.fromkeys(_labels_nobody_has(spec, nodes))]
    lacks += [f"Every node has the label {text}" for text in dict.fromkeys(_labels_in_the_way(spec, nodes))]
    if nodes:
        offered = set(chain.from_iterable(node.others for node in nodes))
        required = [name for name, amount in spec.requests.others if amount and name != STORAGE]
        lacks += [f"No node has the resource {name}" for name in required if name not in offered]
    return lacks


def _not_tolerated(spec: PodSpec, nodes: Iterable[Node]) -> Iterator[str]:
    """The taints that keep a pod away, the first one of each node."""
    keys: Counter[str] = Counter()
    for node in nodes:
        taint = taints.keeping_away(spec, node)
        if taint is not None:
            keys[taints.written(taint)] += 1
    if keys:
        listed = [f"{key} ({count} {form(count, 'node')})" for key, count in sorted(keys.items())]
        shown = ", ".join(listed[:_MOST_VALUES])
        yield f"Not tolerated: {shown}{', ...' if len(listed) > _MOST_VALUES else ''}"


def _labels_nobody_has(spec: PodSpec, nodes: Sequence[Node]) -> Iterator[str]:
    """The labels that a pod insists on and no node has, with the values that nodes do have."""
    if not nodes:
        return
    for key, value in spec.node_selector:
        values = _values_of(key, nodes)
        if value not in values:
            yield _label(key, f"={value}", values)
    for requirement in _unmet_everywhere(spec, nodes):
        if requirement.operator not in _BY_ABSENCE:
            yield _label(requirement.key, f" {_words(requirement)}", _values_of(requirement.key, nodes))


def _labels_in_the_way(spec: PodSpec, nodes: Sequence[Node]) -> Iterator[str]:
    """The labels that a pod does not want, and every node has, with the values that they have."""
    for requirement in _unmet_everywhere(spec, nodes):
        if requirement.operator in _BY_ABSENCE:
            yield _label(requirement.key, "", _values_of(requirement.key, nodes))


def _unmet_everywhere(spec: PodSpec, nodes: Sequence[Node]) -> Iterator[Requirement]:
    """The requirements of required terms that hold on no node."""
    for requirement in chain.from_iterable(term.labels for term in spec.node_terms or ()):
        if nodes and not any(holds(requirement, node.labels) for node in nodes):
            yield requirement


def _values_of(key: str, nodes: Iterable[Node]) -> set[str]:
    """The values of a label that nodes have."""
    return {node.labels[key] for node in nodes if key in node.labels}


def _label(key: str, condition: str, values: set[str]) -> str:
    """A condition on a label, with the values that there are: `zone=4 (there is 1, 2)`."""
    if not values:
        return f"{key}{condition}"
    shown = ", ".join(sorted(values)[:_MOST_VALUES])
    ellipsis = ", ..." if len(values) > _MOST_VALUES else ""
    return f"{key}{condition} (there is {shown}{ellipsis})"


def _words(requirement: Requirement) -> str:
    """The operator of a requirement with its values: `In (a, b)`."""
    values = f" ({', '.join(requirement.values)})" if requirement.values else ""
    return f"{requirement.operator}{values}"
