"""Risks that hardware knows: pods that share machines or racks, and topology keys that workers lack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from nexusform.domains.pods.scheduling.risks import (
    SHARED_MACHINE,
    SHARED_RACK,
    UNKNOWN_KEY,
    UNLABELLED,
    PodWarning,
    Scene,
    few,
)
from nexusform.domains.pods.scheduling.workloads import HOSTNAME, Node, PodSpec
from nexusform.kubernetes.matching import matches
from nexusform.words import form

# Of several labels that tell machines apart, the one to propose.
_KNOWN_HARDWARE_KEYS: Final = ("topology.kubernetes.io/baremetalmachine", "CIS-node", "kubernetes.io/zone")


# --- hardware ----------------------------------------------------------------------------------


def shared_hardware(scene: Scene) -> Iterator[PodWarning]:
    """Pods that share machines; where none do, pods that all share one rack."""
    if scene.workload.kind == "DaemonSet" or len(scene.running) < 2:
        return
    shared = list(_shared_machines(scene))
    yield from shared
    if not shared:
        yield from _shared_rack(scene)


def _shared_machines(scene: Scene) -> Iterator[PodWarning]:
    """One warning for each machine with two or more of the pods."""
    required, preferred = _keys(scene)
    proposed = proposed_key(scene.nodes, _machine, required + preferred)
    for machine, count in sorted(scene.forecast.per_machine.items()):
        if count < 2:
            continue
        on_machine = [pod for pod in scene.running if scene.by_name[pod.node].machine == machine]
        pods = [pod.name for pod in on_machine]
        nodes = sorted({pod.node for pod in on_machine})
        workers = f"{len(nodes):,} {form(len(nodes), 'worker')} {few(nodes)}"
        detail = (
            f"{count:,} of {len(scene.running):,} pods ({few(pods)}) would run on machine {machine} "
            f"({workers}) and be lost with it. {_why(scene, proposed, 'machines')}"
        )
        brief = f"{count:,} of {len(scene.running):,} pods would be lost with machine {machine}"
        yield scene.warn(SHARED_MACHINE, detail, place=machine, brief=brief)


def _shared_rack(scene: Scene) -> Iterator[PodWarning]:
    """All pods in one rack, though workers of another one could take some."""
    racks = {node.rack for node in scene.nodes if node.rack}
    racks_known = all(scene.by_name[outcome.node].rack for outcome in scene.running)
    if len(scene.forecast.per_rack) != 1 or len(racks) < 2 or not racks_known:
        return
    rack = next(iter(scene.forecast.per_rack))
    required, preferred = _keys(scene)
    proposed = proposed_key(scene.nodes, _rack, required + preferred)
    pods = tuple(outcome.name for outcome in scene.running)
    detail = (
        f"all {len(pods):,} pods ({few(pods)}) would run in rack {rack}, though workers of {len(racks)} "
        f"racks could take them. {_why(scene, proposed, 'racks')}"
    )
    brief = f"all {len(pods):,} pods would be lost with rack {rack}, and {len(racks)} racks could take them"
    yield scene.warn(SHARED_RACK, detail, place=rack, brief=brief)


def _machine(node: Node) -> str:
    return node.machine


def _rack(node: Node) -> str:
    return node.rack


def proposed_key(nodes: Sequence[Node], place: Callable[[Node], str], used: Sequence[str] = ()) -> str:
    """A label key that the nodes have and whose values are exactly their places; "" when there is none.

    Of several, one that is `used` already comes first, then the well-known ones.
    """
    located = [node for node in nodes if place(node)]
    if not located:
        return ""
    keys = [key for key in sorted(located[0].labels) if key != HOSTNAME and _tells_apart(key, located, place)]
    preferred = [key for key in (*used, *_KNOWN_HARDWARE_KEYS) if key in keys]
    return next(iter(preferred + keys), "")


def _tells_apart(key: str, nodes: Sequence[Node], place: Callable[[Node], str]) -> bool:
    """Whether all nodes have the key, each value stands for one place, and each place for one value."""
    place_of: dict[str, str] = {}
    for node in nodes:
        value = node.labels.get(key)
        if value is None or place_of.setdefault(value, place(node)) != place(node):
            return False
    return len(place_of) == len(set(place_of.values()))


def _keys(scene: Scene) -> tuple[list[str], list[str]]:
    """The keys over which a workload keeps its own pods apart: those that must hold, those that may not."""
    pod = scene.workload.pod
    labels = dict(pod.labels)
    required = [term.topology_key for term in scene.about_itself(pod.anti_affinity)]
    preferred = [term.topology_key for term in scene.about_itself(pod.preferred_anti_affinity)]
    for constraint in pod.spread:
        if constraint.selector is not None and matches(constraint.selector, labels):
            keys = required if constraint.hard else preferred
            keys.append(constraint.topology_key)
    return list(dict.fromkeys(required)), list(dict.fromkeys(preferred))


def _why(scene: Scene, proposed: str, places: str) -> str:
    """Why its rules did not keep the pods apart, and what to do; `places` are machines or racks."""
    required, preferred = _keys(scene)
    # Nodes of which nobody knows where they stand may lack the key.
    domains = {node.labels[proposed] for node in scene.nodes if proposed in node.labels}
    if proposed and len(domains) < scene.workload.replicas:
        return _too_few(scene, proposed, f"{len(domains)} {places}", alone=len(domains) == 1)
    if proposed and proposed in required:
        return f"Its rule over {proposed} lets that happen; anti-affinity over it would keep them apart."
    if proposed and proposed in preferred:
        return f"Its rule over {proposed} is only preferred; make it required to forbid that."
    keys = required + preferred
    if keys:
        fail = "does not" if len(keys) == 1 else "do not"
        cause = f"Its rules use {' and '.join(keys)}, which {fail} tell {places} apart"
    else:
        cause = "It has no rule that keeps its pods apart"
    if not proposed:
        return f"{cause}, and no label of its workers tells {places} apart: label them with their hardware."
    return f"{cause}. Use topologyKey: {proposed}."


def _too_few(scene: Scene, proposed: str, places: str, *, alone: bool) -> str:
    """What to do where a key that tells places apart has fewer values than pods; `alone`: only one."""
    # Required anti-affinity would leave pods Pending, so it is no advice.
    required, preferred = _keys(scene)
    if alone and proposed in preferred:
        return f"Its rule over {proposed} is only preferred, but all its workers are there: it needs others."
    if alone:
        key = "" if proposed in required else f", and then topologyKey: {proposed}"
        return f"All its workers are there, so that no rule keeps its pods apart: it needs others{key}."
    text = f"Its workers stand on {places}, fewer than its {scene.workload.replicas:,} pods"
    if proposed in required:
        return f"{text}: some have to share."
    wish = " required" if proposed in preferred else ""
    return f"{text}: a{wish} topologySpreadConstraint with topologyKey: {proposed} evens them out."


# --- topology keys ------------------------------------------------------------------------------


def missing_labels(scene: Scene) -> Iterator[PodWarning]:
    """Topology keys that the rules use, and that no worker has, or that some lack."""
    proposed = proposed_key(scene.nodes, _machine)
    for key, use in _uses_of_keys(scene.workload.pod):
        lacking = tuple(node.name for node in scene.nodes if key not in node.labels)
        if not lacking:
            continue
        if len(lacking) == len(scene.nodes):
            yield _unknown_key(scene, key, use, proposed)
        elif use == _ANTI_AFFINITY:
            yield _unlabelled(scene, key, lacking)


_ANTI_AFFINITY, _AFFINITY, _SPREAD, _WISH = "anti-affinity", "affinity", "spread", "wish"
_EFFECTS: Final = {
    _ANTI_AFFINITY: "the required anti-affinity over it refuses nothing, and pods are not kept apart",
    _AFFINITY: "the required affinity over it cannot hold, and the pods stay Pending",
    _SPREAD: "the spread constraint over it refuses every worker, and the pods stay Pending",
    _WISH: "the preference over it has no effect",
}
_RULES_OVER_KEYS: Final = {
    _ANTI_AFFINITY: "its required anti-affinity",
    _AFFINITY: "its required affinity",
    _SPREAD: "its spread constraint",
    _WISH: "its preference",
}


def _uses_of_keys(pod: PodSpec) -> Iterable[tuple[str, str]]:
    """Every topology key of a spec with what it is used for, each pair once."""
    wishes = (*pod.preferred_affinity, *pod.preferred_anti_affinity)
    uses = [(term.topology_key, _ANTI_AFFINITY) for term in pod.anti_affinity]
    uses += [(term.topology_key, _AFFINITY) for term in pod.affinity]
    uses += [(constraint.topology_key, _SPREAD if constraint.hard else _WISH) for constraint in pod.spread]
    uses += [(term.topology_key, _WISH) for term in wishes]
    return dict.fromkeys(uses)


def _unknown_key(scene: Scene, key: str, use: str, proposed: str) -> PodWarning:
    hint = f" A key that they have is {proposed}." if proposed and proposed != key else ""
    detail = f"no worker that could take its pods has the label {key}: {_EFFECTS[use]}.{hint}"
    return scene.warn(
        UNKNOWN_KEY, detail, brief=f"{_RULES_OVER_KEYS[use]} goes by {key}, which no worker has"
    )


def _unlabelled(scene: Scene, key: str, lacking: tuple[str, ...]) -> PodWarning:
    count = len(lacking)
    workers = f"{count:,} {form(count, 'worker')} {few(lacking)} {form(count, 'lacks', 'lack')}"
    detail = (
        f"{workers} the label {key}, so the required anti-affinity over it never keeps pods off there. "
        "Label all workers."
    )
    lack = f"{count:,} {form(count, 'worker')} {form(count, 'lacks', 'lack')}"
    return scene.warn(UNLABELLED, detail, brief=f"{lack} the label {key}, by which its pods keep apart")
