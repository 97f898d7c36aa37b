"""VolumeRestrictions: a disk that pods name without a claim is on a node once, unless all only read it."""

from __future__ import annotations

from typing import Final

from nexusform.domains.pods.scheduling.board import Usage
from nexusform.domains.pods.scheduling.workloads import Disk, Node, PodSpec

REASON: Final = "node(s) had no available disk"


def refuse(pod: PodSpec, _node: Node, usage: Usage) -> str | None:
    """A reason when a pod on the node has one of the pod's disks."""
    if not pod.disks or not usage.disks:
        return None
    return REASON if any(_clash(a, b) for a in pod.disks for b in usage.disks) else None


def share(pod: PodSpec) -> bool:
    """Whether several pods of a spec can have its disks on one node."""
    return all(disk.read_only for disk in pod.disks)


def _clash(one: Disk, other: Disk) -> bool:
    return one.name == other.name and not (one.read_only and other.read_only)
