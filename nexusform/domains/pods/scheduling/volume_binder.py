"""Binding of PersistentVolumeClaims to volumes during a prediction.

A claim with WaitForFirstConsumer is bound with its pod's node: the smallest fitting
volume reachable from the node, else a provisioned one. Any other claim is bound as
soon as it exists. Source: kubernetes pkg/scheduler/framework/plugins/volumebinding,
FindMatchingVolume of component-helpers/storage/volume, and (by access modes,
immediate binding) pkg/controller/volume/persistentvolume.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import inf
from operator import attrgetter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.cluster_records import (
    HOSTNAME,
    Claim,
    Cluster,
    ExistingPod,
    Node,
    PodSpec,
    Volume,
    VolumeNeed,
)
from nexusform.domains.pods.scheduling.feature_gates import is_feature_enabled
from nexusform.domains.pods.scheduling.rules.node_affinity import is_any_term_satisfied
from nexusform.domains.pods.scheduling.rules.volume_binding import (
    NO_STORAGE,
    NO_VOLUME,
    NOT_INSTALLED,
    TOO_MANY,
)
from nexusform.kubernetes.matching import IN, NodeSelectorTerm, Requirement, is_selected

# Placeholder for the name of a volume provisioned by the class of the claim.
_PROVISIONED: Final = ""
_NAME: Final = "metadata.name"
# Driver and claim.
_Volume = tuple[str, str]
_PERCENT: Final = 100


class NodeVolumeChoice(Struct, frozen=True):
    """Volumes of a node for the claims of a pod.

    `shortage` is the reason if one of them gets none, else "". `points` are the score by the
    storage left. `is_ambiguous` means that the score depends on the order in which
    kube-scheduler reads storage.
    """

    shortage: str = ""
    points: int = 0
    is_ambiguous: bool = False


class VolumeBinder:
    """Claims of a cluster's pods and the volumes bound to them."""

    def __init__(self, cluster: Cluster, existing_pods: Iterable[ExistingPod] = ()) -> None:
        """Index the volumes of a cluster, and bind claims.

        The claims are those of existing pods, and those to bind at once.
        """
        self._nodes = cluster.nodes
        # If this is unknown, another prediction has it (`scores_storage` of a pod decides).
        self._scores_storage = (
            is_feature_enabled("StorageCapacityScoring", cluster.version) is not False
        )
        self._by_name = cluster.node_by_name
        self._volumes = {volume.name: volume for volume in cluster.volumes}
        self._prebound_volumes = {
            volume.claim: volume for volume in cluster.volumes if volume.claim
        }  # by claim
        free_volumes = [volume for volume in cluster.volumes if not volume.claim]
        self._free_volumes = sorted(free_volumes, key=lambda volume: (volume.size, volume.name))
        # Reason by claim.
        self._invalid_claims = dict(cluster.invalid_claims)
        # Name of the volume, or _PROVISIONED.
        self._volume_by_claim: dict[str, str] = {}
        self._used_volumes: set[str] = set()
        # Those with a volume provisioned in this prediction.
        self._provisioned_classes: set[str] = set()
        # By the requirements of a claim: the fitting free volumes, smallest first, and the
        # reachable ones of these by node. Used volumes are dropped on access.
        self._fitting_volumes: dict[Claim, list[Volume]] = {}
        self._reachable_volumes: dict[Claim, list[list[Volume]]] = {}
        self._bind_claims_of_existing_pods(existing_pods)
        self.bind_immediate_claims(cluster.claims)

    def _bind_claims_of_existing_pods(self, existing_pods: Iterable[ExistingPod]) -> None:
        """Bind the claims of existing pods: first those with a recorded volume.

        Another claim gets a volume if its pod has a node: one reserved or provisioned for it, or
        the smallest reachable one if its class provisions none.
        """
        pods_with_claims = [pod for pod in existing_pods if pod.volumes or pod.spec.claims]
        pods = sorted(pods_with_claims, key=attrgetter("key"))
        # All recorded volumes first: no other claim gets them.
        for pod in pods:
            for claim_name, volume in pod.volumes:
                self._bind_claim(claim_name, volume)
        for pod in pods:
            if not pod.node:
                # Its claims are bound once it has one.
                continue
            for claim in self._list_unbound_claims(pod.spec, pod.number):
                # (): the class never provisions a volume.
                is_provisioned = claim.provisioning_terms != ()
                if is_provisioned and not self._bind_prebound(claim):
                    self._bind_claim(claim.name, _PROVISIONED)
            # If the cluster has no such node any more.
            lost_node = Node(pod.node, {HOSTNAME: pod.node})
            node = self._by_name.get(pod.node, lost_node)
            self._bind_pod_claims_on_node(pod.spec, pod.number, node)

    def _bind_pod_claims_on_node(self, spec: PodSpec, number: int, node: Node) -> None:
        """Bind the unbound claims of a pod, smallest first.

        They get volumes reachable from its node, else new volumes.
        """
        for claim in sorted(self._list_unbound_claims(spec, number), key=attrgetter("size")):
            if not self._bind_prebound(claim):
                fitting = self._select_unused(self._list_fitting_volumes(claim))
                reachable_names = (
                    volume.name for volume in fitting if is_any_term_satisfied(volume.terms, node)
                )
                self._bind_claim(claim.name, next(reachable_names, _PROVISIONED))

    def _list_unbound_claims(self, spec: PodSpec, number: int) -> list[Claim]:
        """Return the claims of a pod without a volume."""
        return [
            claim for claim in spec.list_claims(number) if claim.name not in self._volume_by_claim
        ]

    def bind_immediate_claims(self, claims: Iterable[Claim]) -> None:
        """Bind claims to volumes reserved for them, and claims that do not wait for a node.

        Both are bound as soon as they exist.
        """
        for claim in claims:
            if (
                claim.name in self._volume_by_claim
                or self._bind_prebound(claim)
                or claim.waits_for_pod
            ):
                continue
            # The controller prefers volumes with the fewest access modes.
            volumes = self._select_unused(self._list_fitting_volumes(claim))
            best_volume = min(
                volumes,
                key=lambda volume: (len(volume.modes), volume.size, volume.name),
                default=None,
            )
            if best_volume is not None:
                self._bind_claim(claim.name, best_volume.name)

    def compute_volume_needs(self, spec: PodSpec, number: int) -> tuple[VolumeNeed, ...]:
        """Return the node requirements of a pod.

        There is one per bound claim, and one per shortage of volumes for others.
        """
        needs = list(chain.from_iterable(map(self._list_needs, spec.list_claims(number))))
        waiting_claims = [
            claim for claim in self._list_unbound_claims(spec, number) if claim.waits_for_pod
        ]
        if waiting_claims:
            choices = self._choose_volumes_by_node(waiting_claims)
            for reason in sorted({choice.shortage for choice in choices} - {""}):
                # The requirement rejects the nodes with this reason only, as each node is rejected
                # by its own one.
                names = [
                    node.name
                    for node, choice in zip(self._nodes, choices, strict=True)
                    if choice.shortage != reason
                ]
                needs.append(build_node_volume_need(names, reason))
            points = tuple(
                (node.name, choice.points)
                for node, choice in zip(self._nodes, choices, strict=True)
                if choice.points and not choice.shortage
            )
            if points and self._scores_storage:
                needs.append(VolumeNeed(terms=None, is_bound=False, points=points))
        return tuple(needs)

    def _choose_volumes_by_node(self, claims: Iterable[Claim]) -> list[NodeVolumeChoice]:
        """Return the volumes of each node for the claims of a pod, in the order of the nodes."""
        claims_by_size = sorted(claims, key=attrgetter("size"))
        return [self._choose_volumes(claims_by_size, at) for at in range(len(self._nodes))]

    def find_volume(self, claim: Claim) -> Volume | None:
        """Return the volume of a claim.

        The result is None if it is unbound, or provisioned without a record here.
        """
        return self._volumes.get(self._volume_by_claim.get(claim.name, _PROVISIONED))

    def is_storage_uncertain(self, spec: PodSpec, number: int) -> bool:
        """Return whether volumes of this prediction may use the free storage for a pod's claims.

        Volumes provisioned earlier count. So do several amounts of free storage for one node, if
        nodes are scored by them.
        """
        claims = self._list_unbound_claims(spec, number)
        if any(
            claim.storage_terms is not None and claim.storage_class in self._provisioned_classes
            for claim in claims
        ):
            return True
        scored_claims = [claim for claim in claims if claim.waits_for_pod and claim.free_storage]
        return self._scores_storage and any(
            choice.is_ambiguous for choice in self._choose_volumes_by_node(scored_claims)
        )

    def bind_on_node(self, spec: PodSpec, number: int, node: str) -> None:
        """Bind the claims of a pod to volumes on its node.

        The classes of provisioned volumes are recorded.
        """
        unbound_claims = self._list_unbound_claims(spec, number)
        self._bind_pod_claims_on_node(spec, number, self._by_name[node])
        for claim in unbound_claims:
            if self._volume_by_claim[claim.name] == _PROVISIONED:
                self._provisioned_classes.add(claim.storage_class)

    def list_bound_volumes(self, spec: PodSpec, number: int) -> tuple[tuple[str, str], ...]:
        """Return the claims of a pod bound to volumes of the cluster, not provisioned.

        They are pairs of a claim and its volume.
        """
        volumes: dict[str, str] = {}
        for claim in spec.list_claims(number):
            volume = self._volume_by_claim.get(claim.name)
            # Else unbound (None) or provisioned ("").
            if volume:
                volumes[claim.name] = volume
        return tuple(volumes.items())

    def _bind_claim(self, claim: str, volume: str) -> None:
        """Record the volume of a claim; no other claim gets it, unless it is to be provisioned."""
        self._volume_by_claim[claim] = volume
        if volume != _PROVISIONED:
            self._used_volumes.add(volume)

    def _bind_prebound(self, claim: Claim) -> bool:
        """Bind a claim to the volume reserved for it, and return whether there is one."""
        volume = self._prebound_volumes.get(claim.name)
        if volume is None or not _has_requested_size(volume, claim):
            # Kubernetes does not use one that is too small or of another mode either.
            return False
        self._bind_claim(claim.name, volume.name)
        return True

    def _list_needs(self, claim: Claim) -> Iterator[VolumeNeed]:
        """Yield the node requirement of a claim already bound or required to be bound by now.

        The class of a claim can provision a volume on the nodes of its `provisioning_terms`: None
        is every node, () none.
        """
        volume = self.find_volume(claim)
        if claim.name in self._invalid_claims:
            yield VolumeNeed(terms=(), is_bound=True, error=self._invalid_claims[claim.name])
        elif volume is not None:
            yield VolumeNeed(volume.terms, is_bound=True, zones=volume.zones)
        elif claim.name in self._volume_by_claim:
            # Its volume has no record here: provisioned by its class.
            # With () the nodes of its existing volume are unknown.
            if claim.provisioning_terms:
                yield VolumeNeed(claim.provisioning_terms, is_bound=True)
        elif not claim.waits_for_pod and claim.provisioning_terms is not None:
            # The claim is bound before its pod is scheduled.
            yield VolumeNeed(claim.provisioning_terms, is_bound=True)

    def _choose_volumes(self, claims: Sequence[Claim], at: int) -> NodeVolumeChoice:
        """Return the volumes of a node (by position) for the claims of a pod.

        Each claim takes the smallest free volume not taken by the claims before it. Without such a
        volume, its class must be able to provision one for the node, and the node must have the
        storage for it.
        """
        node = self._nodes[at]
        chosen_names: set[str] = set()
        # Requested and available bytes by StorageClass, of free volumes.
        static_amounts: dict[str, tuple[int, int]] = {}
        provisioned_claims: list[Claim] = []
        for claim in claims:
            # The smallest is last.
            volumes = self._list_reachable_volumes(claim)[at]
            while volumes and volumes[-1].name in self._used_volumes:
                # This shortens the cached list for later calls, too: a used volume is never free
                # again.
                volumes.pop()
            free_names = (volume.name for volume in self._select_unused(reversed(volumes)))
            smallest_name = next((name for name in free_names if name not in chosen_names), "")
            if smallest_name:
                chosen_names.add(smallest_name)
                requested, available = static_amounts.get(claim.storage_class, (0, 0))
                size = self._volumes[smallest_name].size
                static_amounts[claim.storage_class] = (requested + claim.size, available + size)
            elif not is_any_term_satisfied(claim.provisioning_terms, node):
                # The class provisions no volume for this node.
                return NodeVolumeChoice(NO_VOLUME)
            elif not is_any_term_satisfied(claim.storage_terms, node):
                # It does, but the node has too little free storage.
                return NodeVolumeChoice(NO_STORAGE)
            else:
                provisioned_claims.append(claim)
        if static_amounts:
            # Volumes to provision do not count beside free ones.
            return NodeVolumeChoice(points=score_storage(static_amounts.values()))
        return _score_provisioned_volumes(provisioned_claims, node)

    def _list_reachable_volumes(self, claim: Claim) -> list[list[Volume]]:
        """Return the free volumes for a claim by node, the smallest last.

        Used ones are popped from the end.
        """
        # Claims with equal requirements have the same volumes.
        requirements = replace(claim, name="")
        if requirements not in self._reachable_volumes:
            largest_first = self._list_fitting_volumes(claim)[::-1]
            self._reachable_volumes[requirements] = [
                [volume for volume in largest_first if is_any_term_satisfied(volume.terms, node)]
                for node in self._nodes
            ]
        return self._reachable_volumes[requirements]

    def _list_fitting_volumes(self, claim: Claim) -> list[Volume]:
        """Return the free volumes for a claim on any node, the smallest first."""
        # Claims with equal requirements have the same volumes.
        requirements = replace(claim, name="")
        if requirements not in self._fitting_volumes:
            fitting = [volume for volume in self._free_volumes if can_bind_volume(volume, claim)]
            self._fitting_volumes[requirements] = fitting
        return self._fitting_volumes[requirements]

    def _select_unused(self, volumes: Iterable[Volume]) -> Iterator[Volume]:
        return (volume for volume in volumes if volume.name not in self._used_volumes)


