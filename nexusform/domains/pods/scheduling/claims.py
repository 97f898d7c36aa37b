"""Which claim gets which volume, while pods are being decided.

A claim whose class waits for its first pod takes a volume with the pod's node: the smallest that fits and
that the node reaches, else one is made there. A claim of any other class is bound as soon as it exists,
whatever its pods want. Source: kubernetes pkg/scheduler/framework/plugins/volumebinding, FindMatchingVolume
of component-helpers/storage/volume, and (by access modes, at once) pkg/controller/volume/persistentvolume.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec.structs import replace

from nexusform.domains.pods.scheduling.rules.node_affinity import term_holds
from nexusform.domains.pods.scheduling.workloads import (
    HOSTNAME,
    Claim,
    Cluster,
    Node,
    NodeTerm,
    PodSpec,
    StandingPod,
    Volume,
    VolumeNeed,
)
from nexusform.kubernetes.matching import IN, Requirement, matches

# In place of a volume's name: one that was made for the claim, wherever its class makes them.
_MADE: Final = ""
_NAME: Final = "metadata.name"


class Claims:
    """The claims of a cluster's pods and the volumes that they have."""

    def __init__(self, cluster: Cluster, standing: Iterable[StandingPod] = ()) -> None:
        self._nodes = cluster.nodes
        self._by_name = {node.name: node for node in cluster.nodes}
        self._volumes = {volume.name: volume for volume in cluster.volumes}
        self._awaited = {volume.claim: volume for volume in cluster.volumes if volume.claim}
        self._free = sorted(
            (volume for volume in cluster.volumes if not volume.claim),
            key=lambda volume: (volume.size, volume.name),
        )
        self._wrong = dict(cluster.wrong)
        self._bound: dict[str, str] = {}
        self._held: set[str] = set()
        # By what a claim asks for: the free volumes that it could take, the smallest first; and of these, by
        # node, those that are reached from there. Held ones are dropped when they are met.
        self._fitting: dict[Claim, list[Volume]] = {}
        self._reached: dict[Claim, list[list[Volume]]] = {}
        self._stand(standing)
        for claim in cluster.claims:
            self._bind_at_once(claim, claim.name)

    # --- what stands ----------------------------------------------------------------------------

    def _stand(self, standing: Iterable[StandingPod]) -> None:
        """Bind the claims of pods that stand: as is remembered, else as their nodes tell. What may have been
        made was made: a volume that was taken is remembered.
        """
        pods = sorted(
            (pod for pod in standing if pod.volumes or pod.spec.claims),
            key=lambda pod: (pod.workload, pod.number),
        )
        for pod in pods:
            for claim, volume in pod.volumes:
                self._bind(claim, volume)
        for pod in pods:
            if pod.node:
                self._bind_made(pod.spec, pod.number)
                node = self._by_name.get(pod.node) or Node(pod.node, {HOSTNAME: pod.node})
                self._bind_on(pod.spec, pod.number, node)

    def _bind_made(self, spec: PodSpec, number: int) -> None:
        """Bind what a standing pod claims, where its class makes volumes, to ones that were made."""
        for claim in spec.claims:
            name = claim.of(number)
            if claim.made != () and name not in self._bound and not self._bind_awaited(claim, name):
                self._bind(name, _MADE)

    def _bind_on(self, spec: PodSpec, number: int, node: Node) -> None:
        """Bind what a pod claims, and that is not bound yet, to what fits best on its node."""
        for claim in sorted(spec.claims, key=lambda claim: claim.size):
            name = claim.of(number)
            if name not in self._bound and not self._bind_awaited(claim, name):
                fitting = self._unheld(self._all_fitting(claim))
                best = next((volume for volume in fitting if _reaches(volume.terms, node)), None)
                self._bind(name, best.name if best is not None else _MADE)

    # --- a pod that comes -----------------------------------------------------------------------

    def settle(self, spec: PodSpec, number: int) -> None:
        """A pod was made, and its claims with it: bind those that wait for nobody."""
        for claim in spec.claims:
            self._bind_at_once(claim, claim.of(number))

    def needs(self, spec: PodSpec, number: int) -> tuple[VolumeNeed, ...]:
        """Where a pod can go for its claims, as they stand now."""
        needs = [self._need(claim, claim.of(number)) for claim in spec.claims]
        waiting = [claim for claim in spec.claims if claim.waits and claim.of(number) not in self._bound]
        if waiting:
            needs.append(self._together(waiting))
        return tuple(need for need in needs if need is not None)

    def take(self, spec: PodSpec, number: int, node: str) -> None:
        """A pod got this node: its claims have their volumes."""
        if spec.claims:
            self._bind_on(spec, number, self._by_name[node])

    def held(self, spec: PodSpec, number: int) -> tuple[tuple[str, str], ...]:
        """The claims of a pod that have one of the cluster's volumes, each with its name."""
        names = [claim.of(number) for claim in spec.claims]
        volumes = [self._bound.get(name, _MADE) for name in names]
        return tuple((name, volume) for name, volume in zip(names, volumes, strict=True) if volume != _MADE)

    # --- one claim ------------------------------------------------------------------------------

    def _bind(self, claim: str, volume: str) -> None:
        self._bound[claim] = volume
        if volume != _MADE:
            self._held.add(volume)

    def _bind_at_once(self, claim: Claim, name: str) -> None:
        """Bind a claim as soon as it exists, where its class, or a volume that waits for it, says so."""
        if name not in self._bound and not self._bind_awaited(claim, name) and not claim.waits:
            # The controller looks at volumes of the fewest access modes first.
            best = min(
                self._unheld(self._all_fitting(claim)),
                key=lambda volume: (len(volume.modes), volume.size, volume.name),
                default=None,
            )
            if best is not None:
                self._bind(name, best.name)

    def _bind_awaited(self, claim: Claim, name: str) -> bool:
        """Whether a volume waits for a claim, which then gets it."""
        awaited = self._awaited.get(name)
        if awaited is None or not _is_like_asked(awaited, claim):
            return False
        self._bind(name, awaited.name)
        return True

    def _need(self, claim: Claim, name: str) -> VolumeNeed | None:
        """What a claim asks that has its volume, or should have it by now."""
        if name in self._wrong:
            return VolumeNeed((), bound=True, wrong=self._wrong[name])
        if name in self._bound:
            volume = self._volumes.get(self._bound[name])
            if volume is None:
                return VolumeNeed(claim.made, bound=True) if claim.made else None
            if volume.terms is None and not volume.zones:
                return None
            return VolumeNeed(volume.terms, bound=True, zones=volume.zones)
        if claim.waits or claim.made is None:
            return None
        return VolumeNeed(claim.made, bound=True)

    def _together(self, claims: Sequence[Claim]) -> VolumeNeed | None:
        """The nodes where each of these claims finds or gets a volume of its own."""
        ordered = sorted(claims, key=lambda claim: claim.size)
        names = tuple(node.name for at, node in enumerate(self._nodes) if self._have_room(ordered, at))
        if len(names) == len(self._nodes):
            return None
        terms = (NodeTerm(fields=(Requirement(_NAME, IN, names),)),) if names else ()
        return VolumeNeed(terms, bound=False)

    def _have_room(self, claims: Iterable[Claim], at: int) -> bool:
        """Whether each of these claims finds a volume of its own on a node (its position), or gets one."""
        chosen: set[str] = set()
        for claim in claims:
            best = self._smallest(claim, at, chosen)
            if best is not None:
                chosen.add(best.name)
            elif not _reaches(claim.made, self._nodes[at]):
                return False
        return True

    def _smallest(self, claim: Claim, at: int, chosen: AbstractSet[str]) -> Volume | None:
        """The smallest free volume that a claim could take on a node (a position) beside the chosen ones."""
        fitting = self._fitting_on(claim)[at]
        while fitting and fitting[-1].name in self._held:
            fitting.pop()
        return next((volume for volume in self._unheld(reversed(fitting)) if volume.name not in chosen), None)

    def _fitting_on(self, claim: Claim) -> list[list[Volume]]:
        """By node the free volumes that a claim could take there, the smallest last."""
        question = replace(claim, name="")
        by_node = self._reached.get(question)
        if by_node is None:
            largest_first = self._all_fitting(claim)[::-1]
            by_node = []
            for node in self._nodes:
                by_node.append([volume for volume in largest_first if _reaches(volume.terms, node)])
            self._reached[question] = by_node
        return by_node

    def _all_fitting(self, claim: Claim) -> list[Volume]:
        """The free volumes that a claim could take, wherever they are, the smallest first."""
        question = replace(claim, name="")
        fitting = self._fitting.get(question)
        if fitting is None:
            fitting = self._fitting[question] = [volume for volume in self._free if fits(volume, claim)]
        return fitting

    def _unheld(self, volumes: Iterable[Volume]) -> Iterator[Volume]:
        return (volume for volume in volumes if volume.name not in self._held)


def fits(volume: Volume, claim: Claim) -> bool:
    """Whether a claim could take a free volume, wherever that is."""
    return (
        _is_like_asked(volume, claim)
        and volume.storage_class == claim.storage_class
        and set(claim.modes) <= set(volume.modes)
        and (claim.selector is None or matches(claim.selector, dict(volume.labels)))
    )


def _is_like_asked(volume: Volume, claim: Claim) -> bool:
    """Whether a volume has the size and the mode (block or file system) that a claim asks for."""
    return volume.size >= claim.size and volume.block == claim.block


def _reaches(terms: tuple[NodeTerm, ...] | None, node: Node) -> bool:
    """Whether a node can reach what has these terms; without any (None) every node can."""
    return terms is None or any(term_holds(term, node) for term in terms)
