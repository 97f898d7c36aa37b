"""Clusters as kubectl printed them, in the world that is asked: real nodes, and what runs there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.importers.kubernetes_nodes import Observation
from nexusform.planning.plan import PlacementAction, Plan
from nexusform.planning.pods.observed import ObservedCluster, bind
from nexusform.planning.vms.nodes import NodeCluster


class Sight(Struct, frozen=True):
    """What kubectl printed of clusters, by id. Of the world after a plan, `remade` are the VMs that it
    removes or makes anew, and `planned` says that it has foretold the pods of its own workloads already.
    """

    clusters: Mapping[str, Observation] = field(default_factory=dict)
    remade: frozenset[str] = frozenset()
    planned: bool = False

    def bound(
        self, cluster_id: str, cluster: NodeCluster | None, own: Collection[str]
    ) -> ObservedCluster | None:
        """A cluster with its real nodes, and what was seen to run there; None where nobody looked. `own` are
        the keys of the workloads that objects of this configuration brought there.
        """
        observation = self.clusters.get(cluster_id)
        if observation is None:
            return None
        observed = bind(cluster_id, cluster, observation, self.remade)
        if not self.planned:
            return observed
        others = tuple(pod for pod in observed.standing if pod.workload not in own)
        return replace(observed, standing=others)


NOTHING_SEEN: Final = Sight()


def sight_after(plan: Plan, clusters: Mapping[str, Observation]) -> Sight:
    """What was seen of clusters before a plan, for the world after it."""
    remade: set[str] = set()
    for row in plan.placements:
        if row.kind == "vm" and row.action in (PlacementAction.REMOVE, PlacementAction.MOVE):
            remade |= {row.object, row.platform_name} - {""}
    return Sight(clusters, frozenset(remade), planned=True)
