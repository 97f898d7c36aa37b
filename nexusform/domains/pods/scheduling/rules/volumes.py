"""VolumeBinding, VolumeZone and VolumeRestrictions: nodes from which a pod's volumes can be reached."""

from __future__ import annotations

from typing import Final

from nexusform.domains.pods.scheduling.counts import Counts
from nexusform.domains.pods.scheduling.rules.node_affinity import term_holds
from nexusform.domains.pods.scheduling.workloads import REGION, ZONE, Node, PodSpec
from nexusform.kubernetes.matching import Requirement

CONFLICT: Final = "node(s) didn't match PersistentVolume's node affinity"
NONE_LEFT: Final = "node(s) didn't find available persistent volumes to bind"
OTHER_ZONE: Final = "node(s) had no available volume zone"
UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
IN_USE: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
    "another pod"
)
# Labels of volumes and nodes that say where they are, each with the one that has taken its place.
ZONE_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    ZONE: ZONE,
    REGION: REGION,
}


def lacking(pod: PodSpec) -> str | None:
    """A reason why no node is looked for: a claim that is not there, or has no volume when it should."""
    wrong = [*pod.unmet]
    wrong += [volume.wrong or UNBOUND for volume in pod.volumes if volume.bound and volume.terms == ()]
    return min(wrong, key=_turn, default=None)


def _turn(reason: str) -> int:
    """When the scheduler comes to look for this: claims that are not there, those that have lost theirs,
    those without a volume, volumes that are not there.
    """
    if reason.startswith("persistentvolumeclaim "):
        return 0 if reason.endswith(" not found") else 1
    return 2 if reason == UNBOUND else 3


def refuse(pod: PodSpec, node: Node) -> str | None:
    """The reasons when a volume that stands cannot be reached, or none can be found or made here."""
    reasons: dict[str, None] = {}
    for volume in pod.volumes:
        if volume.terms is not None and not any(term_holds(term, node) for term in volume.terms):
            reasons[CONFLICT if volume.bound else NONE_LEFT] = None
    return ", ".join(sorted(reasons)) or None


def outside(pod: PodSpec, node: Node) -> str | None:
    """A reason when the labels of a volume say that it is in another zone than a node that has one."""
    if not any(label in node.labels for label in ZONE_LABELS):
        return None
    for volume in pod.volumes:
        if not all(_is_there(zone, node) for zone in volume.zones):
            return OTHER_ZONE
    return None


def _is_there(zone: Requirement, node: Node) -> bool:
    value = node.labels.get(zone.key, node.labels.get(ZONE_LABELS[zone.key]))
    return value in zone.values


def in_use(counts: Counts, _: int) -> str | None:
    """A reason when another pod has a claim that only one pod may use."""
    spec = counts.group.spec
    return IN_USE if counts.board.claimed(spec) else None
