"""Warnings about hardware: pods that share machines or racks, and topology keys missing on workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from nexusform.diagnostics.phrases import select_word_form
from nexusform.domains.pods.scheduling.cluster_records import HOSTNAME, Node
from nexusform.domains.pods.scheduling.workload_warnings import (
    SHARED_MACHINE,
    SHARED_RACK,
    UNKNOWN_KEY,
    UNLABELLED,
    WorkloadContext,
    WorkloadWarning,
    format_names,
)
from nexusform.kubernetes.matching import is_selected

# Preferred label keys to identify machines.
_KNOWN_HARDWARE_KEYS: Final = ("topology.kubernetes.io/baremetalmachine", "CIS-node", "kubernetes.io/zone")


def find_shared_hardware(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield warnings about pods on one machine; if there are none, about all pods in one rack."""
    if context.workload.kind == "DaemonSet" or len(context.running_outcomes) < 2:
        return
    machine_warnings = list(_warn_shared_machines(context))
    yield from machine_warnings
    if not machine_warnings:
        yield from _warn_shared_rack(context)


def _warn_shared_machines(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield one warning for each machine with two or more of the pods."""
    required_keys, preferred_keys = _list_own_topology_keys(context)
    proposed_label = find_hardware_key(context.nodes, _get_machine, required_keys + preferred_keys)
    for machine, count in sorted(context.forecast.per_machine.items()):
        if count < 2:
            continue
        machine_pods = [pod for pod in context.running_outcomes if context.node_by_name[pod.node].machine == machine]
        pods = [pod.name for pod in machine_pods]
        nodes = sorted({pod.node for pod in machine_pods})
        workers = f"{len(nodes):,} {select_word_form(len(nodes), 'worker')} {format_names(nodes)}"
        detail = (
            f"{count:,} of {len(context.running_outcomes):,} pods ({format_names(pods)}) would run on "
            f"machine {machine} ({workers}). Losing the machine stops them. "
            f"{_explain_shared_hardware(context, proposed_label, 'machines')}"
        )
        summary = f"{count:,} of {len(context.running_outcomes):,} pods would be lost with machine {machine}"
        yield context.build_warning(SHARED_MACHINE, detail, location=machine, summary=summary)


def _warn_shared_rack(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield a warning if all pods are in one rack though workers of another rack could take some."""
    racks = {node.rack for node in context.nodes if node.rack}
    racks_known = all(context.node_by_name[outcome.node].rack for outcome in context.running_outcomes)
    if len(context.forecast.per_rack) != 1 or len(racks) < 2 or not racks_known:
        return
    rack = next(iter(context.forecast.per_rack))
    required_keys, preferred_keys = _list_own_topology_keys(context)
    proposed_label = find_hardware_key(context.nodes, _get_rack, required_keys + preferred_keys)
    pods = tuple(outcome.name for outcome in context.running_outcomes)
    detail = (
        f"all {len(pods):,} pods ({format_names(pods)}) would run in rack {rack}, but workers of "
        f"{len(racks)} racks have capacity. {_explain_shared_hardware(context, proposed_label, 'racks')}"
    )
    summary = f"all {len(pods):,} pods would be lost with rack {rack}; {len(racks)} racks have capacity"
    yield context.build_warning(SHARED_RACK, detail, location=rack, summary=summary)


def _get_machine(node: Node) -> str:
    return node.machine


def _get_rack(node: Node) -> str:
    return node.rack


def find_hardware_key(nodes: Sequence[Node], get_location: Callable[[Node], str], used_keys: Sequence[str] = ()) -> str:
    """Return a label key of the nodes with values that match their locations exactly; "" if there is none. Keys
    in `used` are preferred, then well-known ones.
    """
    located_nodes = [node for node in nodes if get_location(node)]
    if not located_nodes:
        return ""
    keys = [
        key
        for key in sorted(located_nodes[0].labels)
        if key != HOSTNAME and _is_key_of_location(key, located_nodes, get_location)
    ]
    preferred_keys = [key for key in (*used_keys, *_KNOWN_HARDWARE_KEYS) if key in keys]
    return next(iter(preferred_keys + keys), "")


def _is_key_of_location(key: str, nodes: Sequence[Node], get_location: Callable[[Node], str]) -> bool:
    """Return whether all nodes have the key, with one value per location and one location per value."""
    location_by_value: dict[str, str] = {}
    for node in nodes:
        value = node.labels.get(key)
        if value is None or location_by_value.setdefault(value, get_location(node)) != get_location(node):
            return False
    return len(location_by_value) == len(set(location_by_value.values()))


def _list_own_topology_keys(context: WorkloadContext) -> tuple[list[str], list[str]]:
    """Return the topology keys by which a workload separates its own pods: required and preferred ones."""
    pod = context.workload.pod
    labels = dict(pod.labels)
    required_keys = [term.topology_key for term in context.select_own_terms(pod.anti_affinity)]
    preferred_keys = [term.topology_key for term in context.select_own_terms(pod.preferred_anti_affinity)]
    for constraint in pod.spread:
        if constraint.selector is not None and is_selected(constraint.selector, labels):
            keys = required_keys if constraint.is_hard else preferred_keys
            keys.append(constraint.topology_key)
    return list(dict.fromkeys(required_keys)), list(dict.fromkeys(preferred_keys))


def _explain_shared_hardware(context: WorkloadContext, proposed_label: str, location_noun: str) -> str:
    """Return why the rules do not separate the pods and how to fix it; `location_noun`: machines or racks."""
    required_keys, preferred_keys = _list_own_topology_keys(context)
    # Nodes with unknown hardware may lack the key.
    domains = {node.labels[proposed_label] for node in context.nodes if proposed_label in node.labels}
    if proposed_label and len(domains) < context.workload.replicas:
        return _explain_too_few(
            context, proposed_label, f"{len(domains)} {location_noun}", has_one_value=len(domains) == 1
        )
    if proposed_label and proposed_label in required_keys:
        return f"Its rule over {proposed_label} allows that. Use anti-affinity over it to separate them."
    if proposed_label and proposed_label in preferred_keys:
        return f"Its rule over {proposed_label} is only preferred. Make it required."
    keys = required_keys + preferred_keys
    if keys:
        negation = "does not" if len(keys) == 1 else "do not"
        cause = f"Its rules use {' and '.join(keys)}, which {negation} distinguish {location_noun}"
    else:
        cause = "It has no rule that separates its pods"
    if not proposed_label:
        return (
            f"{cause}, and no label of its workers distinguishes {location_noun}. Add hardware labels to the workers."
        )
    return f"{cause}. Use topologyKey: {proposed_label}."


def _explain_too_few(context: WorkloadContext, proposed_label: str, location_noun: str, *, has_one_value: bool) -> str:
    """Return the advice for a key with fewer values than pods; `has_one_value`: only one."""
    # Required anti-affinity would leave pods Pending, so it is no advice.
    required_keys, preferred_keys = _list_own_topology_keys(context)
    if has_one_value and proposed_label in preferred_keys:
        return (
            f"Its rule over {proposed_label} is only preferred, but all its workers are there. Add workers elsewhere."
        )
    if has_one_value:
        key = "" if proposed_label in required_keys else f" and a rule with topologyKey: {proposed_label}"
        return f"All its workers are there, so no rule can separate its pods. Add workers elsewhere{key}."
    text = f"Its workers run on {location_noun}, fewer than its {context.workload.replicas:,} pods"
    if proposed_label in required_keys:
        return f"{text}: some must share."
    requirement = " required" if proposed_label in preferred_keys else ""
    return f"{text}. Add a{requirement} topologySpreadConstraint with topologyKey: {proposed_label}."


def find_missing_topology_labels(context: WorkloadContext) -> Iterator[WorkloadWarning]:
    """Yield warnings about topology keys used in rules and missing on all or some workers."""
    proposed_label = find_hardware_key(context.nodes, _get_machine)
    # Every topology key of a spec with its use, each pair once.
    pod = context.workload.pod
    preferred_terms = (*pod.preferred_affinity, *pod.preferred_anti_affinity)
    uses = [(term.topology_key, _ANTI_AFFINITY) for term in pod.anti_affinity]
    uses += [(term.topology_key, _AFFINITY) for term in pod.affinity]
    uses += [(constraint.topology_key, _SPREAD if constraint.is_hard else _PREFERENCE) for constraint in pod.spread]
    uses += [(term.topology_key, _PREFERENCE) for term in preferred_terms]
    for key, use in dict.fromkeys(uses):
        unlabelled_nodes = tuple(node.name for node in context.nodes if key not in node.labels)
        if not unlabelled_nodes:
            continue
        if len(unlabelled_nodes) == len(context.nodes):
            hint = f" Workers have the label {proposed_label}." if proposed_label and proposed_label != key else ""
            detail = f"no feasible worker has the label {key}: {_EFFECTS[use]}.{hint}"
            unknown_key_warning = context.build_warning(
                UNKNOWN_KEY, detail, summary=f"{_RULES_OVER_KEYS[use]} uses {key}, which no worker has"
            )
            yield unknown_key_warning
        elif use == _ANTI_AFFINITY:
            yield _build_unlabelled_warning(context, key, unlabelled_nodes)


_ANTI_AFFINITY, _AFFINITY, _SPREAD, _PREFERENCE = "anti-affinity", "affinity", "spread", "wish"
_EFFECTS: Final = {
    _ANTI_AFFINITY: "the required anti-affinity over it rejects no node, so pods are not separated",
    _AFFINITY: "the required affinity over it cannot hold, and the pods stay Pending",
    _SPREAD: "the spread constraint over it rejects every worker, and the pods stay Pending",
    _PREFERENCE: "the preference over it has no effect",
}
_RULES_OVER_KEYS: Final = {
    _ANTI_AFFINITY: "its required anti-affinity",
    _AFFINITY: "its required affinity",
    _SPREAD: "its spread constraint",
    _PREFERENCE: "its preference",
}


def _build_unlabelled_warning(context: WorkloadContext, key: str, unlabelled_nodes: tuple[str, ...]) -> WorkloadWarning:
    count = len(unlabelled_nodes)
    workers = (
        f"{count:,} {select_word_form(count, 'worker')} {format_names(unlabelled_nodes)} "
        f"{select_word_form(count, 'lacks', 'lack')}"
    )
    detail = f"{workers} the label {key}, so the required anti-affinity over it has no effect there. Label all workers."
    summary = f"{count:,} {select_word_form(count, 'worker')} {select_word_form(count, 'lacks', 'lack')}"
    return context.build_warning(UNLABELLED, detail, summary=f"{summary} the label {key} of its anti-affinity")
