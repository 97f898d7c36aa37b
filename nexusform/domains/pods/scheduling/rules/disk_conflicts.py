"""VolumeRestrictions: a disk named without a claim is on a node once, unless all its pods only read it."""

from __future__ import annotations

from typing import Final

from nexusform.domains.pods.scheduling.cluster_records import Node, PodSpec
from nexusform.domains.pods.scheduling.scheduler_cache import NodeUsage

REASON: Final = "node(s) had no available disk"


def find_rejection(pod: PodSpec, _node: Node, usage: NodeUsage) -> str | None:
    """Return a reason if a pod on the node has one of the pod's disks."""
    if not pod.disks or not usage.disks:
        return None
    return (
        REASON
        if any((a.name == b.name and (not (a.is_read_only and b.is_read_only))) for a in pod.disks for b in usage.disks)
        else None
    )


def can_share_disks(pod: PodSpec) -> bool:
    """Return whether several pods of a spec can have its disks on one node."""
    return all(disk.is_read_only for disk in pod.disks)
