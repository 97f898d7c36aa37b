"""VolumeBinding, VolumeZone and VolumeRestrictions: nodes from which a pod's volumes can be reached."""

from __future__ import annotations

from typing import Final

from nexusform.domains.pods.scheduling.counts import Counts
from nexusform.domains.pods.scheduling.rules.node_affinity import term_holds
from nexusform.domains.pods.scheduling.workloads import Node, PodSpec

CONFLICT: Final = "node(s) had volume node affinity conflict"
NONE_LEFT: Final = "node(s) didn't find available persistent volumes to bind"
UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
IN_USE: Final = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"


def refuse(pod: PodSpec, node: Node) -> str | None:
    """A reason when a volume that stands cannot be reached, should stand by now, or cannot be found here."""
    for volume in pod.volumes:
        if not any(term_holds(term, node) for term in volume.terms):
            if not volume.bound:
                return NONE_LEFT
            return CONFLICT if volume.terms else UNBOUND
    return None


def in_use(counts: Counts, _: int) -> str | None:
    """A reason when another pod has a claim that only one pod may use."""
    spec = counts.group.spec
    return IN_USE if counts.board.claimed(spec) else None