def build_node_volume_need(names: Iterable[str], reason: str) -> VolumeNeed:
    """Return the need for one of these nodes; other nodes are rejected with this reason."""
    values = tuple(names)
    terms = (NodeSelectorTerm(fields=(Requirement(_NAME, IN, values),)),) if values else ()
    return VolumeNeed(terms, is_bound=False, reason=reason)


def score_storage(amounts: Iterable[tuple[int, int]]) -> int:
    """Return the score of a node, 0 to 100, by the requested and available bytes per StorageClass.

    The score is the share left of each class, on average. It is that of the function
    buildScorerFunction of VolumeBinding with its default shape.
    """
    points = [
        _PERCENT - requested * _PERCENT // available if available and requested <= available else 0
        for requested, available in amounts
    ]
    # Rounded half up, as math.Round does for positive numbers.
    return (2 * sum(points) + len(points)) // (2 * len(points)) if points else 0


def _score_provisioned_volumes(claims: Iterable[Claim], node: Node) -> NodeVolumeChoice:
    """Return the score of a node by the free storage for the volumes of these claims.

    kube-scheduler uses the first CSIStorageCapacity with enough storage, in any order.
    """
    amounts: dict[str, tuple[int, int]] = {}
    is_ambiguous = False
    for claim in claims:
        sizes = {
            storage.size
            for storage in claim.free_storage
            if storage.term is None or is_any_term_satisfied((storage.term,), node)
        }
        is_ambiguous = is_ambiguous or len(sizes) > 1 or None in sizes
        known_sizes = [size for size in sizes if size is not None]
        if known_sizes:
            requested, _ = amounts.get(claim.storage_class, (0, 0))
            amounts[claim.storage_class] = (requested + claim.size, min(known_sizes))
    return NodeVolumeChoice(points=score_storage(amounts.values()), is_ambiguous=is_ambiguous)


