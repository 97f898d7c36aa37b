"""VolumeBinding, VolumeZone, VolumeRestrictions, NodeVolumeLimits and DynamicResources.

They select the nodes with access to the volumes and devices of a pod.
"""

from typing import Final

from nexusform.domains.pods.scheduling.cluster_records import REGION, ZONE, Node, PodSpec
from nexusform.domains.pods.scheduling.rules.node_affinity import is_any_term_satisfied
from nexusform.domains.pods.scheduling.topology_counts import TopologyCounts

CONFLICT: Final = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME: Final = "node(s) didn't find available persistent volumes to bind"
NO_STORAGE: Final = "node(s) did not have enough free storage"
TOO_MANY: Final = "node(s) exceed max volume count"
# After the name of the driver.
NOT_INSTALLED: Final = "CSI driver is not installed on the node"
LIMIT_REASONS: Final = (NOT_INSTALLED, TOO_MANY)
NO_DEVICES: Final = "cannot allocate all claims"
UNAVAILABLE_CLAIM: Final = "resourceclaim not available on the node"
DEVICE_REASONS: Final = (NO_DEVICES, UNAVAILABLE_CLAIM)
_OTHER_RULES: Final = (*LIMIT_REASONS, *DEVICE_REASONS)
OTHER_ZONE: Final = "node(s) had no available volume zone"
UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
IN_USE: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)
# Zone and region labels of volumes and nodes, each with its current name.
ZONE_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    ZONE: ZONE,
    REGION: REGION,
}


def find_pod_rejection(pod: PodSpec) -> str | None:
    """Return a reason if a claim is missing, or no node reaches a required volume.

    No node is checked.
    """
    reasons = [*pod.missing_objects]
    for volume in pod.volumes:
        # Before its pod is scheduled.
        must_exist = volume.is_bound
        # (): no node reaches it.
        if must_exist and volume.terms == ():
            reasons.append(volume.error or UNBOUND)
    return min(reasons, key=_rank_volume_reason, default=None)


def _rank_volume_reason(reason: str) -> int:
    """Return the position of a reason in the order of the scheduler's checks."""
    if reason.startswith("persistentvolumeclaim "):
        return 0 if reason.endswith(" not found") else 1
    return 2 if reason == UNBOUND else 3


def find_rejection(pod: PodSpec, node: Node) -> str | None:
    """Return the reasons if a volume cannot be used from the node, else None.

    The volume is unreachable from the node, or cannot be provisioned there.
    """
    reasons: set[str] = set()
    for volume in pod.volumes:
        if volume.reason.endswith(_OTHER_RULES):
            # Needs for attach limits and devices have filters of their own.
            continue
        if not is_any_term_satisfied(volume.terms, node):
            default_reason = CONFLICT if volume.is_bound else NO_VOLUME
            reasons.add(volume.reason or default_reason)
    return ", ".join(sorted(reasons)) or None


def find_unsatisfied_need(pod: PodSpec, node: Node, *, reasons: tuple[str, ...]) -> str | None:
    """Return the reason of the first need not satisfied by the node.

    Only needs with these reasons count, or with reasons that end with one of them.
    """
    for need in pod.volumes:
        if need.reason.endswith(reasons) and not is_any_term_satisfied(need.terms, node):
            return need.reason
    return None


def find_zone_rejection(pod: PodSpec, node: Node) -> str | None:
    """Return a reason if a volume's labels name another zone or region, else None.

    The comparison is with the node's labels.
    """
    if ZONE_LABELS.keys().isdisjoint(node.labels):
        # The kube-scheduler skips nodes without a zone or region.
        return None
    for volume in pod.volumes:
        for zone in volume.zones:
            # Without the older label, the current one counts.
            node_zone = node.labels.get(zone.key, node.labels.get(ZONE_LABELS[zone.key]))
            if node_zone not in zone.values:
                return OTHER_ZONE
    return None


def score_storage(pod: PodSpec, node: Node) -> int:
    """Return the score of a node by the storage left on it for the claims of a pod."""
    return sum(dict(need.points).get(node.name, 0) for need in pod.volumes if need.points)


def is_scored_by_storage(pod: PodSpec) -> bool:
    """Return whether some node has a score by the storage left on it."""
    return pod.scores_storage and any(need.points for need in pod.volumes)


def find_used_claim_rejection(counts: TopologyCounts, _: int) -> str | None:
    """Return a reason if another pod uses a ReadWriteOncePod claim of the pod."""
    return IN_USE if counts.cache.has_claim_conflict(counts.group.spec) else None
