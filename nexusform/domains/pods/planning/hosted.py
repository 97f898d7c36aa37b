"""The pods that a state has on VMs, and what they claim of storage."""

from __future__ import annotations

from collections.abc import Mapping

from nexusform.address import Address
from nexusform.demands import ClaimDemand
from nexusform.domains.pods.importers.kubernetes_claims import asked_claims
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest
from nexusform.domains.pods.importers.kubernetes_workloads import workloads_of
from nexusform.domains.pods.planning.blocks import prior_members, prior_pods
from nexusform.domains.pods.planning.claimed import demand_of
from nexusform.domains.pods.planning.rows import read_note
from nexusform.planning.phases import HostedWorkload
from nexusform.ports import Registries
from nexusform.state.objects import InstanceState, State


def hosted_in_state(state: State, registries: Registries) -> list[HostedWorkload]:
    """The pods that state has on nodes, with the labels of the workloads that they came of."""
    hosted: list[HostedWorkload] = []
    for brought in prior_pods(state.instances, registries, prior_members(state.instances, registries)):
        specs = {workload.key: workload.pod for workload in workloads_of(brought.manifests).workloads}
        for key, standing in brought.workloads.items():
            spec = specs.get(key)
            if spec is None:
                continue
            nodes = {name: read_note(values).node for name, values in standing.items()}
            labels = dict(spec.labels)
            hosted += [
                HostedWorkload(brought.cluster_id, node, spec.namespace, name, labels)
                for name, node in nodes.items()
                if node
            ]
    return hosted


def claimed_in_state(
    instances: Mapping[Address, InstanceState], registries: Registries
) -> dict[str, ClaimDemand]:
    """What is claimed on each cluster by what stands there; which claims have a volume, no state says."""
    manifests: dict[str, list[Manifest]] = {}
    pods: dict[str, dict[str, int]] = {}
    for brought in prior_pods(instances, registries, prior_members(instances, registries)):
        manifests.setdefault(brought.cluster_id, []).extend(brought.manifests)
        of_cluster = pods.setdefault(brought.cluster_id, {})
        for key, standing in brought.workloads.items():
            of_cluster[key] = len(standing)
    return {
        cluster_id: demand_of(asked_claims(objects, pods[cluster_id]))
        for cluster_id, objects in manifests.items()
    }