def can_bind_volume(volume: Volume, claim: Claim) -> bool:
    """Return whether a free volume satisfies a claim, apart from its location."""
    return (
        _has_requested_size(volume, claim)
        and volume.storage_class == claim.storage_class
        and volume.attributes_class == claim.attributes_class
        and set(claim.modes) <= set(volume.modes)
        and (claim.selector is None or is_selected(claim.selector, dict(volume.labels)))
    )


def _has_requested_size(volume: Volume, claim: Claim) -> bool:
    """Return whether a volume has the size and the mode requested by a claim.

    Block or file system.
    """
    return volume.size >= claim.size and volume.is_block == claim.is_block


class AttachedVolumes:
    """Volumes of each CSI driver attached to nodes, and the limits of the drivers.

    Volumes of pods and attached volumes without a pod count; a claim used by several pods of a node
    counts once. Source: kubernetes pkg/scheduler/framework/plugins/nodevolumelimits/csi.go.
    """

    def __init__(self, cluster: Cluster, binder: VolumeBinder) -> None:
        """Record the volumes of VolumeAttachments by node; volumes of pods are added later."""
        self._nodes = cluster.nodes
        self._binder = binder
        # By node and driver.
        self._maximums = cluster.attach_limits.maximums
        self._installations = cluster.attach_limits.installations
        self._required_drivers = (
            cluster.attach_limits.required_drivers
            if is_feature_enabled("VolumeLimitScaling", cluster.version) is not False
            else frozenset()
        )
        # By node: the number of pods here with each volume, and the volumes
        # attached by VolumeAttachments.
        self._pod_volumes: defaultdict[str, Counter[_Volume]] = defaultdict(Counter)
        self._attachments: defaultdict[str, set[_Volume]] = defaultdict(set)
        for node, driver, claim in cluster.attach_limits.attachments:
            self._attachments[node].add((driver, claim))

    def update_attached_volumes(self, spec: PodSpec, number: int, node: str, sign: int) -> None:
        """Add the volumes of a pod to a node (sign 1), or remove them (sign -1)."""
        if self._maximums:
            for volume in self._list_volumes(spec, number):
                self._pod_volumes[node][volume] += sign

    def compute_needs(self, spec: PodSpec, number: int) -> tuple[VolumeNeed, ...]:
        """Return the needs for a node with the drivers and the capacity for the volumes of a pod.

        () if every node has them.
        """
        if not self._maximums and not self._required_drivers:
            # No known limit.
            return ()
        volumes = set(self._list_volumes(spec, number))
        # Names of the permitted nodes, by the reason against the others.
        nodes_by_reason = {
            f"{driver} {NOT_INSTALLED}": [
                node.name for node in self._nodes if self._can_have_driver(node, driver)
            ]
            for driver in sorted(self._required_drivers.intersection(name for name, _ in volumes))
        }
        nodes_by_reason[TOO_MANY] = [
            node.name for node in self._nodes if self._has_capacity(node.name, volumes)
        ]
        return tuple(
            build_node_volume_need(names, reason)
            for reason, names in nodes_by_reason.items()
            if len(names) < len(self._nodes)
        )

    def needs_installed_driver(self, spec: PodSpec, number: int) -> bool:
        """Return whether a pod has volumes of a driver that must be installed on its node."""
        if not self._required_drivers:
            return False
        drivers = {driver for driver, _ in self._list_volumes(spec, number)}
        return not drivers.isdisjoint(self._required_drivers)

    def _can_have_driver(self, node: Node, driver: str) -> bool:
        """Return whether a driver is installed on a node, or may be once the node has a kubelet."""
        return (node.name, driver) in self._installations or node.declared_features is None

    def _has_capacity(self, node: str, volumes: set[_Volume]) -> bool:
        """Return whether a node can attach the volumes within the limits of their drivers.

        Each counts once for all pods.
        """
        # Those with a positive count.
        pod_volumes = set(+self._pod_volumes[node])
        attached_counts = Counter(driver for driver, _ in pod_volumes | self._attachments[node])
        added_counts = Counter(driver for driver, _ in volumes - pod_volumes)
        return all(
            attached_counts[driver] + added_count <= self._maximums.get((node, driver), inf)
            for driver, added_count in added_counts.items()
        )

    def _list_volumes(self, spec: PodSpec, number: int) -> Iterator[_Volume]:
        """Yield the volumes of a pod (driver and claim).

        Volumes without a CSI driver do not count.
        """
        for name, driver in spec.bound_claims:
            yield driver, name
        for claim in spec.list_claims(number):
            volume = self._binder.find_volume(claim)
            # `claim.driver`: that of its class.
            driver = claim.driver if volume is None else volume.driver
            if driver:
                yield driver, claim.name
