"""What stays as an earlier nexusform foretold it: the pods of a cluster of which nothing else is asked.

A forecast is made by rules that become better. State notes by which edition of them each one was made; one of
an earlier edition is a fact of state until something on its cluster changes (docs/decisions/0030).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from nexusform.domains.pods.importers.kubernetes_manifests import Manifest, fingerprint
from nexusform.domains.pods.planning.brought import PriorPods
from nexusform.domains.pods.planning.nodes import NodeCluster, standing_clusters
from nexusform.domains.pods.scheduling.profile import EDITION
from nexusform.planning.instances.blocks import Blocks
from nexusform.planning.vms.sites import Thing

# In the private note of an object that brings pods: by which edition they were foretold, on which clusters.
FORETOLD: Final = "foretold"


def edition_note(cluster_ids: Iterable[str]) -> dict[str, Any]:
    """The note that today's rules have foretold the pods on these clusters."""
    return {FORETOLD: {"edition": EDITION, "clusters": sorted(cluster_ids)}}


def is_current(note: Mapping[str, Any] | None, cluster_id: str) -> bool:
    """Whether today's rules have foretold an object's pods on a cluster."""
    made = (note or {}).get(FORETOLD) or {}
    return made.get("edition") == EDITION and cluster_id in made.get("clusters", ())


def identity(manifest: Manifest) -> str:
    """What an object says, wherever it is written."""
    return fingerprint((manifest,))


def clusters_as_recorded(
    blocks: Blocks, prior: Sequence[PriorPods], clusters: Mapping[str, NodeCluster]
) -> set[str]:
    """The clusters (`clusters` are those of the plan) whose nodes are as they were when an earlier edition
    foretold all their pods.
    """
    current = {prior_pods.cluster_id for prior_pods in prior if prior_pods.current}
    cluster_ids = dict.fromkeys(prior_pods.cluster_id for prior_pods in prior)
    earlier = [cluster_id for cluster_id in cluster_ids if cluster_id not in current]
    clusters_before = _clusters_of_state(blocks) if earlier else {}
    same: set[str] = set()
    for cluster_id in earlier:
        cluster = clusters.get(cluster_id)
        if cluster is not None and not (cluster.fresh or cluster.new):
            prior_cluster = clusters_before.get(cluster_id, cluster)
            if (prior_cluster.nodes, prior_cluster.seed) == (cluster.nodes, cluster.seed):
                same.add(cluster_id)
    return same


def _clusters_of_state(blocks: Blocks) -> dict[str, NodeCluster]:
    request = blocks.request
    things = [
        Thing(address, instance.current.attributes, instance.current.creation, instance.current.private)
        for address, instance in blocks.prior.instances.items()
        if instance.current is not None
    ]
    return standing_clusters(things, request.registries, request.state.catalogue)
