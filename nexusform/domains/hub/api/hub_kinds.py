"""Where a hub serves the kinds of the fleet."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

PLACEMENT_GROUP: Final = "placement.kubernetes-fleet.io"
CLUSTER_GROUP: Final = "cluster.kubernetes-fleet.io"
VERSION: Final = "v1beta1"  # the one that every kind is served in


class HubKind(Struct, frozen=True):
    """A kind: its name, the plural in paths, and whether it stands in namespaces."""

    kind: str
    plural: str
    namespaced: bool
    group: str = PLACEMENT_GROUP

    @property
    def collection(self) -> str:
        """The path of all of them."""
        return f"/apis/{self.group}/{VERSION}/{self.plural}"

    def path(self, name: str, namespace: str = "", version: str = VERSION) -> str:
        """The path of one."""
        within = f"namespaces/{namespace}/" if self.namespaced else ""
        return f"/apis/{self.group}/{version}/{within}{self.plural}/{name}"


def _pair(kind: str, cluster_kind: str = "") -> tuple[HubKind, HubKind]:
    """A kind of the whole hub and its like of a namespace."""
    of_cluster = cluster_kind or f"Cluster{kind}"
    return (
        HubKind(of_cluster, _plural(of_cluster), namespaced=False),
        HubKind(kind, _plural(kind), namespaced=True),
    )


def _plural(kind: str) -> str:
    word = kind.lower()
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


WORK: Final = HubKind("Work", "works", namespaced=True)
MEMBER: Final = HubKind("MemberCluster", "memberclusters", namespaced=False, group=CLUSTER_GROUP)

# What a plan that goes on from a hub is read of.
READ: Final = (
    *_pair("ResourcePlacement"),
    *_pair("ResourceBinding"),
    *_pair("SchedulingPolicySnapshot"),
    *_pair("ResourceSnapshot"),
    *_pair("ResourceOverride"),
    *_pair("ResourceOverrideSnapshot"),
    HubKind(
        "ClusterResourcePlacementDisruptionBudget",
        "clusterresourceplacementdisruptionbudgets",
        namespaced=False,
    ),
    HubKind("ClusterResourcePlacementEviction", "clusterresourceplacementevictions", namespaced=False),
    *_pair("StagedUpdateStrategy"),
    *_pair("StagedUpdateRun"),
    *_pair("ApprovalRequest"),
    MEMBER,
)
KINDS: Final = {each.kind: each for each in (*READ, WORK)}
