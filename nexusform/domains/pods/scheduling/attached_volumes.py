"""Volumes of each CSI driver attached to nodes, and the limits of the drivers. Volumes of pods and attached volumes
without a pod count; a claim used by several pods of a node counts once. Source: kubernetes
pkg/scheduler/framework/plugins/nodevolumelimits/csi.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nexusform.domains.pods.scheduling.cluster_records import Cluster, PodSpec, VolumeNeed
from nexusform.domains.pods.scheduling.rules.volume_binding import TOO_MANY
from nexusform.domains.pods.scheduling.volume_binder import VolumeBinder, build_node_volume_need

# Driver and claim.
_Volume = tuple[str, str]


class AttachedVolumes:
    """Volumes on the nodes of a cluster."""

    def __init__(self, cluster: Cluster, binder: VolumeBinder) -> None:
        self._nodes, self._binder = cluster.nodes, binder
        self._maximums = cluster.attach_limits.maximums
        self._pod_volumes: dict[str, Counter[_Volume]] = {node.name: Counter() for node in cluster.nodes}
        self._attachments: dict[str, set[_Volume]] = {node.name: set() for node in cluster.nodes}
        for node, driver, claim in cluster.attach_limits.attachments:
            self._attachments.setdefault(node, set()).add((driver, claim))

    def update_attached_volumes(self, spec: PodSpec, number: int, node: str, sign: int) -> None:
        """Add the volumes of a pod to a node (sign 1), or remove them (sign -1)."""
        if self._maximums:
            for volume in self._list_volumes(spec, number):
                self._pod_volumes[node][volume] += sign

    def compute_need(self, spec: PodSpec, number: int) -> VolumeNeed | None:
        """Return the nodes with capacity for the volumes of a pod, None for all."""
        if not self._maximums or not (spec.claims or spec.bound_claims):
            return None
        volumes = set(self._list_volumes(spec, number))
        names = [node.name for node in self._nodes if self._has_capacity(node.name, volumes)]
        return None if len(names) == len(self._nodes) else build_node_volume_need(names, TOO_MANY)

    def _has_capacity(self, node: str, volumes: set[_Volume]) -> bool:
        pod_volumes = {volume for volume, count in self._pod_volumes[node].items() if count > 0}
        counts = Counter(driver for driver, _ in pod_volumes | self._attachments[node])
        for driver, count in Counter(driver for driver, _ in volumes - pod_volumes).items():
            maximum = self._maximums.get((node, driver))
            if maximum is not None and counts[driver] + count > maximum:
                return False
        return True

    def _list_volumes(self, spec: PodSpec, number: int) -> Iterator[_Volume]:
        for name, driver in spec.bound_claims:
            yield driver, name
        for claim in spec.claims:
            name = claim.format_name(number)
            driver = self._binder.find_driver(claim, name)
            if driver:
                yield driver, name
