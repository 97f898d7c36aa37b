"""Messages for Pending pods: the text of Kubernetes, and hints for a fix."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from nexusform.diagnostics.names import escape_name
from nexusform.diagnostics.phrases import enclose, select_word_form
from nexusform.domains.pods.scheduling import profile
from nexusform.domains.pods.scheduling.cluster_records import Node, PodSpec
from nexusform.domains.pods.scheduling.rules import taints
from nexusform.kubernetes.matching import DOES_NOT_EXIST, NOT_IN, is_requirement_met
from nexusform.scheduling.kubelet import STORAGE
from nexusform.scheduling.placement_decision import Rejection

_MOST_VALUES = 5
_ABSENCE_OPERATORS = (DOES_NOT_EXIST, NOT_IN)


def format_pending_message(rejections: Iterable[Rejection], nodes: int) -> str:
    """Return why a pod is Pending as Kubernetes prints it.

    `nodes` is the number of all nodes. Reasons about the pod alone are first, then those about
    nodes with the number of rejected nodes each. An example for 3 nodes is `0/3 nodes are
    available: 1 Insufficient cpu, 2 Too many pods.`, if none is about the pod.
    """
    if not nodes:
        return "no nodes available to schedule pods"
    pod_reasons: set[str] = set()
    node_counts: Counter[str] = Counter()  # by reason
    for rejection in rejections:
        if profile.is_pod_rejection(rejection):
            pod_reasons.add(rejection.reason)
        else:
            # A node may lack several resources.
            node_counts.update(rejection.reason.split(", "))
    parts = sorted(f"{count} {reason}" for reason, count in node_counts.items())
    return f"0/{nodes} nodes are available: {', '.join([*sorted(pod_reasons), *parts])}."


def describe_missing(spec: PodSpec, nodes: Sequence[Node]) -> str:
    """Return sentences about labels and resources missing on all nodes, and untolerated taints."""
    return describe_unmet(spec, nodes) + _describe_untolerated_taints(spec, nodes)


def describe_unmet(spec: PodSpec, nodes: Sequence[Node]) -> str:
    """Return requirements of a pod unmet on every node, as sentences.

    The result is "" for none, or in a cluster without nodes.
    """
    if not nodes:
        # Every requirement would be unmet.
        return ""
    sentences = list(_list_label_obstacles(spec, nodes))
    # Every node has ephemeral storage.
    known_resources = {STORAGE}.union(*[node.other_resources for node in nodes])
    for name, amount in spec.requests.other_resources:
        if amount and name not in known_resources:
            sentences.append(f" No node has the resource {name}.")
    return "".join(dict.fromkeys(sentences))


def _describe_untolerated_taints(spec: PodSpec, nodes: Iterable[Node]) -> str:
    """Return a sentence with the untolerated taints, the first one of each node; "" without any."""
    # Number of nodes by taint.
    counts: Counter[str] = Counter()
    for node in nodes:
        taint = taints.find_untolerated_taint(spec, node)
        if taint is not None:
            counts[taints.format_taint(taint)] += 1
    texts = [
        f"{taint} ({count} {select_word_form(count, 'node')})"
        for taint, count in sorted(counts.items())
    ]
    return enclose(" Not tolerated: ", join_first_texts(texts), ".")


def join_first_texts(texts: Sequence[str]) -> str:
    """Join the first texts, with an ellipsis in place of the others."""
    ellipsis = ", ..." if len(texts) > _MOST_VALUES else ""
    return ", ".join(map(escape_name, texts[:_MOST_VALUES])) + ellipsis


def _list_label_obstacles(spec: PodSpec, nodes: Sequence[Node]) -> Iterator[str]:
    """Yield a sentence per required label missing on every node, then per excluded label on all."""
    for key, value in spec.node_selector:
        values = _collect_values(key, nodes)
        if value not in values:
            yield f" No node has the label {_format_label(key, f'={value}', values)}."
    # The requirements of required terms unmet on every node.
    requirements = chain.from_iterable(term.labels for term in spec.node_terms or ())
    unmet = [
        item
        for item in requirements
        if not any(is_requirement_met(item, node.labels) for node in nodes)
    ]
    # Those of absence last.
    for requirement in sorted(unmet, key=lambda item: item.operator in _ABSENCE_OPERATORS):
        values = _collect_values(requirement.key, nodes)
        if requirement.operator in _ABSENCE_OPERATORS:
            yield (
                " Every node has the label "
                f"{_format_label(requirement.key, condition='', values=values)}."
            )
        else:
            condition = (
                f" {requirement.operator}{enclose(' (', ', '.join(requirement.values), ')')}"
            )
            yield f" No node has the label {_format_label(requirement.key, condition, values)}."


def _collect_values(key: str, nodes: Iterable[Node]) -> set[str]:
    return {node.labels[key] for node in nodes if key in node.labels}


def _format_label(key: str, condition: str, values: set[str]) -> str:
    """Format a condition on a label with the existing values: `zone=4 (there is 1, 2)`."""
    return f"{key}{condition}{enclose(' (there is ', join_first_texts(sorted(values)), ')')}"
