"""What stands on every cluster while a plan is made: nodes, pods, and the objects that bring them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nexusform.demands import ClaimDemand
from nexusform.diagnostics import Problem
from nexusform.domains.pods.importers.kubernetes_admission import read_budgets, read_quotas
from nexusform.domains.pods.importers.kubernetes_claims import asked_claims
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest
from nexusform.domains.pods.importers.kubernetes_volumes import read_offer
from nexusform.domains.pods.planning.brought import Brought, PodKey, PriorPods, prior_workloads, specs_of
from nexusform.domains.pods.planning.claimed import Claims, demand_after, demand_of
from nexusform.domains.pods.planning.disruptions import as_stated
from nexusform.domains.pods.planning.nodes import NodeCluster
from nexusform.domains.pods.planning.observed import ObservedCluster, stand_where_seen
from nexusform.domains.pods.planning.templates import replaced_since
from nexusform.domains.pods.scheduling.workloads import Cluster, PodSpec, StandingPod

# Who brings pods (the address of a hub manifest or a placement, as text) and to which cluster (its id).
Key = tuple[str, str]
_Named = tuple[str, str, str, str]


class ClusterPods:
    """The clusters of one plan, with the pods that stand there and those that are placed. A name is a
    cluster's id or, through `members`, a member's name.
    """

    def __init__(
        self,
        clusters: Mapping[str, NodeCluster],
        prior: Iterable[PriorPods] = (),
        members: Mapping[str, str] | None = None,
        others: Iterable[PriorPods] = (),
        observed: Mapping[str, ObservedCluster] | None = None,
    ) -> None:
        self.clusters = clusters
        self.members: Mapping[str, str] = members if members is not None else {}
        self.findings: list[tuple[str, Problem]] = []
        self._brought: dict[Key, Brought] = {}
        self._brought_on: dict[str, dict[Key, Brought]] = {}  # the same by cluster id
        self._clusters_of: dict[str, set[str]] = {}  # by object, of what is brought
        self._standing: dict[str, dict[PodKey, StandingPod]] = {}
        # By cluster id, pods of state whose nodes this plan makes, until they are placed again.
        self._lost: dict[str, frozenset[PodKey]] = {}
        # Objects whose pods were evicted for those of others, since they were looked at.
        self._disturbed: set[Key] = set()
        self._forgotten: set[str] = set()  # addresses of objects whose pods run on
        # By cluster id, the namespaces of what stands there beside the objects of this plan.
        self._namespaces: dict[str, set[str]] = {}
        # What objects brought that this plan neither looks at (-target) nor takes away.
        self._left_alone: dict[Key, set[str]] = {}
        objects = list(prior)
        self._prior = {(each.address, each.cluster_id): each for each in objects}
        self._prior_on: dict[str, list[PriorPods]] = {}
        for each in self._prior.values():
            self._prior_on.setdefault(each.cluster_id, []).append(each)
        # By cluster id and workload.
        self._made_of = prior_workloads(objects)
        for each in objects:
            self._stand(each, specs_of(self._made_of[each.cluster_id]))
            self._left_alone[each.address, each.cluster_id] = namespaces_of(each.manifests)
        self._stand_beside(list(others))
        self._observed: Mapping[str, ObservedCluster] = observed or {}
        # Pods that run for certain, by cluster id and workload; state is told what becomes of them.
        self._facts = {
            cluster_id: self._stand_there(cluster_id, seen) for cluster_id, seen in self._observed.items()
        }

    def _stand(self, prior: PriorPods, specs: Mapping[str, PodSpec]) -> None:
        brought = self._bringing(prior.address, prior.cluster_id)
        standing = self._standing.setdefault(prior.cluster_id, {})
        pods = list(brought.stand(prior, specs))
        standing.update({(pod.workload, pod.number): pod for pod in pods})
        self._lose(prior.cluster_id, pods)

    def _lose(self, cluster_id: str, pods: Iterable[StandingPod]) -> None:
        """Note which pods are lost with their nodes, which this plan makes. It may make such a node for the
        first time: its cluster was forgotten, and comes back elsewhere.
        """
        cluster = self.clusters.get(cluster_id)
        if cluster is None:
            return
        made = cluster.fresh | cluster.new
        lost = {(pod.workload, pod.number) for pod in pods if pod.node in made}
        self._lost[cluster_id] = self._lost.get(cluster_id, frozenset()) | lost

    def _stand_beside(self, others: Sequence[PriorPods]) -> None:
        """Let pods of other states stand: they take room, and only pods that evict them move them."""
        made_of = prior_workloads(others)
        for each in others:
            standing = self._standing.setdefault(each.cluster_id, {})
            self._namespaces.setdefault(each.cluster_id, set()).update(namespaces_of(each.manifests))
            for _, pod in each.standing(specs_of(made_of[each.cluster_id])):
                standing.setdefault((pod.workload, pod.number), pod)

    def _stand_there(self, cluster_id: str, observed: ObservedCluster) -> dict[str, list[StandingPod]]:
        """Let pods stand where they were seen, beside those that state foretells."""
        namespaces = self._namespaces.setdefault(cluster_id, set())
        namespaces |= {pod.spec.namespace for pod in observed.standing} | namespaces_of(observed.objects)
        standing = self._standing.setdefault(cluster_id, {})
        own = self._brought_on.get(cluster_id, {}).values()
        is_past = replaced_since(own, self._made_of.get(cluster_id, {}), is_whole=observed.is_whole)
        facts = stand_where_seen(standing, observed.standing, observed.cluster.by_name, is_past)
        seen = {(pod.workload, pod.number) for of_workload in facts.values() for pod in of_workload}
        self._lost[cluster_id] = self._lost.get(cluster_id, frozenset()) - seen
        return facts

    def _bringing(self, address: str, cluster_id: str) -> Brought:
        """What an object brings to a cluster, nothing at first."""
        self._clusters_of.setdefault(address, set()).add(cluster_id)
        key = (address, cluster_id)
        if key not in self._brought:
            self._brought[key] = Brought()
            self._brought_on.setdefault(cluster_id, {})[key] = self._brought[key]
        return self._brought[key]

    def requests(self, cluster_name: str) -> tuple[int, int]:
        """What the pods with a node on a cluster ask for: thousandths of a CPU, and bytes."""
        cluster_id = self.members.get(cluster_name, cluster_name)
        standing = self._standing.get(cluster_id, {}).values()
        requests = [pod.spec.requests for pod in standing if pod.node]
        return sum(each.cpu for each in requests), sum(each.memory for each in requests)

    def _nodes(self, cluster_id: str) -> dict[PodKey, str]:
        return {key: pod.node for key, pod in self._standing.get(cluster_id, {}).items()}

    def _model(self, cluster: NodeCluster) -> Cluster:
        manifests = self._manifests_on(cluster.id)
        namespaces = {
            manifest.name: manifest.labels
            for manifest in manifests
            if (manifest.group, manifest.kind) == ("", "Namespace")
        }
        offer = read_offer(manifests, is_whole=self._is_whole(cluster.id))
        observed = self._observed.get(cluster.id)
        return Cluster(
            name=cluster.name,
            nodes=cluster.nodes,
            namespaces=namespaces,
            quotas=read_quotas(manifests),
            budgets=as_stated(read_budgets(manifests), observed),
            volumes=offer.volumes,
            claims=offer.claims,
            wrong=offer.wrong,
            promised=observed.promised if observed is not None else (),
            version=cluster.version,
        )

    def _manifests_on(self, cluster_id: str) -> list[Manifest]:
        manifests: list[Manifest] = []
        known: set[_Named] = set()
        for key, brought in self._brought_on.get(cluster_id, {}).items():
            manifests += brought.manifests
            prior = self._prior.get(key)
            known.update(map(_name_of, brought.manifests))
            known.update(map(_name_of, prior.manifests if prior is not None else ()))
        observed = self._observed.get(cluster_id)
        # What this plan brings or takes away is as it says, not as kubectl saw it.
        seen = observed.objects if observed is not None else ()
        return [*manifests, *(each for each in seen if _name_of(each) not in known)]

    def _is_whole(self, cluster_id: str) -> bool:
        """Whether there is nothing on a cluster that decides about pods but what is known."""
        observed = self._observed.get(cluster_id)
        return observed is None or observed.is_whole

    # --- what is claimed of storage ---

    def claimed(self) -> dict[str, tuple[ClaimDemand, ClaimDemand]]:
        """What is claimed on each cluster that anything is known of (its id), before this plan and after."""
        known = self._brought_on.keys() | self._observed.keys()
        return {cluster_id: self._claimed_on(cluster_id) for cluster_id in sorted(known)}

    def _claimed_on(self, cluster_id: str) -> tuple[ClaimDemand, ClaimDemand]:
        observed = self._observed.get(cluster_id)
        of_state = self._prior_on.get(cluster_id, [])
        brought = self._brought_on.get(cluster_id, {})
        prior: dict[_Named, Manifest] = {}
        for each in of_state:
            prior.update((_name_of(manifest), manifest) for manifest in each.manifests)
        # What kubectl saw is how it is.
        prior.update((_name_of(each), each) for each in (observed.objects if observed is not None else ()))
        pods_before: dict[str, int] = {}
        for each in of_state:
            pods_before |= {key: len(standing) for key, standing in each.workloads.items()}
        manifests = [*self._manifests_on(cluster_id), *self._running_on(brought)]
        pods_after = dict(pods_before)
        for each_brought in brought.values():
            pods_after |= {each.key: len(each_brought.of(each.key)) for each in each_brought.workloads}
        before = self._claims(list(prior.values()), pods_before, observed)
        after = self._claims(manifests, pods_after, observed)
        stateful = {(each.namespace, each.name) for each in manifests if each.kind == "StatefulSet"}
        gone = namespaces_of(prior.values()) - namespaces_of(manifests)
        return demand_of(before), demand_after(before, after, stateful, gone)

    def _claims(
        self, manifests: Sequence[Manifest], pods: Mapping[str, int], observed: ObservedCluster | None
    ) -> Claims:
        objects = observed.objects if observed is not None else ()
        seen = {(each.namespace, each.name) for each in objects if each.kind == "PersistentVolumeClaim"}
        return asked_claims(manifests, pods, seen, is_whole=observed is not None and observed.is_whole)

    def _running_on(self, brought: Mapping[Key, Brought]) -> list[Manifest]:
        """The objects of state that run on without being brought: they are not looked at, or forgotten."""
        manifests: list[Manifest] = []
        for key, each in brought.items():
            prior = self._prior.get(key)
            runs_on = key in self._left_alone or key[0] in self._forgotten
            if prior is not None and runs_on and not each.manifests:
                manifests += prior.manifests
        return manifests


def _name_of(manifest: Manifest) -> _Named:
    return (manifest.group, manifest.kind, manifest.namespace, manifest.name)


def namespaces_of(manifests: Iterable[Manifest]) -> set[str]:
    """The namespaces among some objects."""
    return {each.name for each in manifests if (each.group, each.kind) == ("", "Namespace")}
